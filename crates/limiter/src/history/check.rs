//! Whether a store could count limits, before anything is registered.

use super::{History, VERSIONS_MAX, VersionData};
use crate::{LimitError, NamedLimit};

impl<D: VersionData> History<D> {
    /// Could a store count these limits, and hold them if it held nothing else? Nothing is registered.
    ///
    /// # Errors
    /// Why it could not.
    pub fn check_all(&self, limits: &[NamedLimit<'_>]) -> Result<(), LimitError> {
        limits.iter().try_for_each(|named| D::check(named.name, &named.limit))?;
        if limits.len() <= VERSIONS_MAX as usize {
            Ok(())
        } else {
            Err(LimitError::TooMany { max: VERSIONS_MAX })
        }
    }
}

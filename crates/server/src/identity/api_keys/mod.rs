//! API keys: which key a request has sent, and whom it stands for.
//!
//! Only hashes of keys are kept. A key has 256 random bits, so a plain SHA-256 is enough: nobody can try all keys, and the
//! slow hashes that protect passwords would only make each request slower.

pub(crate) mod create;
pub(crate) mod file;

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use sha2::{Digest, Sha256};
use tidegate::Nanos;
use tidegate_policy::{IdentityFault, KeyHolder, QueryFault, single_query_value};

use crate::bounds::API_KEY_BYTES_MAX;
use crate::serve::reload::policy_file;
use crate::settings::{ApiKeySettings, KeyPlace, UnknownKeys};
use file::{ApiKeyHash, KeyFile};

/// The known API keys, and what happens to requests with others.
pub(super) struct ApiKeys {
    settings: ApiKeySettings,
    file: ArcSwap<KeyFile>,
}

/// Why the file of API keys cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// It cannot be read.
    #[error(
        "api_keys.file: cannot read {}: {error}; `tidegate key create --file {}` makes it", .file.display(), .file.display()
    )]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The error.
        error: std::io::Error,
    },
    /// It is not a valid file of keys.
    #[error("api_keys.file: {problems}")]
    Invalid {
        /// Its problems, with their positions.
        problems: String,
    },
}

/// What is known of the API key of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyStatus {
    /// It is valid.
    Valid,
    /// It is not in the file.
    Unknown,
    /// It has expired.
    Expired,
    /// It is disabled.
    Disabled,
}

impl KeyStatus {
    /// All of them, in the order of their discriminants.
    pub const ALL: [KeyStatus; 4] =
        [KeyStatus::Valid, KeyStatus::Unknown, KeyStatus::Expired, KeyStatus::Disabled];

    /// Its name in metrics and logs. Responses do not reveal it.
    pub const fn as_str(self) -> &'static str {
        match self {
            KeyStatus::Valid => "valid",
            KeyStatus::Unknown => "unknown",
            KeyStatus::Expired => "expired",
            KeyStatus::Disabled => "disabled",
        }
    }
}

/// The result of looking a key up.
#[derive(Clone, Debug)]
pub(super) struct CheckedKey {
    pub(super) status: KeyStatus,
    /// Whom it stands for, if it is valid.
    pub(super) holder: Option<Arc<KeyHolder>>,
    /// Is the request denied?
    pub(super) denied: bool,
}

/// The hash of an API key.
pub(crate) fn hash(key: &[u8]) -> ApiKeyHash {
    Sha256::digest(key).into()
}

impl ApiKeys {
    pub(super) fn load(settings: &ApiKeySettings) -> Result<ApiKeys, KeyFileError> {
        let file = ArcSwap::from_pointee(read(settings)?);
        Ok(ApiKeys { settings: settings.clone(), file })
    }

    /// Reads the file again.
    pub(super) fn reload(&self) -> Result<(), KeyFileError> {
        self.file.store(Arc::new(read(&self.settings)?));
        Ok(())
    }

    /// Where requests have their key.
    pub(super) fn place(&self) -> &KeyPlace {
        &self.settings.from
    }

    /// The key that a request has sent. An empty one counts as none.
    ///
    /// # Errors
    /// When it has sent two different keys: it must not choose which of them counts here, and which behind the proxy.
    pub(super) fn presented<'h>(
        &self,
        headers: impl Iterator<Item = (&'h str, &'h [u8])>,
        query: Option<&'h str>,
    ) -> Result<Option<Cow<'h, [u8]>>, IdentityFault> {
        let twice = || IdentityFault {
            source: self.settings.from.to_string(),
            why: "was sent more than once, with different values",
        };
        let found = match &self.settings.from {
            KeyPlace::Header(name) => {
                let mut values = headers.filter(|(known, _)| known.eq_ignore_ascii_case(name));
                let first = values.next().map(|(_, value)| value.trim_ascii());
                if values.any(|(_, other)| Some(other.trim_ascii()) != first) {
                    return Err(twice());
                }
                first.map(Cow::Borrowed)
            }
            KeyPlace::Query(name) => match single_query_value(query.unwrap_or_default(), name) {
                Ok(Some(Cow::Borrowed(key))) => Some(Cow::Borrowed(key.as_bytes())),
                Ok(Some(Cow::Owned(key))) => Some(Cow::Owned(key.into_bytes())),
                Ok(None) => None,
                Err(QueryFault::Contradiction) => return Err(twice()),
                // No key has such bytes: it is looked up and not found.
                Err(QueryFault::NotUtf8) => Some(Cow::Borrowed(&b"\xff"[..])),
            },
        };
        Ok(found.filter(|key| !key.is_empty()))
    }

    /// Looks a key up.
    pub(super) fn check(&self, key: &[u8], now: Nanos) -> CheckedKey {
        let file = self.file.load();
        let entry = if key.len() <= API_KEY_BYTES_MAX { file.find(&hash(key)) } else { None };
        let status = match entry {
            None => KeyStatus::Unknown,
            Some(entry) if !entry.enabled => KeyStatus::Disabled,
            Some(entry) if entry.expires.is_some_and(|expires| now >= expires) => KeyStatus::Expired,
            Some(_) => KeyStatus::Valid,
        };
        let is_valid = status == KeyStatus::Valid;
        let holder = entry.filter(|_| is_valid).map(|entry| Arc::clone(&entry.holder));
        CheckedKey { status, holder, denied: !is_valid && self.settings.unknown == UnknownKeys::Deny }
    }
}

fn read(settings: &ApiKeySettings) -> Result<KeyFile, KeyFileError> {
    let unreadable = |error| KeyFileError::Unreadable { file: settings.file.clone(), error };
    let text = file::read_text(&settings.file).map_err(unreadable)?;
    KeyFile::parse(&text).map_err(|problems| {
        let name = settings.file.display().to_string();
        KeyFileError::Invalid { problems: policy_file::on_one_line(&name, &problems) }
    })
}

/// Prints no hashes.
impl fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiKeys")
            .field("settings", &self.settings)
            .field("keys", &self.file.load().len())
            .finish()
    }
}

#[cfg(test)]
mod tests;

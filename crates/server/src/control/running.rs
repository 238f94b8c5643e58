//! The policy in force as it was written, and where it comes from.

use std::path::PathBuf;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tidegate::Nanos;

/// Where the policy comes from, and with that, whether the admin API may change it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicySource {
    /// The quick start that is part of the program.
    Embedded,
    /// A file, which is read again when it changes.
    File(PathBuf),
    /// The database: each write through the admin API is a new version.
    Database,
}

/// The policy in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningPolicy {
    /// Where it comes from.
    pub source: PolicySource,
    /// Its text, as it was written.
    pub text: Arc<str>,
    /// Its version.
    pub version: u64,
    /// Since when it is in force on this node, by the wall clock.
    pub since: Nanos,
}

impl RunningPolicy {
    /// The SHA-256 of the text.
    pub fn sha256(&self) -> [u8; 32] {
        Sha256::digest(self.text.as_bytes()).into()
    }
}

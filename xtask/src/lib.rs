//! Checks and generators for the workspace, run by `cargo xtask` and by tests.

use std::path::{Path, PathBuf};

pub mod suite;
pub mod tidy;

/// The root of the workspace this xtask was built from.
pub fn workspace_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

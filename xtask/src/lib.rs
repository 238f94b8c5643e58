//! House keeping for the workspace: what `cargo xtask` runs, and what the tests run too.

use std::path::{Path, PathBuf};

pub mod suite;
pub mod tidy;

/// The root of the workspace this xtask was built from.
pub fn workspace_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

//! Checks and generators for the workspace, run by `cargo xtask` and by tests.

use std::path::{Path, PathBuf};
use std::process::Command;

pub mod suite;
pub mod tidy;

/// The cargo that runs this program, or `cargo`, without what `cargo run` says of this package. Build scripts such as that of
/// ring read those variables, so with them everything that depends on it would be built again, here and by the next cargo.
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let is_of_package =
            |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        if name.to_str().is_some_and(is_of_package) {
            cargo.env_remove(name);
        }
    }
    cargo
}

/// The root of the workspace this xtask was built from.
pub fn workspace_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

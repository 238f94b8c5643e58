//! The programs that are measured: how they are found or built.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The version of throttlecrab-server that is compared.
const THROTTLECRAB_VERSION: &str = "=0.4.40";
const THROTTLECRAB: &str = "throttlecrab-server";
const REDIS: &str = "redis-server";

/// Why a program is missing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramError {
    #[error("{program} is not installed; on Debian: apt-get install {package}")]
    Missing { program: &'static str, package: &'static str },
    #[error("there is no {}", .0.display())]
    NoSuchFile(PathBuf),
    #[error("`{0}` failed")]
    Failed(String),
    #[error("could not run `{command}`: {source}")]
    NotRun { command: String, source: std::io::Error },
    #[error("could not find the path of this program: {0}")]
    Nowhere(std::io::Error),
}

/// Tidegate's binary: the given one, or one built from this workspace with the profile of releases.
pub(crate) fn tidegate(given: Option<&Path>) -> Result<PathBuf, ProgramError> {
    if let Some(file) = given {
        return if file.is_file() { Ok(file.into()) } else { Err(ProgramError::NoSuchFile(file.into())) };
    }
    let target = target()?;
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("Cargo.toml");
    eprintln!("building: tidegate");
    let mut build = cargo();
    build.args(["build", "--quiet", "--profile", "dist", "--package", "tidegate-server", "--manifest-path"]);
    run(build.arg(manifest).arg("--target-dir").arg(&target))?;
    Ok(target.join("dist/tidegate"))
}

/// throttlecrab-server: built once, in the target directory.
pub(crate) fn throttlecrab() -> Result<PathBuf, ProgramError> {
    let target = target()?;
    let (root, file) = (target.join("peers"), target.join("peers/bin").join(THROTTLECRAB));
    if !file.is_file() {
        // Its build compiles a protobuf definition.
        find("protoc", "protobuf-compiler")?;
        eprintln!("building: {THROTTLECRAB}, once; it takes some minutes");
        let mut install = cargo();
        install.args(["install", THROTTLECRAB, "--version", THROTTLECRAB_VERSION, "--locked", "--root"]);
        run(install.arg(&root).arg("--target-dir").arg(target.join("peers-build")))?;
    }
    Ok(file)
}

/// The system's redis-server.
pub(crate) fn redis() -> Result<PathBuf, ProgramError> {
    find(REDIS, REDIS)
}

/// The system's Chromium, which shows the console.
pub(crate) fn chromium() -> Result<PathBuf, ProgramError> {
    find("chromium", "chromium")
}

/// The system's node, which drives Chromium.
pub(crate) fn node() -> Result<PathBuf, ProgramError> {
    find("node", "nodejs")
}

/// The target directory of this program, also used for what it builds.
pub(crate) fn target() -> Result<PathBuf, ProgramError> {
    let here = std::env::current_exe().map_err(ProgramError::Nowhere)?;
    let profile = here.parent().unwrap_or(&here);
    Ok(profile.parent().unwrap_or(profile).into())
}

/// The cargo that runs this program, or `cargo`, without what `cargo run` says of this package: ring's build script reads it, so
/// that every run would build everything that depends on ring twice.
fn cargo() -> Command {
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

/// Runs a command with its output on standard error: standard output is only for results.
fn run(command: &mut Command) -> Result<(), ProgramError> {
    let shown = format!("{command:?}");
    match command.stdin(Stdio::null()).stdout(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(ProgramError::Failed(shown)),
        Err(source) => Err(ProgramError::NotRun { command: shown, source }),
    }
}

fn find(program: &'static str, package: &'static str) -> Result<PathBuf, ProgramError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file());
    found.ok_or(ProgramError::Missing { program, package })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_with_its_package() {
        assert!(find("sh", "dash").is_ok());
        let error = find("no-such-program", "such-a-package").unwrap_err();
        assert_eq!(
            error.to_string(),
            "no-such-program is not installed; on Debian: apt-get install such-a-package"
        );
        assert!(matches!(tidegate(Some(Path::new("/nowhere/at/all"))), Err(ProgramError::NoSuchFile(_))));
    }

    #[test]
    fn a_command_that_fails_is_told() {
        assert!(run(&mut Command::new("true")).is_ok());
        assert!(matches!(run(&mut Command::new("false")), Err(ProgramError::Failed(_))));
        assert!(matches!(run(&mut Command::new("/nowhere/at/all")), Err(ProgramError::NotRun { .. })));
    }
}

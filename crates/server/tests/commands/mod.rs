//! Runs the commands as a user would, and checks what they print.
//!
//! The output is compared with kept files; `TIDEGATE_BLESS=1` rewrites them. Read the difference before you commit it.

mod examples;
mod explain;
mod import;
mod key;
mod reference;
mod simulate;
mod validate;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The root of the project.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn examples() -> PathBuf {
    root().join("examples")
}

/// The path of a document of these tests.
fn document(name: &str) -> String {
    format!("crates/server/tests/commands/documents/{name}")
}

/// Compares a text with a kept file, or rewrites the file.
fn compare(file: &Path, found: &str) {
    if std::env::var_os("TIDEGATE_BLESS").is_some() {
        fs::create_dir_all(file.parent().expect("a file is in a directory")).expect("it can be made");
        fs::write(file, found).expect("the file can be written");
        return;
    }
    let kept = fs::read_to_string(file).unwrap_or_default();
    assert_eq!(kept, found, "{} differs; TIDEGATE_BLESS=1 rewrites it", file.display());
}

/// Compares the output of a command with a kept file.
fn snapshot(name: &str, found: &str) {
    compare(&root().join("crates/server/tests/commands/snapshots").join(name), found);
}

/// The result of a command.
struct Ran {
    code: i32,
    out: String,
    err: String,
}

/// Runs the binary in the root of the project.
fn tidegate(args: &[&str]) -> Ran {
    tidegate_given(args, "")
}

/// The same with text on standard input.
fn tidegate_given(args: &[&str], input: &str) -> Ran {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(args)
        .current_dir(root())
        .env_remove("CLICOLOR_FORCE")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut stdin = child.stdin.take().expect("it is piped");
    // A command that does not read its input may already have ended.
    _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().expect("the binary ends");
    let text = |bytes| String::from_utf8(bytes).expect("it prints text");
    Ran {
        code: output.status.code().expect("it was not killed"),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

/// The same with colours, as on a terminal.
fn tidegate_in_colour(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(args)
        .current_dir(root())
        .env("CLICOLOR_FORCE", "1")
        .env_remove("NO_COLOR")
        .output()
        .expect("the binary runs");
    String::from_utf8(output.stdout).expect("it prints text")
}

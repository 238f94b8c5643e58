//! Asks before something that cannot be undone.

use std::io::{BufRead, IsTerminal, Write};

use super::exit::{CommandFailure, print_stderr};

/// Asks on the terminal, and fails with `otherwise` unless the answer is yes. Where there is no terminal, the flag
/// `--yes` is needed.
pub(crate) fn confirm(question: &str, otherwise: &str) -> Result<(), CommandFailure> {
    if !std::io::stdin().is_terminal() {
        let why = "this cannot be undone, and there is no terminal to ask on: add --yes";
        return Err(CommandFailure::Usage(why.to_owned()));
    }
    print_stderr(format_args!("{question} [y/N] "));
    _ = std::io::stderr().flush();
    answered(&mut std::io::stdin().lock(), otherwise)
}

fn answered(input: &mut impl BufRead, otherwise: &str) -> Result<(), CommandFailure> {
    let mut line = String::new();
    let read = input.read_line(&mut line);
    read.map_err(|error| CommandFailure::Running(format!("cannot read the answer: {error}")))?;
    match ["y", "yes"].contains(&line.trim().to_ascii_lowercase().as_str()) {
        true => Ok(()),
        false => Err(CommandFailure::Running(otherwise.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_is_one() {
        let is_yes = |text: &str| match answered(&mut text.as_bytes(), "nothing was done") {
            Ok(()) => true,
            Err(CommandFailure::Running(why)) => {
                assert_eq!(why, "nothing was done");
                false
            }
            Err(other) => panic!("{other:?}"),
        };
        assert!(["y\n", "Y", "yes\r\n", " YES \n"].into_iter().all(is_yes));
        assert!(!["", "\n", "n\n", "no", "yes please"].into_iter().any(is_yes));
    }
}

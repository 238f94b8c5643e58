//! Reads and compiles the policy of the server: a file, or the embedded quick start.

use std::io::Read;
use std::path::Path;

use tidegate::Nanos;
use tidegate_document::TEXT_BYTES_MAX;
use tidegate_policy::{Policy, Problem, RuleSet};

use crate::settings::Settings;

/// The policy in force when no file is given.
pub(crate) const QUICK_START: &str = include_str!("../../../../../examples/quick-start/policy.yaml");

/// Reads a file, at most one byte more than a policy may have.
///
/// # Errors
/// If it cannot be read or is not UTF-8.
pub(crate) fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(TEXT_BYTES_MAX as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

/// Compiles a policy, and returns its rules and warnings. If the settings name several nodes, the rules are divided
/// by their number.
///
/// # Errors
/// All problems found.
pub(crate) fn compile(
    text: &str,
    settings: &Settings,
    now: Nanos,
) -> Result<(RuleSet, Vec<Problem>), Vec<Problem>> {
    for_node(Policy::parse_at(text, now).map_err(|error| error.problems)?, settings)
}

/// The rules and warnings of a policy for a node with these settings.
///
/// # Errors
/// All problems found.
pub(crate) fn for_node(policy: Policy, settings: &Settings) -> Result<(RuleSet, Vec<Problem>), Vec<Problem>> {
    let Policy { rules, mut warnings } = policy;
    let (rules, more) = rules.or_on_store_error(settings.on_store_error).divided(settings.nodes)?;
    warnings.extend(more);
    Ok((rules, warnings))
}

/// Renders problems on one line: `policy.yaml:3:5: unknown field …; …`. Errors come first, since only a few problems
/// are shown; behind them warnings are marked as such.
pub(crate) fn on_one_line(file: &str, problems: &[Problem]) -> String {
    const SHOWN_MAX: usize = 5;
    let (errors, warnings): (Vec<&Problem>, Vec<&Problem>) =
        problems.iter().partition(|problem| problem.is_error());
    let one = |problem: &Problem| {
        let path = if problem.path.is_empty() { String::new() } else { format!("{}: ", problem.path) };
        let hint = problem.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        let mark = if problem.is_error() || errors.is_empty() { "" } else { "warning: " };
        format!("{mark}{file}:{}:{}: {path}{}{hint}", problem.at.line, problem.at.column, problem.message)
    };
    let mut shown: Vec<String> =
        errors.iter().chain(&warnings).take(SHOWN_MAX).map(|problem| one(problem)).collect();
    if problems.len() > SHOWN_MAX {
        shown.push(format!("and {} more", problems.len() - SHOWN_MAX));
    }
    shown.join("; ")
}

#[cfg(test)]
mod tests {
    use tidegate_policy::OnStoreError;

    use super::*;

    #[test]
    fn the_embedded_policy_is_valid() {
        let (rules, warnings) = compile(QUICK_START, &Settings::default(), Nanos::ZERO).expect("it is valid");
        assert_eq!((rules.limits().len(), warnings.len()), (3, 0));
    }

    #[test]
    fn the_settings_say_what_limits_do_without_a_store_where_the_policy_does_not() {
        let text = "version: 1\nlimits:\n- { name: a, key: [user], sustained: { rate: 1 } }\n\
                    - { name: b, key: [user], sustained: { rate: 1 }, on_store_error: local }\n";
        let settings = Settings { on_store_error: OnStoreError::Closed, ..Settings::default() };
        let choices = |text: &str| {
            let (rules, _) = compile(text, &settings, Nanos::ZERO).expect("it is valid");
            [0, 1].map(|number| rules.rules()[number].on_store_error)
        };
        assert_eq!(choices(text), [OnStoreError::Closed, OnStoreError::Local]);
        let with_default = format!("{text}defaults: {{ on_store_error: open }}\n");
        assert_eq!(choices(&with_default), [OnStoreError::Open, OnStoreError::Local]);
    }

    #[test]
    fn errors_come_before_warnings() {
        let text = "version: 1\nlimits:\n- { name: a, key: [user], sustained: { rate: 5 }, queue: { max_depth: 1 } }\n\
                    - { name: b, key: [user], sustained: { rate: 0 } }\n";
        let problems = compile(text, &Settings::default(), Nanos::ZERO).expect_err("a rate of 0 is an error");
        let line = on_one_line("p.yaml", &problems);
        let parts: Vec<&str> = line.split("; ").collect();
        assert!(parts[0].starts_with("p.yaml:4:"), "{line}");
        assert!(parts.last().is_some_and(|last| last.starts_with("warning: p.yaml:3:")), "{line}");
        let (_, warnings) = compile(&text.replace("rate: 0", "rate: 1"), &Settings::default(), Nanos::ZERO)
            .expect("a warning is no error");
        assert!(on_one_line("p.yaml", &warnings).starts_with("p.yaml:3:"), "nothing but warnings");
    }

    #[test]
    fn problems_fit_a_line() {
        let text = format!("version: 1\n{}", (0..8).map(|n| format!("unknown{n}: 1\n")).collect::<String>());
        let line = on_one_line(
            "p.yaml",
            &compile(&text, &Settings::default(), Nanos::ZERO).expect_err("it is not valid"),
        );
        assert!(line.starts_with("p.yaml:2:1: unknown0: unknown field `unknown0`"), "{line}");
        assert!(line.ends_with("; and 3 more") && !line.contains('\n'), "{line}");
    }
}

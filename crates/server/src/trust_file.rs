//! The trust file: what is known about accounts.

use std::collections::HashMap;
use std::path::Path;

use tidegate::engine::trust::AccountFacts;
use tidegate::engine::trust::score::SuccessRate;
use tidegate_document::{DocumentNode, ObjectShape, Problem, Shape, ShapeField, Span, value};

use crate::bounds::TRUST_ACCOUNTS_MAX;
use crate::serve::reload::policy_file;

/// One, in millionths.
const ONE: u64 = 1_000_000;

/// Facts by user.
pub(crate) type Accounts = HashMap<Box<str>, AccountFacts>;

/// The whole file, also for the reference page.
pub(crate) static ACCOUNTS: ObjectShape = ObjectShape {
    name: "accounts",
    about: "The file of `trust.file`.",
    fields: &[&[ShapeField::new(
        "users",
        Shape::List(&Shape::Object(&ACCOUNT)),
        "What is known about each user, at most one entry for each.",
    )
    .required()
    .also(&["accounts"])]],
    open_fields: None,
    shorthand: None,
};

pub(crate) static ACCOUNT: ObjectShape = ObjectShape {
    name: "account",
    about: "What is known about the account of a user. What is left out is unknown, and adds nothing to the score.",
    fields: &[&[
        ShapeField::new("user", Shape::Scalar, "The user, as requests name it.")
            .required()
            .also(&["id", "name"]),
        ShapeField::new("created", Shape::Instant, "When the account was created.")
            .or("unknown")
            .also(&["created_at", "since"]),
        ShapeField::new("email_verified", Shape::Flag, "Whether its email address is verified.")
            .or("unknown")
            .also(&["verified"]),
        ShapeField::new(
            "success_rate",
            Shape::Decimal(0, ONE),
            "The part of its requests of the last seven days that succeeded, from 0 to 1.",
        )
        .or("unknown")
        .also(&["success"]),
    ]],
    open_fields: None,
    shorthand: None,
};

/// Reads a trust file from the disk.
///
/// # Errors
/// What is wrong with it, on one line.
pub(crate) fn read(file: &Path) -> Result<Accounts, String> {
    let name = file.display().to_string();
    let text = policy_file::read(file).map_err(|error| format!("cannot read {name}: {error}"))?;
    parse(&text).map_err(|problems| policy_file::on_one_line(&name, &problems))
}

/// Parses the text of a trust file.
///
/// # Errors
/// All problems found.
pub(crate) fn parse(text: &str) -> Result<Accounts, Vec<Problem>> {
    let (node, mut problems) = tidegate_document::read(text, &ACCOUNTS);
    let mut accounts = Accounts::new();
    let users = node.as_ref().and_then(|node| node.get("users"));
    if users.is_none() && problems.is_empty() {
        // Also for an empty file, which is more likely an accident than a list of nobody.
        let problem =
            Problem::error(Span { line: 1, column: 1, length: 1 }, "users", "there is no list of users");
        problems.push(problem.saw("nothing").want("`users`").hint("write `users: []` for a list of nobody"));
    }
    let entries = users.map(DocumentNode::items).unwrap_or_default();
    if let Some(first_beyond) = entries.get(TRUST_ACCOUNTS_MAX) {
        let message = format!("there are more than {TRUST_ACCOUNTS_MAX} users");
        problems.push(
            Problem::error(first_beyond.at, "users", message)
                .saw(format!("{} users", entries.len()))
                .want(format!("at most {TRUST_ACCOUNTS_MAX}"))
                .hint("list only users whose requests meet limits, or put the facts into claims"),
        );
    }
    for (index, entry) in entries.iter().enumerate().take(TRUST_ACCOUNTS_MAX) {
        let Some(user) = entry.get("user").and_then(DocumentNode::scalar) else { continue };
        if accounts.insert(user.into(), facts(entry)).is_some() {
            problems.push(
                Problem::error(entry.at, format!("users[{index}].user"), "this user is listed twice")
                    .saw(format!("\"{user}\" again"))
                    .want("one entry for each user")
                    .hint("remove one of the two"),
            );
        }
    }
    tidegate_document::complete(&mut problems, text);
    if problems.iter().any(Problem::is_error) { Err(problems) } else { Ok(accounts) }
}

fn facts(entry: &DocumentNode) -> AccountFacts {
    let rate = entry.get("success_rate").and_then(|rate| value::decimal(rate, 0, ONE).ok());
    AccountFacts {
        created: entry.get("created").and_then(|created| value::instant(created).ok()),
        email_verified: entry.get("email_verified").and_then(DocumentNode::scalar).map(|flag| flag == "true"),
        success_rate: rate.map(|millionths| SuccessRate::new(millionths, ONE)),
    }
}

#[cfg(test)]
mod tests {
    use tidegate::Nanos;

    use super::*;

    #[test]
    fn each_user_has_its_facts() {
        let text = "users:\n- { user: 42, created: 2024-05-01T00:00:00Z, email_verified: true, success_rate: 0.98 }\n\
                    - { user: ann, email_verified: false }\n- { user: bob }\n";
        let accounts = parse(text).expect("it is valid");
        let facts = AccountFacts {
            created: Some(Nanos::from_secs(1_714_521_600)),
            email_verified: Some(true),
            success_rate: SuccessRate::parse("0.98"),
        };
        assert_eq!((accounts.len(), accounts["42"]), (3, facts));
        assert_eq!(accounts["ann"], AccountFacts { email_verified: Some(false), ..AccountFacts::default() });
        assert_eq!(accounts["bob"], AccountFacts::default());
        assert!(parse("users: []").expect("it is valid").is_empty());
    }

    #[test]
    fn every_problem_is_told_with_its_line() {
        let text = "users:\n- { user: a, success_rate: 1.5 }\n- { user: a }\n- { created: yesterday, user: b }\n\
                    - { verified: true }\n";
        let problems = parse(text).expect_err("it is not valid");
        let lines: Vec<u32> = problems.iter().map(|problem| problem.at.line).collect();
        for line in [2, 3, 4, 5] {
            assert!(lines.contains(&line), "{line}: {problems:?}");
        }
        for wrong in ["", "# nobody\n", "users: {}", "[]"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        for nothing in ["users:\n", "users: ~\n", "users: null\n", "{\"users\": null}", "accounts:\n"] {
            let problems = parse(nothing).expect_err(nothing);
            let hints: Vec<_> = problems.iter().filter_map(|problem| problem.hint.as_deref()).collect();
            let is_clear = hints.iter().any(|hint| hint.contains("`users"));
            assert!(is_clear && problems[0].at.line == 1, "{nothing}: {problems:?}");
        }
    }

    #[test]
    fn the_number_of_users_is_bounded() {
        let users: String = (0..TRUST_ACCOUNTS_MAX).map(|user| format!("- {{user: {user}}}\n")).collect();
        let most = format!("users:\n{users}");
        assert_eq!(parse(&most).expect("it is valid").len(), TRUST_ACCOUNTS_MAX);
        let problems = parse(&format!("{most}- {{user: more}}\n")).expect_err("one too many");
        assert!(problems[0].message.contains("more than"), "{problems:?}");
    }
}

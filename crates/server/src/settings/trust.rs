//! The settings of trust scores: which claims say something about an account, and the file of accounts.

use std::path::PathBuf;

use tidegate::engine::trust::{TrustClaims, TrustOptions};
use tidegate_document::{DocumentNode, ObjectShape, Shape, ShapeField, value};

use super::Settings;
use super::read::{Reader, integer, text};
use crate::bounds::TRUST_USERS_MAX;

/// The longest name of a claim.
const CLAIM_MAX: usize = 256;
/// The longest path.
const PATH_MAX: usize = 4_096;
/// The longest time for which a score is used, in milliseconds: a day.
const SCORE_LIFE_MAX: u64 = 86_400_000;

/// How the trust of requests is computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustSettings {
    /// The file of accounts.
    pub file: Option<PathBuf>,
    /// Claims, and the bounds of what is kept.
    pub options: TrustOptions,
}

pub(super) static TRUST: ObjectShape = ObjectShape {
    name: "trust",
    about: "Computes the trust of requests that have none of their own, where the policy has `adaptive.trust: true`. \
            [Trust](../server.md#trust) explains it.",
    fields: &[&[
        ShapeField::new(
            "file",
            Shape::Text(PATH_MAX),
            "File of accounts, see [accounts](#accounts). It is reloaded when it changes.",
        )
        .or("none")
        .also(&["path", "accounts"]),
        ShapeField::new("claims", Shape::Object(&CLAIMS), "Claims of tokens that state facts about an account.")
            .or("none"),
        ShapeField::new(
            "score_life",
            Shape::Duration(SCORE_LIFE_MAX),
            "How long a score is used before it is computed again.",
        )
        .or("1m")
        .also(&["ttl", "expiry", "cache"]),
        ShapeField::new(
            "max_users",
            Shape::Integer(1, TRUST_USERS_MAX as u64),
            "For about how many users scores and violations are kept; for more, those of others are forgotten.",
        )
        .or("100000"),
    ]],
    open_fields: None,
    shorthand: Some("file"),
};

pub(super) static CLAIMS: ObjectShape = ObjectShape {
    name: "claims",
    about: "The names of claims. A claim that is absent, or has another kind of value, states nothing.",
    fields: &[&[
        ShapeField::new(
            "created",
            Shape::Text(CLAIM_MAX),
            "When the account was created: seconds since 1970, or a time such as `2024-05-01T00:00:00Z`.",
        )
        .or("none")
        .also(&["created_at", "since"]),
        ShapeField::new(
            "email_verified",
            Shape::Text(CLAIM_MAX),
            "Whether the email address is verified: `true` or `false`.",
        )
        .or("none")
        .also(&["verified"]),
        ShapeField::new(
            "success_rate",
            Shape::Text(CLAIM_MAX),
            "The part of the requests of the last seven days that succeeded, from 0 to 1.",
        )
        .or("none")
        .also(&["success"]),
    ]],
    open_fields: None,
    shorthand: None,
};

impl Reader<'_> {
    pub(super) fn trust(&mut self, root: &DocumentNode, settings: &mut Settings) {
        let Some(node) = root.get("trust") else { return };
        let file = self.path(node, "file");
        let claim = |name| node.get("claims").and_then(|claims| text(claims, name));
        let usual = TrustOptions::default();
        let life = node.get("score_life").and_then(|life| value::duration(life, SCORE_LIFE_MAX).ok());
        let max_users = integer(node, "max_users").and_then(|users| usize::try_from(users).ok());
        let options = TrustOptions {
            claims: TrustClaims {
                created: claim("created"),
                email_verified: claim("email_verified"),
                success_rate: claim("success_rate"),
            },
            max_users: max_users.unwrap_or(usual.max_users),
            score_life: life.unwrap_or(usual.score_life),
        };
        settings.trust = Some(TrustSettings { file, options });
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tidegate::Nanos;

    use super::super::read;
    use super::*;

    fn trust(text: &str) -> Option<TrustSettings> {
        read(text, Path::new("/etc/tidegate")).expect("it is valid").0.trust
    }

    #[test]
    fn every_field_has_its_place() {
        assert_eq!(trust(""), None);
        let usual = TrustSettings { file: None, options: TrustOptions::default() };
        assert_eq!(trust("trust: {}"), Some(usual.clone()));
        let file = Some(PathBuf::from("/etc/tidegate/trust.yaml"));
        assert_eq!(trust("trust: { file: trust.yaml }"), Some(TrustSettings { file: file.clone(), ..usual }));
        let text = "trust:\n  file: trust.yaml\n  score_life: 10s\n  max_users: 7\n\
                    \x20 claims: { created: since, email_verified: checked, success_rate: ok }\n";
        let claims = TrustClaims {
            created: Some("since".to_owned()),
            email_verified: Some("checked".to_owned()),
            success_rate: Some("ok".to_owned()),
        };
        let options = TrustOptions { claims, max_users: 7, score_life: Nanos::from_secs(10) };
        assert_eq!(trust(text), Some(TrustSettings { file, options }));
    }

    #[test]
    fn problems_are_told_with_the_words_of_the_file() {
        for (text, expected) in [
            ("trust: { file: \"\" }", "the path is empty"),
            ("trust: { max_users: 0 }", "0"),
            ("trust: { claims: { verified: x } }", "`verified`"),
        ] {
            let problems = read(text, Path::new("")).expect_err(text);
            assert!(
                problems.iter().any(|problem| problem.message.contains(expected)),
                "{text}: {problems:?}"
            );
        }
    }
}

//! The section `auth.oidc`: the identity provider whose tokens the admin API accepts.

use tidegate::engine::InvalidCredentials;
use tidegate_document::{DocumentNode, ObjectShape, OpenFields, Problem, Shape, ShapeField, WordShape};

use super::read::{Reader, text};
use super::table::TEXT_MAX;
use super::{Jwt, JwtKey};
use crate::control::access::AccessRole;

/// The longest name or value of a claim.
const CLAIM_MAX: usize = 256;

/// The identity provider whose tokens the admin API accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcSettings {
    /// How its tokens are verified.
    pub jwt: Jwt,
    /// The claim that gives the role.
    pub role_claim: String,
    /// The values of that claim, and the role that each gives.
    pub roles: Vec<(String, AccessRole)>,
    /// The claim that names the tenant, if tokens are restricted to tenants.
    pub tenant_claim: Option<String>,
}

pub(super) static OIDC: ObjectShape = ObjectShape {
    name: "oidc",
    about: "An identity provider (OpenID Connect) whose signed tokens the admin API accepts beside its own. \
            [Access](../control-plane.md#access) explains it.",
    fields: &[&[
        ShapeField::new("issuer", Shape::Text(TEXT_MAX), "The required `iss`: the provider.")
            .required()
            .also(&["iss", "provider"]),
        ShapeField::new(
            "audience",
            Shape::Text(TEXT_MAX),
            "The value that `aud` must contain: tokens that are meant for others are refused.",
        )
        .required()
        .also(&["aud", "client_id"]),
        ShapeField::new(
            "jwks",
            Shape::Text(TEXT_MAX),
            "File with the JSON Web Key Set of the provider. It is reloaded when it changes.",
        )
        .required()
        .also(&["jwks_file", "keys"]),
        ShapeField::new("role", Shape::Object(&OIDC_ROLE), "Which role a token has.")
            .required()
            .also(&["roles"]),
        ShapeField::new("tenant", Shape::Object(&OIDC_TENANT), "Which tenant a token is restricted to.")
            .or("none: all tokens may see all tenants"),
    ]],
    open_fields: None,
    shorthand: None,
};

pub(super) static OIDC_ROLE: ObjectShape = ObjectShape {
    name: "oidc_role",
    about: "The role of a token. Of several values the largest role counts; a token without any of them is refused.",
    fields: &[&[
        ShapeField::new("claim", Shape::Text(CLAIM_MAX), "The claim: a text, or a list of texts.")
            .or("groups")
            .also(&["name"]),
        ShapeField::new(
            "values",
            Shape::Object(&OIDC_VALUES),
            "The role that each value of the claim gives.",
        )
        .required()
        .also(&["map", "mapping"]),
    ]],
    open_fields: None,
    shorthand: None,
};

pub(super) static OIDC_VALUES: ObjectShape = ObjectShape {
    name: "oidc_values",
    about: "Values of the claim, such as `{ tidegate-admins: admin, sre: operator }`.",
    fields: &[],
    open_fields: Some(&OpenFields {
        singular: "a value of the claim",
        plural: "values of the claim",
        entries: "values",
        shape_of: |value| (1..=CLAIM_MAX).contains(&value.len()).then_some(&ROLE),
        suggested: Vec::new,
        hint: |_| Some("write a value of the claim, of 1 to 256 bytes".to_owned()),
        patterns: || vec![("^.+$".to_owned(), &ROLE)],
        about: "Every value of the claim is a field, and has a role: `viewer`, `operator`, `editor` or `admin`.",
    }),
    shorthand: None,
};

pub(super) static OIDC_TENANT: ObjectShape = ObjectShape {
    name: "oidc_tenant",
    about: "The tenant of a token. A token without the claim is refused; the value `*` stands for all tenants.",
    fields: &[&[ShapeField::new("claim", Shape::Text(CLAIM_MAX), "The claim: a text.")
        .required()
        .also(&["name"])]],
    open_fields: None,
    shorthand: None,
};

static ROLE: Shape = Shape::Word(ROLES);

static ROLES: &[WordShape] = &[
    WordShape::new("viewer", "reads everything, and tries things out").also(&["read", "reader"]),
    WordShape::new("operator", "also acts on keys, overrides and penalties").also(&["ops"]),
    WordShape::new("editor", "also changes the policy").also(&["write", "writer"]),
    WordShape::new("admin", "also gives tokens to others").also(&["administrator", "root", "owner"]),
];

impl Reader<'_> {
    pub(super) fn oidc(&mut self, node: &DocumentNode) -> Option<OidcSettings> {
        let role = node.get("role")?;
        let values = role.get("values")?;
        let given = values.entries().iter();
        let roles: Vec<(String, AccessRole)> = given
            .filter_map(|(value, role)| Some((value.value.clone(), role.scalar()?.parse().ok()?)))
            .collect();
        if values.entries().is_empty() {
            let problem = Problem::error(values.at, "auth.oidc.role.values", "no value gives a role");
            let problem = problem.saw("nothing").want("a value of the claim and its role");
            self.problems.push(problem.hint("write `values: { tidegate-admins: admin }`"));
        }
        let claim = |node: &DocumentNode| text(node, "claim").filter(|claim| !claim.is_empty());
        Some(OidcSettings {
            jwt: Jwt {
                key: JwtKey::Jwks(self.path(node, "jwks")?),
                issuer: Some(self.filled(node, "issuer")?),
                audience: Some(self.filled(node, "audience")?),
                invalid: InvalidCredentials::Deny,
            },
            role_claim: claim(role).unwrap_or_else(|| "groups".to_owned()),
            roles,
            tenant_claim: match node.get("tenant") {
                Some(tenant) => Some(self.filled(tenant, "claim")?),
                None => None,
            },
        })
    }

    /// The text of a field, which must not be empty.
    fn filled(&mut self, node: &DocumentNode, name: &str) -> Option<String> {
        let value = text(node, name)?;
        if value.is_empty() {
            let at = node.get(name).map_or(node.at, |node| node.at);
            let problem = Problem::error(at, format!("auth.oidc.{name}"), "the text is empty").saw("nothing");
            self.problems.push(problem.want("a text").hint("an empty text would accept tokens of anybody"));
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::read;
    use super::*;

    const GIVEN: &str = "auth:\n  oidc:\n    issuer: https://id.example\n    audience: tidegate\n    jwks: keys.json\n    \
                         role: { values: { tidegate-admins: admin, sre: operator } }\n    tenant: { claim: tid }\n";

    #[test]
    fn it_is_read_as_written() {
        let (settings, warnings) = read(GIVEN, Path::new("/etc")).expect("it is valid");
        let oidc = settings.oidc.expect("it is there");
        assert_eq!(oidc.jwt.key, JwtKey::Jwks("/etc/keys.json".into()));
        assert_eq!(oidc.jwt.issuer.as_deref(), Some("https://id.example"));
        assert_eq!(
            oidc.roles,
            [("tidegate-admins".to_owned(), AccessRole::Admin), ("sre".to_owned(), AccessRole::Operator)]
        );
        assert_eq!((oidc.role_claim.as_str(), oidc.tenant_claim.as_deref()), ("groups", Some("tid")));
        assert!(warnings.is_empty(), "{warnings:?}");
    }

    #[test]
    fn mistakes_say_what_to_write() {
        for (from, to, message) in [
            ("    issuer: https://id.example\n", "", "issuer"),
            ("    audience: tidegate\n", "", "audience"),
            ("    audience: tidegate\n", "    audience: \"\"\n", "the text is empty"),
            ("    jwks: keys.json\n", "", "jwks"),
            (
                "role: { values: { tidegate-admins: admin, sre: operator } }",
                "role: { values: {} }",
                "no value gives a role",
            ),
            (
                "role: { values: { tidegate-admins: admin, sre: operator } }",
                "role: { claim: groups }",
                "values",
            ),
            ("sre: operator", "sre: superuser", "not a valid choice"),
            ("    tenant: { claim: tid }\n", "    tenat: tid\n", "tenat"),
        ] {
            let text = GIVEN.replace(from, to);
            assert_ne!(text, GIVEN);
            let problems = read(&text, Path::new("")).expect_err(&text);
            assert!(
                problems.iter().any(|problem| problem.message.contains(message)),
                "{text}: {problems:#?}"
            );
        }
    }
}

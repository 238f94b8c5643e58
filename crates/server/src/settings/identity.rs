//! The sections `identity` and `api_keys`: who a proxied request is taken for.

use std::fmt;
use std::path::PathBuf;

use tidegate_document::{
    CustomShape, DocumentNode, ObjectShape, Problem, Shape, ShapeField, ValueFault, WordShape,
};
use tidegate_policy::{IdentityMember, IdentitySource};

use super::read::{Reader, text};
use super::table::TEXT_MAX;
use super::{Jwt, Settings};

/// The API keys of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKeySettings {
    /// Where requests have their key.
    pub from: KeyPlace,
    /// The file of known keys.
    pub file: PathBuf,
    /// What happens to requests with a key that is not known, has expired or is disabled.
    pub unknown: UnknownKeys,
}

/// Where requests have their API key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    /// In a header; the name is in lower case.
    Header(Box<str>),
    /// In a parameter of the query.
    Query(Box<str>),
}

impl fmt::Display for KeyPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyPlace::Header(name) => write!(f, "header:{name}"),
            KeyPlace::Query(name) => write!(f, "query:{name}"),
        }
    }
}

/// What happens to requests with an API key that is not known, has expired or is disabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownKeys {
    /// They are treated as if they had no key.
    #[default]
    Ignore,
    /// They are denied.
    Deny,
}

/// A source of one member: the placeholder of a host must have the member's name.
macro_rules! source_shape {
    ($name:ident, $member:ident, $example:literal) => {
        const $name: Shape = Shape::OneOrMore(&Shape::Custom(&CustomShape {
            check: |node| source(node, IdentityMember::$member).map(drop),
            wanted: concat!("a source such as `", $example, "`"),
            example: concat!("\"", $example, "\""),
            json_types: &["string"],
            pattern: || "^(header|jwt|query|host):.+$|^api_key$".to_owned(),
            takes: concat!("a [source](#sources) such as `", $example, "`"),
            takes_list: Some(concat!("[sources](#sources) such as `[\"", $example, "\"]`")),
        }));
    };
}

source_shape!(USER, User, "header:x-user-id");
source_shape!(TENANT, Tenant, "host:{tenant}.api.example.com");
source_shape!(CLIENT, Client, "jwt:client_id");
source_shape!(PLAN, Plan, "api_key");
source_shape!(UPSTREAM, Upstream, "header:x-upstream");
source_shape!(PRIORITY, Priority, "header:x-priority");
source_shape!(TRUST, Trust, "header:x-trust");

pub(super) static IDENTITY: ObjectShape = ObjectShape {
    name: "identity",
    about: "Where the members of a proxied request come from: in forward-auth and in Envoy's external authorization. Each \
            member takes one source or a list of them, and the first source that has a value is used. A member that is \
            listed has no other sources; one that is not listed comes from the usual claims of a verified token, if it \
            has them.",
    fields: &[&[
        ShapeField::new("user", USER, "The user.").or("jwt:sub").also(&["user_id", "sub"]),
        ShapeField::new("tenant", TENANT, "The tenant.").or("[jwt:tenant, jwt:tenant_id, jwt:tid]").also(&[
            "tenant_id",
            "organisation",
            "organization",
            "org",
        ]),
        ShapeField::new("client", CLIENT, "The client application.").or("[jwt:client_id, jwt:azp]").also(&[
            "client_id",
            "app",
            "application",
        ]),
        ShapeField::new("plan", PLAN, "The plan of the user or tenant.").or("jwt:plan").also(&["tier"]),
        ShapeField::new("upstream", UPSTREAM, "The upstream that the request is for.")
            .also(&["service", "backend"]),
        ShapeField::new("priority", PRIORITY, "The priority, a whole number from 0 to 100."),
        ShapeField::new("trust", TRUST, "The trust in the caller, a number from 0 to 1.")
            .also(&["trust_score", "score"]),
    ]],
    open_fields: None,
    shorthand: None,
};

pub(super) static API_KEYS: ObjectShape = ObjectShape {
    name: "api_keys",
    about: "The API keys of clients. `tidegate key create` makes one and adds its hash to the file.",
    fields: &[&[
        ShapeField::new("from", KEY_PLACE, "Where requests have their key.")
            .or("header:x-api-key")
            .also(&["header", "source", "in"]),
        ShapeField::new(
            "file",
            Shape::Text(TEXT_MAX),
            "File with the hashes of the keys and whom they stand for. It is reloaded when it changes.",
        )
        .required()
        .also(&["path", "keys"]),
        ShapeField::new(
            "unknown",
            Shape::Word(UNKNOWN),
            "What happens to a request with a key that is not in the file, has expired or is disabled.",
        )
        .or("ignore")
        .also(&["on_unknown", "invalid"]),
    ]],
    open_fields: None,
    shorthand: Some("file"),
};

const KEY_PLACE: Shape = Shape::Custom(&CustomShape {
    check: |node| key_place(node).map(drop),
    wanted: "`header:<name>` or `query:<name>`",
    example: "\"header:x-api-key\"",
    json_types: &["string"],
    pattern: || "^(header|query):.+$".to_owned(),
    takes: "`header:<name>` or `query:<name>`",
    takes_list: None,
});

static UNKNOWN: &[WordShape] = &[
    WordShape::new("ignore", "it continues as if it had no key").also(&["anonymous", "allow", "none"]),
    WordShape::new("deny", "401 with `WWW-Authenticate`, before any limit")
        .also(&["reject", "refuse", "401"]),
];

/// The paragraph of the reference page about sources.
pub(super) const SOURCES: &str = "\
## Sources

| source | has the value | believed |
|---|---|---|
| `header:<name>` | a header of the request | only from `trusted_proxies`: the proxy must set or remove it |
| `jwt:<claim>` | a claim of a verified token; the first value of a list | from everybody; needs `jwt` |
| `query:<name>` | a parameter of the query | from `trusted_proxies`, as the client wrote it |
| `host:{tenant}.api.example.com` | the label of the host at the place of the placeholder, in lower case | from `trusted_proxies` |
| `api_key` | what the file of `api_keys` has for the key of the request: `user`, `tenant`, `client` or `plan` | from everybody; needs `api_keys` |

The placeholder of a host has the name of the member and stands for exactly one label; case and port are ignored. An
empty value counts as absent. A value that cannot be used (two different values of one header or parameter, text that is
not UTF-8, has control characters or more than 1,024 bytes, a trust that is not between 0 and 1, a priority that is not
a whole number from 0 to 100) is answered with 400 and names the source. It is never taken for an absent value.

";

fn source(node: &DocumentNode, member: IdentityMember) -> Result<IdentitySource, ValueFault> {
    let Some(text) = node.scalar() else { return Err(ValueFault::not(node, "a source", None)) };
    IdentitySource::parse(member, text).map_err(|error| ValueFault::new(error.message, error.hint))
}

fn key_place(node: &DocumentNode) -> Result<KeyPlace, ValueFault> {
    match source(node, IdentityMember::Client) {
        Ok(IdentitySource::Header(name)) if &*name == "authorization" => Err(ValueFault::new(
            "`Authorization` has bearer tokens, which `jwt` verifies",
            Some("use a header of its own, such as `header:x-api-key`".to_owned()),
        )),
        Ok(IdentitySource::Header(name)) => Ok(KeyPlace::Header(name)),
        Ok(IdentitySource::Query(name)) => Ok(KeyPlace::Query(name)),
        Ok(_) => {
            Err(ValueFault::not(node, "a place for API keys", Some("use `header:x-api-key`".to_owned())))
        }
        Err(fault) => Err(fault),
    }
}

impl Reader<'_> {
    /// Both sections, which may need each other and `jwt`.
    pub(super) fn identity(&mut self, root: &DocumentNode, settings: &mut Settings) {
        settings.api_keys = root.get("api_keys").and_then(|node| self.api_keys(node));
        let Some(section) = root.get("identity") else {
            self.warn_unused_keys(root, settings);
            return;
        };
        for member in IdentityMember::ALL {
            let Some(node) = section.get(member.as_str()) else { continue };
            let items = if node.scalar().is_some() { std::slice::from_ref(node) } else { node.items() };
            let mut sources = Vec::with_capacity(items.len());
            for item in items {
                let Ok(source) = source(item, member) else { continue };
                self.check_source(root, item, member, &source, settings.jwt.as_ref());
                sources.push(source);
            }
            settings.identity.set(member, sources);
        }
        self.warn_unused_keys(root, settings);
    }

    /// A source that can never have a value is an error.
    fn check_source(
        &mut self,
        root: &DocumentNode,
        node: &DocumentNode,
        member: IdentityMember,
        source: &IdentitySource,
        jwt: Option<&Jwt>,
    ) {
        let (missing, hint) = match source {
            // An invalid section is already reported.
            IdentitySource::Jwt(_) if jwt.is_none() && root.get("jwt").is_none() => {
                ("jwt", "add `jwt: { jwks: FILE }`, so that tokens are verified")
            }
            IdentitySource::ApiKey if root.get("api_keys").is_none() => {
                ("api_keys", "add `api_keys: { file: keys.yaml }`")
            }
            _ => return,
        };
        let problem = Problem::error(
            node.at,
            format!("identity.{member}"),
            format!("`{source}` never has a value without the section `{missing}`"),
        );
        self.problems
            .push(problem.saw(format!("`{source}`")).want(format!("the section `{missing}`")).hint(hint));
    }

    /// Keys that nobody looks at are a warning.
    fn warn_unused_keys(&mut self, root: &DocumentNode, settings: &Settings) {
        let is_used = |source: &IdentitySource| *source == IdentitySource::ApiKey;
        let (Some(node), Some(keys)) = (root.get("api_keys"), &settings.api_keys) else { return };
        if keys.unknown == UnknownKeys::Ignore && !settings.identity.all().any(|(_, source)| is_used(source))
        {
            let problem =
                Problem::warning(node.at, "api_keys", "the keys have no effect: no member comes from them");
            self.problems.push(
                problem
                    .saw("`api_keys` without a source `api_key`")
                    .want("a member of `identity` with the source `api_key`")
                    .hint("add for instance `identity: { client: [api_key] }`"),
            );
        }
    }

    fn api_keys(&mut self, node: &DocumentNode) -> Option<ApiKeySettings> {
        let from = match node.get("from") {
            Some(from) => key_place(from).ok()?,
            None => KeyPlace::Header("x-api-key".into()),
        };
        let unknown = match text(node, "unknown").as_deref() {
            Some("deny") => UnknownKeys::Deny,
            _ => UnknownKeys::Ignore,
        };
        Some(ApiKeySettings { from, file: self.path(node, "file")?, unknown })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::read::read;
    use super::*;

    fn settings(text: &str) -> (Settings, Vec<String>) {
        let (settings, warnings) =
            read(text, Path::new("/etc")).unwrap_or_else(|problems| panic!("{problems:?}"));
        (settings, warnings.into_iter().map(|warning| warning.message).collect())
    }

    #[test]
    fn every_member_takes_one_source_or_a_list() {
        let (settings, warnings) = settings(
            "jwt: { key: k, algorithm: HS256 }\n\
             identity:\n  user: [header:X-User-Id, jwt:sub]\n  tenant: \"host:{tenant}.api.example.com\"\n  \
             plan: [api_key]\n\
             api_keys: { from: query:key, file: keys.yaml, unknown: deny }\n",
        );
        let listed = |member| {
            let sources = settings.identity.of(member)?;
            Some(sources.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(listed(IdentityMember::User).as_deref(), Some("header:x-user-id jwt:sub"));
        assert_eq!(listed(IdentityMember::Tenant).as_deref(), Some("host:{tenant}.api.example.com"));
        assert_eq!(listed(IdentityMember::Plan).as_deref(), Some("api_key"));
        assert_eq!(listed(IdentityMember::Client), None);
        let keys = settings.api_keys.unwrap();
        assert_eq!((keys.from, keys.unknown), (KeyPlace::Query("key".into()), UnknownKeys::Deny));
        assert_eq!(keys.file, Path::new("/etc/keys.yaml"));
        assert!(warnings.is_empty(), "{warnings:?}");
    }

    #[test]
    fn keys_that_nobody_looks_at_are_a_warning() {
        let unused = "the keys have no effect: no member comes from them";
        assert_eq!(settings("api_keys: { file: keys.yaml }\n").1, [unused]);
        assert_eq!(
            settings("api_keys: { file: keys.yaml }\nidentity: { user: header:x-user }\n").1,
            [unused]
        );
        assert!(settings("api_keys: { file: keys.yaml, unknown: deny }\n").1.is_empty());
        let (settings, warnings) = settings("api_keys: { file: keys.yaml }\nidentity: { client: api_key }\n");
        assert!(
            warnings.is_empty() && settings.api_keys.unwrap().from == KeyPlace::Header("x-api-key".into())
        );
    }

    #[test]
    fn mistakes_say_what_to_write() {
        for (text, message, hint) in [
            ("identity: { tenant: [headr:x] }", "\"headr:x\" is not a source", "write `header:x`"),
            ("identity: { tenant: [x-tenant] }", "\"x-tenant\" is not a source", "`header:x-tenant`"),
            (
                "identity: { tenant: ['host:{user}.x.com'] }",
                "the sources of `tenant`",
                "`host:{tenant}.x.com`",
            ),
            ("identity: { user: [jwt:sub] }", "`jwt:sub` never has a value", "add `jwt:"),
            ("identity: { plan: api_key }", "`api_key` never has a value", "add `api_keys:"),
            (
                "identity: { trust: api_key }\napi_keys: { file: k }",
                "an API key has no trust",
                "user, tenant, client and plan",
            ),
            ("identity: { usr: jwt:sub }", "usr", "user"),
            ("api_keys: { from: jwt:sub, file: k }", "is not a place for API keys", "`header:x-api-key`"),
            (
                "api_keys: { from: header:Authorization, file: k }",
                "which `jwt` verifies",
                "`header:x-api-key`",
            ),
            ("api_keys: { from: header:x }", "file", "file"),
            ("api_keys: { file: k, unknown: refuse }", "not a valid choice", "deny"),
        ] {
            let problems = read(text, Path::new("")).expect_err(text);
            let found = |problem: &&Problem| {
                problem.message.contains(message)
                    && problem.hint.as_deref().unwrap_or_default().contains(hint)
            };
            assert!(problems.iter().any(|problem| found(&problem)), "{text}: {problems:#?}");
            assert_eq!(
                problems.iter().filter(|problem| problem.is_error()).count(),
                1,
                "{text}: {problems:#?}"
            );
        }
    }
}

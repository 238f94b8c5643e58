//! One source of an identity, as settings write it: `header:x-tenant`.

use std::fmt;

use tidegate_document::nearest;

use super::{HostTemplate, IdentityMember};
use crate::Descriptor;

/// Where a member of a request can come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentitySource {
    /// `header:<name>`: a header, the name in lower case. It is used only if a trusted proxy has sent it.
    Header(Box<str>),
    /// `jwt:<claim>`: a claim of a verified token.
    Jwt(Box<str>),
    /// `query:<name>`: a parameter of the query.
    Query(Box<str>),
    /// `host:{tenant}.api.example.com`: a label of the host.
    Host(HostTemplate),
    /// `api_key`: what the file of API keys says about the key of the request.
    ApiKey,
}

/// Why a text is not a source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", .hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default())]
pub struct SourceError {
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// How to fix it.
    pub hint: Option<String>,
}

impl IdentitySource {
    /// The forms of a source, for messages.
    pub const FORMS: &str =
        "`header:<name>`, `jwt:<claim>`, `query:<name>`, `host:{member}.example.com` or `api_key`";

    /// Parses a source of a member.
    ///
    /// # Errors
    /// When there is no such source, or the member cannot come from it.
    pub fn parse(member: IdentityMember, text: &str) -> Result<IdentitySource, SourceError> {
        if text == "api_key" {
            return match member.is_in_keys() {
                true => Ok(IdentitySource::ApiKey),
                false => Err(SourceError {
                    message: format!("an API key has no {member}"),
                    hint: Some("`api_key` is a source of user, tenant, client and plan".to_owned()),
                }),
            };
        }
        if let Some(template) = text.strip_prefix("host:") {
            return HostTemplate::parse(member, template).map(IdentitySource::Host);
        }
        match Descriptor::parse(text) {
            Some(Descriptor::Header(name)) if is_token(&name) => Ok(IdentitySource::Header(name)),
            Some(Descriptor::Jwt(claim)) => Ok(IdentitySource::Jwt(claim)),
            Some(Descriptor::Query(name)) => Ok(IdentitySource::Query(name)),
            _ => {
                Err(SourceError { message: format!("\"{text}\" is not a source"), hint: hint(member, text) })
            }
        }
    }
}

/// Can a header have this name?
fn is_token(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// How to fix a text that is not a source.
fn hint(member: IdentityMember, text: &str) -> Option<String> {
    const KINDS: [&str; 4] = ["header", "jwt", "query", "host"];
    if text.contains('{') {
        return Some(format!("a pattern of hosts begins with `host:`: `host:{{{member}}}.example.com`"));
    }
    let Some((kind, argument)) = text.split_once(':') else {
        return Some(match text {
            _ if nearest(text, ["api_key"]).is_some() || text == "apikey" || text == "key" => {
                "write `api_key`".to_owned()
            }
            _ if is_token(text) && !text.is_empty() => format!("a header is written `header:{text}`"),
            _ => format!("a source is {}", IdentitySource::FORMS),
        });
    };
    let meant = match kind {
        "claim" | "claims" | "token" | "bearer" => Some("jwt"),
        "param" | "parameter" | "arg" | "url" => Some("query"),
        "hostname" | "domain" | "subdomain" => Some("host"),
        _ => nearest(kind, KINDS),
    };
    Some(match meant {
        Some("host") => format!("write `host:{{{member}}}.example.com`, with the name of your host"),
        Some(meant) if meant != kind && !argument.is_empty() => format!("write `{meant}:{argument}`"),
        Some(meant) => format!("write a name without spaces after `{meant}:`"),
        None => format!("a source is {}", IdentitySource::FORMS),
    })
}

impl fmt::Display for IdentitySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IdentitySource::Header(name) => write!(f, "header:{name}"),
            IdentitySource::Jwt(claim) => write!(f, "jwt:{claim}"),
            IdentitySource::Query(name) => write!(f, "query:{name}"),
            IdentitySource::Host(template) => write!(f, "host:{template}"),
            IdentitySource::ApiKey => f.write_str("api_key"),
        }
    }
}

//! Patterns of hosts, of which one label is a member of the request: `{tenant}.api.example.com`.

use std::fmt;

use super::{IdentityMember, SourceError};

/// The longest host name, in bytes (RFC 1035).
const HOST_BYTES_MAX: usize = 253;

/// A pattern of hosts with one placeholder, which stands for exactly one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostTemplate {
    member: IdentityMember,
    /// The labels before the placeholder, in lower case, with the dot after them.
    before: Box<str>,
    /// The labels after the placeholder, with the dot before them.
    after: Box<str>,
}

impl HostTemplate {
    /// Parses a pattern. The placeholder must be called like the member that it is listed under, so that a line of
    /// settings that was copied from another member is noticed.
    ///
    /// # Errors
    /// When it does not have exactly one placeholder, of that name and as a whole label, or is not a host otherwise.
    pub fn parse(member: IdentityMember, text: &str) -> Result<HostTemplate, SourceError> {
        let placeholder = format!("{{{member}}}");
        let wrong = |message: String, hint: String| Err(SourceError { message, hint: Some(hint) });
        let example = format!("write for instance `host:{placeholder}.api.example.com`");
        let Some((before, after)) = text.split_once(&*placeholder) else {
            let other = text.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
            return match other {
                Some((name, _)) => wrong(
                    format!("the placeholder {{{name}}} stands in the sources of `{member}`"),
                    format!("write `host:{}`", text.replacen(&format!("{{{name}}}"), &placeholder, 1)),
                ),
                None => wrong(format!("the pattern \"{text}\" has no placeholder"), example),
            };
        };
        if before.contains(['{', '}']) || after.contains(['{', '}']) {
            return wrong(format!("the pattern \"{text}\" has more than one placeholder"), example);
        }
        let is_whole_label =
            (before.is_empty() || before.ends_with('.')) && (after.is_empty() || after.starts_with('.'));
        if !is_whole_label {
            return wrong(format!("the placeholder in \"{text}\" is not a whole label"), example);
        }
        let after = after.strip_suffix('.').unwrap_or(after);
        let labels = before.split_terminator('.').chain(after.split('.').skip(1));
        let are_labels = labels.clone().all(is_label) && labels.count() > 0;
        if !are_labels || before.starts_with('.') || before.len() + after.len() > HOST_BYTES_MAX {
            return wrong(
                format!("\"{text}\" is not a pattern of hosts"),
                format!("{example}, without a port"),
            );
        }
        let lower = |text: &str| text.to_ascii_lowercase().into_boxed_str();
        Ok(HostTemplate { member, before: lower(before), after: lower(after) })
    }

    /// The label that stands at the place of the placeholder, in lower case: hosts have no case, and `Acme` must not be
    /// another tenant than `acme`. `None` if the host does not fit. A port and a final dot are ignored.
    pub fn find(&self, host: &str) -> Option<String> {
        let host = without_port(host.trim());
        let host = host.strip_suffix('.').unwrap_or(host);
        if host.len() > HOST_BYTES_MAX {
            return None;
        }
        let host = host.to_ascii_lowercase();
        let label = host.strip_prefix(&*self.before)?.strip_suffix(&*self.after)?;
        (!label.is_empty() && !label.contains('.')).then(|| label.to_owned())
    }
}

/// A host without its port.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.contains(':') => name,
        _ => host,
    }
}

fn is_label(label: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=63).contains(&label.len()) && label.bytes().all(is_allowed)
}

impl fmt::Display for HostTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{{{}}}{}", self.before, self.member, self.after)
    }
}

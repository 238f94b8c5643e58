//! `If-Match`: the version that a change was made on.

use http::HeaderMap;
use http::header::IF_MATCH;

use crate::control::api::ApiError;

/// The most versions that `If-Match` may list.
const VERSIONS_MAX: usize = 16;

/// The versions on which a change may be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Precondition {
    /// Whatever is active: there is no `If-Match`, or it is `*`.
    Any,
    /// One of these.
    OneOf(Vec<u64>),
}

impl Precondition {
    /// The precondition of a request.
    ///
    /// # Errors
    /// When the header is not `*` and no list of versions in quotes.
    pub(super) fn of(headers: &HeaderMap) -> Result<Precondition, ApiError> {
        let wrong = || ApiError::header("If-Match", "it must be `*`, or versions in quotes such as \"8\"");
        let mut versions = Vec::new();
        for header in headers.get_all(IF_MATCH) {
            let text = header.to_str().map_err(|_| wrong())?.trim();
            if text == "*" {
                return Ok(Precondition::Any);
            }
            for one in text.split(',') {
                let digits = one.trim().strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
                let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
                let version = digits.and_then(|digits| digits.parse().ok());
                versions.push(version.filter(|_| versions.len() < VERSIONS_MAX).ok_or_else(wrong)?);
            }
        }
        Ok(if versions.is_empty() { Precondition::Any } else { Precondition::OneOf(versions) })
    }

    /// Checks it against the active version.
    ///
    /// # Errors
    /// When another version is active.
    pub(super) fn check(&self, active: u64) -> Result<(), ApiError> {
        match self {
            Precondition::OneOf(versions) if !versions.contains(&active) => Err(ApiError::Stale { active }),
            _ => Ok(()),
        }
    }

    /// Does a change of another writer meanwhile refuse this one?
    pub(super) fn is_conditional(&self) -> bool {
        *self != Precondition::Any
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn of(values: &[&'static str]) -> Option<Precondition> {
        let pairs = values.iter().map(|value| (IF_MATCH, HeaderValue::from_static(value)));
        Precondition::of(&pairs.collect()).ok()
    }

    #[test]
    fn versions_stand_in_quotes() {
        assert_eq!(of(&[]), Some(Precondition::Any));
        assert_eq!(of(&["*"]), Some(Precondition::Any));
        assert_eq!(of(&["\"8\""]), Some(Precondition::OneOf(vec![8])));
        assert_eq!(of(&["\"8\", \"9\"", "\"10\""]), Some(Precondition::OneOf(vec![8, 9, 10])));
        for wrong in ["8", "W/\"8\"", "\"x\"", "\"\"", "", "\"8\",", "\"+8\"", "\"99999999999999999999\""] {
            assert_eq!(of(&[wrong]), None, "{wrong}");
        }
        assert!(Precondition::OneOf(vec![8]).check(9).is_err_and(|error| error.status() == 412));
    }
}

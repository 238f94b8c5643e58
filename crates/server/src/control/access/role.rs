//! Roles: what a token may do.

use std::fmt;
use std::str::FromStr;

/// What a token may do. Each role includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessRole {
    /// Reads everything, and tries things out.
    Viewer,
    /// Acts on live state: keys, overrides, penalties, trust.
    Operator,
    /// Changes the policy.
    Editor,
    /// Gives tokens to others.
    Admin,
}

impl AccessRole {
    /// All of them, the smallest first.
    pub const ALL: [AccessRole; 4] =
        [AccessRole::Viewer, AccessRole::Operator, AccessRole::Editor, AccessRole::Admin];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            AccessRole::Viewer => "viewer",
            AccessRole::Operator => "operator",
            AccessRole::Editor => "editor",
            AccessRole::Admin => "admin",
        }
    }
}

impl fmt::Display for AccessRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that is not a role.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the roles are viewer, operator, editor and admin")]
pub struct UnknownRole;

impl FromStr for AccessRole {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<AccessRole, UnknownRole> {
        AccessRole::ALL.into_iter().find(|role| role.as_str() == text).ok_or(UnknownRole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_includes_those_before_it_and_has_a_name() {
        assert!(AccessRole::ALL.is_sorted());
        for role in AccessRole::ALL {
            assert_eq!(role.as_str().parse(), Ok(role));
        }
        assert_eq!("root".parse::<AccessRole>(), Err(UnknownRole));
    }
}

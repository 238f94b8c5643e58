//! Roles: what a token may do.

use std::fmt;
use std::str::FromStr;

/// What a token may do. Each role includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Reads everything, and tries things out.
    Viewer,
    /// Acts on live state: keys, overrides, penalties, trust.
    Operator,
    /// Changes the policy.
    Editor,
    /// Gives tokens to others.
    Admin,
}

impl Role {
    /// All of them, the smallest first.
    pub const ALL: [Role; 4] = [Role::Viewer, Role::Operator, Role::Editor, Role::Admin];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Editor => "editor",
            Role::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that is not a role.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the roles are viewer, operator, editor and admin")]
pub struct UnknownRole;

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Role, UnknownRole> {
        Role::ALL.into_iter().find(|role| role.as_str() == text).ok_or(UnknownRole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_includes_those_before_it_and_has_a_name() {
        assert!(Role::ALL.is_sorted());
        for role in Role::ALL {
            assert_eq!(role.as_str().parse(), Ok(role));
        }
        assert_eq!("root".parse::<Role>(), Err(UnknownRole));
    }
}

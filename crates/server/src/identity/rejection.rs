//! The reasons for which a credential is invalid.

use std::fmt;

/// Why a credential is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// It breaks the grammar of tokens, there are several, or it has no expiry time.
    Malformed,
    /// No key fits it, or more than one does.
    UnknownKey,
    /// Its signature was not made with the key that fits it.
    BadSignature,
    /// Its signature was not checked, because too many checks for its address have just failed.
    NotChecked,
    /// It has expired.
    Expired,
    /// It is not valid yet (`nbf`).
    NotYetValid,
    /// Its issuer is not the required one.
    WrongIssuer,
    /// Its audience does not contain the required one.
    WrongAudience,
}

impl Rejection {
    /// All of them, in the order of their discriminants.
    pub const ALL: [Rejection; 8] = [
        Rejection::Malformed,
        Rejection::UnknownKey,
        Rejection::BadSignature,
        Rejection::NotChecked,
        Rejection::Expired,
        Rejection::NotYetValid,
        Rejection::WrongIssuer,
        Rejection::WrongAudience,
    ];

    /// Its name in metrics and logs. Responses do not reveal it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Rejection::Malformed => "malformed",
            Rejection::UnknownKey => "unknown_key",
            Rejection::BadSignature => "bad_signature",
            Rejection::NotChecked => "not_checked",
            Rejection::Expired => "expired",
            Rejection::NotYetValid => "not_yet_valid",
            Rejection::WrongIssuer => "wrong_issuer",
            Rejection::WrongAudience => "wrong_audience",
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

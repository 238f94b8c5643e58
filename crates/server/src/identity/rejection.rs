//! Why a credential does not hold.

use std::fmt;

/// Why a credential does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// It is not spelt as a token is, or there are several, or it says no time at which it ends.
    Malformed,
    /// None of the keys can be meant, or more than one.
    UnknownKey,
    /// The key that it names has not signed it.
    BadSignature,
    /// Nobody knows: its address has sent so much junk that it was not checked.
    NotChecked,
    /// Its time is over.
    Expired,
    /// Its time has not come.
    NotYetValid,
    /// Somebody else has issued it.
    WrongIssuer,
    /// It is for somebody else.
    WrongAudience,
}

impl Rejection {
    /// All of them; a rejection's place is its number.
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

    /// The word for it, in metrics and logs. The client is not told.
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

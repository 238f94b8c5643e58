//! `missing` as written.

/// What happens to a request that lacks a descriptor of a limit's key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// The limit does not apply to it.
    #[default]
    Skip,
    /// It takes from one bucket that all such requests share.
    Shared,
    /// It is denied.
    Deny,
}

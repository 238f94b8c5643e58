//! Deliberate mistakes. A proof that cannot fail proves nothing: each of these must be noticed.

/// A deliberate mistake, to show that the invariants notice it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// The server counts every request twice.
    CountsTwice,
    /// Nodes send every count twice.
    SendsTwice,
    /// The server forgets penalties when it restarts, although it keeps everything else.
    ForgetsOnRestart,
    /// Nodes do not understand that a user is blocked.
    IgnoresBlocks,
    /// The server gives twice what a grant says.
    GrantsDouble,
    /// Nodes send every reset and every grant twice.
    ActsTwice,
    /// The server executes every reset once more, some time later.
    ResetsAgain,
    /// Nodes give an override a tenth more than it says.
    OverridesTooHigh,
    /// One node does not hear that an override has ended, or that there is a new one.
    OverridesStay,
    /// A bucket that changes its numbers becomes full.
    RenumbersToFull,
    /// A policy that is tried out charges the buckets of the one in force.
    CandidateChargesLive,
    /// Nodes take admissions of a policy that is tried out for denials.
    CandidateUnheard,
    /// The server takes what it admits twice.
    TakesTwice,
}

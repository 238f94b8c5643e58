//! The Redis protocol: commands out of bytes, and replies as bytes.

pub(super) mod decode;
pub(super) mod inline;
pub(super) mod number;
pub(super) mod reply;

//! The encoding of RESP: [`decode`] finds commands in the input, as arrays or as lines ([`inline`]), [`number`] reads
//! integers, and [`reply`] writes replies.

pub(super) mod decode;
pub(super) mod inline;
pub(super) mod number;
pub(super) mod reply;

//! The messages of the wire, and the description of them that reflection hands out.
//!
//! All but this file is written by `cargo xtask gen` from the protos in `crates/server/proto`.

mod tree;

pub use tree::{envoy, google, grpc};

/// All files and what they import, as an encoded `FileDescriptorSet`.
pub const DESCRIPTORS: &[u8] = include_bytes!("descriptors.bin");

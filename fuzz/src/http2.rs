//! The gRPC listener: bytes are split into frames, and frames are calls.

use tidegate_server::bounds::STREAMS_MAX;
use tidegate_server::grpc::Http2Trial;

use crate::Random;
use crate::target::{FuzzFailure, kind_of};

const ANSWER: &[u8] = b"an answer";

pub(crate) fn try_input(input: &[u8]) -> Result<u64, FuzzFailure> {
    let whole = sent([input].into_iter())?;
    let bytes = sent(input.chunks(1))?;
    FuzzFailure::unless(whole == bytes, || "split into single bytes, other frames are sent".to_owned())?;
    let size = 1 + Random::new(input.len() as u64).index(input.len() + 1);
    let pieces = sent(input.chunks(size))?;
    FuzzFailure::unless(whole == pieces, || {
        format!("split into pieces of {size} bytes, other frames are sent")
    })?;
    // Each call needs a frame of nine bytes and a head, and gets three small frames.
    FuzzFailure::unless(whole.len() <= 100 + 20 * input.len(), || {
        format!("{} bytes are sent for {}", whole.len(), input.len())
    })?;
    let kinds = kinds(&whole)?;
    Ok(kind_of(kinds.iter().map(String::as_str).take(6)))
}

/// What the server sends.
fn sent<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Result<Vec<u8>, FuzzFailure> {
    let mut trial = Http2Trial::default();
    for piece in pieces {
        trial.receive(piece);
        let open = trial.open_streams();
        FuzzFailure::unless(open <= STREAMS_MAX as usize, || format!("{open} streams are open"))?;
    }
    Ok(trial.answer(ANSWER))
}

/// The kind of each frame, with the error code of those that have one.
fn kinds(mut bytes: &[u8]) -> Result<Vec<String>, FuzzFailure> {
    const NAMES: [&str; 9] =
        ["data", "headers", "priority", "reset", "settings", "push", "ping", "goaway", "window"];
    const CODES: [&str; 12] = [
        "none", "protocol", "internal", "flow", "timeout", "closed", "size", "refused", "cancel", "hpack",
        "connect", "calm",
    ];
    let mut kinds = Vec::new();
    while let Some(([a, b, c, kind, ..], _)) = bytes.split_first_chunk::<9>() {
        let length = 9 + u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let name = NAMES.get(usize::from(*kind)).copied();
        let (Some(name), Some((frame, rest))) = (name, bytes.split_at_checked(length)) else {
            return Err(FuzzFailure(format!("not a frame: {}", bytes[..9].escape_ascii())));
        };
        let code = match name {
            "reset" | "goaway" => frame.last().and_then(|code| CODES.get(usize::from(*code))),
            _ => None,
        };
        kinds.push(format!("{name} {}", code.copied().unwrap_or_default()));
        bytes = rest;
    }
    FuzzFailure::unless(bytes.is_empty(), || format!("half a frame: {}", bytes.escape_ascii()))?;
    Ok(kinds)
}

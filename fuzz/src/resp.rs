//! The RESP listener: bytes are split into commands, and each command gets a reply.

use std::sync::LazyLock;

use tidegate::engine::Policy;
use tidegate_server::identity::Identity;
use tidegate_server::node::Node;
use tidegate_server::resp::{DecodeStep, Decoder, Exchange};
use tidegate_server::settings::Settings;

use crate::Random;
use crate::target::{FuzzFailure, kind_of};

/// Uses every feature of policies, so that every field matters.
const POLICY: &str = include_str!("policy.yaml");

/// The node runs on the real clock, so its replies depend on the time: each input is executed only once.
static NODE: LazyLock<Node> = LazyLock::new(|| {
    let settings = Settings { max_keys: 1_000, ..Settings::default() };
    let identity = Identity::new(&settings).expect("there are no keys to load");
    let policy = Policy::parse(POLICY).expect("the policy is valid");
    Node::new(settings, policy.into(), identity).expect("a few limits fit")
});

pub(crate) fn try_input(input: &[u8]) -> Result<u64, FuzzFailure> {
    let whole = commands([input].into_iter())?;
    let bytes = commands(input.chunks(1))?;
    FuzzFailure::unless(whole == bytes, || "split into single bytes, there are other commands".to_owned())?;
    let mut random = Random::new(input.len() as u64);
    let size = 1 + random.index(input.len() + 1);
    let pieces = commands(input.chunks(size))?;
    FuzzFailure::unless(whole == pieces, || {
        format!("split into pieces of {size} bytes, there are other commands")
    })?;
    let (replies, over) = replies(input)?;
    // An empty command gets no reply; a command that ends the connection is the last.
    let expected = whole.iter().filter(|command| !command.is_empty()).count();
    let seen = each_reply(&replies)?;
    let fits = seen.len() == expected || (over && seen.len() <= expected);
    FuzzFailure::unless(fits, || format!("{} replies to {expected} commands", seen.len()))?;
    Ok(kind_of(seen.iter().map(String::as_str).take(4)))
}

/// The commands, each as a string; a refused command or a protocol error counts as one too.
fn commands<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Result<Vec<String>, FuzzFailure> {
    let (mut decoder, mut held, mut all) = (Decoder::new(), Vec::new(), Vec::new());
    for piece in pieces {
        held.extend_from_slice(piece);
        let mut used = 0;
        loop {
            let rest = &held[used..];
            match decoder.step(rest) {
                DecodeStep::Command(bytes) => {
                    let args: Vec<String> =
                        decoder.args(rest).iter().map(|arg| format!("`{}`", arg.escape_ascii())).collect();
                    all.push(args.join(" "));
                    FuzzFailure::unless(bytes > 0 && bytes <= rest.len(), || {
                        format!("a command of {bytes} bytes")
                    })?;
                    used += bytes;
                }
                DecodeStep::Refused(bytes, refusal) => {
                    all.push(refusal.to_string());
                    used += bytes;
                }
                DecodeStep::More(bytes) => {
                    used += bytes;
                    break;
                }
                DecodeStep::Broken(broken) => {
                    all.push(broken.to_string());
                    return Ok(all);
                }
            }
        }
        held.drain(..used);
    }
    Ok(all)
}

/// The server's replies to the input, and whether it closes the connection.
fn replies(input: &[u8]) -> Result<(Vec<u8>, bool), FuzzFailure> {
    const AT_ONCE: usize = 7;
    let mut exchange = Exchange::new(&NODE);
    let (mut all, mut rest) = (Vec::new(), input);
    loop {
        let mut out = Vec::new();
        let progress = exchange.answer(rest, AT_ONCE, &mut out);
        all.append(&mut out);
        let sound = progress.used <= rest.len() && progress.commands <= AT_ONCE;
        FuzzFailure::unless(sound, || format!("{progress:?} of {} bytes", rest.len()))?;
        rest = &rest[progress.used..];
        if !progress.paused {
            return Ok((all, exchange.is_over()));
        }
        // `EXEC` runs commands that were read before.
        FuzzFailure::unless(progress.used + progress.commands > 0, || "it makes no progress".to_owned())?;
    }
}

/// Parses the replies one by one, each as a string.
fn each_reply(mut bytes: &[u8]) -> Result<Vec<String>, FuzzFailure> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let whole = bytes;
        bytes = after_reply(bytes, 0).ok_or_else(|| {
            FuzzFailure(format!("not a reply: {}", whole[..whole.len().min(200)].escape_ascii()))
        })?;
        all.push(whole[..whole.len() - bytes.len()].escape_ascii().to_string());
    }
    Ok(all)
}

/// The bytes after one reply; `None` if they do not start with a valid reply.
fn after_reply(bytes: &[u8], depth: usize) -> Option<&[u8]> {
    const DEPTH_MAX: usize = 8;
    let end = bytes.windows(2).position(|two| two == b"\r\n").filter(|_| depth < DEPTH_MAX)?;
    let (kind, line, mut rest) =
        (bytes.first()?, std::str::from_utf8(&bytes[1..end]).ok()?, &bytes[end + 2..]);
    let lone = |text: &str| text.bytes().all(|byte| byte != b'\r' && byte != b'\n');
    match kind {
        b'+' => lone(line).then_some(rest),
        b'-' => {
            let known = ["ERR ", "NOAUTH ", "WRONGPASS ", "NOPROTO ", "EXECABORT "];
            (lone(line) && known.iter().any(|kind| line.starts_with(kind))).then_some(rest)
        }
        b':' => line.parse::<i64>().ok().map(|_| rest),
        b'_' => line.is_empty().then_some(rest),
        b'$' if line == "-1" => Some(rest),
        b'$' | b'=' => {
            let length: usize = line.parse().ok()?;
            rest.get(length..)?.strip_prefix(b"\r\n")
        }
        b'*' | b'%' => {
            let items: usize = line.parse().ok()?;
            for _ in 0..items * if *kind == b'%' { 2 } else { 1 } {
                rest = after_reply(rest, depth + 1)?;
            }
            Some(rest)
        }
        _ => None,
    }
}

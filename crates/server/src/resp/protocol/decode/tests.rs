//! What is a command and what is not, and that the pieces in which it arrives make no difference.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Command(Vec<Vec<u8>>),
    Refused(CommandRefusal),
    Broken(FramingError),
}

/// Decodes the pieces as a connection does, and checks that it holds no more than a connection may.
fn seen<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Seen> {
    let (mut decoder, mut held, mut all) = (Decoder::new(), Vec::new(), Vec::new());
    for piece in pieces {
        held.extend_from_slice(piece);
        let mut used = 0;
        loop {
            match decoder.step(&held[used..]) {
                DecodeStep::Command(bytes) => {
                    let args = decoder.args(&held[used..]);
                    all.push(Seen::Command(args.iter().map(<[u8]>::to_vec).collect()));
                    assert!(bytes > 0);
                    used += bytes;
                }
                DecodeStep::Refused(bytes, refusal) => {
                    all.push(Seen::Refused(refusal));
                    used += bytes;
                }
                DecodeStep::More(bytes) => {
                    used += bytes;
                    break;
                }
                DecodeStep::Broken(broken) => {
                    all.push(Seen::Broken(broken));
                    return all;
                }
            }
        }
        held.drain(..used);
        assert!(held.len() < crate::bounds::RESP_BUFFER_MAX, "there is room to read on");
    }
    all
}

fn command(args: &[&[u8]]) -> Seen {
    Seen::Command(args.iter().map(|arg| arg.to_vec()).collect())
}

fn encoded(args: &[Vec<u8>]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
    out
}

#[test]
fn arrays_lines_and_nothing() {
    let input =
        b"*2\r\n$4\r\nECHO\r\n$4\r\na\r\nb\r\n*0\r\n*-1\r\n\r\nPING \"a b\"\r\nping\n*1\r\n$0\r\n\r\n";
    let expected = [
        command(&[b"ECHO", b"a\r\nb"]),
        command(&[]),
        command(&[]),
        command(&[]),
        command(&[b"PING", b"a b"]),
        command(&[b"ping"]),
        command(&[b""]),
    ];
    assert_eq!(seen([&input[..]]), expected);
}

#[test]
fn broken_framing_is_told_from_what_follows() {
    for (input, broken) in [
        (&b"*x\r\n"[..], FramingError::ArrayLength),
        (b"*1048577\r\n", FramingError::ArrayLength),
        (b"*99999999999999999999\r\n", FramingError::ArrayLength),
        (b"*1\r\n$x\r\n", FramingError::BulkLength),
        (b"*1\r\n$-1\r\n", FramingError::BulkLength),
        (b"*1\r\n$536870913\r\n", FramingError::BulkLength),
        (b"*1\r\n:1\r\n", FramingError::NoBulk(b':')),
        (b"*1\r\n$1\r\nab\r\n", FramingError::NoLineEnd),
        (b"*1\r\n$5000\r\n", FramingError::NoLineEnd),
        (b"echo \"a\r\n", FramingError::Quotes),
    ] {
        let mut input = input.to_vec();
        if broken == FramingError::NoLineEnd {
            input.resize(input.len() + 5_002, b'x');
        }
        assert_eq!(seen([&input[..]]), [Seen::Broken(broken)], "{}", input.escape_ascii());
    }
    let endless = vec![b'x'; RESP_COMMAND_BYTES_MAX + 1];
    assert_eq!(seen([&endless[..]]), [Seen::Broken(FramingError::LongLine)]);
    assert_eq!(seen([&endless[1..]]), [], "it may still end");
}

#[test]
fn what_is_too_large_is_passed_over() {
    let ping = encoded(&[b"PING".to_vec()]);
    let cases = [
        (vec![b"a".to_vec(); RESP_ARGS_MAX + 1], None),
        (vec![b"a".to_vec(); RESP_ARGS_MAX + 2], Some(CommandRefusal::Args)),
        (vec![vec![b'x'; RESP_ARG_BYTES_MAX]], None),
        (vec![vec![b'x'; RESP_ARG_BYTES_MAX + 1]], Some(CommandRefusal::ArgBytes)),
        (vec![vec![b'x'; 700_000]; 2], Some(CommandRefusal::ArgBytes)),
        (vec![vec![b'x'; RESP_ARG_BYTES_MAX]; 15], None),
        (vec![vec![b'x'; RESP_ARG_BYTES_MAX]; 16], Some(CommandRefusal::CommandBytes)),
        (vec![vec![b'x'; RESP_ARG_BYTES_MAX]; 128], Some(CommandRefusal::CommandBytes)),
    ];
    for (args, refusal) in cases {
        let mut input = encoded(&args);
        input.extend_from_slice(&ping);
        let first = refusal.map_or_else(|| Seen::Command(args.clone()), Seen::Refused);
        let expected = [first, command(&[b"PING"])];
        assert_eq!(seen([&input[..]]), expected);
        assert_eq!(seen(input.chunks(1_000)), expected);
        assert_eq!(seen(input.chunks(997)), expected);
    }
    let line = format!("echo {}\nPING\n", "x".repeat(RESP_ARG_BYTES_MAX + 1));
    assert_eq!(seen([line.as_bytes()]), [Seen::Refused(CommandRefusal::ArgBytes), command(&[b"PING"])]);
    let line = format!("{}\nPING\n", "x ".repeat(RESP_ARGS_MAX + 2));
    assert_eq!(seen([line.as_bytes()]), [Seen::Refused(CommandRefusal::Args), command(&[b"PING"])]);
}

/// Random bytes that are often commands, or nearly so.
fn nearly_commands() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..6).prop_map(|args| encoded(&args)),
        1 => prop::sample::select(vec![
            &b"*2\r\n"[..], b"$3\r\n", b"\r\n", b"*", b"$", b"PING\r\n", b"echo 'a b'\n", b"\"", b"*130\r\n",
            b"*1\r\n$4097\r\n", b"*-1\r\n", b"\r", b"\n", b"1",
        ]).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..6),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_split_gives_the_same_commands(input in nearly_commands(), cuts in prop::collection::vec(0_usize..400, 0..8)) {
        let whole = seen([&input[..]]);
        prop_assert_eq!(&seen(input.chunks(1)), &whole);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(input.len())).collect();
        cuts.extend([0, input.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|ends| &input[ends[0]..ends[1]]);
        prop_assert_eq!(seen(pieces), whole);
    }

    #[test]
    fn what_is_encoded_is_decoded(commands in prop::collection::vec(
        prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..12), 0..6,
    )) {
        let input: Vec<u8> = commands.iter().flat_map(|args| encoded(args)).collect();
        let expected: Vec<Seen> = commands.into_iter().map(Seen::Command).collect();
        prop_assert_eq!(seen([&input[..]]), expected);
    }
}

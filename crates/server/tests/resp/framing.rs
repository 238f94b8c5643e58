//! Inline commands, pipelines, commands in pieces, and bytes that are not commands.

use super::wire::{Answer, bulk, encoded, shared};

#[test]
fn a_line_is_a_command() {
    let mut client = shared();
    client.send(b"PING\r\n\r\necho 'a b'\necho \"\\x41\\n\"\r\n");
    assert_eq!(client.answer(), Answer::Word("PONG".into()));
    assert_eq!(client.answer(), bulk("a b"));
    assert_eq!(client.answer(), bulk("A\n"));
}

#[test]
fn a_command_may_come_byte_by_byte() {
    let mut client = shared();
    for byte in encoded(&["ECHO", "slow"]) {
        client.send(&[byte]);
    }
    assert_eq!(client.answer(), bulk("slow"));
}

#[test]
fn answers_come_in_the_order_of_the_commands() {
    let mut client = shared();
    let commands: Vec<u8> = (0..500).flat_map(|number| encoded(&["ECHO", &number.to_string()])).collect();
    // Split in the middle of commands.
    for piece in commands.chunks(1_009) {
        client.send(piece);
    }
    for number in 0..500 {
        assert_eq!(client.answer(), bulk(&number.to_string()));
    }
}

#[test]
fn errors_leave_the_connection_open_unless_the_framing_is_broken() {
    let mut client = shared();
    let long = vec![b'x'; 100_000];
    let many = vec!["x"; 200];
    let large = vec![vec![b'x'; 4_096]; 20];
    assert_eq!(client.ask(&[b"ECHO", &long[..]]).error(), "ERR an argument is too long: at most 4096 bytes");
    assert!(client.ask(&many).error().starts_with("ERR too many arguments: at most 128"));
    assert!(client.ask(&large).error().starts_with("ERR the command is too long: at most "));
    assert_eq!(client.say("PING"), Answer::Word("PONG".into()));

    for (bytes, said) in [
        (&b"*x\r\n"[..], "ERR Protocol error: invalid multibulk length"),
        (b"*1\r\n$9999999999\r\n", "ERR Protocol error: invalid bulk length"),
        (b"*1\r\n+PING\r\n", "ERR Protocol error: expected '$', got '+'"),
        (b"*1\r\n$4\r\nPINGPONG", "ERR Protocol error: expected CRLF after a bulk string"),
        (b"echo 'a\r\n", "ERR Protocol error: unbalanced quotes in request"),
        (&[b'x'; 70_000], "ERR Protocol error: too big inline request"),
        (
            b"POST / HTTP/1.1\r\nHost: x\r\n\r\nCL.THROTTLE k 1 1 1\r\n",
            "ERR Protocol error: this is not an HTTP server",
        ),
    ] {
        let mut client = shared();
        client.send(b"PING\r\n");
        client.send(bytes);
        assert_eq!(client.answer(), Answer::Word("PONG".into()), "what came before is answered");
        assert_eq!(client.answer().error(), said);
        assert!(client.is_closed(), "{said}");
    }
}

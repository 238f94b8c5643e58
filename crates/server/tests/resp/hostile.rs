//! Clients that send too much, read too little, or do nothing: others are answered, and memory does not grow.

use std::io::Write;

use super::wire::{Answer, Client, Server, encoded};

fn pong(client: &mut Client) {
    assert_eq!(client.say("PING"), Answer::Word("PONG".into()));
}

#[test]
fn a_pipeline_of_a_hundred_thousand_commands_is_answered_in_flat_memory() {
    const COMMANDS: usize = 100_000;
    let server = Server::start(&[], &[]);
    let mut client = server.connect();
    assert_eq!(client.say("CL.THROTTLE flood 999 1 86400").integers()[2], 999);
    let before = server.resident_kib();
    let one = encoded(&["CL.THROTTLE", "flood", "999", "1", "86400"]);
    let mut writer = client.stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || writer.write_all(&one.repeat(COMMANDS)).expect("all is taken"));
    let admitted = (0..COMMANDS).filter(|_| client.answer().integers()[0] == 0).count();
    sender.join().unwrap();
    assert_eq!(admitted, 999);
    let grown = server.resident_kib().saturating_sub(before);
    assert!(grown < 4 * 1_024, "{grown} KiB");
}

#[test]
fn who_takes_no_answers_is_not_read_from_and_harms_nobody() {
    let server = Server::start(&[], &[]);
    let mut other = server.connect();
    pong(&mut other);
    let before = server.resident_kib();
    let greedy: Vec<Client> = (0..20).map(|_| server.connect()).collect();
    let message = encoded(&["ECHO", &"x".repeat(4_000)]).repeat(100);
    for client in &greedy {
        client.stream.set_nonblocking(true).unwrap();
        // Send until the server stops reading. A partial write continues where it stopped, so commands stay complete.
        let (mut refused, mut at) = (0, 0);
        while refused < 20 {
            match (&client.stream).write(&message[at..]) {
                Ok(taken) => (refused, at) = (0, (at + taken) % message.len()),
                Err(error) => {
                    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "it is not sent away");
                    refused += 1;
                    pong(&mut other);
                }
            }
        }
    }
    pong(&mut other);
    let grown = server.resident_kib().saturating_sub(before);
    assert!(grown < 20 * 256, "{grown} KiB for 20 clients");
}

#[test]
fn a_large_argument_is_passed_over_without_being_held() {
    let server = Server::start(&[], &[]);
    let mut client = server.connect();
    pong(&mut client);
    let before = server.resident_kib();
    client.send(b"*2\r\n$4\r\nECHO\r\n$100000000\r\n");
    let piece = vec![b'x'; 1_000_000];
    (0..100).for_each(|_| client.send(&piece));
    client.send(b"\r\n");
    assert!(client.answer().error().starts_with("ERR an argument is too long"));
    pong(&mut client);
    let grown = server.resident_kib().saturating_sub(before);
    assert!(grown < 1_024, "{grown} KiB");
}

#[test]
fn idle_connections_cost_next_to_nothing() {
    const IDLE: usize = 400;
    let server = Server::start(&[], &[]);
    pong(&mut server.connect());
    let before = server.resident_kib();
    let mut idle: Vec<Client> = (0..IDLE).map(|_| server.connect()).collect();
    idle.iter_mut().for_each(pong);
    let each = server.resident_kib().saturating_sub(before) * 1_024 / IDLE as u64;
    assert!(each < 8 * 1_024, "{each} bytes for each");
    idle.iter_mut().for_each(pong);
}

#[test]
fn a_server_that_drains_answers_what_it_has_and_closes() {
    let server = Server::start(&[], &[]);
    let mut client = server.connect();
    let mut half = server.connect();
    pong(&mut client);
    half.send(b"*1\r\n$4\r\nPI");
    let interrupted =
        std::process::Command::new("kill").args(["-INT", &server.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    assert!(client.is_closed());
    assert!(half.is_closed());
    assert_eq!(server.ended(), Some(0));
}

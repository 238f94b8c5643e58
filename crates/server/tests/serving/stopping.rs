//! How the server stops.

use std::io::Read;
use std::net::TcpStream;

use rustix::process::Signal;

use crate::support::server::Server;

#[test]
fn told_to_stop_it_drains_and_ends_well() {
    for signal in [Signal::TERM, Signal::INT] {
        let server = Server::start(&[]);
        // A connection that has sent nothing yet is closed.
        let mut idle = TcpStream::connect(server.address("http")).expect("somebody listens");
        server.signal(signal);
        server.logged(&["stop signal received; draining"]);
        assert_eq!(idle.read(&mut [0; 16]).expect("it ends in order"), 0);
        let address = server.address("http");
        assert_eq!(server.ended().code(), Some(0));
        assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
    }
}

#[test]
fn told_twice_it_ends_at_once() {
    let server = Server::start(&[]);
    server.signal(Signal::TERM);
    server.logged(&["stop signal received; draining"]);
    server.signal(Signal::TERM);
    assert_eq!(server.ended().code(), Some(1));
}

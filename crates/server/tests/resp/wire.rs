//! A server for each test that needs one, and a client that parses replies byte by byte.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use crate::support::server;

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Word(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Text(String),
    Null,
    Array(Vec<Answer>),
    Map(Vec<(Answer, Answer)>),
}

impl Answer {
    pub(crate) fn integers(&self) -> Vec<i64> {
        let Answer::Array(items) = self else { panic!("no array: {self:?}") };
        items
            .iter()
            .map(|item| if let Answer::Integer(number) = item { *number } else { panic!("{item:?}") })
            .collect()
    }

    pub(crate) fn error(&self) -> &str {
        if let Answer::Error(said) = self { said } else { panic!("no error: {self:?}") }
    }
}

pub(crate) fn ok() -> Answer {
    Answer::Word("OK".into())
}

pub(crate) fn bulk(text: &str) -> Answer {
    Answer::Bulk(text.into())
}

/// A running server; it ends with the test.
pub(crate) struct Server {
    running: server::Server,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts a server with these settings.
    pub(crate) fn start(args: &[&str], environment: &[(&str, &str)]) -> Server {
        let mut command = server::listening_only("resp", "127.0.0.1:0");
        command.args(args).envs(environment.iter().copied());
        let running = server::Server::start_with(command);
        Server { address: running.socket("resp"), running }
    }

    pub(crate) fn connect(&self) -> Client {
        Client::to(self.address)
    }

    pub(crate) fn id(&self) -> u32 {
        self.running.id()
    }

    /// Waits until it exits, and returns its exit code.
    pub(crate) fn ended(self) -> Option<i32> {
        self.running.ended().code()
    }

    /// Memory in use, in KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).expect("it runs");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("it has memory");
        line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
    }
}

/// The server that most tests share: the embedded policy, no password.
pub(crate) fn shared() -> Client {
    static ADDRESS: LazyLock<SocketAddr> = LazyLock::new(|| {
        let policy = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/resp/policy.yaml");
        let server = Server::start(&["--policy", policy], &[]);
        let address = server.address;
        // Threads that share it end in any order, so it lives as long as the process.
        ends_with_us(server);
        address
    });
    Client::to(*ADDRESS)
}

/// Keeps the server alive for the whole run and has it killed when the run ends, by closing a pipe.
fn ends_with_us(server: Server) {
    let id = server.id().to_string();
    let watcher = Command::new("sh")
        .args(["-c", "cat >/dev/null; kill -9 \"$0\" 2>/dev/null", &id])
        .stdin(Stdio::piped())
        .spawn()
        .expect("a shell starts");
    std::mem::forget((server, watcher));
}

/// A client that sends commands and waits for replies, with a timeout.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Client {
    fn to(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).expect("the server accepts");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket has timeouts");
        stream.set_nodelay(true).expect("a socket can send at once");
        let reader = BufReader::new(stream.try_clone().expect("a socket can be shared"));
        Client { stream, reader }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server reads");
    }

    /// Sends a command as an array of bulk strings, and waits for the reply.
    pub(crate) fn ask<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Answer {
        self.send(&encoded(args));
        self.answer()
    }

    /// The same with the words of a line.
    pub(crate) fn say(&mut self, line: &str) -> Answer {
        self.ask(&line.split(' ').collect::<Vec<_>>())
    }

    pub(crate) fn answer(&mut self) -> Answer {
        let mut line = String::new();
        self.reader.read_line(&mut line).expect("an answer comes");
        let (kind, rest) = line.strip_suffix("\r\n").expect("a line ends with both").split_at(1);
        let number = || rest.parse::<i64>().expect("a length");
        match kind {
            "+" => Answer::Word(rest.into()),
            "-" => Answer::Error(rest.into()),
            ":" => Answer::Integer(number()),
            "_" => Answer::Null,
            "$" if number() == -1 => Answer::Null,
            "$" => Answer::Bulk(self.bytes(number() as usize)),
            "=" => {
                let text = String::from_utf8(self.bytes(number() as usize)).expect("text");
                Answer::Text(text.strip_prefix("txt:").expect("its kind").into())
            }
            "*" => Answer::Array((0..number()).map(|_| self.answer()).collect()),
            "%" => Answer::Map((0..number()).map(|_| (self.answer(), self.answer())).collect()),
            other => panic!("no answer begins with {other}"),
        }
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len + 2];
        self.reader.read_exact(&mut bytes).expect("as many bytes as were said");
        assert_eq!(bytes.split_off(len), b"\r\n");
        bytes
    }

    /// Has the server closed the connection? Waits for it.
    pub(crate) fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        self.reader.read_to_end(&mut rest).is_ok() && rest.is_empty()
    }
}

pub(crate) fn encoded<A: AsRef<[u8]>>(args: &[A]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        let arg = arg.as_ref();
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
    out
}

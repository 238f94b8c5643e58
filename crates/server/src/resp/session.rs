//! The state of a client, and the commands that change it: protocol version, name and authentication.

use std::sync::atomic::{AtomicU64, Ordering};

use subtle::ConstantTimeEq;

use super::commands::{CommandKind, CommandSpec, InTransaction};
use super::commands::{check, client, describe, info, throttle};
use super::exchange::Batch;
use super::protocol::decode::CommandArgs;
use super::protocol::number;
use super::protocol::reply::{EscapedBytes, ReplyWriter, RespVersion};
use super::transaction::Transaction;
use crate::bounds::RESP_AUTH_ATTEMPTS_MAX;
use crate::node::Node;
use crate::settings::Listener;

/// The only user.
const USER: &[u8] = b"default";
/// The Redis version reported to clients, some of which choose features by it.
pub(super) const REDIS_VERSION: &str = "7.0.0";

/// The state of a client.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: u64,
    pub(super) version: RespVersion,
    pub(super) name: Box<[u8]>,
    pub(super) has_access: bool,
    wrong_passwords: u32,
    pub(super) is_over: bool,
    /// The commands since `MULTI`.
    open: Option<Transaction>,
    /// The commands that `EXEC` has begun to run.
    running: Option<Transaction>,
}

impl Session {
    pub(super) fn new(node: &Node) -> Session {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Session {
            id: LAST.fetch_add(1, Ordering::Relaxed) + 1,
            version: RespVersion::Two,
            name: Box::default(),
            has_access: password(node).is_none(),
            wrong_passwords: 0,
            is_over: false,
            open: None,
            running: None,
        }
    }

    /// Answers one command. An empty command gets no reply.
    pub(super) fn answer(&mut self, batch: &mut Batch<'_, '_>, args: CommandArgs<'_>, out: &mut Vec<u8>) {
        let Some(name) = args.get(0) else { return };
        let mut reply = ReplyWriter { out, version: self.version };
        let Some(command) = CommandSpec::named(name) else {
            self.refuse_transaction();
            return self.unknown_command(batch.node, args, &mut reply);
        };
        if !self.has_access && !command.before_auth {
            return reply.error(format_args!("NOAUTH Authentication required."));
        }
        if !command.takes(args.len()) {
            self.refuse_transaction();
            return reply.error(format_args!("ERR wrong number of arguments; usage: {command}"));
        }
        match (&mut self.open, command.verb.in_transaction()) {
            (None, _) | (_, InTransaction::RunsAtOnce) => self.run(batch, command, args, &mut reply),
            (Some(open), InTransaction::Waits) => match open.add(args) {
                Ok(()) => reply.word("QUEUED"),
                Err(full) => {
                    open.refuse();
                    reply.error(format_args!("ERR {full}"));
                }
            },
            (Some(open), InTransaction::IsRefused) => {
                open.refuse();
                reply.error(format_args!("ERR {} is not allowed between MULTI and EXEC", command.name));
            }
        }
    }

    /// Notes that a command was refused: if it belongs to a transaction, that must not run without it.
    pub(super) fn refuse_transaction(&mut self) {
        if let Some(open) = &mut self.open {
            open.refuse();
        }
    }

    /// Has `EXEC` begun to run commands that are not all answered yet?
    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Answers the next command that `EXEC` runs.
    pub(super) fn run_next(&mut self, batch: &mut Batch<'_, '_>, out: &mut Vec<u8>) {
        let Some(mut running) = self.running.take() else { return };
        if let Some(args) = running.next() {
            let mut reply = ReplyWriter { out, version: self.version };
            let command = CommandSpec::named(args.get(0).unwrap_or_default());
            self.run(batch, command.expect("only known commands are kept"), args, &mut reply);
        }
        self.running = Some(running).filter(|running| !running.is_done());
    }

    /// How many bytes of commands it keeps between `MULTI` and the last reply of `EXEC`.
    pub(super) fn kept_bytes(&self) -> usize {
        self.open.iter().chain(&self.running).map(Transaction::size).sum()
    }

    /// Is the client between `MULTI` and `EXEC`?
    pub(super) fn is_in_transaction(&self) -> bool {
        self.open.is_some()
    }

    fn run(
        &mut self,
        batch: &mut Batch<'_, '_>,
        command: &CommandSpec,
        args: CommandArgs<'_>,
        reply: &mut ReplyWriter<'_>,
    ) {
        match command.verb {
            CommandKind::Throttle => throttle::answer(batch, args, reply),
            CommandKind::Check => check::answer(batch, args, reply),
            CommandKind::Ping => match args.get(1) {
                None => reply.word("PONG"),
                Some(message) => reply.bulk(message),
            },
            CommandKind::Echo => reply.bulk(args.get(1).unwrap_or_default()),
            CommandKind::Hello => self.hello(batch.node, args, reply),
            CommandKind::Auth => self.auth(batch.node, args, reply),
            CommandKind::Select => select(args, reply),
            CommandKind::Client => client::answer(self, args, reply),
            CommandKind::Command => describe::answer(args, reply),
            CommandKind::Info => info::answer(batch.node, args, reply),
            CommandKind::Config => config(args, reply),
            CommandKind::Multi if self.open.is_some() => {
                reply.error(format_args!("ERR MULTI calls can not be nested"));
            }
            CommandKind::Multi => {
                self.open = Some(Transaction::default());
                reply.word("OK");
            }
            CommandKind::Exec => self.exec(reply),
            CommandKind::Discard => match self.open.take() {
                Some(_) => reply.word("OK"),
                None => reply.error(format_args!("ERR DISCARD without MULTI")),
            },
            CommandKind::Quit => {
                self.is_over = true;
                reply.word("OK");
            }
            CommandKind::Reset => {
                self.reset(batch.node);
                reply.word("RESET");
            }
        }
    }

    /// `EXEC`: the head of the reply. The commands are run one by one after it, so that their replies are sent in
    /// pieces like those of any pipeline.
    fn exec(&mut self, reply: &mut ReplyWriter<'_>) {
        match self.open.take() {
            None => reply.error(format_args!("ERR EXEC without MULTI")),
            Some(refused) if refused.is_refused() => {
                reply.error(format_args!("EXECABORT Transaction discarded because of previous errors."));
            }
            Some(open) => {
                reply.array(open.len());
                self.running = Some(open).filter(|open| !open.is_done());
            }
        }
    }

    fn unknown_command(&mut self, node: &Node, args: CommandArgs<'_>, reply: &mut ReplyWriter<'_>) {
        let name = args.get(0).unwrap_or_default();
        // A web page can make a browser send an HTTP request here. Its body must not be read as commands.
        if name.eq_ignore_ascii_case(b"POST") || name.eq_ignore_ascii_case(b"Host:") {
            self.is_over = true;
            node.metrics().protocol_error(Listener::Resp);
            return reply.error(format_args!("ERR Protocol error: this is not an HTTP server"));
        }
        if !self.has_access {
            return reply.error(format_args!("NOAUTH Authentication required."));
        }
        let mut beginning = String::new();
        for arg in args.iter().skip(1).take(4) {
            beginning.push_str(&format!("'{}' ", EscapedBytes(arg)));
        }
        reply.error(format_args!(
            "ERR unknown command '{}', with args beginning with: {beginning}",
            EscapedBytes(name)
        ));
    }

    fn reset(&mut self, node: &Node) {
        self.version = RespVersion::Two;
        self.name = Box::default();
        self.has_access = password(node).is_none();
        self.open = None;
    }

    /// `HELLO [version [AUTH user password] [SETNAME name]]`: all options are applied, or none.
    fn hello(&mut self, node: &Node, args: CommandArgs<'_>, reply: &mut ReplyWriter<'_>) {
        let version = match args.get(1).map(number::integer) {
            None => self.version,
            Some(Ok(2)) => RespVersion::Two,
            Some(Ok(3)) => RespVersion::Three,
            Some(Ok(_)) => {
                return reply.error(format_args!("NOPROTO unsupported protocol version: use 2 or 3"));
            }
            Some(Err(_)) => {
                return reply.error(format_args!("ERR Protocol version is not an integer or out of range"));
            }
        };
        let (mut credentials, mut name, mut index) = (None, None, 2);
        while let Some(option) = args.get(index) {
            match (args.get(index + 1), args.get(index + 2)) {
                (Some(user), Some(given)) if option.eq_ignore_ascii_case(b"AUTH") => {
                    credentials = Some((user, given));
                    index += 3;
                }
                (Some(given), _) if option.eq_ignore_ascii_case(b"SETNAME") => {
                    name = Some(given);
                    index += 2;
                }
                _ => {
                    return reply
                        .error(format_args!("ERR Syntax error in HELLO option '{}'", EscapedBytes(option)));
                }
            }
        }
        if let Some(name) = name
            && let Err(wrong) = client::check_name(name)
        {
            return reply.error(format_args!("ERR {wrong}"));
        }
        if let Some((user, given)) = credentials
            && !self.try_password(node, user, given, reply)
        {
            return;
        }
        if !self.has_access {
            return reply.error(format_args!(
                "NOAUTH Authentication required: send HELLO {} AUTH default <password>",
                version as u8
            ));
        }
        self.version = version;
        if let Some(name) = name {
            self.name = name.into();
        }
        reply.version = version;
        self.greet(reply);
    }

    fn greet(&self, reply: &mut ReplyWriter<'_>) {
        reply.map(7);
        for (name, value) in [("server", "tidegate"), ("version", REDIS_VERSION)] {
            reply.bulk(name.as_bytes());
            reply.bulk(value.as_bytes());
        }
        reply.bulk(b"proto");
        reply.integer(self.version as i64);
        reply.bulk(b"id");
        reply.integer(self.id as i64);
        for (name, value) in [("mode", "standalone"), ("role", "master")] {
            reply.bulk(name.as_bytes());
            reply.bulk(value.as_bytes());
        }
        reply.bulk(b"modules");
        reply.array(0);
    }

    /// `AUTH [user] password`
    fn auth(&mut self, node: &Node, args: CommandArgs<'_>, reply: &mut ReplyWriter<'_>) {
        let (user, given) = match (args.get(1), args.get(2)) {
            (Some(user), Some(given)) => (user, given),
            (given, _) => (USER, given.unwrap_or_default()),
        };
        if self.try_password(node, user, given, reply) {
            reply.word("OK");
        }
    }

    /// Checks a password. A wrong one gets an error, and too many of them close the connection.
    fn try_password(&mut self, node: &Node, user: &[u8], given: &[u8], reply: &mut ReplyWriter<'_>) -> bool {
        let Some(password) = password(node) else {
            reply.error(format_args!("ERR AUTH failed: the server has no password set"));
            return false;
        };
        // The password is compared even for a wrong user, so that the time reveals nothing.
        let is_right = given.ct_eq(password) & user.ct_eq(USER);
        if bool::from(is_right) {
            self.has_access = true;
            return true;
        }
        self.wrong_passwords += 1;
        if self.wrong_passwords >= RESP_AUTH_ATTEMPTS_MAX {
            self.is_over = true;
            reply.error(format_args!("WRONGPASS too many wrong passwords; the connection is closed"));
        } else {
            reply.error(format_args!("WRONGPASS invalid username-password pair; the username is 'default'"));
        }
        false
    }
}

fn password(node: &Node) -> Option<&[u8]> {
    node.settings().resp_password.as_deref().map(str::as_bytes)
}

/// `SELECT`: there is only database 0.
fn select(args: CommandArgs<'_>, reply: &mut ReplyWriter<'_>) {
    match args.get(1).map(number::integer) {
        Some(Ok(0)) => reply.word("OK"),
        Some(Ok(_)) => reply.error(format_args!("ERR DB index is out of range: the only database is 0")),
        _ => reply.error(format_args!("ERR invalid DB index: not an integer")),
    }
}

/// `CONFIG GET` returns nothing: some clients send it, but no setting can be read or changed by Redis clients.
fn config(args: CommandArgs<'_>, reply: &mut ReplyWriter<'_>) {
    match args.get(1) {
        Some(verb) if verb.eq_ignore_ascii_case(b"GET") && args.len() > 2 => reply.map(0),
        verb => {
            let verb = EscapedBytes(verb.unwrap_or_default());
            reply.error(format_args!("ERR unknown subcommand '{verb}': the only one is CONFIG GET <name>"));
        }
    }
}

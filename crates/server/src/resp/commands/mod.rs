//! The table of commands. Each file answers one command, or the commands of one area; those that change the session
//! are in `session.rs`.

pub(super) mod check;
pub(super) mod client;
pub(super) mod describe;
pub(super) mod info;
pub(super) mod throttle;

use std::fmt;

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandKind {
    Throttle,
    Check,
    Ping,
    Echo,
    Hello,
    Auth,
    Select,
    Client,
    Command,
    Info,
    Config,
    Multi,
    Exec,
    Discard,
    Quit,
    Reset,
}

/// What happens to a command between `MULTI` and `EXEC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InTransaction {
    /// It waits for `EXEC`.
    Waits,
    /// It is run at once.
    RunsAtOnce,
    /// It is refused (`HELLO`, `AUTH`): it would change the session before the replies of the other commands are written.
    IsRefused,
}

impl CommandKind {
    /// What happens to it between `MULTI` and `EXEC`.
    pub(super) fn in_transaction(self) -> InTransaction {
        match self {
            CommandKind::Multi
            | CommandKind::Exec
            | CommandKind::Discard
            | CommandKind::Quit
            | CommandKind::Reset => InTransaction::RunsAtOnce,
            CommandKind::Hello | CommandKind::Auth => InTransaction::IsRefused,
            _ => InTransaction::Waits,
        }
    }
}

/// The description of a command, for the dispatcher, for `COMMAND` and for error messages.
#[derive(Debug)]
pub(super) struct CommandSpec {
    pub(super) verb: CommandKind,
    /// In capitals.
    pub(super) name: &'static str,
    /// The arguments, as shown in help texts.
    pub(super) syntax: &'static str,
    /// The least and the most arguments, the name included.
    args: (usize, usize),
    /// Is its first argument a key? Cluster clients choose the node by it.
    pub(super) has_key: bool,
    /// Is it allowed before authentication?
    pub(super) before_auth: bool,
    pub(super) summary: &'static str,
}

const ANY: usize = usize::MAX;

/// All commands, the most frequent first: they are searched in this order.
pub(super) const COMMANDS: &[CommandSpec] = &[
    CommandSpec {
        verb: CommandKind::Throttle,
        name: "CL.THROTTLE",
        syntax: "key max_burst count period [quantity]",
        args: (5, 6),
        has_key: true,
        before_auth: false,
        summary: "Takes tokens from an ad hoc bucket, whose numbers are arguments",
    },
    CommandSpec {
        verb: CommandKind::Check,
        name: "TG.CHECK",
        syntax: "field value [field value ...]",
        args: (3, ANY),
        has_key: false,
        before_auth: false,
        summary: "Decides a request by the policy",
    },
    plain(CommandKind::Ping, "PING", "[message]", (1, 2), "Returns PONG, or the message"),
    plain(CommandKind::Echo, "ECHO", "message", (2, 2), "Returns the message"),
    early(
        CommandKind::Hello,
        "HELLO",
        "[version [AUTH user password] [SETNAME name]]",
        (1, ANY),
        "Chooses the protocol version",
    ),
    early(CommandKind::Auth, "AUTH", "[user] password", (2, 3), "Authenticates with the password"),
    plain(CommandKind::Select, "SELECT", "index", (2, 2), "Chooses a database; the only one is 0"),
    plain(CommandKind::Client, "CLIENT", "subcommand [argument ...]", (2, ANY), "Describes this connection"),
    plain(CommandKind::Command, "COMMAND", "[subcommand [name ...]]", (1, ANY), "Describes the commands"),
    plain(CommandKind::Info, "INFO", "[section ...]", (1, ANY), "Describes the server"),
    plain(
        CommandKind::Config,
        "CONFIG",
        "GET name [name ...]",
        (2, ANY),
        "Returns nothing: Redis clients cannot read settings",
    ),
    plain(CommandKind::Multi, "MULTI", "", (1, 1), "Keeps the commands that follow until EXEC"),
    plain(CommandKind::Exec, "EXEC", "", (1, 1), "Runs the commands since MULTI, in order"),
    plain(CommandKind::Discard, "DISCARD", "", (1, 1), "Drops the commands since MULTI"),
    early(CommandKind::Quit, "QUIT", "", (1, ANY), "Closes the connection"),
    early(CommandKind::Reset, "RESET", "", (1, 1), "Resets the state of this connection"),
];

const fn plain(
    verb: CommandKind,
    name: &'static str,
    syntax: &'static str,
    args: (usize, usize),
    summary: &'static str,
) -> CommandSpec {
    CommandSpec { verb, name, syntax, args, has_key: false, before_auth: false, summary }
}

const fn early(
    verb: CommandKind,
    name: &'static str,
    syntax: &'static str,
    args: (usize, usize),
    summary: &'static str,
) -> CommandSpec {
    CommandSpec { before_auth: true, ..plain(verb, name, syntax, args, summary) }
}

impl CommandSpec {
    /// The command with this name, ignoring case.
    #[inline]
    pub(super) fn named(name: &[u8]) -> Option<&'static CommandSpec> {
        COMMANDS.iter().find(|command| command.name.as_bytes().eq_ignore_ascii_case(name))
    }

    /// May it have this many arguments, the name included?
    pub(super) fn takes(&self, args: usize) -> bool {
        (self.args.0..=self.args.1).contains(&args)
    }

    /// The arity as Redis defines it: the number of arguments, negative if there may be more.
    pub(super) fn arity(&self) -> i64 {
        let least = self.args.0 as i64;
        if self.args.0 == self.args.1 { least } else { -least }
    }
}

impl fmt::Display for CommandSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        if self.syntax.is_empty() { Ok(()) } else { write!(f, " {}", self.syntax) }
    }
}

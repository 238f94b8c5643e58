//! `COMMAND`: describes the commands, for clients that complete names or choose cluster nodes.

use super::{COMMANDS, CommandSpec};
use crate::resp::protocol::decode::CommandArgs;
use crate::resp::protocol::reply::{EscapedBytes, ReplyWriter};

pub(crate) fn answer(args: CommandArgs<'_>, reply: &mut ReplyWriter<'_>) {
    let verb = args.get(1).map(<[u8]>::to_ascii_uppercase);
    match verb.as_deref() {
        None => all(reply),
        Some(b"INFO") if args.len() == 2 => all(reply),
        Some(b"INFO") => {
            reply.array(args.len() - 2);
            for name in args.iter().skip(2) {
                match CommandSpec::named(name) {
                    Some(command) => facts(command, reply),
                    None => reply.null(),
                }
            }
        }
        Some(b"COUNT") => reply.integer(COMMANDS.len() as i64),
        Some(b"LIST") => {
            reply.array(COMMANDS.len());
            COMMANDS.iter().for_each(|command| reply.bulk(lower(command).as_bytes()));
        }
        Some(b"DOCS") => {
            let wanted = |command: &&CommandSpec| {
                args.len() == 2
                    || args.iter().skip(2).any(|name| command.name.as_bytes().eq_ignore_ascii_case(name))
            };
            reply.map(COMMANDS.iter().filter(wanted).count());
            COMMANDS.iter().filter(wanted).for_each(|command| documentation(command, reply));
        }
        Some(_) => {
            let seen = EscapedBytes(args.get(1).unwrap_or_default());
            reply.error(format_args!("ERR unknown subcommand '{seen}': use INFO, COUNT, LIST or DOCS"));
        }
    }
}

fn all(reply: &mut ReplyWriter<'_>) {
    reply.array(COMMANDS.len());
    COMMANDS.iter().for_each(|command| facts(command, reply));
}

fn lower(command: &CommandSpec) -> String {
    command.name.to_ascii_lowercase()
}

/// Name, arity, flags, position of the first and last key, and the step between keys; then four empty lists.
fn facts(command: &CommandSpec, reply: &mut ReplyWriter<'_>) {
    reply.array(10);
    reply.bulk(lower(command).as_bytes());
    reply.integer(command.arity());
    reply.array(1);
    reply.word("fast");
    for _ in 0..3 {
        reply.integer(i64::from(command.has_key));
    }
    for _ in 0..4 {
        reply.array(0);
    }
}

fn documentation(command: &CommandSpec, reply: &mut ReplyWriter<'_>) {
    reply.bulk(lower(command).as_bytes());
    reply.map(3);
    let summary = format!("{}: {command}", command.summary);
    for (name, value) in
        [("summary", summary.as_str()), ("since", env!("CARGO_PKG_VERSION")), ("group", "tidegate")]
    {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
}

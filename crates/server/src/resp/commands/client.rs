//! `CLIENT`: name and describe the connection.

use crate::resp::protocol::decode::CommandArgs;
use crate::resp::protocol::reply::{EscapedBytes, ReplyWriter};
use crate::resp::session::Session;

const HELP: &[&str] = &[
    "CLIENT <subcommand> [<argument> ...]. Subcommands are:",
    "GETNAME",
    "    The name of this connection.",
    "ID",
    "    The number of this connection.",
    "INFO, LIST",
    "    The state of this connection.",
    "SETNAME <name>",
    "    Names this connection.",
    "SETINFO LIB-NAME|LIB-VER <value>",
    "    Accepted and ignored.",
    "NO-EVICT ON|OFF, NO-TOUCH ON|OFF, TRACKING OFF, REPLY ON",
    "    Accepted without effect.",
];

pub(crate) fn answer(session: &mut Session, args: CommandArgs<'_>, reply: &mut ReplyWriter<'_>) {
    let word = |index| args.get(index).map(<[u8]>::to_ascii_uppercase);
    let (verb, option) = (word(1).unwrap_or_default(), word(2));
    match (&verb[..], option.as_deref(), args.len()) {
        (b"ID", None, _) => reply.integer(session.id as i64),
        (b"GETNAME", None, _) if session.name.is_empty() => reply.null(),
        (b"GETNAME", None, _) => reply.bulk(&session.name),
        (b"SETNAME", Some(_), 3) => match check_name(args.get(2).unwrap_or_default()) {
            Ok(()) => {
                session.name = args.get(2).unwrap_or_default().into();
                reply.word("OK");
            }
            Err(wrong) => reply.error(format_args!("ERR {wrong}")),
        },
        (b"SETINFO", Some(b"LIB-NAME" | b"LIB-VER"), 4) => {
            match check_name(args.get(3).unwrap_or_default()) {
                Ok(()) => reply.word("OK"),
                Err(wrong) => reply.error(format_args!("ERR {wrong}")),
            }
        }
        (b"INFO", None, _) | (b"LIST", ..) => reply.text(&line(session)),
        // Accepted without effect: nothing is evicted or touched, and tracking and suppressed replies do not exist.
        (b"NO-EVICT" | b"NO-TOUCH", Some(b"ON" | b"OFF"), 3)
        | (b"TRACKING", Some(b"OFF"), _)
        | (b"REPLY", Some(b"ON"), 3) => reply.word("OK"),
        (b"HELP", None, _) => {
            reply.array(HELP.len());
            HELP.iter().for_each(|line| reply.word(line));
        }
        _ => {
            let seen = EscapedBytes(args.get(1).unwrap_or_default());
            reply.error(format_args!(
                "ERR unknown subcommand or wrong arguments for '{seen}'. Try CLIENT HELP."
            ));
        }
    }
}

/// Checks a name. `CLIENT LIST` separates fields by blanks, so names have none.
pub(crate) fn check_name(name: &[u8]) -> Result<(), &'static str> {
    if name.iter().all(u8::is_ascii_graphic) {
        Ok(())
    } else {
        Err("names must not contain spaces, newlines or special characters")
    }
}

fn line(session: &Session) -> String {
    let name = session.name.escape_ascii();
    format!("id={} name={name} db=0 resp={}\n", session.id, session.version as u8)
}

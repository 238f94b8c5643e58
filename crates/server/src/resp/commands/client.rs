//! `CLIENT`: what a client says of itself, and may ask.

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
    "    All that is known of this connection.",
    "SETNAME <name>",
    "    Gives this connection a name.",
    "SETINFO LIB-NAME|LIB-VER <value>",
    "    Is accepted and not kept.",
    "NO-EVICT, NO-TOUCH, TRACKING, REPLY",
    "    Are accepted where they ask for what is so anyway.",
];

pub(crate) fn answer(session: &mut Session, args: CommandArgs<'_>, reply: &mut ReplyWriter<'_>) {
    let word = |place| args.get(place).map(<[u8]>::to_ascii_uppercase);
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
        // There is nothing to evict or to touch.
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

/// Names are shown in lists, so they have no blanks.
pub(crate) fn check_name(name: &[u8]) -> Result<(), &'static str> {
    if name.iter().all(u8::is_ascii_graphic) {
        Ok(())
    } else {
        Err("names have no spaces, newlines or special characters")
    }
}

fn line(session: &Session) -> String {
    let name = session.name.escape_ascii();
    format!("id={} name={name} db=0 resp={}\n", session.id, session.version as u8)
}

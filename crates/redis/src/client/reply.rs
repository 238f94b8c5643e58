//! What a server says instead of an answer.

use redis::{ServerError, Value};

use super::address::HostPort;
use crate::link::LinkError;

/// What to do about a reply.
#[derive(Debug, PartialEq)]
pub(super) enum ReplyAction {
    /// It is the answer.
    Answer(Value),
    /// The script has to be sent along.
    NoScript,
    /// Another node of the Cluster has the slot, from now on.
    Moved(HostPort),
    /// Another node of the Cluster has the key already, while the slot is on its way.
    Ask(HostPort),
    /// This is not the master, or not any more.
    NotMaster(String),
    /// No, for some other reason.
    Refused(String),
}

impl ReplyAction {
    /// Reads a reply that came from `from`.
    pub(super) fn read(value: Value, from: Option<&HostPort>) -> ReplyAction {
        let Value::ServerError(error) = value else {
            return ReplyAction::Answer(value);
        };
        let redirect = || error.details().and_then(|details| place_of(details, from));
        match error.code() {
            "NOSCRIPT" => ReplyAction::NoScript,
            "READONLY" => ReplyAction::NotMaster(words(&error)),
            "MOVED" => redirect().map_or_else(|| ReplyAction::Refused(words(&error)), ReplyAction::Moved),
            "ASK" => redirect().map_or_else(|| ReplyAction::Refused(words(&error)), ReplyAction::Ask),
            // Redis before 7 wraps what a command in a script says into an error of its own.
            _ if error.details().is_some_and(|details| details.contains("-READONLY")) => {
                ReplyAction::NotMaster(words(&error))
            }
            _ => ReplyAction::Refused(words(&error)),
        }
    }

    /// The answer, or why there is none.
    pub(super) fn into_answer(self) -> Result<Value, LinkError> {
        match self {
            ReplyAction::Answer(value) => Ok(value),
            ReplyAction::NotMaster(why) | ReplyAction::Refused(why) => Err(LinkError::Refused(why)),
            ReplyAction::NoScript => {
                Err(LinkError::Refused("the server forgets scripts as they are sent".into()))
            }
            ReplyAction::Moved(place) | ReplyAction::Ask(place) => {
                Err(LinkError::Refused(format!("sent on to {place} once too often")))
            }
        }
    }
}

/// An error of the server, as it said it.
pub(super) fn words(error: &ServerError) -> String {
    match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_owned(),
    }
}

/// The place in `<slot> <host>:<port>`. Without a host it is that of whoever says so.
fn place_of(details: &str, from: Option<&HostPort>) -> Option<HostPort> {
    let (host, port) = details.split_ascii_whitespace().nth(1)?.rsplit_once(':')?;
    let host = match host {
        "" => from?.host.clone(),
        host => host.trim_start_matches('[').trim_end_matches(']').to_owned(),
    };
    Some(HostPort { host, port: port.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> ReplyAction {
        let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).expect("an error line");
        ReplyAction::read(value, Some(&HostPort { host: "here".into(), port: 1 }))
    }

    fn place(host: &str, port: u16) -> HostPort {
        HostPort { host: host.into(), port }
    }

    #[test]
    fn redirects_name_a_place() {
        assert_eq!(read("MOVED 3999 10.0.0.7:6381"), ReplyAction::Moved(place("10.0.0.7", 6_381)));
        assert_eq!(read("ASK 3999 ::1:6381"), ReplyAction::Ask(place("::1", 6_381)));
        assert_eq!(read("MOVED 3999 :6381"), ReplyAction::Moved(place("here", 6_381)));
        assert!(matches!(read("MOVED 3999"), ReplyAction::Refused(_)));
    }

    #[test]
    fn refusals_are_told_in_the_words_of_the_server() {
        for line in [
            "OOM command not allowed when used memory > 'maxmemory'.",
            "LOADING Redis is loading the dataset in memory",
            "MASTERDOWN Link with MASTER is down",
            "NOPERM this user has no permissions to run the 'evalsha' command",
            "BUSY Redis is busy running a script.",
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "CLUSTERDOWN The cluster is down",
            "ERR something",
        ] {
            assert_eq!(read(line), ReplyAction::Refused(line.into()));
        }
        let read_only = "READONLY You can't write against a read only replica.";
        assert_eq!(read(read_only), ReplyAction::NotMaster(read_only.into()));
        assert_eq!(read("NOSCRIPT No matching script."), ReplyAction::NoScript);
    }

    #[test]
    fn anything_else_is_an_answer() {
        assert_eq!(ReplyAction::read(Value::Nil, None), ReplyAction::Answer(Value::Nil));
        assert_eq!(
            read(MOVED_TWICE).into_answer(),
            Err(LinkError::Refused("sent on to a:1 once too often".into()))
        );
    }

    const MOVED_TWICE: &str = "MOVED 1 a:1";
}

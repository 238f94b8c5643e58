//! What a server says instead of an answer.

use redis::{ServerError, Value};

use super::address::Place;
use crate::link::LinkError;

/// What to do about a reply.
#[derive(Debug, PartialEq)]
pub(super) enum Reply {
    /// It is the answer.
    Answer(Value),
    /// The script has to be sent along.
    NoScript,
    /// Another node of the Cluster has the slot, from now on.
    Moved(Place),
    /// Another node of the Cluster has the key already, while the slot is on its way.
    Ask(Place),
    /// This is not the master, or not any more.
    NotMaster(String),
    /// No, for some other reason.
    Refused(String),
}

impl Reply {
    /// Reads a reply that came from `from`.
    pub(super) fn read(value: Value, from: Option<&Place>) -> Reply {
        let Value::ServerError(error) = value else {
            return Reply::Answer(value);
        };
        let redirect = || error.details().and_then(|details| place_of(details, from));
        match error.code() {
            "NOSCRIPT" => Reply::NoScript,
            "READONLY" => Reply::NotMaster(words(&error)),
            "MOVED" => redirect().map_or_else(|| Reply::Refused(words(&error)), Reply::Moved),
            "ASK" => redirect().map_or_else(|| Reply::Refused(words(&error)), Reply::Ask),
            // Redis before 7 wraps what a command in a script says into an error of its own.
            _ if error.details().is_some_and(|details| details.contains("-READONLY")) => {
                Reply::NotMaster(words(&error))
            }
            _ => Reply::Refused(words(&error)),
        }
    }

    /// The answer, or why there is none.
    pub(super) fn into_answer(self) -> Result<Value, LinkError> {
        match self {
            Reply::Answer(value) => Ok(value),
            Reply::NotMaster(why) | Reply::Refused(why) => Err(LinkError::Refused(why)),
            Reply::NoScript => Err(LinkError::Refused("the server forgets scripts as they are sent".into())),
            Reply::Moved(place) | Reply::Ask(place) => {
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
fn place_of(details: &str, from: Option<&Place>) -> Option<Place> {
    let (host, port) = details.split_ascii_whitespace().nth(1)?.rsplit_once(':')?;
    let host = match host {
        "" => from?.host.clone(),
        host => host.trim_start_matches('[').trim_end_matches(']').to_owned(),
    };
    Some(Place { host, port: port.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Reply {
        let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).expect("an error line");
        Reply::read(value, Some(&Place { host: "here".into(), port: 1 }))
    }

    fn place(host: &str, port: u16) -> Place {
        Place { host: host.into(), port }
    }

    #[test]
    fn redirects_name_a_place() {
        assert_eq!(read("MOVED 3999 10.0.0.7:6381"), Reply::Moved(place("10.0.0.7", 6_381)));
        assert_eq!(read("ASK 3999 ::1:6381"), Reply::Ask(place("::1", 6_381)));
        assert_eq!(read("MOVED 3999 :6381"), Reply::Moved(place("here", 6_381)));
        assert!(matches!(read("MOVED 3999"), Reply::Refused(_)));
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
            assert_eq!(read(line), Reply::Refused(line.into()));
        }
        let read_only = "READONLY You can't write against a read only replica.";
        assert_eq!(read(read_only), Reply::NotMaster(read_only.into()));
        assert_eq!(read("NOSCRIPT No matching script."), Reply::NoScript);
    }

    #[test]
    fn anything_else_is_an_answer() {
        assert_eq!(Reply::read(Value::Nil, None), Reply::Answer(Value::Nil));
        assert_eq!(
            read(MOVED_TWICE).into_answer(),
            Err(LinkError::Refused("sent on to a:1 once too often".into()))
        );
    }

    const MOVED_TWICE: &str = "MOVED 1 a:1";
}

//! Classifies replies: answers, redirects and errors.

use redis::{ServerError, Value};

use super::address::HostPort;
use crate::calls::LinkError;

/// What to do about a reply.
#[derive(Debug, PartialEq)]
pub(super) enum ReplyAction {
    /// Return it: it is the answer.
    Answer(Value),
    /// Send the call again with the text of the script.
    NoScript,
    /// Another node of the Cluster owns the slot from now on.
    Moved(HostPort),
    /// The slot is being moved, and the other node already has the key.
    Ask(HostPort),
    /// The server is not, or no longer, the master.
    NotMaster(String),
    /// The server refuses for another reason.
    Refused(String),
}

impl ReplyAction {
    /// Classifies a reply from the server at `from`.
    pub(super) fn read(value: Value, from: Option<&HostPort>) -> ReplyAction {
        let Value::ServerError(error) = value else {
            return ReplyAction::Answer(value);
        };
        let redirect = || error.details().and_then(|details| redirect_address(details, from));
        match error.code() {
            "NOSCRIPT" => ReplyAction::NoScript,
            "READONLY" => ReplyAction::NotMaster(error_text(&error)),
            "MOVED" => {
                redirect().map_or_else(|| ReplyAction::Refused(error_text(&error)), ReplyAction::Moved)
            }
            "ASK" => redirect().map_or_else(|| ReplyAction::Refused(error_text(&error)), ReplyAction::Ask),
            // Redis before 7 adds where in the script it was to an error of a command, and wraps it in another error
            // unless the script returns it.
            _ if error.details().is_some_and(|details| details.contains("-READONLY")) => {
                ReplyAction::NotMaster(error_text(&error))
            }
            _ => ReplyAction::Refused(error_text(&error)),
        }
    }

    /// The answer, or why there is none.
    pub(super) fn into_answer(self) -> Result<Value, LinkError> {
        match self {
            ReplyAction::Answer(value) => Ok(value),
            ReplyAction::NotMaster(why) | ReplyAction::Refused(why) => Err(LinkError::Refused(why)),
            ReplyAction::NoScript => {
                Err(LinkError::Refused("the server does not know the script that was just sent".into()))
            }
            ReplyAction::Moved(address) | ReplyAction::Ask(address) => {
                Err(LinkError::Refused(format!("redirected too often, last to {address}")))
            }
        }
    }
}

/// Was a call refused because its keys are in several slots of a Cluster? Then it was not executed.
pub(super) fn is_cross_slot(reply: &Result<Value, LinkError>) -> bool {
    matches!(reply, Err(LinkError::Refused(why)) if why.starts_with("CROSSSLOT"))
}

/// The text of a server's error.
pub(super) fn error_text(error: &ServerError) -> String {
    match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_owned(),
    }
}

/// The address in `<slot> <host>:<port>`. An empty host means the server that sent the reply.
fn redirect_address(details: &str, from: Option<&HostPort>) -> Option<HostPort> {
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

    fn address(host: &str, port: u16) -> HostPort {
        HostPort { host: host.into(), port }
    }

    #[test]
    fn redirects_name_a_place() {
        assert_eq!(read("MOVED 3999 10.0.0.7:6381"), ReplyAction::Moved(address("10.0.0.7", 6_381)));
        assert_eq!(read("ASK 3999 ::1:6381"), ReplyAction::Ask(address("::1", 6_381)));
        assert_eq!(read("MOVED 3999 :6381"), ReplyAction::Moved(address("here", 6_381)));
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
    fn keys_of_several_slots_are_told_from_other_refusals() {
        let is_so = |line| is_cross_slot(&read(line).into_answer());
        assert!(is_so("CROSSSLOT Keys in request don't hash to the same slot"));
        assert!(!is_so("CLUSTERDOWN The cluster is down") && !is_so("MOVED 1 a:1") && !is_so("ERR CROSS"));
    }

    #[test]
    fn a_replica_is_known_by_the_errors_of_scripts_too() {
        for line in [
            "ERR Error running script (call to f_0): @user_script:54: @user_script: 54: -READONLY You can't write.",
            "@user_script: 54: -READONLY You can't write.",
            "READONLY You can't write. script: 0, on @user_script:54.",
        ] {
            assert_eq!(read(line), ReplyAction::NotMaster(line.into()));
        }
    }

    #[test]
    fn anything_else_is_an_answer() {
        assert_eq!(ReplyAction::read(Value::Nil, None), ReplyAction::Answer(Value::Nil));
        assert_eq!(
            read(MOVED_TWICE).into_answer(),
            Err(LinkError::Refused("redirected too often, last to a:1".into()))
        );
    }

    const MOVED_TWICE: &str = "MOVED 1 a:1";
}

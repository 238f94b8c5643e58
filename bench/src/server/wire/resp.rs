//! The Redis protocol, for Tidegate, throttlecrab-server and Redis.

use super::template::{KEY, Template};
use super::{AnswerVerdict, CheckedAnswer, ClientProtocol, WireError};
use crate::server::limits::{BURST, DENIED_PERIOD_SECONDS, PER_PERIOD, PERIOD_SECONDS, PLENTY};

/// A connection that sends one command again and again.
#[derive(Debug)]
pub(crate) struct Resp {
    command: Template,
    reply: Reply,
    answered: u32,
}

/// The expected reply to a command.
#[derive(Clone, Copy, Debug)]
enum Reply {
    /// Exactly this line.
    Line(&'static [u8]),
    /// Five integers, of which the first is this bit if the request is allowed, and the other bit if not.
    Five { allowed: &'static [u8], denied: &'static [u8] },
}

impl Resp {
    /// Tidegate's `CL.THROTTLE`, compatible with redis-cell: zero means allowed, and the burst is one more than the
    /// argument.
    pub(crate) fn cl_throttle() -> Resp {
        Resp::cl_throttle_of(BURST, PER_PERIOD, PERIOD_SECONDS)
    }

    /// The same with a limit that never denies.
    pub(crate) fn hot_cl_throttle() -> Resp {
        Resp::cl_throttle_of(PLENTY, PLENTY, PERIOD_SECONDS)
    }

    /// The same with a limit that admits one request an hour.
    pub(crate) fn denied_cl_throttle() -> Resp {
        Resp::cl_throttle_of(1, 1, DENIED_PERIOD_SECONDS)
    }

    fn cl_throttle_of(burst: u32, per_period: u32, seconds: u32) -> Resp {
        let numbers = [burst - 1, per_period, seconds].map(|number| number.to_string());
        let [burst, count, period] = &numbers;
        let command = ["CL.THROTTLE", KEY, burst, count, period];
        Resp::new(&command, Reply::Five { allowed: b":0", denied: b":1" })
    }

    /// The same for throttlecrab-server, where one means allowed.
    pub(crate) fn throttlecrab() -> Resp {
        let numbers = [BURST, PER_PERIOD, PERIOD_SECONDS].map(|number| number.to_string());
        let [burst, count, period] = &numbers;
        let command = ["THROTTLE", KEY, burst, count, period];
        Resp::new(&command, Reply::Five { allowed: b":1", denied: b":0" })
    }

    /// The cheapest command of the protocol.
    pub(crate) fn ping() -> Resp {
        Resp::new(&["PING"], Reply::Line(b"+PONG"))
    }

    /// The cheapest command that writes.
    pub(crate) fn set() -> Resp {
        Resp::new(&["SET", KEY, "xxx"], Reply::Line(b"+OK"))
    }

    fn new(words: &[&str], reply: Reply) -> Resp {
        let mut command = format!("*{}\r\n", words.len());
        for word in words {
            command += &format!("${}\r\n{word}\r\n", word.len());
        }
        Resp { command: Template::new(command), reply, answered: 0 }
    }
}

impl ClientProtocol for Resp {
    fn write_request(&mut self, key: u32, out: &mut Vec<u8>) {
        self.command.write(key, out);
    }

    fn receive(
        &mut self,
        received: &[u8],
        _out: &mut Vec<u8>,
        answers: &mut Vec<CheckedAnswer>,
    ) -> Result<usize, WireError> {
        let mut taken = 0;
        while let Some((length, verdict)) = self.reply.read(&received[taken..])? {
            answers.push(CheckedAnswer { request: self.answered, verdict });
            self.answered = self.answered.wrapping_add(1);
            taken += length;
        }
        Ok(taken)
    }
}

impl Reply {
    /// The length of the response and its verdict; `None` while it is incomplete.
    fn read(self, received: &[u8]) -> Result<Option<(usize, AnswerVerdict)>, WireError> {
        let mut lines = Lines { received, at: 0 };
        let Some(first) = lines.next() else { return Ok(None) };
        let (allowed, denied) = match self {
            Reply::Line(wanted) if first == wanted => return Ok(Some((lines.at, AnswerVerdict::Allowed))),
            Reply::Five { allowed, denied } if first == b"*5" => (allowed, denied),
            _ => return Err(WireError::unexpected(received)),
        };
        let mut verdict = None;
        for place in 0..5 {
            let Some(line) = lines.next() else { return Ok(None) };
            match place {
                0 if line == allowed => verdict = Some(AnswerVerdict::Allowed),
                0 if line == denied => verdict = Some(AnswerVerdict::Denied),
                1.. if line.starts_with(b":") => {}
                _ => return Err(WireError::unexpected(received)),
            }
        }
        Ok(verdict.map(|verdict| (lines.at, verdict)))
    }
}

/// Complete lines, without their line ends.
struct Lines<'a> {
    received: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = &self.received[self.at..];
        let end = rest.iter().position(|&byte| byte == b'\n')?;
        self.at += end + 1;
        Some(rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(mut protocol: Resp, received: &[u8]) -> Result<(usize, Vec<CheckedAnswer>), WireError> {
        let mut answers = Vec::new();
        let taken = protocol.receive(received, &mut Vec::new(), &mut answers)?;
        Ok((taken, answers))
    }

    #[test]
    fn commands_are_arrays_of_words() {
        let mut out = Vec::new();
        Resp::ping().write_request(1, &mut out);
        Resp::set().write_request(7, &mut out);
        assert_eq!(
            out.escape_ascii().to_string(),
            r"*1\r\n$4\r\nPING\r\n*3\r\n$3\r\nSET\r\n$13\r\nuser:00000007\r\n$3\r\nxxx\r\n"
        );
    }

    #[test]
    fn both_say_allowed_in_their_own_way() {
        let zero = b"*5\r\n:0\r\n:200\r\n:199\r\n:-1\r\n:1\r\n";
        let one = b"*5\r\n:1\r\n:200\r\n:0\r\n:1\r\n:2\r\n";
        for (reply, ours, theirs) in [
            (&zero[..], AnswerVerdict::Allowed, AnswerVerdict::Denied),
            (&one[..], AnswerVerdict::Denied, AnswerVerdict::Allowed),
        ] {
            for (protocol, verdict) in [(Resp::cl_throttle(), ours), (Resp::throttlecrab(), theirs)] {
                let answer = CheckedAnswer { request: 0, verdict };
                assert_eq!(receive(protocol, reply), Ok((reply.len(), vec![answer])));
            }
        }
    }

    #[test]
    fn what_is_not_all_there_is_waited_for() {
        let two = b"+PONG\r\n+PONG\r\n";
        let (taken, answers) = receive(Resp::ping(), two).unwrap();
        assert_eq!((taken, answers.iter().map(|answer| answer.request).collect()), (14, vec![0, 1]));
        assert_eq!(receive(Resp::ping(), &two[..13]).unwrap().0, 7);
        let five = b"*5\r\n:0\r\n:200\r\n:199\r\n:-1\r\n:1\r\n";
        for end in 0..five.len() {
            assert_eq!(receive(Resp::cl_throttle(), &five[..end]), Ok((0, vec![])), "at {end}");
        }
    }

    #[test]
    fn an_error_is_no_decision() {
        for wrong in ["-ERR no\r\n", "+OK\r\n", "*5\r\n:2\r\n:1\r\n:1\r\n:1\r\n:1\r\n", "*5\r\n:0\r\n+x\r\n"]
        {
            assert!(receive(Resp::cl_throttle(), wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(receive(Resp::ping(), b"-NOAUTH\r\n").is_err());
    }
}

//! The Redis protocol, for everybody who speaks it.

use super::template::{KEY, Template};
use super::{AnswerVerdict, CheckedAnswer, Dialogue, WireError};
use crate::server::limits::{BURST, PER_PERIOD, PERIOD_SECONDS, PLENTY};

/// A connection that sends one command over and over.
#[derive(Debug)]
pub(crate) struct Resp {
    command: Template,
    reply: Reply,
    answered: u32,
}

/// What a command is answered with.
#[derive(Clone, Copy, Debug)]
enum Reply {
    /// This line.
    Line(&'static [u8]),
    /// Five integers, the first of which is this where it is allowed, and another bit where not.
    Five { allowed: &'static [u8], denied: &'static [u8] },
}

impl Resp {
    /// Tidegate's, as redis-cell has it: zero is allowed, and the burst has one more than is said.
    pub(crate) fn cl_throttle() -> Resp {
        Resp::cl_throttle_of(BURST, PER_PERIOD)
    }

    /// The same with so much room that nobody is denied.
    pub(crate) fn hot_cl_throttle() -> Resp {
        Resp::cl_throttle_of(PLENTY, PLENTY)
    }

    fn cl_throttle_of(burst: u32, per_period: u32) -> Resp {
        let numbers = [burst - 1, per_period, PERIOD_SECONDS].map(|number| number.to_string());
        let [burst, count, period] = &numbers;
        let command = ["CL.THROTTLE", KEY, burst, count, period];
        Resp::new(&command, Reply::Five { allowed: b":0", denied: b":1" })
    }

    /// The same at throttlecrab-server, where one is allowed.
    pub(crate) fn throttlecrab() -> Resp {
        let numbers = [BURST, PER_PERIOD, PERIOD_SECONDS].map(|number| number.to_string());
        let [burst, count, period] = &numbers;
        let command = ["THROTTLE", KEY, burst, count, period];
        Resp::new(&command, Reply::Five { allowed: b":1", denied: b":0" })
    }

    /// The least that a server of this protocol can be asked.
    pub(crate) fn ping() -> Resp {
        Resp::new(&["PING"], Reply::Line(b"+PONG"))
    }

    /// The least that changes something.
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

impl Dialogue for Resp {
    fn ask(&mut self, key: u32, out: &mut Vec<u8>) {
        self.command.write(key, out);
    }

    fn hear(
        &mut self,
        heard: &[u8],
        _out: &mut Vec<u8>,
        answers: &mut Vec<CheckedAnswer>,
    ) -> Result<usize, WireError> {
        let mut taken = 0;
        while let Some((length, verdict)) = self.reply.read(&heard[taken..])? {
            answers.push(CheckedAnswer { question: self.answered, verdict });
            self.answered = self.answered.wrapping_add(1);
            taken += length;
        }
        Ok(taken)
    }
}

impl Reply {
    /// How long the answer is and what it says; `None` until all of it is there.
    fn read(self, heard: &[u8]) -> Result<Option<(usize, AnswerVerdict)>, WireError> {
        let mut lines = Lines { heard, at: 0 };
        let Some(first) = lines.next() else { return Ok(None) };
        let (allowed, denied) = match self {
            Reply::Line(wanted) if first == wanted => return Ok(Some((lines.at, AnswerVerdict::Allowed))),
            Reply::Five { allowed, denied } if first == b"*5" => (allowed, denied),
            _ => return Err(WireError::unexpected(heard)),
        };
        let mut verdict = None;
        for place in 0..5 {
            let Some(line) = lines.next() else { return Ok(None) };
            match place {
                0 if line == allowed => verdict = Some(AnswerVerdict::Allowed),
                0 if line == denied => verdict = Some(AnswerVerdict::Denied),
                1.. if line.starts_with(b":") => {}
                _ => return Err(WireError::unexpected(heard)),
            }
        }
        Ok(verdict.map(|verdict| (lines.at, verdict)))
    }
}

/// Complete lines, without their ends.
struct Lines<'a> {
    heard: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = &self.heard[self.at..];
        let end = rest.iter().position(|&byte| byte == b'\n')?;
        self.at += end + 1;
        Some(rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hear(mut dialogue: Resp, heard: &[u8]) -> Result<(usize, Vec<CheckedAnswer>), WireError> {
        let mut answers = Vec::new();
        let taken = dialogue.hear(heard, &mut Vec::new(), &mut answers)?;
        Ok((taken, answers))
    }

    #[test]
    fn commands_are_arrays_of_words() {
        let mut out = Vec::new();
        Resp::ping().ask(1, &mut out);
        Resp::set().ask(7, &mut out);
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
            for (dialogue, verdict) in [(Resp::cl_throttle(), ours), (Resp::throttlecrab(), theirs)] {
                let answer = CheckedAnswer { question: 0, verdict };
                assert_eq!(hear(dialogue, reply), Ok((reply.len(), vec![answer])));
            }
        }
    }

    #[test]
    fn what_is_not_all_there_is_waited_for() {
        let two = b"+PONG\r\n+PONG\r\n";
        let (taken, answers) = hear(Resp::ping(), two).unwrap();
        assert_eq!((taken, answers.iter().map(|answer| answer.question).collect()), (14, vec![0, 1]));
        assert_eq!(hear(Resp::ping(), &two[..13]).unwrap().0, 7);
        let five = b"*5\r\n:0\r\n:200\r\n:199\r\n:-1\r\n:1\r\n";
        for end in 0..five.len() {
            assert_eq!(hear(Resp::cl_throttle(), &five[..end]), Ok((0, vec![])), "at {end}");
        }
    }

    #[test]
    fn an_error_is_no_decision() {
        for wrong in ["-ERR no\r\n", "+OK\r\n", "*5\r\n:2\r\n:1\r\n:1\r\n:1\r\n:1\r\n", "*5\r\n:0\r\n+x\r\n"]
        {
            assert!(hear(Resp::cl_throttle(), wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(hear(Resp::ping(), b"-NOAUTH\r\n").is_err());
    }
}

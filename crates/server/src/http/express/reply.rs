//! Answers of the express lane, one after the other.

use std::time::{Duration, UNIX_EPOCH};

use bytes::Buf;
use http::StatusCode;
use tidegate::Clock;
use tidegate::engine::Decision;
use tidegate::engine::render::problem_body;

use super::waiting::LaneDecision;
use crate::http::endpoints::decide;
use crate::http::endpoints::forward_auth::ForwardAuthAnswer;
use crate::http::response::answer;
use crate::http::response::answer::HttpAnswer;
use crate::http::response::body::AnswerBody;
use crate::http::response::problem::HttpProblem;

/// What is kept of a buffer that has grown.
const KEPT_BYTES_MAX: usize = 64 * 1_024;

/// Whom an answer is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum ReplyAudience {
    /// A program that asked for a decision.
    ForPrograms,
    /// The client of a proxy that asked whether it may pass.
    ForClients {
        /// The status of refusals, where the proxy asks for one.
        deny_status: Option<StatusCode>,
    },
}

/// Answers that are to be sent together.
#[derive(Debug, Default)]
pub(super) struct LaneReply {
    written: Vec<u8>,
    body: Vec<u8>,
    /// Is the connection closed after the next answer?
    closes: bool,
    /// The last date that was written, and its second.
    date: (u64, String),
}

impl LaneReply {
    /// Begins anew.
    pub(super) fn clear(&mut self) {
        self.closes = false;
        self.written.clear();
        self.written.shrink_to(KEPT_BYTES_MAX);
        self.body.shrink_to(KEPT_BYTES_MAX);
    }

    /// All answers so far.
    pub(super) fn written(&self) -> &[u8] {
        &self.written
    }

    /// The connection is closed after the next answer.
    pub(super) fn close(&mut self) {
        self.closes = true;
    }

    /// One more.
    #[inline]
    pub(super) fn add(&mut self, decided: &LaneDecision, clock: &impl Clock) {
        match (&decided.decision, decided.kind) {
            (Ok(decision), ReplyAudience::ForPrograms) => self.add_decision(decision, clock),
            (Ok(decision), ReplyAudience::ForClients { deny_status }) => {
                self.add_passage(decision, ForwardAuthAnswer::by(decision, deny_status), clock)
            }
            (Err(error), _) => self.add_answer(&HttpProblem::from(*error).answer(), clock),
        }
    }

    /// The decision itself.
    fn add_decision(&mut self, decision: &Decision, clock: &impl Clock) {
        self.body.clear();
        answer::write(decision, &mut self.body);
        self.begin(decide::status(decision));
        let out = &mut self.written;
        header(out, "content-type", "application/json");
        decision.headers(|name, value| header(out, name, value));
        self.end(clock);
    }

    /// May the client pass?
    fn add_passage(&mut self, decision: &Decision, passage: ForwardAuthAnswer, clock: &impl Clock) {
        self.body.clear();
        let status = match passage {
            ForwardAuthAnswer::Passed => StatusCode::NO_CONTENT,
            ForwardAuthAnswer::Refused(status) => status,
            ForwardAuthAnswer::Challenged(_) => StatusCode::UNAUTHORIZED,
        };
        self.begin(status);
        let out = &mut self.written;
        if passage == ForwardAuthAnswer::Passed {
            decision.headers(|name, value| header(out, name, value));
            return self.end_head(clock);
        }
        header(out, "content-type", problem_body::CONTENT_TYPE);
        decision.headers(|name, value| header(out, name, value));
        if let ForwardAuthAnswer::Challenged(challenge) = passage {
            header(out, "www-authenticate", challenge);
        }
        self.body.extend_from_slice(decision.problem_body(status.as_u16()).as_bytes());
        self.end(clock);
    }

    /// An answer that was made for hyper.
    #[cold]
    fn add_answer(&mut self, answer: &HttpAnswer, clock: &impl Clock) {
        self.body.clear();
        if let AnswerBody::Whole(held) = answer.body() {
            self.body.extend_from_slice(held.chunk());
        }
        self.begin(answer.status());
        for (name, value) in answer.headers() {
            header(&mut self.written, name.as_str(), &String::from_utf8_lossy(value.as_bytes()));
        }
        self.end(clock);
    }

    /// The status line, with the words that hyper uses.
    fn begin(&mut self, status: StatusCode) {
        let line: &[u8] = match status {
            StatusCode::OK => b"HTTP/1.1 200 OK\r\n",
            StatusCode::NO_CONTENT => b"HTTP/1.1 204 No Content\r\n",
            StatusCode::TOO_MANY_REQUESTS => b"HTTP/1.1 429 Too Many Requests\r\n",
            _ => {
                let reason = status.canonical_reason().unwrap_or("<none>");
                let line = format!("HTTP/1.1 {} {reason}\r\n", status.as_str());
                return self.written.extend_from_slice(line.as_bytes());
            }
        };
        self.written.extend_from_slice(line);
    }

    /// What comes after the other headers: the length, the date, and the body.
    fn end(&mut self, clock: &impl Clock) {
        header(&mut self.written, "content-length", itoa::Buffer::new().format(self.body.len()));
        self.end_head(clock);
        self.written.extend_from_slice(&self.body);
    }

    fn end_head(&mut self, clock: &impl Clock) {
        if self.closes {
            header(&mut self.written, "connection", "close");
        }
        let second = clock.wall().get() / tidegate::Nanos::SECOND.get();
        if self.date.0 != second {
            self.date = (second, httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second)));
        }
        header(&mut self.written, "date", &self.date.1);
        self.written.extend_from_slice(b"\r\n");
    }
}

fn header(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value.as_bytes());
    out.extend_from_slice(b"\r\n");
}

//! Writes the responses of the express lane, one after the other, into one buffer.

use std::time::{Duration, UNIX_EPOCH};

use bytes::Buf;
use http::StatusCode;
use tidegate::Clock;
use tidegate::engine::Decision;
use tidegate::engine::render::problem_body;

use super::waiting::LaneDecision;
use crate::http::endpoints::decide;
use crate::http::endpoints::forward_auth::ForwardAuthOutcome;
use crate::http::response::body::HttpResponseBody;
use crate::http::response::decision;
use crate::http::response::decision::HttpResponse;
use crate::http::response::problem::HttpProblem;

/// How much capacity a buffer that has grown may keep.
const KEPT_BYTES_MAX: usize = 64 * 1_024;

/// For whom a response is.
#[derive(Clone, Copy, Debug)]
pub(super) enum ReplyAudience {
    /// A program that asked for a decision: the body is the decision.
    ForPrograms,
    /// The client of a proxy (forward-auth): a refusal has a problem body.
    ForClients {
        /// The status of refusals, if the proxy chose one.
        deny_status: Option<StatusCode>,
    },
}

/// Responses that are sent with one write.
#[derive(Debug, Default)]
pub(super) struct LaneReply {
    written: Vec<u8>,
    body: Vec<u8>,
    /// Is the connection closed after the next response?
    closes: bool,
    /// The cached `Date` value, and the Unix second it is for.
    date: (u64, String),
}

impl LaneReply {
    /// Empties the buffer, and limits the capacity it keeps.
    pub(super) fn clear(&mut self) {
        self.closes = false;
        self.written.clear();
        self.written.shrink_to(KEPT_BYTES_MAX);
        self.body.shrink_to(KEPT_BYTES_MAX);
    }

    /// The bytes of all responses so far.
    pub(super) fn written(&self) -> &[u8] {
        &self.written
    }

    /// Makes the next response say `Connection: close`.
    pub(super) fn close(&mut self) {
        self.closes = true;
    }

    /// Adds one response.
    #[inline]
    pub(super) fn add(&mut self, decided: &LaneDecision, clock: &impl Clock) {
        match (&decided.decision, decided.audience) {
            (Ok(decision), ReplyAudience::ForPrograms) => self.add_decision(decision, clock),
            (Ok(decision), ReplyAudience::ForClients { deny_status }) => {
                self.add_forward_auth(decision, ForwardAuthOutcome::by(decision, deny_status), clock)
            }
            (Err(error), _) => self.add_response(&HttpProblem::from(*error).response(), clock),
        }
    }

    /// Adds a decision as JSON.
    fn add_decision(&mut self, decision: &Decision, clock: &impl Clock) {
        self.body.clear();
        decision::write(decision, &mut self.body);
        self.begin(decide::status(decision));
        let out = &mut self.written;
        header(out, "content-type", "application/json");
        decision.headers(|name, value| header(out, name, value));
        self.end(clock);
    }

    /// Adds a forward-auth response.
    fn add_forward_auth(&mut self, decision: &Decision, outcome: ForwardAuthOutcome, clock: &impl Clock) {
        self.body.clear();
        let status = match outcome {
            ForwardAuthOutcome::Passed => StatusCode::NO_CONTENT,
            ForwardAuthOutcome::Refused(status) => status,
            ForwardAuthOutcome::Challenged(_) => StatusCode::UNAUTHORIZED,
        };
        self.begin(status);
        let out = &mut self.written;
        if outcome == ForwardAuthOutcome::Passed {
            decision.headers(|name, value| header(out, name, value));
            return self.end_head(clock);
        }
        header(out, "content-type", problem_body::CONTENT_TYPE);
        decision.headers(|name, value| header(out, name, value));
        if let ForwardAuthOutcome::Challenged(challenge) = outcome {
            header(out, "www-authenticate", challenge);
        }
        self.body.extend_from_slice(decision.problem_body(status.as_u16()).as_bytes());
        self.end(clock);
    }

    /// Adds a response that was built for hyper.
    #[cold]
    pub(super) fn add_response(&mut self, response: &HttpResponse, clock: &impl Clock) {
        self.body.clear();
        if let HttpResponseBody::Whole(held) = response.body() {
            self.body.extend_from_slice(held.chunk());
        }
        self.begin(response.status());
        for (name, value) in response.headers() {
            header(&mut self.written, name.as_str(), &String::from_utf8_lossy(value.as_bytes()));
        }
        self.end(clock);
    }

    /// Writes the status line, with the same reason phrases as hyper.
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

    /// Writes what follows the other headers: `Content-Length`, `Date` and the body.
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

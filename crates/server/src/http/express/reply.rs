//! Answers of the express lane, one after the other.

use std::time::{Duration, UNIX_EPOCH};

use http::StatusCode;
use tidegate::Clock;
use tidegate::policy::Decision;

/// What is kept of a buffer that has grown.
const KEPT_BYTES_MAX: usize = 64 * 1_024;

/// Answers that are to be sent together.
#[derive(Debug, Default)]
pub(super) struct Reply {
    written: Vec<u8>,
    body: Vec<u8>,
    /// The last date that was written, and its second.
    date: (u64, String),
}

impl Reply {
    /// Begins anew.
    pub(super) fn clear(&mut self) {
        self.written.clear();
        self.written.shrink_to(KEPT_BYTES_MAX);
        self.body.shrink_to(KEPT_BYTES_MAX);
    }

    /// All answers so far.
    pub(super) fn written(&self) -> &[u8] {
        &self.written
    }

    /// One more.
    pub(super) fn add(&mut self, decision: &Decision, status: StatusCode, clock: &impl Clock) {
        self.body.clear();
        self.body.push(b'{');
        decision.write_json_members(&mut self.body);
        self.body.push(b'}');
        let out = &mut self.written;
        let line: &[u8] = match status {
            StatusCode::OK => b"HTTP/1.1 200 OK\r\n",
            StatusCode::TOO_MANY_REQUESTS => b"HTTP/1.1 429 Too Many Requests\r\n",
            _ => b"HTTP/1.1 503 Service Unavailable\r\n",
        };
        out.extend_from_slice(line);
        header(out, "content-type", "application/json");
        decision.headers(|name, value| header(out, name, value));
        header(out, "content-length", itoa::Buffer::new().format(self.body.len()));
        let second = clock.wall().get() / tidegate::Nanos::SECOND.get();
        if self.date.0 != second {
            self.date = (second, httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second)));
        }
        header(out, "date", &self.date.1);
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&self.body);
    }
}

fn header(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value.as_bytes());
    out.extend_from_slice(b"\r\n");
}

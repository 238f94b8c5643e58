//! HTTP/1.1 with keep-alive, one request at a time.

use super::template::{KEY, TENANT, Template};
use super::{AnswerVerdict, CheckedAnswer, ClientProtocol, WireError};
use crate::server::limits::{
    BURST, DENIED, FIRST_DENIED, FORWARDED_ADDRESS, FORWARDED_HOST, FORWARDED_URI, HOT, PER_PERIOD,
    PERIOD_SECONDS,
};

/// A connection that posts JSON and reads decisions.
#[derive(Debug)]
pub(crate) struct Http {
    template: Template,
    answered: u32,
}

impl Http {
    /// Tidegate's ad hoc bucket.
    pub(crate) fn throttle() -> Http {
        let body = format!(
            r#"{{"key":"{KEY}","capacity":{BURST},"rate":{PER_PERIOD},"window":"{PERIOD_SECONDS}s","cost":1}}"#
        );
        Http::post("/v1/throttle", &body)
    }

    /// A check of Tidegate's policy by a caller with this plan.
    pub(crate) fn check(plan: &str) -> Http {
        let body = format!(r#"{{"user":"{KEY}","plan":"{plan}","method":"GET","path":"/api/videos"}}"#);
        Http::post("/v1/check", &body)
    }

    /// A check for a tenant.
    pub(crate) fn check_tenant() -> Http {
        let body = format!(r#"{{"tenant":"{TENANT}","plan":"{HOT}","method":"GET","path":"/api/videos"}}"#);
        Http::post("/v1/check", &body)
    }

    /// The same request as a proxy sends to `/v1/forward-auth`.
    pub(crate) fn forwarded_check() -> Http {
        let body = format!(
            r#"{{"ip":"{FORWARDED_ADDRESS}","method":"GET","host":"{FORWARDED_HOST}","path":"{FORWARDED_URI}"}}"#
        );
        Http::post("/v1/check", &body)
    }

    /// The same bucket at throttlecrab-server.
    pub(crate) fn throttlecrab() -> Http {
        let body = format!(
            r#"{{"key":"{KEY}","max_burst":{BURST},"count_per_period":{PER_PERIOD},"period":{PERIOD_SECONDS},"quantity":1}}"#
        );
        Http::post("/throttle", &body)
    }

    fn post(path: &str, body: &str) -> Http {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        Http { template: Template::new(request), answered: 0 }
    }
}

impl ClientProtocol for Http {
    fn write_request(&mut self, key: u32, out: &mut Vec<u8>) {
        self.template.write(key, out);
    }

    fn receive(
        &mut self,
        received: &[u8],
        _out: &mut Vec<u8>,
        answers: &mut Vec<CheckedAnswer>,
    ) -> Result<usize, WireError> {
        let mut taken = 0;
        while let Some((length, verdict)) = answer(&received[taken..])? {
            answers.push(CheckedAnswer { request: self.answered, verdict });
            self.answered = self.answered.wrapping_add(1);
            taken += length;
        }
        Ok(taken)
    }
}

/// Checks of callers with a plan whose keys are allowed, and of callers with one whose keys are denied.
#[derive(Debug)]
pub(crate) struct DenialMix {
    allowed: Http,
    denied: Template,
}

impl DenialMix {
    pub(crate) fn new() -> DenialMix {
        DenialMix { allowed: Http::check(HOT), denied: Http::check(DENIED).template }
    }
}

impl ClientProtocol for DenialMix {
    fn write_request(&mut self, key: u32, out: &mut Vec<u8>) {
        match key.checked_sub(FIRST_DENIED) {
            Some(key) => self.denied.write(key, out),
            None => self.allowed.write_request(key, out),
        }
    }

    fn receive(
        &mut self,
        received: &[u8],
        out: &mut Vec<u8>,
        answers: &mut Vec<CheckedAnswer>,
    ) -> Result<usize, WireError> {
        self.allowed.receive(received, out, answers)
    }
}

/// The length of the response and its verdict; `None` while it is incomplete.
fn answer(received: &[u8]) -> Result<Option<(usize, AnswerVerdict)>, WireError> {
    let Some((head, body_length)) = head(received)? else { return Ok(None) };
    let Some(body) = received[head..].get(..body_length) else { return Ok(None) };
    let whole = &received[..head + body_length];
    let status = whole.get(9..12).unwrap_or_default();
    let says = |what: &[u8]| body.windows(what.len()).position(|seen| seen == what);
    // The decision comes first in the body; the single limits come later.
    let verdict = match (says(br#""allowed":true"#), says(br#""allowed":false"#)) {
        (Some(yes), no) if no.is_none_or(|no| yes < no) => AnswerVerdict::Allowed,
        (_, Some(_)) => AnswerVerdict::Denied,
        _ => return Err(WireError::unexpected(whole)),
    };
    match (status, verdict) {
        (b"200", _) | (b"429", AnswerVerdict::Denied) => Ok(Some((whole.len(), verdict))),
        _ => Err(WireError::unexpected(whole)),
    }
}

/// The end of the head, and the length of the body.
pub(crate) fn head(received: &[u8]) -> Result<Option<(usize, usize)>, WireError> {
    const LENGTH: &[u8] = b"content-length:";
    let (mut start, mut body) = (0, None);
    while let Some(length) = received[start..].iter().position(|&byte| byte == b'\n') {
        let line = received[start..start + length].trim_ascii();
        start += length + 1;
        if line.is_empty() {
            let body = body.ok_or_else(|| WireError::unexpected(received))?;
            return Ok(Some((start, body)));
        }
        if line.len() > LENGTH.len() && line[..LENGTH.len()].eq_ignore_ascii_case(LENGTH) {
            let digits = str::from_utf8(line[LENGTH.len()..].trim_ascii()).ok();
            body = digits.and_then(|digits| digits.parse().ok());
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(status: &str, body: &str) -> Vec<u8> {
        format!("HTTP/1.1 {status}\r\nDate: now\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
    }

    fn receive(received: &[u8]) -> Result<(usize, Vec<AnswerVerdict>), WireError> {
        let mut answers = Vec::new();
        let taken = Http::throttle().receive(received, &mut Vec::new(), &mut answers)?;
        Ok((taken, answers.iter().map(|answer| answer.verdict).collect()))
    }

    #[test]
    fn a_question_is_a_whole_request() {
        let mut out = Vec::new();
        Http::throttle().write_request(42, &mut out);
        let text = String::from_utf8(out).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /v1/throttle HTTP/1.1\r\n"), "{head}");
        assert!(head.ends_with(&format!("content-length: {}", body.len())), "{head}");
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["key"], "user:00000042");
    }

    #[test]
    fn the_plan_depends_on_the_key() {
        for (key, user, plan) in [(7, "user:00000007", HOT), (FIRST_DENIED + 7, "user:00000007", DENIED)] {
            let mut out = Vec::new();
            DenialMix::new().write_request(key, &mut out);
            let text = String::from_utf8(out).unwrap();
            let body: serde_json::Value =
                serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap();
            assert_eq!((&body["user"], &body["plan"]), (&user.into(), &plan.into()));
        }
    }

    #[test]
    fn answers_are_read_one_after_the_other() {
        let yes = reply("200 OK", r#"{"allowed":true,"limits":[{"allowed":false}]}"#);
        let no = reply("429 Too Many Requests", r#"{"allowed":false,"limits":[{"allowed":true}]}"#);
        let both = [yes.clone(), no.clone()].concat();
        assert_eq!(receive(&both), Ok((both.len(), vec![AnswerVerdict::Allowed, AnswerVerdict::Denied])));
        for end in 0..yes.len() {
            assert_eq!(receive(&yes[..end]), Ok((0, vec![])), "not yet, at {end}");
        }
        let part = &both[..both.len() - 1];
        assert_eq!(receive(part), Ok((yes.len(), vec![AnswerVerdict::Allowed])));
    }

    #[test]
    fn an_error_is_no_decision() {
        for wrong in [
            reply("500 Internal Server Error", r#"{"error":"x"}"#),
            reply("400 Bad Request", r#"{"allowed":false}"#),
            reply("429 Too Many Requests", r#"{"allowed":true}"#),
            reply("200 OK", "{}"),
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec(),
        ] {
            assert!(matches!(receive(&wrong), Err(WireError::Unexpected(_))), "{}", wrong.escape_ascii());
        }
    }
}

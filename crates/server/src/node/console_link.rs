//! The link in a denial's problem body that leads to the client's page in the console.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tidegate::NowOrLater;
use tidegate::engine::{Decision, Joint, JointDecision, Request};

use super::Node;

/// What is written as `%XX` in a link; the rest is easier to read as it is.
const ENCODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/').remove(b':');
/// The longest query of a link: what comes from a request is as long as a client likes.
const QUERY_BYTES_MAX: usize = 1_024;

impl Node {
    /// Adds the link to a decision that denies, if the settings have the console's address.
    pub(super) fn linked<'s>(
        &'s self,
        decided: NowOrLater<'s, Decision>,
        request: &Request<'_>,
    ) -> NowOrLater<'s, Decision> {
        let Some(console) = &self.settings().console_link else { return decided };
        if matches!(&decided, NowOrLater::Now(decision) if decision.is_allowed()) {
            return decided;
        }
        let link = link(console, request);
        decided
            .map(|decision| if decision.is_allowed() { decision } else { decision.with_console_link(link) })
    }

    /// The same for each of several requests that were decided together.
    pub(super) fn linked_joint(&self, joint: JointDecision, requests: &[Joint<'_, '_>]) -> JointDecision {
        let Some(console) = &self.settings().console_link else { return joint };
        let mut decisions = Vec::with_capacity(joint.decisions.len());
        for (decision, asked) in joint.decisions.into_iter().zip(requests) {
            decisions.push(match decision.is_allowed() {
                true => decision,
                false => decision.with_console_link(link(console, asked.request)),
            });
        }
        JointDecision { decisions, ..joint }
    }
}

/// The address of the screen Key for a request. It names who sent the request, and what for; it never has what may be a
/// credential: headers, the query, claims, other descriptors. What would make it too long is left out.
fn link(console: &str, request: &Request<'_>) -> String {
    let ip = request.ip.map(|ip| ip.to_canonical().to_string());
    let path = request.path.as_deref().and_then(|path| path.split(['?', '#', ';']).next());
    let members = [
        ("user", request.user.as_deref()),
        ("tenant", request.tenant.as_deref()),
        ("client", request.client.as_deref()),
        ("ip", ip.as_deref()),
        ("plan", request.plan.as_deref()),
        ("method", request.method.as_deref()),
        ("host", request.host.as_deref()),
        ("upstream", request.upstream.as_deref()),
        ("domain", request.domain.as_deref()),
        ("path", path),
    ];
    let mut query = String::new();
    for (name, value) in members {
        let Some(value) = value.filter(|value| !value.is_empty() && value.len() <= QUERY_BYTES_MAX) else {
            continue;
        };
        let before = if query.is_empty() { '?' } else { '&' };
        let pair = format!("{before}{name}={}", utf8_percent_encode(value, ENCODED));
        if query.len() + pair.len() <= QUERY_BYTES_MAX {
            query.push_str(&pair);
        }
    }
    format!("{}/key{query}", console.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONSOLE: &str = "https://gate.example/console/";

    #[test]
    fn it_names_the_client_and_never_a_credential() {
        let mut request = Request::new();
        request.user = Some("a&b=c d+é/#".into());
        request.ip = Some("::ffff:203.0.113.7".parse().unwrap());
        request.path = Some("/api/videos;jsessionid=s3cret?token=s3cret".into());
        request.query = Some("token=s3cret".into());
        request.headers.push(("x-api-key".into(), "s3cret".into()));
        request.jwt.push(("sub".into(), "s3cret".into()));
        request.descriptors.push(("key".into(), "s3cret".into()));
        let expected = "https://gate.example/console/key?user=a%26b%3Dc%20d%2B%C3%A9/%23&ip=203.0.113.7&path=/api/videos";
        assert_eq!(link(CONSOLE, &request), expected);
        assert_eq!(link(CONSOLE.trim_end_matches('/'), &request), expected);
        assert_eq!(link(CONSOLE, &Request::new()), "https://gate.example/console/key");
    }

    #[test]
    fn what_would_make_it_too_long_is_left_out() {
        let mut request = Request::new();
        request.user = Some("é".repeat(QUERY_BYTES_MAX / 4).into());
        request.tenant = Some("acme".into());
        request.path = Some("x".repeat(1 << 20).into());
        assert_eq!(link(CONSOLE, &request), "https://gate.example/console/key?tenant=acme");
    }
}

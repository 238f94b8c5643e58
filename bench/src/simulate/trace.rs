//! A generated trace, as a gateway would log it.

use std::fmt::Write;

use tidegate::testing::Random;

use crate::random::Zipf;

/// The number of users; a few of them send most of the requests.
const USERS: u32 = 20_000;

const ROUTES: [(&str, &str, &str); 8] = [
    ("GET", "/api/v1/videos", "q=cats&page=2"),
    ("GET", "/api/v1/videos/8813/comments", "limit=50"),
    ("POST", "/api/v1/videos/8813/comments", ""),
    ("GET", "/api/v1/users/me", ""),
    ("PUT", "/api/v1/users/me/settings", ""),
    ("POST", "/api/v1/login", ""),
    ("GET", "/static/app.js", "v=20240611"),
    ("DELETE", "/api/v1/videos/17", ""),
];

/// Three limits; some users and the login route sometimes exceed them.
pub(crate) const POLICY: &str = "\
version: 1
limits:
- { name: per-user, key: [user], sustained: { rate: 10 }, burst: { capacity: 50 } }
- { name: per-route, key: [route], sustained: { rate: 1000 }, burst: { capacity: 2000 } }
- { name: overall, key: [], sustained: { rate: 6000 }, burst: { capacity: 10000 } }
routes:
- { path: /api/v1/videos/*/comments }
- { path: /api/v1/videos/* }
";

/// The fields of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lines {
    /// Only those that the policy uses.
    Plain,
    /// All that a gateway logs, including headers.
    Gateway,
}

/// A trace of `count` requests, five per millisecond.
pub(crate) fn lines(count: usize, kind: Lines) -> String {
    let users = Zipf::new(USERS).draw(count, 7);
    let mut random = Random::new(11);
    let mut text = String::with_capacity(count * 320);
    for (number, user) in users.into_iter().enumerate() {
        let (method, path, query) = *random.pick(&ROUTES);
        let (millis, micros) = (number / 5, number % 5 * 200);
        let host = random.below(250);
        write!(
            text,
            "{{\"at_ms\":{millis}.{micros:03},\"user\":\"user-{user}\",\"ip\":\"203.0.{}.{host}\",\
             \"method\":\"{method}\",\"path\":\"{path}\"",
            user % 250,
        )
        .expect("writing to memory does not fail");
        if let Lines::Gateway = kind {
            write!(
                text,
                ",\"tenant\":\"acme\",\"client\":\"web\",\"host\":\"api.example.com\",\"query\":\"{query}\",\
                 \"headers\":{{\"user-agent\":\"Mozilla/5.0 (X11; Linux x86_64)\",\
                 \"accept\":\"application/json\",\"x-request-id\":\"{:016x}\"}}",
                random.bits(),
            )
            .expect("writing to memory does not fail");
        }
        text.push_str("}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trace_is_one_and_the_policy_bites() {
        let trace = lines(20_000, Lines::Gateway);
        assert_eq!(trace, lines(20_000, Lines::Gateway), "the same in every run");
        let decisions = tidegate_server::replay::run_text(POLICY, &trace).unwrap();
        assert_eq!(decisions.lines().count(), 20_000);
        let denied = decisions.matches("\"allowed\":false,\"reason\"").count();
        assert!((200..10_000).contains(&denied), "{denied} denied");
    }
}

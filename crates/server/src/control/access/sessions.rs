//! Sessions of browsers: how long they last, their cookie, and those of a server without a database.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::HeaderMap;
use http::header::COOKIE;
use tidegate_database::UnixMillis;

use super::SecretHash;

/// A session ends when it was not used for this long.
const IDLE_MS: i64 = 60 * 60 * 1_000;
/// A session ends after this even if it is in use.
const LIFE_MS: i64 = 12 * 60 * 60 * 1_000;
/// How many sessions there are at most without a database. When one more begins, the oldest ends.
const SESSIONS_MAX: usize = 64;

/// The name of the cookie. Browsers accept this prefix only from the host itself, over TLS or on loopback.
const COOKIE_NAME: &str = "__Host-tidegate";

/// When a session ends that began and was used at these times.
pub(super) fn idle_end(began: UnixMillis, used: UnixMillis) -> UnixMillis {
    used.plus(IDLE_MS).min(session_end(began))
}

/// When a session ends at the latest.
pub(super) fn session_end(began: UnixMillis) -> UnixMillis {
    began.plus(LIFE_MS)
}

/// The value of `Set-Cookie` that begins a session. Pages cannot read it, and requests of other sites do not carry it.
pub(crate) fn cookie(secret: &str) -> String {
    format!("{COOKIE_NAME}={secret}; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age={}", LIFE_MS / 1_000)
}

/// The value of `Set-Cookie` that removes the cookie.
pub(crate) fn no_cookie() -> String {
    format!("{COOKIE_NAME}=; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=0")
}

/// The hash of the session that a request names.
pub(super) fn sent_session(headers: &HeaderMap) -> Option<SecretHash> {
    let lines = headers.get_all(COOKIE).into_iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE_NAME).map(|(_, value)| SecretHash::of(value))
}

/// The sessions of a server without a database: when each began, and when it ends.
#[derive(Debug, Default)]
pub(super) struct MemorySessions(Mutex<HashMap<SecretHash, (UnixMillis, UnixMillis)>>);

impl MemorySessions {
    pub(super) fn begin(&self, hash: SecretHash, now: UnixMillis) -> UnixMillis {
        let mut sessions = self.sessions();
        sessions.retain(|_, (_, ends)| now < *ends);
        if sessions.len() >= SESSIONS_MAX {
            let oldest = sessions.iter().min_by_key(|(_, (began, _))| *began).map(|(hash, _)| *hash);
            oldest.and_then(|oldest| sessions.remove(&oldest));
        }
        sessions.insert(hash, (now, idle_end(now, now)));
        session_end(now)
    }

    /// Is this a session? If so, it ends later.
    pub(super) fn is_valid(&self, hash: SecretHash, now: UnixMillis) -> bool {
        let mut sessions = self.sessions();
        let Some((began, ends)) = sessions.get_mut(&hash).filter(|(_, ends)| now < *ends) else {
            return false;
        };
        *ends = idle_end(*began, now);
        true
    }

    pub(super) fn end(&self, hash: SecretHash) {
        self.sessions().remove(&hash);
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SecretHash, (UnixMillis, UnixMillis)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_when_it_is_idle_and_in_any_case() {
        let (sessions, hash) = (MemorySessions::default(), SecretHash::of("a"));
        let at = UnixMillis::new;
        sessions.begin(hash, at(0));
        let mut now = 0;
        while sessions.is_valid(hash, at(now)) {
            now += IDLE_MS - 1;
        }
        assert!((LIFE_MS..LIFE_MS + IDLE_MS).contains(&now), "{now}");
        sessions.begin(hash, at(0));
        assert!(!sessions.is_valid(hash, at(IDLE_MS)), "it was idle");
        sessions.begin(hash, at(0));
        sessions.end(hash);
        assert!(!sessions.is_valid(hash, at(1)));
    }

    #[test]
    fn the_oldest_session_makes_room() {
        let sessions = MemorySessions::default();
        let hash = |number: usize| SecretHash::of(&number.to_string());
        for number in 0..=SESSIONS_MAX {
            sessions.begin(hash(number), UnixMillis::new(number as i64));
        }
        let valid = |number| sessions.is_valid(hash(number), UnixMillis::new(100));
        assert!(!valid(0) && valid(1) && valid(SESSIONS_MAX));
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        let sent =
            |text: &'static str| sent_session(&HeaderMap::from_iter([(COOKIE, text.parse().unwrap())]));
        assert_eq!(sent("a=b; __Host-tidegate=tgs_x; c=d"), Some(SecretHash::of("tgs_x")));
        for other in ["tidegate=x", "__host-tidegate=x", "x__Host-tidegate=x", "__Host-tidegate"] {
            assert_eq!(sent(other), None, "{other}");
        }
    }
}

//! What people did before the demo begins: tokens, versions of the policy, a candidate, an override, a block. All of it
//! through the admin API of the server that runs.

use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde_json::{Value, json};

use super::super::http_client::{HttpCall, ServerTarget};
use super::super::key::expiry;
use super::super::now;
use super::super::serve::running;
use super::traffic::{BLOCKED_USER, NIGHTLY_USER};
use crate::commands::terminal::exit::CommandFailure;

/// The policy that the demo publishes.
const POLICY: &str = include_str!("policy.yaml");
/// A line of it, and what the candidate has in its place.
const LIVE_LINE: &str = "    sustained: { rate: 12 }\n";
const CANDIDATE_LINE: &str = "    sustained: { rate: 8 }\n";
/// How long an answer is waited for.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Somebody who uses the admin API.
struct ApiUser<'a> {
    target: &'a ServerTarget,
    token: String,
}

/// The tokens to sign in with, besides that of the administrator.
pub(super) struct MadeTokens {
    pub(super) support: String,
    pub(super) partner: String,
}

/// Sets everything up; `admin` is the token of the administrator.
///
/// # Errors
/// When the server refuses something, which it should not.
pub(super) async fn set_up(target: &ServerTarget, admin: &str) -> Result<MadeTokens, CommandFailure> {
    let with = |token: &str| ApiUser { target, token: token.to_owned() };
    let admin = with(admin);
    let owner = with(&admin.new_token("editor", None, "Olga, owner of the API").await?);
    let support = with(&admin.new_token("operator", None, "Sam, support").await?);
    admin.new_token("viewer", None, "The screen on the wall").await?;
    owner.put_policy(POLICY, "The API opens for partners").await?;
    let partner = with(&admin.new_token("editor", Some("acme"), "Paula, of the partner acme").await?);

    let burst = json!({ "burst": { "capacity": 50 } });
    owner.patch("/limits/per-user", &burst, "A product page loads up to 50 pictures").await?;
    let shop = json!({
        "id": "acme-media", "parent": "acme",
        "rate_limit": { "sustained": { "rate": 1800, "window": "minute" }, "burst": { "capacity": 60 } }
    });
    let good = partner.post("/tenants", &shop, "A new shop").await?["version"].clone();
    let strict = json!({ "sustained": { "rate": 2 } });
    owner.patch("/limits/per-address", &strict, "Fewer robots").await?;
    let back = format!("/versions/{good}/restore");
    owner.post(&back, &Value::Null, "Visitors behind one address were refused").await?;

    let until = |time: &str| expiry(time, now()).map(|time| time.to_string());
    let more = json!({
        "who": { "user": NIGHTLY_USER }, "limit": "per-user", "multiplier": 2, "until": until("7d")?
    });
    support.post("/overrides", &more, "Moves its catalogue this week").await?;
    let blocked = json!({ "who": { "user": BLOCKED_USER }, "until": until("1d")? });
    support.post("/keys/block", &blocked, "A stolen card; the bank is asked").await?;
    let reset =
        json!({ "request": { "user": "ana@acme-books", "path": "/api/products" }, "limit": "per-user" });
    support.post("/keys/reset", &reset, "Her phone repeated a request by mistake").await?;

    let draft = owner.policy().await?.replacen(LIVE_LINE, CANDIDATE_LINE, 1);
    owner.add_candidate("a third less for each user", draft, "Would anybody notice?").await?;
    with("tga_a-token-that-somebody-guessed").is_refused().await?;
    Ok(MadeTokens { support: support.token, partner: partner.token })
}

impl ApiUser<'_> {
    async fn new_token(
        &self,
        role: &str,
        tenant: Option<&str>,
        whose: &str,
    ) -> Result<String, CommandFailure> {
        let wanted = json!({ "role": role, "tenant": tenant, "description": whose });
        let made = self.post("/tokens", &wanted, "For the demo").await?;
        made["token"].as_str().map(str::to_owned).ok_or_else(|| running("the demo: there is no new token"))
    }

    async fn put_policy(&self, text: &str, reason: &str) -> Result<Value, CommandFailure> {
        self.write(Method::PUT, "/policy", "application/yaml", text.to_owned(), reason).await
    }

    async fn patch(&self, path: &str, body: &Value, reason: &str) -> Result<Value, CommandFailure> {
        self.write(Method::PATCH, path, "application/merge-patch+json", body.to_string(), reason).await
    }

    async fn post(&self, path: &str, body: &Value, reason: &str) -> Result<Value, CommandFailure> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.write(Method::POST, path, "application/json", body, reason).await
    }

    async fn add_candidate(&self, name: &str, text: String, reason: &str) -> Result<Value, CommandFailure> {
        let name: String = form_urlencoded::byte_serialize(name.as_bytes()).collect();
        self.write(Method::POST, &format!("/candidates?name={name}"), "application/yaml", text, reason).await
    }

    /// The policy in force, as it was written.
    async fn policy(&self) -> Result<String, CommandFailure> {
        let headers = HeaderMap::new();
        let (status, body) = self.call(Method::GET, "/policy", headers, String::new()).await?;
        if status.is_success() { Ok(body) } else { Err(refused(&Method::GET, "/policy", status, &body)) }
    }

    /// Asks with a token that is not valid, which the audit keeps.
    async fn is_refused(&self) -> Result<(), CommandFailure> {
        let (status, body) = self.call(Method::GET, "/policy", HeaderMap::new(), String::new()).await?;
        match status {
            StatusCode::UNAUTHORIZED => Ok(()),
            _ => Err(refused(&Method::GET, "/policy", status, &body)),
        }
    }

    /// Changes something; the answer is JSON.
    async fn write(
        &self,
        method: Method,
        path: &str,
        media_type: &'static str,
        body: String,
        reason: &str,
    ) -> Result<Value, CommandFailure> {
        let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(media_type))]);
        headers.insert("x-reason", HeaderValue::from_str(reason).map_err(running)?);
        let (status, body) = self.call(method.clone(), path, headers, body).await?;
        if !status.is_success() {
            return Err(refused(&method, path, status, &body));
        }
        serde_json::from_str(&body).map_err(running)
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        mut headers: HeaderMap,
        body: String,
    ) -> Result<(StatusCode, String), CommandFailure> {
        let bearer = HeaderValue::from_str(&format!("Bearer {}", self.token)).map_err(running)?;
        headers.insert(AUTHORIZATION, bearer);
        let path = format!("/api/v1{path}");
        let call = HttpCall { method, path, headers, body: body.into(), timeout: TIMEOUT };
        let answer = self.target.send(&call, None).await.map_err(running)?;
        Ok((answer.status, String::from_utf8_lossy(&answer.body).into_owned()))
    }
}

fn refused(method: &Method, path: &str, status: StatusCode, body: &str) -> CommandFailure {
    running(format!("the demo cannot be set up: {method} {path} was answered with {status}: {body}"))
}

#[cfg(test)]
mod tests {
    use tidegate::Nanos;
    use tidegate_policy::Policy;

    use super::*;

    #[test]
    fn the_policy_and_the_candidate_are_valid_and_differ_in_one_limit() {
        assert_eq!(POLICY.matches(LIVE_LINE).count(), 1);
        for text in [POLICY.to_owned(), POLICY.replacen(LIVE_LINE, CANDIDATE_LINE, 1)] {
            let policy = Policy::parse_at(&text, Nanos::ZERO).expect("it is valid");
            assert_eq!((policy.rules.limits().len() >= 8, policy.rules.tenants().nodes().len()), (true, 9));
        }
    }
}

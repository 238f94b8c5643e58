//! Trust that the server computes: in HTTP checks and behind proxies.

use serde_json::{Value, json};
use tidegate::engine::InvalidCredentials;
use tidegate::engine::trust::{AccountFacts, TrustClaims, TrustOptions};

use super::*;
use crate::identity::testing::Signer;
use crate::settings::{Jwt, JwtKey, TrustSettings};

const POLICY: &str = "
version: 1
adaptive: { trust: true }
limits: [{ name: per-user, key: [user], sustained: { rate: 1, window: hour }, burst: { capacity: 10 } }]
";

/// A node that knows two claims, and that the address of `ann` is verified.
fn trusting() -> Arc<Node> {
    let claims = TrustClaims {
        created: Some("since".into()),
        email_verified: Some("email_verified".into()),
        success_rate: None,
    };
    let options = TrustOptions { claims, ..TrustOptions::default() };
    let key = JwtKey::Key { key: "secret".into(), algorithm: "HS256".into() };
    let jwt = Jwt { key, issuer: None, audience: None, invalid: InvalidCredentials::Deny };
    let trust = Some(TrustSettings { file: None, options });
    let node = node(POLICY, Settings { jwt: Some(jwt), trust, ..Settings::default() });
    let verified = AccountFacts { email_verified: Some(true), ..AccountFacts::default() };
    node.limiter().trust_book().unwrap().replace_listed([("ann".into(), verified)].into());
    node
}

#[tokio::test(start_paused = true)]
async fn a_check_has_the_trust_of_its_user_unless_it_says_its_own() {
    let node = trusting();
    let mut client = Client::connect(&node, LOCAL);
    for (request, limit) in [
        (json!({"user": "ann"}), 12),
        (json!({"user": "bob"}), 10),
        (json!({"user": "ann", "trust": 0}), 10),
        (json!({"user": "ann", "trust": 1}), 20),
        (json!({"user": "bob", "jwt": {"since": 86_400, "email_verified": true}}), 15),
    ] {
        client.post("/v1/check", "", &request.to_string()).await;
        let (_, body) = client.answer().await;
        let decision: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(decision["limit"], limit, "{request}: {decision}");
    }
}

#[tokio::test(start_paused = true)]
async fn forward_auth_reads_the_claims_of_a_verified_token() {
    let node = trusting();
    for (claims, limit) in [
        (json!({"sub": "bob"}), "10"),
        (json!({"sub": "ann"}), "12"),
        (json!({"sub": "bob", "since": 86_400, "email_verified": true}), "15"),
        (json!({"sub": "ann", "email_verified": false}), "10"),
    ] {
        let mut claims = claims;
        claims["exp"] = json!(3_000_000_000_u64);
        let token = Signer::Secret(b"secret".to_vec()).token(&json!({"alg": "HS256"}), &claims);
        let mut client = Client::connect(&node, LOCAL);
        client
            .send(&format!(
                "GET /v1/forward-auth HTTP/1.1\r\nHost: tidegate\r\nAuthorization: Bearer {token}\r\n\r\n"
            ))
            .await;
        let (head, _) = client.answer().await;
        assert!(head.contains(&format!("x-ratelimit-limit: {limit}\r\n")), "{claims}: {head}");
    }
}

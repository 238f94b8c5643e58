//! Tokens of an identity provider.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::{Value, json};
use tidegate::{Clock, MonotonicClock};
use tidegate_database::DatabaseKind;

use super::client::{Controlled, ask};
use crate::control::place::{Place, on_both};

on_both!(a_signed_token_has_the_role_and_the_tenant_of_its_claims);

/// A token that is signed with this secret, and ends in an hour.
fn signed(secret: &str, more: &Value) -> String {
    let ends = MonotonicClock::new().wall().as_secs_ceil() + 3_600;
    let mut claims = json!({ "iss": "https://id.example", "aud": "tidegate", "sub": "ann", "exp": ends });
    for (name, value) in more.as_object().expect("an object") {
        claims[name] = value.clone();
    }
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", part(json!({ "alg": "HS256", "kid": "k" })), part(claims));
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let signature = hmac::sign(&key, message.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
}

fn keys(secret: &str) -> String {
    let key = json!({ "kty": "oct", "kid": "k", "alg": "HS256", "k": URL_SAFE_NO_PAD.encode(secret) });
    json!({ "keys": [key] }).to_string()
}

const SETTINGS: &str = "auth:\n  oidc:\n    issuer: https://id.example\n    audience: tidegate\n    jwks: jwks.json\n    \
                        role: { values: { sre: operator, root: admin } }\n    tenant: { claim: tenant }\n";

fn a_signed_token_has_the_role_and_the_tenant_of_its_claims(kind: DatabaseKind) {
    let place = Place::new(kind);
    place.home.write("jwks.json", &keys("first-secret-of-32-characters-ok"));
    let server = Controlled::start_in(place, SETTINGS);
    let first = |more: Value| signed("first-secret-of-32-characters-ok", &more);
    let ann = first(json!({ "groups": ["staff", "sre"], "tenant": "acme" }));
    let who = server.call(&ann, "GET", "/whoami", None).json();
    assert_eq!(who["actor"], "oidc:ann");
    assert_eq!((&who["role"], &who["tenant"]), (&json!("operator"), &json!("acme")));
    let root = first(json!({ "groups": "root", "tenant": "*" }));
    assert_eq!(server.call(&root, "GET", "/tokens", None).status, 200);
    assert_eq!(server.call(&ann, "GET", "/tokens", None).status, 403);
    for wrong in [json!({ "groups": "root" }), json!({ "groups": "staff", "tenant": "*" })] {
        assert_eq!(server.call(&first(wrong.clone()), "GET", "/whoami", None).status, 401, "{wrong}");
    }

    let body = json!({ "token": root }).to_string();
    let login =
        ask(server.address(), "POST", "/console/login", &[("Content-Type", "application/json")], &body);
    assert_eq!((login.status, login.header("set-cookie")), (422, None), "it cannot be exchanged");

    server.place.home.replace("jwks.json", &keys("other-secret-of-32-characters-ok"));
    server.server.logged(&["reloaded", "oidc"]);
    assert_eq!(server.call(&root, "GET", "/whoami", None).status, 401);
    let root = signed("other-secret-of-32-characters-ok", &json!({ "groups": "root", "tenant": "*" }));
    assert_eq!(server.call(&root, "GET", "/whoami", None).status, 200);
}

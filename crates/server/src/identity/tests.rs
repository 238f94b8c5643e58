//! Which tokens are believed, which are not, and where a client is.

use std::net::IpAddr;
use std::path::PathBuf;

use jsonwebtoken::jwk::{Jwk, JwkSet};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::json;

use super::*;
use crate::settings::{Jwt, JwtKey};

const NOW: Nanos = Nanos::from_secs(1_800_000_000);
const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn with(key: JwtKey) -> Identity {
    let jwt = Jwt { key, issuer: None, audience: None };
    Identity::new(&Settings { jwt: Some(jwt), ..Settings::default() }).unwrap()
}

fn with_secret() -> Identity {
    with(JwtKey::Key { key: "secret".into(), algorithm: "HS256".into() })
}

fn who(identity: &Identity, headers: &[(&str, &str)]) -> Who {
    identity.who(headers.iter().map(|(name, value)| (*name, value.as_bytes())), PEER, NOW)
}

/// Whom a token makes one, if it is believed.
fn user(identity: &Identity, token: &str) -> Option<String> {
    let who = who(identity, &[("authorization", &format!("Bearer {token}"))]);
    assert_eq!(who.token_rejected, who.claims.is_none());
    let mut request = Request::new();
    who.describe(&mut request);
    request.user.map(|user| user.into_owned())
}

fn token(header: &Header, claims: &serde_json::Value, key: &EncodingKey) -> String {
    encode(header, claims, key).unwrap()
}

fn signed(claims: &serde_json::Value) -> String {
    token(&Header::new(Algorithm::HS256), claims, &EncodingKey::from_secret(b"secret"))
}

fn ours() -> serde_json::Value {
    json!({"sub": "42", "exp": 1_800_000_100})
}

#[test]
fn a_token_that_holds_tells_who_it_is() {
    let identity = with_secret();
    assert_eq!(user(&identity, &signed(&ours())).as_deref(), Some("42"));
    for scheme in ["bearer", "BEARER"] {
        let header = format!("{scheme}  {}", signed(&ours()));
        assert!(who(&identity, &[("Authorization", &header)]).claims.is_some(), "{scheme}");
    }
}

#[test]
fn a_token_that_does_not_hold_tells_nothing() {
    let identity = with_secret();
    let good = signed(&ours());
    let (message, signature) = good.rsplit_once('.').unwrap();
    let none = "eyJhbGciOiJub25lIn0.eyJzdWIiOiI0MiIsImV4cCI6MTgwMDAwMDEwMH0.";
    let other = token(&Header::new(Algorithm::HS256), &ours(), &EncodingKey::from_secret(b"guess"));
    let longer = token(&Header::new(Algorithm::HS512), &ours(), &EncodingKey::from_secret(b"secret"));
    let critical = Header { crit: Some(vec!["x".into()]), ..Header::new(Algorithm::HS256) };
    let critical = token(&critical, &ours(), &EncodingKey::from_secret(b"secret"));
    for (what, token) in [
        ("changed", format!("{message}A.{signature}")),
        ("unsigned", format!("{message}.")),
        ("alg none", none.to_owned()),
        ("another key", other),
        ("another algorithm", longer),
        ("critical things", critical),
        ("expired", signed(&json!({"sub": "42", "exp": 1_799_999_900}))),
        ("not yet", signed(&json!({"sub": "42", "exp": 1_900_000_000, "nbf": 1_800_000_100}))),
        ("without end", signed(&json!({"sub": "42"}))),
        ("no token", "opaque".to_owned()),
        ("nothing", String::new()),
        ("too long", "x".repeat(10_000)),
    ] {
        assert_eq!(user(&identity, &token), None, "{what}");
    }
    let two = [("authorization", &*format!("Bearer {good}")), ("authorization", "Bearer x")];
    assert!(who(&identity, &two).token_rejected, "two are none");
    let basic = who(&identity, &[("authorization", "Basic eDp5")]);
    assert!(!basic.token_rejected && basic.claims.is_none(), "other schemes are not ours");
}

#[test]
fn without_keys_no_token_is_looked_at() {
    let identity = Identity::new(&Settings::default()).unwrap();
    let header = format!("Bearer {}", signed(&ours()));
    let who = who(&identity, &[("authorization", &header)]);
    assert!(who.claims.is_none() && !who.token_rejected);
}

#[test]
fn a_token_is_remembered_while_it_lasts() {
    let identity = with_secret();
    let text = signed(&ours());
    let at = |secs| {
        let header = format!("Bearer {text}");
        identity.who([("authorization", header.as_bytes())].into_iter(), PEER, Nanos::from_secs(secs))
    };
    assert!(at(1_800_000_000).claims.is_some());
    assert_eq!(identity.tokens.as_ref().unwrap().cached(), 1);
    assert!(at(1_800_000_159).claims.is_some(), "a minute of leeway");
    assert!(at(1_800_000_160).claims.is_none(), "remembered or not, it has ended");
}

#[test]
fn what_is_remembered_is_bounded() {
    let cache = cache::Cache::new();
    let payload = std::collections::HashMap::from([(
        "exp".to_owned(),
        serde_json::value::RawValue::from_string("9".to_owned()).unwrap(),
    )]);
    let key = JwtKey::Key { key: String::new(), algorithm: String::new() };
    let claims = Claims::new(&payload, &Jwt { key, issuer: None, audience: None }).unwrap();
    let claims = Arc::new(claims);
    for number in 0_u32..20_000 {
        cache.insert(cache.name(&number.to_le_bytes()), 0, Arc::clone(&claims), NOW);
    }
    assert!(cache.len() <= cache::Cache::MAX);
    let last = cache.name(&19_999_u32.to_le_bytes());
    assert!(cache.get(last, 0, NOW).is_some());
    assert!(cache.get(last, 1, NOW).is_none(), "other keys, other tokens");
    assert!(cache.get(last, 0, NOW.saturating_add(Nanos::HOUR)).is_none(), "not for long");
}

/// A key pair on P-256, as a key to sign with and one of a set.
fn pair(id: &str) -> (EncodingKey, Jwk) {
    let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let key = EncodingKey::from_ec_pem(pair.serialize_pem().as_bytes()).unwrap();
    let mut jwk = Jwk::from_encoding_key(&key, Algorithm::ES256).unwrap();
    jwk.common.key_id = Some(id.to_owned());
    (key, jwk)
}

fn with_id(algorithm: Algorithm, id: Option<&str>) -> Header {
    Header { kid: id.map(str::to_owned), ..Header::new(algorithm) }
}

fn file(name: &str, text: &str) -> PathBuf {
    let file = std::env::temp_dir().join(format!("tidegate-{}-{name}.json", std::process::id()));
    std::fs::write(&file, text).unwrap();
    file
}

fn set(keys: &[&Jwk]) -> String {
    serde_json::to_string(&JwkSet { keys: keys.iter().map(|key| (*key).clone()).collect() }).unwrap()
}

#[test]
fn keys_of_a_set_are_found_by_their_id_and_read_again() {
    let ((old, old_jwk), (new, new_jwk)) = (pair("old"), pair("new"));
    let path = file("rotated", &set(&[&old_jwk]));
    let identity = with(JwtKey::Jwks(path.clone()));
    let by_old = token(&with_id(Algorithm::ES256, Some("old")), &ours(), &old);
    let by_new = token(&with_id(Algorithm::ES256, Some("new")), &ours(), &new);
    let unnamed = token(&with_id(Algorithm::ES256, None), &ours(), &old);
    let mislabelled = token(&with_id(Algorithm::ES256, Some("new")), &ours(), &old);
    assert!(user(&identity, &by_old).is_some() && user(&identity, &unnamed).is_some());
    assert!(user(&identity, &by_new).is_none() && user(&identity, &mislabelled).is_none());

    std::fs::write(&path, "{\"keys\":[]}").unwrap();
    let said = identity.reload().unwrap_err().to_string();
    assert!(said.contains("none is for verifying"), "{said}");
    assert!(user(&identity, &by_old).is_some(), "the last good keys are kept");

    std::fs::write(&path, set(&[&new_jwk])).unwrap();
    identity.reload().unwrap();
    assert!(user(&identity, &by_new).is_some());
    assert!(user(&identity, &by_old).is_none(), "remembered, but by a key that is gone");
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(identity.reload(), Err(IdentityError::Unreadable { .. })));
}

#[test]
fn a_public_key_is_no_secret() {
    // The old trick: sign with the public key as if it were a shared secret.
    let modulus = "u".repeat(344);
    let rsa = json!({"keys": [{"kty": "RSA", "kid": "r", "n": modulus, "e": "AQAB"}]}).to_string();
    let path = file("rsa", &rsa);
    let identity = with(JwtKey::Jwks(path.clone()));
    std::fs::remove_file(path).unwrap();
    let header = with_id(Algorithm::HS256, Some("r"));
    for secret in [modulus.as_bytes(), rsa.as_bytes()] {
        assert_eq!(user(&identity, &token(&header, &ours(), &EncodingKey::from_secret(secret))), None);
    }
}

#[test]
fn keys_for_other_things_are_not_used() {
    let (key, jwk) = pair("k");
    let by_key = token(&with_id(Algorithm::ES256, Some("k")), &ours(), &key);
    for (member, value, usable) in [
        ("use", json!("sig"), true),
        ("use", json!("enc"), false),
        ("key_ops", json!(["verify"]), true),
        ("key_ops", json!(["encrypt"]), false),
        ("alg", json!("ES256"), true),
        ("alg", json!("RS256"), false),
        ("alg", json!("RSA-OAEP"), false),
    ] {
        let mut changed = serde_json::to_value(&jwk).unwrap();
        changed[member] = value.clone();
        let path = file("uses", &json!({ "keys": [changed] }).to_string());
        let jwt = Jwt { key: JwtKey::Jwks(path.clone()), issuer: None, audience: None };
        let identity = Identity::new(&Settings { jwt: Some(jwt), ..Settings::default() });
        assert_eq!(identity.is_ok(), usable, "{member}: {value}");
        if let Ok(identity) = identity {
            assert!(user(&identity, &by_key).is_some(), "{member}: {value}");
        }
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn bad_keys_are_told() {
    let told = |key: &str, algorithm: &str| {
        let key = JwtKey::Key { key: key.into(), algorithm: algorithm.into() };
        let jwt = Jwt { key, issuer: None, audience: None };
        Identity::new(&Settings { jwt: Some(jwt), ..Settings::default() }).unwrap_err().to_string()
    };
    assert!(told("secret", "none").contains("none is not known"));
    assert!(told("secret", "RS256").contains("it is no key for RS256"));
}

#[test]
fn the_address_is_what_trusted_proxies_say() {
    let identity = Identity::new(&Settings::default()).unwrap();
    let headers =
        [("X-Forwarded-For", "6.6.6.6"), ("x-forwarded-for", "203.0.113.7"), ("forwarded", "for=1.1.1.1")];
    let found = who(&identity, &headers);
    assert_eq!((found.ip, found.trusted), (IpAddr::from([203, 0, 113, 7]), true));
    let stranger = IpAddr::from([198, 51, 100, 1]);
    let lines = headers.iter().map(|(name, value)| (*name, value.as_bytes()));
    let found = identity.who(lines, stranger, NOW);
    assert_eq!((found.ip, found.trusted), (stranger, false));
    let by_forwarded = Settings { forwarded: ForwardedSource::Forwarded, ..Settings::default() };
    let found = who(&Identity::new(&by_forwarded).unwrap(), &headers);
    assert_eq!(found.ip, IpAddr::from([1, 1, 1, 1]), "one header, never any of them");
}

#[test]
fn a_token_without_id_is_tried_with_a_few_keys() {
    let keys: Vec<_> = (0..9).map(|number| pair(&number.to_string())).collect();
    let path = file("many", &set(&keys.iter().map(|(_, jwk)| jwk).collect::<Vec<_>>()));
    let identity = with(JwtKey::Jwks(path.clone()));
    let holds = |number: usize, id: Option<&str>| {
        user(&identity, &token(&with_id(Algorithm::ES256, id), &ours(), &keys[number].0)).is_some()
    };
    assert!(holds(0, None) && holds(7, None));
    assert!(!holds(8, None), "it would be the ninth");
    assert!(holds(8, Some("8")), "its id tells which it is");
    std::fs::remove_file(path).unwrap();
}

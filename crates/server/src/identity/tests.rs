//! Which tokens are accepted or rejected, and which address a client has.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use tidegate::engine::{Credential, InvalidCredentials};

use super::testing::{RSA_PRIVATE, RSA_PUBLIC, RSA_SMALL, Signer, encoded, rsa_jwk};
use super::*;
use crate::bounds::FAILED_CHECKS_PER_SECOND_MAX;
use crate::settings::{Jwt, JwtKey};

const NOW: Nanos = Nanos::from_secs(1_800_000_000);
const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const ALGORITHMS: [&str; 12] = [
    "HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384",
    "EdDSA",
];

fn jwt(key: JwtKey) -> Jwt {
    Jwt { key, issuer: None, audience: None, invalid: InvalidCredentials::Deny }
}

fn identity(key: JwtKey) -> Result<Identity, IdentityError> {
    Identity::new(&Settings { jwt: Some(jwt(key)), ..Settings::default() })
}

fn with_secret() -> Identity {
    identity(JwtKey::Key { key: "secret".into(), algorithm: "HS256".into() }).unwrap()
}

/// The result of verifying these lines of `Authorization`.
fn verified(identity: &Identity, lines: &[&str]) -> Verified {
    let headers = lines.iter().map(|line| ("Authorization", line.as_bytes()));
    identity.verify(&identity.client_info(headers, PEER), None, NOW).unwrap()
}

/// The user of a token, or why it is rejected.
fn user(identity: &Identity, token: &str) -> Result<String, Rejection> {
    let verified = verified(identity, &[&format!("Bearer {token}")]);
    let mut request = Request::new();
    verified.describe(&IdentitySources::new(), &mut request);
    assert_eq!(request.credential == Credential::Invalid, verified.rejection().is_some());
    match verified.rejection() {
        None => Ok(request.user.expect("the tokens here have one").into_owned()),
        Some(why) => {
            assert_eq!(request, Request::new().credential(Credential::Invalid), "it has no claims");
            Err(why)
        }
    }
}

fn signed(claims: &Value) -> String {
    Signer::new("HS256").token(&json!({"alg": "HS256"}), claims)
}

fn ours() -> Value {
    json!({"sub": "42", "exp": 1_800_000_100})
}

fn file(name: &str, text: &str) -> PathBuf {
    let file = std::env::temp_dir().join(format!("tidegate-{}-{name}.json", std::process::id()));
    std::fs::write(&file, text).unwrap();
    file
}

fn set(keys: &[Value]) -> String {
    json!({ "keys": keys }).to_string()
}

/// An identity with the keys of a set, loaded once.
fn with_set(name: &str, keys: &[Value]) -> Result<Identity, IdentityError> {
    let path = file(name, &set(keys));
    let identity = identity(JwtKey::Jwks(path.clone()));
    std::fs::remove_file(path).unwrap();
    identity
}

#[test]
fn every_algorithm_verifies_as_pem_and_in_a_set() {
    for algorithm in ALGORITHMS {
        let signer = Signer::new(algorithm);
        let key = JwtKey::Key { key: signer.pem(), algorithm: algorithm.into() };
        let (by_key, by_set) = (identity(key).unwrap(), with_set(algorithm, &[signer.jwk("k")]).unwrap());
        let token = signer.token(&json!({"alg": algorithm, "kid": "k"}), &ours());
        let (message, signature) = token.rsplit_once('.').unwrap();
        let mut bytes = super::token::jws::decode(signature.as_bytes()).unwrap();
        bytes[0] ^= 1;
        let changed = format!("{message}.{}", encoded(bytes));
        for identity in [&by_key, &by_set] {
            assert_eq!(user(identity, &token).as_deref(), Ok("42"), "{algorithm}");
            assert_eq!(user(identity, &changed), Err(Rejection::BadSignature), "{algorithm}");
        }
    }
}

#[test]
fn a_token_that_does_not_hold_tells_nothing_and_why_is_known() {
    let identity = with_secret();
    let good = signed(&ours());
    assert_eq!(user(&identity, &good).as_deref(), Ok("42"));
    let (message, signature) = good.rsplit_once('.').unwrap();
    let secret = Signer::new("HS256");
    let none = "eyJhbGciOiJub25lIn0.eyJzdWIiOiI0MiIsImV4cCI6MTgwMDAwMDEwMH0.";
    for (what, token, why) in [
        ("changed", format!("{message}A.{signature}"), Rejection::BadSignature),
        ("unsigned", format!("{message}."), Rejection::BadSignature),
        ("padded", format!("{good}="), Rejection::Malformed),
        ("alg none", none.to_owned(), Rejection::UnknownKey),
        (
            "another key",
            Signer::Secret(b"guess".to_vec()).token(&json!({"alg": "HS256"}), &ours()),
            Rejection::BadSignature,
        ),
        ("another algorithm", secret.token(&json!({"alg": "HS512"}), &ours()), Rejection::UnknownKey),
        (
            "critical things",
            secret.token(&json!({"alg": "HS256", "crit": ["x"]}), &ours()),
            Rejection::Malformed,
        ),
        (
            "a kid that is no text",
            secret.token(&json!({"alg": "HS256", "kid": 1}), &ours()),
            Rejection::Malformed,
        ),
        ("expired", signed(&json!({"sub": "42", "exp": 1_799_999_900})), Rejection::Expired),
        (
            "not yet",
            signed(&json!({"sub": "42", "exp": 1_900_000_000, "nbf": 1_800_000_100})),
            Rejection::NotYetValid,
        ),
        ("without end", signed(&json!({"sub": "42"})), Rejection::Malformed),
        ("no claims", signed(&json!([])), Rejection::Malformed),
        ("no token", "opaque".to_owned(), Rejection::Malformed),
        ("four parts", format!("{good}.x"), Rejection::Malformed),
        ("nothing", String::new(), Rejection::Malformed),
        ("too long", "x".repeat(10_000), Rejection::Malformed),
    ] {
        assert_eq!(user(&identity, &token), Err(why), "{what}");
    }
}

#[test]
fn nobody_takes_its_identity_off() {
    let identity = with_secret();
    let good = signed(&ours());
    let line = format!("Bearer {good}");
    for lines in [
        &[&*line, "Bearer x"][..],
        &[&line, &line],
        &["Basic eDp5", &line],
        &[&*format!("Bearer\t{good}")],
        &[&*format!("{line}=")],
        &[&*format!("{line}, {line}")],
        &["Bearer"],
    ] {
        let verified = verified(&identity, lines);
        assert_eq!(
            (verified.credential(), verified.rejection()),
            (Credential::Invalid, Some(Rejection::Malformed))
        );
    }
    for lines in [&[][..], &["Basic eDp5"], &["Basic eDp5", "Basic eDp5"]] {
        assert_eq!(verified(&identity, lines).credential(), Credential::None, "{lines:?}");
    }
    assert_eq!(verified(&identity, &[&line]).credential(), Credential::Valid);
}

#[test]
fn without_keys_no_token_is_looked_at() {
    let identity = Identity::new(&Settings::default()).unwrap();
    let header = format!("Bearer {}", signed(&ours()));
    let who = identity.client_info([("authorization", header.as_bytes())].into_iter(), PEER);
    assert_eq!(who.presented, PresentedCredential::Nothing);
    assert!(identity.verify(&who, None, NOW).is_none());
}

#[test]
fn a_token_is_remembered_and_its_time_is_looked_at_every_time() {
    let identity = with_secret();
    let text = signed(&ours());
    let tokens = identity.tokens.as_ref().unwrap();
    let at = |secs| tokens.verify(text.as_bytes(), None, Nanos::from_secs(secs)).err();
    assert_eq!((at(1_800_000_000), tokens.cached()), (None, 1));
    assert_eq!(at(1_800_000_159), None, "a minute of leeway");
    assert_eq!(at(1_800_000_160), Some(Rejection::Expired), "expired, although it is cached");
    let early = signed(&json!({"sub": "42", "exp": 1_900_000_000, "nbf": 1_800_000_100}));
    let early = |secs| tokens.verify(early.as_bytes(), None, Nanos::from_secs(secs)).err();
    assert_eq!((early(1_800_000_000), tokens.cached()), (Some(Rejection::NotYetValid), 2), "it is signed");
    assert_eq!(early(1_800_000_040), None, "its time has come");
}

#[test]
fn junk_is_remembered_and_what_costs_nothing_is_not() {
    let identity = with_secret();
    let tokens = identity.tokens.as_ref().unwrap();
    let junk = Signer::Secret(b"guess".to_vec()).token(&json!({"alg": "HS256"}), &ours());
    let unknown = Signer::new("HS512").token(&json!({"alg": "HS512"}), &ours());
    for (token, remembered) in [(&junk, true), (&unknown, false)] {
        assert!(user(&identity, token).is_err());
        assert_eq!(tokens.is_cached_as_rejected(token.as_bytes(), NOW), remembered, "{token}");
        assert!(user(&identity, token).is_err(), "it is rejected again");
    }
    assert!(!tokens.is_cached_as_rejected(junk.as_bytes(), NOW.saturating_add(Nanos::HOUR)), "not for long");
}

#[test]
fn whoever_sends_nothing_but_junk_is_checked_no_further() {
    let (signer, stranger) = (Signer::new("ES256"), Signer::new("ES256"));
    let identity = with_set("flood", &[signer.jwk("a")]).unwrap();
    let header = json!({"alg": "ES256", "kid": "a"});
    let token =
        |signer: &Signer, user: &str| signer.token(&header, &json!({"sub": user, "exp": 1_800_000_100}));
    let ask = |token: &str, peer: IpAddr, now: Nanos| {
        let line = format!("Bearer {token}");
        let who = identity.client_info([("authorization", line.as_bytes())].into_iter(), peer);
        identity.verify(&who, None, now).unwrap().rejection()
    };
    let (flooder, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
    let [known, new] = ["known", "new"].map(|user| token(&signer, user));
    assert_eq!(ask(&known, flooder, NOW), None);
    for number in 0..FAILED_CHECKS_PER_SECOND_MAX {
        let junk = token(&stranger, &number.to_string());
        assert_eq!(ask(&junk, flooder, NOW), Some(Rejection::BadSignature), "{number}");
    }
    assert_eq!(ask(&new, flooder, NOW), Some(Rejection::NotChecked));
    assert_eq!(ask(&known, flooder, NOW), None, "a cached valid token needs no check");
    assert_eq!(ask(&new, other, NOW), None, "other addresses are still checked");
    assert_eq!(ask(&token(&signer, "newer"), PEER, NOW), None);
    let later = token(&signer, "later");
    assert_eq!(ask(&later, flooder, NOW), Some(Rejection::NotChecked));
    assert_eq!(ask(&later, flooder, NOW.saturating_add(Nanos::SECOND)), None, "it is not cached as rejected");
}

#[test]
fn what_is_remembered_is_bounded() {
    let cache = super::token::cache::Cache::new();
    let payload = std::collections::HashMap::from([(
        "exp".to_owned(),
        serde_json::value::RawValue::from_string("9".to_owned()).unwrap(),
    )]);
    let key = JwtKey::Key { key: String::new(), algorithm: String::new() };
    let claims = Arc::new(Claims::new(&payload, &jwt(key)).unwrap());
    for number in 0_u32..20_000 {
        cache.insert(cache.name(&number.to_le_bytes()), 0, Arc::clone(&claims), NOW);
    }
    assert!(cache.len() <= super::token::cache::Cache::MAX);
    let last = cache.name(&19_999_u32.to_le_bytes());
    assert!(cache.get(last, 0, NOW).is_some());
    assert!(cache.get(last, 1, NOW).is_none(), "other keys, other tokens");
    assert!(cache.get(last, 0, NOW.saturating_add(Nanos::HOUR)).is_none(), "not for long");
}

#[test]
fn keys_of_a_set_are_found_by_their_id_and_read_again() {
    let (old, new) = (Signer::new("ES256"), Signer::new("ES256"));
    let path = file("rotated", &set(&[old.jwk("old")]));
    let identity = identity(JwtKey::Jwks(path.clone())).unwrap();
    let by_old = old.token(&json!({"alg": "ES256", "kid": "old"}), &ours());
    let by_new = new.token(&json!({"alg": "ES256", "kid": "new"}), &ours());
    let unnamed = old.token(&json!({"alg": "ES256"}), &ours());
    let mislabelled = old.token(&json!({"alg": "ES256", "kid": "new"}), &ours());
    assert!(user(&identity, &by_old).is_ok() && user(&identity, &unnamed).is_ok());
    assert_eq!(user(&identity, &by_new), Err(Rejection::UnknownKey));
    assert_eq!(user(&identity, &mislabelled), Err(Rejection::UnknownKey));

    std::fs::write(&path, "{\"keys\":[]}").unwrap();
    let message = identity.reload().unwrap_err().to_string();
    assert!(message.contains("keys can verify signatures"), "{message}");
    assert!(user(&identity, &by_old).is_ok(), "the last good keys are kept");

    std::fs::write(&path, set(&[new.jwk("new")])).unwrap();
    identity.reload().unwrap();
    assert!(user(&identity, &by_new).is_ok());
    assert_eq!(user(&identity, &by_old), Err(Rejection::UnknownKey), "cached, but its key was removed");
    assert_eq!(user(&identity, &mislabelled), Err(Rejection::BadSignature));
    std::fs::write(&path, set(&[old.jwk("new")])).unwrap();
    identity.reload().unwrap();
    assert!(user(&identity, &mislabelled).is_ok(), "a cached rejection holds for its keys only");
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(identity.reload(), Err(IdentityError::Unreadable { .. })));
}

#[test]
fn a_token_is_tried_with_the_one_key_that_can_be_meant() {
    let (one, two, third) = (Signer::new("ES256"), Signer::new("ES256"), Signer::new("ES384"));
    let token = |signer: &Signer, algorithm: &str, id: Option<&str>| {
        signer.token(&json!({"alg": algorithm, "kid": id}), &ours())
    };
    let named = with_set("named", &[one.jwk("1"), two.jwk("2"), third.jwk("3")]).unwrap();
    assert!(user(&named, &token(&two, "ES256", Some("2"))).is_ok());
    assert_eq!(user(&named, &token(&one, "ES256", None)), Err(Rejection::UnknownKey), "two could be meant");
    assert!(user(&named, &token(&third, "ES384", None)).is_ok(), "the only one of its kind");
    assert_eq!(user(&named, &token(&third, "ES384", Some("4"))), Err(Rejection::UnknownKey));

    let mut nameless = one.jwk("1");
    nameless.as_object_mut().unwrap().remove("kid");
    let mixed = with_set("mixed", &[nameless.clone(), two.jwk("2")]).unwrap();
    assert!(
        user(&mixed, &token(&one, "ES256", Some("9"))).is_ok(),
        "only the one without a name can be meant"
    );
    assert!(user(&mixed, &token(&two, "ES256", Some("2"))).is_ok());
    assert_eq!(user(&mixed, &token(&one, "ES256", Some("2"))), Err(Rejection::BadSignature));

    let twice = with_set("twice", &[one.jwk("1"), two.jwk("1")]).unwrap_err().to_string();
    assert!(twice.contains("two of its keys have the `kid` \"1\""), "{twice}");
}

#[test]
fn a_public_key_is_no_secret() {
    // Algorithm confusion: sign with the public key as if it were a shared secret.
    let jwk = rsa_jwk(RSA_PUBLIC, "r");
    let identity = with_set("rsa", std::slice::from_ref(&jwk)).unwrap();
    for secret in [RSA_PUBLIC, jwk["n"].as_str().unwrap(), &set(std::slice::from_ref(&jwk))] {
        let forged = Signer::Secret(secret.into()).token(&json!({"alg": "HS256", "kid": "r"}), &ours());
        assert_eq!(user(&identity, &forged), Err(Rejection::UnknownKey));
    }
}

#[test]
fn keys_for_other_things_are_not_used() {
    let signer = Signer::new("ES256");
    let token = signer.token(&json!({"alg": "ES256", "kid": "k"}), &ours());
    for (member, value, usable) in [
        ("use", json!("sig"), true),
        ("use", json!("enc"), false),
        ("key_ops", json!(["verify"]), true),
        ("key_ops", json!(["encrypt"]), false),
        ("alg", json!("ES256"), true),
        ("alg", json!("RS256"), false),
        ("alg", json!("RSA-OAEP"), false),
        ("kty", json!("new"), false),
        ("crv", json!("P-521"), false),
    ] {
        let mut changed = signer.jwk("k");
        changed[member] = value.clone();
        let identity = with_set("uses", &[changed]);
        assert_eq!(identity.is_ok(), usable, "{member}: {value}");
        if let Ok(identity) = identity {
            assert!(user(&identity, &token).is_ok(), "{member}: {value}");
        }
    }
}

#[test]
fn bad_keys_are_told_and_do_not_spoil_the_others() {
    let message = |key: &str, algorithm: &str| {
        let key = JwtKey::Key { key: key.into(), algorithm: algorithm.into() };
        identity(key).unwrap_err().to_string()
    };
    assert!(message("secret", "none").contains("none is not a known algorithm"));
    for (key, algorithm, wanted) in [
        ("secret", "RS256", "not a key for RS256: it is not PEM text"),
        (RSA_PRIVATE, "RS256", "it is a private key; use the public key"),
        (RSA_PUBLIC, "ES256", "it is a key of another type"),
        (RSA_SMALL, "PS256", "an RSA key of 1024 bits; 2048 to 8192 bits are allowed"),
    ] {
        let message = message(key, algorithm);
        assert!(message.contains(wanted), "{message}");
    }
    let small = rsa_jwk(RSA_SMALL, "small");
    let mut short = Signer::new("ES256").jwk("short");
    short["x"] = json!("AAAA");
    let mut even = rsa_jwk(RSA_PUBLIC, "even");
    even["e"] = json!("Ag");
    let message = with_set("bad", &[small.clone(), short.clone(), even]).unwrap_err().to_string();
    for wanted in ["keys[0]: an RSA key of 1024 bits", "keys[1]: `x` and `y` must have 32 bytes", "keys[2]: "]
    {
        assert!(message.contains(wanted), "{message}");
    }
    let good = Signer::new("ES256");
    let identity = with_set("some-bad", &[small, short, good.jwk("good")]).unwrap();
    assert!(user(&identity, &good.token(&json!({"alg": "ES256", "kid": "good"}), &ours())).is_ok());
}

#[test]
fn the_address_is_what_trusted_proxies_say() {
    let identity = Identity::new(&Settings::default()).unwrap();
    let headers = || {
        let lines = [
            ("X-Forwarded-For", "6.6.6.6"),
            ("x-forwarded-for", "203.0.113.7"),
            ("forwarded", "for=1.1.1.1"),
        ];
        lines.into_iter().map(|(name, value)| (name, value.as_bytes()))
    };
    let found = identity.client_info(headers(), PEER);
    assert_eq!((found.ip, found.trusted), (IpAddr::from([203, 0, 113, 7]), true));
    let stranger = IpAddr::from([198, 51, 100, 1]);
    let found = identity.client_info(headers(), stranger);
    assert_eq!((found.ip, found.trusted), (stranger, false));
    let by_forwarded = Settings { forwarded: ForwardedSource::Forwarded, ..Settings::default() };
    let found = Identity::new(&by_forwarded).unwrap().client_info(headers(), PEER);
    assert_eq!(found.ip, IpAddr::from([1, 1, 1, 1]), "one header, never any of them");
}

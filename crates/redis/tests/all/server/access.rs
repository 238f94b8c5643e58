//! Passwords, permissions and certificates.

use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tidegate_core::{Limit, LogQuota, Nanos, WindowQuota};
use tidegate_redis::{
    BucketEntry, BucketKey, BurstCall, BurstCallEntry, CallVerb, Link, LinkError, PenaltyListCall,
    PenaltyListEntry, PenaltyListOperation, RedisClient, RedisClientError, RedisClientOptions,
};

use super::calls::{bucket, call, connect, entry, heartbeat, take};
use super::process::{Redis, free_port};

/// All permissions that Tidegate needs: these commands, on its own keys.
pub(crate) const PERMISSIONS: &str = "resetkeys ~tidegate:1:* resetchannels -@all +eval +evalsha +time +mget +set +del \
                           +pexpire +lindex +llen +lpush +lrange +lset +ltrim +rpop +rpush +zadd +zcard +zrange \
                           +zrem +zremrangebyscore +zscore +ping";

/// What nodes need in addition to wake each other.
pub(crate) const WAKE_UPS: &str = "&tidegate:1:wake +publish +subscribe";

/// What it needs in addition on the nodes of a Cluster.
pub(crate) const IN_A_CLUSTER: &str = "+cluster|slots +asking";

async fn guarded() -> Redis {
    let redis = Redis::start();
    permit(&redis, ">s3cret:@/", PERMISSIONS);
    assert_eq!(redis.cli(&["ACL", "SETUSER", "default", "off"]), "OK");
    redis
}

/// Makes a user `tidegate`.
pub(crate) fn permit(redis: &Redis, password: &str, permissions: &str) {
    let mut rule = vec!["ACL", "SETUSER", "tidegate", "reset", "on", password];
    rule.extend(permissions.split_ascii_whitespace());
    assert_eq!(redis.cli(&rule), "OK");
}

fn one_of_each() -> Vec<BucketEntry> {
    let minute = Nanos::from_secs(60);
    let window = || WindowQuota::new(10, minute).expect("a quota");
    let log = LogQuota::new(10, minute).expect("a quota");
    vec![
        bucket("a"),
        entry("tidegate:1:{a}:s", Limit::sliding_window(window())),
        entry("tidegate:1:{a}:f", Limit::fixed_window(window())),
        entry("tidegate:1:{a}:l", Limit::sliding_log(log)),
    ]
}

#[tokio::test]
async fn few_permissions_suffice_for_everything() {
    let redis = guarded().await;
    let server = connect(&format!("redis://tidegate:s3cret%3A%40%2F@127.0.0.1:{}", redis.port));
    assert_eq!(server.heartbeat(&heartbeat(7, true, 3)).await, Ok(1));
    for limited in one_of_each() {
        for verb in [CallVerb::Take, CallVerb::Take, CallVerb::Take, CallVerb::Peek, CallVerb::Refund] {
            server.call(&call(verb, limited.clone())).await.expect("that is permitted");
        }
        let taken = server.call(&call(CallVerb::Take, limited.clone())).await.expect("that is permitted");
        let back = BucketEntry { charged_at: taken.at, ..limited.clone() };
        server.call(&call(CallVerb::HandBack, back)).await.expect("that is permitted");
        let later = BucketEntry { delay: Nanos::from_secs(1), ..limited };
        server.call(&call(CallVerb::Take, later)).await.expect("that is permitted");
    }
    let counted = BurstCallEntry {
        key: BucketKey("tidegate:1:{a}:d".into()),
        window: Nanos::SECOND,
        threshold: 1,
        penalty: Nanos::MINUTE,
        lifts: false,
        counts: [(Nanos::ZERO, 2)].into_iter().collect(),
    };
    let counted = BurstCall { entries: [counted].into_iter().collect(), at: None };
    server.count_bursts(&counted).await.expect("that is permitted");
    let entry_of = |id| PenaltyListEntry { id, lasts: Nanos::MINUTE, text: vec![0] };
    for operation in [
        PenaltyListOperation::Add { most: 10, entries: vec![entry_of(1), entry_of(2)] },
        PenaltyListOperation::Remove(1),
        PenaltyListOperation::Page { after: None, most: 10 },
    ] {
        let key = BucketKey("tidegate:1:{penalties}".into());
        let list = PenaltyListCall { key, operation, at: None };
        server.list_penalties(&list).await.expect("that is permitted");
    }
    assert_eq!(server.heartbeat(&heartbeat(7, false, 3)).await, Ok(0));

    let foreign = entry("other:1:{a}:b", bucket("a").limit);
    match server.call(&call(CallVerb::Take, foreign)).await {
        Err(LinkError::Refused(why)) => assert!(why.starts_with("NOPERM "), "{why}"),
        other => panic!("those are the keys of others: {other:?}"),
    }
}

#[tokio::test]
async fn without_the_password_it_says_what_is_missing_and_never_what_was_tried() {
    let redis = guarded().await;
    for (login, said) in [("", "NOAUTH"), ("tidegate:hunter2@", "WRONGPASS"), (":hunter2@", "WRONGPASS")] {
        let server = connect(&format!("redis://{login}127.0.0.1:{}", redis.port));
        match server.heartbeat(&heartbeat(1, true, 3)).await {
            Err(LinkError::Down(why)) => assert!(why.contains(said), "{login}: {why}"),
            other => panic!("{login}: {other:?}"),
        }
        let error = take(&server, "a").await.expect_err("nobody let us in");
        assert!(!format!("{error} {error:?} {server:?}").contains("hunter2"), "{error:?}");
    }
}

/// A certificate authority, and a server with a certificate of it.
async fn secret() -> (Redis, u16, std::path::PathBuf) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority =
        CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority");
    let key = KeyPair::generate().expect("a key");
    let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
    let params = CertificateParams::new(names).expect("good names");
    let certificate = params.signed_by(&key, &authority).expect("a certificate");

    let dir = std::env::temp_dir().join(format!("tidegate-tls-{}-{}", std::process::id(), free_port()));
    std::fs::create_dir_all(&dir).expect("a directory for temporary files");
    let write = |name: &str, text: String| {
        let file = dir.join(name);
        std::fs::write(&file, text).expect("a file in a new directory");
        file.display().to_string()
    };
    let (ca, cert) = (write("ca.pem", authority.pem()), write("cert.pem", certificate.pem()));
    let key = write("key.pem", key.serialize_pem());
    let port = free_port();
    let redis = Redis::start_with(&[
        "--tls-port",
        &port.to_string(),
        "--tls-cert-file",
        &cert,
        "--tls-key-file",
        &key,
        "--tls-ca-cert-file",
        &ca,
        "--tls-auth-clients",
        "no",
    ]);
    (redis, port, dir)
}

fn secure(url: String, ca: Option<std::path::PathBuf>) -> RedisClient {
    let deadline = Duration::from_secs(5);
    RedisClient::connect(RedisClientOptions { deadline, ca, ..RedisClientOptions::new(url) })
        .expect("good options")
}

#[tokio::test]
async fn a_private_authority_is_believed_only_where_it_is_named() {
    let (_redis, port, dir) = secret().await;
    let ca = dir.join("ca.pem");
    for host in ["127.0.0.1", "localhost"] {
        let server = secure(format!("rediss://{host}:{port}"), Some(ca.clone()));
        assert_eq!(server.heartbeat(&heartbeat(1, true, 3)).await, Ok(1), "{host}");
        take(&server, "a").await.expect("it is the server that it says");
    }
    // The certificate is for another name of the same machine.
    let server = secure(format!("rediss://127.0.0.2:{port}"), Some(ca));
    assert!(matches!(server.heartbeat(&heartbeat(1, true, 3)).await, Err(LinkError::Down(_))));

    let bundled = std::fs::exists("/etc/ssl/certs/ca-certificates.crt").expect("it can be asked");
    if bundled {
        let stranger = secure(format!("rediss://127.0.0.1:{port}"), None);
        match stranger.heartbeat(&heartbeat(1, true, 3)).await {
            Err(LinkError::Down(why)) => assert!(why.contains("certificate"), "{why}"),
            other => panic!("nobody vouches for it: {other:?}"),
        }
    }
    std::fs::remove_dir_all(dir).expect("it was made above");
}

#[tokio::test]
async fn a_file_of_certificates_that_has_none_is_refused() {
    let options = |file: &str| RedisClientOptions {
        ca: Some(file.into()),
        ..RedisClientOptions::new("rediss://localhost")
    };
    let missing = RedisClient::connect(options("/nowhere/ca.pem")).expect_err("there is no such file");
    assert!(matches!(missing, RedisClientError::Authority { .. }), "{missing}");
    let empty = RedisClient::connect(options("/dev/null")).expect_err("there is nothing in it");
    assert_eq!(
        empty.to_string(),
        "/dev/null: it contains no certificate; name a readable file with certificates in PEM form"
    );
}

#[test]
fn without_a_runtime_there_is_no_connection() {
    let error =
        RedisClient::connect(RedisClientOptions::new("redis://localhost")).expect_err("there is no runtime");
    assert_eq!(error, RedisClientError::NoRuntime);
}

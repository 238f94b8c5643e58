//! Many writers at once, and requests that are repeated.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tidegate_database::DatabaseKind;

use super::place::on_both;
use super::policy_client::{Api, PolicyServer};
use super::{limit, names};

on_both!(every_acknowledged_write_is_in_the_document_exactly_once, a_repeated_post_is_done_once);

const WRITERS: usize = 10;
const EDITS: usize = 8;

/// Creates a limit, reading the version first, until it is acknowledged.
fn create_carefully(api: &Api, name: &str, refused: &AtomicUsize) {
    loop {
        let version = api.get("/policy").header("etag").expect("a version").to_owned();
        let body = limit(name, 1).to_string();
        let answer = api.ask(
            "POST",
            "/limits",
            &["Content-Type: application/json", &format!("If-Match: {version}")],
            &body,
        );
        match answer.status {
            201 => return,
            412 => refused.fetch_add(1, Ordering::Relaxed),
            _ => panic!("{answer:?}"),
        };
    }
}

fn every_acknowledged_write_is_in_the_document_exactly_once(kind: DatabaseKind) {
    let controlled = PolicyServer::with_policy(kind, "version: 1 # kept\nlimits: []\n");
    let (api, refused) = (controlled.api, AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let refused = &refused;
            scope.spawn(move || {
                for edit in 0..EDITS {
                    let name = format!("w{writer}-{edit}");
                    match edit % 2 {
                        0 => create_carefully(&api, &name, refused),
                        _ => drop(api.post("/limits", &limit(&name, 1)).expect(201)),
                    }
                    if edit == 3 {
                        api.delete(&format!("/limits/w{writer}-1")).expect(200);
                    }
                    if edit == 5 {
                        let rate = json!({ "sustained": { "rate": writer + 2 } });
                        api.patch(&format!("/limits/w{writer}-2"), &rate).expect(200);
                    }
                }
            });
        }
    });
    let mut found = names(&api.read("/limits?limit=1000"), "name");
    found.sort();
    let mut expected: Vec<String> = (0..WRITERS)
        .flat_map(|writer| (0..EDITS).filter(|edit| *edit != 1).map(move |edit| format!("w{writer}-{edit}")))
        .collect();
    expected.sort();
    assert_eq!(found, expected);
    for writer in 0..WRITERS {
        assert_eq!(api.read(&format!("/limits/w{writer}-2"))["sustained"]["rate"], writer + 2);
    }
    assert!(api.policy().starts_with("version: 1 # kept\n"));
    // Each acknowledged write is a version of its own, and no refused one is.
    let writes = WRITERS * (EDITS + 2);
    let newest = api.read("/versions?limit=1")["items"][0]["version"].as_u64();
    assert_eq!(newest, Some(2 + writes as u64));
}

fn a_repeated_post_is_done_once(kind: DatabaseKind) {
    let controlled = PolicyServer::with_policy(kind, "version: 1\nlimits: []\n");
    let api = controlled.api;
    let create = |key: &str, body: &serde_json::Value| {
        let key = format!("Idempotency-Key: {key}");
        api.ask("POST", "/allow", &["Content-Type: application/json", &key], &body.to_string())
    };
    let replies: Vec<_> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..WRITERS)
            .map(|_| scope.spawn(|| create("k-1", &json!({ "user": "42" })).expect(201)))
            .collect();
        asked.into_iter().map(|asked| asked.join().expect("it is answered")).collect()
    });
    for reply in &replies {
        assert_eq!(reply.json(), replies[0].json());
        assert_eq!(reply.header("location"), replies[0].header("location"));
        assert_eq!(reply.version(), 3);
    }
    assert_eq!(api.read("/allow")["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(create("k-1", &json!({ "user": "43" })).status, 409, "the key stands for another request");
    assert_eq!(create("k-2", &json!({ "user": "42" })).expect(201).version(), 4);
    assert_eq!(create("", &json!({ "user": "42" })).status, 400);
    assert_eq!(create(&"k".repeat(256), &json!({ "user": "42" })).status, 400);
}

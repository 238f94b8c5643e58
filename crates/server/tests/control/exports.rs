//! What scripts read: lists as tables and lines, all pages of them, and exit codes.

use serde_json::{Value, json};
use tidegate_database::DatabaseKind;

use super::place::{Place, on_both};
use super::policy_client::PolicyServer;
use super::{on_database, record_violations};
use crate::support::server::{Ran, run, tidegate};

fn admin(server: &PolicyServer, args: &[&str]) -> Ran {
    let address = server.server.socket("admin");
    let text = format!("server: http://{address}\ntoken: {}\n", server.api.token());
    let file = server.place.home.write("connection.yaml", &text);
    run(tidegate(&[&["admin"], args, &["--connection", &file]].concat()))
}

on_both!(all_pages_of_a_list_are_one_table);

fn all_pages_of_a_list_are_one_table(kind: DatabaseKind) {
    let server = PolicyServer::start(kind);
    let empty = admin(&server, &["violations", "--all", "--format", "csv"]);
    let head = empty.out.clone();
    assert!(head.starts_with("actor,client,count,") && head.lines().count() == 1, "{head}");
    on_database(&server.place.url, async |database| {
        // Each has other members than the one before.
        let violation = |number: u64| tidegate_database::Violation {
            event: "rate_limit_exceeded".into(),
            user_id: number.is_multiple_of(2).then(|| "42".to_owned()),
            endpoint: number.is_multiple_of(3).then(|| "/a".to_owned()),
            requested_at: tidegate_database::UnixMillis::new(1_700_000_000_000 + number.cast_signed()),
            count: 1,
            ..Default::default()
        };
        record_violations(database, (0..7).map(violation).collect()).await;
    });
    let whole = admin(&server, &["violations", "list", "--all", "--limit", "2", "--format", "csv"]);
    assert_eq!((whole.code, whole.out.lines().count()), (Some(0), 8), "{}", whole.out);
    assert!(whole.out.starts_with(&head), "{}", whole.out);
    assert_eq!(whole.out.matches("actor,").count(), 1, "one line with the columns");
    let of_one =
        admin(&server, &["violations", "--user", "42", "--all", "--limit", "3", "--format", "lines"]);
    assert_eq!(of_one.out.lines().count(), 4, "the filter is kept on every page: {}", of_one.out);
    let cut = admin(&server, &["violations", "--limit", "2", "--format", "csv"]);
    assert_eq!(cut.out.lines().count(), 3);
    assert!(cut.err.contains("there are more: use --all"), "{}", cut.err);
    // The link leads to the next page of the same list.
    let page = server.api.get("/violations?user=42&limit=3").expect(200);
    let link = page.header("link").expect("there is more");
    let query = link.strip_prefix('<').and_then(|link| link.split_once('>')).expect("a link").0;
    let next = server.api.read(&format!("/violations{query}"));
    assert_eq!((next["items"].as_array().map(Vec::len), &next["next"]), (Some(1), &Value::Null));
}

#[test]
fn an_invalid_document_has_its_own_exit_code() {
    let server = PolicyServer::start(DatabaseKind::Sqlite);
    let bad = server
        .place
        .home
        .write("bad.yaml", "version: 1\nlimits:\n- { name: a, key: [user], sustained: { rate: 0 } }\n");
    for verb in [&["policy", "replace", &bad][..], &["validate", &bad]] {
        let ran = admin(&server, verb);
        assert_eq!(ran.code, Some(2), "{verb:?}: {}{}", ran.out, ran.err);
        let place = format!("{bad}:3:");
        assert!(
            ran.err.contains(&place) && ran.err.contains("error: limits[0].sustained.rate: "),
            "{}",
            ran.err
        );
        assert!(ran.err.contains("    want: "), "{}", ran.err);
    }
    assert_eq!(admin(&server, &["versions", "get", "99"]).code, Some(1));
}

#[test]
fn a_policy_is_called_what_it_is_and_has_its_own_numbers() {
    let place = Place::new(DatabaseKind::Sqlite);
    let settings = place.home.write("settings.yaml", "store: { nodes: 4 }\n");
    let server = PolicyServer::start_in(place, &["--config", &settings]);
    let api = &server.api;
    let flow = "{ version: 1, limits: [], tenants: [ { id: t, rate_limit: { sustained: { rate: 400 }, burst: { capacity: 800 } } } ] } # YAML\n";
    api.ask("PUT", "/policy", &["Content-Type: application/yaml"], flow).expect(200);
    let written = api.get("/policy").expect(200);
    assert_eq!((written.header("content-type"), written.body.as_str()), (Some("application/yaml"), flow));
    let converted = api.ask("GET", "/policy", &["Accept: application/json"], "").expect(200);
    assert_eq!(converted.json()["tenants"][0]["id"], "t");
    let refused = api.ask("PUT", "/policy", &["Content-Type: application/json"], flow);
    assert_eq!(refused.status, 422, "it is not JSON");
    // Each of the four nodes has a fourth of the bucket.
    let numbers = api.read("/tenants/t/effective");
    assert_eq!(numbers["limits"][0]["own"], json!({ "rate": 400, "window_ms": 1000, "burst": 800 }));
    assert_eq!(numbers["buckets"][0]["limit"], 200);
}

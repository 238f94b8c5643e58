//! Tokens: created, listed, used and revoked, by the API and by the command.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_database::DatabaseKind;

use super::client::{Controlled, ask};
use crate::control::place::{Place, on_both};
use crate::support::home::Home;
use crate::support::server::{Server, run, tidegate};
use crate::support::within;

on_both!(
    a_token_is_shown_once_used_and_revoked,
    a_token_is_never_kept_to_be_told_again,
    the_last_admin_stays,
    an_admin_of_a_tenant_stays_within_its_subtree,
    mistakes_are_named,
    the_command_makes_a_token_while_the_server_runs,
    of_ten_nodes_that_start_at_once_one_prints_the_first_token,
    a_token_that_one_node_revokes_is_refused_by_another
);

fn ids(reply: &Value) -> Vec<&str> {
    reply["items"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|item| item["id"].as_str().expect("a name"))
        .collect()
}

fn a_token_is_shown_once_used_and_revoked(kind: DatabaseKind) {
    let server = Controlled::start(kind);
    let wanted =
        json!({ "role": "editor", "tenant": "acme", "expires": "2100-01-01T00:00:00Z", "description": "ci" });
    let created = server.call(&server.admin, "POST", "/tokens", Some(wanted));
    assert_eq!(created.status, 201, "{created:?}");
    let shown = created.json();
    let (id, token) = (shown["id"].as_str().unwrap(), shown["token"].as_str().unwrap());
    assert!(token.starts_with("tga_") && token.len() == 47, "256 random bits");
    assert_eq!(created.header("location"), Some(format!("/api/v1/tokens/{id}").as_str()));
    let who = server.call(token, "GET", "/whoami", None).json();
    let expected = json!({
        "actor": format!("token:{id}"), "role": "editor", "tenant": "acme", "expires": "2100-01-01T00:00:00.000Z",
    });
    assert_eq!(who, expected);
    let listed = server.call(&server.admin, "GET", "/tokens", None);
    assert!(!listed.body.contains(token), "never again");
    assert_eq!(ids(&listed.json()).len(), 2);
    assert_eq!(listed.json()["items"][0]["description"], "ci");
    assert_eq!(ids(&server.call(&server.admin, "GET", "/tokens?q=ci", None).json()), [id]);
    within(Duration::from_secs(20), "its use is written down", || {
        let listed = server.call(&server.admin, "GET", "/tokens?q=ci", None).json();
        listed["items"][0]["last_used"].is_string()
    });

    let revoked = server.call(&server.admin, "DELETE", &format!("/tokens/{id}"), None);
    assert_eq!((revoked.status, &revoked.json()["id"]), (200, &json!(id)));
    within(Duration::from_secs(20), "it is refused", || {
        server.call(token, "GET", "/whoami", None).status == 401
    });
    assert_eq!(server.call(&server.admin, "DELETE", &format!("/tokens/{id}"), None).status, 404);
}

fn a_token_is_never_kept_to_be_told_again(kind: DatabaseKind) {
    let server = Controlled::start(kind);
    let bearer = format!("Bearer {}", server.admin);
    let create = || {
        let headers = [
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/json"),
            ("Idempotency-Key", "made-once"),
        ];
        ask(server.address(), "POST", "/api/v1/tokens", &headers, "{\"role\":\"viewer\"}")
    };
    let token = create().expect(201).json()["token"].as_str().expect("a token").to_owned();
    let again = create().expect(409);
    assert!(!again.body.contains(&token), "the key does not bring it back");
    let Controlled { server, place, .. } = server;
    server.signal(rustix::process::Signal::TERM);
    server.ended();
    for file in std::fs::read_dir(place.home.path("data")).expect("it is there") {
        let path = file.expect("it can be read").path();
        let bytes = std::fs::read(&path).expect("it can be read");
        let has = bytes.windows(token.len()).any(|part| part == token.as_bytes());
        assert!(!has, "the token is in {}", path.display());
    }
}

fn the_last_admin_stays(kind: DatabaseKind) {
    let server = Controlled::start(kind);
    let mine = server.call(&server.admin, "GET", "/tokens", None).json();
    let mine = format!("/tokens/{}", ids(&mine)[0]);
    server.token("admin", Some("acme"));
    let refused = server.call(&server.admin, "DELETE", &mine, None);
    assert_eq!(refused.status, 409, "{refused:?}");
    let (_, second) = server.token("admin", None);
    assert_eq!(server.call(&second, "DELETE", &mine, None).status, 200);
}

fn an_admin_of_a_tenant_stays_within_its_subtree(kind: DatabaseKind) {
    let server = Controlled::start(kind);
    let (own, token) = server.token("admin", Some("acme"));
    let (inside, _) = server.token("viewer", Some("shop"));
    let (outside, _) = server.token("viewer", Some("other"));
    let listed = server.call(&token, "GET", "/tokens", None).json();
    assert_eq!(ids(&listed), [inside.as_str(), own.as_str()]);
    let create = |tenant: Value| {
        server.call(&token, "POST", "/tokens", Some(json!({ "role": "viewer", "tenant": tenant })))
    };
    assert_eq!(create(json!("shop")).status, 201);
    assert_eq!(create(json!("other")).status, 404);
    assert_eq!(create(json!("nobody")).body, create(json!("nobody")).body.replace("other", "nobody"));
    assert_eq!(create(Value::Null).status, 403, "never unrestricted");
    assert_eq!(server.call(&token, "DELETE", &format!("/tokens/{outside}"), None).status, 404);
    assert_eq!(server.call(&token, "DELETE", &format!("/tokens/{inside}"), None).status, 200);
}

fn mistakes_are_named(kind: DatabaseKind) {
    let server = Controlled::start(kind);
    for (wanted, status, pointer) in [
        (json!({ "role": "root" }), 422, "/role"),
        (json!({ "role": "viewer", "expires": "2001-01-01T00:00:00Z" }), 422, "/expires"),
        (json!({ "role": "viewer", "expires": "tomorrow" }), 422, "/expires"),
        (json!({ "role": "viewer", "description": "x".repeat(1_025) }), 422, "/description"),
        (json!({ "role": "viewer", "tenants": "acme" }), 400, ""),
        (json!({ "role": 7 }), 400, "/role"),
    ] {
        let refused = server.call(&server.admin, "POST", "/tokens", Some(wanted.clone()));
        assert_eq!(refused.status, status, "{wanted}: {refused:?}");
        if !pointer.is_empty() {
            assert_eq!(refused.json()["pointer"], pointer, "{wanted}");
        }
    }
}

#[test]
fn without_a_database_there_is_one_token_for_each_start() {
    let server = Server::start(&[]);
    let token = server.printed("admin token").split_whitespace().last().unwrap().to_owned();
    let bearer = format!("Bearer {token}");
    let ask =
        |path: &str| ask(server.socket("admin"), "GET", path, &[("Authorization", bearer.as_str())], "");
    assert_eq!(ask("/api/v1/whoami").json()["role"], "admin");
    let refused = ask("/api/v1/tokens");
    assert_eq!(refused.status, 409);
    assert!(refused.body.contains("--data DIR"), "{}", refused.body);
}

fn the_command_makes_a_token_while_the_server_runs(kind: DatabaseKind) {
    let server = Controlled::start(kind);
    let args = ["token", "create", "--role", "operator", "--tenant", "acme", "--expires", "30d"];
    let made = server.place.run(&[&args[..], &["--description", "by hand"]].concat());
    assert_eq!(made.code, Some(0), "{}", made.err);
    let token = made.out.strip_suffix('\n').expect("a line");
    assert!(token.starts_with("tga_") && token.len() == 47, "the token alone: {token}");
    assert!(!made.err.contains(token) && made.err.contains("shown only this once"), "{}", made.err);
    let who = server.call(token, "GET", "/whoami", None).json();
    assert_eq!((&who["role"], &who["tenant"]), (&json!("operator"), &json!("acme")));
    let listed = server.call(&server.admin, "GET", "/tokens?q=by+hand", None).json();
    assert_eq!(listed["items"][0]["created_by"], "command line");
}

#[test]
fn the_command_says_what_is_missing() {
    let home = Home::new();
    let settings = home.write("settings.yaml", "database: { url: \"sqlite:t.db\" }\n");
    let made = run(tidegate(&["token", "create", "--role", "admin", "--config", &settings]));
    assert_eq!((made.code, made.out.len()), (Some(0), 48), "{}", made.err);
    assert!(home.path("t.db").exists());
    for (args, expected) in [
        (&["--role", "admin"][..], "--data DIR"),
        (&["--role", "root", "--data", "x"], "admin"),
        (&["--role", "admin", "--data", "x", "--expires", "never"], "--expires"),
        (&["--data", "x"], "--role"),
    ] {
        let refused = run(tidegate(&[&["token", "create"], args].concat()));
        assert_eq!((refused.code, refused.out.as_str()), (Some(2), ""), "{args:?}: {}", refused.err);
        assert!(refused.err.contains(expected), "{args:?}: {}", refused.err);
    }
    // With a token there, the first start prints none.
    let server = Server::start(&["--config", &settings]);
    assert!(!server.banner.contains("tga_"), "{}", server.banner);
}

fn of_ten_nodes_that_start_at_once_one_prints_the_first_token(kind: DatabaseKind) {
    let place = Place::new(kind);
    let printed: Vec<String> = std::thread::scope(|scope| {
        let start = || scope.spawn(|| place.start(&[]).all_printed());
        let starting: Vec<_> = (0..10).map(|_| start()).collect();
        starting.into_iter().map(|node| node.join().expect("it starts")).collect()
    });
    assert_eq!(
        printed.iter().map(|printed| printed.matches("tga_").count()).sum::<usize>(),
        1,
        "{printed:?}"
    );
}

fn a_token_that_one_node_revokes_is_refused_by_another(kind: DatabaseKind) {
    let server = Controlled::start(kind);
    let other = server.place.start(&[]);
    let (id, token) = server.token("viewer", None);
    let bearer = format!("Bearer {token}");
    let there = || {
        let headers = [("Authorization", bearer.as_str())];
        ask(other.socket("admin"), "GET", "/api/v1/whoami", &headers, "").status
    };
    assert_eq!(there(), 200);
    assert_eq!(server.call(&server.admin, "DELETE", &format!("/tokens/{id}"), None).status, 200);
    within(Duration::from_secs(20), "the other node refuses it", || there() == 401);
}

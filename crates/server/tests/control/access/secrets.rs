//! Secrets are shown once, and are nowhere after that: neither in the log, nor in the database, nor in later answers.

use serde_json::json;
use tidegate_database::DatabaseKind;

use super::client::{Controlled, ask};
use crate::control::place::Place;

#[test]
fn nothing_that_was_secret_is_kept_or_told() {
    let place = Place::new(DatabaseKind::Sqlite);
    place.home.write("keys.yaml", "keys: []\n");
    let settings = "events: { file: events.jsonl }\napi_keys: { file: keys.yaml, unknown: deny }\n";
    let server = Controlled::start_in(place, settings);
    let (id, token) = server.token("admin", None);
    let headers = [("Content-Type", "application/json"), ("Sec-Fetch-Site", "same-origin")];
    let login =
        ask(server.address(), "POST", "/console/login", &headers, &json!({ "token": token }).to_string());
    let cookie =
        login.header("set-cookie").expect("a cookie").split(['=', ';']).nth(1).expect("its value").to_owned();
    let wrong = "tga_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG".to_owned();
    let key = "tgk_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG".to_owned();
    let (admin, data) = (server.admin.clone(), server.place.home.path("data"));
    let secrets =
        [("admin", &admin), ("token", &token), ("cookie", &cookie), ("wrong", &wrong), ("key", &key)];

    let mut told = String::new();
    for (token, method, path) in [
        (&wrong, "GET", "/whoami".to_owned()),
        (&token, "GET", "/whoami".to_owned()),
        (&admin, "GET", "/tokens".to_owned()),
        (&admin, "GET", format!("/tokens?q={token}")),
        (&admin, "GET", format!("/{token}")),
        (&admin, "DELETE", format!("/tokens/{id}")),
        (&token, "GET", "/whoami".to_owned()),
    ] {
        let reply = server.call(token, method, &path, None);
        told.push_str(&reply.head);
        told.push_str(&reply.body);
    }
    let keyed = ask(server.server.socket("http"), "GET", "/v1/forward-auth", &[("X-Api-Key", &key)], "");
    told.push_str(&keyed.body);
    told.push_str(&ask(server.address(), "GET", "/metrics", &[], "").body);
    let Controlled { server, place, .. } = server;
    told.push_str(&server.stopped());
    told.push_str(&std::fs::read_to_string(place.home.path("events.jsonl")).unwrap_or_default());
    for (name, secret) in secrets {
        assert!(!told.contains(secret.as_str()), "{name} was told");
        for entry in std::fs::read_dir(&data).expect("it is there") {
            let path = entry.expect("it can be read").path();
            let bytes = std::fs::read(&path).expect("it can be read");
            let has = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
            assert!(!has, "{name} is in {}", path.display());
        }
    }
}

//! What answers do not show: values that may be secrets to those who may not edit, and anything of other tenants to tokens
//! that are restricted to one. Every GET of the OpenAPI document is asked, so that a new route is checked too.

use std::collections::BTreeSet;

use rustix::process::Signal;
use serde_json::{Value, json};
use tidegate_database::DatabaseKind;

use super::client::{ApiReply, ask};
use crate::control::place::{Place, on_both};
use crate::http::client::Client;
use crate::support::server::Server;

on_both!(secrets_and_other_tenants_are_in_no_answer);

/// All values of headers, queries and claims begin with `zqsecret`, and everything of tenants that are not below `acme`
/// has `zqother` in it or is this address.
const POLICY: &str = r#"
version: 1
adaptive: { trust: true }
limits:
- { name: per-user, key: [user], missing: skip, sustained: { rate: 1, window: hour }, burst: { capacity: 2 } }
- { match: { "header:x-plan": zqsecret-plan-1 }, name: keyless, sustained: { rate: 1000 } }
- { name: by-key, key: ["header:x-api-key"], missing: skip, sustained: { rate: 1, window: hour } }
- name: of-shop
  key: [user]
  missing: skip
  match: { tenant: shop, "header:x-plan": [zqsecret-plan-2, zqsecret-plan-3] }
  unless: { "query:token": [zqsecret-token-1, 'zqsecret-token-2'] } # not these
  sustained: { rate: 1, window: hour }
- { name: of-both, key: [tenant], match: { tenant: [shop, zqother] }, sustained: { rate: 1000 } }
- { name: of-users, key: [tenant], missing: skip, match: { user: [vip, zqother-user] }, sustained: { rate: 1000 } }
- { name: zqother-limit, key: [user], missing: skip, match: { tenant: zqother }, sustained: { rate: 1, window: hour } }
routes:
- { id: keyed, path: /keyed, cost: 1, unless: { "header:x-free": zqsecret-free-1 } }
upstreams: [{ name: billing }]
allow:
- { id: mine, "header:x-api-key": zqsecret-key-1, tenant: shop }
- { id: theirs, "jwt:sub": [zqsecret-sub-1, zqsecret-sub-2], tenant: zqother, user: zqother-user }
- { id: shared, tenant: [shop, zqother], user: [vip, zqother-user] }
- { id: everywhere, user: [admin, zqother-admin], ip: [192.0.2.0/24, 203.0.113.66] }
- { "header:x-api-key": zqsecret-key-2, until: 2020-01-01T00:00:00Z }
block:
- { id: them, tenant: zqother, user: zqother-bad }
- { id: key, "query:key": zqsecret-key-3 }
bursts:
- { name: storm, key: ["header:x-api-key"], window: 1s, threshold: 2 }
- { name: zqother-storm, key: [user], window: 1s, threshold: 876543 }
tenants:
- { id: group }
- { id: acme, parent: group, rate_limit: { sustained: { rate: 900 } } }
- { id: shop, parent: acme, rate_limit: { sustained: { rate: 300 } } }
- { id: zqother, parent: group, rate_limit: { sustained: { rate: 900 } } }
- { id: zqother-child, parent: zqother }
"#;
/// The address of somebody of another tenant.
const ADDRESS: &str = "203.0.113.66";
/// A fact about users, who are of no tenant.
const FACT: &str = "765432";
/// When overrides end that are for more than the subtree.
const UNTIL: &str = "2101-02-03";
/// The threshold of a burst detector.
const THRESHOLD: &str = "876543";
const ROLES: [&str; 4] = ["viewer", "operator", "editor", "admin"];
const FORMATS: [&str; 5] =
    ["*/*", "application/json", "application/yaml", "text/csv", "application/x-ndjson"];

/// A running server, and its admin token.
struct Watched {
    server: Server,
    admin: String,
}

impl Watched {
    fn ask(&self, token: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> ApiReply {
        let bearer = format!("Bearer {token}");
        let headers: Vec<(&str, &str)> =
            headers.iter().copied().chain([("Authorization", bearer.as_str())]).collect();
        ask(self.server.socket("admin"), method, &format!("/api/v1{path}"), &headers, body)
    }

    fn get(&self, token: &str, path: &str, accept: &str) -> ApiReply {
        self.ask(token, "GET", path, &[("Accept", accept)], "")
    }

    fn send(&self, method: &str, path: &str, media_type: &str, body: &str) -> ApiReply {
        let reply = self.ask(&self.admin, method, path, &[("Content-Type", media_type)], body);
        assert!(reply.status < 300, "{method} {path}: {reply:?}");
        reply
    }

    /// A new token.
    fn token(&self, role: &str, tenant: Option<&str>) -> String {
        let wanted = json!({ "role": role, "tenant": tenant, "description": tenant });
        let reply = self.send("POST", "/tokens", "application/json", &wanted.to_string());
        reply.json()["token"].as_str().expect("a token").to_owned()
    }

    /// The paths of all GETs, with every entry that an admin finds in the list above it, and the parameters that search.
    fn paths(&self) -> Vec<String> {
        let document = self.get(&self.admin, "/openapi.json", "*/*").json();
        let mut paths = Vec::new();
        for (path, operations) in document["paths"].as_object().expect("paths") {
            let Some(operation) = operations.get("get") else { continue };
            // A stream sends what `/overview` answers, and does not end.
            if operation["responses"]["200"]["content"].get("text/event-stream").is_some() {
                continue;
            }
            let path = path.strip_prefix("/api/v1").expect("all are below it");
            let found = self.filled(path);
            assert!(!found.is_empty(), "{path}: nothing to ask for");
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let is_searched = parameters.into_iter().any(|parameter| parameter["name"] == "q");
            paths.extend(found.iter().filter(|_| is_searched).map(|path| format!("{path}?limit=1000")));
            paths.extend(found);
        }
        paths
    }

    /// A path with every value that its first `{…}` can have.
    fn filled(&self, path: &str) -> Vec<String> {
        let Some((list, rest)) = path.split_once("/{") else { return vec![path.to_owned()] };
        let (_, rest) = rest.split_once('}').expect("it is closed");
        if list == "/trust" {
            // Users are not listed: whoever asks names them.
            return vec!["/trust/someone".to_owned(), "/trust/zqother-someone".to_owned()];
        }
        // The second number of a comparison comes from the same list as the first.
        let list = list.split('/').take(2).collect::<Vec<_>>().join("/");
        let listed =
            self.get(&self.admin, &format!("{list}?limit=1000"), "application/json").expect(200).json();
        let name = |item: &Value| {
            let name = ["id", "name", "version"].iter().find_map(|field| item.get(*field));
            let name = name.unwrap_or_else(|| panic!("{list}: an entry without a name: {item}"));
            name.as_str().map_or_else(|| name.to_string(), str::to_owned)
        };
        let names: Vec<String> = listed["items"].as_array().expect("items").iter().map(name).collect();
        let (before, _) = path.split_once("/{").expect("it was found");
        names.iter().flat_map(|name| self.filled(&format!("{before}/{name}{rest}"))).collect()
    }
}

/// Fills the database: versions that differ in a secret, tokens, denials, blocks and penalties of several tenants.
fn filled_place(kind: DatabaseKind) -> (Place, String) {
    let place = Place::new(kind);
    let server = place.start(&[]);
    let admin = crate::control::admin_token(&server);
    let watched = Watched { server, admin };
    watched.send("PUT", "/policy", "application/yaml", POLICY);
    let patched = json!({ "header:x-api-key": "zqsecret-key-9" }).to_string();
    watched.send("PATCH", "/allow/mine", "application/merge-patch+json", &patched);
    // So that its report has keys and examples of users and of header values.
    let draft = POLICY.replace("capacity: 2", "capacity: 1");
    let draft = draft.replace(
        "missing: skip, sustained: { rate: 1, window: hour } }",
        "missing: skip, sustained: { rate: 1000 } }",
    );
    watched.send("POST", "/candidates", "application/yaml", &draft);
    let written =
        json!({ "id": "new", "header:x-api-key": ["zqsecret-key-7", "zqsecret-key-8"], "tenant": "shop" });
    watched.send("POST", "/allow", "application/json", &written.to_string());
    watched.send("DELETE", "/allow/new", "application/json", "");
    // As JSON too, which is masked in another way.
    let json = watched.get(&watched.admin, "/policy", "application/json").body;
    watched.send("PUT", "/policy", "application/json", &json);
    watched.token("viewer", Some("zqother"));
    for who in [
        json!({ "tenant": "shop", "header:x-api-key": "zqsecret-live" }),
        json!({ "tenant": "zqother", "user": "zqother-live", "jwt:sub": "zqsecret-sub-live" }),
    ] {
        let limit = format!("tenant:{}", who["tenant"].as_str().expect("a tenant"));
        let mut body = json!({ "who": who, "until": "2100-01-01T00:00:00Z" });
        watched.send("POST", "/keys/block", "application/json", &body.to_string());
        (body["limit"], body["multiplier"]) = (json!(limit), json!(1.5));
        watched.send("POST", "/overrides", "application/json", &body.to_string());
    }
    let headers = json!({ "x-api-key": "zqsecret-of-zqother", "x-plan": "zqsecret-plan-1" });
    let reset = json!({ "request": { "tenant": "zqother", "user": "zqother-someone", "headers": headers } });
    watched.send("POST", "/keys/reset", "application/json", &reset.to_string());
    let mut client = Client::connect(watched.server.socket("http"));
    for tenant in ["shop", "zqother"] {
        let theirs = tenant == "zqother";
        let (user, ip) = if theirs { ("zqother-someone", ADDRESS) } else { ("someone", "192.0.2.7") };
        for number in 0..6 {
            let path = format!("/keyed?token=zqsecret-token-{number}&key=zqsecret-sent");
            let keyed = json!({
                "tenant": tenant, "user": format!("{user}-{number}"), "ip": ip, "path": path,
                "headers": { "x-api-key": format!("zqsecret-of-{user}"), "x-plan": "zqsecret-plan-1" },
            });
            client.post("/v1/check", keyed.to_string());
            client.post("/v1/check", json!({ "tenant": tenant, "user": user, "ip": ip }).to_string());
        }
        let blocked = json!({ "tenant": tenant, "user": user, "ip": ip, "query": "key=zqsecret-key-3" });
        client.post("/v1/check", blocked.to_string());
    }
    client
        .post("/v1/check", json!({ "tenant": "zqother", "user": "zqother-bad", "ip": ADDRESS }).to_string());
    // Everything that happened is written when it stops.
    let Watched { server, admin } = watched;
    server.signal(Signal::TERM);
    assert_eq!(server.ended().code(), Some(0));
    (place, admin)
}

/// Tells facts about users that the questions name, and overrides limits for all tenants: `zqother` is in why.
fn tell_of_everybody(watched: &Watched) {
    for user in ["vip", "one"] {
        let facts = json!({ "success_rate": 0.765432 });
        watched.send("PUT", &format!("/trust/{user}"), "application/json", &facts.to_string());
    }
    for (limit, who) in [("per-user", json!({ "user": "one" })), ("tenant:shop", json!({ "user": "one" }))] {
        let wanted = json!({
            "limit": limit, "who": who, "multiplier": 1.5, "reason": "zqother-why", "until": "2101-02-03T00:00:00Z",
        });
        watched.send("POST", "/overrides", "application/json", &wanted.to_string());
    }
    // It is of the subtree, so why it is there is told.
    let own = json!({
        "limit": "of-both", "who": { "tenant": "shop" }, "multiplier": 1.5, "reason": "own-why",
        "until": "2100-01-01T00:00:00Z",
    });
    watched.send("POST", "/overrides", "application/json", &own.to_string());
}

/// Calls that only read, and have a body.
fn questions() -> Vec<(&'static str, Value)> {
    let requests = [
        json!({ "tenant": "shop", "user": "vip", "ip": "192.0.2.7" }),
        json!({ "tenant": "shop", "user": "admin", "ip": "192.0.2.7" }),
        json!({ "tenant": "shop", "user": "one", "path": "/keyed", "headers": { "x-plan": "other-plan" } }),
        json!({ "tenant": "acme" }),
    ];
    let explain = |request: &Value| ("/explain", json!({ "request": request }));
    let of_version = |request: &Value| ("/explain", json!({ "request": request, "version": 2 }));
    let trace = "{\"at_ms\":0,\"user\":\"vip\",\"tenant\":\"shop\"}\n";
    let simulate = [json!({ "trace": trace }), json!({ "trace": trace, "version": 2 })];
    let look_up = |request: &Value| ("/keys/lookup", json!({ "request": request }));
    let asked = requests.iter().map(explain).chain(requests.iter().map(of_version));
    let asked = asked.chain(requests.iter().map(look_up));
    asked.chain(simulate.into_iter().map(|body| ("/simulate", body))).collect()
}

/// What is hidden from a partner is there to be found, and the partner is told what it may see.
fn is_told_to_those_who_may_see(watched: &Watched, partner: &str) {
    let (path, body) = &questions()[2];
    let explained = |token: &str| {
        watched.ask(token, "POST", path, &[("Content-Type", "application/json")], &body.to_string())
    };
    for (token, words) in [
        (&*watched.admin, &["zqother-why", FACT, UNTIL, THRESHOLD, "own-why"][..]),
        (partner, &["own-why", "instead_of"][..]),
    ] {
        let reply = explained(token);
        let missing: Vec<_> = words.iter().filter(|word| !reply.body.contains(**word)).collect();
        assert!(missing.is_empty(), "{missing:?} are not in {}", reply.body);
    }
}

fn secrets_and_other_tenants_are_in_no_answer(kind: DatabaseKind) {
    let (place, admin) = filled_place(kind);
    let watched = Watched { server: place.start_with_settings("trust: {}\n"), admin };
    tell_of_everybody(&watched);
    let paths = watched.paths();
    let whole: Vec<(String, &[&str])> =
        ["viewer", "operator"].map(|role| (watched.token(role, None), &["zqsecret"][..])).into();
    let of_acme = ROLES.map(|role| {
        let hidden: &[&str] = if ROLES[..2].contains(&role) {
            &["zqother", ADDRESS, FACT, UNTIL, THRESHOLD, "zqsecret"]
        } else {
            // Who may edit sees the secrets of the subtree.
            &[
                "zqother",
                ADDRESS,
                FACT,
                UNTIL,
                THRESHOLD,
                "zqsecret-sub",
                "zqsecret-key-2",
                "zqsecret-plan-1",
                "zqsecret-of-zq",
            ]
        };
        (watched.token(role, Some("acme")), hidden)
    });
    let (mut wrong, mut shown) = (BTreeSet::new(), 0);
    let mut check = |what: String, reply: &ApiReply, hidden: &[&str]| {
        let (head, body) = (&reply.head, &reply.body);
        let seen = hidden.iter().filter(|word| head.contains(**word) || body.contains(**word));
        wrong.extend(seen.map(|word| format!("{word} is in the answer to {what}")));
        shown += usize::from(body.contains("zqse…#"));
    };
    for (number, (token, hidden)) in whole.iter().chain(&of_acme).enumerate() {
        for path in &paths {
            // Names of other tenants are in answers to those who ask for them by name: that there is no such entry.
            if hidden.iter().any(|word| path.contains(word)) {
                assert!([403, 404].contains(&watched.get(token, path, "*/*").status), "{path}");
                continue;
            }
            for format in FORMATS {
                check(
                    format!("GET {path} as {format} by {number}"),
                    &watched.get(token, path, format),
                    hidden,
                );
            }
        }
        for (path, body) in questions() {
            let headers = [("Content-Type", "application/json")];
            let reply = watched.ask(token, "POST", path, &headers, &body.to_string());
            check(format!("POST {path} {body} by {number}"), &reply, hidden);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.into_iter().collect::<Vec<_>>().join("\n"));
    assert!(shown > 20, "secrets are shown as a few characters and a hash");
    is_told_to_those_who_may_see(&watched, &of_acme[0].0);
    // An admin sees that all of it is there.
    for (path, word) in
        [("/policy", "zqsecret-token-2"), ("/events?limit=1000", "zqse…#"), ("/events?limit=1000", ADDRESS)]
    {
        let reply = watched.get(&watched.admin, path, "*/*");
        assert!(reply.body.contains(word), "{path}: {word} is not in {}", reply.body);
    }
    searches_tell_nothing(&watched, (&whole[0].0, "zqsecret"), &paths);
    searches_tell_nothing(&watched, (&of_acme[3].0, "zqother"), &paths);
}

/// A search tells nothing of what is hidden from whoever has the token.
fn searches_tell_nothing(watched: &Watched, (token, word): (&str, &str), paths: &[String]) {
    for path in paths.iter().filter(|path| path.ends_with("?limit=1000")) {
        let found = watched.get(token, &format!("{path}&q={word}"), "application/json");
        let is_empty = found.json()["items"].as_array().is_none_or(Vec::is_empty);
        assert!(is_empty, "{path}: {}", found.body);
    }
}

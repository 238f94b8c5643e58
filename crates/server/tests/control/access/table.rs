//! Every route × every role × inside and outside of its subtree × no token, as one table of expected answers.

use std::collections::BTreeSet;

use super::client::{Controlled, ask};

/// What a request sends.
#[derive(Clone, Copy)]
enum Sent {
    Nothing,
    Json(&'static str),
    Yaml(&'static str),
}

/// The statuses for viewer, operator, editor and admin.
type ByRole = [u16; 4];

struct Row {
    /// The method and the path, as in the OpenAPI document.
    route: &'static str,
    /// The path to ask for. `{tenant}` is a tenant and `{token}` a new token, inside or outside of the subtree.
    path: &'static str,
    /// The body, with the same places.
    sent: Sent,
    no_token: u16,
    /// For tokens without a tenant.
    whole: ByRole,
    /// For tokens of the tenant `acme` that ask for what is inside of its subtree.
    inside: ByRole,
    /// For the same that ask for what is outside.
    outside: ByRole,
}

const ROLES: [&str; 4] = ["viewer", "operator", "editor", "admin"];
/// Everybody gets this.
const fn all(status: u16) -> ByRole {
    [status; 4]
}
/// Admins get this, the others too little.
const fn admin(status: u16) -> ByRole {
    [403, 403, 403, status]
}

use Sent::{Json, Nothing, Yaml};

const POLICY: Sent = Yaml("version: 1\nlimits: []\n");
const TOKEN: Sent = Json("{\"role\":\"viewer\",\"tenant\":\"{tenant}\"}");

/// One line for each route.
#[rustfmt::skip]
fn table() -> Vec<Row> {
    let row = |route, path, sent, no_token, whole, inside, outside| {
        Row { route, path, sent, no_token, whole, inside, outside }
    };
    vec![
        //  route                   path                  body     no token  whole       inside      outside
        row("GET /openapi.json",    "/openapi.json",      Nothing, 200,      all(200),   all(200),   all(200)),
        row("GET /whoami",          "/whoami",            Nothing, 401,      all(200),   all(200),   all(200)),
        row("GET /policy",          "/policy",            Nothing, 401,      all(200),   all(403),   all(403)),
        row("POST /validate",       "/validate",          POLICY,  401,      all(200),   all(200),   all(200)),
        row("GET /schema",          "/schema",            Nothing, 401,      all(200),   all(200),   all(200)),
        row("GET /tokens",          "/tokens",            Nothing, 401,      admin(200), admin(200), admin(200)),
        row("POST /tokens",         "/tokens",            TOKEN,   401,      admin(201), admin(201), admin(404)),
        row("DELETE /tokens/{id}",  "/tokens/{token}",    Nothing, 401,      admin(200), admin(200), admin(404)),
    ]
}

/// Asks as one role, for what belongs to one tenant.
fn status(server: &Controlled, row: &Row, token: Option<&str>, tenant: &str) -> u16 {
    let needs_token = row.path.contains("{token}");
    let victim = if needs_token { server.token("viewer", Some(tenant)).0 } else { String::new() };
    let filled = |text: &str| text.replace("{tenant}", tenant).replace("{token}", &victim);
    let (method, _) = row.route.split_once(' ').expect("a method and a path");
    let (media_type, body) = match row.sent {
        Nothing => ("", String::new()),
        Json(body) => ("application/json", filled(body)),
        Yaml(body) => ("application/yaml", filled(body)),
    };
    let bearer = token.map(|token| format!("Bearer {token}"));
    let headers = [("Content-Type", media_type), ("Authorization", bearer.as_deref().unwrap_or_default())];
    let headers: Vec<_> = headers.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    ask(server.address(), method, &format!("/api/v1{}", filled(row.path)), &headers, &body).status
}

#[test]
fn every_route_answers_every_role_as_the_table_says() {
    let server = Controlled::start(&[]);
    let tokens = |tenant| ROLES.map(|role| server.token(role, tenant).1);
    let (whole, restricted) = (tokens(None), tokens(Some("acme")));
    let mut wrong = Vec::new();
    let mut check = |row: &Row, who: String, seen: u16, expected: u16| {
        if seen != expected {
            wrong.push(format!("{} by {who}: {seen}, not {expected}", row.route));
        }
    };
    for row in &table() {
        check(row, "nobody".to_owned(), status(&server, row, None, "shop"), row.no_token);
        for (index, role) in ROLES.iter().enumerate() {
            let ask = |token: &str, tenant| status(&server, row, Some(token), tenant);
            check(row, format!("{role}, shop"), ask(&whole[index], "shop"), row.whole[index]);
            check(row, format!("{role}, other"), ask(&whole[index], "other"), row.whole[index]);
            check(row, format!("{role} of acme, inside"), ask(&restricted[index], "shop"), row.inside[index]);
            check(
                row,
                format!("{role} of acme, outside"),
                ask(&restricted[index], "other"),
                row.outside[index],
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_route_has_a_row() {
    let server = Controlled::start(&[]);
    let document = ask(server.address(), "GET", "/api/v1/openapi.json", &[], "").json();
    let paths = document["paths"].as_object().expect("it has paths");
    let routes: BTreeSet<String> = paths
        .iter()
        .flat_map(|(path, operations)| {
            let path = path.strip_prefix("/api/v1").expect("all are below it");
            let methods = operations.as_object().expect("it has methods").keys();
            methods.map(move |method| format!("{} {path}", method.to_uppercase()))
        })
        .collect();
    let rows: BTreeSet<String> = table().iter().map(|row| row.route.to_owned()).collect();
    assert_eq!(rows, routes, "the table and the OpenAPI document have different routes");
}

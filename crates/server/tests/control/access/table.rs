//! Every route × every role × inside and outside of its subtree × no token, as one table of expected answers.

use std::collections::BTreeSet;

use tidegate_database::DatabaseKind;

use super::asked::{self, Asked};
use super::client::{Controlled, ask};
use crate::control::place::{Place, on_both};

/// What a request sends.
#[derive(Clone, Copy)]
enum Sent {
    Nothing,
    Json(&'static str),
    Yaml(&'static str),
    Patch(&'static str),
}

/// The statuses for viewer, operator, editor and admin.
type ByRole = [u16; 4];

#[derive(Clone, Copy)]
struct Row {
    /// The method and the path, as in the OpenAPI document.
    route: &'static str,
    /// The path to ask for. `{tenant}` is a tenant inside or outside of the subtree; `{token}`, `{live}`, `{override}`,
    /// `{penalty}`, `{candidate}`, `{child}` and the names of collections are new ones, of that tenant if they can be of one.
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
/// All but viewers get this, who have too little.
const fn operator(status: u16) -> ByRole {
    [403, status, status, status]
}
/// Editors and admins get this, the others too little.
const fn editor(status: u16) -> ByRole {
    [403, 403, status, status]
}
/// Admins get this, the others too little.
const fn admin(status: u16) -> ByRole {
    [403, 403, 403, status]
}

use Sent::{Json, Nothing, Patch, Yaml};

on_both!(every_route_answers_every_role_as_the_table_says);

const POLICY: Sent = Yaml("version: 1\nlimits: []\n");
/// Not valid, so that those who may write change nothing.
const WRONG: Sent = Yaml("version: 2\nlimits: []\n");
const EMPTY: Sent = Json("{}");
const SAME: Sent = Patch("{}");
const TRIAL: Sent = Json("{\"policy\":\"version: 1\\nlimits: []\\n\",\"trace\":\"\"}");
const ASKED: Sent = Json("{\"request\":{\"tenant\":\"{tenant}\"}}");
const WHO: Sent = Json(asked::WHO);
const GRANT: Sent =
    Json("{\"request\":{\"tenant\":\"{tenant}\"},\"limit\":\"tenant:{tenant}\",\"tokens\":1}");
const OTHER_NUMBERS: Sent = Json(asked::OTHER_NUMBERS);
const OFF: Sent = Json("{\"state\":\"off\"}");
const OUTCOMES: Sent = Json("{\"outcomes\":[{\"user\":\"42\",\"successes\":1}]}");
const FACTS: Sent = Json("{\"facts\":[{\"user\":\"42\",\"email_verified\":true}]}");
/// No collection has such entries, so that those who may write change nothing.
const NO_ENTRY: Sent = Json("{\"nope\":1}");
const NO_TENANT: Sent = Json("{\"parent\":\"acme\",\"nope\":1}");
const RULES: Sent = Yaml("rules: []\n");
const TOKEN: Sent = Json("{\"role\":\"viewer\",\"tenant\":\"{tenant}\"}");

fn row(
    route: &'static str,
    path: &'static str,
    sent: Sent,
    no_token: u16,
    whole: ByRole,
    inside: ByRole,
    outside: ByRole,
) -> Row {
    Row { route, path, sent, no_token, whole, inside, outside }
}

/// One line for each route.
fn table() -> Vec<Row> {
    [of_the_system(), of_collections(), of_entries_that_exist(), of_tenants_and_versions(), of_live_state()]
        .into_iter()
        .flatten()
        .collect()
}

#[rustfmt::skip]
fn of_the_system() -> Vec<Row> {
    vec![
        //  route                   path                  body     no token  whole       inside      outside
        row("GET /openapi.json",    "/openapi.json",      Nothing, 200,      all(200),   all(200),   all(200)),
        row("GET /whoami",          "/whoami",            Nothing, 401,      all(200),   all(200),   all(200)),
        row("GET /policy",          "/policy",            Nothing, 401,      all(200),   all(403),   all(403)),
        row("POST /validate",       "/validate",          POLICY,  401,      all(200),   all(200),   all(200)),
        row("GET /schema",          "/schema",            Nothing, 401,      all(200),   all(200),   all(200)),
        row("GET /overview",        "/overview",          Nothing, 401,      all(200),   all(200),   all(200)),
        row("GET /history",         "/history",           Nothing, 401,      all(200),   all(200),   all(200)),
        row("GET /hot-keys",        "/hot-keys",          Nothing, 401,      all(200),   all(200),   all(200)),
        row("GET /stream",          "/stream",            Nothing, 401,      all(200),   all(200),   all(200)),
        row("GET /tokens",          "/tokens",            Nothing, 401,      admin(200), admin(200), admin(200)),
        row("POST /tokens",         "/tokens",            TOKEN,   401,      admin(201), admin(201), admin(404)),
        row("DELETE /tokens/{id}",  "/tokens/{token}",    Nothing, 401,      admin(200), admin(200), admin(404)),
    ]
}

#[rustfmt::skip]
fn of_collections() -> Vec<Row> {
    vec![
        row("GET /limits", "/limits", Nothing, 401, all(200), all(200), all(200)),
        row("POST /limits", "/limits", EMPTY, 401, editor(422), editor(403), editor(403)),
        row("GET /limits/{name}", "/limits/per-user", Nothing, 401, all(200), all(404), all(404)),
        row("PUT /limits/{name}", "/limits/nope", EMPTY, 401, editor(404), editor(404), editor(404)),
        row("PATCH /limits/{name}", "/limits/nope", SAME, 401, editor(404), editor(404), editor(404)),
        row("DELETE /limits/{name}", "/limits/nope", Nothing, 401, editor(404), editor(404), editor(404)),
        row("GET /routes", "/routes", Nothing, 401, all(200), all(200), all(200)),
        row("POST /routes", "/routes", EMPTY, 401, editor(422), editor(403), editor(403)),
        row("GET /routes/{id}", "/routes/nope", Nothing, 401, all(404), all(404), all(404)),
        row("PUT /routes/{id}", "/routes/nope", EMPTY, 401, editor(404), editor(404), editor(404)),
        row("PATCH /routes/{id}", "/routes/nope", SAME, 401, editor(404), editor(404), editor(404)),
        row("DELETE /routes/{id}", "/routes/nope", Nothing, 401, editor(404), editor(404), editor(404)),
        row("GET /upstreams", "/upstreams", Nothing, 401, all(200), all(200), all(200)),
        row("POST /upstreams", "/upstreams", EMPTY, 401, editor(422), editor(403), editor(403)),
        row("GET /upstreams/{name}", "/upstreams/nope", Nothing, 401, all(404), all(404), all(404)),
        row("PUT /upstreams/{name}", "/upstreams/nope", EMPTY, 401, editor(404), editor(404), editor(404)),
        row("PATCH /upstreams/{name}", "/upstreams/nope", SAME, 401, editor(404), editor(404), editor(404)),
        row("DELETE /upstreams/{name}", "/upstreams/nope", Nothing, 401, editor(404), editor(404), editor(404)),
        row("GET /allow", "/allow", Nothing, 401, all(200), all(200), all(200)),
        row("POST /allow", "/allow", EMPTY, 401, editor(422), editor(403), editor(403)),
        row("GET /allow/{id}", "/allow/nope", Nothing, 401, all(404), all(404), all(404)),
        row("PUT /allow/{id}", "/allow/nope", EMPTY, 401, editor(404), editor(404), editor(404)),
        row("PATCH /allow/{id}", "/allow/nope", SAME, 401, editor(404), editor(404), editor(404)),
        row("DELETE /allow/{id}", "/allow/nope", Nothing, 401, editor(404), editor(404), editor(404)),
        row("GET /block", "/block", Nothing, 401, all(200), all(200), all(200)),
        row("POST /block", "/block", EMPTY, 401, editor(422), editor(403), editor(403)),
        row("GET /block/{id}", "/block/nope", Nothing, 401, all(404), all(404), all(404)),
        row("PUT /block/{id}", "/block/nope", EMPTY, 401, editor(404), editor(404), editor(404)),
        row("PATCH /block/{id}", "/block/nope", SAME, 401, editor(404), editor(404), editor(404)),
        row("DELETE /block/{id}", "/block/nope", Nothing, 401, editor(404), editor(404), editor(404)),
        row("GET /bursts", "/bursts", Nothing, 401, all(200), all(200), all(200)),
        row("POST /bursts", "/bursts", EMPTY, 401, editor(422), editor(403), editor(403)),
        row("GET /bursts/{name}", "/bursts/nope", Nothing, 401, all(404), all(404), all(404)),
        row("PUT /bursts/{name}", "/bursts/nope", EMPTY, 401, editor(404), editor(404), editor(404)),
        row("PATCH /bursts/{name}", "/bursts/nope", SAME, 401, editor(404), editor(404), editor(404)),
        row("DELETE /bursts/{name}", "/bursts/nope", Nothing, 401, editor(404), editor(404), editor(404)),
    ]
}

/// The same routes of collections as above: whoever may not write an entry gets the same where there is none and where there
/// is one, which is made under this name when it is asked for.
#[rustfmt::skip]
fn of_entries_that_exist() -> Vec<Row> {
    let of = |routes: [&'static str; 4], path| {
        [
            row(routes[0], path, Nothing, 401, all(200), all(404), all(404)),
            row(routes[1], path, NO_ENTRY, 401, editor(422), editor(404), editor(404)),
            row(routes[2], path, SAME, 401, editor(200), editor(404), editor(404)),
            row(routes[3], path, Nothing, 401, editor(200), editor(404), editor(404)),
        ]
    };
    let mut rows = [
        of(["GET /limits/{name}", "PUT /limits/{name}", "PATCH /limits/{name}", "DELETE /limits/{name}"], "/limits/{limits}"),
        of(["GET /routes/{id}", "PUT /routes/{id}", "PATCH /routes/{id}", "DELETE /routes/{id}"], "/routes/{routes}"),
        of(["GET /upstreams/{name}", "PUT /upstreams/{name}", "PATCH /upstreams/{name}", "DELETE /upstreams/{name}"], "/upstreams/{upstreams}"),
        of(["GET /allow/{id}", "PUT /allow/{id}", "PATCH /allow/{id}", "DELETE /allow/{id}"], "/allow/{allow}"),
        of(["GET /block/{id}", "PUT /block/{id}", "PATCH /block/{id}", "DELETE /block/{id}"], "/block/{block}"),
        of(["GET /bursts/{name}", "PUT /bursts/{name}", "PATCH /bursts/{name}", "DELETE /bursts/{name}"], "/bursts/{bursts}"),
    ]
    .concat();
    rows.push(row("PUT /tenants/{id}", "/tenants/{tenant}", NO_TENANT, 401, editor(422), editor(422), editor(404)));
    rows.push(row("DELETE /tenants/{id}", "/tenants/{child}", Nothing, 401, editor(200), editor(200), editor(404)));
    rows
}

#[rustfmt::skip]
fn of_tenants_and_versions() -> Vec<Row> {
    vec![
        row("GET /tenants", "/tenants", Nothing, 401, all(200), all(200), all(200)),
        row("POST /tenants", "/tenants", EMPTY, 401, editor(422), editor(403), editor(403)),
        row("GET /tenants/{id}", "/tenants/{tenant}", Nothing, 401, all(200), all(200), all(404)),
        row("PUT /tenants/{id}", "/tenants/nope", EMPTY, 401, editor(404), editor(404), editor(404)),
        row("PATCH /tenants/{id}", "/tenants/{tenant}", SAME, 401, editor(200), editor(200), editor(404)),
        row("DELETE /tenants/{id}", "/tenants/nope", Nothing, 401, editor(404), editor(404), editor(404)),
        row("GET /tenants/{id}/effective", "/tenants/{tenant}/effective", Nothing, 401, all(200), all(200), all(404)),
        row("PUT /policy", "/policy", WRONG, 401, editor(422), all(403), all(403)),
        row("GET /versions", "/versions", Nothing, 401, all(200), all(403), all(403)),
        row("GET /versions/{n}", "/versions/1", Nothing, 401, all(200), all(403), all(403)),
        row("GET /versions/{a}/diff/{b}", "/versions/1/diff/1", Nothing, 401, all(200), all(403), all(403)),
        row("POST /versions/{n}/restore", "/versions/1/restore", Nothing, 401, editor(200), all(403), all(403)),
        row("GET /candidates", "/candidates", Nothing, 401, all(200), all(403), all(403)),
        row("POST /candidates", "/candidates", WRONG, 401, editor(422), all(403), all(403)),
        row("GET /candidates/{id}", "/candidates/{candidate}", Nothing, 401, all(200), all(403), all(403)),
        row("DELETE /candidates/{id}", "/candidates/{candidate}", Nothing, 401, editor(200), all(403), all(403)),
        row("GET /candidates/{id}/report", "/candidates/{candidate}/report", Nothing, 401, all(200), all(403), all(403)),
        row("POST /candidates/{id}/promote", "/candidates/{candidate}/promote", Nothing, 401, editor(200), all(403), all(403)),
        row("POST /simulate", "/simulate", TRIAL, 401, all(200), all(200), all(200)),
        row("POST /explain", "/explain", ASKED, 401, all(200), all(200), all(404)),
        row("POST /import", "/import?from=rules", RULES, 401, all(200), all(200), all(200)),
        row("GET /nodes", "/nodes", Nothing, 401, all(200), all(403), all(403)),
        row("GET /events", "/events", Nothing, 401, all(200), all(200), all(200)),
        row("GET /audit", "/audit", Nothing, 401, all(200), all(200), all(200)),
        row("GET /violations", "/violations", Nothing, 401, all(200), all(200), all(200)),
        row("GET /audit/verify", "/audit/verify", Nothing, 401, all(200), all(403), all(403)),
    ]
}

#[rustfmt::skip]
fn of_live_state() -> Vec<Row> {
    vec![
        row("POST /keys/block", "/keys/block", WHO, 401, operator(201), operator(201), operator(404)),
        row("POST /keys/allow", "/keys/allow", WHO, 401, operator(201), operator(403), operator(403)),
        row("POST /keys/lookup", "/keys/lookup", ASKED, 401, all(200), all(200), all(404)),
        row("POST /keys/reset", "/keys/reset", ASKED, 401, operator(200), operator(200), operator(404)),
        row("POST /keys/grant", "/keys/grant", GRANT, 401, operator(200), all(403), operator(404)),
        row("GET /keys/live", "/keys/live", Nothing, 401, all(200), all(200), all(200)),
        row("DELETE /keys/live/{id}", "/keys/live/{live}", Nothing, 401, operator(200), operator(200), operator(404)),
        row("GET /overrides", "/overrides", Nothing, 401, all(200), all(200), all(200)),
        row("POST /overrides", "/overrides", OTHER_NUMBERS, 401, operator(201), operator(201), operator(404)),
        row("GET /overrides/{id}", "/overrides/{override}", Nothing, 401, all(200), all(200), all(404)),
        row("DELETE /overrides/{id}", "/overrides/{override}", Nothing, 401, operator(200), operator(200), operator(404)),
        row("GET /penalties", "/penalties", Nothing, 401, all(200), all(200), all(200)),
        row("DELETE /penalties/{id}", "/penalties/{penalty}", Nothing, 401, operator(200), operator(404), operator(404)),
        row("GET /kill-switch", "/kill-switch", Nothing, 401, all(200), all(403), all(403)),
        row("PUT /kill-switch", "/kill-switch", OFF, 401, admin(200), all(403), all(403)),
        row("GET /trust/{user}", "/trust/42", Nothing, 401, all(200), all(403), all(403)),
        row("PUT /trust/{user}", "/trust/42", EMPTY, 401, operator(200), all(403), all(403)),
        row("POST /trust/outcomes", "/trust/outcomes", OUTCOMES, 401, operator(200), all(403), all(403)),
        row("POST /trust/facts", "/trust/facts", FACTS, 401, operator(200), all(403), all(403)),
    ]
}

/// Asks as one role, for what belongs to one tenant.
fn status(asked: &Asked, row: &Row, token: Option<&str>, tenant: &str) -> u16 {
    let (server, path) = (&asked.server, asked.path(row.path, tenant));
    let filled = |text: &str| text.replace("{tenant}", tenant);
    let (method, _) = row.route.split_once(' ').expect("a method and a path");
    // A stream does not end, so only its head is asked for.
    let method = if row.path == "/stream" { "HEAD" } else { method };
    let (media_type, body) = match row.sent {
        Nothing => ("", String::new()),
        Json(body) => ("application/json", filled(body)),
        Yaml(body) => ("application/yaml", filled(body)),
        Patch(body) => ("application/merge-patch+json", filled(body)),
    };
    let bearer = token.map(|token| format!("Bearer {token}"));
    let headers = [("Content-Type", media_type), ("Authorization", bearer.as_deref().unwrap_or_default())];
    let headers: Vec<_> = headers.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    let status = ask(server.address(), method, &format!("/api/v1{path}"), &headers, &body).status;
    if row.path.contains("{candidate}") {
        // Only a few run at once. It may be gone already.
        let path = path.trim_end_matches("/report").trim_end_matches("/promote");
        server.call(&server.admin, "DELETE", path, None);
    }
    status
}

fn every_route_answers_every_role_as_the_table_says(kind: DatabaseKind) {
    let server = Controlled::start_in(Place::new(kind), "trust: {}\n");
    let tokens = |tenant| ROLES.map(|role| server.token(role, tenant).1);
    let (whole, restricted) = (tokens(None), tokens(Some("acme")));
    let server = Asked { server, operator: restricted[1].clone() };
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
    let server = Controlled::start(DatabaseKind::Sqlite);
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
    for row in table() {
        let (method, path) = row.route.split_once(' ').expect("a method and a path");
        let documented = &paths[&format!("/api/v1{path}")][method.to_lowercase()]["responses"];
        let expected = [[row.no_token; 4], row.whole, row.inside, row.outside].concat();
        let missing = expected.iter().find(|status| documented.get(status.to_string()).is_none());
        assert_eq!(missing, None, "{}: the OpenAPI document does not have this status", row.route);
    }
}

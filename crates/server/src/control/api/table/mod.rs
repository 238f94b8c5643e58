//! All routes of the admin API.

mod policy;
mod tools;

use std::sync::LazyLock;

use http::Method;

use super::ApiCall;
use super::endpoints::{
    candidates, glance, keys, kill_switch, live, nodes, overrides, penalties, records, system, tokens, trust,
};
use super::query::{PAGE, QueryField};
use super::route::{Answering, ApiRoute, RouteAccess, TenantRule};
use super::shape::{AnswerShape, BodyShape, JsonShape};
use crate::control::access::AccessRole;
use crate::control::glance::overview::{FleetHistory, Overview};

/// All routes, in the order of the reference page. Where two could match a path, the first does.
pub(crate) fn routes() -> &'static [ApiRoute] {
    static ROUTES: LazyLock<Vec<ApiRoute>> = LazyLock::new(|| {
        let mut routes = Vec::new();
        routes.extend(system());
        routes.extend(policy::whole());
        routes.extend(policy::collections());
        routes.extend(policy::versions());
        routes.extend(candidates::routes());
        routes.extend(tools::trying_out());
        routes.extend(keys::routes());
        routes.extend(live::routes());
        routes.extend(overrides::routes());
        routes.extend(penalties::routes());
        routes.extend(kill_switch::routes());
        routes.extend(trust::routes());
        routes.extend(fleet());
        routes.extend(tokens::routes());
        routes.extend(records::routes());
        routes
    });
    &ROUTES
}

const VIEWER: RouteAccess = RouteAccess::Role(AccessRole::Viewer, TenantRule::Any);
const READS_WHOLE: RouteAccess = RouteAccess::Role(AccessRole::Viewer, TenantRule::Whole);
const READS_SUBTREE: RouteAccess = RouteAccess::Role(AccessRole::Viewer, TenantRule::Subtree);

/// A route by GET.
fn get(
    path: &'static str,
    access: RouteAccess,
    about: &'static str,
    answer: AnswerShape,
    handler: fn(ApiCall) -> Answering,
) -> ApiRoute {
    ApiRoute::new(Method::GET, path, access, about, answer, handler)
}

/// A route that takes a body.
fn post(body: BodyShape, route: ApiRoute) -> ApiRoute {
    ApiRoute { method: Method::POST, body, ..route }
}

/// The same route with parameters in the query.
fn with(query: &'static [&'static [QueryField]], route: ApiRoute) -> ApiRoute {
    ApiRoute { query, ..route }
}

fn fleet() -> Vec<ApiRoute> {
    let listed = AnswerShape::List(JsonShape::of::<nodes::ListedNode>());
    let overview = JsonShape::of::<Overview>();
    let keys = AnswerShape::Json(JsonShape::of::<glance::HotKeyLists>());
    let now = "The figures of the last second, over all nodes that share the database.";
    let hour = "The last hour in steps of half a minute, over all nodes that share the database.";
    let busy = "The keys that took the most tokens in the last minute, and those that were denied the most, over all nodes.";
    let followed = "The overview each second, as server-sent events with the name `overview`. The server ends it after some minutes.";
    let history = AnswerShape::Json(JsonShape::of::<FleetHistory>());
    vec![
        with(
            &[PAGE],
            get("/nodes", READS_WHOLE, "The nodes that share the database, by name.", listed, nodes::list),
        ),
        get("/overview", READS_SUBTREE, now, AnswerShape::Json(overview), glance::now),
        get("/history", READS_SUBTREE, hour, history, glance::last_hour),
        with(&[glance::KEYS], get("/hot-keys", READS_SUBTREE, busy, keys, glance::hot_keys)),
        get("/stream", READS_SUBTREE, followed, AnswerShape::Events(overview), glance::stream),
    ]
}

fn system() -> Vec<ApiRoute> {
    let who = AnswerShape::Json(JsonShape::of::<system::WhoAmI>());
    vec![
        get(
            "/openapi.json",
            RouteAccess::Open,
            "This document.",
            AnswerShape::Json(JsonShape::Object),
            system::openapi,
        ),
        get("/whoami", VIEWER, "Who the token stands for.", who, system::who_am_i),
    ]
}

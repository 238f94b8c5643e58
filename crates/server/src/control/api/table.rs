//! All routes of the admin API.

use std::borrow::Cow;
use std::sync::LazyLock;

use http::Method;

use super::ApiCall;
use super::endpoints::{policy, records, system, tools};
use super::route::{Answering, ApiRoute, RouteAccess, TenantRule};
use super::shape::{AnswerShape, BodyShape, JsonShape};
use crate::control::access::Role;

/// All routes, in the order of the reference page. Where two could match a path, the first does.
pub(crate) fn routes() -> &'static [ApiRoute] {
    static ROUTES: LazyLock<Vec<ApiRoute>> = LazyLock::new(|| {
        let mut routes = Vec::new();
        routes.extend(system());
        routes.extend(whole_policy());
        routes.extend(trying_out());
        routes.extend(records::routes());
        routes
    });
    &ROUTES
}

const VIEWER: RouteAccess = RouteAccess::Role(Role::Viewer, TenantRule::Any);

/// A route that answers with JSON and takes no body; the others are made from it.
fn get(
    path: &'static str,
    access: RouteAccess,
    about: &'static str,
    answer: AnswerShape,
    handler: fn(ApiCall) -> Answering,
) -> ApiRoute {
    ApiRoute {
        method: Method::GET,
        path: Cow::Borrowed(path),
        access,
        about: Cow::Borrowed(about),
        query: &[],
        body: BodyShape::None,
        answer,
        collection: None,
        handler,
    }
}

/// A route that takes a body.
fn post(body: BodyShape, route: ApiRoute) -> ApiRoute {
    ApiRoute { method: Method::POST, body, ..route }
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

fn whole_policy() -> Vec<ApiRoute> {
    let access = RouteAccess::Role(Role::Viewer, TenantRule::Whole);
    vec![get("/policy", access, "The policy in force, as it was written.", AnswerShape::Policy, policy::get)]
}

fn trying_out() -> Vec<ApiRoute> {
    let checked = AnswerShape::Json(JsonShape::of::<tools::Validation>());
    let schema = AnswerShape::Json(JsonShape::Object);
    vec![
        post(
            BodyShape::Policy,
            get("/validate", VIEWER, "Checks a policy, and lists every problem.", checked, tools::validate),
        ),
        get("/schema", VIEWER, "The JSON Schema of the policy document.", schema, tools::schema),
    ]
}

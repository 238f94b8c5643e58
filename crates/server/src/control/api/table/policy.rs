//! Routes about the policy: the whole document, its collections, its versions.

use std::borrow::Cow;

use http::Method;

use super::{READS_SUBTREE, READS_WHOLE, get, post, with};
use crate::control::access::AccessRole;
use crate::control::api::ApiCall;
use crate::control::api::endpoints::{collections, policy, tenants, versions};
use crate::control::api::query::{DRY_RUN, PAGE, QueryField, QueryKind, REASON};
use crate::control::api::route::{Answering, ApiRoute, RouteAccess, TenantRule};
use crate::control::api::shape::{AnswerShape, BodyShape, JsonShape};
use crate::control::collection::Collection;

const WRITES_WHOLE: RouteAccess = RouteAccess::Role(AccessRole::Editor, TenantRule::Whole);
const WRITES_SUBTREE: RouteAccess = RouteAccess::Role(AccessRole::Editor, TenantRule::Subtree);

const BEFORE: &[QueryField] = &[QueryField {
    name: "before",
    kind: QueryKind::Text,
    about: "The name of the entry before which the new one is put; without it, it is the last.",
}];

const PARENT: &[QueryField] =
    &[QueryField { name: "parent", kind: QueryKind::Text, about: "Only tenants directly below this one." }];

fn changed() -> JsonShape {
    JsonShape::of::<policy::PolicyChanged>()
}

/// The whole document.
pub(super) fn whole() -> Vec<ApiRoute> {
    let about = "The policy in force, as it was written; with `Accept: application/json` as JSON.";
    let put = ApiRoute {
        method: Method::PUT,
        ..post(
            BodyShape::Policy,
            get("/policy", WRITES_WHOLE, "Replaces the policy.", AnswerShape::Json(changed()), policy::put),
        )
    };
    vec![get("/policy", READS_WHOLE, about, AnswerShape::Policy, policy::get), with(&[REASON, DRY_RUN], put)]
}

/// The versions.
pub(super) fn versions() -> Vec<ApiRoute> {
    let listed = AnswerShape::List(JsonShape::of::<versions::VersionAnswer>());
    let one = AnswerShape::Json(JsonShape::of::<versions::VersionWithText>());
    let difference = AnswerShape::Json(JsonShape::of::<versions::VersionDifference>());
    let restore = get(
        "/versions/{n}/restore",
        WRITES_WHOLE,
        "Makes the document of a version the newest one.",
        AnswerShape::Json(changed()),
        versions::restore,
    );
    vec![
        with(
            &[PAGE],
            get(
                "/versions",
                READS_WHOLE,
                "The versions of the policy, newest first.",
                listed,
                versions::list,
            ),
        ),
        get("/versions/{n}", READS_WHOLE, "A version with its text.", one, versions::get),
        get(
            "/versions/{a}/diff/{b}",
            READS_WHOLE,
            "What differs between two versions.",
            difference,
            versions::diff,
        ),
        with(&[REASON], post(BodyShape::None, restore)),
    ]
}

/// The entries of all collections.
pub(super) fn collections() -> Vec<ApiRoute> {
    let mut routes: Vec<ApiRoute> = Collection::ALL.into_iter().flat_map(of_collection).collect();
    routes.push(get(
        "/tenants/{id}/effective",
        READS_SUBTREE,
        "The numbers that apply to a tenant, where each comes from, and what is left now.",
        AnswerShape::Json(JsonShape::of::<tenants::EffectiveNumbers>()),
        tenants::effective,
    ));
    routes
}

fn of_collection(collection: Collection) -> Vec<ApiRoute> {
    let (name, entry) = (collection.as_str(), collection.entry());
    let field = tidegate_policy::name_field(name).expect("every collection names its entries");
    let shape = JsonShape::Policy(collection.schema());
    let list: &'static [&'static [QueryField]] =
        if collection == Collection::Tenants { &[PAGE, PARENT] } else { &[PAGE] };
    let written = match collection {
        Collection::Tenants => JsonShape::of::<policy::TenantChanged>(),
        _ => changed(),
    };
    let route = |method, about: String, handler: fn(ApiCall) -> Answering| ApiRoute {
        method,
        path: format!("/{name}/{{{field}}}").into(),
        about: Cow::Owned(about),
        collection: Some(collection),
        ..with(&[REASON, DRY_RUN], get("", WRITES_SUBTREE, "", AnswerShape::Json(written), handler))
    };
    vec![
        ApiRoute {
            path: format!("/{name}").into(),
            access: READS_SUBTREE,
            query: list,
            answer: AnswerShape::List(shape),
            ..route(
                Method::GET,
                format!("The entries of `{name}`, in the order of the document."),
                collections::list,
            )
        },
        ApiRoute {
            path: format!("/{name}").into(),
            query: &[REASON, DRY_RUN, BEFORE],
            body: BodyShape::Json(shape),
            answer: AnswerShape::Created(written),
            ..route(Method::POST, format!("Creates a new {entry}."), collections::create)
        },
        ApiRoute {
            access: READS_SUBTREE,
            query: &[],
            answer: AnswerShape::Json(shape),
            ..route(Method::GET, format!("One {entry}."), collections::get)
        },
        ApiRoute {
            body: BodyShape::Json(shape),
            ..route(Method::PUT, format!("Replaces one {entry}."), collections::replace)
        },
        ApiRoute {
            body: BodyShape::MergePatch(shape),
            ..route(Method::PATCH, format!("Changes members of one {entry}."), collections::patch)
        },
        ApiRoute {
            answer: AnswerShape::Json(changed()),
            ..route(Method::DELETE, format!("Removes one {entry}."), collections::remove)
        },
    ]
}

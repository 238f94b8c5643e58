//! Routes that try things out.

use super::{VIEWER, get, post, with};
use crate::control::access::AccessRole;
use crate::control::api::endpoints::{tools, trials};
use crate::control::api::query::{QueryField, QueryKind};
use crate::control::api::route::{ApiRoute, RouteAccess, TenantRule};
use crate::control::api::shape::{AnswerShape, BodyShape, JsonShape};

const FROM: &[QueryField] = &[QueryField {
    name: "from",
    kind: QueryKind::Word(&["oagw", "fairvisor", "envoy", "limitador", "rules", "endpoints"]),
    about: "The format of the document. Required.",
}];

/// Checking, trying out and importing policies.
pub(super) fn trying_out() -> Vec<ApiRoute> {
    let checked = AnswerShape::Json(JsonShape::of::<tools::Validation>());
    let imported = AnswerShape::Json(JsonShape::of::<tools::ImportedPolicy>());
    let object = AnswerShape::Json(JsonShape::Object);
    let subtree = RouteAccess::Role(AccessRole::Viewer, TenantRule::Subtree);
    vec![
        post(
            BodyShape::PolicyDraft,
            get("/validate", VIEWER, "Checks a policy, and lists every problem.", checked, tools::validate),
        ),
        post(
            BodyShape::Json(JsonShape::of::<trials::SimulationRequest>()),
            get(
                "/simulate",
                subtree,
                "Replays a trace against a policy in virtual time.",
                AnswerShape::JsonOrLines(JsonShape::Object),
                trials::simulate,
            ),
        ),
        post(
            BodyShape::Json(JsonShape::of::<trials::ExplanationRequest>()),
            get("/explain", subtree, "Why a request would be allowed or denied.", object, trials::explain),
        ),
        with(
            &[FROM],
            post(
                BodyShape::Text,
                get(
                    "/import",
                    VIEWER,
                    "Converts the configuration of another rate limiter.",
                    imported,
                    tools::import,
                ),
            ),
        ),
        get("/schema", VIEWER, "The JSON Schema of the policy document.", object, tools::schema),
    ]
}

#[cfg(test)]
mod tests {
    use tidegate_import::ImportFormat;

    use super::*;

    #[test]
    fn every_format_can_be_imported() {
        let QueryKind::Word(words) = FROM[0].kind else { panic!("it takes words") };
        assert_eq!(words, ImportFormat::NAMES.iter().map(|(name, ..)| *name).collect::<Vec<_>>());
    }
}

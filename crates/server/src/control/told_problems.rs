//! The problems of a policy that a writer may know of: all, or those of entries that it sees.

use serde_json::Value;
use tidegate_document::{DocumentNode, parse};
use tidegate_policy::Problem;

use super::access::Principal;
use super::api::ApiError;
use super::api::error::problem_json;
use super::collection::Collection;
use super::subtree::Sight;

/// What a writer may know of the problems of a document.
#[derive(Debug)]
pub(super) enum ToldProblems {
    /// Everything.
    All,
    /// Those of entries that a restricted writer sees, without their lines, which tell how long the rest is. The tree is
    /// `None` if the document cannot be read.
    Seen(Option<Box<(Sight, DocumentNode)>>),
}

impl ToldProblems {
    /// `restricted` is the writer, if it may not see the whole policy.
    pub(super) fn new(text: &str, restricted: Option<&Principal>) -> ToldProblems {
        let Some(principal) = restricted else { return ToldProblems::All };
        let root = parse(text).ok();
        ToldProblems::Seen(root.map(|root| Box::new((Sight::of(principal, &root), root))))
    }

    /// The problems, as answers show them.
    pub(super) fn json(&self, problems: &[Problem]) -> Vec<Value> {
        problems.iter().filter(|problem| self.tells(problem)).map(|problem| self.one(problem)).collect()
    }

    /// The answer to a change that makes the policy invalid.
    pub(super) fn refusal(&self, problems: Vec<Problem>) -> ApiError {
        if matches!(self, ToldProblems::All) {
            return ApiError::Problems(problems);
        }
        let told = self.json(&problems);
        let detail = match told.iter().filter(|problem| problem["severity"] == "error").count() {
            0 => "a part that the token does not see does not go with the change".to_owned(),
            1 => "1 problem".to_owned(),
            count => format!("{count} problems"),
        };
        ApiError::Unprocessable {
            detail: format!("the policy would not be valid: {detail}"),
            pointer: String::new(),
            more: serde_json::json!({ "problems": told }),
        }
    }

    fn tells(&self, problem: &Problem) -> bool {
        let ToldProblems::Seen(seen) = self else { return true };
        let entry = seen.as_ref().zip(Collection::of_path(&problem.path));
        entry.is_some_and(|(seen, (collection, index))| {
            let (sight, root) = &**seen;
            let entries = root.get(collection.as_str()).map(DocumentNode::items).unwrap_or_default();
            entries.get(index).is_some_and(|entry| sight.sees(collection, entry))
        })
    }

    fn one(&self, problem: &Problem) -> Value {
        let mut json = problem_json(problem);
        if let (ToldProblems::Seen(_), Some(members)) = (self, json.as_object_mut()) {
            members.remove("line");
            members.remove("column");
        }
        json
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidegate::Nanos;
    use tidegate_policy::Policy;

    use super::*;

    #[test]
    fn a_restricted_writer_learns_nothing_of_what_it_does_not_see() {
        let text = "version: 1\nlimits:\n- { name: hidden-limit, key: [user], sustained: { rate: 0 } }\n\
                    - { name: own, key: [user], match: { tenant: low }, sustained: { rate: 0 } }\n\
                    tenants:\n- { id: t }\n- { id: low, parent: t }\n- { id: hidden-tenant, parent: nobody }\n";
        let problems = Policy::parse_at(text, Nanos::ZERO).expect_err("two rates are 0").problems;
        let restricted = Principal { tenant: Some(Arc::from("t")), ..Principal::admin() };
        let body = |principal: Option<&Principal>| {
            let refusal = ToldProblems::new(text, principal).refusal(problems.clone());
            assert_eq!(refusal.status().as_u16(), 422);
            String::from_utf8(refusal.render().into_body().to_vec()).expect("it is text")
        };
        let (all, told) = (body(None), body(Some(&restricted)));
        assert!(all.contains("limits[0]") && all.contains("\"line\"") && all.contains("tenants[2]"), "{all}");
        assert!(told.contains("limits[1].sustained.rate") && told.contains("1 problem\""), "{told}");
        for hidden in ["limits[0]", "tenants[2]", "line\"", "column", "hidden"] {
            assert!(!told.contains(hidden), "{hidden}: {told}");
        }
        let unreadable = ToldProblems::new("{", Some(&restricted));
        assert!(unreadable.json(&problems).is_empty());
    }
}

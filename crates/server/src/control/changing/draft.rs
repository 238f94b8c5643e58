//! The next version of the policy: the text after an edit, checked as a whole.

use std::collections::HashSet;

use serde_json::{Value, json};
use tidegate::Nanos;
use tidegate_database::RuleRow;
use tidegate_document::{DocumentNode, parse};
use tidegate_policy::{Policy, Problem, RuleSet, policy_changes};

use crate::control::access::Principal;
use crate::control::api::ApiError;
use crate::control::api::error::problem_json;
use crate::control::masked_policy::masked_with_names;
use crate::control::told_problems::ToldProblems;
use crate::control::{allocation, projection};
use crate::serve::reload::policy_file;
use crate::settings::Settings;

/// What an edit makes of the text of a policy.
#[derive(Debug, Default)]
pub(crate) struct Edited {
    /// The new text.
    pub(crate) text: String,
    /// Where the entry is found that the edit creates.
    pub(crate) location: Option<String>,
    /// The tenant that the edit is about: the answer tells what its parent has allotted.
    pub(crate) tenant: Option<String>,
    /// Who makes the edit, if it may not see the whole policy.
    pub(crate) restricted: Option<Principal>,
}

/// An edit of the text of the active version. It may be done again on another version.
pub(crate) type TextEdit = Box<dyn Fn(&str) -> Result<Edited, ApiError> + Send + Sync>;

/// A new version that can be published.
#[derive(Debug)]
pub(super) struct PolicyDraft {
    pub(super) text: String,
    pub(super) rules: RuleSet,
    pub(super) warnings: Vec<Value>,
    /// Those that the writer may see.
    pub(super) told_warnings: Vec<Value>,
    pub(super) rows: Vec<RuleRow>,
    /// What differs from the version before, as JSON.
    pub(super) difference: String,
    pub(super) location: Option<String>,
    /// What the parent of a tenant has allotted, if the edit was about a tenant.
    pub(super) allocation: Option<Value>,
    /// The tenants that the version before has and this one has not.
    pub(super) removed_tenants: Vec<String>,
}

/// The longest description of a difference in the audit, in bytes.
const DIFFERENCE_BYTES_MAX: usize = 64 * 1_024;

impl PolicyDraft {
    /// Edits a text, and checks the result as a whole.
    ///
    /// # Errors
    /// When the edit is refused, or with all problems of the new policy.
    pub(super) fn new(
        before: &str,
        edit: &TextEdit,
        settings: &Settings,
        now: Nanos,
    ) -> Result<PolicyDraft, ApiError> {
        let Edited { text, location, tenant, restricted } = edit(before)?;
        let told = ToldProblems::new(&text, restricted.as_ref());
        let refused =
            |problems: Vec<Problem>| allocation::refusal(&text, tenant.as_deref(), now, &told, problems);
        let policy = Policy::parse_at(&text, now).map_err(|error| refused(error.problems))?;
        // The rows are for people, who read the limits of the document, not this node's share of them.
        let rows = projection::rule_rows(&policy.rules, &text);
        let (rules, warnings) = policy_file::for_node(policy, settings).map_err(refused)?;
        let told_warnings = told.json(&warnings);
        Ok(PolicyDraft {
            rows,
            difference: difference(before, &text),
            removed_tenants: removed_tenants(before, &rules),
            told_warnings,
            warnings: warnings.iter().map(problem_json).collect(),
            allocation: tenant.map(|tenant| allocation::told(&rules, &tenant)),
            text,
            rules,
            location,
        })
    }
}

/// The tenants of a text that some rules no longer have.
fn removed_tenants(before: &str, rules: &RuleSet) -> Vec<String> {
    let Ok(root) = parse(before) else { return Vec::new() };
    let listed: HashSet<&str> = rules.tenants().nodes().iter().map(|tenant| &*tenant.id).collect();
    let ids = root.get("tenants").map(DocumentNode::items).unwrap_or_default();
    let ids = ids.iter().filter_map(|tenant| tenant.get("id")?.scalar());
    ids.filter(|id| !listed.contains(id)).map(str::to_owned).collect()
}

/// What differs, for the audit: no value there may be a secret.
fn difference(before: &str, after: &str) -> String {
    let read = |text: &str| parse(text).map(|root| masked_with_names(&root)).unwrap_or_else(|_| empty());
    let changes = policy_changes(&read(before), &read(after));
    let (mut shown, mut length) = (Vec::new(), 0);
    for change in &changes {
        let change = change.to_json();
        length += change.len() + 1;
        if length > DIFFERENCE_BYTES_MAX {
            break;
        }
        shown.push(change);
    }
    let left_out = changes.len() - shown.len();
    format!("{{\"changes\":[{}],\"left_out\":{left_out}}}", shown.join(","))
}

fn empty() -> DocumentNode {
    parse("").expect("an empty text is null")
}

/// The body of the answer to a change.
pub(super) fn answer(version: u64, warnings: Vec<Value>, allocation: Option<Value>) -> Value {
    let mut body = json!({ "version": version, "warnings": warnings });
    if let Some(allocation) = allocation {
        body["allocation"] = allocation;
    }
    body
}

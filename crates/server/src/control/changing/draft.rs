//! The next version of the policy: the text after an edit, checked as a whole.

use serde_json::{Value, json};
use tidegate::{LimitError, Nanos};
use tidegate_database::RuleRow;
use tidegate_document::{DocumentNode, Span, parse};
use tidegate_policy::{Policy, PolicyError, Problem, RuleSet, policy_changes};

use crate::control::access::Principal;
use crate::control::api::ApiError;
use crate::control::api::error::problem_json;
use crate::control::collection::Collection;
use crate::control::masked_policy::masked_with_names;
use crate::control::subtree::Sight;
use crate::control::{allocation, projection};
use crate::node::Node;
use crate::observe::AuditEvent;
use crate::observe::events::new_exemptions;
use crate::serve::reload::policy_file;

/// What an edit makes of the text of a policy.
#[derive(Debug, Default)]
pub(crate) struct Edited {
    /// The new text.
    pub(crate) text: String,
    /// The trees of the text before and after, if the edit has parsed them: that takes most of the time of a change.
    pub(crate) before: Option<DocumentNode>,
    pub(crate) after: Option<DocumentNode>,
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
    /// An event for each new entry of `allow`.
    pub(super) exemptions: Vec<AuditEvent>,
    /// What differs from the version before, as JSON.
    pub(super) difference: String,
    pub(super) location: Option<String>,
    /// What the parent of a tenant has allotted, if the edit was about a tenant.
    pub(super) allocation: Option<Value>,
}

/// The longest description of a difference in the audit, in bytes.
const DIFFERENCE_BYTES_MAX: usize = 64 * 1_024;

impl PolicyDraft {
    /// Edits a text, and checks the result as a whole.
    ///
    /// # Errors
    /// When the edit is refused, or with all problems of the new policy.
    pub(super) fn new(
        old_text: &str,
        edit: &TextEdit,
        node: &Node,
        now: Nanos,
    ) -> Result<PolicyDraft, ApiError> {
        let Edited { text, before, after, location, tenant, restricted } = edit(old_text)?;
        let refused = |problems| allocation::refusal(&text, tenant.as_deref(), now, problems);
        let policy = match after.map_or_else(|| parse(&text), Ok) {
            Ok(after) => Policy::of_parsed(&after, &text, now).map(|policy| (policy, after)),
            // All problems at once, also those of the part that can be read.
            Err(problems) => Err(Policy::parse_at(&text, now).err().unwrap_or(PolicyError { problems })),
        };
        let (policy, after) = policy.map_err(|error| refused(error.problems))?;
        let before = before.unwrap_or_else(|| parse(old_text).unwrap_or_else(|_| empty()));
        // The rows are for people, who read the limits of the document, not this node's share of them.
        let rows = projection::rule_rows(&policy.rules, &after);
        let (rules, warnings) = policy_file::for_node(policy, node.settings()).map_err(refused)?;
        node.limiter().check_rules(&rules).map_err(|error| uncountable(&after, &rules, &error))?;
        Ok(PolicyDraft {
            exemptions: exemptions(old_text, (&before, &rules), node, now),
            rows,
            difference: difference(&before, &after),
            told_warnings: told_warnings(&after, restricted.as_ref(), &warnings),
            warnings: warnings.iter().map(problem_json).collect(),
            allocation: tenant.map(|tenant| allocation::told(&rules, &tenant)),
            text,
            rules,
            location,
        })
    }
}

/// The answer to a change that makes a policy whose limits the store cannot count: the problem is at the limit.
fn uncountable(root: &DocumentNode, rules: &RuleSet, error: &LimitError) -> ApiError {
    let rule = match error {
        LimitError::NotShared { name, .. } => rules.rules().iter().find(|rule| rule.name == *name),
        _ => None,
    };
    let path = rule.and_then(|rule| path_of(root, &rule.name)).unwrap_or_else(|| "limits".to_owned());
    let at = rule.map_or_else(Span::default, |rule| rule.at);
    ApiError::Problems(vec![
        Problem::error(at, path, error.to_string()).want("limits that the store can count"),
    ])
}

/// The path of a limit, or of a tenant, in a document.
fn path_of(root: &DocumentNode, name: &str) -> Option<String> {
    let (list, member, name, rest) = match name.strip_prefix("tenant:") {
        Some(tenant) => ("tenants", "id", tenant, ".rate_limit"),
        None => ("limits", "name", name, ""),
    };
    let is_it = |entry: &DocumentNode| entry.get(member).and_then(DocumentNode::scalar) == Some(name);
    let index = root.get(list)?.items().iter().position(is_it)?;
    Some(format!("{list}[{index}]{rest}"))
}

/// An event for each entry of `allow` that the version before does not have.
fn exemptions(
    old_text: &str,
    (before, after): (&DocumentNode, &RuleSet),
    node: &Node,
    now: Nanos,
) -> Vec<AuditEvent> {
    if after.allow().entries().is_empty() {
        return Vec::new();
    }
    let is_running = node.control().is_some_and(|control| *control.running().text == *old_text);
    if is_running {
        return new_exemptions(&node.limiter().rules(), after, now);
    }
    // It was valid when it was published. If it is not any more, every entry is new to what runs now.
    let before = Policy::of_parsed(before, old_text, now).map(|policy| policy.rules).unwrap_or_default();
    new_exemptions(&before, after, now)
}

/// The warnings that a writer may see: all, or those about entries that it sees.
fn told_warnings(root: &DocumentNode, restricted: Option<&Principal>, warnings: &[Problem]) -> Vec<Value> {
    let is_told: Box<dyn Fn(&Problem) -> bool> = match restricted {
        None => Box::new(|_| true),
        Some(principal) => {
            let sight = Sight::of(principal, root);
            Box::new(move |warning| {
                let seen = Collection::of_path(&warning.path).and_then(|(collection, index)| {
                    let entry = root.get(collection.as_str())?.items().get(index)?;
                    Some(sight.sees(collection, entry))
                });
                seen.unwrap_or(false)
            })
        }
    };
    warnings.iter().filter(|warning| is_told(warning)).map(problem_json).collect()
}

/// What differs, for the audit: no value there may be a secret.
fn difference(before: &DocumentNode, after: &DocumentNode) -> String {
    let changes = policy_changes(&masked_with_names(before), &masked_with_names(after));
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

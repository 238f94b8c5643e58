//! Routes about the versions of the policy.

use serde::Serialize;
use serde_json::{Value, json};
use tidegate_database::{Database, PageRequest, PolicyVersion, VersionHead};
use tidegate_document::{DocumentNode, parse, text_diff};
use tidegate_policy::policy_changes;
use utoipa::ToSchema;

use crate::control::access::AccessRole;
use crate::control::api::query::PAGE_MAX;
use crate::control::api::route::Answering;
use crate::control::api::{ApiAnswer, ApiCall, ApiError, rfc3339};
use crate::control::changing::{self, Edited};
use crate::control::masked_policy::masked_text;
use crate::wire::hex;

/// A version of the policy.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct VersionAnswer {
    /// Its number.
    version: u64,
    /// The version that was active before.
    parent: Option<u64>,
    /// The SHA-256 of its text, as hexadecimal digits.
    sha256: String,
    /// Who made it.
    author: String,
    /// Why.
    reason: Option<String>,
    /// When.
    #[schema(format = DateTime)]
    time: String,
}

/// A version of the policy with its text.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct VersionWithText {
    #[serde(flatten)]
    head: VersionAnswer,
    /// The warnings that it had.
    #[schema(value_type = Vec<Object>)]
    warnings: Value,
    /// The document as it was written; null if it is too old to be kept.
    text: Option<String>,
}

/// What differs between two versions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct VersionDifference {
    /// The first version.
    from: u64,
    /// The other one.
    to: u64,
    /// What differs, entry by entry.
    #[schema(value_type = Vec<Object>)]
    changes: Vec<Value>,
    /// What differs, line by line, as `diff -u` writes it.
    text: String,
}

impl VersionAnswer {
    fn new(head: &VersionHead) -> VersionAnswer {
        VersionAnswer {
            version: head.version,
            parent: head.parent,
            sha256: hex(&head.sha256),
            author: head.author.clone(),
            reason: head.reason.clone(),
            time: rfc3339(head.time),
        }
    }
}

fn database(call: &ApiCall) -> Result<&Database, ApiError> {
    call.control().database().ok_or_else(|| ApiError::needs_database("versions"))
}

/// How many versions a search reads for one page.
const SEARCHED_MAX: usize = 20_000;

/// `GET /versions`
pub(in crate::control::api) fn list(call: ApiCall) -> Answering {
    Box::pin(async move {
        let database = database(&call)?;
        let (wanted, searched) = (call.query.page_length(), call.query.get("q").map(str::to_lowercase));
        let has = |head: &VersionHead| {
            let texts = [Some(head.version.to_string()), Some(head.author.clone()), head.reason.clone()];
            let contains =
                |text: &String| texts.iter().flatten().any(|one| one.to_lowercase().contains(text));
            searched.as_ref().is_none_or(contains)
        };
        let limit = if searched.is_some() { PAGE_MAX } else { wanted as u64 };
        let mut page =
            PageRequest { limit: limit as u32, cursor: call.query.get("cursor").map(str::to_owned) };
        let (mut items, mut read) = (Vec::new(), 0);
        loop {
            let found = database.versions(&page).await?;
            read += found.items.len();
            for head in found.items.iter().filter(|head| has(head)) {
                items.push(json!(VersionAnswer::new(head)));
                if items.len() == wanted {
                    // More may follow unless this was the very last version.
                    let next = (head.version > 1).then(|| head.version.to_string());
                    return Ok(ApiAnswer::list(items, next));
                }
            }
            if found.next.is_none() || read >= SEARCHED_MAX {
                return Ok(ApiAnswer::list(items, found.next));
            }
            page.cursor = found.next;
        }
    })
}

/// The version that a segment of the path names.
async fn version(call: &ApiCall, segment: usize) -> Result<PolicyVersion, ApiError> {
    let name = call.path.get(segment);
    let missing = || ApiError::NotFound { what: "version", name: name.chars().take(64).collect() };
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
    let number = name.parse().ok().filter(|_| is_number).ok_or_else(missing)?;
    database(call)?.version(number).await?.ok_or_else(missing)
}

/// The text of a version, as the caller may see it.
async fn visible(call: &ApiCall, text: String) -> Result<String, ApiError> {
    match call.principal().role < AccessRole::Editor {
        true => call.control().run_long(move || masked_text(&text)).await.ok_or(ApiError::Internal),
        false => Ok(text),
    }
}

/// The text of a version, whole.
fn text(version: PolicyVersion) -> Result<String, ApiError> {
    version.text.ok_or_else(|| {
        let number = version.head.version;
        ApiError::Conflict(format!(
            "the text of version {number} is no longer kept, since newer ones have taken its place"
        ))
    })
}

/// `GET /versions/{n}`
pub(in crate::control::api) fn get(call: ApiCall) -> Answering {
    Box::pin(async move {
        let PolicyVersion { head, text } = version(&call, 0).await?;
        let text = match text {
            Some(text) => Some(visible(&call, text).await?),
            None => None,
        };
        let mut warnings: Value = serde_json::from_str(&head.warnings).unwrap_or_default();
        if call.principal().role < AccessRole::Editor {
            // It quotes the document, where values stand that may be secrets.
            for warning in warnings.as_array_mut().into_iter().flatten() {
                warning["saw"] = Value::Null;
            }
        }
        Ok(ApiAnswer::json(&VersionWithText { head: VersionAnswer::new(&head), warnings, text }))
    })
}

/// `GET /versions/{a}/diff/{b}`
pub(in crate::control::api) fn diff(call: ApiCall) -> Answering {
    Box::pin(async move {
        let (from, to) = (version(&call, 0).await?, version(&call, 1).await?);
        let turn = call.trial_turn().await?;
        let (from_number, to_number) = (from.head.version, to.head.version);
        let (from, to) = (text(from)?, text(to)?);
        let is_masked = call.principal().role < AccessRole::Editor;
        let compared = turn.run(call.control(), move || {
            let shown = |text: String| if is_masked { masked_text(&text) } else { text };
            let (from, to) = (shown(from), shown(to));
            let changes = policy_changes(&tree(&from), &tree(&to));
            let changes =
                changes.iter().map(|change| serde_json::from_str(&change.to_json()).unwrap_or_default());
            let text = text_diff(&from_number.to_string(), &from, &to_number.to_string(), &to);
            let changes = changes.collect();
            ApiAnswer::json(&VersionDifference { from: from_number, to: to_number, changes, text })
        });
        compared.await
    })
}

fn tree(text: &str) -> DocumentNode {
    let nothing = || parse("").expect("an empty text is null");
    parse(text).unwrap_or_else(|_| nothing())
}

/// `POST /versions/{n}/restore`
pub(in crate::control::api) fn restore(call: ApiCall) -> Answering {
    Box::pin(async move {
        changing::writable(call.control())?;
        let text = text(version(&call, 0).await?)?;
        let edit = move |_: &str| Ok(Edited { text: text.clone(), ..Edited::default() });
        changing::change(&call, Box::new(edit)).await
    })
}

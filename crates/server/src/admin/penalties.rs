//! `/debug/penalties`: the warnings and blocks of burst detectors that are in force, and lifting them.

use http::{Method, Request, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};
use tidegate::Clock;
use tidegate::engine::bursts::{BurstAction, BurstPenalty};

use super::endpoints::{AdminResponse, object, problem, refused, wrong_method};
use super::{AdminClient, guard};
use crate::node::Node;

/// The path of the list; that of a penalty is followed by `/` and its id.
pub(super) const PATH: &str = "/debug/penalties";

/// How many penalties are listed by default.
const LISTED_DEFAULT: usize = 100;
/// How many penalties can be listed at once.
const LISTED_MAX: usize = 1_000;

/// The id in the path of one penalty; `None` for another path.
pub(super) fn id_of(path: &str) -> Option<&str> {
    path.strip_prefix(PATH)?.strip_prefix('/')
}

/// Lists the penalties in force. Keys contain what clients have sent, so the page is not for everybody who can connect.
pub(super) async fn list<B>(node: &Node, caller: AdminClient, request: &Request<B>) -> AdminResponse {
    if let Err(refusal) = guard::check_token(node, caller, request.headers()) {
        return refused(refusal);
    }
    let (most, after) = match page(request.uri().query().unwrap_or_default()) {
        Ok(page) => page,
        Err(wrong) => return problem(StatusCode::BAD_REQUEST, &wrong, json!({})),
    };
    let page = node.limiter().burst_penalties(after, most).await;
    let items: Vec<Value> = page.penalties.iter().map(shown).collect();
    object(StatusCode::OK, &json!({ "items": items, "next": page.next.map(id_text) }))
}

/// Lifts a penalty.
pub(super) async fn one<B>(
    node: &Node,
    caller: AdminClient,
    request: &Request<B>,
    id: &str,
) -> AdminResponse {
    if let Err(refusal) = guard::check_token(node, caller, request.headers()) {
        return refused(refusal);
    }
    if request.method() != Method::DELETE {
        return wrong_method("a penalty can only be lifted: use DELETE", "DELETE");
    }
    let lifted = match parse_id(id) {
        Some(id) => node.limiter().lift_burst_penalty(id).await,
        None => Ok(None),
    };
    match lifted {
        Err(error) => problem(StatusCode::SERVICE_UNAVAILABLE, &error.to_string(), json!({})),
        Ok(Some(penalty)) => {
            tracing::info!(detector = %penalty.detector, kind = kind(penalty.kind), id, "burst penalty lifted");
            node.events().penalty_lifted(&penalty.detector, &penalty.key, None, node.clock().wall());
            object(StatusCode::OK, &json!({ "lifted": shown(&penalty) }))
        }
        Ok(None) => {
            let detail = format!("no penalty in force has this id; GET {PATH} lists them");
            problem(StatusCode::NOT_FOUND, &detail, json!({}))
        }
    }
}

pub(crate) fn shown(penalty: &BurstPenalty) -> Value {
    json!({
        "id": id_text(penalty.id),
        "detector": penalty.detector,
        "key": penalty.key,
        "kind": kind(penalty.kind),
        "until": until(penalty),
    })
}

fn kind(action: BurstAction) -> &'static str {
    match action {
        BurstAction::Warned => "warning",
        BurstAction::Blocked => "block",
    }
}

/// When it ends, rounded up to a second; null beyond what a date can express.
fn until(penalty: &BurstPenalty) -> Option<String> {
    let seconds = i64::try_from(penalty.until.as_secs_ceil()).ok()?;
    Timestamp::from_second(seconds).ok().map(|time| time.to_string())
}

pub(crate) fn id_text(id: u128) -> String {
    format!("{id:032x}")
}

pub(crate) fn parse_id(text: &str) -> Option<u128> {
    let is_id = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    u128::from_str_radix(text, 16).ok().filter(|_| is_id)
}

/// How many to list, and the id after which to begin.
fn page(query: &str) -> Result<(usize, Option<u128>), String> {
    let (mut most, mut after) = (LISTED_DEFAULT, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=').unwrap_or((pair, "")) {
            ("limit", value) => {
                let number = value.parse().ok().filter(|number| (1..=LISTED_MAX).contains(number));
                most = number.ok_or_else(|| format!("`limit` must be a number from 1 to {LISTED_MAX}"))?;
            }
            ("cursor", value) => {
                let id = parse_id(value).ok_or("`cursor` must be the `next` of an earlier page")?;
                after = Some(id);
            }
            _ => return Err("the parameters are `limit` and `cursor`".to_owned()),
        }
    }
    Ok((most, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_bounded() {
        assert_eq!(page(""), Ok((LISTED_DEFAULT, None)));
        assert_eq!(page("limit=1000&cursor=000000000000000000000000000000ff"), Ok((1_000, Some(255))));
        let bad = [
            "limit=0",
            "limit=1001",
            "limit",
            "cursor=",
            "cursor=ff",
            "cursor=+00000000000000000000000000000ff",
            "top=1",
        ];
        for bad in bad {
            assert!(page(bad).is_err(), "{bad}");
        }
    }
}

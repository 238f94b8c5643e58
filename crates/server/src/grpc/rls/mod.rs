//! `envoy.service.ratelimit.v3.RateLimitService` (RLS).
//!
//! [`usual`] reads the usual request, of one descriptor, and writes its response without prost. All other requests are
//! decoded by prost; [`descriptors`] turns them into requests for the engine, which decides them all or nothing.

mod descriptors;
mod units;
mod usual;

use bytes::Bytes;
use prost::Message;
use tidegate::engine::{Decision, Joint, JointBy, JointDecision};
use tidegate::{Cost, Nanos, NowOrLater};

use super::proto::envoy::service::ratelimit::v3::rate_limit_response::{Code, DescriptorStatus, RateLimit};
use super::proto::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use super::render;
use super::transport::error::CallError;
use super::transport::{frame, guard};
use crate::node::Node;
use crate::observe::{Origin, OwnedOrigin};
use crate::serve::Peer;
use descriptors::{DescriptorAction, DescriptorRequest};
use usual::UsualRequest;

/// The status that Envoy sends to a refused client by default.
const REFUSED: u16 = 429;

/// The outcome for one descriptor.
enum Outcome {
    Decided(Decision),
    /// Decided by a limit in the request that admits nothing.
    Closed(Decision),
    Refunded(Decision),
    /// There was nothing to refund.
    Nothing,
}

/// Answers a request, which is admitted or refused as a whole: at once if the store answers at once.
pub(super) fn should_rate_limit<'n>(
    node: &'n Node,
    origin: Origin<'_>,
    peer: Peer,
    message: Bytes,
) -> NowOrLater<'n, Result<Bytes, CallError>> {
    if let Some(usual) = UsualRequest::read(&message) {
        let hits = Cost::new(usual.hits_addend.max(1));
        let request = descriptors::request(usual.domain, usual.entries.into_iter(), hits);
        return node.check(origin, &request).map(|decision| Ok(answer_one(decision)));
    }
    let origin = OwnedOrigin::of(origin);
    NowOrLater::later(async move {
        let decoded = RateLimitRequest::decode(message)?;
        let requests = descriptors::read(&decoded)?;
        if requests.iter().any(|descriptor| !matches!(descriptor.action, DescriptorAction::Check)) {
            guard::may_send_limits(node, peer)?;
        }
        let decided = decide(node, origin.as_origin(), &requests).await?;
        Ok(frame::encode(&answer(requests.iter().map(|descriptor| &descriptor.action), &decided)))
    })
}

/// The response to a request of one descriptor, decided by the policy.
fn answer_one(decision: Decision) -> Bytes {
    usual::answer(&decision).unwrap_or_else(|| {
        let refused = !decision.is_allowed();
        let decided = Decided { refused, outcomes: vec![Outcome::Decided(decision)] };
        frame::encode(&answer([&DescriptorAction::Check].into_iter(), &decided))
    })
}

/// The outcome of a request.
struct Decided {
    /// Was it refused as a whole? Then nothing was charged, even if some of its descriptors alone were allowed.
    refused: bool,
    /// One for each descriptor.
    outcomes: Vec<Outcome>,
}

/// Decides a request. Every error occurs before anything is charged.
async fn decide(
    node: &Node,
    origin: Origin<'_>,
    requests: &[DescriptorRequest<'_>],
) -> Result<Decided, CallError> {
    for descriptor in requests {
        if let DescriptorAction::RefundAdHoc(bucket, _) = &descriptor.action {
            let _ = node.peek_ad_hoc(&bucket.at(Cost::ZERO)).await?;
        }
    }
    let joint: Vec<Joint<'_, '_>> = requests.iter().filter_map(joint).collect();
    let JointDecision { allowed, decisions } = node.check_joint(origin, &joint).await?;
    // A refused request refunds nothing.
    let refunded = |cost: Cost| if allowed { cost } else { Cost::ZERO };
    let mut decided = decisions.into_iter();
    let mut next = || decided.next().expect("`check_joint` returns a decision for each");
    let mut outcomes = Vec::with_capacity(requests.len());
    for descriptor in requests {
        outcomes.push(match &descriptor.action {
            DescriptorAction::Check | DescriptorAction::CheckAdHoc(_) => Outcome::Decided(next()),
            DescriptorAction::CheckClosed => Outcome::Closed(next()),
            DescriptorAction::Refund(cost) => {
                Outcome::Refunded(node.refund(&descriptor.request, refunded(*cost)).await)
            }
            // It fails only if the bucket's numbers were evicted as idle and there is no capacity to add them again. An
            // idle bucket is full, so there is nothing to refund.
            DescriptorAction::RefundAdHoc(bucket, cost) => {
                let refund = node.refund_ad_hoc(&bucket.at(refunded(*cost))).await;
                refund.map_or(Outcome::Nothing, Outcome::Refunded)
            }
            DescriptorAction::RefundClosed => Outcome::Nothing,
        });
    }
    Ok(Decided { refused: !allowed, outcomes })
}

/// The part of a descriptor in the joint decision; `None` for a refund.
fn joint<'a, 'r>(descriptor: &'a DescriptorRequest<'r>) -> Option<Joint<'a, 'r>> {
    let by = match &descriptor.action {
        DescriptorAction::Check => JointBy::Policy,
        DescriptorAction::CheckAdHoc(bucket) => JointBy::AdHoc(bucket.limit, &bucket.key),
        DescriptorAction::CheckClosed => JointBy::Closed,
        DescriptorAction::Refund(_) | DescriptorAction::RefundAdHoc(..) | DescriptorAction::RefundClosed => {
            return None;
        }
    };
    Some(Joint { request: &descriptor.request, by })
}

fn answer<'a>(actions: impl Iterator<Item = &'a DescriptorAction>, decided: &Decided) -> RateLimitResponse {
    let Decided { refused, outcomes } = decided;
    let refused = *refused;
    let statuses: Vec<DescriptorStatus> =
        actions.zip(outcomes).map(|(action, outcome)| status(action, outcome)).collect();
    let mut answer = RateLimitResponse { statuses, ..RateLimitResponse::default() };
    answer.set_overall_code(if refused { Code::OverLimit } else { Code::Ok });
    let decisions = outcomes.iter().filter_map(|outcome| match outcome {
        Outcome::Decided(decision) => Some(decision),
        Outcome::Closed(_) | Outcome::Refunded(_) | Outcome::Nothing => None,
    });
    // If only limits that admit nothing have refused, no headers are sent: no wait would help.
    let reported =
        render::most_restrictive(decisions.clone()).filter(|reported| reported.is_allowed() != refused);
    if let Some(reported) = reported {
        answer.response_headers_to_add = render::response_headers(reported);
        answer.dynamic_metadata = render::metadata(reported, decisions.clone());
        if refused {
            answer.raw_body = reported.problem_body(REFUSED).into();
        } else {
            answer.request_headers_to_add = decisions.filter_map(render::degraded_header).take(1).collect();
        }
    }
    answer
}

fn status(action: &DescriptorAction, outcome: &Outcome) -> DescriptorStatus {
    let mut status = DescriptorStatus::default();
    let (code, decision) = match outcome {
        Outcome::Closed(decision) if decision.is_allowed() => (Code::Ok, None),
        Outcome::Closed(_) => (Code::OverLimit, None),
        Outcome::Nothing => (Code::Ok, None),
        Outcome::Refunded(decision) => (Code::Ok, Some(decision)),
        Outcome::Decided(decision) if decision.is_allowed() => (Code::Ok, Some(decision)),
        Outcome::Decided(decision) => (Code::OverLimit, Some(decision)),
    };
    status.set_code(code);
    if let Some(tightest) = decision.and_then(Decision::tightest) {
        let name = tightest.rule.name.to_string();
        let limit = match action {
            DescriptorAction::CheckAdHoc(bucket) | DescriptorAction::RefundAdHoc(bucket, _) => {
                RateLimit { requests_per_unit: bucket.limit.capacity, unit: bucket.unit.into(), name }
            }
            _ => units::shown(&tightest.rule.numbers, name),
        };
        status.current_limit = Some(limit);
        status.limit_remaining = tightest.decision.remaining;
        status.duration_until_reset = Some(duration(tightest.decision.reset_after));
    }
    status
}

fn duration(span: Nanos) -> prost_types::Duration {
    const SECOND: u64 = Nanos::SECOND.get();
    let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let nanos = i32::try_from(span.get() % SECOND).expect("less than a second");
    prost_types::Duration { seconds: whole(span.get() / SECOND), nanos }
}

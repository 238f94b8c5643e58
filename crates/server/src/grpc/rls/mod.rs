//! `envoy.service.ratelimit.v3.RateLimitService`.

mod ask;
mod units;
mod usual;

use bytes::Bytes;
use prost::Message;
use tidegate::engine::{Decision, Joint, JointBy, JointDecision};
use tidegate::{Cost, Nanos, NowOrLater};

use super::proto::envoy::service::ratelimit::v3::rate_limit_response::{Code, DescriptorStatus, RateLimit};
use super::proto::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use super::told;
use super::transport::error::CallError;
use super::transport::{frame, guard};
use crate::node::Node;
use crate::observe::{Origin, OwnedOrigin};
use crate::serve::Peer;
use ask::{DescriptorAction, DescriptorRequest};
use usual::UsualRequest;

/// The status that Envoy answers with, unless it is told to use another.
const REFUSED: u16 = 429;

/// What was decided about a descriptor.
enum Outcome {
    Decided(Decision),
    /// By a limit that the request brings along and that admits nothing.
    Closed(Decision),
    GivenBack(Decision),
    /// There is nothing to give back.
    Nothing,
}

/// Answers a request, which is admitted or refused as a whole: at once where the store answers at once.
pub(super) fn should_rate_limit<'n>(
    node: &'n Node,
    origin: Origin<'_>,
    peer: Peer,
    message: Bytes,
) -> NowOrLater<'n, Result<Bytes, CallError>> {
    if let Some(usual) = UsualRequest::read(&message) {
        let hits = Cost::new(usual.hits_addend.max(1));
        let request = ask::request(usual.domain, usual.entries.into_iter(), hits);
        return node.check(origin, &request).map(|decision| Ok(answer_one(decision)));
    }
    let origin = OwnedOrigin::of(origin);
    NowOrLater::later(async move {
        let asked = RateLimitRequest::decode(message)?;
        let asks = ask::read(&asked)?;
        if asks.iter().any(|ask| !matches!(ask.verb, DescriptorAction::Check)) {
            guard::may_bring_limits(node, peer)?;
        }
        let decided = decide(node, origin.as_origin(), &asks).await?;
        Ok(frame::encode(&answer(asks.iter().map(|ask| &ask.verb), &decided)))
    })
}

/// The answer to a request of one descriptor, decided by the policy.
fn answer_one(decision: Decision) -> Bytes {
    usual::answer(&decision).unwrap_or_else(|| {
        let refused = !decision.is_allowed();
        let decided = Decided { refused, outcomes: vec![Outcome::Decided(decision)] };
        frame::encode(&answer([&DescriptorAction::Check].into_iter(), &decided))
    })
}

/// What was decided about a request.
struct Decided {
    /// Was it refused as a whole? Then nothing was taken, whatever a descriptor says by itself.
    refused: bool,
    /// One for each descriptor.
    outcomes: Vec<Outcome>,
}

/// What fails does so before anything is charged.
async fn decide(
    node: &Node,
    origin: Origin<'_>,
    asks: &[DescriptorRequest<'_>],
) -> Result<Decided, CallError> {
    for ask in asks {
        if let DescriptorAction::RefundAdHoc(bucket, _) = &ask.verb {
            let _ = node.peek_ad_hoc(&bucket.at(Cost::ZERO)).await?;
        }
    }
    let joint: Vec<Joint<'_, '_>> = asks.iter().filter_map(joint).collect();
    let JointDecision { allowed, decisions } = node.check_joint(origin, &joint).await?;
    // Who is refused has done nothing that could be undone.
    let given_back = |cost: Cost| if allowed { cost } else { Cost::ZERO };
    let mut decided = decisions.into_iter();
    let mut next = || decided.next().expect("there is a decision for each");
    let mut outcomes = Vec::with_capacity(asks.len());
    for ask in asks {
        outcomes.push(match &ask.verb {
            DescriptorAction::Check | DescriptorAction::CheckAdHoc(_) => Outcome::Decided(next()),
            DescriptorAction::CheckClosed => Outcome::Closed(next()),
            DescriptorAction::Refund(cost) => {
                Outcome::GivenBack(node.refund(&ask.request, given_back(*cost)).await)
            }
            // Where there is no room for its numbers any more, its bucket was full.
            DescriptorAction::RefundAdHoc(bucket, cost) => {
                let refunded = node.refund_ad_hoc(&bucket.at(given_back(*cost))).await;
                refunded.map_or(Outcome::Nothing, Outcome::GivenBack)
            }
            DescriptorAction::RefundClosed => Outcome::Nothing,
        });
    }
    Ok(Decided { refused: !allowed, outcomes })
}

/// What takes part in a decision together with others.
fn joint<'a, 'r>(ask: &'a DescriptorRequest<'r>) -> Option<Joint<'a, 'r>> {
    let by = match &ask.verb {
        DescriptorAction::Check => JointBy::Policy,
        DescriptorAction::CheckAdHoc(bucket) => JointBy::AdHoc(bucket.limit, &bucket.key),
        DescriptorAction::CheckClosed => JointBy::Closed,
        DescriptorAction::Refund(_) | DescriptorAction::RefundAdHoc(..) | DescriptorAction::RefundClosed => {
            return None;
        }
    };
    Some(Joint { request: &ask.request, by })
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
        Outcome::Closed(_) | Outcome::GivenBack(_) | Outcome::Nothing => None,
    });
    // Where what is closed refuses alone, there is nothing to tell: no wait will do.
    let speaker = told::speaker(decisions.clone()).filter(|speaker| speaker.is_allowed() != refused);
    if let Some(speaker) = speaker {
        answer.response_headers_to_add = told::response_headers(speaker);
        answer.dynamic_metadata = told::metadata(speaker, decisions.clone());
        if refused {
            answer.raw_body = speaker.problem_body(REFUSED).into();
        } else {
            answer.request_headers_to_add = decisions.filter_map(told::degraded).take(1).collect();
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
        Outcome::GivenBack(decision) => (Code::Ok, Some(decision)),
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

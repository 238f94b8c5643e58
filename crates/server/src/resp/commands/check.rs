//! `TG.CHECK`: decides a request by the policy.

use tidegate::engine::{Decision, Request};
use tidegate::{Nanos, NowOrLater};

use crate::observe::{Origin, Protocol};
use crate::resp::exchange::Batch;
use crate::resp::protocol::decode::CommandArgs;
use crate::resp::protocol::reply::{EscapedBytes, ReplyWriter};
use crate::wire::{FieldError, RequestFields};

/// Why a command is not a valid request.
#[derive(Debug, thiserror::Error)]
enum CheckError<'a> {
    #[error("field '{}' has no value", EscapedBytes(.0))]
    NoValue(&'a [u8]),
    #[error("'{}' is not UTF-8", EscapedBytes(.0))]
    NotText(&'a [u8]),
    #[error(transparent)]
    RequestField(#[from] FieldError),
}

/// Answers the command, or adds a pending reply.
pub(crate) fn answer(batch: &mut Batch<'_, '_>, args: CommandArgs<'_>, reply: &mut ReplyWriter<'_>) {
    let origin = Origin { protocol: Protocol::Resp, traceparent: None };
    match read(args) {
        Ok(request) => match batch.node.check(origin, &request).started() {
            NowOrLater::Now(decision) => write(decision, reply),
            NowOrLater::Later(later) => batch.wait(later, write, reply),
        },
        Err(error) => reply.error(format_args!("ERR {error}")),
    }
}

fn read(args: CommandArgs<'_>) -> Result<Request<'_>, CheckError<'_>> {
    let mut fields = RequestFields::new();
    let mut words = args.iter().skip(1);
    while let Some(name) = words.next() {
        let value = words.next().ok_or(CheckError::NoValue(name))?;
        fields.set(text(name)?, text(value)?)?;
    }
    Ok(fields.into_request())
}

fn text(bytes: &[u8]) -> Result<&str, CheckError<'_>> {
    std::str::from_utf8(bytes).map_err(|_| CheckError::NotText(bytes))
}

/// Writes: allowed, limit, remaining, milliseconds until a retry and until the bucket is full, the violated rule, the
/// tag of a degraded request.
fn write(decision: Decision, reply: &mut ReplyWriter<'_>) {
    let standing = decision.tightest().map(|limit| limit.decision);
    let millis = |span: Option<Nanos>| {
        span.map_or(-1, |span| i64::try_from(span.as_millis_ceil()).unwrap_or(i64::MAX))
    };
    reply.array(7);
    reply.integer(i64::from(decision.is_allowed()));
    reply.integer(standing.map_or(-1, |standing| i64::from(standing.limit)));
    reply.integer(standing.map_or(-1, |standing| i64::from(standing.remaining)));
    reply.integer(millis(decision.wait()));
    reply.integer(millis(standing.map(|standing| standing.reset_after)));
    for name in [decision.violated_rule(), decision.degraded()] {
        match name {
            Some(name) => reply.bulk(name.as_bytes()),
            None => reply.null(),
        }
    }
}

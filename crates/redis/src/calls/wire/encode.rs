//! Encodes a call for the scripts.
//!
//! The first argument is packed: one character for the verb, then a record of fixed length for each key. Numbers are
//! doubles, the only numbers of Lua in Redis. A second record follows a key that has a delay, a lease, a hand-back or a
//! migrated state. The next arguments are the texts of the keys, then the migrated states.

use tidegate_core::{Limit, LogQuota, Meter, Nanos, Quota, WindowQuota};

use super::numbers::{Scale, double, max_windows_ahead, micros, to_pair, whole_micros};
use super::{EncodedCall, order};
use crate::calls::scripts;
use crate::calls::{BucketEntry, CallVerb, ScriptCall, State};

const BUCKET: u8 = 1;
const SLIDING: u8 = 2;
const FIXED: u8 = 3;
const LOG: u8 = 4;

type Args = Vec<Vec<u8>>;

/// Encodes a call.
///
/// # Panics
/// When scripts cannot count one of its limits; a store refuses such a limit when it is named.
#[cfg(feature = "testing")]
pub fn encode(call: &ScriptCall) -> EncodedCall {
    use super::plain::PlainCall;

    PlainCall::of(call).map_or_else(|| encode_general(call), PlainCall::encode)
}

/// Encodes a call that is not plain.
///
/// # Panics
/// When scripts cannot count one of its limits; a store refuses such a limit when it is named.
pub(crate) fn encode_general(call: &ScriptCall) -> EncodedCall {
    let order = order(call);
    let logs = call.entries.iter().any(|entry| matches!(entry.limit, Limit::Log(_)));
    let script = match call.verb {
        CallVerb::Take | CallVerb::Peek if !logs => &scripts::CHARGE,
        CallVerb::Take | CallVerb::Peek => &scripts::CHARGE_LOGS,
        CallVerb::Refund | CallVerb::HandBack => &scripts::GIVE_BACK,
    };
    let mut packed = Vec::with_capacity(1 + order.len() * 160);
    packed.push(match call.verb {
        CallVerb::Peek => b'0',
        CallVerb::Take => b'1',
        CallVerb::Refund => b'2',
        CallVerb::HandBack => b'3',
    });
    let mut args: Args = Vec::new();
    args.push(Vec::new());
    args.extend(order.iter().map(|&index| call.entries[index].text.as_bytes().to_vec()));
    for (position, &index) in order.iter().enumerate() {
        let entry = &call.entries[index];
        let earlier = |&before: &usize| call.entries[order[before]].key == entry.key;
        let same = (0..position).rev().find(earlier).filter(|_| call.verb != CallVerb::Peek);
        push_entry(&mut packed, &mut args, call.verb, entry, same.map_or(0, |before| before + 1));
    }
    args[0] = packed;
    push_time(&mut args, call.at);
    let keys = order.iter().map(|&index| call.entries[index].key.clone()).collect();
    EncodedCall { script: script.script(call.at.is_some()), keys, args }
}

/// The time of the call, if a test gives it.
pub(crate) fn push_time(args: &mut Args, at: Option<Nanos>) {
    if let Some(at) = at {
        args.push((micros(at) / 1_000_000).to_string().into_bytes());
        args.push((micros(at) % 1_000_000).to_string().into_bytes());
    }
}

fn push_entry(packed: &mut Vec<u8>, args: &mut Args, verb: CallVerb, entry: &BucketEntry, same: usize) {
    let more =
        entry.delay > Nanos::ZERO || entry.want > 0 || entry.migrated.is_some() || verb == CallVerb::HandBack;
    let (kind, numbers) = match &entry.limit {
        Limit::Meter(Meter::TokenBucket(quota)) => (BUCKET, bucket(quota, entry)),
        Limit::Meter(meter @ Meter::SlidingWindow(quota)) => (SLIDING, window(meter, quota, entry)),
        Limit::Meter(meter @ Meter::FixedWindow(quota)) => (FIXED, window(meter, quota, entry)),
        Limit::Log(quota) => (LOG, log(quota, entry)),
    };
    let same = u16::try_from(same).expect("a call has at most 4,000 entries");
    packed.extend([kind, u8::from(entry.binding)]);
    packed.extend(same.to_le_bytes());
    packed.push(u8::from(more));
    numbers.iter().for_each(|&number| packed.extend(double(number)));
    packed.extend(double(entry.spare.as_millis_ceil()));
    if more {
        extra_record(args, verb, entry).iter().for_each(|&number| packed.extend(double(number)));
    }
}

/// Period, base, ticks, nanos, span, cost, and how far in the future a state may lie.
fn bucket(quota: &Quota, entry: &BucketEntry) -> [u64; 9] {
    let scale = scale(quota);
    let (span, cost) = (scale.span(), scale.cost(entry.cost.get()));
    [scale.period, scale.base, scale.ticks, scale.nanos, span.0, span.1, cost.0, cost.1, scale.far()]
}

/// Length, limit, cost, and how far in the future a state may lie.
fn window(meter: &Meter, quota: &WindowQuota, entry: &BucketEntry) -> [u64; 9] {
    let (limit, cost) = (u64::from(quota.limit()), u64::from(entry.cost.get()));
    [micros(quota.length()), limit, cost, 0, 0, 0, 0, 0, max_windows_ahead(meter, quota)]
}

fn log(quota: &LogQuota, entry: &BucketEntry) -> [u64; 9] {
    let (limit, cost, window) =
        (u64::from(quota.limit()), u64::from(entry.cost.get()), micros(quota.window()));
    [window, limit, cost, 0, 0, 0, 0, 0, 2 * window + micros(Nanos::DAY)]
}

/// The second record: the delay or the instant of the charge, the tokens to lease and their size, and the migrated
/// state.
fn extra_record(args: &mut Args, verb: CallVerb, entry: &BucketEntry) -> [u64; 8] {
    let (first, second) = match verb {
        CallVerb::HandBack => charged(entry),
        CallVerb::Refund => (0, 0),
        CallVerb::Take | CallVerb::Peek => {
            let delay = micros(clamp_delay(&entry.limit, whole_micros(entry.delay)));
            (delay / 1_000_000, delay % 1_000_000)
        }
    };
    let (want, token) = match &entry.limit {
        Limit::Meter(Meter::TokenBucket(quota)) => (u64::from(entry.want), scale(quota).token()),
        _ => (0, (0, 0)),
    };
    let (raw, migrated) = migrated(args, entry);
    [first, second, want, token.0, token.1, raw, migrated.0, migrated.1]
}

/// When a charge that is handed back was counted: in ticks for a bucket, as a window's number, or in microseconds for a
/// log.
fn charged(entry: &BucketEntry) -> (u64, u64) {
    let delay = whole_micros(entry.delay);
    match &entry.limit {
        Limit::Meter(meter) => {
            let at = meter.as_of(entry.charged_at, delay);
            match meter {
                Meter::TokenBucket(quota) => scale(quota).instant(at),
                Meter::SlidingWindow(quota) | Meter::FixedWindow(quota) => {
                    (at.min(Nanos::END).get() / quota.length().get(), 0)
                }
            }
        }
        Limit::Log(_) => (micros(entry.charged_at.saturating_add(delay).min(Nanos::END)), 0),
    }
}

/// The number of the argument with the stored value, and the migrated state: two numbers, or for a log the number of
/// the argument with its entries.
fn migrated(args: &mut Args, entry: &BucketEntry) -> (u64, (u64, u64)) {
    let Some((raw, state)) = entry.migrated.as_deref() else { return (0, (0, 0)) };
    args.push(raw.clone());
    let raw_at = args.len() as u64;
    match (&entry.limit, state) {
        (Limit::Meter(meter), State::Word(word)) => (raw_at, to_pair(meter, *word, entry.charged_at)),
        (Limit::Log(_), State::Log(log)) => {
            let mut entries = Vec::with_capacity(log.entries.len() * 16);
            for (at, tokens) in &log.entries {
                entries.extend(double(micros(*at)));
                entries.extend(double(u64::from(*tokens)));
            }
            args.push(entries);
            (raw_at, (raw_at + 1, 0))
        }
        _ => unreachable!("a state is migrated to the kind of its limit"),
    }
}

/// The delay, cut to the farthest instant that the limit can represent.
fn clamp_delay(limit: &Limit, delay: Nanos) -> Nanos {
    limit.meter().map_or(delay, |meter| meter.as_of(Nanos::ZERO, delay)).min(Nanos::END)
}

fn scale(quota: &Quota) -> Scale {
    Scale::new(quota).expect("a store names only limits that scripts can count")
}

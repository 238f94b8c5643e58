//! Reads scalars: a value, or what is wrong with it. Numbers are read exactly, without floating point.

use std::net::SocketAddr;

use ipnet::IpNet;
use tidegate_core::Nanos;

use crate::node::{DocumentNode, ValueKind};

use super::hints;
use super::{SCALAR_BYTES_MAX, Shape, WINDOW_MILLIS_MAX, WordShape};

/// Why a value does not have its shape. It does not say what is wanted instead: the shape does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueFault {
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// How to fix it.
    pub hint: Option<String>,
}

impl ValueFault {
    /// A fault with its message, and a hint if there is one.
    pub fn new(message: impl Into<String>, hint: Option<String>) -> ValueFault {
        ValueFault { message: message.into(), hint }
    }

    /// The fault "⟨value⟩ is not ⟨what⟩", with the value quoted and shortened.
    pub fn not(node: &DocumentNode, what: &str, hint: Option<String>) -> ValueFault {
        ValueFault::new(format!("{} is not {what}", node.quoted()), hint)
    }
}

/// Checks that a scalar has a shape.
pub(super) fn check(node: &DocumentNode, shape: &Shape) -> Result<(), ValueFault> {
    match shape {
        Shape::Text(max) => text(node, *max),
        Shape::Scalar => scalar(node),
        Shape::Integer(min, max) => integer(node, *min, *max).map(drop),
        Shape::Decimal(min, max) => decimal(node, *min, *max).map(drop),
        Shape::Flag => flag(node),
        Shape::Duration(max) => duration(node, *max).map(drop),
        Shape::Window => window(node).map(drop),
        Shape::Word(words) => word(node, words),
        Shape::Cidr => cidr(node).map(drop),
        Shape::Instant => instant(node).map(drop),
        Shape::Listen => listen(node).map(drop),
        Shape::Secret(max) => secret(node, *max),
        Shape::Custom(custom) => (custom.check)(node),
        Shape::List(_) | Shape::OneOrMore(_) | Shape::Object(_) | Shape::ObjectOr(..) => {
            Err(ValueFault::new("a list or a map belongs here", None))
        }
    }
}

/// Does a scalar have a shape, or the shape of one item of it?
pub(super) fn fits(node: &DocumentNode, shape: &Shape) -> bool {
    match shape {
        Shape::OneOrMore(item) => check(node, item).is_ok(),
        shape => check(node, shape).is_ok(),
    }
}

fn text(node: &DocumentNode, max: usize) -> Result<(), ValueFault> {
    match node.scalar() {
        Some(text) if text.len() <= max => Ok(()),
        Some(text) => Err(ValueFault::new(format!("the text is too long: {} bytes", text.len()), None)),
        None => Err(ValueFault::not(node, "text", None)),
    }
}

fn scalar(node: &DocumentNode) -> Result<(), ValueFault> {
    if node.scalar() == Some("") {
        return Err(ValueFault::new("an empty value matches nothing", None));
    }
    text(node, SCALAR_BYTES_MAX)
}

fn flag(node: &DocumentNode) -> Result<(), ValueFault> {
    match node.kind {
        ValueKind::Bool(_) => Ok(()),
        _ => Err(ValueFault::not(node, "true or false", hints::flag(node))),
    }
}

fn word(node: &DocumentNode, words: &[WordShape]) -> Result<(), ValueFault> {
    let seen = node.scalar().unwrap_or_default();
    if words.iter().any(|word| word.name == seen) {
        return Ok(());
    }
    Err(ValueFault::not(node, "a valid choice", hints::word(seen, words)))
}

/// Reads a whole number in a range.
///
/// # Errors
/// When it is not a whole number in plain decimal digits, or out of range.
pub fn integer(node: &DocumentNode, min: u64, max: u64) -> Result<u64, ValueFault> {
    let digits = match &node.kind {
        ValueKind::Number(text) if text.bytes().all(|b| b.is_ascii_digit()) => text,
        _ => return Err(ValueFault::not(node, "a whole number", hints::integer(node))),
    };
    if digits.len() > 1 && digits.starts_with('0') {
        let plain = digits.trim_start_matches('0');
        let hint =
            format!("write it without zeros in front: `{}`", if plain.is_empty() { "0" } else { plain });
        return Err(ValueFault::not(node, "a plain number", Some(hint)));
    }
    match digits.parse() {
        Ok(number) if (min..=max).contains(&number) => Ok(number),
        _ => Err(ValueFault::new(format!("{} is out of range", node.quoted()), None)),
    }
}

/// Reads a decimal number; it and its range are in millionths.
///
/// # Errors
/// When it is not a decimal number of at most six decimals, or out of range.
pub fn decimal(node: &DocumentNode, min: u64, max: u64) -> Result<u64, ValueFault> {
    let ValueKind::Number(text) = &node.kind else {
        return Err(ValueFault::not(node, "a number", hints::integer(node)));
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let plain = [whole, fraction].iter().all(|part| part.bytes().all(|b| b.is_ascii_digit()));
    if !plain {
        let hint = "write it in plain digits, as `0.25`".to_owned();
        return Err(ValueFault::not(node, "a plain decimal number", Some(hint)));
    }
    if fraction.len() > 6 {
        return Err(ValueFault::new(format!("{} has more than six decimals", node.quoted()), None));
    }
    let number = |digits: &str| if digits.is_empty() { Ok(0) } else { digits.parse::<u64>() };
    let millionths = number(whole).ok().and_then(|whole| {
        let fraction = number(&format!("{fraction:0<6}")).ok()?;
        whole.checked_mul(1_000_000)?.checked_add(fraction)
    });
    match millionths {
        Some(millionths) if (min..=max).contains(&millionths) => Ok(millionths),
        _ => Err(ValueFault::new(format!("{} is out of range", node.quoted()), None)),
    }
}

/// The digits of a duration such as `10m`, and its unit in milliseconds; `None` if the text does not have this form.
pub fn number_and_unit(text: &str) -> Option<(&str, u64)> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(unit_at);
    let millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    (!digits.is_empty()).then_some((digits, millis))
}

/// Reads a duration, such as `250ms` or `10s`, of at most `max_millis` milliseconds.
///
/// # Errors
/// When it is not a duration, zero, or too long.
pub fn duration(node: &DocumentNode, max_millis: u64) -> Result<Nanos, ValueFault> {
    let Some((digits, millis)) = number_and_unit(node.scalar().unwrap_or_default()) else {
        return Err(ValueFault::not(node, "a duration", hints::duration(node)));
    };
    match digits.parse::<u64>().ok().and_then(|n| n.checked_mul(millis)) {
        Some(0) => Err(ValueFault::new("the duration is zero", None)),
        Some(total) if total <= max_millis => Ok(Nanos::from_millis(total)),
        _ => Err(ValueFault::new(format!("{} is too long", node.quoted()), None)),
    }
}

/// Windows that are written as a word.
pub(super) const WINDOWS: &[(&str, Nanos)] =
    &[("second", Nanos::SECOND), ("minute", Nanos::MINUTE), ("hour", Nanos::HOUR), ("day", Nanos::DAY)];

/// Reads a window: `second`, `minute`, `hour`, `day`, or a duration.
///
/// # Errors
/// When it is neither, or too long.
pub fn window(node: &DocumentNode) -> Result<Nanos, ValueFault> {
    let seen = node.scalar().unwrap_or_default();
    if let Some((_, length)) = WINDOWS.iter().find(|(word, _)| *word == seen) {
        return Ok(*length);
    }
    let begins_as_duration = seen.starts_with(|c: char| c.is_ascii_digit());
    match duration(node, WINDOW_MILLIS_MAX) {
        Err(_) if !begins_as_duration => Err(ValueFault::not(node, "a window", hints::window(node))),
        read => read,
    }
}

/// Reads a network. A plain address is a network of one, and IPv4 that is [mapped into IPv6](unmapped) becomes IPv4.
///
/// # Errors
/// When it is not a network, or has bits beyond its prefix.
pub fn cidr(node: &DocumentNode) -> Result<IpNet, ValueFault> {
    let seen = node.scalar().unwrap_or_default();
    if let Ok(address) = seen.parse::<std::net::IpAddr>() {
        return Ok(IpNet::from(address.to_canonical()));
    }
    let network: IpNet =
        seen.parse().map_err(|_| ValueFault::not(node, "an address or a network", hints::network(seen)))?;
    let network = unmapped(network);
    let truncated = network.trunc();
    if truncated != network {
        let hint = format!("write `{truncated}` for the network, or `{}` for the address", network.addr());
        return Err(ValueFault::new(format!("{} has bits beyond its prefix", node.quoted()), Some(hint)));
    }
    Ok(network)
}

/// Turns a network of IPv4 addresses mapped into IPv6 (`::ffff:10.0.0.0/104`) into the IPv4 network (`10.0.0.0/8`).
/// Any other network stays as it is.
pub fn unmapped(network: IpNet) -> IpNet {
    const MAPPED: u8 = 96;
    let IpNet::V6(v6) = network else { return network };
    let v4 = v6.addr().to_ipv4_mapped().zip(v6.prefix_len().checked_sub(MAPPED));
    v4.and_then(|(address, length)| IpNet::new(address.into(), length).ok()).unwrap_or(network)
}

/// Reads an address to listen on; `None` for `off`.
///
/// # Errors
/// When it is neither `off` nor an address with a port.
pub fn listen(node: &DocumentNode) -> Result<Option<SocketAddr>, ValueFault> {
    let seen = node.scalar().unwrap_or_default();
    match seen {
        "off" => Ok(None),
        _ => seen.parse().map(Some).map_err(|_| ValueFault::not(node, "an address", hints::listen(seen))),
    }
}

/// Checks a secret. The fault does not repeat it.
fn secret(node: &DocumentNode, max: usize) -> Result<(), ValueFault> {
    match node.scalar() {
        Some("") => Err(ValueFault::new("the secret is empty", None)),
        Some(text) if text.len() <= max => Ok(()),
        Some(text) => Err(ValueFault::new(format!("the secret is too long: {} bytes", text.len()), None)),
        None => Err(ValueFault::new(format!("{} is not a secret", node.kind_name()), None)),
    }
}

/// A point in time (RFC 3339) from text, as the time since 1970; `None` if it is none, or outside the years 1970 to
/// 2554.
pub fn instant_of(text: &str) -> Option<Nanos> {
    let stamp: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(stamp.as_nanosecond()).ok().map(Nanos::new)
}

/// Reads a point in time (RFC 3339), as the time since 1970.
///
/// # Errors
/// When it is not a point in time, or outside the years 1970 to 2554.
pub fn instant(node: &DocumentNode) -> Result<Nanos, ValueFault> {
    let seen = node.scalar().unwrap_or_default();
    let stamp: jiff::Timestamp =
        seen.parse().map_err(|_| ValueFault::not(node, "a point in time", hints::instant(seen)))?;
    match u64::try_from(stamp.as_nanosecond()) {
        Ok(nanos) => Ok(Nanos::new(nanos)),
        Err(_) if stamp < jiff::Timestamp::UNIX_EPOCH => {
            Err(ValueFault::new(format!("{} is before 1970", node.quoted()), None))
        }
        Err(_) => {
            let hint =
                "the latest is `2554-07-21T23:34:33Z`; leave the field out if there is no end".to_owned();
            Err(ValueFault::new(format!("{} is too far away", node.quoted()), Some(hint)))
        }
    }
}

//! Slots of a Cluster: the slot of a key, and the reply to `CLUSTER SLOTS`.

use redis::Value;

use crate::client::address::HostPort;

/// How many slots a Cluster has.
const SLOTS: u16 = 16_384;

/// The most ranges that are read from one reply: each slot could be a range.
const RANGES_MAX: usize = SLOTS as usize;

/// The slot of a key: of its hash tag, the text between the first braces, if there is one; else of the whole key.
pub(super) fn slot(key: &[u8]) -> u16 {
    let tagged = key.iter().position(|&byte| byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        rest.iter().position(|&byte| byte == b'}').filter(|&length| length > 0).map(|length| &rest[..length])
    });
    crc16(tagged.unwrap_or(key)) % SLOTS
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

/// A range of slots, and its master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SlotRange {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) master: HostPort,
}

/// Parses the reply to `CLUSTER SLOTS` of the node at `from`, sorted by slot. Masters without a known address are left
/// out.
///
/// # Errors
/// When the reply is malformed.
pub(super) fn read(answer: &Value, from: &HostPort) -> Result<Vec<SlotRange>, String> {
    let Value::Array(entries) = answer else {
        return Err("unreadable answer".into());
    };
    let mut ranges = Vec::new();
    for entry in entries.iter().take(RANGES_MAX) {
        let Value::Array(parts) = entry else {
            return Err("unreadable answer".into());
        };
        let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = parts.as_slice() else {
            return Err("unreadable answer".into());
        };
        let (Ok(first), Ok(last)) = (u16::try_from(*first), u16::try_from(*last)) else {
            return Err("slots out of range".into());
        };
        if first > last || last >= SLOTS {
            return Err("slots out of range".into());
        }
        if let Some(master) = read_master(master, from) {
            ranges.push(SlotRange { first, last, master });
        }
    }
    ranges.sort_by_key(|range| range.first);
    Ok(ranges)
}

fn read_master(parts: &[Value], from: &HostPort) -> Option<HostPort> {
    let [host, Value::Int(port), ..] = parts else {
        return None;
    };
    let host = match host {
        Value::BulkString(host) if host == b"?" => return None,
        // An empty host means the node that answers.
        Value::BulkString(host) if !host.is_empty() => String::from_utf8(host.clone()).ok()?,
        Value::BulkString(_) | Value::Nil => from.host.clone(),
        _ => return None,
    };
    Some(HostPort { host, port: u16::try_from(*port).ok().filter(|&port| port != 0)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_cluster_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot(b"foo"), 12_182);
        assert_eq!(slot(b"{foo}bar"), slot(b"foo"));
        assert_eq!(slot(b"a{foo}{bar}"), slot(b"foo"));
        assert_eq!(slot(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS, "an empty tag is none");
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
    }

    fn node(host: Value, port: i64) -> Value {
        Value::Array(vec![host, Value::Int(port), Value::BulkString(b"id".to_vec())])
    }

    fn entry(first: i64, last: i64, master: Value) -> Value {
        Value::Array(vec![Value::Int(first), Value::Int(last), master])
    }

    fn host(name: &str) -> Value {
        Value::BulkString(name.as_bytes().to_vec())
    }

    fn here() -> HostPort {
        HostPort { host: "here".into(), port: 1 }
    }

    #[test]
    fn ranges_come_sorted_and_hosts_are_filled_in() {
        let answer = Value::Array(vec![
            entry(100, 16_383, node(host("b"), 7_002)),
            entry(0, 49, node(Value::Nil, 7_001)),
            entry(50, 89, node(host(""), 7_001)),
            entry(90, 99, node(host("?"), 7_003)),
        ]);
        let address = |host: &str, port| HostPort { host: host.into(), port };
        assert_eq!(
            read(&answer, &here()),
            Ok(vec![
                SlotRange { first: 0, last: 49, master: address("here", 7_001) },
                SlotRange { first: 50, last: 89, master: address("here", 7_001) },
                SlotRange { first: 100, last: 16_383, master: address("b", 7_002) },
            ])
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for answer in [
            Value::Okay,
            Value::Array(vec![Value::Int(1)]),
            Value::Array(vec![Value::Array(vec![])]),
            Value::Array(vec![entry(5, 4, node(host("a"), 1))]),
            Value::Array(vec![entry(0, 16_384, node(host("a"), 1))]),
            Value::Array(vec![entry(-1, 3, node(host("a"), 1))]),
        ] {
            assert!(read(&answer, &here()).is_err(), "{answer:?}");
        }
    }
}

//! The members of a request that are known, each with its value and where it came from.

use serde::ser::{Serialize, SerializeMap, Serializer};

/// The members that are known, in the order in which they are told.
#[derive(Debug, Default)]
pub(crate) struct KnownMembers(Vec<KnownMember>);

/// A member that is known.
#[derive(Debug)]
pub(crate) struct KnownMember {
    /// Its name.
    pub(crate) member: &'static str,
    /// Its value.
    pub(crate) value: String,
    /// Where it came from.
    pub(crate) source: String,
}

/// A value and its source, in this order.
#[derive(serde::Serialize)]
struct ValueAndSource<'a> {
    value: &'a str,
    source: &'a str,
}

impl KnownMembers {
    pub(crate) fn add(&mut self, member: &'static str, value: impl Into<String>, source: impl Into<String>) {
        self.0.push(KnownMember { member, value: value.into(), source: source.into() });
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &KnownMember> {
        self.0.iter()
    }
}

/// As a map of members to `{"value":…,"source":…}`.
impl Serialize for KnownMembers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for KnownMember { member, value, source } in &self.0 {
            map.serialize_entry(member, &ValueAndSource { value, source })?;
        }
        map.end()
    }
}

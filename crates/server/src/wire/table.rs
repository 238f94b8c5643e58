//! The table of the fields of a request: their names in each protocol, and where their values are stored.
//!
//! JSON bodies, traces, `TG.CHECK`, the command line and Envoy's descriptors are all parsed with this table. Each
//! parser has its own error messages.

use std::borrow::Cow;
use std::net::IpAddr;

use tidegate::Cost;
use tidegate_policy::{Credential, Descriptor, Pairs, Priority, Request, Trust};

/// A field of a request.
#[derive(Debug)]
pub(crate) struct RequestField {
    /// Its member name in JSON.
    pub(crate) json: Option<&'static str>,
    /// Its name in pairs of name and value. If it ends in a colon, the client adds a name: `header:x-api-key`.
    pub(super) pair: Option<&'static str>,
    /// Its key in an entry of Envoy's descriptors.
    entry: Option<&'static str>,
    target: for<'r, 'q> fn(&'r mut Request<'q>) -> FieldTarget<'r, 'q>,
}

/// Where the value of a field is stored.
#[derive(Debug)]
pub(crate) enum FieldTarget<'r, 'q> {
    /// Text, as it is.
    Text(&'r mut Option<Cow<'q, str>>),
    /// An address.
    Address(&'r mut Option<IpAddr>),
    /// The state of the credential.
    Credential(&'r mut Credential),
    /// Names and values: in JSON an object, in pairs one pair at a time.
    Pairs(&'r mut Pairs<'q>),
    /// The query, to which a parameter is appended.
    Parameter(&'r mut Option<Cow<'q, str>>),
    /// The cost.
    Cost(&'r mut Cost),
    /// The trust.
    Trust(&'r mut Option<Trust>),
    /// The priority.
    Priority(&'r mut Option<Priority>),
}

/// All fields, in the order in which error messages list the members of JSON.
pub(crate) static FIELDS: [RequestField; 19] = [
    field("tenant", |request| FieldTarget::Text(&mut request.tenant)).entry("tenant"),
    field("user", |request| FieldTarget::Text(&mut request.user)).entry("user_id"),
    field("client", |request| FieldTarget::Text(&mut request.client)).entry("client_id"),
    field("ip", |request| FieldTarget::Address(&mut request.ip)).entry("remote_address"),
    field("plan", |request| FieldTarget::Text(&mut request.plan)).entry("plan"),
    field("upstream", |request| FieldTarget::Text(&mut request.upstream)).entry("upstream"),
    field("method", |request| FieldTarget::Text(&mut request.method)).entry("method"),
    field("host", |request| FieldTarget::Text(&mut request.host)),
    field("path", |request| FieldTarget::Text(&mut request.path)).entry("path"),
    field("query", |request| FieldTarget::Text(&mut request.query)),
    field("headers", |request| FieldTarget::Pairs(&mut request.headers)).pair("header:"),
    RequestField { json: None, ..field("query:", |request| FieldTarget::Parameter(&mut request.query)) },
    field("jwt", |request| FieldTarget::Pairs(&mut request.jwt)).pair("jwt:"),
    field("credential", |request| FieldTarget::Credential(&mut request.credential)),
    field("descriptors", |request| FieldTarget::Pairs(&mut request.descriptors)).pair("descriptor:"),
    // Envoy sends the domain next to its descriptors, not in one.
    field("domain", |request| FieldTarget::Text(&mut request.domain)),
    field("priority", |request| FieldTarget::Priority(&mut request.priority)),
    field("cost", |request| FieldTarget::Cost(&mut request.cost)),
    field("trust", |request| FieldTarget::Trust(&mut request.trust)),
];

/// A field with the same name in JSON and in pairs, and none in descriptors.
const fn field(
    name: &'static str,
    target: for<'r, 'q> fn(&'r mut Request<'q>) -> FieldTarget<'r, 'q>,
) -> RequestField {
    RequestField { json: Some(name), pair: Some(name), entry: None, target }
}

impl RequestField {
    const fn pair(self, name: &'static str) -> RequestField {
        RequestField { pair: Some(name), ..self }
    }

    const fn entry(self, key: &'static str) -> RequestField {
        RequestField { entry: Some(key), ..self }
    }

    /// Where its value is stored in a request.
    pub(crate) fn target<'r, 'q>(&self, request: &'r mut Request<'q>) -> FieldTarget<'r, 'q> {
        (self.target)(request)
    }

    /// The field with this JSON name, and its index.
    pub(super) fn of_member(name: &str) -> Option<(usize, &'static RequestField)> {
        named(|field| field.json, name)
    }

    /// The field with this name in pairs, and the client's name after the colon.
    pub(super) fn of_pair(name: &str) -> Option<(&'static RequestField, &str)> {
        let plain = if name == "ip:address" { "ip" } else { name };
        let Some(colon) = plain.find(':') else {
            return named(|field| field.pair, plain).map(|(_, field)| (field, ""));
        };
        let (prefix, argument) = name.split_at(colon + 1);
        let (_, field) = named(|field| field.pair, prefix)?;
        // Accept only names that a policy can use; no limit could ever match any other.
        Descriptor::parse(name).map(|_| (field, argument))
    }

    /// The field with this key in Envoy's descriptors.
    pub(crate) fn of_entry(key: &str) -> Option<&'static RequestField> {
        named(|field| field.entry, key).map(|(_, field)| field)
    }
}

fn named(
    names: impl Fn(&RequestField) -> Option<&'static str>,
    name: &str,
) -> Option<(usize, &'static RequestField)> {
    FIELDS.iter().enumerate().find(|(_, field)| names(field) == Some(name))
}

/// The JSON names of all fields.
pub(super) fn members() -> Vec<&'static str> {
    FIELDS.iter().filter_map(|field| field.json).collect()
}

/// The names of all fields in pairs: texts first, then the credential, names with a colon, and numbers.
pub(super) fn pair_names() -> Vec<&'static str> {
    let mut nothing = Request::new();
    let mut order = |field: &&RequestField| match field.target(&mut nothing) {
        FieldTarget::Text(_) | FieldTarget::Address(_) => 0,
        FieldTarget::Credential(_) => 1,
        FieldTarget::Pairs(_) | FieldTarget::Parameter(_) => 2,
        FieldTarget::Priority(_) | FieldTarget::Cost(_) | FieldTarget::Trust(_) => 3,
    };
    let mut fields: Vec<&RequestField> = FIELDS.iter().collect();
    fields.sort_by_key(&mut order);
    fields.into_iter().filter_map(|field| field.pair).collect()
}

/// Parses a cost; the error describes what is expected.
pub(super) fn cost(text: &str) -> Result<Cost, &'static str> {
    // `parse` would also accept a plus sign.
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_plain);
    number.map(Cost::new).ok_or("an integer from 0 to 4294967295")
}

/// Parses a trust score; the error describes what is expected.
pub(super) fn trust(text: &str) -> Result<Trust, &'static str> {
    Trust::parse(text).ok_or("a number from 0 to 1, such as 0.8")
}

/// Parses a priority; the error describes what is expected.
pub(super) fn priority(text: &str) -> Result<Priority, &'static str> {
    Priority::parse(text).ok_or("an integer from 0 to 100")
}

/// Parses an IP address. An IPv4-mapped IPv6 address becomes the IPv4 address.
pub(super) fn address(text: &str) -> Option<IpAddr> {
    text.parse().ok().map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_in_their_order() {
        let members = "tenant, user, client, ip, plan, upstream, method, host, path, query, headers, jwt, \
                       credential, descriptors, domain, priority, cost, trust";
        assert_eq!(super::members().join(", "), members);
        let pairs = "tenant, user, client, ip, plan, upstream, method, host, path, query, domain, credential, \
                     header:, query:, jwt:, descriptor:, priority, cost, trust";
        assert_eq!(pair_names().join(", "), pairs);
    }

    #[test]
    fn what_a_policy_can_name_is_a_field() {
        for name in members() {
            let (number, field) = RequestField::of_member(name).expect(name);
            assert_eq!(FIELDS[number].json, field.json);
        }
        for name in pair_names() {
            let full = if name.ends_with(':') { format!("{name}x:y") } else { name.to_owned() };
            let (field, own) = RequestField::of_pair(&full).expect(name);
            assert_eq!((field.pair, own), (Some(name), full.strip_prefix(name).unwrap()));
            if !matches!(name, "query" | "priority" | "cost" | "trust") {
                assert!(Descriptor::parse(&full).is_some(), "{name}");
            }
        }
        for name in
            ["", ":", "header", "header:", "header:a b", "tenant:", "tenant:x", "cost:1", "route", "ip:"]
        {
            assert!(RequestField::of_pair(name).is_none(), "{name}");
        }
        assert_eq!(RequestField::of_pair("ip:address").map(|(field, _)| field.json), Some(Some("ip")));
    }
}

//! A request with the values that matching needs, computed once.

use std::borrow::Cow;
use std::fmt::Write;
use std::net::{IpAddr, Ipv6Addr};

use smallvec::SmallVec;
use tidegate_core::Cost;

use crate::{Credential, Descriptor, GateStage, Pairs, PathSpelling, Request};

/// The bytes of keys, one key after the other.
pub type KeyBytes = SmallVec<[u8; 256]>;

/// How many bits of an IPv6 address identify a client.
pub(crate) const IPV6_PREFIX: u8 = 64;

/// A request as conditions and keys see it.
#[derive(Debug)]
pub struct Facts<'r, 'q> {
    /// The request.
    pub request: &'r Request<'q>,
    /// The path in normal form.
    pub path: Option<Cow<'r, str>>,
    /// The pattern of the route that matched.
    pub(crate) route: Option<Cow<'r, str>>,
    /// The number of that route among the entries of `routes`.
    pub(crate) route_number: Option<u32>,
    /// When the route is known: where an `unless` of the policy's routes names a user, only after the credential.
    pub(crate) route_stage: GateStage,
    /// The tenant: the one that the request names, else the policy's default.
    pub(crate) tenant: Option<&'r str>,
    /// The host in lower case.
    host: Option<Cow<'r, str>>,
    /// The upstream: the one that the request names, else the one that the policy has for its host.
    pub(crate) upstream: Option<&'r str>,
    /// The number of that upstream, if the policy declares it.
    pub(crate) upstream_number: Option<u32>,
    /// The address. An IPv4 address mapped into IPv6 is the IPv4 address, for conditions and keys alike.
    pub(crate) ip: Option<IpAddr>,
    /// The cost of the route.
    pub(crate) route_cost: Option<Cost>,
}

impl<'r, 'q> Facts<'r, 'q> {
    /// Computes everything except the route, with the default spelling of paths.
    pub fn new(request: &'r Request<'q>) -> Facts<'r, 'q> {
        Facts::with_spelling(request, PathSpelling::default())
    }

    /// Computes everything except the route, with this spelling of paths.
    pub fn with_spelling(request: &'r Request<'q>, spelling: PathSpelling) -> Facts<'r, 'q> {
        let path = request.path.as_deref();
        Facts {
            request,
            path: path.map(|path| spelling.normalise(path)),
            route: None,
            route_number: None,
            route_stage: GateStage::Unidentified,
            tenant: request.tenant.as_deref(),
            host: request.host.as_deref().map(lower_case),
            upstream: request.upstream.as_deref(),
            upstream_number: None,
            ip: request.ip.map(|ip| ip.to_canonical()),
            route_cost: None,
        }
    }

    /// The value of a descriptor; the first one if there are several.
    pub fn value(&self, descriptor: &Descriptor) -> Option<Cow<'_, str>> {
        let request = self.request;
        let plain = |text: &'r Option<Cow<'q, str>>| text.as_deref().map(Cow::Borrowed);
        match descriptor {
            Descriptor::Tenant => self.tenant.map(Cow::Borrowed),
            Descriptor::User => plain(&request.user),
            Descriptor::Client => plain(&request.client),
            Descriptor::Plan => plain(&request.plan),
            Descriptor::Upstream => self.upstream.map(Cow::Borrowed),
            Descriptor::Domain => plain(&request.domain),
            Descriptor::Credential => Some(Cow::Borrowed(self.credential().descriptor())),
            Descriptor::Method => request.method.as_deref().map(upper_case),
            Descriptor::Host => self.host.as_deref().map(Cow::Borrowed),
            Descriptor::Path => self.path.as_deref().map(Cow::Borrowed),
            Descriptor::Route => self.route.as_deref().or(self.path.as_deref()).map(Cow::Borrowed),
            Descriptor::Ip => self.ip.map(|ip| Cow::Owned(key_address(ip))),
            Descriptor::Header(name) => {
                first(&request.headers, |known| known.eq_ignore_ascii_case(name)).map(Cow::Borrowed)
            }
            Descriptor::Jwt(name) => first(&request.jwt, |known| *known == **name).map(Cow::Borrowed),
            Descriptor::Custom(name) => {
                first(&request.descriptors, |known| *known == **name).map(Cow::Borrowed)
            }
            Descriptor::Query(name) => query_value(self.query()?, name),
        }
    }

    /// The tenant that the request belongs to: the one that it names, else the policy's default.
    pub fn tenant(&self) -> Option<&'r str> {
        self.tenant
    }

    /// The state of the credential.
    pub fn credential(&self) -> Credential {
        match self.request.credential {
            Credential::None if !self.request.jwt.is_empty() => Credential::Valid,
            known => known,
        }
    }

    /// The upstream that the request goes to: the one that it names, else the first one of the policy with its host.
    pub fn upstream(&self) -> Option<&'r str> {
        self.upstream
    }

    /// The number of that upstream among [`Upstreams::names`](crate::Upstreams::names); `None` if the policy does not
    /// declare it.
    pub fn upstream_number(&self) -> Option<u32> {
        self.upstream_number
    }

    /// The host in lower case.
    pub(crate) fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// The query; if there is none, the one in the path.
    fn query(&self) -> Option<&'r str> {
        let in_path = || Some(self.request.path.as_deref()?.split_once('?')?.1);
        self.request.query.as_deref().or_else(in_path)
    }

    /// The route that matched, and its cost.
    pub fn route(&self) -> Option<(&str, Option<Cost>)> {
        self.route.as_deref().map(|route| (route, self.route_cost))
    }

    /// The number of that route among [`RuleSet::route_patterns`](crate::RuleSet::route_patterns).
    pub fn route_number(&self) -> Option<u32> {
        self.route_number
    }

    /// Calls `show` with every value of a descriptor: headers, claims and descriptors may occur several times.
    pub(crate) fn each_value(&self, descriptor: &Descriptor, mut show: impl FnMut(&str)) {
        let mut all = |pairs: &Pairs<'_>, named: &dyn Fn(&str) -> bool| {
            pairs.iter().filter(|(name, _)| named(name)).for_each(|(_, value)| show(value));
        };
        match descriptor {
            Descriptor::Header(name) => all(&self.request.headers, &|known| known.eq_ignore_ascii_case(name)),
            Descriptor::Jwt(name) => all(&self.request.jwt, &|known| *known == **name),
            Descriptor::Custom(name) => all(&self.request.descriptors, &|known| *known == **name),
            _ => {
                if let Some(value) = self.value(descriptor) {
                    show(&value);
                }
            }
        }
    }

    /// Does one of the values of a descriptor fulfil a condition?
    pub(crate) fn any_value(&self, descriptor: &Descriptor, is_wanted: impl Fn(&str) -> bool) -> bool {
        let mut any = false;
        self.each_value(descriptor, |value| any |= is_wanted(value));
        any
    }

    /// Appends the key of this request for some descriptors.
    ///
    /// # Errors
    /// The first descriptor that the request lacks. Nothing is appended then.
    pub fn write_key<'d>(&self, key: &'d [Descriptor], out: &mut KeyBytes) -> Result<(), &'d Descriptor> {
        let start = out.len();
        for descriptor in key {
            if !self.write_part(descriptor, key.len() > 1, out) {
                out.truncate(start);
                return Err(descriptor);
            }
        }
        Ok(())
    }

    /// Appends the key of the tenant that the request belongs to, for a limit that has a bucket for each tenant. It
    /// ends with a separator, so that the key of a scope can follow.
    pub(crate) fn write_tenant(&self, out: &mut KeyBytes) {
        self.write_part(&Descriptor::Tenant, true, out);
    }

    /// Appends the key of a scope within a tenant. It is never empty: the empty key is that of the whole tenant. All
    /// requests that lack the scope share one key.
    pub(crate) fn write_scope(&self, scope: &[Descriptor], out: &mut KeyBytes) {
        let start = out.len();
        out.push(SEPARATOR);
        if self.write_key(scope, out).is_err() {
            out[start] = ESCAPE;
        }
    }

    /// Appends one part of a key. If a key has several, each ends with a separator that is escaped within the parts, so
    /// that different values never form the same key.
    fn write_part(&self, descriptor: &Descriptor, several: bool, out: &mut KeyBytes) -> bool {
        if let Descriptor::Ip = descriptor {
            let Some(ip) = self.ip else { return false };
            write!(AsText(out), "{}", KeyAddress(ip)).expect("writing to memory does not fail");
        } else {
            let Some(value) = self.value(descriptor) else { return false };
            if several {
                write_escaped(value.as_bytes(), out)
            } else {
                out.extend_from_slice(value.as_bytes())
            }
        }
        if several {
            out.push(SEPARATOR);
        }
        true
    }
}

/// Between the parts of a key.
pub(crate) const SEPARATOR: u8 = 0x1F;
const ESCAPE: u8 = 0x1B;

/// The key that all requests share that lack the key of a limit with `missing: shared`. Values are text, so no key of
/// values has a byte that is not part of UTF-8.
pub(crate) const SHARED_KEY: &[u8] = &[0xFF];

fn write_escaped(value: &[u8], out: &mut KeyBytes) {
    if !value.iter().any(|byte| matches!(*byte, SEPARATOR | ESCAPE)) {
        out.extend_from_slice(value);
        return;
    }
    for &byte in value {
        match byte {
            SEPARATOR | ESCAPE => out.extend_from_slice(&[ESCAPE, byte ^ 0x40]),
            _ => out.push(byte),
        }
    }
}

/// The values of a key that [`Facts::write_key`] has written for so many descriptors, as the request had them. `is_cut` says
/// that the end of the key is missing: then so is the last of the values that are there. `None` if they cannot be told apart.
pub fn values_of_key(key: &[u8], descriptors: usize, is_cut: bool) -> Option<Vec<Option<String>>> {
    // A single value is written as it is.
    if descriptors == 1 {
        let whole = String::from_utf8(key.to_vec()).ok().filter(|_| !is_cut);
        return Some(vec![whole]);
    }
    let parts = if is_cut { key } else { key.strip_suffix(&[SEPARATOR])? };
    let mut values: Vec<Option<String>> = parts.split(|byte| *byte == SEPARATOR).map(unescaped).collect();
    if let Some(last) = values.last_mut().filter(|_| is_cut) {
        *last = None;
    }
    (values.len() == descriptors).then_some(values)
}

/// What [`write_escaped`] has escaped.
fn unescaped(part: &[u8]) -> Option<String> {
    let (mut value, mut bytes) = (Vec::with_capacity(part.len()), part.iter());
    while let Some(&byte) = bytes.next() {
        value.push(if byte == ESCAPE { *bytes.next()? ^ 0x40 } else { byte });
    }
    String::from_utf8(value).ok()
}

/// An address as it is written in keys: of IPv6 only the /64, since one client can use all addresses of a /64.
struct KeyAddress(IpAddr);

impl std::fmt::Display for KeyAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            IpAddr::V4(ip) => write!(f, "{ip}"),
            IpAddr::V6(ip) => {
                let network = ip.to_bits() & (u128::MAX << (128 - IPV6_PREFIX));
                write!(f, "{}/{IPV6_PREFIX}", Ipv6Addr::from_bits(network))
            }
        }
    }
}

fn key_address(ip: IpAddr) -> String {
    KeyAddress(ip).to_string()
}

struct AsText<'a>(&'a mut KeyBytes);

impl Write for AsText<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

fn first<'p>(pairs: &'p Pairs<'_>, named: impl Fn(&str) -> bool) -> Option<&'p str> {
    pairs.iter().find(|(name, _)| named(name)).map(|(_, value)| &**value)
}

fn lower_case(text: &str) -> Cow<'_, str> {
    if text.bytes().any(|b| b.is_ascii_uppercase()) {
        Cow::Owned(text.to_ascii_lowercase())
    } else {
        Cow::Borrowed(text)
    }
}

fn upper_case(text: &str) -> Cow<'_, str> {
    if text.bytes().any(|b| b.is_ascii_lowercase()) {
        Cow::Owned(text.to_ascii_uppercase())
    } else {
        Cow::Borrowed(text)
    }
}

/// The first value of a name in a query, decoded.
pub fn query_value<'q>(query: &'q str, name: &str) -> Option<Cow<'q, str>> {
    let query = query.strip_prefix('?').unwrap_or(query);
    query.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(key) == name).then(|| decode(value))
    })
}

/// Decodes `%20` and `+`. Text that is not an escape, or not UTF-8 after decoding, stays as it is.
fn decode(text: &str) -> Cow<'_, str> {
    match decoded_bytes(text) {
        Cow::Borrowed(_) => Cow::Borrowed(text),
        Cow::Owned(bytes) => String::from_utf8(bytes).map_or(Cow::Borrowed(text), Cow::Owned),
    }
}

/// Decodes `%20` and `+` to bytes. A `%` that begins no escape stays as it is.
pub(crate) fn decoded_bytes(text: &str) -> Cow<'_, [u8]> {
    if !text.bytes().any(|byte| byte == b'%' || byte == b'+') {
        return Cow::Borrowed(text.as_bytes());
    }
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, tail @ ..] = rest {
        rest = tail;
        match (byte, tail) {
            (b'+', _) => bytes.push(b' '),
            (b'%', [high, low, after @ ..]) => match digit(*high).zip(digit(*low)) {
                Some((high, low)) => {
                    bytes.push(high * 16 + low);
                    rest = after;
                }
                None => bytes.push(b'%'),
            },
            _ => bytes.push(*byte),
        }
    }
    Cow::Owned(bytes)
}

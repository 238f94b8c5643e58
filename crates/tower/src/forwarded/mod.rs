//! Who the client is, when proxies stand in between.
//!
//! A proxy appends the address it was reached from to `X-Forwarded-For` or
//! `Forwarded`. Whatever stands left of what a trusted proxy wrote may come from
//! the client itself and proves nothing. So the lines are walked from right to
//! left: addresses of trusted proxies are passed over, and the first other one is
//! the client. Where an entry cannot be read, or hides an address, the walk ends
//! at the last proxy that was seen.
//!
//! Only one header is ever looked at: a proxy that maintains one of them passes
//! the other through as the client wrote it.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::header::{FORWARDED, HeaderName};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use tidegate::engine::unmapped;

/// The most entries that are looked at.
pub const HOPS_MAX: usize = 64;

/// The most bytes that are looked at, from the right.
pub const BYTES_MAX: usize = 8 * 1024;

/// Where the client's address is taken from, if the peer is a trusted proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ForwardedSource {
    /// The connection alone; no header is believed.
    Peer,
    /// `X-Forwarded-For`: addresses, with commas in between.
    #[default]
    XForwardedFor,
    /// `Forwarded`, as in RFC 7239.
    Forwarded,
}

impl ForwardedSource {
    /// The header to look at.
    pub const fn header(self) -> Option<HeaderName> {
        match self {
            ForwardedSource::Peer => None,
            ForwardedSource::XForwardedFor => Some(HeaderName::from_static("x-forwarded-for")),
            ForwardedSource::Forwarded => Some(FORWARDED),
        }
    }

    /// How many bytes the last entry of a line has; `None` if that cannot be
    /// told.
    fn last_entry(self, line: &[u8]) -> Option<usize> {
        match self {
            ForwardedSource::Peer => None,
            ForwardedSource::XForwardedFor => {
                Some(line.iter().rev().position(|byte| *byte == b',').unwrap_or(line.len()))
            }
            ForwardedSource::Forwarded => last_unquoted(line, b','),
        }
    }

    /// The address that an entry tells, if it tells one.
    fn address(self, entry: &[u8]) -> Option<IpAddr> {
        match self {
            ForwardedSource::Peer => None,
            ForwardedSource::XForwardedFor => node_address(std::str::from_utf8(entry).ok()?),
            ForwardedSource::Forwarded => forwarded_for(entry),
        }
    }
}

/// The networks whose word about others is believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedProxies(Vec<IpNet>);

impl TrustedProxies {
    /// Nobody.
    pub const fn none() -> TrustedProxies {
        TrustedProxies(Vec::new())
    }

    /// Is this one of them? An IPv4 address, or a network of them, within IPv6
    /// counts as what it maps.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }
}

impl Default for TrustedProxies {
    /// Only this machine: `127.0.0.1` and `::1`.
    fn default() -> TrustedProxies {
        let v4 = Ipv4Net::new_assert(Ipv4Addr::LOCALHOST, 32);
        let v6 = Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128);
        TrustedProxies(vec![v4.into(), v6.into()])
    }
}

impl FromIterator<IpNet> for TrustedProxies {
    fn from_iter<T: IntoIterator<Item = IpNet>>(networks: T) -> TrustedProxies {
        TrustedProxies(networks.into_iter().map(unmapped).collect())
    }
}

/// The client's address. `lines` are the values of the source's header, in the
/// order they came.
///
/// ```
/// use std::net::IpAddr;
/// use tidegate_tower::forwarded::{ForwardedSource, TrustedProxies, client_address};
///
/// let proxy: IpAddr = "127.0.0.1".parse()?;
/// let lines = [&b"6.6.6.6, 203.0.113.7"[..]];
/// let client = |peer| {
///     client_address(peer, &TrustedProxies::default(), ForwardedSource::XForwardedFor, lines)
/// };
/// assert_eq!(client(proxy), "203.0.113.7".parse::<IpAddr>()?, "what the proxy wrote, not the client");
///
/// let stranger: IpAddr = "198.51.100.1".parse()?;
/// assert_eq!(client(stranger), stranger, "who is not trusted speaks only for itself");
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
pub fn client_address<'h, L>(
    peer: IpAddr,
    trusted: &TrustedProxies,
    source: ForwardedSource,
    lines: L,
) -> IpAddr
where
    L: IntoIterator<Item = &'h [u8], IntoIter: DoubleEndedIterator>,
{
    let mut nearest = peer.to_canonical();
    if source == ForwardedSource::Peer || !trusted.contains(nearest) {
        return nearest;
    }
    let (mut hops, mut bytes) = (HOPS_MAX, BYTES_MAX);
    for line in lines.into_iter().rev() {
        let mut rest = Some(line);
        while let Some(line) = rest {
            let seen = &line[line.len().saturating_sub(bytes)..];
            let Some(length) = source.last_entry(seen) else { return nearest };
            let cut_short = length == seen.len() && seen.len() < line.len();
            if hops == 0 || cut_short {
                return nearest;
            }
            let (before, entry) = line.split_at(line.len() - length);
            let Some(address) = source.address(entry) else { return nearest };
            nearest = address.to_canonical();
            if !trusted.contains(nearest) {
                return nearest;
            }
            hops -= 1;
            bytes = bytes.saturating_sub(length + 1);
            rest = before.split_last().map(|(_separator, before)| before);
        }
    }
    nearest
}

/// The address of the one `for` in an entry of `Forwarded`.
fn forwarded_for(entry: &[u8]) -> Option<IpAddr> {
    let mut found = None;
    let mut rest = Some(entry);
    while let Some(pairs) = rest {
        let (before, pair) = pairs.split_at(pairs.len() - last_unquoted(pairs, b';')?);
        rest = before.split_last().map(|(_separator, before)| before);
        let pair = std::str::from_utf8(pair).ok()?.trim_matches([' ', '\t']);
        let Some((name, value)) = pair.split_once('=') else { continue };
        // Two of them contradict each other, and nobody knows which one a proxy
        // in between has believed.
        if name.eq_ignore_ascii_case("for") && found.replace(value).is_some() {
            return None;
        }
    }
    node_address(&unquote(found?)?)
}

/// How many bytes follow the last separator that is not within quotes: all of
/// them if there is none. `None` if a quoted string has no beginning.
///
/// Read from the right, for the same reason as the entries: a quote that a client
/// opens and never closes must not swallow what a proxy appends to it.
fn last_unquoted(text: &[u8], separator: u8) -> Option<usize> {
    let mut start = text.len();
    while let Some(&byte) = text[..start].last() {
        match byte {
            b'"' => start = opening_quote(&text[..start - 1])?,
            _ if byte == separator => break,
            _ => start -= 1,
        }
    }
    Some(text.len() - start)
}

/// Where the quoted string begins that ends after `text`: at the last quote that
/// is not escaped.
fn opening_quote(text: &[u8]) -> Option<usize> {
    let mut end = text.len();
    loop {
        let quote = text[..end].iter().rposition(|byte| *byte == b'"')?;
        let backslashes = text[..quote].iter().rev().take_while(|byte| **byte == b'\\').count();
        if backslashes % 2 == 0 {
            return Some(quote);
        }
        end = quote - backslashes;
    }
}

/// A value without its quotes and escapes, if it has any.
fn unquote(value: &str) -> Option<Cow<'_, str>> {
    let Some(quoted) = value.strip_prefix('"') else { return Some(Cow::Borrowed(value)) };
    let quoted = quoted.strip_suffix('"')?;
    if !quoted.contains('\\') {
        return Some(Cow::Borrowed(quoted));
    }
    let mut plain = String::with_capacity(quoted.len());
    let mut letters = quoted.chars();
    while let Some(letter) = letters.next() {
        plain.push(if letter == '\\' { letters.next()? } else { letter });
    }
    Some(Cow::Owned(plain))
}

/// An address with or without a port, IPv6 with or without brackets. Nothing
/// else has an address: neither `unknown` nor `_hidden`.
fn node_address(node: &str) -> Option<IpAddr> {
    let node = node.trim_matches([' ', '\t']);
    if let Some(bracketed) = node.strip_prefix('[') {
        let (address, after) = bracketed.split_once(']')?;
        let is_whole = after.is_empty() || after.strip_prefix(':').is_some_and(is_port);
        return address.parse::<Ipv6Addr>().ok().filter(|_| is_whole).map(IpAddr::V6);
    }
    if let Ok(address) = node.parse::<IpAddr>() {
        return Some(address);
    }
    let (address, port) = node.split_once(':')?;
    address.parse::<Ipv4Addr>().ok().filter(|_| is_port(port)).map(IpAddr::V4)
}

/// A number, or a name for one that is hidden.
fn is_port(text: &str) -> bool {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    match text.strip_prefix('_') {
        Some(name) => !name.is_empty() && name.bytes().all(is_name),
        None => (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests;

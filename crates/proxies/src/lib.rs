//! Finds the address of the client behind trusted proxies.
//!
//! A proxy appends the address of its own peer to `X-Forwarded-For` or `Forwarded`. Everything to the left of what a
//! trusted proxy has written may come from the client itself and proves nothing. So [`client_address`] reads the header
//! lines from right to left: it skips addresses of trusted proxies, and the first other address is the client's. At an
//! entry that cannot be read, or that hides its address, it stops and returns the last proxy it has seen.
//!
//! Only one of the two headers is ever read: a proxy that maintains one of them passes the other on as the client wrote
//! it.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::header::{FORWARDED, HeaderName};
pub use ipnet::IpNet;
use ipnet::{Ipv4Net, Ipv6Net};

/// The most entries that are read.
pub const HOPS_MAX: usize = 64;

/// The most bytes that are read, from the right.
pub const BYTES_MAX: usize = 8 * 1024;

/// Which header has the client's address, if the peer is a trusted proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ForwardedSource {
    /// No header: the client is the peer of the connection.
    Peer,
    /// `X-Forwarded-For`: addresses separated by commas.
    #[default]
    XForwardedFor,
    /// `Forwarded`, as in RFC 7239.
    Forwarded,
}

impl ForwardedSource {
    /// The header to read.
    #[must_use]
    pub const fn header(self) -> Option<HeaderName> {
        match self {
            ForwardedSource::Peer => None,
            ForwardedSource::XForwardedFor => Some(HeaderName::from_static("x-forwarded-for")),
            ForwardedSource::Forwarded => Some(FORWARDED),
        }
    }

    /// The length of the last entry of a line in bytes; `None` if its start cannot be found.
    fn last_entry(self, line: &[u8]) -> Option<usize> {
        match self {
            ForwardedSource::Peer => None,
            ForwardedSource::XForwardedFor => {
                Some(line.iter().rev().position(|byte| *byte == b',').unwrap_or(line.len()))
            }
            ForwardedSource::Forwarded => last_unquoted(line, b','),
        }
    }

    /// The address in an entry, if it has one.
    fn address(self, entry: &[u8]) -> Option<IpAddr> {
        match self {
            ForwardedSource::Peer => None,
            ForwardedSource::XForwardedFor => node_address(std::str::from_utf8(entry).ok()?),
            ForwardedSource::Forwarded => forwarded_for(entry),
        }
    }
}

/// The networks of the proxies whose headers are believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedProxies(Vec<IpNet>);

impl TrustedProxies {
    /// No proxy is trusted.
    #[must_use]
    pub const fn none() -> TrustedProxies {
        TrustedProxies(Vec::new())
    }

    /// Is this the address of a trusted proxy? IPv4 addresses and networks that are mapped into IPv6
    /// (`::ffff:10.0.0.0/104`) count as the IPv4 ones (`10.0.0.0/8`).
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        /// The length of `::ffff:0:0/96`, the network of all mapped addresses.
        const MAPPED: u8 = 96;
        let address = address.to_canonical();
        self.0.iter().any(|network| match (network, address) {
            (IpNet::V6(network), IpAddr::V4(address)) if network.prefix_len() >= MAPPED => {
                network.contains(&address.to_ipv6_mapped())
            }
            _ => network.contains(&address),
        })
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
        TrustedProxies(networks.into_iter().collect())
    }
}

/// The client's address. `lines` are the values of the source's header, in the order in which they arrived.
///
/// ```
/// use std::net::IpAddr;
/// use tidegate_proxies::{ForwardedSource, TrustedProxies, client_address};
///
/// let proxy: IpAddr = "127.0.0.1".parse()?;
/// let lines = [&b"6.6.6.6, 203.0.113.7"[..]];
/// let client = |peer| {
///     client_address(peer, &TrustedProxies::default(), ForwardedSource::XForwardedFor, lines)
/// };
/// assert_eq!(client(proxy), "203.0.113.7".parse::<IpAddr>()?, "what the proxy wrote, not what the client wrote");
///
/// let stranger: IpAddr = "198.51.100.1".parse()?;
/// assert_eq!(client(stranger), stranger, "the headers of an untrusted peer are ignored");
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[must_use]
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

/// The address of the only `for` in an entry of `Forwarded`.
fn forwarded_for(entry: &[u8]) -> Option<IpAddr> {
    let mut found = None;
    let mut rest = Some(entry);
    while let Some(pairs) = rest {
        let (before, pair) = pairs.split_at(pairs.len() - last_unquoted(pairs, b';')?);
        rest = before.split_last().map(|(_separator, before)| before);
        let pair = std::str::from_utf8(pair).ok()?.trim_matches([' ', '\t']);
        let Some((name, value)) = pair.split_once('=') else { continue };
        // Two of them contradict each other, and another proxy may have believed either.
        if name.eq_ignore_ascii_case("for") && found.replace(value).is_some() {
            return None;
        }
    }
    node_address(&unquote(found?)?)
}

/// The number of bytes after the last separator outside quotes: the whole length if there is none. `None` if a quoted
/// string has an end and no start.
///
/// Read from the right, like the entries: a quote that a client opens and never closes must not hide what a proxy
/// appends after it.
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

/// The start of the quoted string that ends after `text`: the last quote in it that is not escaped.
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

/// A value without quotes and escapes; `None` if the closing quote is missing.
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

/// An address with or without a port, IPv6 with or without brackets. `unknown` and names such as `_hidden` have none.
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

/// A port number, or a name such as `_a1` in its place (RFC 7239, section 6.2).
fn is_port(text: &str) -> bool {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    match text.strip_prefix('_') {
        Some(name) => !name.is_empty() && name.bytes().all(is_name),
        None => (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests;

/// The example of the README is tested like those here.
#[cfg(doctest)]
mod readme {
    #[doc = include_str!("../README.md")]
    struct Crate;
}

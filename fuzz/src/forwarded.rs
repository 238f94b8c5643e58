//! The client's address from `X-Forwarded-For` and `Forwarded`, which proxies and clients write.

use std::net::IpAddr;

use tidegate_tower::forwarded::{ForwardedSource, TrustedProxies, client_address};

use crate::target::{FuzzFailure, kind_of};

const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const UNTRUSTED: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 1));
const CLIENT: &str = "203.0.113.7";

pub(crate) fn try_input(input: &[u8]) -> Result<u64, FuzzFailure> {
    let lines: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
    let mut kinds = String::new();
    for (source, entry) in [
        (ForwardedSource::XForwardedFor, CLIENT.to_owned()),
        (ForwardedSource::Forwarded, format!("for={CLIENT};proto=https")),
    ] {
        let trusted = TrustedProxies::default();
        let client = |peer, lines: &[&[u8]]| client_address(peer, &trusted, source, lines.iter().copied());
        let found = client(PEER, &lines);
        FuzzFailure::unless(found == client(PEER, &lines), || {
            "a second call finds another address".to_owned()
        })?;
        FuzzFailure::unless(found == found.to_canonical(), || format!("{found} is not in canonical form"))?;
        let untrusted = client(UNTRUSTED, &lines);
        FuzzFailure::unless(untrusted == UNTRUSTED, || format!("an untrusted peer passes for {untrusted}"))?;
        check_appended(&lines, &entry, |lines| client(PEER, lines))?;
        kinds.push_str(if found == PEER {
            "peer "
        } else if found.is_ipv6() {
            "six "
        } else {
            "four "
        });
    }
    // The kinds of bytes in the input distinguish inputs with the same outcome.
    let shape: String = [b'"', b'\\', b'[', b';', b'=', b':', b','].iter().enumerate().fold(
        kinds,
        |mut shape, (at, byte)| {
            if input.contains(byte) {
                shape.push(char::from(b'a' + at as u8));
            }
            shape
        },
    );
    Ok(kind_of([shape.as_str()].into_iter()))
}

/// Whatever a client sent: the address that a trusted proxy appends is the client's.
fn check_appended(
    lines: &[&[u8]],
    entry: &str,
    client: impl Fn(&[&[u8]]) -> IpAddr,
) -> Result<(), FuzzFailure> {
    let expected: IpAddr = CLIENT.parse().expect("an address");
    let own_line: Vec<&[u8]> = lines.iter().copied().chain([entry.as_bytes()]).collect();
    let found = client(&own_line);
    FuzzFailure::unless(found == expected, || {
        format!("{found} instead of the address that the proxy sent on its own line")
    })?;
    let last = lines.last().copied().unwrap_or_default();
    for separator in [", ", ","] {
        let appended = [last, separator.as_bytes(), entry.as_bytes()].concat();
        let mut same_line = lines.to_vec();
        same_line.pop();
        same_line.push(&appended);
        let found = client(&same_line);
        FuzzFailure::unless(found == expected, || {
            format!("{found} instead of the address that the proxy appended")
        })?;
    }
    Ok(())
}

use proptest::prelude::*;

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Loopback and two private networks.
fn trusted() -> TrustedProxies {
    ["127.0.0.1/32", "::1/128", "10.0.0.0/8", "fd00::/8"].iter().map(|net| net.parse().unwrap()).collect()
}

fn walk(source: ForwardedSource, peer: &str, lines: &[&str]) -> IpAddr {
    client_address(ip(peer), &trusted(), source, lines.iter().map(|line| line.as_bytes()))
}

fn xff(lines: &[&str]) -> IpAddr {
    walk(ForwardedSource::XForwardedFor, "10.0.0.1", lines)
}

fn forwarded(lines: &[&str]) -> IpAddr {
    walk(ForwardedSource::Forwarded, "10.0.0.1", lines)
}

const PEER: &str = "10.0.0.1";

#[test]
fn the_first_untrusted_address_from_the_right_is_the_client() {
    for (lines, client) in [
        (&["203.0.113.7"][..], "203.0.113.7"),
        (&["6.6.6.6, 203.0.113.7"], "203.0.113.7"),
        (&["6.6.6.6,203.0.113.7 ,\t10.0.0.9"], "203.0.113.7"),
        (&["6.6.6.6, 203.0.113.7", "10.0.0.9, 10.0.0.8"], "203.0.113.7"),
        (&["6.6.6.6", "203.0.113.7"], "203.0.113.7"),
        (&["10.0.0.7, 10.0.0.8"], "10.0.0.7"),
        (&["2001:db8::1"], "2001:db8::1"),
        (&["[2001:db8::1]:4711"], "2001:db8::1"),
        (&["203.0.113.7:4711"], "203.0.113.7"),
        (&["203.0.113.7, ::ffff:10.0.0.3"], "203.0.113.7"),
        (&["::ffff:203.0.113.7"], "203.0.113.7"),
        (&["203.0.113.7, fd00::3"], "203.0.113.7"),
    ] {
        assert_eq!(xff(lines), ip(client), "{lines:?}");
    }
}

#[test]
fn what_cannot_be_read_ends_the_walk_at_the_last_proxy() {
    for (lines, client) in [
        (&[][..], PEER),
        (&[""], PEER),
        (&["203.0.113.7, "], PEER),
        (&["203.0.113.7, unknown"], PEER),
        (&["203.0.113.7, _hidden, 10.0.0.9"], "10.0.0.9"),
        (&["203.0.113.7, unix:"], PEER),
        (&["203.0.113.7, 010.0.0.9"], PEER),
        (&["203.0.113.7", "", "10.0.0.9"], "10.0.0.9"),
        (&["1.2.3"], PEER),
        (&["1.2.3.4.5"], PEER),
        (&["203.0.113.7:"], PEER),
        (&["203.0.113.7:123456"], PEER),
        (&["203.0.113.7:4a"], PEER),
        (&["[2001:db8::1"], PEER),
        (&["[2001:db8::1]4711"], PEER),
        (&["[203.0.113.7]"], PEER),
        (&["fe80::1%eth0"], PEER),
        (&["\"203.0.113.7\""], PEER),
        (&[":4711"], PEER),
        (&["203.0.113.7/32"], PEER),
    ] {
        assert_eq!(xff(lines), ip(client), "{lines:?}");
    }
}

#[test]
fn a_stranger_speaks_only_for_itself() {
    for source in [ForwardedSource::XForwardedFor, ForwardedSource::Forwarded, ForwardedSource::Peer] {
        let lines = ["for=203.0.113.7", "203.0.113.7"];
        assert_eq!(walk(source, "198.51.100.1", &lines), ip("198.51.100.1"));
    }
    assert_eq!(walk(ForwardedSource::Peer, PEER, &["203.0.113.7"]), ip(PEER), "no header is believed");
    let lines = ["203.0.113.7".as_bytes()];
    let nobody = TrustedProxies::none();
    let client = client_address(ip("127.0.0.1"), &nobody, ForwardedSource::XForwardedFor, lines);
    assert_eq!(client, ip("127.0.0.1"), "nobody is trusted");
}

#[test]
fn only_this_machine_is_trusted_unless_told_otherwise() {
    let default = TrustedProxies::default();
    for address in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
        assert!(default.contains(ip(address)), "{address}");
    }
    for address in ["127.0.0.2", "10.0.0.1", "::2", "::"] {
        assert!(!default.contains(ip(address)), "{address}");
    }
}

#[test]
fn a_mapped_network_is_the_network_that_it_maps() {
    let trusted: TrustedProxies = ["::ffff:10.0.0.0/104".parse().unwrap()].into_iter().collect();
    assert!(trusted.contains(ip("10.1.2.3")) && trusted.contains(ip("::ffff:10.1.2.3")));
    assert!(!trusted.contains(ip("11.1.2.3")) && !trusted.contains(ip("::ffff:11.1.2.3")));
    for (network, expected) in
        [("::ffff:0:0/96", true), ("::ffff:10.1.2.3/128", true), ("::ffff:0:0/95", false), ("::/0", false)]
    {
        let trusted: TrustedProxies = [network.parse().unwrap()].into_iter().collect();
        assert_eq!(trusted.contains(ip("10.1.2.3")), expected, "{network}");
        assert_eq!(trusted.contains(ip("::ffff:10.1.2.3")), expected, "{network}");
    }
}

#[test]
fn a_mapped_peer_is_the_address_that_it_maps() {
    assert_eq!(walk(ForwardedSource::XForwardedFor, "::ffff:10.0.0.1", &["203.0.113.7"]), ip("203.0.113.7"));
    assert_eq!(walk(ForwardedSource::Peer, "::ffff:203.0.113.7", &[]), ip("203.0.113.7"));
}

#[test]
fn forwarded_is_read_as_its_rfc_says() {
    for (lines, client) in [
        (&["for=203.0.113.7"][..], "203.0.113.7"),
        (&["For=203.0.113.7;proto=http;by=10.0.0.1"], "203.0.113.7"),
        (&["proto=http; FOR=\"203.0.113.7:4711\""], "203.0.113.7"),
        (&["for=\"[2001:db8:cafe::17]:4711\""], "2001:db8:cafe::17"),
        (&["for=\"[2001:db8:cafe::17]:_port\""], "2001:db8:cafe::17"),
        (&["for=\"2001:db8::1\""], "2001:db8::1"),
        (&["for=6.6.6.6, for=203.0.113.7, for=10.0.0.9"], "203.0.113.7"),
        (&["for=6.6.6.6, for=203.0.113.7", "for=\"10.0.0.9\";by=10.0.0.1"], "203.0.113.7"),
        (&["for=\"\\203.0.113.7\""], "203.0.113.7"),
        (&["for=203.0.113.7;host=\"a, for=6.6.6.6\""], "203.0.113.7"),
        (&["for=203.0.113.7;host=\"a\\\", for=6.6.6.6\""], "203.0.113.7"),
        (&["for=203.0.113.7;host=\"a\\\\\""], "203.0.113.7"),
        (&["for=203.0.113.7;host=\"for=1.2.3.4;for=5.6.7.8\""], "203.0.113.7"),
    ] {
        assert_eq!(forwarded(lines), ip(client), "{lines:?}");
    }
}

#[test]
fn entries_of_forwarded_that_hide_or_contradict_end_the_walk() {
    for (lines, client) in [
        (&["for=203.0.113.7, for=unknown"][..], PEER),
        (&["for=203.0.113.7, for=_hidden, for=10.0.0.9"], "10.0.0.9"),
        (&["for=203.0.113.7, for=\":4711\""], PEER),
        (&["for=203.0.113.7, proto=https"], PEER),
        (&["for=203.0.113.7;for=6.6.6.6"], PEER),
        (&["for=203.0.113.7, "], PEER),
        (&["203.0.113.7"], PEER),
        (&["for="], PEER),
        (&["for=\""], PEER),
        (&["for=\"203.0.113.7"], PEER),
        (&["for=203.0.113.7\""], PEER),
        (&["for=\"203.0.113.7\\\""], PEER),
    ] {
        assert_eq!(forwarded(lines), ip(client), "{lines:?}");
    }
}

#[test]
fn a_client_cannot_swallow_what_the_proxy_appends() {
    for spoofed in
        ["for=\"", "for=\"6.6.6.6", "\"", "\\", "for=\"\\", "for=6.6.6.6;host=\"", ",", ";;", "\"\"\""]
    {
        for appended in ["for=203.0.113.7", "for=\"203.0.113.7:80\"", "for=\"203.0.113.7\";host=\"a,\\\"b\""]
        {
            let line = format!("{spoofed}, {appended}");
            assert_eq!(forwarded(&[&line]), ip("203.0.113.7"), "{line}");
        }
    }
}

#[test]
fn no_more_than_so_many_hops_are_looked_at() {
    let hops = |count: usize| format!("203.0.113.7{}", ", 10.0.0.9".repeat(count));
    assert_eq!(xff(&[&hops(HOPS_MAX - 1)]), ip("203.0.113.7"));
    assert_eq!(xff(&[&hops(HOPS_MAX)]), ip("10.0.0.9"));
    assert_eq!(xff(&[&hops(10_000)]), ip("10.0.0.9"));
}

#[test]
fn no_more_than_so_many_bytes_are_looked_at() {
    let padded = |spaces: usize| format!("{}203.0.113.7", " ".repeat(spaces));
    let length = "203.0.113.7".len();
    assert_eq!(xff(&[&padded(BYTES_MAX - length)]), ip("203.0.113.7"));
    assert_eq!(xff(&[&padded(BYTES_MAX - length + 1)]), ip(PEER), "an entry that is not seen whole");
    let long = "x".repeat(BYTES_MAX);
    assert_eq!(xff(&[&format!("{long}, 203.0.113.7")]), ip("203.0.113.7"), "the right end is looked at");
    let proxies = format!("203.0.113.7, {}10.0.0.9", " ".repeat(BYTES_MAX));
    assert_eq!(xff(&[&proxies]), ip(PEER));
    let quoted = format!("for=\"{}\"", "\\\"".repeat(BYTES_MAX));
    assert_eq!(forwarded(&[&quoted]), ip(PEER));
}

proptest! {
    /// Any bytes at all, and bytes that look like what is parsed.
    #[test]
    fn nothing_makes_it_panic(
        bytes in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..64), 0..4),
        texts in prop::collection::vec(r#"([,;"\\=: \[\]]|for=|[0-9.]{1,4}|10\.0\.0\.9|::1|_h|unknown){0,24}"#, 0..4),
    ) {
        for source in [ForwardedSource::Peer, ForwardedSource::XForwardedFor, ForwardedSource::Forwarded] {
            let lines = || bytes.iter().map(Vec::as_slice).chain(texts.iter().map(String::as_bytes));
            let stranger = ip("198.51.100.1");
            prop_assert_eq!(client_address(stranger, &trusted(), source, lines()), stranger);
            let client = client_address(ip(PEER), &trusted(), source, lines());
            prop_assert_eq!(client, client.to_canonical());
        }
    }

    /// Bytes to the left of what a trusted proxy has written change nothing.
    #[test]
    fn a_client_cannot_choose_its_address(
        spoofed in prop::collection::vec(any::<u8>(), 0..200),
        client: u32,
        quoted: bool,
    ) {
        let client = Ipv4Addr::from_bits(client);
        prop_assume!(!trusted().contains(client.into()));
        let append = |entry: String| [&spoofed[..], b", ", entry.as_bytes()].concat();
        let forwarded = append(if quoted { format!("for=\"{client}\"") } else { format!("for={client}") });
        for (source, line) in [
            (ForwardedSource::Forwarded, forwarded),
            (ForwardedSource::XForwardedFor, append(client.to_string())),
        ] {
            let found = client_address(ip(PEER), &trusted(), source, [&line[..]]);
            prop_assert_eq!(found, IpAddr::V4(client));
        }
    }
}

use super::value::{cidr, decimal, duration, instant, window};
use super::*;
use crate::parse;

#[test]
fn decimals_are_exact() {
    let read = |text: &str| decimal(&parse(text).unwrap(), 0, u64::MAX).ok();
    assert_eq!(read("0.1"), Some(100_000));
    assert_eq!(read(".5"), Some(500_000));
    assert_eq!(read("2."), Some(2_000_000));
    assert_eq!(read("1.000001"), Some(1_000_001));
    assert_eq!(read("1.0000001"), None);
    assert_eq!(read("99999999999999999999"), None);
    assert_eq!(read("-0.1"), None);
    assert_eq!(
        (decimal_text(500_000), decimal_text(1), decimal_text(2_000_000)),
        ("0.5".into(), "0.000001".into(), "2".into())
    );
}

#[test]
fn durations_and_windows_are_exact() {
    let of =
        |text: &str| duration(&parse(text).unwrap(), WINDOW_MILLIS_MAX).ok().map(tidegate_core::Nanos::get);
    assert_eq!(of("250ms"), Some(250_000_000));
    assert_eq!(of("366d"), Some(366 * 86_400 * 1_000_000_000));
    assert_eq!(of("8784h"), of("366d"));
    for wrong in
        ["73051d", "0s", "10", "s", "1w", "-1s", "1 s", "1S", "18446744073709551616ms", "9999999999999999d"]
    {
        assert_eq!(of(wrong), None, "{wrong}");
    }
    let window_of = |text: &str| window(&parse(text).unwrap()).ok();
    assert_eq!(window_of("day"), window_of("24h"));
    assert_eq!(window_of("week"), None);
}

#[test]
fn networks_and_instants() {
    let network = |text: &str| cidr(&parse(text).unwrap()).ok().map(|net| net.to_string());
    assert_eq!(network("192.0.2.7"), Some("192.0.2.7/32".into()));
    assert_eq!(network("2001:db8::/32"), Some("2001:db8::/32".into()));
    assert_eq!(network("10.0.0.0/33"), None);
    let at = |text: &str| instant(&parse(text).unwrap()).ok().map(tidegate_core::Nanos::get);
    assert_eq!(at("1970-01-01T00:00:01Z"), Some(1_000_000_000));
    assert_eq!(at("1970-01-01T02:00:00.5+02:00"), Some(500_000_000));
    assert_eq!(at("9999-12-30T00:00:00Z"), None);
    assert_eq!(at("2030-01-01T00:00:00"), None, "a time without a zone is no instant");
}

//! Which fields are accepted, and the errors of others.

use tidegate::Cost;
use tidegate_policy::{Descriptor, Priority, Trust};

use super::*;

fn request<'a>(fields: &[(&'a str, &'a str)]) -> Result<Request<'a>, FieldError> {
    let mut all = RequestFields::new();
    for (name, value) in fields {
        all.set(name, value)?;
    }
    Ok(all.into_request())
}

#[test]
fn every_field_has_its_place() {
    let read = request(&[
        ("tenant", "t"),
        ("user", "u"),
        ("client", "c"),
        ("ip", "2001:db8::1"),
        ("plan", "free"),
        ("upstream", "up"),
        ("method", "GET"),
        ("host", "h"),
        ("path", "/p"),
        ("domain", "d"),
        ("header:X-Key", "k"),
        ("header:x-key", "l"),
        ("jwt:sub", "s"),
        ("descriptor:a b", "never read"),
    ]);
    assert!(matches!(read, Err(FieldError::Unknown { .. })), "a blank in a name: {read:?}");
    let read = request(&[
        ("tenant", "t"),
        ("user", "u"),
        ("upstream", "up"),
        ("ip:address", "2001:db8::1"),
        ("header:X-Key", "k"),
        ("header:x-key", "l"),
        ("jwt:https://e.example/role", "s"),
        ("descriptor:generic_key", "x"),
        ("priority", "90"),
        ("cost", "0"),
        ("trust", "0.8"),
        ("credential", "invalid"),
    ]);
    let expected =
        Request::new().tenant("t").user("u").upstream("up").header("X-Key", "k").header("x-key", "l");
    let expected = expected.ip("2001:db8::1".parse::<std::net::IpAddr>().unwrap()).cost(Cost::ZERO);
    let expected = expected.credential(tidegate_policy::Credential::Invalid);
    let expected = expected.claim("https://e.example/role", "s").descriptor("generic_key", "x");
    let expected = expected.priority(Priority::new(90).unwrap());
    let expected = Request { headers_trusted: true, ..expected };
    assert_eq!(read, Ok(expected.trust(Trust::from_hundredths(80).unwrap())));
}

#[test]
fn query_parameters_are_read_back_as_they_were_written() {
    let odd = "a b&c=d%+é";
    let read = request(&[("query", "x=1"), ("query:q", odd), ("query:ü&", "2")]).unwrap();
    assert_eq!(read.query.as_deref(), Some("x=1&q=a%20b%26c%3Dd%25%2B%C3%A9&%C3%BC%26=2"));
    let facts = tidegate_policy::Facts::new(&read);
    for (name, value) in [("query:x", "1"), ("query:q", odd), ("query:ü&", "2")] {
        let descriptor = Descriptor::parse(name).unwrap();
        assert_eq!(facts.value(&descriptor).as_deref(), Some(value), "{name}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    for (fields, message) in [
        (&[("usr", "a")][..], "unknown field 'usr'; did you mean 'user'?"),
        (&[("headr:x", "a")], "unknown field 'headr:x'; did you mean 'header:x'?"),
        (&[("header:", "a")], "unknown field 'header:'; write 'header:<name>', without blanks"),
        (&[("colour", "a")], "unknown field 'colour'; fields are tenant, "),
        (&[("\x1b[31m\r\n", "a")], "unknown field '\\u{1b}[31m\\r\\n'; fields are"),
        (&[("route", "/a")], "'route' follows from the path"),
        (&[("user", "a"), ("user", "b")], "'user' is there twice"),
        (&[("cost", "1"), ("cost", "1")], "'cost' is there twice"),
        (&[("query:a", "1"), ("query", "a=1")], "'query' is there twice"),
        (&[("ip", "nowhere")], "'ip': 'nowhere' is not an address"),
        (&[("cost", "-1")], "'cost': '-1' is not an integer from 0 to 4294967295"),
        (&[("cost", "+1")], "'cost': '+1' is not"),
        (&[("cost", "4294967296")], "'cost': '4294967296' is not"),
        (&[("cost", "NaN")], "'cost': 'NaN' is not"),
        (&[("trust", "1.1")], "'trust': '1.1' is not a number from 0 to 1"),
        (&[("credential", "good")], "'credential': 'good' is not none, valid, invalid or unknown_key"),
        (&[("credential", "none"), ("credential", "valid")], "'credential' is there twice"),
    ] {
        let error = request(fields).expect_err(message).to_string();
        assert!(error.starts_with(message), "{error}");
    }
}

//! Which JSON is a request, and the errors of other JSON.

use tidegate::Cost;
use tidegate_policy::{Pairs, Priority, Trust};

use super::*;

fn message(line: &str) -> String {
    trace_line(line).expect_err(line).to_string()
}

#[test]
fn every_member_is_read() {
    let text = r#"{"at_ms":1.5,"tenant":"t","user":"u","client":"c","ip":"203.0.113.7","plan":"free","upstream":"up","method":"GET",
        "host":"h","path":"/p","query":"q=1","headers":{"a":"1","b":["2",3,true,null]},"jwt":{"sub":"\u0041"},
        "descriptors":null,"domain":"d","priority":7,"cost":7,"trust":0.29}"#;
    let line = trace_line(text).unwrap();
    let pairs = |names: &[(&'static str, &'static str)]| -> Pairs<'static> {
        names.iter().map(|&(name, value)| (name.into(), value.into())).collect()
    };
    let expected = Request {
        headers: pairs(&[("a", "1"), ("b", "2"), ("b", "3"), ("b", "true")]),
        ..Request::new().tenant("t").user("u").client("c").plan("free").method("GET").host("h").path("/p")
    };
    let expected = expected.upstream("up").query("q=1").domain("d").claim("sub", "A").cost(Cost::new(7));
    let expected = expected.ip(IpAddr::from([203, 0, 113, 7])).trust(Trust::from_hundredths(29).unwrap());
    let expected = expected.priority(Priority::new(7).unwrap());
    let expected = Request { headers_trusted: true, ..expected };
    assert_eq!(line.request, expected);
    assert_eq!((line.at, line.at_text), (Nanos::new(1_500_000), "1.5"));
}

#[test]
fn text_without_escapes_is_borrowed() {
    let line = trace_line(r#"{"at_ms":0,"user":"plain","headers":{"a":"é"},"path":"\/a"}"#).unwrap();
    assert!(matches!(line.request.user, Some(Cow::Borrowed("plain"))));
    assert!(matches!(line.request.headers[0], (Cow::Borrowed("a"), Cow::Borrowed("é"))));
    assert_eq!(line.request.path.as_deref(), Some("/a"));
}

#[test]
fn numbers_keep_the_text_they_were_written_in() {
    let line =
        trace_line(r#"{"at_ms":0,"headers":{"n":1.50,"big":123456789012345678901234567890}}"#).unwrap();
    let values: Vec<&str> = line.request.headers.iter().map(|(_, value)| &**value).collect();
    assert_eq!(values, ["1.50", "123456789012345678901234567890"]);
}

#[test]
fn a_whole_number_counts_as_its_digits_where_text_is_wanted() {
    for (json, text) in
        [("42", "42"), ("0", "0"), ("-7", "-7"), ("123456789012345678901", "123456789012345678901")]
    {
        for member in ["tenant", "user", "client", "plan", "method", "host", "path", "query", "domain"] {
            let [number, quoted] =
                [format!("{{\"{member}\":{json}}}"), format!("{{\"{member}\":\"{text}\"}}")];
            assert_eq!(request(&number).unwrap(), request(&quoted).unwrap(), "{number}");
        }
        for member in ["headers", "jwt", "descriptors"] {
            let [number, quoted] = [
                format!("{{\"{member}\":{{\"a\":{json}}}}}"),
                format!("{{\"{member}\":{{\"a\":\"{text}\"}}}}"),
            ];
            assert_eq!(request(&number).unwrap(), request(&quoted).unwrap(), "{number}");
        }
    }
    let nested = r#"{"requests":[{"user":42},{"user":"42"}]}"#;
    let read = crate::wire::batch(nested).unwrap();
    assert_eq!(read[0], read[1]);
}

#[test]
fn times_are_exact_and_within_range() {
    let at = |text: &str| trace_line(&format!("{{\"at_ms\":{text}}}")).ok().map(|line| line.at.get());
    for (text, nanos) in [("0", 0), ("0.1", 100_000), ("0.001", 1_000), ("12.34", 12_340_000)] {
        assert_eq!(at(text), Some(nanos), "{text}");
    }
    for text in ["-1", "1e3", "0.0001", "\"1\"", "null", "18446744073709.551", "18446744073709551615"] {
        assert_eq!(at(text), None, "{text}");
    }
}

#[test]
fn an_id_is_kept_as_it_is_written() {
    for id in ["\"a\\u0062\"", "\"\"", "7", "-12", "123456789012345678901234567890"] {
        let text = format!("{{\"id\":{id},\"at_ms\":0}}");
        assert_eq!(trace_line(&text).unwrap().id, Some(id));
    }
    assert_eq!(trace_line("{\"at_ms\":0}").unwrap().id, None);
    assert!(
        request("{\"id\":1}").unwrap_err().to_string().contains("unknown member `id`"),
        "only in a trace"
    );
    let long = format!("{{\"at_ms\":0,\"id\":\"{}\"}}", "n".repeat(255));
    assert!(message(&long).contains("`id`: "), "{}", message(&long));
}

#[test]
fn what_is_wrong_is_named() {
    for (line, what) in [
        (r#"{"at_ms":0,"id":1.5}"#, "`id`: 1.5 is not text or a whole number, of at most 256 bytes"),
        (r#"{"at_ms":0,"id":null}"#, "`id`: null is not"),
        (r#"{"at_ms":0,"id":1,"id":2}"#, "`id` is there twice"),
        (r#"{"at_ms":0,"usr":"a"}"#, "unknown member `usr`"),
        (r#"{"at_ms":0,"user":"a","user":"b"}"#, "`user` is there twice"),
        (r#"{"at_ms":0,"user":1.5}"#, "`user`: 1.5 is neither text nor a whole number"),
        (r#"{"at_ms":0,"user":1e3}"#, "`user`: 1e3 is neither"),
        (r#"{"at_ms":0,"plan":true}"#, "`plan`: true is neither"),
        (r#"{"at_ms":0,"tenant":["a"]}"#, "`tenant`: [\"a\"] is neither"),
        (r#"{"at_ms":0,"path":{}}"#, "`path`: {} is neither"),
        (r#"{"at_ms":0,"user":"\ud800"}"#, "`user`: "),
        (r#"{"at_ms":0,"ip":42}"#, "`ip`: `42` is not an IP address"),
        (r#"{"at_ms":0,"ip":"nowhere"}"#, "`ip`: `nowhere` is not an IP address"),
        (r#"{"at_ms":0,"cost":-1}"#, "`cost`: -1 is not an integer from 0 to 4294967295"),
        (r#"{"at_ms":0,"trust":2}"#, "`trust`: 2 is not a number from 0 to 1"),
        (r#"{"at_ms":0,"headers":{"a":{}}}"#, "`headers`: `a`: a value is text"),
        (r#"{"at_ms":0,"headers":[]}"#, "`headers`: "),
        (r#"{"user":"a"}"#, "`at_ms` is missing"),
        ("[]", "a request: a JSON object"),
        (r#"{"at_ms":0} x"#, "trailing characters"),
    ] {
        assert!(message(line).contains(what), "{line}: {}", message(line));
    }
    assert!(request(r#"{"at_ms":0}"#).unwrap_err().to_string().contains("unknown member `at_ms`"));
    assert!(message("{\"at_ms\":0,\"zone\":1}").contains("at_ms"), "the message lists the members");
}

#[test]
fn what_is_unknown_is_not_sent_back_whole() {
    let long = "n".repeat(60_000);
    for text in [format!("{{\"{long}\":1}}"), format!("{{\"ip\":\"{long}\"}}")] {
        let error = request(&text).unwrap_err();
        assert!(error.to_string().len() < 300 && error.field().is_some(), "{error}");
    }
    assert!(crate::wire::batch(&format!("{{\"{long}\":1}}")).unwrap_err().to_string().len() < 300);
    assert!(crate::wire::refund(&format!("{{\"{long}\":1}}")).unwrap_err().to_string().len() < 300);
    assert!(crate::wire::throttle(&format!("{{\"{long}\":1}}")).unwrap_err().to_string().len() < 300);
}

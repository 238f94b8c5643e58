use std::borrow::Cow;

use proptest::prelude::*;

use super::evidence::VALUE_BYTES_MAX;
use super::*;
use crate::Request;

fn sources(member: IdentityMember, list: &[&'static str]) -> IdentitySources {
    IdentitySources::new().with(member, list.iter().copied()).unwrap()
}

/// The value and the source of a member, or the fault.
fn found(
    member: IdentityMember,
    list: &[&'static str],
    evidence: &IdentityEvidence<'_, '_>,
) -> Result<Option<(String, String)>, String> {
    let sources = sources(member, list);
    let identified = sources.resolve(evidence).map_err(|fault| fault.to_string())?;
    let found = identified.members().next();
    Ok(found.map(|found| (found.value.to_string(), found.source.to_string())))
}

fn pair(value: &str, source: &str) -> Result<Option<(String, String)>, String> {
    Ok(Some((value.to_owned(), source.to_owned())))
}

#[test]
fn every_kind_of_source_is_written_as_it_is_read() {
    for text in [
        "header:x-tenant",
        "jwt:org.id",
        "query:tenant",
        "host:{tenant}.api.example.com",
        "host:a.{tenant}",
        "api_key",
    ] {
        let source = IdentitySource::parse(IdentityMember::Tenant, text).expect(text);
        assert_eq!(source.to_string(), text);
    }
    let source = IdentitySource::parse(IdentityMember::Tenant, "header:X-Tenant").unwrap();
    assert_eq!(source.to_string(), "header:x-tenant");
}

#[test]
fn what_is_not_a_source_says_what_to_write() {
    for (text, wanted) in [
        ("headr:x-tenant", "write `header:x-tenant`"),
        ("claim:org", "write `jwt:org`"),
        ("subdomain:x", "write `host:{tenant}.example.com`, with the name of your host"),
        ("{tenant}.api.example.com", "a pattern of hosts begins with `host:`: `host:{tenant}.example.com`"),
        ("api-key", "write `api_key`"),
        ("x-tenant", "a header is written `header:x-tenant`"),
        ("header:", "write a name without spaces after `header:`"),
        ("header:a b", "write a name without spaces after `header:`"),
        ("cookie:tenant", IdentitySource::FORMS),
        ("", IdentitySource::FORMS),
        ("host:{user}.example.com", "write `host:{tenant}.example.com`"),
        ("host:api.example.com", "write for instance `host:{tenant}.api.example.com`"),
        ("host:{tenant}-x.example.com", "write for instance `host:{tenant}.api.example.com`"),
        ("host:{tenant}.{tenant}.com", "write for instance `host:{tenant}.api.example.com`"),
        ("host:{tenant}", "without a port"),
        ("host:{tenant}.example.com:80", "without a port"),
        ("host:{tenant}..com", "without a port"),
    ] {
        let error = IdentitySource::parse(IdentityMember::Tenant, text).expect_err(text);
        assert!(error.to_string().contains(wanted), "{text}: {error}");
    }
    for member in [IdentityMember::Upstream, IdentityMember::Priority, IdentityMember::Trust] {
        assert!(IdentitySource::parse(member, "api_key").is_err(), "{member}");
    }
}

#[test]
fn a_host_gives_exactly_one_label() {
    let all = IdentitySource::parse(IdentityMember::Tenant, "host:{tenant}.API.example.com").unwrap();
    let IdentitySource::Host(template) = all else { panic!("it is a host") };
    for (host, wanted) in [
        ("acme.api.example.com", Some("acme")),
        ("ACME.Api.Example.com.", Some("acme")),
        ("acme.api.example.com:8443", Some("acme")),
        (" acme.api.example.com", Some("acme")),
        ("a.b.api.example.com", None),
        ("api.example.com", None),
        (".api.example.com", None),
        ("acme.api.example.com.evil.example", None),
        ("acmeapi.example.com", None),
        ("acme.api.example.com:x", None),
        ("[::1]:80", None),
        ("", None),
    ] {
        assert_eq!(template.find(host).as_deref(), wanted, "{host}");
    }
    assert_eq!(template.find(&format!("{}.api.example.com", "a".repeat(300))), None);
}

#[test]
fn the_first_source_with_a_value_is_used() {
    let headers = [("X-Tenant", &b" acme "[..]), ("x-empty", b"  ")];
    let claims = [(Cow::from("org"), Cow::from("globex")), ("none".into(), "".into())];
    let evidence = IdentityEvidence {
        headers: &headers,
        host: Some("initech.example.com"),
        query: Some("tenant=h%6Fo+li&x=1"),
        claims: &claims,
        ..IdentityEvidence::default()
    };
    let tenant = |list| found(IdentityMember::Tenant, list, &evidence);
    assert_eq!(tenant(&["header:x-tenant", "jwt:org"]), pair("acme", "header:x-tenant"));
    assert_eq!(tenant(&["jwt:org", "header:x-tenant"]), pair("globex", "jwt:org"));
    assert_eq!(tenant(&["header:x-empty", "jwt:none", "jwt:org"]), pair("globex", "jwt:org"));
    assert_eq!(tenant(&["query:tenant"]), pair("hoo li", "query:tenant"));
    assert_eq!(
        tenant(&["api_key", "host:{tenant}.example.com"]),
        pair("initech", "host:{tenant}.example.com")
    );
    assert_eq!(tenant(&["header:x-other", "query:other", "jwt:other", "api_key"]), Ok(None));
    assert_eq!(tenant(&[]), Ok(None), "no source, no value");
}

#[test]
fn a_key_has_what_its_entry_says() {
    let holder = KeyHolder { tenant: Some("acme".into()), ..KeyHolder::default() };
    let evidence = IdentityEvidence { key: Some(&holder), ..IdentityEvidence::default() };
    assert_eq!(found(IdentityMember::Tenant, &["api_key"], &evidence), pair("acme", "api_key"));
    assert_eq!(found(IdentityMember::Plan, &["api_key"], &evidence), Ok(None));
}

#[test]
fn what_cannot_be_used_is_a_fault_that_names_its_source() {
    let long = "x".repeat(VALUE_BYTES_MAX + 1);
    let headers: [(&str, &[u8]); 9] = [
        ("twice", b"a"),
        ("twice", b"b"),
        ("same", b"a"),
        ("same", b"a"),
        ("latin", b"\xe9"),
        ("long", long.as_bytes()),
        ("trust", b"1.5"),
        ("priority", b"101"),
        ("tab", b"a\tb"),
    ];
    let evidence = IdentityEvidence {
        headers: &headers,
        query: Some("twice=a&twice=b&same=a&same=%61&latin=%e9&nul=%00&p=+50&minus=-1"),
        unreadable_claims: &["object".into()],
        ..IdentityEvidence::default()
    };
    let fault = |member, source| found(member, &[source, "jwt:other"], &evidence);
    for (member, source, wanted) in [
        (
            IdentityMember::User,
            "header:twice",
            "`header:twice` was sent more than once, with different values",
        ),
        (IdentityMember::User, "header:latin", "`header:latin` must be UTF-8 text"),
        (IdentityMember::User, "header:long", "`header:long` is longer than 1024 bytes"),
        (IdentityMember::User, "header:tab", "`header:tab` must be text without control characters"),
        (IdentityMember::Trust, "header:trust", "`header:trust` must be a number from 0 to 1, such as 0.8"),
        (
            IdentityMember::Priority,
            "header:priority",
            "`header:priority` must be a whole number from 0 to 100",
        ),
        (IdentityMember::Priority, "query:p", "`query:p` must be a whole number from 0 to 100"),
        (IdentityMember::Priority, "query:minus", "`query:minus` must be a whole number from 0 to 100"),
        (IdentityMember::User, "query:twice", "`query:twice` was sent more than once, with different values"),
        (IdentityMember::User, "query:latin", "`query:latin` must be UTF-8 text"),
        (IdentityMember::User, "query:nul", "`query:nul` must be text without control characters"),
        (IdentityMember::User, "jwt:object", "`jwt:object` must be text, a number, or a list of these"),
    ] {
        assert_eq!(fault(member, source), Err(wanted.to_owned()));
    }
    assert_eq!(fault(IdentityMember::User, "header:same"), pair("a", "header:same"));
    assert_eq!(fault(IdentityMember::User, "query:same"), pair("a", "query:same"));
}

#[test]
fn members_that_are_not_listed_stay_as_they_are() {
    let sources = sources(IdentityMember::Tenant, &["header:x-tenant"]);
    let mut request = Request::new().user("42").tenant("before");
    let headers = [("x-tenant", &b"acme"[..]), ("x-trust", b"0.5")];
    let evidence = IdentityEvidence { headers: &headers, ..IdentityEvidence::default() };
    sources.resolve(&evidence).unwrap().describe(&mut request);
    assert_eq!(request, Request::new().user("42").tenant("acme"));
}

#[test]
fn what_a_request_already_has_can_be_left_alone() {
    let mut sources = sources(IdentityMember::Tenant, &["header:x-tenant"]);
    sources = sources.with(IdentityMember::Trust, ["header:x-trust"]).unwrap();
    let headers = [("x-tenant", &b"acme"[..]), ("x-trust", b"much")];
    let evidence = IdentityEvidence { headers: &headers, ..IdentityEvidence::default() };
    let mut request = Request::new().trust(crate::Trust::from_hundredths(7).unwrap());
    let urgent = super::IdentityMember::Priority;
    urgent.set_in(&mut request, "80".into());
    assert_eq!(
        (request.priority.map(crate::Priority::get), urgent.value_in(&request).as_deref()),
        (Some(80), Some("80"))
    );
    let found = sources.resolve_missing(&evidence, &request).expect("the bad trust is not looked at");
    found.describe(&mut request);
    assert_eq!(request.tenant.as_deref(), Some("acme"));
    assert_eq!(IdentityMember::Trust.value_in(&request).as_deref(), Some("0.07"));
    assert_eq!(IdentityMember::User.value_in(&request), None);
}

#[test]
fn before_the_credential_only_what_no_claim_can_change_is_known() {
    let headers = [("x-up", &b"openai"[..])];
    let evidence = IdentityEvidence { headers: &headers, ..IdentityEvidence::default() };
    let upstream = |list: &[&'static str]| {
        let sources = sources(IdentityMember::Upstream, list);
        let found = sources.upstream_before_credential(&evidence).unwrap();
        found.members().next().map(|found| found.value.to_string())
    };
    assert_eq!(upstream(&["query:up", "header:x-up", "jwt:up"]).as_deref(), Some("openai"));
    assert_eq!(upstream(&["jwt:up", "header:x-up"]), None);
    assert_eq!(upstream(&[]), None);
}

proptest! {
    /// Without headers that count, nothing that a client writes into them becomes an identity.
    #[test]
    fn no_header_counts_that_is_not_evidence(name in "[a-z-]{1,12}", host in ".{0,40}", query in ".{0,60}") {
        let sources = IdentitySources::new().with(IdentityMember::User, [&*format!("header:{name}")]).unwrap();
        let evidence =
            IdentityEvidence { host: Some(&host), query: Some(&query), ..IdentityEvidence::default() };
        prop_assert_eq!(sources.resolve(&evidence), Ok(Identified::default()));
    }

    /// A value is what the query has under the name, however it is escaped.
    #[test]
    fn a_parameter_is_what_was_escaped(value in "[ -~é]{0,20}", before in "[a-z=&]{0,10}") {
        let escaped: String = value.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let query = format!("{before}&tenant_id={escaped}");
        let wanted = Ok(Some(Cow::from(&*value)));
        prop_assert_eq!(single_query_value(&query, "tenant_id"), wanted);
    }

    /// A host fits only if replacing the placeholder by the label found gives the host again.
    #[test]
    fn a_label_found_makes_the_host_again(host in "[aA.b]{0,12}") {
        let source = IdentitySource::parse(IdentityMember::Tenant, "host:{tenant}.a.b").unwrap();
        let IdentitySource::Host(template) = source else { panic!("it is a host") };
        let plain = host.strip_suffix('.').unwrap_or(&host).to_ascii_lowercase();
        match template.find(&host) {
            Some(label) => prop_assert_eq!(format!("{label}.a.b"), plain),
            None => {
                let labels: Vec<&str> = plain.split('.').collect();
                let fits = labels.len() == 3 && !labels[0].is_empty() && labels[1..] == ["a", "b"];
                prop_assert!(!fits, "{}", host);
            }
        }
    }
}

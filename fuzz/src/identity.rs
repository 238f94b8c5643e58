//! Who is asking: headers, queries and hosts that clients write, read by the sources of an identity.
//!
//! The first line of an input is a host, the second a query, and every other line is `name: value` of a header.

use tidegate_policy::{IdentityEvidence, IdentityMember, IdentitySources, Request, Trust};

use crate::target::{FuzzFailure, kind_of};

pub(crate) fn try_input(input: &[u8]) -> Result<u64, FuzzFailure> {
    let mut lines = input.split(|byte| *byte == b'\n');
    let mut text = || String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let (host, query) = (text(), text());
    let headers: Vec<(&str, &[u8])> = lines.filter_map(header).collect();
    let sources = sources();
    let evidence = IdentityEvidence {
        headers: &headers,
        host: Some(&host),
        query: Some(&query),
        ..IdentityEvidence::default()
    };
    let stranger = IdentityEvidence { headers: &[], ..evidence };
    for found in sources.resolve(&stranger).iter().flat_map(|found| found.members()) {
        let source = found.source.to_string();
        FuzzFailure::unless(!source.starts_with("header:"), || format!("{source} of a stranger counts"))?;
    }
    let kinds = match sources.resolve(&evidence) {
        Err(fault) => {
            FuzzFailure::unless(sources.all().any(|(_, source)| source.to_string() == fault.source), || {
                format!("no source is called {}", fault.source)
            })?;
            fault.to_string()
        }
        Ok(identified) => {
            let mut kinds = String::new();
            for found in identified.members() {
                let value = &*found.value;
                let fits = !value.is_empty() && value.len() <= 1_024 && !value.contains(char::is_control);
                FuzzFailure::unless(fits, || format!("{value:?} is the {}", found.member))?;
                let is_trust = found.member != IdentityMember::Trust || Trust::parse(value).is_some();
                FuzzFailure::unless(is_trust, || format!("{value:?} is a trust"))?;
                kinds.push_str(&format!("{} {} ", found.member, found.source));
            }
            let mut request = Request::new();
            identified.describe(&mut request);
            kinds
        }
    };
    Ok(kind_of([kinds.as_str()].into_iter()))
}

fn header(line: &[u8]) -> Option<(&str, &[u8])> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    Some((std::str::from_utf8(&line[..colon]).ok()?, &line[colon + 1..]))
}

fn sources() -> IdentitySources {
    let listed = [
        (IdentityMember::Tenant, &["header:x-tenant", "query:tenant", "host:{tenant}.api.example.com"][..]),
        (IdentityMember::User, &["query:user", "header:x-user"]),
        (IdentityMember::Trust, &["header:x-trust", "query:trust"]),
        (IdentityMember::Priority, &["query:priority"]),
    ];
    listed.into_iter().fold(IdentitySources::new(), |sources, (member, list)| {
        sources.with(member, list.iter().copied()).expect("they are sources")
    })
}

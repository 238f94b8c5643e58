//! Upstreams: their names and hosts, and what a limit or a route of theirs applies to.

use crate::draft::{Draft, DraftUpstream, UpstreamLimit};
use crate::formats::{read_each, read_or_undo};
use crate::log::ImportLog;
use crate::source::{SourceFields, SourceValue};

use super::{About, Place, add_limit, rate_limit, routes, tenants};

/// The members that identify an upstream, the one that people and requests know it by first.
const NAMES: &[&str] = &["alias", "name", "id"];

/// Is it an upstream, although its document does not say so?
pub(crate) fn is_upstream(item: &SourceValue<'_>) -> bool {
    let is_document = ["upstreams", "tenants"].iter().any(|name| item.has(name));
    !is_document && ["alias", "host", "hosts", "server"].iter().any(|name| item.has(name))
}

/// Reads an upstream with its limit and its routes; returns its name in the policy. The name of an upstream may stand
/// before it, in a map.
pub(crate) fn read(
    item: &SourceValue<'_>,
    written_name: Option<&str>,
    place: &Place,
    draft: &mut Draft,
    log: &mut ImportLog,
) -> Option<String> {
    let mut fields = SourceFields::open(item, log)?;
    let hosts = read_hosts(&mut fields, log);
    let known_as = read_names(&mut fields, written_name, log);
    let owner = fields.take_any(&["tenant", "tenant_id"]);
    let tenant = owner.as_ref().and_then(|owner| owner.text(log)).or_else(|| place.tenant.clone());
    let (mark, known) = (draft.mark(), draft.upstream_counts());
    let repeated: Vec<String> =
        hosts.iter().filter(|host| draft.has_host(&known_as, host)).cloned().collect();
    let name = match known_as.first().or(hosts.first()) {
        Some(name) => {
            let (at, path) = (item.at, item.path.clone());
            let found = DraftUpstream { name: name.clone(), known_as: known_as.clone(), hosts, at, path };
            Some(draft.add_upstream(found, log))
        }
        None if place.is_only => {
            let why = "it is the only upstream, and has no `id`, `alias` or `host`";
            log.note(item, "the limit of this upstream applies to all requests", why);
            None
        }
        None => {
            log.problem(item, "this upstream cannot be identified", "`id`, `alias` or `host`");
            return None;
        }
    };
    let place = Place { upstream: name.clone(), tenant, is_only: false };
    if let Some(list) = fields.take("routes") {
        read_each(&list, draft, log, |item, draft, log| routes::read(item, &place, draft, log));
    }
    read_limit(fields, &place, draft, log);
    let is_used = place.tenant.as_ref().is_some_and(|tenant| draft.limits_tenant_since(mark, tenant));
    if let Some(owner) = owner.filter(|_| !is_used) {
        let why =
            "only limits belong to tenants, and it has none, or only those of routes with other tenants";
        log.note(&owner, "the tenant of this upstream is left out", why);
    }
    if name.is_some() && draft.mark() == mark && draft.upstream_counts() == known {
        let why = "it is described elsewhere, and has no limit, route or host of its own here";
        log.note(item, "this upstream is left out", why);
    } else if !repeated.is_empty() {
        let what = format!("`{}` is named again as a host of this upstream", repeated.join("`, `"));
        log.note(item, what, "another entry for the same upstream has it already");
    }
    name
}

/// Its hosts: `host`, `hosts`, or those of the endpoints of its `server`.
fn read_hosts(fields: &mut SourceFields<'_>, log: &mut ImportLog) -> Vec<String> {
    let mut found: Vec<(String, SourceValue<'_>)> = Vec::new();
    for member in ["host", "hosts"] {
        if let Some(hosts) = fields.take(member) {
            found.extend(hosts.texts(log).into_iter().map(|host| (host, hosts.clone())));
        }
    }
    if let Some(mut server) = fields.take("server").and_then(|server| SourceFields::open(&server, log)) {
        for endpoint in server.take("endpoints").map(|list| list.list(log)).unwrap_or_default() {
            let Some(mut endpoint) = SourceFields::open(&endpoint, log) else { continue };
            let host = endpoint.need("host", "the host of the endpoint", log);
            found.extend(host.and_then(|host| Some((host.text(log)?, host))));
            for member in ["scheme", "port"] {
                if let Some(item) = endpoint.take(member) {
                    let why = "an upstream is found by its hosts, whatever the scheme and the port";
                    log.note_once(&item, format!("`{member}` is left out"), why);
                }
            }
            endpoint.finish(log);
        }
        server.finish(log);
    }
    found.into_iter().map(|(host, origin)| without_port(host, &origin, log)).collect()
}

/// The host without its port, which no condition on hosts has.
fn without_port(host: String, item: &SourceValue<'_>, log: &mut ImportLog) -> String {
    match host.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            let why = "an upstream is found by its hosts, whatever the scheme and the port";
            log.note(item, format!("the port {port} is left out"), why);
            name.to_owned()
        }
        _ => host,
    }
}

/// What it is known as; the first is its name.
fn read_names(fields: &mut SourceFields<'_>, written_name: Option<&str>, log: &mut ImportLog) -> Vec<String> {
    let mut names: Vec<String> = written_name.map(str::to_owned).into_iter().collect();
    for member in NAMES {
        let Some(item) = fields.take(member) else { continue };
        let Some(name) = item.text(log) else { continue };
        if !names.is_empty() && !names.contains(&name) {
            let why = "the upstream has another name in the policy; routes that refer to this one have that name too";
            log.note_once(&item, format!("the `{member}` of an upstream is left out"), why);
        }
        names.push(name);
    }
    names
}

/// Reads its limit: that of a tenant, or one for all requests to it. Problems with the limit leave the upstream and its
/// routes.
fn read_limit(mut fields: SourceFields<'_>, place: &Place, draft: &mut Draft, log: &mut ImportLog) {
    let Some(item) = fields.take("rate_limit") else { return fields.finish(log) };
    if let (Some(upstream), Some(tenant)) = (&place.upstream, &place.tenant) {
        fields.finish(log);
        return read_tenant_limit(&item, upstream, tenant, draft, log);
    }
    let about = About::read(&mut fields, log);
    fields.finish(log);
    let name = place.upstream.as_deref().unwrap_or("rate-limit");
    read_or_undo(&item, draft, log, |draft, log| {
        let found = rate_limit::read(&item, log);
        add_limit(name, found, place.conditions(), about, draft, log);
    });
}

fn read_tenant_limit(
    item: &SourceValue<'_>,
    upstream: &str,
    tenant: &str,
    draft: &mut Draft,
    log: &mut ImportLog,
) {
    let found = log.attempt(item, |log| rate_limit::read(item, log));
    let Some(members) = found.and_then(|found| tenants::members(found, log)) else { return };
    let (tenant, upstream) = (tenant.to_owned(), upstream.to_owned());
    let limit = UpstreamLimit { tenant, upstream, members, at: item.at, path: item.path.clone() };
    if let Err(limit) = draft.add_upstream_limit(limit) {
        let UpstreamLimit { tenant, upstream, .. } = limit;
        let message = format!("the tenant `{tenant}` has two limits for the upstream `{upstream}`");
        log.skip(item, message, "one limit for each tenant and upstream");
    }
}

//! Routes: one with only a cost becomes an entry of `routes`, one with a rate becomes a limit for that path.

use crate::draft::{Draft, DraftRoute};
use crate::formats::path_pattern;
use crate::log::ImportLog;
use crate::source::{SourceFields, SourceValue};

use super::{About, Place, add_limit, is_rate, rate_limit};

/// Reads a route.
pub(crate) fn read(item: &SourceValue<'_>, place: &Place, draft: &mut Draft, log: &mut ImportLog) {
    let Some(mut fields) = SourceFields::open(item, log) else { return };
    let (path, methods) = read_match(&mut fields, log);
    let Some(found) = fields.take("rate_limit") else {
        return log.note(item, "this route is left out", "it has neither a cost nor a limit of its own");
    };
    let place = read_place(&mut fields, place, draft, log);
    let Some((path, origin)) = path else {
        if !(place.is_only && is_rate(&found)) {
            return log.problem(item, "`path` is missing", "the path of the route");
        }
        let why = "it is the only route, and has no `path`";
        log.note(item, "the limit of this route applies to every path", why);
        return read_limit(fields, &found, None, methods, &place, draft, log);
    };
    let Some(pattern) = path_pattern(&path, &origin, log) else { return };
    if is_rate(&found) {
        read_limit(fields, &found, Some(pattern), methods, &place, draft, log);
    } else {
        read_cost(fields, &found, pattern, methods, &place, draft, log);
    }
}

/// Whose route it is: what it says itself, else what it stands in.
fn read_place(route: &mut SourceFields<'_>, place: &Place, draft: &mut Draft, log: &mut ImportLog) -> Place {
    let upstream = route.take_any(&["upstream", "upstream_id"]);
    let upstream = upstream.and_then(|item| Some(draft.upstream_of(&item.text(log)?, &item, log)));
    let tenant = route.take_any(&["tenant", "tenant_id"]).and_then(|tenant| tenant.text(log));
    Place {
        upstream: upstream.or_else(|| place.upstream.clone()),
        tenant: tenant.or_else(|| place.tenant.clone()),
        is_only: place.is_only,
    }
}

fn read_cost(
    mut route: SourceFields<'_>,
    found: &SourceValue<'_>,
    path: String,
    methods: Vec<String>,
    place: &Place,
    draft: &mut Draft,
    log: &mut ImportLog,
) {
    let cost = rate_limit::read_cost_only(found, log);
    let enabled = route.flag("enabled", log).unwrap_or(true);
    if let Some(tenant) = &place.tenant {
        let message = format!("this cost is for the tenant `{tenant}` alone");
        log.problem(&route.item, message, "a cost for all tenants: an entry of `routes` has no tenant");
    }
    route.finish(log);
    let upstream = place.upstream.clone();
    draft.routes.extend(cost.map(|cost| DraftRoute { path, methods, upstream, cost, enabled }));
}

fn read_limit(
    mut route: SourceFields<'_>,
    found: &SourceValue<'_>,
    pattern: Option<String>,
    methods: Vec<String>,
    place: &Place,
    draft: &mut Draft,
    log: &mut ImportLog,
) {
    let name = route.take_any(&["id", "name"]).and_then(|name| name.text(log));
    let about = About::read(&mut route, log);
    if place.tenant.is_some() {
        let what = "the limit of a tenant's route applies to that tenant, not to those below it";
        log.note_once(&route.item, what, "a condition on `tenant` compares ids");
    }
    route.finish(log);
    let by_path = || Some(format!("{}{}", place.upstream.as_deref().unwrap_or_default(), pattern.as_ref()?));
    let name = name.or_else(by_path).unwrap_or_else(|| "rate-limit".to_owned());
    let mut conditions = place.conditions();
    conditions.extend(pattern.map(|path| ("path".to_owned(), vec![path])));
    if !methods.is_empty() {
        conditions.push(("methods".to_owned(), methods));
    }
    let found = rate_limit::read(found, log);
    add_limit(&name, found, conditions, about, draft, log);
}

/// Path and methods of a route, from the route itself, `match` or `match.http`.
fn read_match<'a>(
    route: &mut SourceFields<'a>,
    log: &mut ImportLog,
) -> (Option<(String, SourceValue<'a>)>, Vec<String>) {
    let mut inner = route.take("match").and_then(|item| SourceFields::open(&item, log));
    let mut innermost =
        inner.as_mut().and_then(|fields| fields.take("http")).and_then(|item| SourceFields::open(&item, log));
    let mut take = |name: &str| {
        let places = [Some(&mut *route), inner.as_mut(), innermost.as_mut()];
        // Taken only where it is first found, so that a second one is noted.
        let place = places.into_iter().flatten().find(|fields| fields.item.has(name))?;
        place.take(name)
    };
    let (path, methods) = (take("path"), take("methods"));
    let path = path.and_then(|path| Some((path.text(log)?, path)));
    let methods = methods.map(|methods| methods.texts(log)).unwrap_or_default();
    for fields in [inner, innermost].into_iter().flatten() {
        fields.finish(log);
    }
    (path, methods)
}

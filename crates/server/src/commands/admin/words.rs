//! The words of `tidegate admin` for each route of the admin API, derived from the table of routes. So every route has
//! a command, and a new one gets its command by itself.

use http::Method;

use crate::control::api::route::ApiRoute;
use crate::control::api::table::routes;

/// A route and the words by which it is called.
#[derive(Clone)]
pub(super) struct RouteCommand {
    /// Such as `limits`.
    pub(super) subject: String,
    /// Such as `list` or `replace`; `None` if the subject alone is the command.
    pub(super) verb: Option<String>,
    pub(super) route: &'static ApiRoute,
}

/// The commands of all routes, in the order of the table.
pub(super) fn commands() -> Vec<RouteCommand> {
    let named = |route| {
        let (subject, verb) = words(route);
        RouteCommand { subject, verb, route }
    };
    routes().iter().map(named).collect()
}

/// Does the route answer with events, until it is interrupted?
pub(super) fn is_stream(route: &ApiRoute) -> bool {
    matches!(route.answer, crate::control::api::shape::AnswerShape::Events(_))
}

/// The subject is the first segment of the path. The verb is the last literal segment behind it, else what the method
/// does to the collection or to one entry. If a list has that literal segment too, both: `delete-live`.
fn words(route: &ApiRoute) -> (String, Option<String>) {
    let mut segments = route.path.split('/').filter(|segment| !segment.is_empty());
    let subject = segments.next().unwrap_or_default().trim_end_matches(".json").to_owned();
    let rest: Vec<&str> = segments.collect();
    let action = rest.iter().rev().find(|segment| !segment.starts_with('{'));
    if let Some(action) = action {
        let list = route.path.strip_suffix('}').and_then(|path| path.rsplit_once("/{")).map(|(list, _)| list);
        let verb = match routes().iter().any(|other| Some(&*other.path) == list) {
            true => format!("{}-{action}", route.method.as_str().to_lowercase()),
            false => (*action).to_owned(),
        };
        return (subject, Some(verb));
    }
    let of_one = !rest.is_empty();
    let has_siblings = routes().iter().filter(|other| first(other) == first(route)).count() > 1;
    let verb = match (&route.method, of_one) {
        _ if !has_siblings => None,
        (&Method::GET, true) => Some("get"),
        (&Method::GET, false) if is_list(route) => Some("list"),
        (&Method::GET, false) => Some("get"),
        (&Method::POST, _) => Some("create"),
        (&Method::PUT, _) => Some("replace"),
        (&Method::PATCH, _) => Some("patch"),
        (&Method::DELETE, _) => Some("delete"),
        _ => Some("call"),
    };
    (subject, verb.map(str::to_owned))
}

fn first(route: &ApiRoute) -> &str {
    route.path.split('/').find(|segment| !segment.is_empty()).unwrap_or_default()
}

/// Does the route answer with a page of a list?
pub(super) fn is_list(route: &ApiRoute) -> bool {
    matches!(route.answer, crate::control::api::shape::AnswerShape::List(_))
}

/// May the server take long to answer?
pub(super) fn is_long(route: &ApiRoute) -> bool {
    ["/audit/verify", "/simulate"].contains(&&*route.path)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_route_has_words_of_its_own() {
        let all = commands();
        let words: BTreeSet<_> = all.iter().map(|command| (&command.subject, &command.verb)).collect();
        assert_eq!(words.len(), all.len(), "two routes have the same words");
        for subject in all.iter().map(|command| &command.subject) {
            let verbs: Vec<_> =
                all.iter().filter(|other| other.subject == *subject).map(|other| &other.verb).collect();
            assert!(verbs.len() == 1 || verbs.iter().all(|verb| verb.is_some()), "{subject}: {verbs:?}");
        }
    }
}

//! `tidegate admin`: every route of the admin API as a command. `words` names the commands, `arguments` makes their
//! flags, both from the table of routes; `connection` finds the server and the token; `output` prints tables, and `stream`
//! prints events as they come. `top` is `tidegate top`.

mod arguments;
mod connection;
mod output;
mod stream;
pub(super) mod top;
mod top_screen;
mod words;

use std::io::IsTerminal;

use bytes::Bytes;
use clap::ArgMatches;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, IF_MATCH};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

pub(crate) use arguments::AdminArgs;

use super::http_client::{HttpAnswer, HttpCall, HttpClientError, ServerTarget};
use super::print;
use crate::bounds::{API_BODY_BYTES_MAX, CHECK_TIMEOUT, LONG_CALL_TIMEOUT};
use crate::commands::terminal::exit::{CommandFailure, display_path, print_stderr, read_text};
use crate::commands::terminal::paint::Paint;
use crate::control::api::PREFIX;
use crate::control::api::route::ApiRoute;
use crate::control::api::shape::BodyShape;
use arguments::argument_id;
use connection::AdminConnection;
use words::{RouteCommand, is_list, is_long, is_stream};

pub(super) fn run(args: &AdminArgs) -> Result<(), CommandFailure> {
    let (RouteCommand { route, .. }, matches) =
        args.call().ok_or_else(|| CommandFailure::Usage("name a command of `tidegate admin`".to_owned()))?;
    let connection = AdminConnection::find(matches)?;
    let target = ServerTarget::parse(&connection.server).map_err(usage)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(running)?;
    // A stream has only one format, and no flag for it.
    let format = matches.try_get_one::<String>("format").ok().flatten().map_or("text", String::as_str);
    let mut call = call(route, matches, &connection, format)?;
    if is_stream(route) {
        let count = matches.get_one::<u64>("count").copied();
        return runtime.block_on(stream::print_events(&target, &call, connection.ca.as_deref(), count));
    }
    let path = call.path.clone();
    let follows = is_list(route) && matches.get_flag("all");
    let (mut items, mut count): (Vec<Value>, usize) = (Vec::new(), 0);
    loop {
        let answer = runtime.block_on(target.send(&call, connection.ca.as_deref()));
        let answer = answer.map_err(|error| failed(route, &error))?;
        check(&answer, document_name(route, matches))?;
        if !is_list(route) {
            print_answer(&answer, format)?;
            return verdict(route, &answer);
        }
        if is_streamed(format) {
            count += print_page(&answer, format, count > 0)?;
        } else {
            items.extend(page(&answer)?);
            count = items.len();
        }
        let Some(next) = next_cursor(&answer).filter(|_| follows) else {
            let is_cut = next_cursor(&answer).is_some();
            return finish(format, &items, is_cut);
        };
        progress(count);
        let joint = if path.contains('?') { '&' } else { '?' };
        call.path = format!("{path}{joint}cursor={}", utf8_percent_encode(&next, NON_ALPHANUMERIC));
    }
}

/// Are the pages of a list printed as they come?
fn is_streamed(format: &str) -> bool {
    format == "csv" || format == "lines"
}

/// What the problems of a refused document are problems of: the file of a whole policy, or the policy of the server as it
/// would be after the change.
fn document_name<'m>(route: &ApiRoute, matches: &'m ArgMatches) -> &'m str {
    let sent = matches!(route.body, BodyShape::Policy | BodyShape::PolicyDraft | BodyShape::Text);
    let body = sent.then(|| matches.get_one::<String>("body")).flatten();
    body.map_or("policy", |body| if is_inline(body) { "body" } else { display_path(body) })
}

/// Why there is no answer.
fn failed(route: &ApiRoute, error: &HttpClientError) -> CommandFailure {
    let is_verify = route.path == "/audit/verify" && matches!(error, HttpClientError::Timeout { .. });
    let hint = if is_verify { "; `tidegate audit verify` works on the database itself" } else { "" };
    CommandFailure::Running(format!("{error}{hint}"))
}

fn usage(error: impl std::fmt::Display) -> CommandFailure {
    CommandFailure::Usage(error.to_string())
}

fn running(error: impl std::fmt::Display) -> CommandFailure {
    CommandFailure::Running(error.to_string())
}

/// The request that the arguments stand for.
fn call(
    route: &ApiRoute,
    matches: &ArgMatches,
    connection: &AdminConnection,
    format: &str,
) -> Result<HttpCall, CommandFailure> {
    let mut path = format!("{PREFIX}{}", route.path);
    for name in route.path_names() {
        let value = matches.get_one::<String>(&argument_id("path", name)).map_or("", String::as_str);
        let value = utf8_percent_encode(value, NON_ALPHANUMERIC).to_string();
        path = path.replace(&format!("{{{name}}}"), &value);
    }
    let mut query = form_urlencoded::Serializer::new(String::new());
    for field in route.query() {
        if let Some(value) = matches.get_one::<String>(&argument_id("query", field.name)) {
            query.append_pair(field.name, value);
        }
    }
    let query = query.finish();
    if !query.is_empty() {
        path = format!("{path}?{query}");
    }
    let mut headers = HeaderMap::new();
    let mut set = |name: HeaderName, value: &str| match HeaderValue::from_str(value) {
        Ok(value) => {
            headers.insert(name, value);
            Ok(())
        }
        Err(_) => {
            Err(CommandFailure::Usage(format!("the value for `{name}` has characters that cannot be sent")))
        }
    };
    if let Some(token) = &connection.token {
        set(AUTHORIZATION, &format!("Bearer {token}"))?;
    }
    match format {
        "csv" => set(ACCEPT, "text/csv")?,
        "lines" => set(ACCEPT, "application/x-ndjson")?,
        "json" => set(ACCEPT, "application/json")?,
        _ => {}
    }
    if let Ok(Some(version)) = matches.try_get_one::<String>("if-match") {
        set(IF_MATCH, &format!("\"{}\"", version.trim_matches('"')))?;
    }
    if let Ok(Some(key)) = matches.try_get_one::<String>("idempotency-key") {
        set(HeaderName::from_static("idempotency-key"), key)?;
    }
    let body = match route.body {
        BodyShape::None => String::new(),
        _ => body_text(matches.get_one::<String>("body").map_or("", String::as_str))?,
    };
    match route.body {
        BodyShape::None => {}
        BodyShape::Json(_) => set(CONTENT_TYPE, "application/json")?,
        BodyShape::MergePatch(_) => set(CONTENT_TYPE, "application/merge-patch+json")?,
        BodyShape::Policy | BodyShape::PolicyDraft if body.trim_start().starts_with('{') => {
            set(CONTENT_TYPE, "application/json")?
        }
        BodyShape::Policy | BodyShape::PolicyDraft => set(CONTENT_TYPE, "application/yaml")?,
        BodyShape::Text => set(CONTENT_TYPE, "text/plain")?,
    }
    let timeout = if is_long(route) { LONG_CALL_TIMEOUT } else { CHECK_TIMEOUT };
    Ok(HttpCall { method: route.method.clone(), path, headers, body: Bytes::from(body), timeout })
}

/// Is an argument the body itself, and not the name of a file?
fn is_inline(argument: &str) -> bool {
    argument.trim_start().starts_with(['{', '['])
}

/// The body: JSON text as it is, or the contents of the file it names.
fn body_text(argument: &str) -> Result<String, CommandFailure> {
    let text = match is_inline(argument) {
        true => argument.to_owned(),
        false => read_text(argument)?,
    };
    match text.len() > API_BODY_BYTES_MAX {
        true => Err(CommandFailure::Usage(format!("the body is larger than {API_BODY_BYTES_MAX} bytes"))),
        false => Ok(text),
    }
}

/// The failure of an answer that is not a success. Every problem that it lists is printed, and warnings too.
fn check(answer: &HttpAnswer, document: &str) -> Result<(), CommandFailure> {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let problems = body.get("problems").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    problems.iter().for_each(|problem| print_stderr(format_args!("{}", output::problem(problem, document))));
    let is_refused = answer.status == StatusCode::UNPROCESSABLE_ENTITY && !problems.is_empty();
    if answer.status.is_success() {
        return Ok(());
    }
    let refusal = output::refusal(&body);
    let more = refusal.as_ref().map(|refusal| refusal.more.as_slice()).unwrap_or_default();
    more.iter().for_each(|line| print_stderr(format_args!("{line}\n")));
    let detail =
        refusal.map_or_else(|| "no Tidegate admin API answers there".to_owned(), |refusal| refusal.told);
    let told = format!("the server answered {}: {detail}", answer.status);
    // An invalid document is not a failure of the server: the exit status tells them apart.
    Err(if is_refused { CommandFailure::Usage(told) } else { CommandFailure::Running(told) })
}

/// The failure of an answer that says that what was checked is not valid: a document, or the audit. The answer itself is
/// printed already.
fn verdict(route: &ApiRoute, answer: &HttpAnswer) -> Result<(), CommandFailure> {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    if body.get("valid") != Some(&Value::Bool(false)) {
        return Ok(());
    }
    if matches!(route.body, BodyShape::PolicyDraft) {
        return Err(CommandFailure::Invalid);
    }
    let broken = &body["broken"];
    let told = match (broken["seq"].as_u64(), broken["why"].as_str()) {
        (Some(seq), Some(why)) => format!("the audit entry {seq} {why}"),
        _ => "what was verified is not valid".to_owned(),
    };
    Err(CommandFailure::Running(told))
}

/// The entries of a page.
fn page(answer: &HttpAnswer) -> Result<Vec<Value>, CommandFailure> {
    let mut body: Value = serde_json::from_slice(&answer.body).map_err(running)?;
    match body.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => Ok(items),
        _ => Err(CommandFailure::Running("the server did not answer with a list".to_owned())),
    }
}

/// The cursor of the next page, which every format has in its `Link` header.
fn next_cursor(answer: &HttpAnswer) -> Option<String> {
    let link = answer.headers.get(http::header::LINK)?.to_str().ok()?;
    let query = link.strip_prefix("<?")?.split_once('>')?.0;
    let cursor = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "cursor");
    cursor.map(|(_, cursor)| cursor.into_owned())
}

/// Says on a terminal how many entries have come so far.
fn progress(count: usize) {
    if count > 0 && std::io::stderr().is_terminal() {
        print_stderr(format_args!("\r\x1b[K{count} entries"));
    }
}

/// Prints a page as the server has written it, and returns about how many entries it has. Only the first page of a table
/// has the line with the columns.
fn print_page(answer: &HttpAnswer, format: &str, is_later: bool) -> Result<usize, CommandFailure> {
    let text = String::from_utf8_lossy(&answer.body);
    let text = match format == "csv" && is_later {
        true => text.split_once("\r\n").map_or("", |(_columns, rows)| rows),
        false => &text,
    };
    print(text)?;
    Ok(text.lines().count())
}

/// Prints a list that was collected, and says if there is more.
fn finish(format: &str, items: &[Value], is_cut: bool) -> Result<(), CommandFailure> {
    if std::io::stderr().is_terminal() {
        print_stderr(format_args!("\r\x1b[K"));
    }
    match format {
        _ if is_streamed(format) => {}
        "json" => print(&format!("{}\n", Value::Array(items.to_vec())))?,
        _ if items.is_empty() => print_stderr(format_args!("there are none\n")),
        _ => print(&output::table(items, Paint::stdout()))?,
    }
    if is_cut {
        print_stderr(format_args!("there are more: use --all, or --limit\n"));
    }
    Ok(())
}

fn print_answer(answer: &HttpAnswer, format: &str) -> Result<(), CommandFailure> {
    let text = String::from_utf8_lossy(&answer.body);
    let parsed = serde_json::from_str::<Value>(&text).ok();
    let is_json = answer.headers.get(CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    match parsed {
        Some(value) if format == "text" && is_json => print(&output::object(&value, Paint::stdout())),
        _ => print(&text),
    }
}

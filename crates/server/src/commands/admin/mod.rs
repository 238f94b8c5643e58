//! `tidegate admin`: every route of the admin API as a command. `words` names the commands, `arguments` makes their
//! flags, both from the table of routes; `connection` finds the server and the token; `output` prints tables. `top` is
//! `tidegate top`.

mod arguments;
mod connection;
mod output;
pub(super) mod top;
mod top_screen;
mod words;

use std::io::IsTerminal;

use bytes::Bytes;
use clap::ArgMatches;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, IF_MATCH};
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

pub(crate) use arguments::AdminArgs;

use super::http_client::{HttpAnswer, HttpCall, ServerTarget};
use super::print;
use crate::bounds::API_BODY_BYTES_MAX;
use crate::commands::terminal::exit::{CommandFailure, print_stderr, read_text};
use crate::commands::terminal::paint::{Paint, printable};
use crate::control::api::PREFIX;
use crate::control::api::route::ApiRoute;
use crate::control::api::shape::BodyShape;
use arguments::argument_id;
use connection::AdminConnection;
use words::{RouteCommand, is_list};

pub(super) fn run(args: &AdminArgs) -> Result<(), CommandFailure> {
    let (RouteCommand { route, .. }, matches) =
        args.call().ok_or_else(|| CommandFailure::Usage("name a command of `tidegate admin`".to_owned()))?;
    let connection = AdminConnection::find(matches)?;
    let target = ServerTarget::parse(&connection.server).map_err(usage)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(running)?;
    let format = matches.get_one::<String>("format").map_or("text", String::as_str);
    let mut call = call(route, matches, &connection, format)?;
    let path = call.path.clone();
    let follows = is_list(route) && matches.get_flag("all");
    let mut items: Vec<Value> = Vec::new();
    loop {
        let answer = runtime.block_on(target.send(&call, connection.ca.as_deref())).map_err(running)?;
        check(&answer)?;
        if !is_list(route) || format == "csv" || format == "lines" {
            print_answer(&answer, format)?;
        } else {
            items.extend(page(&answer)?);
        }
        let Some(next) = next_cursor(&answer).filter(|_| follows) else {
            let is_cut = next_cursor(&answer).is_some();
            return finish(route, format, &items, is_cut);
        };
        progress(items.len());
        let joint = if path.contains('?') { '&' } else { '?' };
        call.path = format!("{path}{joint}cursor={}", utf8_percent_encode(&next, NON_ALPHANUMERIC));
    }
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
    Ok(HttpCall { method: route.method.clone(), path, headers, body: Bytes::from(body) })
}

/// The body: JSON text as it is, or the contents of the file it names.
fn body_text(argument: &str) -> Result<String, CommandFailure> {
    let text = match argument.trim_start().starts_with(['{', '[']) {
        true => argument.to_owned(),
        false => read_text(argument)?,
    };
    match text.len() > API_BODY_BYTES_MAX {
        true => Err(CommandFailure::Usage(format!("the body is larger than {API_BODY_BYTES_MAX} bytes"))),
        false => Ok(text),
    }
}

/// The failure of an answer that is not a success, with every problem that it lists.
fn check(answer: &HttpAnswer) -> Result<(), CommandFailure> {
    if answer.status.is_success() {
        return Ok(());
    }
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    for problem in body.get("problems").and_then(Value::as_array).into_iter().flatten() {
        let text = |name: &str| problem.get(name).and_then(Value::as_str).map(printable).unwrap_or_default();
        let number = |name: &str| problem.get(name).and_then(Value::as_u64).unwrap_or_default();
        let hint = Some(text("hint")).filter(|hint| !hint.is_empty()).map(|hint| format!(" ({hint})"));
        print_stderr(format_args!(
            "{}:{}: {}: {}{}\n",
            number("line"),
            number("column"),
            text("path"),
            text("message"),
            hint.unwrap_or_default()
        ));
    }
    let detail = body.get("detail").and_then(Value::as_str).map(printable);
    let detail = detail.unwrap_or_else(|| "no Tidegate admin API answers there".to_owned());
    Err(CommandFailure::Running(format!("the server answered {}: {detail}", answer.status)))
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
    let cursor = link.strip_prefix("<?cursor=")?.split_once('>')?.0;
    Some(percent_encoding::percent_decode_str(cursor).decode_utf8().ok()?.into_owned())
}

/// Says on a terminal how many entries have come so far.
fn progress(count: usize) {
    if count > 0 && std::io::stderr().is_terminal() {
        print_stderr(format_args!("\r\x1b[K{count} entries"));
    }
}

/// Prints a list that was collected.
fn finish(route: &ApiRoute, format: &str, items: &[Value], is_cut: bool) -> Result<(), CommandFailure> {
    if !is_list(route) || format == "csv" || format == "lines" {
        return Ok(());
    }
    if std::io::stderr().is_terminal() {
        print_stderr(format_args!("\r\x1b[K"));
    }
    match format {
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

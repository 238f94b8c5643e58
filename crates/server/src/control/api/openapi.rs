//! The OpenAPI document, made from the table of routes.

use serde_json::{Map, Value, json};

use super::answer::{CSV, EVENTS, JSON, LINES, YAML};
use super::query::{DRY_RUN, QUERY_TEXT_MAX, REASON};
use super::route::{ApiRoute, RouteAccess, TenantRule};
use super::shape::{AnswerShape, BodyShape, JsonShape};
use super::table::routes;
use super::{PREFIX, statuses};

/// The document as text: pretty printed, and the same every time.
pub(crate) fn text() -> String {
    let mut text = serde_json::to_string_pretty(&document()).expect("the document is plain JSON");
    text.push('\n');
    text
}

fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in routes() {
        let path = paths.entry(format!("{PREFIX}{}", route.path)).or_insert_with(|| json!({}));
        path[route.method.as_str().to_ascii_lowercase()] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tidegate admin API",
            "version": "1",
            "description": "Roles, each including those before it: viewer, operator, editor, admin.",
        },
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "responses": statuses::components(),
            "schemas": schemas(),
        },
    })
}

fn operation(route: &ApiRoute) -> Value {
    let mut operation = json!({
        "operationId": operation_id(route),
        "summary": route.about,
        "responses": responses(route),
    });
    let parameters = path_parameters(route).chain(query_parameters(route)).chain(header_parameters(route));
    let parameters: Vec<Value> = parameters.collect();
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if let Some(body) = request_body(&route.body) {
        operation["requestBody"] = body;
    }
    match route.access {
        RouteAccess::Open => operation["security"] = json!([]),
        RouteAccess::Role(role, tenants) => {
            operation["description"] = format!("Role: `{role}`. {}", tenant_words(tenants)).into();
        }
    }
    operation
}

fn tenant_words(tenants: TenantRule) -> &'static str {
    match tenants {
        TenantRule::Whole => "Not for tokens that are restricted to a tenant.",
        TenantRule::Subtree => "A token that is restricted to a tenant sees that tenant's subtree.",
        TenantRule::Any => "Also for tokens that are restricted to a tenant.",
    }
}

/// Such as `get_limits_name`.
fn operation_id(route: &ApiRoute) -> String {
    let path = route.path.replace(['{', '}'], "").replace(['/', '.', '-'], "_");
    format!("{}{path}", route.method.as_str().to_ascii_lowercase())
}

fn path_parameters(route: &ApiRoute) -> impl Iterator<Item = Value> {
    route.path_names().map(|name| {
        json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string", "minLength": 1 } })
    })
}

fn query_parameters(route: &ApiRoute) -> impl Iterator<Item = Value> {
    route.query().into_iter().map(|field| {
        let mut parameter = json!({
            "name": field.name,
            "in": "query",
            "description": field.about,
            "schema": field.kind.schema(),
        });
        if field.kind.is_needed() {
            parameter["required"] = true.into();
        }
        parameter
    })
}

/// The headers that calls may have, besides those of HTTP itself.
fn header_parameters(route: &ApiRoute) -> impl Iterator<Item = Value> {
    let has_reason = route.query().iter().any(|field| field.name == REASON[0].name);
    let is_versioned = route.is_versioned_write();
    let headers = [
        (
            has_reason,
            "X-Reason",
            "Why, for the audit: ASCII. Also the parameter `reason`, which goes first.",
            json!({ "type": "string", "maxLength": QUERY_TEXT_MAX, "pattern": "^[\t -~]*$" }),
        ),
        (
            is_versioned,
            "If-Match",
            "The version on which the change was made, in quotes; it is refused if another one is in force.",
            json!({ "type": "string", "pattern": "^(\\*|\"[0-9]{1,18}\"(, \"[0-9]{1,18}\"){0,15})$" }),
        ),
        (
            route.takes_idempotency_key(),
            "Idempotency-Key",
            "A call that is repeated with the same key within 24 hours is done once, and answered the same.",
            json!({ "type": "string", "pattern": "^[!-~]{1,255}$" }),
        ),
    ];
    let wanted = headers.into_iter().filter(|(is_taken, ..)| *is_taken);
    wanted.map(|(_, name, about, schema)| {
        json!({ "name": name, "in": "header", "description": about, "schema": schema })
    })
}

fn request_body(shape: &BodyShape) -> Option<Value> {
    let content = match shape {
        BodyShape::None => return None,
        BodyShape::Json(shape) => json!({ JSON: { "schema": shape.reference() } }),
        BodyShape::MergePatch(_) => {
            json!({ "application/merge-patch+json": { "schema": { "type": "object" } } })
        }
        BodyShape::Policy => policy_content(),
        BodyShape::PolicyDraft => json!({ JSON: { "schema": {} }, YAML: { "schema": {} } }),
        BodyShape::Text => json!({ "text/plain": { "schema": { "type": "string" } } }),
    };
    Some(json!({ "required": true, "content": content }))
}

fn policy_content() -> Value {
    let schema = JsonShape::Policy("policy").reference();
    json!({ JSON: { "schema": schema }, YAML: { "schema": schema } })
}

fn responses(route: &ApiRoute) -> Value {
    let json_of = |shape: &JsonShape| json!({ JSON: { "schema": shape.reference() } });
    let text = || json!({ "schema": { "type": "string" } });
    let (status, content) = match &route.answer {
        AnswerShape::Json(shape) => ("200", json_of(shape)),
        AnswerShape::Created(shape) => ("201", json_of(shape)),
        AnswerShape::JsonOrLines(shape) => {
            ("200", json!({ JSON: { "schema": shape.reference() }, LINES: text() }))
        }
        AnswerShape::Policy => ("200", policy_content()),
        AnswerShape::Events(_) => ("200", json!({ EVENTS: { "schema": { "type": "string" } } })),
        AnswerShape::List(shape) => {
            let page = json!({
                "type": "object",
                "required": ["items", "next"],
                "properties": {
                    "items": { "type": "array", "items": shape.reference() },
                    "next": { "type": ["string", "null"] },
                },
            });
            ("200", json!({ JSON: { "schema": page }, CSV: text(), LINES: text() }))
        }
    };
    let mut done = json!({ "description": "Done.", "content": content });
    let mut headers = answer_headers(route);
    if !headers.is_empty() {
        done["headers"] = headers.clone().into();
    }
    let mut responses = Map::from_iter(statuses::refusals(route));
    let can_be_tried = route.query().iter().any(|field| field.name == DRY_RUN[0].name);
    if status == "201" && can_be_tried {
        headers.remove("Location");
        let about = "What the call would answer without `dry_run`. Nothing was written.";
        responses.insert(
            "200".to_owned(),
            json!({ "description": about, "content": content, "headers": headers }),
        );
    }
    responses.insert(status.to_owned(), done);
    responses.into()
}

/// The headers that an answer always has.
fn answer_headers(route: &ApiRoute) -> Map<String, Value> {
    let header =
        |about: &str, schema: Value| json!({ "required": true, "description": about, "schema": schema });
    let mut headers = Map::new();
    if matches!(route.answer, AnswerShape::Created(_)) {
        let about = "Where the new entry is.";
        headers.insert("Location".to_owned(), header(about, json!({ "type": "string" })));
    }
    if matches!(route.answer, AnswerShape::Policy) || route.is_versioned_write() || route.collection.is_some()
    {
        let about = "The version of the policy, for `If-Match`.";
        let schema = json!({ "type": "string", "pattern": "^\"[0-9]+\"$" });
        headers.insert("ETag".to_owned(), header(about, schema));
    }
    headers
}

/// The schemas that routes refer to: types of the program, the objects of the policy, and the problem body.
fn schemas() -> Value {
    let mut types = Vec::new();
    for route in routes() {
        let body = match &route.body {
            BodyShape::Json(shape) | BodyShape::MergePatch(shape) => Some(shape),
            _ => None,
        };
        let answer = match &route.answer {
            AnswerShape::Json(shape) | AnswerShape::JsonOrLines(shape) | AnswerShape::Events(shape) => {
                Some(shape)
            }
            AnswerShape::Created(shape) | AnswerShape::List(shape) => Some(shape),
            AnswerShape::Policy => None,
        };
        body.into_iter().chain(answer).for_each(|shape| shape.collect(&mut types));
    }
    let mut schemas = Map::new();
    schemas.insert("Problem".to_owned(), problem_schema());
    for (name, schema) in types {
        schemas.insert(name, serde_json::to_value(schema).expect("a schema is plain JSON"));
    }
    // The schema of the policy is text with references into itself.
    let policy = tidegate_policy::json_schema().replace("#/$defs/", "#/components/schemas/policy.");
    let mut policy: Value = serde_json::from_str(&policy).expect("the schema of the policy is JSON");
    if let Some(Value::Object(objects)) = policy.get_mut("$defs").map(Value::take) {
        schemas.extend(objects.into_iter().map(|(name, schema)| (format!("policy.{name}"), schema)));
    }
    Value::Object(schemas)
}

fn problem_schema() -> Value {
    json!({
        "type": "object",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": { "type": "string" },
            "title": { "type": "string" },
            "status": { "type": "integer" },
            "detail": { "type": "string" },
            "pointer": { "type": "string", "description": "A JSON pointer into the body, or the name of a parameter." },
            "problems": { "type": "array", "items": { "type": "object" }, "description": "Everything that is wrong with a policy." },
        },
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn each_reference(value: &Value, visit: &mut impl FnMut(&str)) {
        match value {
            Value::Object(members) => {
                if let Some(Value::String(target)) = members.get("$ref") {
                    visit(target);
                }
                members.values().for_each(|member| each_reference(member, visit));
            }
            Value::Array(items) => items.iter().for_each(|item| each_reference(item, visit)),
            _ => {}
        }
    }

    #[test]
    fn every_route_is_in_it_once_and_every_reference_leads_somewhere() {
        let document = document();
        let ids: BTreeSet<String> = routes().iter().map(operation_id).collect();
        assert_eq!(ids.len(), routes().len(), "two routes have the same method and path");
        let mut seen = 0;
        each_reference(&document, &mut |target| {
            let pointer = target.strip_prefix('#').expect("references stay in the document");
            assert!(document.pointer(pointer).is_some(), "{target}");
            seen += 1;
        });
        assert!(seen > 10);
    }
}

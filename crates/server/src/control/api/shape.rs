//! The shapes of bodies and answers, from which the OpenAPI document is made.

use std::sync::LazyLock;

use serde_json::{Value, json};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

/// The shape of a JSON value.
#[derive(Clone, Copy)]
pub(crate) enum JsonShape {
    /// A type of the program.
    Type(TypeShape),
    /// An object of the policy document, by its name in the JSON Schema of the policy.
    Policy(&'static str),
    /// Any JSON object.
    Object,
}

/// A type of the program, as functions that describe it.
#[derive(Clone, Copy)]
pub(crate) struct TypeShape {
    name: fn() -> String,
    collect: fn(&mut Vec<(String, RefOr<Schema>)>),
}

impl JsonShape {
    /// The shape of a type.
    pub(crate) const fn of<T: ToSchema>() -> JsonShape {
        JsonShape::Type(TypeShape { name: name_of::<T>, collect: collect::<T> })
    }

    /// A schema that refers to it.
    pub(crate) fn reference(&self) -> Value {
        match self {
            JsonShape::Type(shape) => json!({ "$ref": format!("#/components/schemas/{}", (shape.name)()) }),
            JsonShape::Policy(name) => json!({ "$ref": format!("#/components/schemas/policy.{name}") }),
            JsonShape::Object => json!({ "type": "object" }),
        }
    }

    /// The schema itself, as far as it is its own.
    pub(crate) fn schema(&self) -> Value {
        match self {
            JsonShape::Type(shape) => {
                let mut schemas = Vec::new();
                (shape.collect)(&mut schemas);
                let own = schemas.into_iter().next().map(|(_, schema)| serde_json::to_value(schema));
                own.and_then(Result::ok).unwrap_or_default()
            }
            JsonShape::Policy(name) => {
                static POLICY: LazyLock<Value> = LazyLock::new(|| {
                    serde_json::from_str(&tidegate_policy::json_schema()).unwrap_or_default()
                });
                POLICY["$defs"][name].clone()
            }
            JsonShape::Object => json!({ "type": "object" }),
        }
    }

    /// Adds the schemas that the reference needs.
    pub(crate) fn collect(&self, schemas: &mut Vec<(String, RefOr<Schema>)>) {
        if let JsonShape::Type(shape) = self {
            (shape.collect)(schemas);
        }
    }
}

/// The schema of a value that is a text or an object.
pub(crate) fn text_or_object() -> Schema {
    let of = |kind: Type| ObjectBuilder::new().schema_type(SchemaType::new(kind));
    OneOfBuilder::new().item(of(Type::String)).item(of(Type::Object)).build().into()
}

fn name_of<T: ToSchema>() -> String {
    T::name().into_owned()
}

fn collect<T: ToSchema>(schemas: &mut Vec<(String, RefOr<Schema>)>) {
    schemas.push((name_of::<T>(), <T as PartialSchema>::schema()));
    T::schemas(schemas);
}

/// What the body of a request is.
#[derive(Clone, Copy)]
pub(crate) enum BodyShape {
    /// There is none.
    None,
    /// JSON.
    Json(JsonShape),
    /// A JSON merge patch of such a value.
    MergePatch(JsonShape),
    /// A policy document, as JSON or YAML.
    Policy,
    /// What may be a policy document, as JSON or YAML: to be checked.
    PolicyDraft,
    /// Any text.
    Text,
}

/// What a route answers when all is well.
#[derive(Clone, Copy)]
pub(crate) enum AnswerShape {
    /// 200 with JSON.
    Json(JsonShape),
    /// 201 with JSON and `Location`.
    Created(JsonShape),
    /// 200 with JSON, also as lines of JSON.
    JsonOrLines(JsonShape),
    /// 200 with a page of a list, also as CSV and as lines of JSON.
    List(JsonShape),
    /// 200 with a policy document, as JSON or YAML.
    Policy,
    /// 200 with server-sent events, each with JSON.
    Events(JsonShape),
}

//! The shapes of bodies and answers, from which the OpenAPI document is made.

use serde_json::{Value, json};
use utoipa::openapi::{RefOr, schema::Schema};
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

    /// Adds the schemas that the reference needs.
    pub(crate) fn collect(&self, schemas: &mut Vec<(String, RefOr<Schema>)>) {
        if let JsonShape::Type(shape) = self {
            (shape.collect)(schemas);
        }
    }
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

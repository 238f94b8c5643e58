//! The JSON Schema of the policy document.

use super::table::{OBJECTS, POLICY};

/// The JSON Schema (draft 2020-12) of a policy, for editors. It is pretty printed, and the same text every time.
pub fn json_schema() -> String {
    tidegate_document::json_schema("Tidegate policy, version 1", &POLICY, OBJECTS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_document::{CustomShape, DocumentNode, Shape, ValueKind, parse};

    fn schema() -> DocumentNode {
        parse(&json_schema()).expect("the schema is JSON")
    }

    /// Walks every map of the schema.
    fn each_map(node: &DocumentNode, visit: &mut impl FnMut(&DocumentNode)) {
        visit(node);
        node.items().iter().for_each(|item| each_map(item, visit));
        node.entries().iter().for_each(|(_, child)| each_map(child, visit));
    }

    #[test]
    fn it_is_the_same_every_time_and_names_every_field() {
        assert_eq!(json_schema(), json_schema());
        let schema = schema();
        let definitions = schema.get("$defs").unwrap();
        for object in OBJECTS {
            let definition = definitions.get(object.name).unwrap();
            assert_eq!(definition.get("additionalProperties").unwrap().kind, ValueKind::Bool(false));
            let properties = definition.get("properties").unwrap();
            for field in object.fields() {
                let property = properties.get(field.name).unwrap();
                let about = property.get("description").unwrap().scalar().unwrap();
                assert!(about.starts_with(field.about), "{}.{}", object.name, field.name);
            }
            assert_eq!(definition.get("patternProperties").is_some(), object.open_fields.is_some());
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let schema = schema();
        let definitions = schema.get("$defs").unwrap();
        let mut references = 0;
        each_map(&schema, &mut |node| {
            if let Some(target) = node.get("$ref").and_then(DocumentNode::scalar) {
                let name = target.strip_prefix("#/$defs/").unwrap();
                assert!(definitions.get(name).is_some(), "{name}");
                references += 1;
            }
        });
        assert!(references > OBJECTS.len());
    }

    /// Visits every scalar shape of a policy that has a check of its own.
    fn each_custom(shape: &Shape, visit: &mut impl FnMut(&'static CustomShape)) {
        match shape {
            Shape::Custom(custom) => visit(custom),
            Shape::List(item) | Shape::OneOrMore(item) | Shape::ObjectOr(_, item) => each_custom(item, visit),
            _ => {}
        }
    }

    #[test]
    fn it_has_every_type_that_a_check_accepts() {
        let mut checked = 0;
        for field in OBJECTS.iter().flat_map(|object| object.fields()) {
            each_custom(&field.shape, &mut |custom| {
                for (text, types) in [
                    ("7", ["integer", "number"]),
                    ("-7.5", ["number", "number"]),
                    ("true", ["boolean", "boolean"]),
                ] {
                    let is_accepted = (custom.check)(&parse(text).expect("a scalar")).is_ok();
                    let is_told = types.iter().any(|name| custom.json_types.contains(name));
                    assert!(
                        is_told || !is_accepted,
                        "{}: {text} is accepted for {}",
                        field.name,
                        custom.wanted
                    );
                }
                checked += 1;
            });
        }
        assert!(checked > 10);
    }

    #[test]
    fn numbers_words_and_defaults_come_from_the_tables() {
        let schema = schema();
        let of = |object: &str, field: &str| {
            let properties = schema.get("$defs").unwrap().get(object).unwrap().get("properties").unwrap();
            properties.get(field).unwrap().clone()
        };
        let depth = of("queue", "max_depth");
        let number = |name: &str| depth.get(name).unwrap().scalar().unwrap().to_owned();
        assert_eq!(
            (number("minimum"), number("maximum"), number("default")),
            ("1".into(), "10000".into(), "100".into())
        );
        let algorithms = of("limit", "algorithm");
        assert_eq!(algorithms.get("enum").unwrap().items().len(), 4);
        assert_eq!(algorithms.get("default").unwrap().scalar(), Some("token_bucket"));
        assert_eq!(of("defaults", "retry_jitter").get("maximum").unwrap().scalar(), Some("0.5"));
        let group = of("limit", "group");
        assert!(group.get("default").is_none());
        assert!(
            group.get("description").unwrap().scalar().unwrap().ends_with("Default: a group of its own.")
        );
    }
}

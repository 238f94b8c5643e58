use tidegate_document::{DocumentPath, Problems, Shape, parse};

use super::names::is_name;
use super::*;

#[test]
fn tables_are_in_order() {
    for object in OBJECTS {
        let names: Vec<&str> = object.fields().map(|field| field.name).collect();
        for (index, name) in names.iter().enumerate() {
            assert!(!names[..index].contains(name), "{}.{name} twice", object.name);
        }
        assert!(object.about.ends_with('.'), "{}", object.name);
        for field in object.fields() {
            assert!(field.about.ends_with(['.', '?']), "{}.{}", object.name, field.name);
            assert!(field.also.iter().all(|also| !names.contains(also)), "{}.{}", object.name, field.name);
            assert!(!(field.required && field.default.is_some()), "{}.{}", object.name, field.name);
        }
        if let Some(shorthand) = object.shorthand {
            assert!(object.shape_of(shorthand).is_some(), "{}", object.name);
        }
    }
}

#[test]
fn every_object_is_listed() {
    fn visit(shape: &Shape) {
        match shape {
            Shape::List(item) | Shape::OneOrMore(item) => visit(item),
            Shape::Object(object) | Shape::ObjectOr(object, _) => {
                assert!(OBJECTS.iter().any(|known| known.name == object.name), "{}", object.name);
                object.fields().for_each(|field| visit(&field.shape));
            }
            _ => {}
        }
    }
    visit(&Shape::Object(&POLICY));
}

#[test]
fn examples_have_their_shape() {
    for field in OBJECTS.iter().flat_map(|object| object.fields()) {
        let example = parse(&field.shape.example()).unwrap();
        let mut problems = Problems::default();
        let is_valid = problems.checker().check(&example, &field.shape, &DocumentPath::Root);
        // Maps show their first fields only; the others are reported as missing.
        assert!(is_valid || matches!(field.shape, Shape::Object(_) | Shape::List(_)), "{}", field.name);
    }
}

#[test]
fn names_are_what_the_pattern_says() {
    assert!(is_name("a.b:c/d-e_9"));
    assert!(is_name(&"a".repeat(128)));
    for wrong in ["", "a b", "a+b", "é", &"a".repeat(129)] {
        assert!(!is_name(wrong), "{wrong}");
    }
}

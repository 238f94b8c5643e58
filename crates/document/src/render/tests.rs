use crate::{
    CustomShape, ObjectShape, OpenFields, Shape, ShapeField, ValueFault, json_schema, parse, read, reference,
};

/// An even number: a shape that only this document has.
const EVEN: Shape = Shape::Custom(&CustomShape {
    check: |node| match node.scalar().and_then(|text| text.parse::<u64>().ok()) {
        Some(number) if number % 2 == 0 => Ok(()),
        _ => Err(ValueFault::not(node, "even", Some("add one".to_owned()))),
    },
    wanted: "an even number",
    example: "2",
    json_types: &["integer"],
    pattern: || "[02468]$".to_owned(),
    takes: "an [even](#even) number",
    takes_list: Some("a list of [even](#even) numbers"),
});

static NUMBERED: Shape = Shape::OneOrMore(&Shape::Scalar);

static PINS: OpenFields = OpenFields {
    singular: "a pin",
    plural: "pins",
    entries: "pins",
    shape_of: |name| name.strip_prefix("pin").and_then(|rest| rest.parse::<u8>().ok()).map(|_| &NUMBERED),
    suggested: || vec!["pin0"],
    hint: |_| Some("pins have numbers".to_owned()),
    patterns: || vec![("^pin[0-9]+$".to_owned(), &NUMBERED)],
    about: "Every pin is a field.",
};

static BOARD: ObjectShape = ObjectShape {
    name: "board",
    about: "A board.",
    fields: &[&[
        ShapeField::new("width", EVEN, "How wide.").required(),
        ShapeField::new("rows", Shape::List(&EVEN), "Which rows."),
        ShapeField::new("wiring", Shape::Object(&WIRING), "What is connected."),
    ]],
    open_fields: None,
    shorthand: Some("width"),
};

static WIRING: ObjectShape =
    ObjectShape { name: "wiring", about: "Pins.", fields: &[], open_fields: Some(&PINS), shorthand: None };

/// Each problem as `path: message; hint`.
fn problems(text: &str) -> Vec<String> {
    let found = read(text, &BOARD).1;
    found.iter().map(|p| format!("{}: {}; {}", p.path, p.message, p.hint.as_deref().unwrap_or("-"))).collect()
}

#[test]
fn custom_shapes_check_themselves() {
    assert_eq!(problems("width: 4\nrows: [2, 8]\nwiring: { pin3: a }\n"), [""; 0]);
    assert_eq!(
        problems("width: 3\nrows: [2, x]\n"),
        ["width: 3 is not even; add one", "rows[1]: \"x\" is not even; add one"]
    );
    assert_eq!(problems("rows: []\n"), [": `width` is missing; add `width: 2`"]);
}

#[test]
fn open_fields_are_known_by_their_function() {
    assert_eq!(
        problems("width: 2\nwiring: { pin1: a, pinx: b, hole: c }\npin7: d\n"),
        [
            "wiring.pinx: unknown field `pinx`; did you mean `pin0`?",
            "wiring.hole: unknown field `hole`; pins have numbers",
            "pin7: unknown field `pin7`; pins belong inside `wiring`: `wiring: { pin7: … }`",
        ]
    );
}

#[test]
fn the_schema_has_them() {
    let schema = parse(&json_schema("Board", &BOARD, &[&BOARD, &WIRING])).unwrap();
    let definitions = schema.get("$defs").unwrap();
    let width = definitions.get("board").unwrap().get("properties").unwrap().get("width").unwrap();
    assert_eq!(width.get("type").unwrap().scalar(), Some("integer"));
    assert_eq!(width.get("pattern").unwrap().scalar(), Some("[02468]$"));
    let pins = definitions.get("wiring").unwrap().get("patternProperties").unwrap();
    assert!(pins.get("^pin[0-9]+$").is_some());
}

#[test]
fn the_reference_has_them() {
    let page = reference(&[&BOARD, &WIRING]);
    assert!(page.contains("| `width` | an [even](#even) number | **required** | How wide. |"), "{page}");
    assert!(page.contains("| `rows` | a list of [even](#even) numbers | – | Which rows. |"), "{page}");
    assert!(page.contains("## wiring\n\nPins.\n\nEvery pin is a field.\n"), "{page}");
}

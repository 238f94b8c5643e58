//! Shapes in words: what is wanted, and an example of it.

use super::Shape;
use super::value::WINDOWS;

impl Shape {
    /// What is wanted, for messages: "a whole number from 1 to 100".
    pub(crate) fn wanted(&self) -> String {
        match self {
            Shape::Text(max) => format!("text of at most {max} bytes"),
            Shape::Scalar => "a value".into(),
            Shape::Integer(min, max) if min == max => format!("the number {min}"),
            Shape::Integer(min, max) => format!("a whole number from {min} to {max}"),
            Shape::Decimal(min, max) => {
                format!("a number from {} to {}", decimal_text(*min), decimal_text(*max))
            }
            Shape::Flag => "true or false".into(),
            Shape::Duration(max) => {
                format!("a duration such as `10s` (ms, s, m, h, d), at most {}", duration_text(*max))
            }
            Shape::Window => {
                let words: Vec<&str> = WINDOWS.iter().map(|(word, _)| *word).collect();
                format!("{}, or a duration such as `30s`, at most 73050d", words.join(", "))
            }
            Shape::Word(words) => {
                let words: Vec<&str> = words.iter().map(|word| word.name).collect();
                format!("one of {}", words.join(", "))
            }
            Shape::Cidr => "a network such as `10.0.0.0/8`, or an address".into(),
            Shape::Instant => "a point in time such as `2030-01-31T12:00:00Z`".into(),
            Shape::Listen => "an address such as `127.0.0.1:8080`, or `off`".into(),
            Shape::Secret(max) => format!("a secret, text of 1 to {max} bytes"),
            Shape::Custom(custom) => custom.wanted.into(),
            Shape::List(item) => format!("a list, each {}", item.wanted()),
            Shape::OneOrMore(item) => format!("{}, or a list of these", item.wanted()),
            Shape::Object(object) => format!("a map ({})", object.field_names()),
            Shape::ObjectOr(object, other) => {
                format!("{}, or a map ({})", other.wanted(), object.field_names())
            }
        }
    }

    /// A value as it could be written. Maps show their first two fields.
    pub fn example(&self) -> String {
        match self {
            Shape::Text(_) | Shape::Scalar => "text".into(),
            Shape::Integer(min, max) if min == max => min.to_string(),
            Shape::Integer(..) => "10".into(),
            Shape::Decimal(min, _) => decimal_text(*min),
            Shape::Flag => "true".into(),
            Shape::Duration(_) => "10s".into(),
            Shape::Window => "second".into(),
            Shape::Word(words) => words.first().map_or("…", |word| word.name).into(),
            Shape::Cidr => "10.0.0.0/8".into(),
            Shape::Instant => "2030-01-31T12:00:00Z".into(),
            Shape::Listen => "127.0.0.1:8080".into(),
            Shape::Secret(_) => "…".into(),
            Shape::Custom(custom) => custom.example.into(),
            Shape::List(item) | Shape::OneOrMore(item) => format!("[{}]", item.example()),
            Shape::ObjectOr(_, other) => other.example(),
            Shape::Object(object) => {
                let fields =
                    object.fields().take(2).map(|field| format!("{}: {}", field.name, field.shape.example()));
                format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

impl super::ObjectShape {
    /// The names of its fields, separated by commas.
    fn field_names(&self) -> String {
        let mut names: Vec<&str> = self.fields().map(|field| field.name).collect();
        if let Some(open) = self.open_fields {
            names.insert(0, open.plural);
        }
        names.join(", ")
    }
}

/// Millionths as a decimal number.
pub(crate) fn decimal_text(millionths: u64) -> String {
    let (whole, fraction) = (millionths / 1_000_000, millionths % 1_000_000);
    if fraction == 0 {
        return whole.to_string();
    }
    format!("{whole}.{}", format!("{fraction:06}").trim_end_matches('0'))
}

/// Milliseconds as a duration, in the largest unit that divides them.
pub(crate) fn duration_text(millis: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    let fitting = units.iter().find(|(unit, _)| millis.is_multiple_of(*unit));
    fitting.map_or_else(|| format!("{millis}ms"), |(unit, name)| format!("{}{name}", millis / unit))
}

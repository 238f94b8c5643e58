//! What is written from the tables: the JSON Schema and the reference page.

mod json_text;
mod reference;
mod schema;

#[cfg(test)]
mod tests;

pub use json_text::JsonText;
pub use reference::reference;
pub use schema::json_schema;

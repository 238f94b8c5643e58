//! Renders the tables as a JSON Schema and as a reference page.

mod json_text;
mod reference;
mod schema;

#[cfg(test)]
mod tests;

pub use json_text::JsonText;
pub use reference::reference;
pub use schema::json_schema;

//! What holds for documents of every kind: no text makes an import panic, what it writes can be read back, and nothing
//! that a document says is lost without a word.

mod documents;
mod leaves;
mod unsaid;

use proptest::prelude::*;
use tidegate_import::{ImportFormat, import};

proptest! {
    #[test]
    fn no_document_makes_it_panic(text in "[ -~\n\t]{0,200}", choice in 0..ImportFormat::NAMES.len()) {
        let (_, format, _) = ImportFormat::NAMES[choice];
        if let Ok(imported) = import(format, "document", &text) {
            prop_assert!(tidegate_document::parse(&imported.policy).is_ok(), "{}", imported.policy);
        }
    }

    /// Names, keys and values of every kind are written as YAML that can be read back.
    #[test]
    fn texts_come_through(name in "\\PC{0,40}", value in "\\PC{0,40}", seconds in 0_u64..100_000) {
        let limit = serde_json::json!([{
            "namespace": value, "name": name, "max_value": 7, "seconds": seconds,
            "conditions": [format!("descriptors[0].a == '{value}'")],
            "variables": ["descriptors[0].b"],
        }]);
        if let Ok(imported) = import(ImportFormat::Limitador, "limits.json", &limit.to_string()) {
            let policy = tidegate_document::parse(&imported.policy);
            prop_assert!(policy.is_ok(), "{}", imported.policy);
            let policy = policy.unwrap();
            let limit = &policy.get("limits").unwrap().items()[0];
            let domain = limit.get("match").and_then(|conditions| conditions.get("domain"));
            prop_assert_eq!(domain.and_then(|domain| domain.scalar()), Some(value.as_str()));
        }
    }
}

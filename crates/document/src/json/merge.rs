//! Merge patches, by RFC 7396.

use crate::{DocumentNode, ValueKind};

/// The value that a merge patch makes of another: members of the patch replace those of the target, null removes one,
/// maps are merged, and anything else replaces the target.
///
/// ```
/// use tidegate_document::{merge_patch, parse};
///
/// let target = parse(r#"{"a": {"b": 1, "c": 2}, "d": [1]}"#).expect("it is valid");
/// let patch = parse(r#"{"a": {"b": null}, "d": [2]}"#).expect("it is valid");
/// assert_eq!(merge_patch(Some(&target), &patch).to_json(), r#"{"a":{"c":2},"d":[2]}"#);
/// ```
pub fn merge_patch(target: Option<&DocumentNode>, patch: &DocumentNode) -> DocumentNode {
    let ValueKind::Map(changes) = &patch.kind else { return patch.clone() };
    let mut members = target.map(DocumentNode::entries).unwrap_or_default().to_vec();
    for (key, change) in changes {
        let known = members.iter().position(|(name, _)| name.value == key.value);
        if change.kind == ValueKind::Null {
            known.map(|index| members.remove(index));
            continue;
        }
        let merged = merge_patch(known.map(|index| &members[index].1), change);
        match known {
            Some(index) => members[index].1 = merged,
            None => members.push((key.clone(), merged)),
        }
    }
    let at = target.unwrap_or(patch).at;
    DocumentNode { kind: ValueKind::Map(members), at }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    /// The examples of RFC 7396, appendix A.
    #[test]
    fn the_examples_of_the_standard() {
        for (target, patch, result) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, r#"{}"#),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#),
            (r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#),
            (r#"{"a":"foo"}"#, "null", "null"),
            (r#"{"a":"foo"}"#, r#""bar""#, r#""bar""#),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
            (r#"[1,2]"#, r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
            (r#"{}"#, r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
        ] {
            let (target, patch) = (parse(target).unwrap(), parse(patch).unwrap());
            assert_eq!(merge_patch(Some(&target), &patch).to_json(), result);
        }
    }
}

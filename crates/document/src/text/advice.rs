//! Hints for the most frequent mistakes in YAML syntax.

/// A hint for the parser's message about a line.
pub(super) fn hint(text: &str, complaint: &str, line: u32) -> Option<String> {
    let mut lines = text.lines().skip(usize::try_from(line).ok()?.saturating_sub(2));
    let (before, here) =
        if line == 1 { ("", lines.next()?) } else { (lines.next()?, lines.next().unwrap_or("")) };
    let near = [here, before];
    if complaint.contains("unknown anchor") {
        return Some("write the value out, or quote text that begins with `*`".into());
    }
    if complaint.contains("tab") || near.iter().any(|line| is_tab_indented(line)) {
        return Some("indent with spaces: YAML does not allow tabs there".into());
    }
    let unclosed = ["end of stream", "invalid indentation", "document indicator"];
    if complaint.contains("quoted scalar") && unclosed.iter().any(|part| complaint.contains(part)) {
        return Some("a quote is opened here and not closed".into());
    }
    if complaint.contains("placement of ':'") {
        return Some("a `[` or `{` before this is not closed".into());
    }
    if complaint.contains("flow sequence") {
        return Some("close the list with `]`, and put commas between its items".into());
    }
    if complaint.contains("flow mapping") {
        return Some("close the map with `}`, and put commas between its members".into());
    }
    if let Some((key, value)) = near.iter().find_map(|line| glued_colon(line)) {
        return Some(format!("write a space after the colon: `{key}: {value}`"));
    }
    if near.iter().any(|line| has_odd_quotes(line)) {
        return Some("a quote is opened and not closed".into());
    }
    if complaint.contains("unexpected character") || complaint.contains("plain scalar") {
        return Some("quote text that begins with a special character".into());
    }
    let indented =
        ["expected key", "indicator", "not allowed in this context", "indentation", "document start"];
    indented
        .iter()
        .any(|part| complaint.contains(part))
        .then(|| "check the indentation: members of one map begin in the same column".into())
}

fn is_tab_indented(line: &str) -> bool {
    line.chars().take_while(|c| c.is_whitespace()).any(|c| c == '\t')
}

/// Finds `name:value`, without a space, at the start of a line.
fn glued_colon(line: &str) -> Option<(&str, &str)> {
    let entry = line.trim_start_matches([' ', '-', '{', ',']);
    let (key, value) = entry.split_once(':')?;
    let is_field = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let value = value.trim_end();
    let value_end = value.char_indices().nth(40).map_or(value.len(), |(end, _)| end);
    (is_field && value.starts_with(|c: char| !c.is_whitespace())).then(|| (key, &value[..value_end]))
}

fn has_odd_quotes(line: &str) -> bool {
    let before_comment = line.split(" #").next().unwrap_or_default();
    before_comment.matches('"').count() % 2 == 1
}

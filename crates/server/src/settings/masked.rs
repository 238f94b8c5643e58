//! Hides everything in the text of a settings file that could be a secret, so that error output can quote its lines.

/// Sections that never hold a secret.
const OPEN: &[&str] = &[
    "listen",
    "policy",
    "store",
    "rate_limit_sync",
    "trusted_proxies",
    "forwarded",
    "tls",
    "admin",
    "identity",
    "api_keys",
    "trust",
    "log",
    "workers",
];

/// Parts of field names that mark a secret, in any section.
const SECRET: &[&str] = &["token", "bearer", "password", "requirepass", "secret"];

/// The text with values replaced by asterisks, each character at the same position as before.
///
/// Hidden are all values outside the sections that never hold a secret (a misspelt section may hold one), values of
/// fields that are named like a secret, and lines with a URL, which may contain a password.
pub(crate) fn masked(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // In a document in braces (JSON), lines do not show where a section begins, so all values are hidden.
    let braces = text.trim_start().starts_with(['{', '[']);
    let mut covered = braces;
    // The indentation of a line that names a secret: lines that are indented deeper may continue its value.
    let mut secret: Option<usize> = None;
    // The indentation of `oidc`, which holds no secret although its section does: lines that are indented deeper are shown.
    let mut shown: Option<usize> = None;
    // The indentation of a line that begins a block of text: lines that are indented deeper are that text.
    let mut block: Option<usize> = None;
    // How many brackets are open at the end of a line: the next line continues a value.
    let mut brackets = 0_usize;
    for line in text.split_inclusive('\n') {
        let begins = line.starts_with(|c: char| !c.is_whitespace() && c != '#' && c != '-');
        if begins && !braces {
            let section = line.split(':').next().unwrap_or_default().trim_matches(['"', '\'', ' ']);
            covered = !OPEN.contains(&section);
        }
        let depth = line.len() - line.trim_start().len();
        let continues =
            |begun: Option<usize>| begun.is_some_and(|begun| depth > begun || line.trim().is_empty());
        if !continues(block) {
            block = begins_block(line).then_some(depth);
        }
        let is_shown = continues(shown);
        if !is_shown {
            shown = (line.trim() == "oidc:").then_some(depth);
        }
        let within = continues(secret) || continues(block);
        if !within {
            secret = names_secret(line).then_some(depth);
        }
        // A URL may contain a password.
        match (covered && !is_shown) || secret.is_some() || line.contains("://") {
            true => {
                let has_names = begins || braces || (line.contains(':') && brackets == 0);
                cover(line, !within && has_names, &mut out);
            }
            false => out.push_str(line),
        }
        brackets = open_after(line, brackets);
    }
    out
}

/// Does a block of text (`|` or `>`) begin at the end of the line?
fn begins_block(line: &str) -> bool {
    let value = line.rsplit([':', ' ']).next().unwrap_or_default().trim_end();
    let rest = value.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-' || c == '+');
    rest == "|" || rest == ">"
}

/// How many brackets are open after a line, if so many were before it. Brackets in quotes may count too: hiding too much
/// does no harm.
fn open_after(line: &str, before: usize) -> usize {
    line.chars().fold(before, |open, c| match c {
        '{' | '[' => open + 1,
        '}' | ']' => open.saturating_sub(1),
        _ => open,
    })
}

/// Does the line have a field that is named like a secret?
fn names_secret(line: &str) -> bool {
    let mut fields = line.split(['{', '[', ',']).filter_map(|part| part.split_once(':'));
    fields.any(|(name, _)| is_secret(name))
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET.iter().any(|secret| name.contains(secret))
}

/// Replaces the values of a line by asterisks; the whole line if it has no field names, as within a block of text.
/// Field names within `{}` stay, unless the map is itself the value of a secret.
fn cover(line: &str, has_names: bool, out: &mut String) {
    let (mut value, mut quote, mut escaped) = (!has_names, None, false);
    let first = line.split_once(':').map_or(line, |(_, rest)| rest).trim_start();
    let flow = first.starts_with(['{', '[']) || line.trim_start().starts_with(['{', '[']);
    // For each bracket that is open: do field names follow it?
    let mut open: Vec<bool> = Vec::new();
    let mut name = String::new();
    for c in line.chars() {
        let bracket = value && flow && quote.is_none();
        let is_escaped = escaped;
        escaped = quote == Some('"') && c == '\\' && !is_escaped;
        match (quote, c) {
            (Some(end), c) if c == end && !is_escaped => quote = None,
            (None, '"' | '\'') if value => quote = Some(c),
            // Also without the space that should follow the colon.
            (None, ':') if !value => {
                value = true;
                out.push(c);
                continue;
            }
            (None, '{' | '[') if bracket || (!value && name.trim().is_empty()) => {
                let within_names = open.last().is_none_or(|names| *names);
                let has_names = c == '{' && within_names && !is_secret(&name) && name.trim() != "key";
                open.push(has_names);
                value = !has_names;
                name.clear();
                out.push(c);
                continue;
            }
            (None, ',' | '}' | ']') if bracket => {
                if c != ',' {
                    open.pop();
                }
                value = open.last().is_some_and(|names| !names);
                name.clear();
                out.push(c);
                continue;
            }
            _ => {}
        }
        if !value {
            name.push(c);
        }
        out.push(if value && !c.is_whitespace() { '*' } else { c });
    }
}

#[cfg(test)]
mod tests {
    use super::masked;

    #[test]
    fn values_that_could_be_secrets_are_covered_in_place() {
        for (text, shown) in [
            (
                "auth: { http_token: abc, resp_password: \"d,e\" }",
                "auth: { http_token: ***, resp_password: ***** }",
            ),
            ("auth:\n  http_tokn: s3cret\nworkers: 3\n", "auth:\n  http_tokn: ******\nworkers: 3\n"),
            ("atuh: hunter2", "atuh: *******"),
            ("auth: { http_token:abc }", "auth: { http_token:*** }"),
            ("jwt:\n  key: |\n    -----BEGIN\n    abc\n", "jwt:\n  key: *\n    **********\n    ***\n"),
            ("auth: { http_token: [abc, d] }", "auth: { http_token: [***, *] }"),
            ("auth: { http_token: { abc: d }, x: y }", "auth: { http_token: { **** * }, x: * }"),
            ("auth: [abc, { http_token: d }]", "auth: [***, { *********** * }]"),
            ("jwt: { key: { abc: d } }", "jwt: { key: { **** * } }"),
            ("{\"auth\": {\"http_token\": \"x\"}}", "{\"auth\": {\"http_token\": ***}}"),
            ("store:\n  redis: { url: redis://:pw@h }", "store:\n  redis: { url: ************* }"),
            (
                "listen:\n  http: 127.0.0.1:1\n  http_token: abc\n  log: x\n",
                "listen:\n  http: 127.0.0.1:1\n  http_token: ***\n  log: x\n",
            ),
            ("policy: { file: tokens.yaml }", "policy: { file: tokens.yaml }"),
            (
                "auth:\n  oidc:\n    jwks: k.json\n    http_token: abc\n    issuer: https://a\n  x: y\n",
                "auth:\n  oidc:\n    jwks: k.json\n    http_token: ***\n    issuer: *********\n  x: *\n",
            ),
            ("atuh:\n  oidc: abc\n    d: e\n", "atuh:\n  oidc: ***\n    d: *\n"),
            (
                "log:\n  secret: |\n    abc\n    d: e\n  format: text\n",
                "log:\n  secret: *\n    ***\n    ** *\n  format: text\n",
            ),
            ("tls: { cert: a, RESP_PASSWORD: abc }", "tls: { cert: *, RESP_PASSWORD: *** }"),
            ("listen: { http: nonsense }", "listen: { http: nonsense }"),
        ] {
            assert_eq!(masked(text), shown);
            assert_eq!(masked(text).chars().count(), text.chars().count());
        }
    }
}

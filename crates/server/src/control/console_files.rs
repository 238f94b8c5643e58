//! The files of the console, which are in the binary: the page, its modules, its styles.
//!
//! All files but the page have addresses that contain a hash of all of them. Browsers may therefore keep them for ever, and
//! a page never gets modules of another release. Comments and most spaces are not served.

use std::sync::LazyLock;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Response, StatusCode};
use sha2::{Digest, Sha256};

use super::console::PREFIX;

/// A list of files of the folder `console` of this crate, with their content.
macro_rules! embedded {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/console/", $path)))),*]
    };
}

/// The page. `{files}` in it stands for the address of the other files.
const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/console/index.html"));

/// All other files, by name.
const FILES: &[(&str, &str)] = embedded![
    "api.js",
    "chart.js",
    "dialogs.js",
    "drafts.js",
    "explanation.js",
    "format.js",
    "keyboard.js",
    "logo.svg",
    "long_list.js",
    "main.js",
    "parts.js",
    "roles.js",
    "router.js",
    "screens/account.js",
    "screens/audit.js",
    "screens/key.js",
    "screens/key_actions.js",
    "screens/key_denials.js",
    "screens/key_request.js",
    "screens/key_trust.js",
    "screens/nodes.js",
    "screens/now.js",
    "screens/now_charts.js",
    "screens/now_keys.js",
    "screens/now_kill.js",
    "screens/policy.js",
    "screens/policy_candidates.js",
    "screens/policy_complete.js",
    "screens/policy_diff.js",
    "screens/policy_editor.js",
    "screens/policy_forms.js",
    "screens/policy_live.js",
    "screens/policy_versions.js",
    "screens/registry.js",
    "screens/tenants.js",
    "screens/tenants_form.js",
    "screens/tenants_live.js",
    "screens/tenants_one.js",
    "screens/tenants_tree.js",
    "screens/tokens.js",
    "screens/try.js",
    "screens/try_trace.js",
    "session.js",
    "shell.js",
    "sign_in.js",
    "stream.js",
    "styles/base.css",
    "styles/charts.css",
    "styles/parts.css",
    "styles/policy.css",
    "styles/screens.css",
    "styles/shell.css",
    "styles/tenants.css",
    "view.js",
];

/// The screens: each is an address that the page is served at.
const SCREENS: &[&str] = &["account", "audit", "key", "nodes", "now", "policy", "tenants", "tokens", "try"];

/// The files as they are served, by name.
static SERVED: LazyLock<Vec<(&str, Bytes)>> =
    LazyLock::new(|| FILES.iter().map(|(name, text)| (*name, served(name, text).into())).collect());

/// The first half of the SHA-256 of all files, in hexadecimal digits.
static HASH: LazyLock<String> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    let page = ("", Bytes::from_static(PAGE.as_bytes()));
    for (name, content) in SERVED.iter().chain([&page]) {
        hash.update(format!("{name}\n{}\n", content.len()));
        hash.update(content);
    }
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
});

/// The page, with the addresses of the other files.
static WHOLE_PAGE: LazyLock<Bytes> =
    LazyLock::new(|| Bytes::from(PAGE.replace("{files}", &format!("{PREFIX}{}", *HASH))));

/// Nothing but what this server serves, nothing within the page itself, and no markup made of text. The second line is about
/// what `default-src` does not cover.
const CONTENT_SECURITY_POLICY: &str = "default-src 'self'; object-src 'none'; \
     base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// The answer to a request for a file, or for a screen; `None` if there is neither at that address.
pub(super) fn answer_to(head: &Parts) -> Option<Response<Bytes>> {
    let path = head.uri.path().strip_prefix(PREFIX)?;
    if path.is_empty() || SCREENS.contains(&path) {
        return Some(page(head));
    }
    let name = path.strip_prefix(HASH.as_str())?.strip_prefix('/')?;
    let (_, content) = SERVED.iter().find(|(file, _)| *file == name)?;
    Some(response(content.clone(), media_type(name), "public, max-age=31536000, immutable"))
}

/// A file without what browsers have no use for, a third of all. The lines stay, so that an error names the line of the file.
fn served(name: &str, text: &str) -> String {
    let text = without_comments(text);
    // Spaces around these separate nothing. In styles, `a :hover` is not `a:hover`.
    let (before, after) = match name.rsplit('.').next() {
        Some("js") => (",;:?=<>&|!()[]{}", ",;:?=<>&|!()[]{}"),
        Some("css") => ("{}>", ",;:{}>"),
        _ => return text,
    };
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        out.push_str(&without_spaces(line, before, after).unwrap_or_else(|| line.to_owned()));
        out.push('\n');
    }
    out
}

/// A line without the spaces before and after some characters, except in texts. `None` if the line may have a comment, a
/// regular expression or a template in it, whose spaces are not as easily told apart.
fn without_spaces(line: &str, before: &str, after: &str) -> Option<String> {
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '/' | '`' => return None,
            ' ' if out.ends_with(|last| after.contains(last)) => {}
            ' ' if chars.peek().is_some_and(|next| before.contains(*next)) => {}
            _ => out.push(char),
        }
        if matches!(char, '\'' | '"') {
            loop {
                let within = chars.next()?;
                out.push(within);
                match within {
                    '\\' => out.push(chars.next()?),
                    _ if within == char => break,
                    _ => {}
                }
            }
        }
    }
    Some(out)
}

/// Leaves out comments at the beginning of lines, and the space there.
fn without_comments(text: &str) -> String {
    let mut is_comment = false;
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let mut rest = line.trim();
        is_comment |= rest.starts_with("/*");
        if is_comment {
            let (_, after) = rest.split_once("*/").unwrap_or_default();
            is_comment = !rest.contains("*/");
            rest = after.trim_start();
        }
        if !rest.is_empty() && !rest.starts_with("//") {
            push_without_types(&mut out, rest);
        }
        out.push('\n');
    }
    out
}

/// Adds a line without the types within it, such as `/** @type {string} */`.
fn push_without_types(out: &mut String, mut line: &str) {
    while let Some((before, type_on)) = line.split_once("/** @")
        && let Some((_, after)) = type_on.split_once("*/")
    {
        out.push_str(before);
        line = after.trim_start();
    }
    out.push_str(line);
}

/// The page, which a browser must ask for each time, or 304 if it has this one.
fn page(head: &Parts) -> Response<Bytes> {
    let tag = format!("\"{}\"", *HASH);
    let known = head.headers.get_all(IF_NONE_MATCH).into_iter().filter_map(|value| value.to_str().ok());
    let is_known = known.flat_map(|value| value.split(',')).any(|value| value.trim() == tag);
    let body = if is_known { Bytes::new() } else { WHOLE_PAGE.clone() };
    let mut answer = response(body, media_type("index.html"), "no-cache");
    if is_known {
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
    }
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        answer.headers_mut().insert(ETAG, tag);
    }
    answer
}

fn response(body: Bytes, media_type: &'static str, cache: &'static str) -> Response<Bytes> {
    let mut answer = Response::new(body);
    let headers = [
        (CONTENT_TYPE, media_type),
        (CACHE_CONTROL, cache),
        (HeaderName::from_static("content-security-policy"), CONTENT_SECURITY_POLICY),
        (HeaderName::from_static("x-content-type-options"), "nosniff"),
        // Addresses of screens may name clients.
        (HeaderName::from_static("referrer-policy"), "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in headers {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// All of it, as it goes over the network.
    const BYTES_MAX: usize = 200_000;

    fn names(folder: &Path, prefix: &str, into: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let entry = entry.expect("an entry");
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            match entry.path().is_dir() {
                true => names(&entry.path(), &format!("{name}/"), into),
                false => drop(into.insert(name)),
            }
        }
    }

    fn get(path: &str, known: &str) -> Option<Response<Bytes>> {
        let request = http::Request::get(path).header(IF_NONE_MATCH, known).body(()).expect("a request");
        answer_to(&request.into_parts().0)
    }

    #[test]
    fn every_file_of_the_folder_is_served_and_all_are_small() {
        let mut there = BTreeSet::new();
        names(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/console")), "", &mut there);
        // The page has an address of its own, and types are for the checker in the tests.
        ["index.html", "types.js", "tsconfig.json"].iter().for_each(|other| assert!(there.remove(*other)));
        let listed: BTreeSet<String> = FILES.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(listed, there);
        let size: usize = SERVED.iter().map(|(_, content)| content.len()).sum();
        assert!(size + PAGE.len() <= BYTES_MAX, "{size}");
        for name in listed {
            let answer = get(&format!("{PREFIX}{}/{name}", *HASH), "").expect("it is served");
            assert_ne!(answer.headers()[CONTENT_TYPE], "application/octet-stream", "{name}");
            assert!(answer.headers()[CACHE_CONTROL].to_str().is_ok_and(|cache| cache.contains("immutable")));
        }
    }

    #[test]
    fn comments_in_lines_of_their_own_are_not_served() {
        let text = "// a\nlet b = 1; // c\n  /** d */\n/**\n * e\n */\n/** @type {x} */ (f);\nconst g = '/* h */';\ng(/** @type {y} */ i => 1, '/**');\n";
        let expected = "\nlet b = 1; // c\n\n\n\n\n(f);\nconst g = '/* h */';\ng(i => 1, '/**');\n";
        assert_eq!(without_comments(text), expected);
        for (name, text) in FILES {
            let served = served(name, text);
            assert_eq!(served.lines().count(), text.lines().count(), "{name}");
            // A text over several lines could have lines that look like comments.
            let in_text = served.split('`').skip(1).step_by(2).filter(|inner| inner.contains('\n')).count();
            assert_eq!(in_text, 0, "{name} has a template over several lines");
        }
    }

    #[test]
    fn spaces_that_separate_nothing_are_not_served() {
        for (name, line, expected) in [
            ("a.js", "const { a, b: [c] } = d ? 'e , f' : -1 + +g;", "const{a,b:[c]}=d?'e , f':-1 + +g;"),
            (
                "a.js",
                r"h('it\' s', { class: 'x y' }, (one) => a in one)",
                r"h('it\' s',{class:'x y'},(one)=>a in one)",
            ),
            ("a.js", "h(`a , ${b} `, c ); const d = / , /;", "h(`a , ${b} `, c ); const d = / , /;"),
            (
                "a.css",
                "main > a :hover, b [c] { top: calc(1px - 2px); }",
                "main>a :hover,b [c]{top:calc(1px - 2px);}",
            ),
            (
                "a.css",
                "@media (width < 9px) { a { content: ' , '; } }",
                "@media (width < 9px){a{content:' , ';}}",
            ),
            ("a.svg", "<path d=\"M1, 2\"/>", "<path d=\"M1, 2\"/>"),
        ] {
            assert_eq!(served(name, line).trim_end(), expected);
        }
    }

    #[test]
    fn the_page_names_files_by_their_hash_and_has_nothing_inline() {
        let page = get("/console/", "").expect("the page");
        let text = String::from_utf8(page.body().to_vec()).expect("a text");
        let sources: Vec<&str> =
            text.split(['"']).filter(|part| part.starts_with(&format!("{PREFIX}{}", *HASH))).collect();
        assert!(sources.len() > 4, "{text}");
        for source in sources {
            assert!(get(source, "").is_some(), "{source}");
        }
        for inline in ["<style", "style=", "<script>", "onclick", "onload"] {
            assert!(!text.contains(inline), "{inline}");
        }
        assert_eq!(page.headers()[CACHE_CONTROL], "no-cache");
    }

    #[test]
    fn a_page_that_the_browser_has_is_not_sent_again() {
        let tag = get("/console/now", "").expect("the page").headers()[ETAG].clone();
        let again = get("/console/key?user=42", tag.to_str().expect("a tag")).expect("an answer");
        assert_eq!((again.status(), again.body().len()), (StatusCode::NOT_MODIFIED, 0));
        assert_eq!(get("/console/", "\"other\"").expect("the page").status(), StatusCode::OK);
    }

    #[test]
    fn files_of_another_release_and_other_paths_are_not_there() {
        for path in
            ["/console/0123/main.js", "/console/main.js", "/console/other", "/console/now/", "/console/../"]
        {
            assert!(get(path, "").is_none(), "{path}");
        }
        assert!(get(&format!("{PREFIX}{}/index.html", *HASH), "").is_none());
        assert!(get(&format!("{PREFIX}{}/../api.js", *HASH), "").is_none());
    }
}

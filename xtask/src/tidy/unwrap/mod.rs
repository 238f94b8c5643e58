//! Shipped code does not use `unwrap()`, or `expect` without a reason.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::TidyProblem;
use super::source::{SourceFile, as_group, is_mark, is_word, item_end, line};

/// Components of a path that make a file test or example code.
const UNSHIPPED: &[&str] = &["tests", "testing", "test", "examples", "benches"];

const ITEM_WORDS: &[&str] = &[
    "pub",
    "fn",
    "mod",
    "impl",
    "use",
    "const",
    "static",
    "struct",
    "enum",
    "trait",
    "type",
    "async",
    "unsafe",
    "extern",
    "macro_rules",
];

/// Finds `.unwrap()` and `.expect("")` in shipped code. It needs all sources at once, because
/// `#[cfg(test)] mod a;` in one file makes another file test code.
pub fn check(sources: &[SourceFile]) -> Vec<TidyProblem> {
    let scans: Vec<Scan<'_>> = sources.iter().map(Scan::of).collect();
    let test_modules: Vec<&str> =
        scans.iter().flat_map(|scan| &scan.test_modules).map(String::as_str).collect();
    let mut problems = Vec::new();
    for (source, scan) in sources.iter().zip(&scans) {
        if !is_shipped(source) || test_modules.iter().any(|module| is_module(source, module)) {
            continue;
        }
        for &(line, call) in &scan.calls {
            problems.push(TidyProblem::new(
                &source.path,
                line,
                format!("`.{call}` outside tests"),
                "a limiter must not panic because of its input",
                "return an error, or `.expect(\"…\")` with the reason why it cannot fail",
            ));
        }
    }
    problems
}

fn is_shipped(source: &SourceFile) -> bool {
    source.is_below(&["src"]) && !source.is_below(UNSHIPPED)
}

/// True if `source` is the module at `module` (a path without `.rs`), or below it.
fn is_module(source: &SourceFile, module: &str) -> bool {
    source.path.strip_prefix(module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

/// The calls and test modules of one file.
struct Scan<'a> {
    path: &'a str,
    calls: Vec<(usize, &'static str)>,
    test_modules: Vec<String>,
}

impl<'a> Scan<'a> {
    fn of(source: &'a SourceFile) -> Scan<'a> {
        let mut scan = Scan { path: &source.path, calls: Vec::new(), test_modules: Vec::new() };
        scan.walk(source.tokens.clone());
        scan
    }

    fn walk(&mut self, tokens: TokenStream) {
        let level: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < level.len() {
            if is_mark(level.get(at), '#') {
                let inner = is_mark(level.get(at + 1), '!');
                let bracket = at + 1 + usize::from(inner);
                let attribute = as_group(level.get(bracket), Delimiter::Bracket);
                if attribute.is_some_and(|attribute| is_test(attribute.stream())) {
                    if inner {
                        return;
                    }
                    at = self.skip_test(&level, bracket + 1);
                    continue;
                }
            }
            if let Some(call) = call_at(&level, at) {
                self.calls.push((line(&level[at + 1]), call));
            }
            if let TokenTree::Group(group) = &level[at] {
                self.walk(group.stream());
            }
            at += 1;
        }
    }

    /// Skips the item at `at`, which exists only for tests; returns the position after it.
    fn skip_test(&mut self, level: &[TokenTree], mut at: usize) -> usize {
        while is_mark(level.get(at), '#') {
            at += 2;
        }
        let end = item_end(level, at).unwrap_or(level.len());
        if !ITEM_WORDS.iter().any(|word| is_word(level.get(at), word)) {
            // A field, an arm or an argument: it ends at its comma.
            return (at..end).find(|&at| is_mark(level.get(at), ',')).unwrap_or(end) + 1;
        }
        if is_mark(level.get(end), ';')
            && is_word(level.get(end - 2), "mod")
            && let Some(TokenTree::Ident(name)) = level.get(end - 1)
        {
            self.test_modules.push(format!("{}/{name}", module_directory(self.path)));
        }
        end + 1
    }
}

/// The directory of the modules declared in the file at `path`.
fn module_directory(path: &str) -> &str {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    match stem.rsplit_once('/') {
        Some((directory, "lib" | "main" | "mod")) => directory,
        _ => stem,
    }
}

fn call_at(level: &[TokenTree], at: usize) -> Option<&'static str> {
    let arguments = as_group(level.get(at + 2), Delimiter::Parenthesis)?.stream();
    let is_method = |name| is_mark(level.get(at), '.') && is_word(level.get(at + 1), name);
    if is_method("unwrap") && arguments.is_empty() {
        return Some("unwrap()");
    }
    (is_method("expect") && arguments.to_string() == "\"\"").then_some("expect(\"\")")
}

/// True for `test`, `tokio::test(…)` and every `cfg(…)` that requires `test`.
fn is_test(attribute: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = attribute.into_iter().collect();
    if is_word(tokens.first(), "cfg") {
        return as_group(tokens.get(1), Delimiter::Parenthesis)
            .is_some_and(|condition| requires_test(condition.stream()));
    }
    let is_path = |token: &&TokenTree| matches!(token, TokenTree::Ident(_)) || is_mark(Some(token), ':');
    is_word(tokens.iter().take_while(is_path).last(), "test")
}

fn requires_test(condition: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = condition.into_iter().collect();
    tokens.iter().enumerate().any(|(at, token)| match token {
        TokenTree::Group(group) => {
            let negated = at > 0 && is_word(tokens.get(at - 1), "not");
            !negated && requires_test(group.stream())
        }
        _ => is_word(Some(token), "test"),
    })
}

#[cfg(test)]
mod tests;

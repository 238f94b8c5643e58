use super::super::source::source;
use super::*;

const PATH: &str = "crates/a/src/b.rs";

fn function(name: &str, lines: usize) -> String {
    format!("fn {name}() {{\n{}}}\n", "    a();\n".repeat(lines - 2))
}

fn found(text: &str, exceptions: &[Exception]) -> Vec<String> {
    check(&[source(PATH, text)], exceptions).iter().map(ToString::to_string).collect()
}

fn assert_one(found: &[String], place: &str, words: &[&str]) {
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with(place), "{found:?}");
    for word in words {
        assert!(found[0].contains(word), "{word}: {found:?}");
    }
}

#[test]
fn functions_have_a_limit() {
    assert_eq!(found(&function("a", FUNCTION_LINES), &[]), Vec::<String>::new());
    let long = format!("\n{}", function("a", FUNCTION_LINES + 1));
    assert_one(&found(&long, &[]), "crates/a/src/b.rs:2: ", &["function `a` of 71 lines"]);
}

#[test]
fn functions_count_wherever_they_are() {
    let long = function("a", 71);
    for text in [
        format!("impl A {{ {long} }}"),
        format!("#[cfg(test)] mod tests {{ #[test] {long} }}"),
        format!("proptest! {{ #[test] {long} }}"),
        format!("macro_rules! m {{ ($a:ident) => {{ {} }} }}", long.replace("fn a", "fn $a")),
        long.replace("()", "() -> A<{ N }>"),
    ] {
        assert_one(&found(&text, &[]), PATH, &["function `a` of 71 lines"]);
    }
    assert_eq!(
        found(&format!("type A = fn(u8) -> u8;\ntrait B {{ fn b(); }}{}", "\n".repeat(99)), &[]).len(),
        0
    );
}

#[test]
fn files_have_a_limit() {
    assert_eq!(found(&"\n".repeat(FILE_LINES), &[]), Vec::<String>::new());
    assert_one(
        &found(&"\n".repeat(FILE_LINES + 1), &[]),
        "crates/a/src/b.rs:1: ",
        &["401 lines", "limit is 400"],
    );
}

#[test]
fn an_exception_holds_at_its_recorded_size_only() {
    let recorded = [Exception::file(PATH, 410), Exception::function(PATH, "a", 80)];
    let of = |file: usize, function_lines: usize| {
        found(&(function("a", function_lines) + &"\n".repeat(file - function_lines)), &recorded)
    };
    assert_eq!(of(410, 80), Vec::<String>::new());
    assert_one(&of(411, 80), PATH, &["grew from 410 to 411"]);
    assert_one(&of(410, 81), PATH, &["`a` grew from 80 to 81"]);
    assert_one(&of(405, 80), HOME, &["shrank from 410 to 405", "lower its record to 405"]);
    assert_one(&of(410, 70), HOME, &["within the limit now", "remove its entry"]);
}

#[test]
fn an_exception_for_nothing_is_a_problem_on_its_own_line() {
    let gone = Exception::function(PATH, "z", 80);
    let place = format!("{HOME}:{}: ", line!() - 1);
    assert_one(&found("fn a() {}", &[gone]), &place, &["z is gone", "remove its entry"]);
}

#[test]
fn the_ceiling_has_no_exceptions() {
    let text = "\n".repeat(FILE_CEILING + 1);
    let excused = found(&text, &[Exception::file(PATH, FILE_CEILING + 1)]);
    assert_one(&excused, PATH, &["601 lines", "ceiling is 600"]);
}

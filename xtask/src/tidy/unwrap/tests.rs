use super::super::source::source;
use super::*;

fn lines(path: &str, text: &str) -> Vec<String> {
    check(&[source(path, text)]).iter().map(ToString::to_string).collect()
}

#[test]
fn shipped_code_may_not() {
    for text in [
        "fn a() { b.unwrap(); }",
        "fn a() { b\n.c()\n.unwrap() }",
        "fn a() { println!(\"{}\", b.unwrap()); }",
        "fn a() { b.expect(\"\"); }",
        "#[cfg(not(test))] fn a() { b.unwrap(); }",
        "#[cfg(all(unix, not(test)))] mod a { fn b() { c.unwrap(); } }",
        "#[cfg_attr(test, derive(Debug))] struct A; fn a() { b.unwrap(); }",
        "#[cfg(test)] fn a() {} fn b() { c.unwrap(); }",
        "#[cfg(test)] use a::{b, c}; fn d() { e.unwrap(); }",
        "fn a() { B { #[cfg(test)] hits: 0, misses: c.unwrap() } }",
    ] {
        assert_eq!(lines("crates/a/src/b.rs", text).len(), 1, "{text}");
    }
    let found = lines("crates/a/src/b.rs", "fn a() {\n    b.unwrap();\n}\n");
    assert!(found[0].starts_with("crates/a/src/b.rs:2: `.unwrap()` outside tests"), "{found:?}");
}

#[test]
fn tests_may() {
    for text in [
        "#[test] fn a() { b.unwrap(); }",
        "#[tokio::test(flavor = \"multi_thread\")] async fn a() { b.unwrap(); }",
        "#[test] #[should_panic] fn a() { b.unwrap(); }",
        "#[cfg(test)] mod tests { fn a() { b.unwrap(); } }",
        "#[cfg(all(test, loom))] mod loom { fn a() { b.unwrap(); } }",
        "#[cfg(any(test, feature = \"testing\"))] pub mod kit { fn a() { b.unwrap(); } }",
        "#![cfg(test)]\nfn a() { b.unwrap(); }",
        "proptest! { #[test] fn a(b in 0..9) { c.unwrap(); } }",
        "#[cfg(test)] impl<const N: usize> A<{ N }> for B { fn a() { b.unwrap(); } }",
    ] {
        assert_eq!(lines("crates/a/src/b.rs", text), Vec::<String>::new(), "{text}");
    }
    for path in ["crates/a/tests/b.rs", "crates/a/src/testing/b.rs", "crates/a/examples/b.rs"] {
        assert_eq!(lines(path, "fn a() { b.unwrap(); }"), Vec::<String>::new(), "{path}");
    }
}

#[test]
fn likenesses_are_fine() {
    let text =
        "/// `a.unwrap()`\nfn a() { b.unwrap_or(1); c.expect(\"a reason\"); unwrap(); d(\".unwrap()\"); }";
    assert_eq!(lines("crates/a/src/b.rs", text), Vec::<String>::new());
}

#[test]
fn a_module_declared_for_tests_is_test_code_wherever_it_lives() {
    let calls = "fn a() { b.unwrap(); }";
    let of = |path: &str, parent: &str, declared: &str| {
        check(&[source(parent, declared), source(path, calls)]).len()
    };
    assert_eq!(of("crates/a/src/model.rs", "crates/a/src/lib.rs", "#[cfg(test)] mod model;"), 0);
    assert_eq!(of("crates/a/src/b/model.rs", "crates/a/src/b.rs", "#[cfg(test)] mod model;"), 0);
    assert_eq!(
        of("crates/a/src/b/model.rs", "crates/a/src/b/mod.rs", "#[cfg(test)] pub(crate) mod model;"),
        0
    );
    assert_eq!(of("crates/a/src/model/c.rs", "crates/a/src/lib.rs", "#[cfg(test)] mod model;"), 0);
    assert_eq!(of("crates/a/src/model.rs", "crates/a/src/lib.rs", "mod model;"), 1);
    assert_eq!(of("crates/a/src/models.rs", "crates/a/src/lib.rs", "#[cfg(test)] mod model;"), 1);
}

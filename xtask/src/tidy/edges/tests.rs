use super::*;

fn package(name: &str, uses: &[&str]) -> Package {
    let mut text = format!("[package]\nname = \"{name}\"\n\n[dependencies]\n");
    for used in uses {
        text.push_str(&format!("{used}.workspace = true\n"));
    }
    let uses = uses.iter().map(|used| (*used).to_owned()).collect();
    Package { name: name.to_owned(), manifest: format!("{name}/Cargo.toml"), text, uses }
}

/// A workspace of every known crate, where `name` uses `uses`.
fn problems(name: &str, uses: &[&str]) -> Vec<String> {
    let others = ALLOWED.iter().filter(|(known, _)| *known != name);
    let mut all: Vec<Package> = others.map(|(known, _)| package(known, &[])).collect();
    all.push(package(name, uses));
    check(&all).iter().map(ToString::to_string).collect()
}

#[test]
fn the_order_of_the_table_is_an_order() {
    for (at, (_, allowed)) in ALLOWED.iter().enumerate() {
        for used in *allowed {
            assert!(ALLOWED[..at].iter().any(|(known, _)| known == used), "{used}");
        }
    }
}

#[test]
fn what_is_to_the_left_may_be_used() {
    assert_eq!(problems("tidegate-server", &["tidegate-core", "tidegate", "serde"]), [""; 0]);
    assert_eq!(problems("tidegate-server", &["tidegate-import", "tidegate-proxies"]), [""; 0]);
    assert_eq!(problems("tidegate-tower", &["tidegate-proxies"]), [""; 0]);
    assert_eq!(problems("tidegate", &["tidegate"]), [""; 0]);
    assert_eq!(problems("tidegate-policy", &["tidegate-document"]), [""; 0]);
}

#[test]
fn what_is_to_the_right_or_beside_may_not() {
    for (name, used) in [
        ("tidegate-core", "tidegate"),
        ("tidegate-document", "tidegate-policy"),
        ("tidegate-tower", "tidegate-redis"),
        ("tidegate-redis", "tidegate-tower"),
        ("tidegate-sim", "tidegate-server"),
        ("tidegate-import", "tidegate"),
        ("tidegate-policy", "tidegate-import"),
        ("tidegate-proxies", "tidegate-policy"),
        ("tidegate-server", "tidegate-tower"),
        ("xtask", "tidegate-core"),
    ] {
        let found = problems(name, &["serde", used]);
        assert_eq!(found.len(), 1, "{found:?}");
        let start = format!("{name}/Cargo.toml:6: `{name}` depends on `{used}`");
        assert!(found[0].starts_with(&start), "{found:?}");
    }
}

#[test]
fn a_newcomer_must_be_placed() {
    let found = problems("tidegate-new", &["tidegate-core"]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("ARCHITECTURE.md"), "{found:?}");
}

#[test]
fn the_line_is_found_however_the_dependency_is_written() {
    assert_eq!(line_of("\nb = { path = \"../b\" }", "b"), 2);
    assert_eq!(line_of("\n\n[dependencies.b]", "b"), 3);
    assert_eq!(line_of("\nc = { package = \"b\" }", "b"), 2);
    assert_eq!(line_of("name = \"a-b\"", "b"), 1);
}

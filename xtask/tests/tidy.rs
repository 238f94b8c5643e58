//! Runs `cargo xtask tidy` as a test.

#[test]
fn the_workspace_is_tidy() {
    let problems = match xtask::tidy::run(&xtask::workspace_root()) {
        Ok(problems) => problems,
        Err(error) => panic!("tidy could not run: {error}"),
    };
    let report: String = problems.iter().map(|problem| format!("\n{problem}")).collect();
    assert!(problems.is_empty(), "{} to fix:{report}", problems.len());
}

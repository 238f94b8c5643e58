//! `tidegate check` without a server, or with invalid arguments.

use std::net::TcpListener;

use crate::support::server::{run, tidegate};

#[test]
fn nobody_there_is_told_with_a_way_out() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port is free").local_addr().expect("it is bound");
    let ran = run(tidegate(&["check", "--server", &format!("http://{free}"), "user=42"]));
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    for part in ["nothing listens on", &free.to_string(), "tidegate serve"] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
}

#[test]
fn what_makes_no_question_is_bad_usage() {
    for (field, said) in [
        ("usr=42", "did you mean 'user'?"),
        ("user", "`user` is not a NAME=VALUE pair"),
        ("cost=many", "'cost': 'many' is not an integer"),
        ("colour=red", "header:"),
    ] {
        let ran = run(tidegate(&["check", field]));
        assert_eq!(ran.code, Some(2), "{field}");
        assert!(ran.err.contains(said), "{said}: {}", ran.err);
    }
    let ran = run(tidegate(&["check", "--server", "redis://127.0.0.1", "user=1"]));
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("not the URL of a server"), "{}", ran.err);
}

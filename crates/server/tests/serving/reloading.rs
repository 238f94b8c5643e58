//! Policies that change while the server runs.

use std::os::unix::fs::symlink;

use rustix::process::Signal;

use crate::support::home::{Home, policy};
use crate::support::server::Server;

#[test]
fn a_good_edit_is_put_into_force_and_a_bad_one_is_not() {
    let home = Home::new();
    let file = home.write("policy.yaml", &policy(1));
    let server = Server::start(&["--policy", &file]);
    home.write("policy.yaml", &policy(2));
    server.logged(&["policy reloaded", "version=2"]);
    home.write("policy.yaml", "version: 1\nlimts: []\n");
    let line = server.logged(&["stays in force"]);
    for part in [&*format!("{file}:2:1"), "limts", "version=2"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    home.replace("policy.yaml", &policy(3));
    server.logged(&["policy reloaded", "version=3"]);
    std::fs::remove_file(home.path("policy.yaml")).expect("it is there");
    server.logged(&["stays in force", "cannot read"]);
}

#[test]
fn a_directory_is_swapped_as_kubernetes_does() {
    let home = Home::new();
    for (version, burst) in [("..v1", 1), ("..v2", 2)] {
        std::fs::create_dir(home.path(version)).expect("it can be made");
        home.write(&format!("{version}/policy.yaml"), &policy(burst));
    }
    symlink("..v1", home.path("..data")).expect("it can be linked");
    symlink("..data/policy.yaml", home.path("policy.yaml")).expect("it can be linked");
    let server = Server::start(&["--policy", &home.arg("policy.yaml")]);
    symlink("..v2", home.path("..data_tmp")).expect("it can be linked");
    std::fs::rename(home.path("..data_tmp"), home.path("..data")).expect("it can be renamed");
    std::fs::remove_dir_all(home.path("..v1")).expect("it can be removed");
    server.logged(&["policy reloaded", "version=2"]);
}

#[test]
fn a_hangup_reloads_at_once() {
    let home = Home::new();
    let file = home.write("policy.yaml", &policy(1));
    let server = Server::start(&["--policy", &file]);
    server.signal(Signal::HUP);
    server.logged(&["policy reloaded", "version=2"]);
    let embedded = Server::start(&[]);
    embedded.signal(Signal::HUP);
    embedded.logged(&["no file to reload"]);
}

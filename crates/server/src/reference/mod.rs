//! Generates the pages of docs/reference from the code: commands, metrics, settings, policy, HTTP and bounds.

pub(super) mod limits;

use std::fmt::Write;

use crate::commands::flags::command;

/// A page of the reference.
#[derive(Clone, Debug)]
pub struct Page {
    /// Its file name.
    pub name: &'static str,
    /// Its contents.
    pub text: String,
}

/// All pages.
pub fn pages() -> Vec<Page> {
    vec![
        Page { name: "commands.md", text: commands() },
        Page { name: "metrics.md", text: crate::observe::metrics::families::reference() },
        Page { name: "http.md", text: crate::http::reference_page() },
        Page { name: "policy.md", text: tidegate_policy::reference() },
        Page { name: "limits.md", text: crate::reference::limits::reference() },
        Page { name: "settings.md", text: crate::settings::reference() },
        Page { name: "policy.schema.json", text: tidegate_policy::json_schema() },
    ]
}

fn commands() -> String {
    let mut root = command().term_width(100);
    root.build();
    let mut text = String::from("# Commands\n\nThis page is generated from the code by `cargo xtask gen`.\n");
    help(&mut text, &mut root, "tidegate");
    let names: Vec<String> = root.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    for name in names.iter().filter(|name| *name != "help") {
        let sub = root.find_subcommand_mut(name).expect("the name is that of a subcommand");
        help(&mut text, sub, &format!("tidegate {name}"));
    }
    text
}

fn help(text: &mut String, command: &mut clap::Command, name: &str) {
    let help = command.render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    write!(text, "\n## `{name}`\n\n```text\n{}\n```\n", help.join("\n").trim_end())
        .expect("writing to memory does not fail");
}

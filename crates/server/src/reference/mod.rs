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
        Page { name: "openapi.json", text: crate::control::api::openapi::text() },
    ]
}

fn commands() -> String {
    let mut root = command().term_width(100);
    root.build();
    let mut text = String::from("# Commands\n\nThis page is generated from the code by `cargo xtask gen`.\n");
    help_of_all(&mut text, &mut root, "tidegate");
    text
}

/// The help of a command and of its subcommands.
fn help_of_all(text: &mut String, command: &mut clap::Command, name: &str) {
    help(text, command, name);
    for sub in command.get_subcommands_mut().filter(|sub| sub.get_name() != "help") {
        let name = format!("{name} {}", sub.get_name());
        help_of_all(text, sub, &name);
    }
}

fn help(text: &mut String, command: &mut clap::Command, name: &str) {
    let help = command.render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    write!(text, "\n## `{name}`\n\n```text\n{}\n```\n", help.join("\n").trim_end())
        .expect("writing to memory does not fail");
}

//! The flags of `tidegate admin`, made from the table of routes.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueHint};

use super::words::{RouteCommand, commands, is_list};
use crate::control::api::route::{ApiRoute, RouteAccess};
use crate::control::api::shape::BodyShape;

/// What was given to `tidegate admin`.
#[derive(Clone, Debug)]
pub(crate) struct AdminArgs(ArgMatches);

impl AdminArgs {
    /// The route that was called, and its arguments.
    pub(super) fn call(&self) -> Option<(RouteCommand, &ArgMatches)> {
        let (subject, matches) = self.0.subcommand()?;
        let (verb, matches) = match matches.subcommand() {
            Some((verb, matches)) => (Some(verb), matches),
            None => (None, matches),
        };
        let command =
            commands().into_iter().find(|one| one.subject == subject && one.verb.as_deref() == verb)?;
        Some((command, matches))
    }
}

impl FromArgMatches for AdminArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<AdminArgs, clap::Error> {
        Ok(AdminArgs(matches.clone()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0 = matches.clone();
        Ok(())
    }
}

impl Args for AdminArgs {
    fn augment_args(command: Command) -> Command {
        let mut subjects: Vec<Command> = Vec::new();
        for RouteCommand { subject, verb, route } in commands() {
            let Some(verb) = verb else {
                subjects.push(with_arguments(Command::new(subject), route));
                continue;
            };
            let one = with_arguments(Command::new(verb), route);
            match subjects.iter().position(|known| known.get_name() == subject) {
                Some(known) => {
                    let known = &mut subjects[known];
                    *known = known.clone().subcommand(one);
                }
                None => subjects.push(
                    Command::new(subject.clone())
                        .about(format!("Routes of /{subject}"))
                        .subcommand_required(true)
                        .arg_required_else_help(true)
                        .subcommand(one),
                ),
            }
        }
        command.subcommand_required(true).arg_required_else_help(true).subcommands(subjects).after_help(HELP)
    }

    fn augment_args_for_update(command: Command) -> Command {
        AdminArgs::augment_args(command)
    }
}

const HELP: &str = "\
The server and the token come from flags, from the environment (TIDEGATE_ADMIN_URL, TIDEGATE_ADMIN_TOKEN), or from
a file: --connection FILE, by default tidegate/admin.yaml in the folder for settings of the user
(XDG_CONFIG_HOME, else ~/.config), with `server: URL` and `token: TOKEN`. There is no flag for the token itself:
other users of the machine can see a process's arguments.

  tidegate admin limits list
  tidegate admin limits patch per-user '{\"sustained\":{\"rate\":20}}' --reason \"launch day\"
  tidegate admin policy replace policy.yaml

Exit status: 0 done, 1 refused by the server or no answer, 2 wrong usage.";

fn with_arguments(command: Command, route: &ApiRoute) -> Command {
    let role = match route.access {
        RouteAccess::Open => String::new(),
        RouteAccess::Role(role, _) => format!(" (role: {role})"),
    };
    let mut command = command.about(format!("{}{role}", route.about.trim_end_matches('.')));
    for name in route.path_names() {
        command =
            command.arg(Arg::new(argument_id("path", name)).value_name(name.to_uppercase()).required(true));
    }
    if !matches!(route.body, BodyShape::None) {
        let body = Arg::new("body").value_name("JSON|FILE|-").required(true).value_hint(ValueHint::FilePath);
        command = command.arg(body.help("The body: JSON text, a file, or `-` for standard input"));
    }
    for field in route.query() {
        let flag = Arg::new(argument_id("query", field.name)).long(field.name.replace('_', "-"));
        command = command.arg(flag.value_name("VALUE").help(field.about.trim_end_matches('.')));
    }
    if route.is_versioned_write() {
        let flag = Arg::new("if-match").long("if-match").value_name("VERSION");
        command = command.arg(flag.help("Only if this version of the policy is in force"));
    }
    if is_list(route) {
        let flag = Arg::new("all").long("all").action(ArgAction::SetTrue);
        command =
            command.arg(flag.help("All pages, not only one").conflicts_with(argument_id("query", "cursor")));
    }
    connection_arguments(command, is_list(route))
}

pub(super) fn connection_arguments(command: Command, is_list: bool) -> Command {
    let formats = if is_list { &["text", "json", "csv", "lines"][..] } else { &["text", "json"] };
    let flag = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help).help_heading("Connection")
    };
    command
        .arg(
            flag("server", "URL", "URL of the admin listener")
                .env("TIDEGATE_ADMIN_URL")
                .hide_env_values(true),
        )
        .arg(flag("token-file", "FILE", "File with the token"))
        .arg(flag("connection", "FILE", "File with `server` and `token`"))
        .arg(flag("ca", "FILE", "PEM file of certificates to trust for https"))
        .arg(
            Arg::new("format")
                .long("format")
                .value_parser(clap::builder::PossibleValuesParser::new(formats))
                .default_value("text")
                .help("Output format"),
        )
}

/// The id of an argument. Names of path segments and of parameters may be the same.
pub(super) fn argument_id(place: &str, name: &str) -> String {
    format!("{place}:{name}")
}

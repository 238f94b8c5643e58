//! The flags of `tidegate admin`, made from the table of routes.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueHint};

use super::words::{RouteCommand, commands, is_list, is_stream};
use crate::control::api::route::{ApiRoute, RouteAccess};
use crate::control::api::shape::{AnswerShape, BodyShape};

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
        // A list that is all there is of a subject needs no verb, and has one all the same.
        let is_called =
            |one: &RouteCommand| one.verb.as_deref() == verb || (one.verb.is_none() && verb == Some(LIST));
        let command = commands().into_iter().find(|one| one.subject == subject && is_called(one))?;
        Some((command, matches))
    }
}

/// The verb of lists.
const LIST: &str = "list";

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
                let alone = with_arguments(Command::new(subject), route);
                let listed = || with_arguments(Command::new(LIST).hide(true), route);
                subjects.push(if is_list(route) { alone.subcommand(listed()) } else { alone });
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

Exit status: 0 done, 1 refused by the server or no answer, 2 wrong usage or an invalid document.";

const STREAM_HELP: &str = "\
Prints the data of each event as a line of JSON, until it is interrupted. When the server ends the stream, it is asked for
again.";

fn with_arguments(command: Command, route: &ApiRoute) -> Command {
    let role = match route.access {
        RouteAccess::Open => String::new(),
        RouteAccess::Role(role, _) => format!(" (role: {role})"),
    };
    let mut command = command.about(format!("{}{role}", route.about.trim_end_matches('.')));
    for name in route.path_names() {
        let argument = Arg::new(argument_id("path", name)).value_name(name.to_uppercase()).required(true);
        // Names that others have given, and ids of older versions, may begin with a hyphen.
        command = command.arg(argument.allow_hyphen_values(true));
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
    if route.takes_idempotency_key() {
        let flag = Arg::new("idempotency-key").long("idempotency-key").value_name("KEY");
        let about = "Any text; a call that is repeated with the same key within 24 hours is done once, and answered the same";
        command = command.arg(flag.help(about));
    }
    if is_list(route) {
        let flag = Arg::new("all").long("all").action(ArgAction::SetTrue);
        command =
            command.arg(flag.help("All pages, not only one").conflicts_with(argument_id("query", "cursor")));
    }
    if is_stream(route) {
        let count = Arg::new("count").long("count").value_name("N");
        let count = count.value_parser(clap::value_parser!(u64).range(1..));
        let command = command.arg(count.help("End after this many events")).after_help(STREAM_HELP);
        return connection_arguments(command);
    }
    let formats = match route.answer {
        AnswerShape::List(_) => LIST_FORMATS,
        AnswerShape::JsonOrLines(_) => LINES_FORMATS,
        _ => FORMATS,
    };
    format_argument(connection_arguments(command), formats)
}

/// The output formats of commands.
pub(super) const FORMATS: &[&str] = &["text", "json"];
/// Those of commands that print lists.
const LIST_FORMATS: &[&str] = &["text", "json", "csv", "lines"];
/// Those of commands whose answer may come as lines of JSON.
const LINES_FORMATS: &[&str] = &["text", "json", "lines"];

pub(super) fn format_argument(command: Command, formats: &'static [&'static str]) -> Command {
    command.arg(
        Arg::new("format")
            .long("format")
            .value_parser(clap::builder::PossibleValuesParser::new(formats))
            .default_value("text")
            .help("Output format"),
    )
}

pub(super) fn connection_arguments(command: Command) -> Command {
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
}

/// The id of an argument. Names of path segments and of parameters may be the same.
pub(super) fn argument_id(place: &str, name: &str) -> String {
    format!("{place}:{name}")
}

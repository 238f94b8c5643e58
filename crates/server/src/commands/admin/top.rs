//! `tidegate top`: a screen of what a fleet decides now, refreshed every second.

use std::io::IsTerminal;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, Method};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::arguments::{FORMATS, connection_arguments, format_argument};
use super::connection::AdminConnection;
use super::top_screen::screen;
use super::{check, running, usage};
use crate::bounds::CHECK_TIMEOUT;
use crate::commands::http_client::{HttpCall, ServerTarget};
use crate::commands::print;
use crate::commands::terminal::exit::CommandFailure;
use crate::commands::terminal::paint::{Paint, Tone, printable};
use crate::control::api::PREFIX;

/// What was given to `tidegate top`.
#[derive(Clone, Debug)]
pub(crate) struct TopArgs(ArgMatches);

const HELP: &str = "\
Shows decisions, denials by limit, the busiest keys, the store and the nodes, refreshed until Ctrl-C. If the output is
not a terminal, it prints one screen and ends. While the server does not answer, the last screen stays, with the reason.
The server and the token are found as by `tidegate admin`.

Exit status: 0 ended, 1 refused by the server or no answer, 2 wrong usage.";

impl FromArgMatches for TopArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<TopArgs, clap::Error> {
        Ok(TopArgs(matches.clone()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0 = matches.clone();
        Ok(())
    }
}

impl Args for TopArgs {
    fn augment_args(command: Command) -> Command {
        let once = Arg::new("once").long("once").action(ArgAction::SetTrue).help("Print one screen, and end");
        let interval = Arg::new("interval")
            .long("interval")
            .value_name("SECONDS")
            .value_parser(clap::value_parser!(u16).range(1..=3_600))
            .default_value("1")
            .help("Time between two screens");
        let command = connection_arguments(command.arg(once).arg(interval));
        format_argument(command, FORMATS).after_help(HELP)
    }

    fn augment_args_for_update(command: Command) -> Command {
        TopArgs::augment_args(command)
    }
}

/// Clears the terminal from the first line on.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Runs the command.
pub(crate) fn run(args: &TopArgs) -> Result<(), CommandFailure> {
    let connection = AdminConnection::find(&args.0)?;
    let server = TopServer {
        target: ServerTarget::parse(&connection.server).map_err(usage)?,
        connection,
        runtime: tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(running)?,
    };
    let is_json = args.0.get_one::<String>("format").is_some_and(|format| format == "json");
    let follows = std::io::stdout().is_terminal() && !args.0.get_flag("once") && !is_json;
    let pause = args.0.get_one::<u16>("interval").copied().unwrap_or(1);
    let mut last: Option<String> = None;
    loop {
        let text = match server.now() {
            Ok((overview, keys)) if is_json => {
                return print(&format!(
                    "{}\n",
                    serde_json::json!({ "overview": overview, "hot_keys": keys })
                ));
            }
            Ok((overview, keys)) => {
                last.insert(screen(&overview, &keys, &server.connection.server, Paint::stdout())).clone()
            }
            // The server may be starting again: what was seen last stays.
            Err(failure) => {
                let Some(last) = &last else { return Err(failure) };
                let why = printable(&failure.to_string().replace('\n', " "));
                format!("{}\n\n{last}", Paint::stdout().tone(Tone::Bad, format!("no answer: {why}")))
            }
        };
        print(&format!("{}{text}", if follows { CLEAR } else { "" }))?;
        if !follows {
            return Ok(());
        }
        // A timer can only be made inside a runtime, so it is made in the block and not before it.
        server.runtime.block_on(async { tokio::time::sleep(Duration::from_secs(pause.into())).await });
    }
}

/// The server that is asked.
struct TopServer {
    target: ServerTarget,
    connection: AdminConnection,
    runtime: Runtime,
}

impl TopServer {
    /// The overview, and the hottest keys.
    fn now(&self) -> Result<(Value, Value), CommandFailure> {
        Ok((self.get("/overview")?, self.get("/hot-keys?limit=10")?))
    }

    fn get(&self, path: &str) -> Result<Value, CommandFailure> {
        let mut headers = HeaderMap::new();
        if let Some(token) = &self.connection.token {
            let value = HeaderValue::from_str(&format!("Bearer {token}"));
            let wrong = |_| CommandFailure::Usage("the token has characters that cannot be sent".to_owned());
            headers.insert(AUTHORIZATION, value.map_err(wrong)?);
        }
        let path = format!("{PREFIX}{path}");
        let call = HttpCall {
            method: Method::GET,
            path,
            headers,
            body: bytes::Bytes::new(),
            timeout: CHECK_TIMEOUT,
        };
        let sent = self.target.send(&call, self.connection.ca.as_deref());
        let answer = self.runtime.block_on(sent).map_err(running)?;
        check(&answer, "")?;
        serde_json::from_slice(&answer.body).map_err(running)
    }
}

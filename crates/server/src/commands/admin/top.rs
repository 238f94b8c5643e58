//! `tidegate top`: a screen of what a fleet decides now, refreshed every second.

use std::io::IsTerminal;
use std::pin::pin;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, Method};
use serde_json::Value;

use super::arguments::{FORMATS, connection_arguments, format_argument};
use super::connection::AdminConnection;
use super::top_screen::TopScreen;
use super::{check, running, usage};
use crate::bounds::CHECK_TIMEOUT;
use crate::commands::http_client::{HttpCall, ServerTarget};
use crate::commands::print;
use crate::commands::terminal::exit::CommandFailure;
use crate::commands::terminal::full_screen::{FullScreen, ScreenEvent, ScreenEvents};
use crate::commands::terminal::paint::{Paint, printable};
use crate::control::api::PREFIX;

/// What was given to `tidegate top`.
#[derive(Clone, Debug)]
pub(crate) struct TopArgs(ArgMatches);

const HELP: &str = "\
Shows decisions, denials by limit, the busiest keys, the store and the nodes, refreshed until `q` or Ctrl-C. Where the
terminal has little room, it shows what matters most. If the output is not a terminal, it prints one screen and ends.
While the server does not answer, the last screen stays, with the reason. The server and the token are found as by
`tidegate admin`.

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

/// Runs the command.
pub(crate) fn run(args: &TopArgs) -> Result<(), CommandFailure> {
    let connection = AdminConnection::find(&args.0)?;
    let server = TopServer { target: ServerTarget::parse(&connection.server).map_err(usage)?, connection };
    let is_json = args.0.get_one::<String>("format").is_some_and(|format| format == "json");
    let follows = std::io::stdout().is_terminal() && !args.0.get_flag("once") && !is_json;
    let pause = args.0.get_one::<u16>("interval").copied().unwrap_or(1);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(running)?;
    if follows {
        return runtime.block_on(watch(&server, Duration::from_secs(pause.into())));
    }
    let (overview, keys) = runtime.block_on(server.now())?;
    match is_json {
        true => print(&format!("{}\n", serde_json::json!({ "overview": overview, "hot_keys": keys }))),
        false => print(&server.screen(&overview, &keys).text()),
    }
}

/// Draws the screen until somebody ends it.
async fn watch(server: &TopServer, pause: Duration) -> Result<(), CommandFailure> {
    let mut events = ScreenEvents::start().map_err(running)?;
    // If the server does not answer the first time, that is no screen.
    let Some(first) = unless_ended(&mut events, || Ok(()), server.now()).await? else { return Ok(()) };
    let (overview, keys) = first?;
    let mut last = server.screen(&overview, &keys);
    let terminal = FullScreen::enter().map_err(running)?;
    events.read_keys().map_err(running)?;
    let mut shown = last.clone();
    loop {
        let draw = || terminal.draw(&shown.fitting(terminal.size().rows)).map_err(running);
        draw()?;
        let next = async {
            tokio::time::sleep(pause).await;
            server.now().await
        };
        let Some(answered) = unless_ended(&mut events, draw, next).await? else { return Ok(()) };
        shown = match answered {
            Ok((overview, keys)) => {
                last = server.screen(&overview, &keys);
                last.clone()
            }
            // The server may be starting again: what was seen last stays.
            Err(failure) => {
                let why = printable(&failure.to_string().replace('\n', " "));
                last.with_problem(format!("no answer: {why}"))
            }
        };
    }
}

/// Waits for `work`, and draws the screen when the terminal has another size. `None` if somebody ends the program.
async fn unless_ended<T>(
    events: &mut ScreenEvents,
    draw: impl Fn() -> Result<(), CommandFailure>,
    work: impl Future<Output = T>,
) -> Result<Option<T>, CommandFailure> {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            event = events.next() => match event {
                ScreenEvent::End => return Ok(None),
                ScreenEvent::Resized => draw()?,
            },
            done = work.as_mut() => return Ok(Some(done)),
        }
    }
}

/// The server that is asked.
struct TopServer {
    target: ServerTarget,
    connection: AdminConnection,
}

impl TopServer {
    /// The overview, and the hottest keys.
    async fn now(&self) -> Result<(Value, Value), CommandFailure> {
        Ok((self.get("/overview").await?, self.get("/hot-keys?limit=10").await?))
    }

    fn screen(&self, overview: &Value, keys: &Value) -> TopScreen {
        TopScreen::new(overview, keys, &self.connection.server, Paint::stdout())
    }

    async fn get(&self, path: &str) -> Result<Value, CommandFailure> {
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
        let answer = self.target.send(&call, self.connection.ca.as_deref()).await.map_err(running)?;
        check(&answer, "")?;
        serde_json::from_slice(&answer.body).map_err(running)
    }
}

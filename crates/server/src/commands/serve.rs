//! `tidegate serve`: reads settings and policy, opens the listeners and runs the server.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate::{Clock, LimitError, Nanos};
use tidegate_policy::{Problem, RuleSet};
use tokio::time::timeout;
use tracing::level_filters::LevelFilter;

use super::{now, print};
use crate::bounds::RECORDS_FLUSH_TIMEOUT;
use crate::commands::flags::Serve;
use crate::commands::terminal::exit::{CommandFailure, print_stderr};
use crate::commands::terminal::paint::Paint;
use crate::commands::terminal::report;
use crate::control::access::{Access, Oidc, first_token, new_secret};
use crate::control::records::Records;
use crate::control::startup::{self, OpenedDatabase, unix_millis};
use crate::control::thread::ControlThread;
use crate::control::{ControlPlane, PolicySource, RunningPolicy, candidates};
use crate::identity::Identity;
use crate::node::store::StoreThreadError;
use crate::node::{Node, NodeError};
use crate::observe::{EventsError, Traces, install_panic_hook, logs};
use crate::serve::reload::policy_file;
use crate::serve::reload::policy_file::QUICK_START;
use crate::serve::reload::watch::WatchedFiles;
use crate::serve::reload::{PolicyFile, Reload};
use crate::serve::{self, Banner, BoundListener, Tls};
use crate::settings::{self, FlagsAndEnvironment, Settings, host_name};
use crate::trust_file::{self, Accounts};

pub(super) fn run(args: &Serve) -> Result<(), CommandFailure> {
    let (settings, warned) = settings(args)?;
    let kill_switch = std::env::var("TIDEGATE_KILL_SWITCH").ok();
    let kill_switch = settings::kill_switch_from(kill_switch.as_deref()).map_err(usage)?;
    let start = Start { settings, warned, kill_switch, log: LevelFilter::INFO };
    let announce = |_: &Node, banner: Banner, token: Option<String>| {
        // The server runs on even if standard output is closed.
        let _printed = print(&format!("{banner}{}", token.unwrap_or_default()));
    };
    serve_until(start, announce, std::future::pending())
}

/// What a server starts with.
pub(super) struct Start {
    pub(super) settings: Settings,
    pub(super) warned: Warnings,
    pub(super) kill_switch: bool,
    /// The level of the log, if the environment names none.
    pub(super) log: LevelFilter,
}

/// Runs a server until a signal or the end of `until`. `announce` gets the banner when the server takes requests, with what
/// is to be said about a token that nobody has seen yet.
pub(super) fn serve_until(
    start: Start,
    announce: impl FnOnce(&Node, Banner, Option<String>),
    until: impl Future<Output = io::Result<()>>,
) -> Result<(), CommandFailure> {
    let Start { settings, warned, kill_switch, log } = start;
    // Remember the state of watched files before reading them, so that a change in between is noticed.
    let jwks = Reload::watch_jwks(settings.jwt.as_ref());
    let api_keys = Reload::watch_api_keys(settings.api_keys.as_ref());
    let trust = Reload::watch_trust(settings.trust.as_ref());
    let oidc = Reload::watch_jwks(settings.oidc.as_ref().map(|oidc| &oidc.jwt));
    let tls_watched =
        settings.tls.as_ref().map(|tls| WatchedFiles::new(vec![tls.cert.clone(), tls.key.clone()]));
    let thread = ControlThread::start().map_err(running)?;
    let opened = open_database(&thread, &settings)?;
    let LoadedPolicy { rules, running: in_force, file: policy, warnings } =
        policy(&settings, opened.as_ref())?;
    let tls =
        settings.tls.as_ref().map(Tls::load).transpose().map_err(|error| usage(format!("tls: {error}")))?;
    let tls = tls.map(Arc::new);
    let identity = Identity::new(&settings).map_err(usage)?;
    let accounts = trust.as_ref().map(|(_, file)| read_accounts(file)).transpose()?;
    logs::init(&settings, log).map_err(usage)?;
    for (file, problems) in warned.into_iter().chain(warnings) {
        tracing::warn!(warnings = policy_file::on_one_line(&file, &problems), "{file} has warnings");
    }
    let bound = serve::bind(&settings).map_err(running)?;
    let banner = Banner::new(&settings, &rules, &bound, kill_switch);
    let traces = settings.otlp.as_deref().map(Traces::to).transpose().map_err(usage)?.unwrap_or_default();
    let (access, made_token) = access(&settings, opened.as_ref())?;
    let records = settings.database.is_some().then(Records::new).transpose().map_err(running)?;
    let is_in_database = in_force.source == PolicySource::Database;
    let sinks = records.iter().map(|records| records.sink(is_in_database)).collect();
    let node =
        Node::with_sinks(settings, rules, identity, sinks).map(|node| node.starting_at(in_force.version));
    let mut node = node.map_err(node_failure)?;
    node.set_traces(traces);
    if let (Some(book), Some(accounts)) = (node.limiter().trust_book(), accounts) {
        book.replace_listed(accounts);
    }
    let node = Arc::new(node);
    install_panic_hook(&node);
    let (database, database_problem) = opened.map(|opened| (opened.database, opened.problem)).unzip();
    let control = ControlPlane::new(thread, in_force, access, database).recording(records);
    control.glance().set_commands(banner.commands());
    control.live().force_kill_switch(kill_switch);
    node.set_kill_switch(kill_switch);
    if kill_switch {
        tracing::warn!("TIDEGATE_KILL_SWITCH=allow: every request is admitted");
    }
    start_control(&node, control, database_problem.flatten(), &bound);
    let watched_tls = tls_watched.zip(tls.clone());
    let reload = Reload::new(Arc::clone(&node), policy, watched_tls, (jwks, api_keys)).watching_trust(trust);
    reload.watching_oidc(oidc).start().map_err(running)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(running)?;
    let started = node.clock().now();
    let printed_token = printed_token(&node, made_token)?;
    let announce = || {
        announce(&node, banner, printed_token);
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            policy_version = node.limiter().version(),
            "serving"
        );
    };
    let ended = runtime.block_on(serve::run(Arc::clone(&node), bound, tls, announce, until)).map_err(running);
    finish(&node, started);
    ended
}

/// Makes the control plane part of the node, and starts what it does by itself.
fn start_control(
    node: &Arc<Node>,
    control: ControlPlane,
    database_problem: Option<String>,
    bound: &[BoundListener],
) {
    let id = node_name(node, bound);
    node.set_control(control);
    if let Some(control) = node.control() {
        control.set_database_problem(database_problem);
        control.record(node);
        control.follow(node, id);
        control.follow_live(node);
        control.follow_trust(node);
        control.follow_candidates(node);
        control.note_token_uses(node);
        control.watch_figures(node);
    }
}

/// Writes what is still in memory.
fn finish(node: &Arc<Node>, started: Nanos) {
    // The store was left, so no answer to counts can arrive any more.
    node.limiter().report_late_bursts();
    node.events().flush();
    node.control().and_then(ControlPlane::records).inspect(|records| records.flush());
    if let Some(control) = node.control() {
        let node = Arc::clone(node);
        // A database that does not answer must not keep the process.
        let written = async move { timeout(RECORDS_FLUSH_TIMEOUT, candidates::write_found(&node)).await };
        let _written = control.wait_for(written);
    }
    node.traces().shutdown();
    let ran = node.clock().now().saturating_sub(started);
    tracing::info!(ran = %ran, "ended");
    logs::flush();
}

/// Mistakes in the files, such as a bad Redis address, limits that a shared store cannot count or a bad events file, lead
/// to another exit status than failures of the system.
fn node_failure(error: NodeError) -> CommandFailure {
    match error {
        NodeError::Shared(StoreThreadError::RedisClient(_))
        | NodeError::Limits(LimitError::NotShared { .. })
        | NodeError::Events(EventsError::File(..)) => usage(error),
        _ => running(error),
    }
}

pub(super) fn usage(error: impl std::fmt::Display) -> CommandFailure {
    CommandFailure::Usage(error.to_string())
}

pub(super) fn running(error: impl std::fmt::Display) -> CommandFailure {
    CommandFailure::Running(error.to_string())
}

/// The name of a file and its warnings, if it has any.
pub(super) type Warnings = Option<(String, Vec<Problem>)>;

/// The settings: the file, overridden by environment variables, overridden by flags.
fn settings(args: &Serve) -> Result<(Settings, Warnings), CommandFailure> {
    let config = args.config.as_deref().filter(|file| !file.is_empty());
    let (file, warned) = match config {
        None => (Settings::default(), None),
        Some(path) => read_settings(path)?,
    };
    let secret = |name: &str| std::env::var(name).ok();
    let overrides = FlagsAndEnvironment {
        listen: [args.http.clone(), args.grpc.clone(), args.resp.clone(), args.admin.clone()],
        policy: args.policy.as_ref().map(PathBuf::from),
        workers: args.workers.map(usize::from),
        // No flags for these: other users of the machine can see a process's arguments.
        http_token: secret("TIDEGATE_HTTP_TOKEN"),
        resp_password: secret("TIDEGATE_RESP_PASSWORD"),
        redis_url: secret("TIDEGATE_REDIS_URL"),
        database_url: secret("TIDEGATE_DATABASE_URL"),
        admin_token: secret("TIDEGATE_ADMIN_TOKEN"),
        data: args.data.clone(),
        admin_insecure: args.admin_insecure,
    };
    Ok((file.with(overrides).map_err(usage)?, warned))
}

/// The settings in a file, and its warnings. Its problems are printed to standard error.
pub(super) fn read_settings(path: &str) -> Result<(Settings, Warnings), CommandFailure> {
    let text = policy_file::read(Path::new(path))
        .map_err(|error| unreadable("settings", Path::new(path), &error))?;
    let home = Path::new(path).parent().unwrap_or(Path::new(""));
    match settings::read(&text, home) {
        Ok((settings, warnings)) => {
            Ok((settings, (!warnings.is_empty()).then(|| (path.to_owned(), warnings))))
        }
        Err(problems) => Err(print_problems(path, &settings::masked(&text), &problems)),
    }
}

/// The policy to serve.
struct LoadedPolicy {
    rules: RuleSet,
    running: RunningPolicy,
    /// The file to watch, if it comes from one.
    file: Option<PolicyFile>,
    warnings: Warnings,
}

/// The policy to serve: that of the file, else that of the database, else the embedded one.
fn policy(settings: &Settings, opened: Option<&OpenedDatabase>) -> Result<LoadedPolicy, CommandFailure> {
    let since = now();
    // Remember the state of the file before reading it, so that a change in between is noticed.
    let watched = settings.policy.as_ref().map(|path| WatchedFiles::new(vec![path.clone()]));
    let (name, source, text, version) = match (&settings.policy, opened) {
        (Some(path), _) => {
            let text = policy_file::read(path).map_err(|error| unreadable("policy", path, &error))?;
            (path.display().to_string(), PolicySource::File(path.clone()), text, 1)
        }
        (None, Some(OpenedDatabase { policy, .. })) => {
            let name = format!("version {} of the policy in the database", policy.version);
            (name, PolicySource::Database, policy.text.to_string(), policy.version)
        }
        (None, None) => ("quick start".to_owned(), PolicySource::Embedded, QUICK_START.to_owned(), 1),
    };
    let compiled = policy_file::compile(&text, settings, since);
    let (rules, warnings) = compiled.map_err(|problems| print_problems(&name, &text, &problems))?;
    let running = RunningPolicy { source, text: text.as_str().into(), version, since };
    let file = settings.policy.clone().zip(watched);
    let file = file.map(|(path, watched)| PolicyFile { path, watched, text });
    Ok(LoadedPolicy { rules, running, file, warnings: (!warnings.is_empty()).then_some((name, warnings)) })
}

/// Opens the database of the settings, if they name one.
fn open_database(
    thread: &ControlThread,
    settings: &Settings,
) -> Result<Option<OpenedDatabase>, CommandFailure> {
    let Some(database) = settings.database.clone() else { return Ok(None) };
    database.make_folder().map_err(running)?;
    let opened = thread.run(async move { startup::open(&database, QUICK_START, now()).await });
    opened.map_err(running)?.map(Some).map_err(running)
}

/// Who may use the admin API, and the token that was made for a server without a database.
fn access(
    settings: &Settings,
    opened: Option<&OpenedDatabase>,
) -> Result<(Access, Option<String>), CommandFailure> {
    let oidc = settings.oidc.as_ref().map(Oidc::load).transpose().map_err(usage)?;
    let (access, made) = match (opened, &settings.admin_token) {
        (Some(opened), token) => (Access::by_database(opened.database.clone(), token.as_deref()), None),
        (None, Some(token)) => (Access::by_token(token), None),
        (None, None) => {
            let token = new_secret("tga_").map_err(running)?;
            (Access::by_token(&token), Some(token))
        }
    };
    Ok((access.map_err(running)?.with_oidc(oidc), made))
}

/// What the banner says about the token that nobody has seen yet. With a database, that is the first one; it is made only
/// now, since nothing that comes after it fails.
fn printed_token(node: &Node, made: Option<String>) -> Result<Option<String>, CommandFailure> {
    if let Some(token) = made {
        return Ok(Some(format!("  admin token, until the server ends: {token}\n\n")));
    }
    // Who has set a token needs no other one.
    if node.settings().admin_token.is_some() {
        return Ok(None);
    }
    let Some((control, database)) =
        node.control().and_then(|control| Some((control, control.database()?.clone())))
    else {
        return Ok(None);
    };
    let now = unix_millis(now());
    let first = control.wait_for(async move { first_token(&database, now).await }).map_err(running)?;
    let first = first.map_err(running)?;
    Ok(first.map(|token| format!("  first admin token, shown only this once: {}\n\n", token.secret)))
}

/// The name of this node among those that share a database: the machine's, and the port of a listener.
fn node_name(node: &Node, bound: &[BoundListener]) -> String {
    let machine = node.settings().events.as_ref().and_then(|events| events.node.clone()).or_else(host_name);
    let port = bound.first().map(|bound| bound.address.port()).unwrap_or_default();
    format!("{}:{port}", machine.as_deref().unwrap_or("unknown"))
}

/// The accounts in a trust file.
pub(super) fn read_accounts(path: &Path) -> Result<Accounts, CommandFailure> {
    let text = policy_file::read(path).map_err(|error| unreadable("trust", path, &error))?;
    trust_file::parse(&text).map_err(|problems| print_problems(&path.display().to_string(), &text, &problems))
}

fn unreadable(what: &str, path: &Path, error: &std::io::Error) -> CommandFailure {
    usage(format!("cannot read the {what} file {}: {error}", path.display()))
}

/// Prints every problem of a document to standard error.
fn print_problems(file: &str, text: &str, problems: &[Problem]) -> CommandFailure {
    print_stderr(format_args!("{}", report::text(file, text, problems, Paint::stderr())));
    print_stderr(format_args!("{file}: {}\n", report::counts(problems)));
    CommandFailure::Invalid
}

//! `tidegate serve`: reads settings and policy, opens the listeners and runs the server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate::{Clock, LimitError};
use tidegate_policy::{Problem, RuleSet};

use super::{now, print};
use crate::commands::flags::Serve;
use crate::commands::terminal::exit::{CommandFailure, print_stderr};
use crate::commands::terminal::paint::Paint;
use crate::commands::terminal::report;
use crate::identity::Identity;
use crate::node::store::StoreThreadError;
use crate::node::{Node, NodeError};
use crate::observe::{Traces, install_panic_hook, logs};
use crate::serve::reload::policy_file;
use crate::serve::reload::policy_file::QUICK_START;
use crate::serve::reload::watch::WatchedFiles;
use crate::serve::reload::{PolicyFile, Reload};
use crate::serve::{self, Banner, Tls};
use crate::settings::{self, FlagsAndEnvironment, Settings};

pub(super) fn run(args: &Serve) -> Result<(), CommandFailure> {
    let (settings, warned) = settings(args)?;
    let kill_switch = std::env::var("TIDEGATE_KILL_SWITCH").ok();
    let kill_switch = settings::kill_switch_from(kill_switch.as_deref()).map_err(usage)?;
    // Remember the state of watched files before reading them, so that a change in between is noticed.
    let jwks = Reload::watch_jwks(settings.jwt.as_ref());
    let api_keys = Reload::watch_api_keys(settings.api_keys.as_ref());
    let tls_watched =
        settings.tls.as_ref().map(|tls| WatchedFiles::new(vec![tls.cert.clone(), tls.key.clone()]));
    let (rules, policy, warnings) = policy(&settings)?;
    let tls =
        settings.tls.as_ref().map(Tls::load).transpose().map_err(|error| usage(format!("tls: {error}")))?;
    let tls = tls.map(Arc::new);
    let identity = Identity::new(&settings).map_err(usage)?;
    logs::init(&settings).map_err(usage)?;
    for (file, problems) in warned.into_iter().chain(warnings) {
        tracing::warn!(warnings = policy_file::on_one_line(&file, &problems), "{file} has warnings");
    }
    let bound = serve::bind(&settings).map_err(running)?;
    let banner = Banner::new(&settings, &rules, &bound, kill_switch);
    let traces = settings.otlp.as_deref().map(Traces::to).transpose().map_err(usage)?.unwrap_or_default();
    let node = Node::new(settings, rules, identity);
    let mut node = node.map_err(|error| match error {
        // A bad Redis address and limits that a shared store cannot count are mistakes in the files: exit status 2.
        NodeError::Shared(StoreThreadError::RedisClient(_))
        | NodeError::Limits(LimitError::NotShared { .. }) => usage(error),
        _ => running(error),
    })?;
    node.set_traces(traces);
    let node = Arc::new(node);
    install_panic_hook(&node);
    node.limiter().set_kill_switch(kill_switch);
    if kill_switch {
        tracing::warn!("TIDEGATE_KILL_SWITCH=allow: every request is admitted");
    }
    let watched_tls = tls_watched.zip(tls.clone());
    Reload::new(Arc::clone(&node), policy, watched_tls, (jwks, api_keys)).start().map_err(running)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(running)?;
    let started = node.clock().now();
    let announce = || {
        // The server runs on even if standard output is closed.
        let _printed = print(&banner.to_string());
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            policy_version = node.limiter().version(),
            "serving"
        );
    };
    let ended = runtime.block_on(serve::run(Arc::clone(&node), bound, tls, announce)).map_err(running);
    node.traces().shutdown();
    let ran = node.clock().now().saturating_sub(started);
    tracing::info!(ran = %ran, "ended");
    logs::flush();
    ended
}

fn usage(error: impl std::fmt::Display) -> CommandFailure {
    CommandFailure::Usage(error.to_string())
}

fn running(error: impl std::fmt::Display) -> CommandFailure {
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
    };
    Ok((file.with(overrides).map_err(usage)?, warned))
}

/// The settings in a file, and its warnings.
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

/// The rules to serve, the file they come from, and its warnings.
fn policy(settings: &Settings) -> Result<(RuleSet, Option<PolicyFile>, Warnings), CommandFailure> {
    let Some(path) = settings.policy.clone() else {
        let compiled = policy_file::compile(QUICK_START, settings, now());
        let (rules, warnings) =
            compiled.map_err(|problems| print_problems("quick start", QUICK_START, &problems))?;
        return Ok((rules, None, (!warnings.is_empty()).then(|| ("quick start".to_owned(), warnings))));
    };
    let watched = WatchedFiles::new(vec![path.clone()]);
    let text = policy_file::read(&path).map_err(|error| unreadable("policy", &path, &error))?;
    let name = path.display().to_string();
    let compiled = policy_file::compile(&text, settings, now());
    let (rules, warnings) = compiled.map_err(|problems| print_problems(&name, &text, &problems))?;
    let warned = (!warnings.is_empty()).then_some((name, warnings));
    Ok((rules, Some(PolicyFile { path, watched, text }), warned))
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

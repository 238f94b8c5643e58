//! What can be typed.

use clap::builder::Styles;
use clap::builder::styling::AnsiColor;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

/// The whole command line, for completions and reference pages.
pub fn command() -> clap::Command {
    Cli::command()
}

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Exact rate limiting: one policy, checked, explained, simulated and enforced.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, styles = STYLES, arg_required_else_help = true)]
#[command(after_help = "Exit status: 0 done, 1 failed while running, 2 bad usage or an invalid document.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Run the server
    Serve(Serve),
    /// Ask a running server for a decision
    Check(Check),
    /// Check policies and tell everything that is wrong with them
    Validate(Validate),
    /// Spell out one decision: which limits apply, why the others do not, and the arithmetic
    Explain(Explain),
    /// Run a trace of requests through the real engine in virtual time
    Simulate(Simulate),
    /// Turn another limiter's configuration into a policy
    Import(Import),
    /// Print the JSON Schema of the policy document
    Schema,
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// For people
    Text,
    /// For machines
    Json,
}

#[derive(Debug, Args)]
#[command(after_help = SERVE_HELP)]
pub(crate) struct Serve {
    /// The settings; defaults unless given
    #[arg(long, value_name = "FILE", env = "TIDEGATE_CONFIG", hide_env_values = true)]
    pub(crate) config: Option<String>,
    /// The policy; an embedded one unless given. It is watched, and reloaded when it changes
    #[arg(long, value_name = "FILE", env = "TIDEGATE_POLICY", hide_env_values = true)]
    pub(crate) policy: Option<String>,
    /// Where to decide by HTTP: an address, or `off`
    #[arg(long, value_name = "ADDRESS", env = "TIDEGATE_HTTP", hide_env_values = true)]
    pub(crate) http: Option<String>,
    /// Where to decide by gRPC: an address, or `off`
    #[arg(long, value_name = "ADDRESS", env = "TIDEGATE_GRPC", hide_env_values = true)]
    pub(crate) grpc: Option<String>,
    /// Where to decide by the Redis protocol: an address, or `off`
    #[arg(long, value_name = "ADDRESS", env = "TIDEGATE_RESP", hide_env_values = true)]
    pub(crate) resp: Option<String>,
    /// Where to tell health and metrics: an address, or `off`
    #[arg(long, value_name = "ADDRESS", env = "TIDEGATE_ADMIN", hide_env_values = true)]
    pub(crate) admin: Option<String>,
    /// Threads that answer; one fewer than there are cores unless given
    #[arg(long, value_name = "COUNT", env = "TIDEGATE_WORKERS", hide_env_values = true, value_parser = clap::value_parser!(u16).range(1..=1_024))]
    pub(crate) workers: Option<u16>,
}

const SERVE_HELP: &str = "\
A flag beats the environment, and both beat the settings file. Secrets are not flags: use the file, or
TIDEGATE_HTTP_TOKEN and TIDEGATE_RESP_PASSWORD. TIDEGATE_KILL_SWITCH=allow admits every request.

SIGHUP reloads the policy; SIGTERM and SIGINT drain connections for up to 10 seconds and stop.";

#[derive(Debug, Args)]
#[command(after_help = CHECK_HELP)]
pub(crate) struct Check {
    /// Where the server decides by HTTP
    #[arg(
        long,
        value_name = "URL",
        env = "TIDEGATE_SERVER",
        hide_env_values = true,
        default_value = "http://127.0.0.1:8080"
    )]
    pub(crate) server: String,
    /// What the request says: `user=42`, `path=/api`, `header:x-api-key=k`, `cost=3`
    #[arg(value_name = "NAME=VALUE")]
    pub(crate) fields: Vec<String>,
    /// Only look: nothing is charged
    #[arg(long)]
    pub(crate) peek: bool,
    /// Certificates to trust for https, PEM; those of the system unless given
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<std::path::PathBuf>,
    /// How to tell it
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    pub(crate) format: OutputFormat,
}

const CHECK_HELP: &str = "\
Names: tenant, user, client, ip, plan, method, host, path, query, domain, header:<name>, query:<name>,
jwt:<claim>, descriptor:<name>, cost, trust.

Exit status: 0 allowed, 1 denied or no answer, 2 bad usage. With `--format json` the decision is printed
as the server says it, so that a script can tell a denial from a failure by whether there is one.";

#[derive(Debug, Args)]
pub(crate) struct Validate {
    /// Policies, YAML or JSON; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// How to tell what is wrong
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The policy; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: String,
    /// The request: JSON, a file that holds it, or `-` for standard input
    #[arg(long, value_name = "JSON|FILE|-", default_value = "{}")]
    pub(crate) request: String,
    /// First make the same request this many times at the same instant
    #[arg(long, value_name = "TIMES", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=10_000_000))]
    pub(crate) after: u32,
    /// When: milliseconds since the epoch; now unless given
    #[arg(long, value_name = "MS")]
    pub(crate) at_ms: Option<u64>,
    /// How to tell it
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
pub(crate) struct Simulate {
    /// The policy
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: String,
    /// The trace: one JSON request a line, with `at_ms`; `-` is standard input
    #[arg(long, value_name = "FILE|-")]
    pub(crate) trace: String,
    /// Where the decisions go, one a line; `-` is standard output
    #[arg(long, value_name = "FILE|-", default_value = "-")]
    pub(crate) out: String,
    /// How many keys can be told apart at once
    #[arg(long, value_name = "KEYS", default_value_t = 1_000_000)]
    pub(crate) max_keys: usize,
    /// Say nothing on standard error but what went wrong
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// What the file is
    #[arg(long, value_name = "FORMAT", value_parser = clap::builder::PossibleValuesParser::new(formats()))]
    pub(crate) from: String,
    /// The file; `-` is standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
}

fn formats() -> Vec<clap::builder::PossibleValue> {
    let value = |(name, _, about): &(&'static str, tidegate_import::ImportFormat, &'static str)| {
        clap::builder::PossibleValue::new(*name).help(*about)
    };
    tidegate_import::ImportFormat::NAMES.iter().map(value).collect()
}

//! The command line: subcommands, flags and their help texts.

pub(crate) mod audit;
mod backup;
mod demo;

pub(crate) use backup::{BackupArgs, RestoreArgs};
pub(crate) use demo::DemoArgs;

use clap::builder::Styles;
use clap::builder::styling::AnsiColor;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

/// The whole command line, for shell completions and the reference pages.
pub fn command() -> clap::Command {
    Cli::command()
}

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Exact rate limiting: validate, explain, simulate and enforce one policy.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, styles = STYLES, arg_required_else_help = true)]
#[command(after_help = "Exit status: 0 success, 1 failure at run time, 2 wrong usage or an invalid file.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Run the server
    Serve(Serve),
    /// Run a server with a policy, tenants and made-up clients, to see the console at work
    Demo(DemoArgs),
    /// Ask a running server for a decision
    Check(Check),
    /// Use the admin API of a running server: look at its policy, change it, and everything else that the API has
    Admin(super::admin::AdminArgs),
    /// Watch what a running server and its fleet decide now
    Top(super::admin::top::TopArgs),
    /// Check policy files and settings files, and print every problem in them
    Validate(Validate),
    /// Explain one decision: which limits apply, why the others do not, and the arithmetic
    Explain(Explain),
    /// Replay a trace of requests through the real engine in virtual time
    Simulate(Simulate),
    /// Convert the configuration of another rate limiter into a policy
    Import(Import),
    /// Read the events file of a server: denials, blocks, penalties and changes
    Events(EventsArgs),
    /// Verify the audit in the database, and erase what it says about a person
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// Make API keys of clients
    #[command(subcommand)]
    Key(KeyCommand),
    /// Make tokens of the admin API
    #[command(subcommand)]
    Token(TokenCommand),
    /// Write a copy of the database to a file, while servers use it
    Backup(BackupArgs),
    /// Replace everything in the database by a backup, while servers use it
    Restore(RestoreArgs),
    /// Print the JSON Schema of the policy document
    Schema,
    /// Print shell completions
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Plain text
    Text,
    /// JSON
    Json,
}

/// Where the database is.
#[derive(Debug, Args)]
pub(crate) struct DatabasePlace {
    /// Folder of the database, as in `tidegate serve --data DIR`
    #[arg(long, value_name = "DIR", env = "TIDEGATE_DATA", hide_env_values = true)]
    pub(crate) data: Option<std::path::PathBuf>,
    /// Settings file that names the database
    #[arg(long, value_name = "FILE", env = "TIDEGATE_CONFIG", hide_env_values = true)]
    pub(crate) config: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = SERVE_HELP)]
pub(crate) struct Serve {
    /// Settings file. Without it, all settings have their defaults
    #[arg(long, value_name = "FILE", env = "TIDEGATE_CONFIG", hide_env_values = true)]
    pub(crate) config: Option<String>,
    /// Policy file, reloaded when it changes. Without it, a small embedded policy is used
    #[arg(long, value_name = "FILE", env = "TIDEGATE_POLICY", hide_env_values = true)]
    pub(crate) policy: Option<String>,
    /// Folder for a database (SQLite) with the policy, its versions, tokens and records. It is made if there is none
    #[arg(long, value_name = "DIR", env = "TIDEGATE_DATA", hide_env_values = true)]
    pub(crate) data: Option<std::path::PathBuf>,
    /// Address of the HTTP listener, or `off`
    #[arg(long, value_name = "ADDRESS", env = "TIDEGATE_HTTP", hide_env_values = true)]
    pub(crate) http: Option<String>,
    /// Address of the gRPC listener for Envoy, or `off`
    #[arg(long, value_name = "ADDRESS", env = "TIDEGATE_GRPC", hide_env_values = true)]
    pub(crate) grpc: Option<String>,
    /// Address of the Redis protocol (RESP) listener, or `off`
    #[arg(long, value_name = "ADDRESS", env = "TIDEGATE_RESP", hide_env_values = true)]
    pub(crate) resp: Option<String>,
    /// Address of the admin listener for health and metrics, or `off`
    #[arg(long, value_name = "ADDRESS", env = "TIDEGATE_ADMIN", hide_env_values = true)]
    pub(crate) admin: Option<String>,
    /// Answer the admin API without TLS even where other machines reach it: tokens can then be read on the network
    #[arg(long)]
    pub(crate) admin_insecure: bool,
    /// Number of worker threads. Without it, one less than the number of cores
    #[arg(long, value_name = "COUNT", env = "TIDEGATE_WORKERS", hide_env_values = true, value_parser = clap::value_parser!(u16).range(1..=1_024))]
    pub(crate) workers: Option<u16>,
}

const SERVE_HELP: &str = "\
Flags override environment variables, and both override the settings file. There are no flags for secrets:
put them into the settings file, or set TIDEGATE_HTTP_TOKEN, TIDEGATE_RESP_PASSWORD, TIDEGATE_ADMIN_TOKEN,
TIDEGATE_REDIS_URL and TIDEGATE_DATABASE_URL.
TIDEGATE_KILL_SWITCH=allow admits every request.

SIGHUP reloads the policy. SIGTERM and SIGINT drain connections for up to 10 seconds, then stop the server.";

#[derive(Debug, Args)]
#[command(after_help = CHECK_HELP)]
pub(crate) struct Check {
    /// URL of the server's HTTP listener
    #[arg(
        long,
        value_name = "URL",
        env = "TIDEGATE_SERVER",
        hide_env_values = true,
        default_value = "http://127.0.0.1:8080"
    )]
    pub(crate) server: String,
    /// Fields of the request: `user=42`, `path=/api`, `header:x-api-key=k`, `cost=3`
    #[arg(value_name = "NAME=VALUE")]
    pub(crate) fields: Vec<String>,
    /// Only show what the decision would be, without charging any limit
    #[arg(long)]
    pub(crate) peek: bool,
    /// PEM file of certificates to trust for https. Without it, the system's certificates are trusted
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<std::path::PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    pub(crate) format: OutputFormat,
}

const CHECK_HELP: &str = "\
Names: tenant, user, client, ip, plan, upstream, method, host, path, query, domain, header:<name>, query:<name>,
jwt:<claim>, descriptor:<name>, priority, cost, trust.

Exit status: 0 allowed, 1 denied or no answer from the server, 2 wrong usage. With `--format json` the
server's decision is printed as it is. A script can tell a denial from a failure: a failure prints no JSON.";

#[derive(Debug, Args)]
pub(crate) struct Validate {
    /// Policy files and settings files, YAML or JSON; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// Policy file; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: String,
    /// The request: JSON text, a file with JSON, or `-` for standard input
    #[arg(long, value_name = "JSON|FILE|-", default_value = "{}")]
    pub(crate) request: String,
    /// Settings file of a server: the request is read as one that a trusted proxy passes on, and the output says who it
    /// is taken for by `identity` and `api_keys`, and its trust score by `trust`
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<String>,
    /// Make the same request this many times first, at the same instant
    #[arg(long, value_name = "TIMES", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=10_000_000))]
    pub(crate) after: u32,
    /// Time of the request in milliseconds since the Unix epoch. Without it, the current time
    #[arg(long, value_name = "MS")]
    pub(crate) at_ms: Option<u64>,
    /// Output format
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
pub(crate) struct Simulate {
    /// Policy file
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: String,
    /// Trace file: one JSON request per line, each with its time in `at_ms`, and if it has an `id`, the decision repeats it;
    /// `-` is standard input
    #[arg(long, value_name = "FILE|-")]
    pub(crate) trace: String,
    /// Settings file of a server: trust scores are computed by its `trust`, in the time of the trace, for requests that
    /// state no trust; and `jwt.invalid` says what happens to requests with `credential: invalid`
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<String>,
    /// Output file for the decisions, one JSON object per line; `-` is standard output
    #[arg(long, value_name = "FILE|-", default_value = "-")]
    pub(crate) out: String,
    /// How many keys can be tracked at once
    #[arg(long, value_name = "KEYS", default_value_t = 1_000_000)]
    pub(crate) max_keys: usize,
    /// Print only errors to standard error: no progress bar and no summary
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// Format of the file
    #[arg(long, value_name = "FORMAT", value_parser = clap::builder::PossibleValuesParser::new(formats()))]
    pub(crate) from: String,
    /// File to convert; `-` is standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
}

#[derive(Debug, Args)]
#[command(after_help = EVENTS_HELP)]
pub(crate) struct EventsArgs {
    /// Events file. Without it, the one that the settings file names
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<std::path::PathBuf>,
    /// Settings file that names the events file. Without it, `events.jsonl` is read
    #[arg(long, value_name = "FILE", env = "TIDEGATE_CONFIG", hide_env_values = true)]
    pub(crate) config: Option<String>,
    /// Go on with new events as they are written, until the command is stopped
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Only events with this name, such as `rate_limit_exceeded`
    #[arg(long, value_name = "NAME")]
    pub(crate) event: Option<String>,
    /// Only events of this user
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// Only events of this client
    #[arg(long, value_name = "CLIENT")]
    pub(crate) client: Option<String>,
    /// Only events of this address
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) ip: Option<std::net::IpAddr>,
    /// Only events of this tenant
    #[arg(long, value_name = "TENANT")]
    pub(crate) tenant: Option<String>,
    /// Only events of this limit or burst detector
    #[arg(long, value_name = "NAME")]
    pub(crate) limit: Option<String>,
    /// Only events that happened at this time or later
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only events that happened at this time or before
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// Output format; `json` prints the lines as they are in the file
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    pub(crate) format: OutputFormat,
}

const EVENTS_HELP: &str = "\
A time is written as 2027-01-01T00:00:00Z, or as a duration before now, such as 10m. Full files beside the events
file (events.jsonl.1 and so on) are read too, oldest first. The server writes repeated events every ten seconds.";

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a new API key: print it once, and add its hash to a file
    Create(KeyCreate),
}

#[derive(Debug, Args)]
#[command(after_help = KEY_CREATE_HELP)]
pub(crate) struct KeyCreate {
    /// File of API keys, as in `api_keys.file` of the settings. It is made if there is none
    #[arg(long, value_name = "FILE")]
    pub(crate) file: std::path::PathBuf,
    /// Client application that the key stands for
    #[arg(long, value_name = "NAME")]
    pub(crate) client: Option<String>,
    /// User that the key stands for
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Tenant that the key stands for
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// Plan of the holder
    #[arg(long, value_name = "NAME")]
    pub(crate) plan: Option<String>,
    /// When the key stops being valid: a duration from now such as `30d`, or a time such as `2027-01-01T00:00:00Z`
    #[arg(long, value_name = "TIME")]
    pub(crate) expires: Option<String>,
    /// Text for people who read the file
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
}

const KEY_CREATE_HELP: &str = "\
The key is printed to standard output, alone and only this once: the file has nothing but its hash, from which
nobody can compute the key. The rest of the file stays as it is, comments too. A running server notices the change
within a second.

  tidegate key create --file keys.yaml --client app-1 --tenant acme --plan pro --expires 90d

To withdraw a key, set `enabled: false` in its entry of the file, or remove the entry.";

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a new token of the admin API: print it once, and add its hash to the database
    Create(TokenCreate),
}

#[derive(Debug, Args)]
#[command(after_help = TOKEN_CREATE_HELP)]
pub(crate) struct TokenCreate {
    /// What the token may do; each role includes those before it
    #[arg(long, value_parser = ["viewer", "operator", "editor", "admin"])]
    pub(crate) role: String,
    /// Tenant to whose subtree the token is restricted. Without it, the token is for all tenants
    #[arg(long, value_name = "ID")]
    pub(crate) tenant: Option<String>,
    /// When the token stops being valid: a duration from now such as `30d`, or a time such as `2027-01-01T00:00:00Z`
    #[arg(long, value_name = "TIME")]
    pub(crate) expires: Option<String>,
    /// Text for people who read the list of tokens
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    #[command(flatten)]
    pub(crate) place: DatabasePlace,
}

const TOKEN_CREATE_HELP: &str = "\
The token is printed to standard output, alone and only this once: the database has nothing but its hash, from which
nobody can compute the token. The command works on the database itself; the server may run or not.

  tidegate token create --role editor --tenant acme --expires 90d --data /var/lib/tidegate

To revoke a token, send DELETE /api/v1/tokens/{id}; GET /api/v1/tokens lists them.";

fn formats() -> Vec<clap::builder::PossibleValue> {
    let value = |(name, _, about): &(&'static str, tidegate_import::ImportFormat, &'static str)| {
        clap::builder::PossibleValue::new(*name).help(*about)
    };
    tidegate_import::ImportFormat::NAMES.iter().map(value).collect()
}

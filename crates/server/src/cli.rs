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
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
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
pub(crate) enum Format {
    /// For people
    Text,
    /// For machines
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct Validate {
    /// Policies, YAML or JSON; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// How to tell what is wrong
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
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
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
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
    let value = |(name, _, about): &(&'static str, crate::import::Format, &'static str)| {
        clap::builder::PossibleValue::new(*name).help(*about)
    };
    crate::import::Format::NAMES.iter().map(value).collect()
}

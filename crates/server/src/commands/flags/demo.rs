//! The flags of `tidegate demo`.

use clap::Args;

use crate::commands::demo::USUAL_RATE;

#[derive(Debug, Args)]
#[command(after_help = DEMO_HELP)]
pub(crate) struct DemoArgs {
    /// Most decisions a second that its clients ask for. The policy is made for 300: with far fewer, hardly anybody is refused
    #[arg(long, value_name = "COUNT", default_value_t = USUAL_RATE, value_parser = clap::value_parser!(u32).range(1..=5_000))]
    pub(crate) rate: u32,
    /// End after this many seconds. Without it, the demo runs until it is stopped
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) seconds: Option<u32>,
    /// Folder for its database, which is kept at the end; it must not have one yet. Without it, a new folder that is removed
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<std::path::PathBuf>,
    /// Address of the HTTP listener, to which its clients send
    #[arg(long, value_name = "ADDRESS", env = "TIDEGATE_HTTP", hide_env_values = true)]
    pub(crate) http: Option<String>,
    /// Address of the gRPC listener for Envoy, or `off`
    #[arg(long, value_name = "ADDRESS", env = "TIDEGATE_GRPC", hide_env_values = true)]
    pub(crate) grpc: Option<String>,
    /// Address of the Redis protocol (RESP) listener, or `off`
    #[arg(long, value_name = "ADDRESS", env = "TIDEGATE_RESP", hide_env_values = true)]
    pub(crate) resp: Option<String>,
    /// Address of the admin listener, which has the console
    #[arg(long, value_name = "ADDRESS", env = "TIDEGATE_ADMIN", hide_env_values = true)]
    pub(crate) admin: Option<String>,
}

const DEMO_HELP: &str = "\
The server is the one of `tidegate serve`, on addresses that only this machine reaches, with a SQLite database. The demo is
its client: it publishes a policy with a tree of tenants, makes tokens, an override, a block and a candidate by the admin
API, and then sends requests to the HTTP listener. It prints the address of the console and the tokens to sign in with.
Settings files, policies and databases of other servers are neither read nor changed.

  tidegate demo
  tidegate demo --http 127.0.0.1:0 --grpc off --resp off --admin 127.0.0.1:0 --seconds 60

SIGTERM and SIGINT (Ctrl-C) end it. Only errors are logged; TIDEGATE_LOG=info shows more.";

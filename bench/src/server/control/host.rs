//! A Tidegate with a database, or without one to compare with.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::api_client::{ApiClient, ApiClientError};
use super::tenant_tree::{self, TenantChange, customer_id};
use crate::server::metrics::RecordUse;
use crate::server::process::{ServerProcess, free_address};
use crate::server::{ServerBenchError, programs};

/// The token of the admin API; the server listens on the loopback interface, and only while it is measured.
pub(super) const TOKEN: &str = "tidegate-bench-0123456789abcdefghijklmnop";

/// The server, and its addresses.
#[derive(Debug)]
pub(super) struct ControlHost {
    pub(super) server: ServerProcess,
    pub(super) http: SocketAddr,
    pub(super) admin: SocketAddr,
}

/// What a server runs with.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostOptions<'a> {
    /// The name of its files.
    pub(super) name: &'a str,
    /// A policy from a file, instead of from the database.
    pub(super) policy: Option<&'a str>,
    /// The database.
    pub(super) database: HostDatabase<'a>,
}

/// Which database.
#[derive(Clone, Copy, Debug)]
pub(super) enum HostDatabase<'a> {
    None,
    /// A new one.
    Sqlite,
    /// That of another server with this name.
    SqliteOf(&'a str),
    /// The one with this URL.
    Postgres(&'a str),
}

impl<'a> HostDatabase<'a> {
    /// The given PostgreSQL, or a new SQLite file.
    pub(super) fn of(postgres: Option<&'a str>) -> HostDatabase<'a> {
        postgres.map_or(HostDatabase::Sqlite, HostDatabase::Postgres)
    }
}

impl ControlHost {
    /// Starts a server with one worker.
    pub(super) fn start(program: &Path, options: HostOptions<'_>) -> Result<ControlHost, ServerBenchError> {
        ControlHost::start_with(program, options, "")
    }

    /// The same with more settings.
    pub(super) fn start_with(
        program: &Path,
        options: HostOptions<'_>,
        more: &str,
    ) -> Result<ControlHost, ServerBenchError> {
        let folder = programs::target()?;
        let file = |name: &str, end: &str| folder.join(format!("tidegate-bench-control-{name}{end}"));
        let write = |path: &Path, text: &str| std::fs::write(path, text).map_err(ServerBenchError::Policy);
        let url = match options.database {
            HostDatabase::None => None,
            HostDatabase::Sqlite => Some(new_sqlite(file(options.name, ""))?),
            HostDatabase::SqliteOf(other) => Some(sqlite_url(&file(other, ""))),
            HostDatabase::Postgres(url) => Some(url.to_owned()),
        };
        let database = url.map_or(String::new(), |url| format!("database: {{ url: {url:?} }}\n"));
        let settings = file(options.name, ".yaml");
        write(&settings, &format!("auth: {{ admin_token: {TOKEN} }}\n{database}{more}"))?;
        let mut command = Command::new(program);
        command.arg("serve").arg("--config").arg(settings);
        if let Some(text) = options.policy {
            let policy = file(options.name, "-policy.yaml");
            write(&policy, text)?;
            command.arg("--policy").arg(policy);
        }
        // A line for each change would hide the progress.
        command.env("TIDEGATE_LOG", "warn");
        command.args(["--workers", "1", "--grpc", "off", "--resp", "off"]);
        command.args(["--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
        let (server, found) = ServerProcess::start_and_read("tidegate", command, &["http", "admin"])?;
        Ok(ControlHost { server, http: found["http"], admin: found["admin"] })
    }

    /// The same, with the policy of many tenants in its database.
    pub(super) fn with_tenants(
        program: &Path,
        name: &str,
        postgres: Option<&str>,
    ) -> Result<ControlHost, ServerBenchError> {
        let database = HostDatabase::of(postgres);
        let host = ControlHost::start(program, HostOptions { name, policy: None, database })?;
        let text = tenant_tree::policy();
        host.admin_api()?.call("PUT", "/api/v1/policy", "application/yaml", &text)?;
        Ok(host)
    }

    /// What became of its records so far.
    pub(super) fn record_use(&self) -> Result<RecordUse, ServerBenchError> {
        let failed = |source| ServerBenchError::Metrics { host: "tidegate", source };
        RecordUse::read(self.admin).map_err(failed)
    }

    /// A client of its admin API.
    pub(super) fn admin_api(&self) -> Result<ApiClient, ApiClientError> {
        ApiClient::connect(self.admin, TOKEN)
    }

    /// A client for decisions.
    pub(super) fn decision_api(&self) -> Result<ApiClient, ApiClientError> {
        ApiClient::connect(self.http, TOKEN)
    }
}

/// A Redis without persistence, for the limits of servers.
#[derive(Debug)]
pub(super) struct StoreHost {
    pub(super) server: ServerProcess,
    address: SocketAddr,
}

impl StoreHost {
    pub(super) fn start() -> Result<StoreHost, ServerBenchError> {
        let address = free_address()?;
        let mut command = Command::new(programs::redis()?);
        command.args(["--save", "", "--appendonly", "no", "--bind", "127.0.0.1"]);
        command.args(["--port", &address.port().to_string()]);
        Ok(StoreHost { server: ServerProcess::start("redis-server", command, &[address])?, address })
    }

    /// The settings of a server that counts here. On a busy machine no call may be given up, since the server would then
    /// decide without the store.
    pub(super) fn settings(&self, mode: &str) -> String {
        let address = self.address;
        format!("store: {{ mode: {mode}, redis: {{ url: \"redis://{address}\", deadline: 1s }} }}\n")
    }
}

/// Changes a tenant; returns the number of the version.
pub(super) fn write_change(
    admin: &mut ApiClient,
    change: TenantChange,
) -> Result<Option<u64>, ApiClientError> {
    let path = format!("/api/v1/tenants/{}", customer_id(change.customer));
    let answer = admin.call("PATCH", &path, "application/merge-patch+json", &change.patch())?;
    Ok(answer["version"].as_u64())
}

/// An empty folder: what an earlier run has written would make the tables larger.
fn new_sqlite(folder: PathBuf) -> Result<String, ServerBenchError> {
    let _there_was_none = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(ServerBenchError::Policy)?;
    Ok(sqlite_url(&folder))
}

fn sqlite_url(folder: &Path) -> String {
    format!("sqlite:{}", folder.join("tidegate.db").display())
}

//! A PostgreSQL server that ends with the tests.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::{AssertSqlSafe, Connection, PgConnection};

/// A server on a port of its own. It ends, and its files are removed, when the process of the tests ends in any way: the
/// script then reads the end of its input.
struct PostgresServer {
    port: u16,
    _script: Child,
}

/// Makes the files in a new folder, starts the server, says so, and waits for the end of the input. The arguments are the
/// folder of PostgreSQL's programs and the port.
const SCRIPT: &str = r#"
trap '' INT TERM
folder=$(mktemp -d) && cd "$folder" || exit 1
"$0/initdb" -D data -U tidegate -A trust -E UTF8 --locale=C --no-sync >initdb.log 2>&1 || { cat initdb.log >&2; exit 1; }
options="-p $1 -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off -c max_connections=300"
"$0/pg_ctl" -D data -w -l server.log -o "$options" start >start.log 2>&1 </dev/null || { cat start.log server.log >&2; exit 1; }
echo ready
cat >/dev/null
"$0/pg_ctl" -D data -m immediate -w stop >/dev/null 2>&1
cd / && rm -rf "$folder"
"#;

impl PostgresServer {
    fn start() -> PostgresServer {
        let port =
            TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("its number").port();
        // PostgreSQL refuses to run as root.
        let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
        let mut command = if is_root {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--", "sh"]);
            command
        } else {
            Command::new("sh")
        };
        command.arg("-c").arg(SCRIPT).arg(programs()).arg(port.to_string()).current_dir("/");
        let mut script = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a shell");
        let mut line = String::new();
        BufReader::new(script.stdout.take().expect("a pipe")).read_line(&mut line).expect("text");
        assert_eq!(line, "ready\n", "PostgreSQL did not start; its messages are above");
        PostgresServer { port, _script: script }
    }
}

/// The folder with `initdb` and `pg_ctl`, which Debian does not put into PATH.
fn programs() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    folders.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
    let has_all = |folder: &&PathBuf| folder.join("initdb").exists() && folder.join("pg_ctl").exists();
    folders.iter().find(has_all).cloned().expect(
        "PostgreSQL is not installed; on Debian: apt-get install postgresql; elsewhere put initdb and pg_ctl into PATH",
    )
}

/// The URL of a new, empty database.
pub(crate) async fn new_database() -> String {
    static SERVER: OnceLock<PostgresServer> = OnceLock::new();
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let port = SERVER.get_or_init(PostgresServer::start).port;
    let name = format!("test_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let url = |name: &str| format!("postgres://tidegate@127.0.0.1:{port}/{name}");
    let mut connection = PgConnection::connect(&url("postgres")).await.expect("the server runs");
    let sql = AssertSqlSafe(format!("CREATE DATABASE {name}"));
    sqlx::raw_sql(sql).execute(&mut connection).await.expect("a new name");
    url(&name)
}

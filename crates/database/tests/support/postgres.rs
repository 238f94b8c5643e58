//! Starts PostgreSQL servers, for the tests of all crates. A server can be stopped and started again.
#![allow(dead_code, unreachable_pub, reason = "every test binary uses some of it")]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A server on a port of its own. It ends, and its files are removed, when this is dropped or the process of the tests
/// ends in any way: the script then reads the end of its input.
pub(crate) struct Postgres {
    port: u16,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    script: Child,
}

/// Makes the files in a new folder, then starts and stops the server as its input says. The arguments are the folder of
/// PostgreSQL's programs and the port.
const SCRIPT: &str = r#"
trap '' INT TERM
folder=$(mktemp -d) && cd "$folder" || exit 1
"$0/initdb" -D data -U tidegate -A trust -E UTF8 --locale=C --no-sync >initdb.log 2>&1 || { cat initdb.log >&2; exit 1; }
options="-p $1 -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off -c max_connections=300"
while read -r command; do
  case $command in
    start) "$0/pg_ctl" -D data -w -l server.log -o "$options" start >start.log 2>&1 </dev/null || cat start.log server.log >&2 ;;
    stop) "$0/pg_ctl" -D data -m immediate -w stop >/dev/null 2>&1 </dev/null ;;
  esac
  echo "$command done"
done
"$0/pg_ctl" -D data -m immediate -w stop >/dev/null 2>&1
cd / && rm -rf "$folder"
"#;

impl Postgres {
    pub(crate) fn start() -> Postgres {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.expect("a free port").port();
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
        let answers = BufReader::new(script.stdout.take().expect("a pipe"));
        let mut postgres = Postgres { port, commands: script.stdin.take(), answers, script };
        postgres.tell("start");
        postgres
    }

    /// The URL of a database on it; `postgres` is always there.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://tidegate@127.0.0.1:{}/{database}", self.port)
    }

    /// Stops it as a power failure does.
    pub(crate) fn stop(&mut self) {
        self.tell("stop");
    }

    pub(crate) fn start_again(&mut self) {
        self.tell("start");
    }

    fn tell(&mut self, command: &str) {
        let commands = self.commands.as_mut().expect("it is open until the end");
        writeln!(commands, "{command}").expect("the script reads");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("text");
        assert_eq!(line, format!("{command} done\n"), "PostgreSQL failed; its messages are above");
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        drop(self.commands.take());
        _ = self.script.wait();
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

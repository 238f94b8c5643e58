//! Where the server of `tidegate admin` is, and the token to send: from flags, the environment or a file.

use std::path::{Path, PathBuf};

use clap::ArgMatches;
use tidegate_document::DocumentNode;

use crate::commands::terminal::exit::CommandFailure;

/// The server and the token.
pub(super) struct AdminConnection {
    pub(super) server: String,
    pub(super) token: Option<String>,
    pub(super) ca: Option<PathBuf>,
}

const DEFAULT_SERVER: &str = "http://127.0.0.1:9090";
/// The longest file with a token.
const FILE_BYTES_MAX: u64 = 64 * 1_024;

impl AdminConnection {
    /// The connection that these arguments and the environment name. Flags override the environment, and both override
    /// the file.
    pub(super) fn find(matches: &ArgMatches) -> Result<AdminConnection, CommandFailure> {
        let given = |name: &str| matches.get_one::<String>(name).cloned().filter(|text| !text.is_empty());
        let file = connection_file(given("connection").map(PathBuf::from))?;
        let member = |name: &str| file.as_ref().and_then(|file| file.get(name)?.scalar().map(str::to_owned));
        let from_environment = std::env::var("TIDEGATE_ADMIN_TOKEN").ok().filter(|token| !token.is_empty());
        let token = match given("token-file") {
            Some(file) => Some(read(Path::new(&file))?.trim().to_owned()),
            None => from_environment.or_else(|| member("token")),
        };
        Ok(AdminConnection {
            server: given("server").or_else(|| member("server")).unwrap_or_else(|| DEFAULT_SERVER.to_owned()),
            token: token.filter(|token| !token.is_empty()),
            ca: given("ca").or_else(|| member("ca")).map(PathBuf::from),
        })
    }
}

/// The parsed connection file. One that is not named need not exist.
fn connection_file(named: Option<PathBuf>) -> Result<Option<DocumentNode>, CommandFailure> {
    let file = match named {
        Some(file) => file,
        None => match default_file().filter(|file| file.exists()) {
            Some(file) => file,
            None => return Ok(None),
        },
    };
    let text = read(&file)?;
    // The problem itself is not shown: it could quote the token.
    let wrong = || {
        let what =
            "is not a connection file; it has `server: URL`, `token: TOKEN` and `ca: FILE`, each optional";
        CommandFailure::Usage(format!("{} {what}", file.display()))
    };
    let parsed = tidegate_document::parse(&text).map_err(|_| wrong())?;
    let known = ["server", "token", "ca"];
    let is_right = parsed
        .entries()
        .iter()
        .all(|(name, value)| known.contains(&name.value.as_str()) && value.scalar().is_some());
    if is_right && !parsed.entries().is_empty() { Ok(Some(parsed)) } else { Err(wrong()) }
}

fn default_file() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")))?;
    Some(folder.join("tidegate").join("admin.yaml"))
}

fn read(file: &Path) -> Result<String, CommandFailure> {
    use std::io::Read;
    let mut text = String::new();
    let opened = std::fs::File::open(file);
    opened
        .and_then(|opened| opened.take(FILE_BYTES_MAX).read_to_string(&mut text))
        .map_err(|error| CommandFailure::Usage(format!("cannot read {}: {error}", file.display())))?;
    Ok(text)
}

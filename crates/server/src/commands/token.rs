//! `tidegate token create`: makes a token of the admin API, prints it once and adds its hash to the database.

use tidegate::Nanos;
use tidegate_database::{Database, DatabaseError, DatabaseOptions, UnixMillis};

use super::key::{expiry, member};
use super::serve::read_settings;
use super::{now, print};
use crate::commands::flags::TokenCreate;
use crate::commands::terminal::exit::{CommandFailure, print_stderr};
use crate::commands::terminal::paint::{Paint, Tone};
use crate::control::access::{CreateTokenError, TokenRequest, UnknownRole, create_token};
use crate::control::startup::unix_millis;
use crate::settings::DatabaseSettings;

/// Who has made the token, in the list and in the audit.
const ACTOR: &str = "command line";

pub(super) fn create(args: &TokenCreate) -> Result<(), CommandFailure> {
    let request = request(args, now())?;
    let settings = database(args)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CommandFailure::Running(error.to_string()))?;
    let created = runtime.block_on(async {
        let database = Database::open(&settings.url, DatabaseOptions::default()).await?;
        let created = create_token(&database, request).await;
        database.close().await;
        created
    });
    let created = created.map_err(|error| match error {
        CreateTokenError::Database(DatabaseError::Url(error)) => CommandFailure::Usage(error),
        error => CommandFailure::Running(error.to_string()),
    })?;
    print(&format!("{}\n", created.secret))?;
    let note = format!("added as {}; the token is shown only this once", created.id);
    print_stderr(format_args!("{}\n", Paint::stderr().tone(Tone::Faint, note)));
    Ok(())
}

fn request(args: &TokenCreate, now: Nanos) -> Result<TokenRequest, CommandFailure> {
    let text = |name, text: &Option<String>| {
        text.as_deref().map(|text| member(name, text).map(|(_, text)| text)).transpose()
    };
    let expires = args.expires.as_deref().map(|text| expiry(text, now)).transpose()?;
    Ok(TokenRequest {
        role: args.role.parse().map_err(|error: UnknownRole| CommandFailure::Usage(error.to_string()))?,
        tenant: text("tenant", &args.tenant)?,
        expires: expires.map(|at| UnixMillis::new(at.as_millisecond())),
        description: text("description", &args.description)?,
        actor: ACTOR.to_owned(),
        reason: None,
        now: unix_millis(now),
    })
}

/// The database that the flags or the settings name.
fn database(args: &TokenCreate) -> Result<DatabaseSettings, CommandFailure> {
    if let Some(folder) = args.data.as_deref().filter(|folder| !folder.as_os_str().is_empty()) {
        return Ok(DatabaseSettings::in_folder(folder));
    }
    if let Some(url) = std::env::var("TIDEGATE_DATABASE_URL").ok().filter(|url| !url.is_empty()) {
        return Ok(DatabaseSettings { url, cache: None, folder: None, retention: Default::default() });
    }
    let config = args.config.as_deref().filter(|file| !file.is_empty());
    let settings = config.map(read_settings).transpose()?;
    settings.and_then(|(settings, _)| settings.database).ok_or_else(|| {
        let why = "tokens are kept in a database: name it with --data DIR, or with --config FILE whose `database` says \
                   where it is";
        CommandFailure::Usage(why.to_owned())
    })
}

//! `tidegate token create`: makes a token of the admin API, prints it once and adds its hash to the database.

use tidegate::Nanos;
use tidegate_database::UnixMillis;

use super::database_place::{on_database, url};
use super::key::{expiry, member};
use super::{now, print};
use crate::commands::flags::TokenCreate;
use crate::commands::terminal::exit::{CommandFailure, print_stderr};
use crate::commands::terminal::paint::{Paint, Tone};
use crate::control::access::{TokenRequest, UnknownRole, create_token};
use crate::control::startup::unix_millis;

/// Who has made the token, in the list and in the audit.
const ACTOR: &str = "command line";

pub(super) fn create(args: &TokenCreate) -> Result<(), CommandFailure> {
    let request = request(args, now())?;
    let created = on_database(&url(&args.place)?, async |database| create_token(database, request).await)?;
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

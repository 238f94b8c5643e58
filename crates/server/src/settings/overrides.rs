//! Flags and environment variables, which override the settings file.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::{DatabaseSettings, Listener, Retention, Settings};

/// The values of flags and environment variables. Where both are set, clap has already chosen the flag.
#[derive(Clone, Default)]
pub(crate) struct FlagsAndEnvironment {
    /// Addresses or `off`, in the order of [`Listener::ALL`].
    pub(crate) listen: [Option<String>; 4],
    pub(crate) policy: Option<PathBuf>,
    pub(crate) workers: Option<usize>,
    pub(crate) http_token: Option<String>,
    pub(crate) resp_password: Option<String>,
    pub(crate) redis_url: Option<String>,
    /// A folder with a database of its own.
    pub(crate) data: Option<PathBuf>,
    pub(crate) database_url: Option<String>,
    pub(crate) admin_token: Option<String>,
    pub(crate) admin_insecure: bool,
}

/// The fewest characters of the admin token.
const ADMIN_TOKEN_MIN: usize = 20;

/// Why settings cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SettingsError {
    /// The value for a listener is not an address.
    #[error(
        "--{} (or TIDEGATE_{}): `{saw}` is not an address; write it as 127.0.0.1:8080 or [::1]:8080, or `off`",
        .listener.name(), .listener.name().to_uppercase()
    )]
    Address {
        /// The listener.
        listener: Listener,
        /// The value.
        saw: String,
    },
    /// The admin token could be guessed.
    #[error(
        "`auth.admin_token` (or TIDEGATE_ADMIN_TOKEN) must have at least {ADMIN_TOKEN_MIN} characters, so that nobody \
         guesses it; `openssl rand -base64 32` makes one"
    )]
    ShortAdminToken,
    /// The RESP listener would be open to other machines without a password.
    #[error(
        "the RESP listener on {address} can be reached from other machines and has no password; set \
         `auth.resp_password` in the settings or TIDEGATE_RESP_PASSWORD, or listen on 127.0.0.1"
    )]
    OpenResp {
        /// Its address.
        address: SocketAddr,
    },
    /// All listeners are off.
    #[error(
        "every listener is off: there is nothing to serve; turn on at least one of http, grpc, resp and admin"
    )]
    NothingToServe,
    /// The kill switch has an unknown value.
    #[error("TIDEGATE_KILL_SWITCH is `{saw}`; set it to `allow` to admit every request, or unset it")]
    KillSwitch {
        /// The value.
        saw: String,
    },
}

impl Settings {
    /// These settings with flags and environment variables applied.
    ///
    /// # Errors
    /// When a value is invalid, or the settings contradict each other.
    pub(crate) fn with(mut self, overrides: FlagsAndEnvironment) -> Result<Settings, SettingsError> {
        for (listener, value) in Listener::ALL.into_iter().zip(overrides.listen) {
            let Some(saw) = value.filter(|value| !value.is_empty()) else { continue };
            self.listen[listener as usize] = match saw.as_str() {
                "off" => None,
                address => {
                    Some(address.parse().map_err(|_| SettingsError::Address { listener, saw: saw.clone() })?)
                }
            };
        }
        let filled = |text: &String| !text.is_empty();
        self.policy = overrides.policy.filter(|path| !path.as_os_str().is_empty()).or(self.policy);
        self.workers = overrides.workers.or(self.workers);
        self.http_token = overrides.http_token.filter(filled).or(self.http_token);
        self.resp_password = overrides.resp_password.filter(filled).or(self.resp_password);
        if let (Some(shared), Some(url)) = (&mut self.shared, overrides.redis_url.filter(filled)) {
            shared.url = url;
        }
        self.admin_token = overrides.admin_token.filter(filled).or(self.admin_token);
        self.admin_insecure |= overrides.admin_insecure;
        if let Some(url) = overrides.database_url.filter(filled) {
            self.database = Some(match self.database {
                Some(database) => DatabaseSettings { url, folder: None, ..database },
                None => DatabaseSettings { url, cache: None, folder: None, retention: Retention::default() },
            });
        }
        if let Some(folder) = overrides.data.filter(|folder| !folder.as_os_str().is_empty()) {
            let retention = self.database.map(|database| database.retention).unwrap_or_default();
            self.database = Some(DatabaseSettings { retention, ..DatabaseSettings::in_folder(&folder) });
        }
        self.check()?;
        Ok(self)
    }

    fn check(&self) -> Result<(), SettingsError> {
        if self.listen.iter().all(Option::is_none) {
            return Err(SettingsError::NothingToServe);
        }
        if self.admin_token.as_ref().is_some_and(|token| token.chars().count() < ADMIN_TOKEN_MIN) {
            return Err(SettingsError::ShortAdminToken);
        }
        match self.address(Listener::Resp) {
            Some(address) if !address.ip().to_canonical().is_loopback() && self.resp_password.is_none() => {
                Err(SettingsError::OpenResp { address })
            }
            _ => Ok(()),
        }
    }
}

/// Whether this value of `TIDEGATE_KILL_SWITCH` admits every request.
///
/// # Errors
/// When it is neither unset nor empty nor `allow`.
pub(crate) fn kill_switch_from(set: Option<&str>) -> Result<bool, SettingsError> {
    match set {
        None | Some("") => Ok(false),
        Some("allow") => Ok(true),
        Some(saw) => Err(SettingsError::KillSwitch { saw: saw.to_owned() }),
    }
}

//! What flags and the environment say, on top of the file.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::{Listener, Settings};

/// What was said beside the file. A flag has beaten the environment already.
#[derive(Clone, Default)]
pub(crate) struct FlagsAndEnvironment {
    /// Addresses or `off`, in the order of [`Listener::ALL`].
    pub(crate) listen: [Option<String>; 4],
    pub(crate) policy: Option<PathBuf>,
    pub(crate) workers: Option<usize>,
    pub(crate) http_token: Option<String>,
    pub(crate) resp_password: Option<String>,
    pub(crate) redis_url: Option<String>,
}

/// Why settings cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SettingsError {
    /// What was given for a listener is no address.
    #[error(
        "--{} (or TIDEGATE_{}): `{saw}` is not an address; write it as 127.0.0.1:8080 or [::1]:8080, or `off`",
        .listener.name(), .listener.name().to_uppercase()
    )]
    Address {
        /// Whose.
        listener: Listener,
        /// What was given.
        saw: String,
    },
    /// Anyone could use the RESP listener.
    #[error(
        "resp would listen on {address}, which other machines reach, without a password; set \
         `auth.resp_password` in the settings or TIDEGATE_RESP_PASSWORD, or listen on 127.0.0.1"
    )]
    OpenResp {
        /// Where.
        address: SocketAddr,
    },
    /// There would be nothing to do.
    #[error("every listener is off: there is nothing to serve")]
    NothingToServe,
    /// The kill switch knows one word.
    #[error("TIDEGATE_KILL_SWITCH is `{saw}`; it takes `allow`, or must not be set")]
    KillSwitch {
        /// What it was.
        saw: String,
    },
}

impl Settings {
    /// With what was given beside the file.
    ///
    /// # Errors
    /// When something given makes no sense, or all of it together does not.
    pub(crate) fn with(mut self, given: FlagsAndEnvironment) -> Result<Settings, SettingsError> {
        for (listener, said) in Listener::ALL.into_iter().zip(given.listen) {
            let Some(saw) = said.filter(|said| !said.is_empty()) else { continue };
            self.listen[listener as usize] = match saw.as_str() {
                "off" => None,
                address => {
                    Some(address.parse().map_err(|_| SettingsError::Address { listener, saw: saw.clone() })?)
                }
            };
        }
        let filled = |text: &String| !text.is_empty();
        self.policy = given.policy.filter(|path| !path.as_os_str().is_empty()).or(self.policy);
        self.workers = given.workers.or(self.workers);
        self.http_token = given.http_token.filter(filled).or(self.http_token);
        self.resp_password = given.resp_password.filter(filled).or(self.resp_password);
        if let (Some(shared), Some(url)) = (&mut self.shared, given.redis_url.filter(filled)) {
            shared.url = url;
        }
        self.check()?;
        Ok(self)
    }

    fn check(&self) -> Result<(), SettingsError> {
        if self.listen.iter().all(Option::is_none) {
            return Err(SettingsError::NothingToServe);
        }
        match self.address(Listener::Resp) {
            Some(address) if !address.ip().to_canonical().is_loopback() && self.resp_password.is_none() => {
                Err(SettingsError::OpenResp { address })
            }
            _ => Ok(()),
        }
    }
}

/// Does `TIDEGATE_KILL_SWITCH`, as it is in the environment, admit everything?
///
/// # Errors
/// When it is set to something that it does not know.
pub(crate) fn kill_switch_from(set: Option<&str>) -> Result<bool, SettingsError> {
    match set {
        None | Some("") => Ok(false),
        Some("allow") => Ok(true),
        Some(saw) => Err(SettingsError::KillSwitch { saw: saw.to_owned() }),
    }
}

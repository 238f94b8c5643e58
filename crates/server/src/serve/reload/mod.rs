//! Files that are read again when they change, or when somebody asks: the policy, the certificate, the keys.

pub(crate) mod policy_file;
pub(crate) mod watch;

use std::path::PathBuf;
use std::sync::Arc;

use tidegate::Clock;
use tokio::time::sleep;

use super::clock_watch::ClockWatch;
use super::listen::tls::Tls;
use crate::bounds::WATCH_INTERVAL;
use crate::node::Node;
use crate::node::lifecycle::ReloadedPart;
use crate::settings::JwtKey;
use watch::WatchedFiles;

/// Everything that is read again.
#[derive(Debug)]
pub(crate) struct Reload {
    node: Arc<Node>,
    policy: Option<PolicyFile>,
    tls: Option<(WatchedFiles, Arc<Tls>)>,
    jwks: Option<WatchedFiles>,
    clock: ClockWatch,
}

/// The policy's file, and what is in force of it.
#[derive(Debug)]
pub(crate) struct PolicyFile {
    pub(crate) path: PathBuf,
    pub(crate) watched: WatchedFiles,
    /// The text in force.
    pub(crate) text: String,
}

impl Reload {
    pub(crate) fn new(
        node: Arc<Node>,
        policy: Option<PolicyFile>,
        tls: Option<(WatchedFiles, Arc<Tls>)>,
        jwks: Option<WatchedFiles>,
    ) -> Reload {
        Reload { node, policy, tls, jwks, clock: ClockWatch::default() }
    }

    /// The file with the keys for tokens, if there is one, as it looks now.
    pub(crate) fn watch_jwks(jwt: Option<&crate::settings::Jwt>) -> Option<WatchedFiles> {
        match &jwt?.key {
            JwtKey::Jwks(file) => Some(WatchedFiles::new(vec![file.clone()])),
            JwtKey::Key { .. } => None,
        }
    }

    /// Watches, on a thread of its own: a large policy takes a while to read. It ends with the process.
    pub(crate) fn start(mut self) -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut asked = {
            // From here on the signal does not end the process.
            let _context = runtime.enter();
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())?
        };
        std::thread::Builder::new().name("reload".into()).spawn(move || {
            runtime.block_on(async move {
                loop {
                    tokio::select! {
                        Some(()) = asked.recv() => self.all(),
                        () = sleep(WATCH_INTERVAL) => self.changed(),
                    }
                }
            });
        })?;
        Ok(())
    }

    /// Reads what has changed, and looks at the clock.
    fn changed(&mut self) {
        self.clock.look(&self.node);
        if self.policy.as_mut().is_some_and(|policy| policy.watched.changed()) {
            self.read_policy(false);
        }
        if self.tls.as_mut().is_some_and(|(watched, _)| watched.changed()) {
            self.read_tls();
        }
        if self.jwks.as_mut().is_some_and(WatchedFiles::changed) {
            self.read_jwks();
        }
    }

    /// Reads everything.
    fn all(&mut self) {
        match &mut self.policy {
            None => tracing::info!("asked to reload; the embedded policy has no file to reload from"),
            Some(policy) => {
                policy.watched.now();
                self.read_policy(true);
            }
        }
        if let Some((watched, _)) = &mut self.tls {
            watched.now();
            self.read_tls();
        }
        if let Some(watched) = &mut self.jwks {
            watched.now();
            self.read_jwks();
        }
    }

    fn read_policy(&mut self, asked: bool) {
        let Some(policy) = &mut self.policy else { return };
        let (node, file) = (&self.node, policy.path.display().to_string());
        let read = policy.watched.are_files().and_then(|()| {
            policy_file::read(&policy.path).map_err(|error| format!("cannot read {file}: {error}"))
        });
        let swapped = read.and_then(|text| {
            if text == policy.text && !asked {
                return Ok(None);
            }
            let now = node.clock().wall();
            let compiled = policy_file::compile(&text, node.settings(), now);
            let (rules, warnings) = compiled.map_err(|problems| policy_file::in_a_line(&file, &problems))?;
            let limits = rules.rules().len();
            let version = node.limiter().swap(rules).map_err(|error| format!("{file}: {error}"))?;
            policy.text = text;
            Ok(Some((version, limits, warnings)))
        });
        match swapped {
            Ok(swapped) => {
                node.lifecycle().set_problem(ReloadedPart::Policy, None);
                let Some((version, limits, warnings)) = swapped else { return };
                node.metrics().policy_reloaded();
                tracing::info!(file, version, limits, "the policy is in force");
                if !warnings.is_empty() {
                    let warnings = policy_file::in_a_line(&file, &warnings);
                    tracing::warn!(version, warnings, "the policy has warnings");
                }
            }
            Err(problem) => {
                node.metrics().reload_failed(ReloadedPart::Policy);
                let version = node.limiter().version();
                node.lifecycle().set_problem(ReloadedPart::Policy, Some(problem.clone()));
                tracing::error!(
                    version,
                    problem,
                    "the policy is not reloaded; the version before stays in force"
                );
            }
        }
    }

    fn read_tls(&mut self) {
        let Some((watched, tls)) = &self.tls else { return };
        let read = watched.are_files().and_then(|()| tls.reload().map_err(|error| error.to_string()));
        self.tell(ReloadedPart::Tls, read);
    }

    fn read_jwks(&mut self) {
        let Some(watched) = &self.jwks else { return };
        let reload = || self.node.identity().reload().map_err(|error| error.to_string());
        let read = watched.are_files().and_then(|()| reload());
        self.tell(ReloadedPart::Jwks, read);
    }

    fn tell(&self, concern: ReloadedPart, read: Result<(), String>) {
        match &read {
            Ok(()) => tracing::info!(what = concern.as_str(), "reloaded"),
            Err(problem) => {
                self.node.metrics().reload_failed(concern);
                tracing::error!(
                    what = concern.as_str(),
                    problem,
                    "not reloaded; what was there before stays"
                );
            }
        }
        self.node.lifecycle().set_problem(concern, read.err());
    }
}

#[cfg(test)]
mod tests;

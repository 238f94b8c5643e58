//! Reads files again when they change or on SIGHUP: the policy, the TLS certificate, the JWT keys, the API keys, the
//! trust file, the keys of the identity provider. A file that is invalid changes nothing: the last good version stays
//! in force, and the problem is logged, counted and shown by `/readyz`.

pub(crate) mod policy_file;
pub(crate) mod watch;

use std::path::PathBuf;
use std::sync::Arc;

use tidegate::Clock;
use tokio::time::sleep;

use super::clock_watch::ClockWatch;
use super::listen::tls::Tls;
use crate::bounds::WATCH_INTERVAL;
use crate::control::{PolicySource, RunningPolicy};
use crate::node::Node;
use crate::node::lifecycle::ReloadedPart;
use crate::settings::JwtKey;
use crate::trust_file;
use watch::WatchedFiles;

/// All files that are reloaded.
#[derive(Debug)]
pub(crate) struct Reload {
    node: Arc<Node>,
    policy: Option<PolicyFile>,
    tls: Option<(WatchedFiles, Arc<Tls>)>,
    jwks: Option<WatchedFiles>,
    api_keys: Option<WatchedFiles>,
    trust: Option<(WatchedFiles, PathBuf)>,
    oidc: Option<WatchedFiles>,
    clock: ClockWatch,
}

/// The policy file, and the text of it that is in force.
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
        (jwks, api_keys): (Option<WatchedFiles>, Option<WatchedFiles>),
    ) -> Reload {
        Reload { node, policy, tls, jwks, api_keys, trust: None, oidc: None, clock: ClockWatch::default() }
    }

    /// Watches the trust file, too.
    #[must_use]
    pub(crate) fn watching_trust(self, trust: Option<(WatchedFiles, PathBuf)>) -> Reload {
        Reload { trust, ..self }
    }

    /// Watches the keys of the identity provider, too.
    #[must_use]
    pub(crate) fn watching_oidc(self, oidc: Option<WatchedFiles>) -> Reload {
        Reload { oidc, ..self }
    }

    /// Watches the trust file, if the settings name one.
    pub(crate) fn watch_trust(
        trust: Option<&crate::settings::TrustSettings>,
    ) -> Option<(WatchedFiles, PathBuf)> {
        let file = trust?.file.clone()?;
        Some((WatchedFiles::new(vec![file.clone()]), file))
    }

    /// Watches the file with the JWT keys, if the settings name one.
    pub(crate) fn watch_jwks(jwt: Option<&crate::settings::Jwt>) -> Option<WatchedFiles> {
        match &jwt?.key {
            JwtKey::Jwks(file) => Some(WatchedFiles::new(vec![file.clone()])),
            JwtKey::Key { .. } => None,
        }
    }

    /// Watches the file with the API keys, if the settings name one.
    pub(crate) fn watch_api_keys(keys: Option<&crate::settings::ApiKeySettings>) -> Option<WatchedFiles> {
        keys.map(|keys| WatchedFiles::new(vec![keys.file.clone()]))
    }

    /// Starts watching, on a thread of its own because a large policy takes a while to read. It ends with the process.
    pub(crate) fn start(mut self) -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut hangup = {
            // From here on SIGHUP does not end the process.
            let _context = runtime.enter();
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())?
        };
        std::thread::Builder::new().name("reload".into()).spawn(move || {
            runtime.block_on(async move {
                loop {
                    tokio::select! {
                        Some(()) = hangup.recv() => self.reload_all(),
                        () = sleep(WATCH_INTERVAL) => self.reload_changed(),
                    }
                }
            });
        })?;
        Ok(())
    }

    /// Reads the files that have changed, checks the clock and whether the policy limits what comes, and reports the
    /// penalties that no request reports.
    fn reload_changed(&mut self) {
        self.node.limiter().report_late_bursts();
        self.clock.check(&self.node);
        self.node.coverage().check(&self.node);
        if self.policy.as_mut().is_some_and(|policy| policy.watched.changed()) {
            self.read_policy(false);
        }
        if self.tls.as_mut().is_some_and(|(watched, _)| watched.changed()) {
            self.read_tls();
        }
        if self.jwks.as_mut().is_some_and(WatchedFiles::changed) {
            self.read_jwks();
        }
        if self.api_keys.as_mut().is_some_and(WatchedFiles::changed) {
            self.read_api_keys();
        }
        if self.trust.as_mut().is_some_and(|(watched, _)| watched.changed()) {
            self.read_trust();
        }
        if self.oidc.as_mut().is_some_and(WatchedFiles::changed) {
            self.read_oidc();
        }
    }

    /// Reads all files, changed or not.
    fn reload_all(&mut self) {
        match &mut self.policy {
            None => tracing::info!("SIGHUP: the embedded policy has no file to reload"),
            Some(policy) => {
                policy.watched.mark_read();
                self.read_policy(true);
            }
        }
        if let Some((watched, _)) = &mut self.tls {
            watched.mark_read();
            self.read_tls();
        }
        if let Some(watched) = &mut self.jwks {
            watched.mark_read();
            self.read_jwks();
        }
        if let Some(watched) = &mut self.api_keys {
            watched.mark_read();
            self.read_api_keys();
        }
        if let Some((watched, _)) = &mut self.trust {
            watched.mark_read();
            self.read_trust();
        }
        if let Some(watched) = &mut self.oidc {
            watched.mark_read();
            self.read_oidc();
        }
    }

    fn read_policy(&mut self, is_forced: bool) {
        let Some(policy) = &mut self.policy else { return };
        let (node, file) = (&self.node, policy.path.display().to_string());
        let read = policy.watched.check_regular_files().and_then(|()| {
            policy_file::read(&policy.path).map_err(|error| format!("cannot read {file}: {error}"))
        });
        let swapped = read.and_then(|text| {
            if text == policy.text && !is_forced {
                return Ok(None);
            }
            let now = node.clock().wall();
            let compiled = policy_file::compile(&text, node.settings(), now);
            let (rules, warnings) =
                compiled.map_err(|problems| policy_file::on_one_line(&file, &problems))?;
            let limits = rules.rules().len();
            let version = node.swap_policy(rules, None).map_err(|error| format!("{file}: {error}"))?;
            if let Some(control) = node.control() {
                let source = PolicySource::File(policy.path.clone());
                control.set_running(RunningPolicy {
                    source,
                    text: text.as_str().into(),
                    version,
                    since: now,
                });
            }
            policy.text = text;
            Ok(Some((version, limits, warnings)))
        });
        match swapped {
            Ok(swapped) => {
                node.lifecycle().set_problem(ReloadedPart::Policy, None);
                let Some((version, limits, warnings)) = swapped else { return };
                node.metrics().policy_reloaded();
                tracing::info!(file, version, limits, "policy reloaded");
                if !warnings.is_empty() {
                    let warnings = policy_file::on_one_line(&file, &warnings);
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
                    "the policy was not reloaded; the previous version stays in force"
                );
            }
        }
    }

    fn read_tls(&mut self) {
        let Some((watched, tls)) = &self.tls else { return };
        let read =
            watched.check_regular_files().and_then(|()| tls.reload().map_err(|error| error.to_string()));
        self.report(ReloadedPart::Tls, read);
    }

    fn read_jwks(&mut self) {
        let Some(watched) = &self.jwks else { return };
        let reload = || self.node.identity().reload().map_err(|error| error.to_string());
        let read = watched.check_regular_files().and_then(|()| reload());
        self.report(ReloadedPart::Jwks, read);
    }

    fn read_api_keys(&mut self) {
        let Some(watched) = &self.api_keys else { return };
        let reload = || self.node.identity().reload_api_keys().map_err(|error| error.to_string());
        let read = watched.check_regular_files().and_then(|()| reload());
        self.report(ReloadedPart::ApiKeys, read);
    }

    fn read_trust(&mut self) {
        let (Some((watched, file)), Some(book)) = (&self.trust, self.node.limiter().trust_book()) else {
            return;
        };
        let read = watched.check_regular_files().and_then(|()| trust_file::read(file));
        self.report(ReloadedPart::Trust, read.map(|accounts| book.replace_listed(accounts)));
    }

    fn read_oidc(&mut self) {
        let (Some(watched), Some(control)) = (&self.oidc, self.node.control()) else { return };
        let Some(oidc) = control.access().oidc() else { return };
        let reload = || oidc.reload().map_err(|error| error.to_string());
        let read = watched.check_regular_files().and_then(|()| reload());
        self.report(ReloadedPart::Oidc, read);
    }

    /// The state is set before the line is logged, so that a program that waits for the line sees the state.
    fn report(&self, concern: ReloadedPart, read: Result<(), String>) {
        self.node.lifecycle().set_problem(concern, read.as_ref().err().cloned());
        match &read {
            Ok(()) => tracing::info!(what = concern.as_str(), "reloaded"),
            Err(problem) => {
                self.node.metrics().reload_failed(concern);
                tracing::error!(
                    what = concern.as_str(),
                    problem,
                    "not reloaded; the previous version stays in force"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! Parses the settings file into [`Settings`], or returns every problem in it.

use std::path::{Path, PathBuf};

use tidegate::engine::InvalidCredentials;
use tidegate_document::{DocumentNode, Problem, Span, ValueKind, value};
use tidegate_proxies::ForwardedSource;

use super::table::SETTINGS;
use super::{Jwt, JwtKey, Listener, LogFormat, ReadinessRule, Settings, TlsFiles, masked};
use crate::observe::is_endpoint;

/// Parses settings. Paths in them are relative to `home`.
///
/// # Errors
/// Returns every problem, warnings included, if at least one is an error.
pub(crate) fn read(text: &str, home: &Path) -> Result<(Settings, Vec<Problem>), Vec<Problem>> {
    let (node, problems) = tidegate_document::read(text, &SETTINGS);
    let mut reader = Reader { home, problems };
    let mut settings = Settings::default();
    if let Some(node) = &node {
        reader.settings(node, &mut settings);
    }
    let mut problems = reader.problems;
    for problem in &mut problems {
        // In YAML, `name:value` without a space is one name, and its value may be a secret: cut it off the path.
        problem.path.truncate(problem.path.find(':').unwrap_or(problem.path.len()));
    }
    let masked = masked(text);
    problems.iter_mut().for_each(|problem| hide_secrets(problem, text, &masked));
    tidegate_document::complete(&mut problems, &masked);
    if problems.iter().any(Problem::is_error) { Err(problems) } else { Ok((settings, problems)) }
}

/// Is a document one of settings rather than a policy? It has a field of the settings, and lacks the two that every
/// policy has.
pub(crate) fn is_settings(text: &str) -> bool {
    let (node, _) = tidegate_document::parse_partly(text);
    node.is_some_and(|node| {
        let has = |name: &str| node.get(name).is_some();
        !has("version") && !has("limits") && SETTINGS.fields().any(|field| has(field.name))
    })
}

/// Removes from a problem what quotes a value that [`masked`] hides: the value may be a secret in the wrong place, such as
/// a URL with a password where a map is wanted, or a key where its algorithm is wanted.
fn hide_secrets(problem: &mut Problem, text: &str, masked: &str) {
    if at(problem, text) == at(problem, masked) {
        return;
    }
    // A message quotes text in quotes and a number as it is; "text" or "a list" only says what kind of value it is.
    let quotes_number =
        problem.saw.contains(|c: char| c.is_ascii_digit()) && problem.message.contains(&problem.saw);
    if problem.message.contains('"') || quotes_number {
        problem.message = "this value is not valid".to_owned();
    }
    problem.saw = "a value that is not shown here".to_owned();
    problem.hint = None;
}

/// The text at the position of a problem.
fn at(problem: &Problem, text: &str) -> String {
    let Span { line, column, length } = problem.at;
    let line = text.lines().nth((line as usize).saturating_sub(1)).unwrap_or_default();
    line.chars().skip((column as usize).saturating_sub(1)).take(length as usize).collect()
}

pub(super) struct Reader<'a> {
    pub(super) home: &'a Path,
    pub(super) problems: Vec<Problem>,
}

impl Reader<'_> {
    fn settings(&mut self, root: &DocumentNode, settings: &mut Settings) {
        for listener in Listener::ALL {
            let given = root.get("listen").and_then(|listen| listen.get(listener.name()));
            if let Some(address) = given.and_then(|node| value::listen(node).ok()) {
                settings.listen[listener as usize] = address;
            }
        }
        settings.policy = root.get("policy").and_then(|policy| self.path(policy, "file"));
        settings.database = root.get("database").and_then(|database| self.database(database));
        self.store(root, settings);
        if let Some(list) = root.get("trusted_proxies") {
            settings.trusted_proxies =
                list.items().iter().filter_map(|node| value::cidr(node).ok()).collect();
        }
        settings.forwarded = match text(root, "forwarded").as_deref() {
            Some("forwarded") => ForwardedSource::Forwarded,
            Some("peer") => ForwardedSource::Peer,
            _ => ForwardedSource::XForwardedFor,
        };
        settings.tls = root
            .get("tls")
            .and_then(|tls| Some(TlsFiles { cert: self.path(tls, "cert")?, key: self.path(tls, "key")? }));
        if let Some(hosts) = root.get("admin").and_then(|admin| admin.get("hosts")) {
            settings.admin_hosts = self.hosts(hosts);
        }
        settings.console_link = root.get("admin").and_then(|admin| self.console_link(admin));
        settings.tenant_metrics = root.get("metrics").is_some_and(|metrics| flag(metrics, "tenants"));
        settings.readiness = match text(root, "readiness").as_deref() {
            Some("strict") => ReadinessRule::Strict,
            _ => ReadinessRule::Lenient,
        };
        let auth = |name| root.get("auth").and_then(|auth| text(auth, name));
        (settings.http_token, settings.resp_password) = (auth("http_token"), auth("resp_password"));
        settings.admin_token = auth("admin_token");
        settings.oidc = root.get("auth").and_then(|auth| auth.get("oidc")).and_then(|oidc| self.oidc(oidc));
        settings.jwt = root.get("jwt").and_then(|jwt| self.jwt(jwt));
        self.identity(root, settings);
        self.trust(root, settings);
        let format = root.get("log").and_then(|log| text(log, "format"));
        settings.log = if format.as_deref() == Some("json") { LogFormat::Json } else { LogFormat::Text };
        settings.otlp = root.get("otlp").and_then(|otlp| self.endpoint(otlp));
        settings.events = root.get("events").map(|events| self.events(events));
        settings.workers = integer(root, "workers").and_then(|workers| usize::try_from(workers).ok());
    }

    fn jwt(&mut self, node: &DocumentNode) -> Option<Jwt> {
        let (jwks, key, algorithm) = (self.path(node, "jwks"), text(node, "key"), text(node, "algorithm"));
        let wrong = |message: &str, hint: &str| {
            Some(
                Problem::error(node.at, "jwt", message)
                    .saw("`jwt`")
                    .want("`jwks`, or `key` with `algorithm`")
                    .hint(hint),
            )
        };
        let problem = match (&jwks, &key, &algorithm) {
            (Some(_), None, None) | (None, Some(_), Some(_)) => None,
            // A field with an invalid value is already reported.
            _ if ["jwks", "key", "algorithm"]
                .iter()
                .any(|name| node.get(name).is_some_and(|n| n.scalar().is_none())) =>
            {
                None
            }
            (Some(_), Some(_), _) => wrong("`jwks` and `key` are both set", "remove one of the two"),
            (Some(_), None, Some(_)) => wrong(
                "`algorithm` is set together with `jwks`",
                "remove it: keys in a JWKS name their algorithm",
            ),
            (None, Some(_), None) => {
                wrong("`key` without `algorithm`", "add `algorithm: HS256`, or the algorithm of your key")
            }
            (None, None, Some(_)) => wrong("`algorithm` without `key`", "add `key`"),
            (None, None, None) => wrong("there is no key to verify tokens with", "add `jwks: FILE`"),
        };
        self.problems.extend(problem);
        let key = match (jwks, key, algorithm) {
            (Some(file), _, _) => JwtKey::Jwks(file),
            (None, Some(key), Some(algorithm)) => JwtKey::Key { key, algorithm },
            _ => return None,
        };
        let invalid = match text(node, "invalid").as_deref() {
            Some("anonymous") => InvalidCredentials::Anonymous,
            _ => InvalidCredentials::Deny,
        };
        Some(Jwt { key, issuer: text(node, "issuer"), audience: text(node, "audience"), invalid })
    }

    /// Host names without ports, in lower case.
    fn hosts(&mut self, list: &DocumentNode) -> Vec<String> {
        let mut names = Vec::new();
        for node in list.items() {
            let Some(name) = node.scalar() else { continue };
            if name.parse::<http::uri::Authority>().is_ok_and(|authority| authority.host() == name) {
                names.push(name.to_ascii_lowercase());
                continue;
            }
            let problem =
                Problem::error(node.at, "admin.hosts", "this is not a host name").saw(format!("`{name}`"));
            self.problems.push(
                problem
                    .want("a name such as `tidegate.monitoring.svc`")
                    .hint("leave out scheme, port and path"),
            );
        }
        names
    }

    fn console_link(&mut self, admin: &DocumentNode) -> Option<String> {
        let node = admin.get("console_link")?;
        let link = text(admin, "console_link")?;
        let uri = link.parse::<http::Uri>().ok();
        let is_address = uri.is_some_and(|uri| {
            // Everybody who is denied gets it.
            let has_password = uri.authority().is_none_or(|authority| authority.as_str().contains('@'));
            matches!(uri.scheme_str(), Some("http" | "https")) && !has_password && uri.query().is_none()
        });
        if !is_address || link.contains('#') {
            let problem =
                Problem::error(node.at, "admin.console_link", "this is not the address of a console");
            let problem = problem.saw("text").want("a URL such as `https://tidegate.example.com/console/`");
            self.problems.push(problem.hint("leave out user, query and fragment"));
        }
        Some(link)
    }

    fn endpoint(&mut self, otlp: &DocumentNode) -> Option<String> {
        let node = otlp.get("endpoint")?;
        let endpoint = text(otlp, "endpoint")?;
        if !is_endpoint(&endpoint) {
            let problem = Problem::error(node.at, "otlp.endpoint", "this is not the URL of a collector");
            let problem = problem.saw("text").want("a URL such as `http://127.0.0.1:4317`");
            self.problems.push(
                problem.hint("traces are sent by OTLP over gRPC without TLS: `https://` is not supported"),
            );
        }
        Some(endpoint)
    }

    /// The path in a field, joined to the directory of the settings file.
    pub(super) fn path(&mut self, node: &DocumentNode, name: &str) -> Option<PathBuf> {
        let path = text(node, name)?;
        if path.is_empty() {
            let at = node.get(name).map_or(node.at, |node| node.at);
            self.problems.push(
                Problem::error(at, name, "the path is empty").saw("nothing").want("the path of a file"),
            );
        }
        Some(self.home.join(path))
    }
}

pub(super) fn text(node: &DocumentNode, name: &str) -> Option<String> {
    node.get(name)?.scalar().map(str::to_owned)
}

/// A flag; `false` without it.
fn flag(node: &DocumentNode, name: &str) -> bool {
    node.get(name).is_some_and(|node| matches!(node.kind, ValueKind::Bool(true)))
}

pub(super) fn integer(node: &DocumentNode, name: &str) -> Option<u64> {
    value::integer(node.get(name)?, 0, u64::MAX).ok()
}

//! The banner printed at startup: the policy, the addresses of the listeners, and two commands to try.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tidegate_policy::{Descriptor, RuleSet};

use super::BoundListener;
use crate::commands::request_pairs::request_json;
use crate::commands::terminal::report::count;
use crate::settings::{Listener, Settings};

/// The banner printed at startup.
#[derive(Debug)]
pub(crate) struct Banner {
    policy: String,
    /// The mode and address of the shared store.
    store: Option<String>,
    addresses: [Option<SocketAddr>; 4],
    tls: Option<String>,
    with_password: bool,
    /// Fields and values of a request that some limit applies to.
    sample: Vec<(String, String)>,
    notes: Vec<String>,
}

impl Banner {
    /// The banner of a server with these rules and listeners.
    pub(crate) fn new(
        settings: &Settings,
        rules: &RuleSet,
        bound: &[BoundListener],
        kill_switch: bool,
    ) -> Banner {
        let mut addresses = [None; 4];
        bound.iter().for_each(|bound| addresses[bound.listener as usize] = Some(bound.address));
        let name = match (&settings.policy, &settings.database) {
            (Some(file), _) => file.display().to_string(),
            (None, Some(_)) => "from the database".to_owned(),
            (None, None) => "quick start (embedded; use your own with --policy FILE)".to_owned(),
        };
        let tenants = match rules.tenants().nodes().len() {
            0 => String::new(),
            tenants => format!(", {}", count(tenants, "tenant")),
        };
        Banner {
            policy: format!("{name}, {}{tenants}", count(rules.limits().len(), "limit")),
            store: settings
                .shared
                .as_ref()
                .map(|shared| format!("{} on {}", shared.mode_name(), shared.display_url())),
            addresses,
            tls: settings.tls.as_ref().map(|files| files.cert.display().to_string()),
            with_password: settings.resp_password.is_some(),
            sample: sample(rules),
            notes: notes(settings, addresses, kill_switch),
        }
    }

    /// The address of a listener; `None` is off.
    pub(crate) fn address(&self, listener: Listener) -> Option<SocketAddr> {
        self.addresses[listener as usize]
    }

    /// The addresses of the listeners, a line each, and that of the console.
    pub(crate) fn listeners(&self) -> String {
        let mut lines = String::new();
        for listener in Listener::ALL {
            let url = self.address(listener).map(|address| self.url(listener, address));
            lines.push_str(&format!("  {:<6} {}\n", listener.name(), url.as_deref().unwrap_or("off")));
        }
        if let Some(address) = self.address(Listener::Admin).filter(|address| self.has_console(*address)) {
            let url = self.url(Listener::Admin, reachable(address));
            lines.push_str(&format!("  console {url}/console/\n"));
        }
        lines
    }

    fn url(&self, listener: Listener, address: SocketAddr) -> String {
        match (listener, &self.tls) {
            (Listener::Http | Listener::Admin, Some(_)) => format!("https://{address}"),
            (Listener::Http | Listener::Admin, None) => format!("http://{address}"),
            (Listener::Grpc, _) => address.to_string(),
            (Listener::Resp, _) => format!("redis://{address}"),
        }
    }

    /// At most two commands that work when copied.
    pub(crate) fn commands(&self) -> Vec<String> {
        let mut commands = Vec::new();
        if let Some(address) = self.address(Listener::Http) {
            let url = self.url(Listener::Http, reachable(address));
            let pairs = self.sample.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            let body = request_json(pairs).map(|body| body.to_string()).unwrap_or_else(|_| "{}".to_owned());
            let (curl_ca, own_ca) = (self.ca(" --cacert"), self.ca(" --ca"));
            commands.push(format!("curl -s{curl_ca} {url}/v1/check -d '{body}'"));
            let words: Vec<String> =
                self.sample.iter().map(|(name, value)| format!("{name}={value}")).collect();
            commands.push(
                format!("tidegate check --server {url}{own_ca} {}", words.join(" ")).trim_end().to_owned(),
            );
        }
        if let Some(address) = self.address(Listener::Resp) {
            let address = reachable(address);
            let host = match address.ip() {
                IpAddr::V4(Ipv4Addr::LOCALHOST) => String::new(),
                other => format!(" -h {other}"),
            };
            let password = if self.with_password { " --askpass" } else { "" };
            commands.truncate(1);
            commands.push(format!(
                "redis-cli{host} -p {}{password} CL.THROTTLE user123 15 30 60",
                address.port()
            ));
        }
        if let (true, Some(address)) = (commands.len() < 2, self.address(Listener::Admin)) {
            let (ca, url) = (self.ca(" --cacert"), self.url(Listener::Admin, reachable(address)));
            commands.push(format!("curl -s{ca} {url}/readyz"));
        }
        commands
    }

    /// Does the admin listener serve the console? Not where others could read what it sends.
    fn has_console(&self, admin: SocketAddr) -> bool {
        self.tls.is_some() || admin.ip().to_canonical().is_loopback()
    }

    /// A flag with the certificate, if there is one.
    fn ca(&self, flag: &str) -> String {
        self.tls.as_ref().map(|cert| format!("{flag} {cert}")).unwrap_or_default()
    }
}

impl fmt::Display for Banner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "tidegate {}\n\n  policy {}", env!("CARGO_PKG_VERSION"), self.policy)?;
        if let Some(store) = &self.store {
            writeln!(f, "  store  {store}")?;
        }
        f.write_str(&self.listeners())?;
        for note in &self.notes {
            writeln!(f, "  note   {note}")?;
        }
        let commands = self.commands();
        if !commands.is_empty() {
            writeln!(f, "\nTry:")?;
        }
        commands.iter().try_for_each(|command| writeln!(f, "  {command}"))?;
        writeln!(f)
    }
}

fn notes(settings: &Settings, addresses: [Option<SocketAddr>; 4], kill_switch: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let others_reach = |listener: Listener| {
        addresses[listener as usize].is_some_and(|address| !address.ip().to_canonical().is_loopback())
    };
    if others_reach(Listener::Http) && settings.http_token.is_none() {
        notes.push(
            "/v1/refund, /v1/throttle and /v1/identify are off: other machines can connect to http, and auth.http_token is \
             not set"
                .to_owned(),
        );
    }
    if others_reach(Listener::Grpc) {
        notes.push(
            "other machines can connect to grpc: only trusted_proxies may name clients, send limits or refund tokens"
                .to_owned(),
        );
    }
    if others_reach(Listener::Admin) && settings.tls.is_none() {
        notes.push(match settings.admin_insecure {
            true => "--admin-insecure: tokens of the admin API can be read on the network".to_owned(),
            false => "the admin API is off: other machines can connect to admin, and there is no `tls`; health and \
                      metrics are served"
                .to_owned(),
        });
    }
    if settings.nodes > 1 {
        notes.push(format!("every limit is divided among {} nodes", settings.nodes));
    }
    if kill_switch {
        notes.push("TIDEGATE_KILL_SWITCH=allow: every request is admitted".to_owned());
    }
    notes
}

/// An address that this machine can connect to.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// The fields of a request that form the key of the first limit with a key.
fn sample(rules: &RuleSet) -> Vec<(String, String)> {
    let key = rules.limits().iter().map(|rule| &rule.key).find(|key| !key.is_empty());
    let Some(key) = key else { return vec![("user".to_owned(), "42".to_owned())] };
    let value = |descriptor: &Descriptor| match descriptor {
        Descriptor::Ip => "203.0.113.7",
        Descriptor::Path | Descriptor::Route => "/",
        Descriptor::Method => "GET",
        _ => "42",
    };
    let name = |descriptor: &Descriptor| match descriptor {
        Descriptor::Route => "path".to_owned(),
        other => other.to_string(),
    };
    let is_word = |name: &String| name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:".contains(c));
    key.iter().map(|part| (name(part), value(part).to_owned())).filter(|(name, _)| is_word(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::reload::policy_file::{QUICK_START, compile};
    use crate::settings::SharedStoreSettings;
    use tidegate::Nanos;

    fn banner(change: impl FnOnce(&mut Settings), listen: [Option<&str>; 4], policy: &str) -> String {
        let mut settings = Settings::default();
        change(&mut settings);
        let (rules, _) = compile(policy, &settings, Nanos::ZERO).expect("it is valid");
        let mut banner = Banner::new(&settings, &rules, &[], false);
        banner.addresses = listen.map(|address| address.map(|address| address.parse().unwrap()));
        banner.notes = notes(&settings, banner.addresses, false);
        banner.to_string()
    }

    #[test]
    fn it_tells_what_runs_where_and_what_to_try() {
        let listen = [Some("127.0.0.1:8080"), Some("127.0.0.1:8081"), Some("127.0.0.1:6380"), None];
        let printed = banner(|_| {}, listen, QUICK_START);
        let version = env!("CARGO_PKG_VERSION");
        let wanted = format!(
            "tidegate {version}\n\n  policy quick start (embedded; use your own with --policy FILE), 3 limits\n  \
             http   http://127.0.0.1:8080\n  grpc   127.0.0.1:8081\n  resp   redis://127.0.0.1:6380\n  \
             admin  off\n\nTry:\n  curl -s http://127.0.0.1:8080/v1/check -d '{{\"user\":\"42\"}}'\n  \
             redis-cli -p 6380 CL.THROTTLE user123 15 30 60\n\n"
        );
        assert_eq!(printed, wanted);
    }

    #[test]
    fn commands_follow_the_settings() {
        let policy = "version: 1\nlimits:\n- { name: a, key: [tenant, \"header:x-api-key\", route], sustained: { rate: 9 } }\n";
        let change = |settings: &mut Settings| {
            let cert = "server.pem".into();
            settings.tls = Some(crate::settings::TlsFiles { cert, key: "server.key".into() });
            settings.policy = Some("p.yaml".into());
            settings.nodes = 3;
            let mut shared = SharedStoreSettings::new(tidegate_redis::StoreMode::Strict);
            shared.url = "redis://me:s3cret@10.0.0.9:6379".to_owned();
            settings.shared = Some(shared);
        };
        let printed = banner(change, [Some("0.0.0.0:443"), Some("0.0.0.0:1"), None, None], policy);
        for part in [
            "policy p.yaml, 1 limit\n  store  strict on redis://10.0.0.9:6379\n",
            "http   https://0.0.0.0:443\n",
            "note   /v1/refund, /v1/throttle and /v1/identify are off",
            "note   other machines can connect to grpc: only trusted_proxies",
            "note   every limit is divided among 3 nodes",
            "curl -s --cacert server.pem https://127.0.0.1:443/v1/check -d '{",
            "tidegate check --server https://127.0.0.1:443 --ca server.pem tenant=42 header:x-api-key=42 path=/\n",
        ] {
            assert!(printed.contains(part), "{part}\nin\n{printed}");
        }
    }

    #[test]
    fn whatever_is_on_can_be_tried() {
        let secure = |settings: &mut Settings| {
            let (cert, key) = ("server.pem".into(), "server.key".into());
            settings.tls = Some(crate::settings::TlsFiles { cert, key });
        };
        let printed = banner(secure, [None, None, None, Some("0.0.0.0:9090")], QUICK_START);
        let with_console = "admin  https://0.0.0.0:9090\n  console https://127.0.0.1:9090/console/\n";
        assert!(printed.contains(with_console) && !printed.contains("note"), "{printed}");
        assert!(
            printed.ends_with("curl -s --cacert server.pem https://127.0.0.1:9090/readyz\n\n"),
            "{printed}"
        );
        let insecure = |settings: &mut Settings| settings.admin_insecure = true;
        let printed = banner(insecure, [None, None, None, Some("0.0.0.0:9090")], QUICK_START);
        assert!(
            printed.contains("note   --admin-insecure: tokens of the admin API can be read")
                && !printed.contains("console"),
            "{printed}"
        );
        let printed = banner(|_| {}, [None, None, None, Some("[::]:9090")], QUICK_START);
        assert!(printed.contains("note   the admin API is off: other machines can connect"), "{printed}");
        assert!(printed.ends_with("Try:\n  curl -s http://[::1]:9090/readyz\n\n"), "{printed}");
        let printed = banner(
            |settings| settings.resp_password = Some("s3cret".into()),
            [None, None, Some("10.0.0.1:1"), None],
            QUICK_START,
        );
        assert!(
            printed.contains("redis-cli -h 10.0.0.1 -p 1 --askpass CL.THROTTLE")
                && !printed.contains("s3cret")
        );
    }
}

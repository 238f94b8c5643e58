//! `tidegate demo`: a real server with a database of its own, a policy with tenants, and made-up clients, so that there is
//! something to look at.
//!
//! The server is that of `tidegate serve`. Beside it runs one thread that is its client: it sets things up by the admin API
//! (`setup`), then sends requests to the HTTP listener (`sending`, `traffic`).

mod folder;
mod sending;
mod setup;
mod traffic;

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::LocalSet;
use tokio::time::sleep;
use tracing::level_filters::LevelFilter;

use super::http_client::ServerTarget;
use super::print;
use super::serve::{Start, running, serve_until, usage};
use crate::commands::flags::DemoArgs;
use crate::commands::terminal::exit::CommandFailure;
use crate::control::access::new_secret;
use crate::node::Node;
use crate::node::lifecycle::Phase;
use crate::serve::Banner;
use crate::settings::{FlagsAndEnvironment, Listener, Settings};
use folder::DemoFolder;
use sending::{Answered, CONNECTIONS, send};
use setup::{MadeTokens, set_up};
pub(crate) use traffic::USUAL_RATE;

/// How many keys the demo has room for; its clients are some hundred.
const KEYS_MAX: usize = 100_000;

pub(super) fn run(args: &DemoArgs) -> Result<(), CommandFailure> {
    let folder = DemoFolder::new(args.data.as_deref())?;
    let token = new_secret("tga_").map_err(running)?;
    let settings = settings(args, &folder, &token)?;
    let (serving, served) = oneshot::channel();
    let (end, ended) = oneshot::channel();
    let (server_lives, server_gone) = oneshot::channel::<()>();
    let client =
        DemoClient { admin_token: token, rate: args.rate, seconds: args.seconds, data: folder.description() };
    let thread = std::thread::Builder::new().name("demo".into()).spawn(move || client.run(served, end));
    let thread = thread.map_err(running)?;
    let announce = |node: &Node, banner: Banner, _: Option<String>| {
        // If the thread has failed, it has said so by `end`.
        let _received = serving.send(Serving { banner, phases: node.lifecycle().phases(), server_gone });
    };
    let until =
        async { ended.await.unwrap_or_else(|_| Err(io::Error::other("the client of the demo has failed"))) };
    // What the clients of the demo do wrong is meant to happen, so it is not logged.
    let start = Start { settings, warned: None, kill_switch: false, log: LevelFilter::ERROR };
    let done = serve_until(start, announce, until);
    drop(server_lives);
    let _panicked = thread.join();
    done
}

/// The settings of the demo's server. Those of the environment that are for real servers have no effect on it, except for
/// the addresses of listeners.
fn settings(args: &DemoArgs, folder: &DemoFolder, token: &str) -> Result<Settings, CommandFailure> {
    let overrides = FlagsAndEnvironment {
        listen: [args.http.clone(), args.grpc.clone(), args.resp.clone(), args.admin.clone()],
        data: Some(folder.path.clone()),
        admin_token: Some(token.to_owned()),
        ..FlagsAndEnvironment::default()
    };
    let usual = Settings { max_keys: KEYS_MAX, ..Settings::default() };
    let settings = usual.with(overrides).map_err(usage)?;
    for listener in Listener::ALL {
        let (name, address) = (listener.name(), settings.address(listener));
        match address {
            Some(address) if !address.ip().is_loopback() => {
                return Err(usage(format!(
                    "--{name}: {address} can be reached from other machines, and a demo is for this one; write it as \
                     127.0.0.1:{}",
                    address.port()
                )));
            }
            None if matches!(listener, Listener::Http | Listener::Admin) => {
                return Err(usage(format!("--{name}: the demo cannot do without this listener")));
            }
            _ => {}
        }
    }
    Ok(settings)
}

/// The server takes requests.
struct Serving {
    banner: Banner,
    phases: watch::Receiver<Phase>,
    /// Resolves when the server has ended without draining, because it failed.
    server_gone: oneshot::Receiver<()>,
}

/// What the thread beside the server does.
struct DemoClient {
    admin_token: String,
    rate: u32,
    seconds: Option<u32>,
    data: String,
}

impl DemoClient {
    /// Waits for the server, and is its client until it stops. `end` makes it stop.
    fn run(self, served: oneshot::Receiver<Serving>, end: oneshot::Sender<io::Result<()>>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let done = runtime.map_err(running).and_then(|runtime| {
            // A server that could not start has said why.
            LocalSet::new().block_on(&runtime, async {
                match served.await {
                    Ok(serving) => self.attend(serving).await,
                    Err(_) => Ok(()),
                }
            })
        });
        // Nobody listens any more if the server stops for another reason.
        let _received = end.send(done.map_err(|failure| io::Error::other(failure.to_string())));
    }

    async fn attend(&self, serving: Serving) -> Result<(), CommandFailure> {
        let Serving { banner, mut phases, server_gone } = serving;
        let address = |listener| banner.address(listener).expect("the demo has this listener");
        let admin: SocketAddr = address(Listener::Admin);
        let target = ServerTarget::parse(&format!("http://{admin}")).map_err(running)?;
        let answered = Rc::new(Answered::default());
        let work = async {
            let tokens = set_up(&target, &self.admin_token).await?;
            // The demo runs on even if standard output is closed.
            let _printed = print(&self.text(&banner, &tokens));
            let sent = send(address(Listener::Http), self.rate, Rc::clone(&answered));
            tokio::select! {
                () = sent => {}
                () = self.time_is_up() => {}
            }
            Ok(())
        };
        let done = tokio::select! {
            done = work => done,
            // The sender lives as long as the server.
            _ = phases.wait_for(|phase| *phase == Phase::Draining) => Ok(()),
            _ = server_gone => Ok(()),
        };
        let (admitted, refused) = (answered.admitted.get(), answered.refused.get());
        if done.is_ok() {
            let ended = format!("The demo ends. It admitted {admitted} requests and refused {refused}.\n");
            let _printed = print(&ended);
        }
        done
    }

    async fn time_is_up(&self) {
        match self.seconds {
            Some(seconds) => sleep(Duration::from_secs(seconds.into())).await,
            None => std::future::pending().await,
        }
    }

    /// What is printed when everything runs.
    fn text(&self, banner: &Banner, tokens: &MadeTokens) -> String {
        let url = |listener| {
            banner.address(listener).map(|address| format!("http://{address}")).unwrap_or_default()
        };
        let time = self.seconds.map(|seconds| format!(", or {seconds} seconds do")).unwrap_or_default();
        format!(
            "tidegate {version}, a demo\n\n\
             {listeners}  data   {data}\n\n\
             Sign in to the console with one of these tokens:\n  \
             admin   {admin}\n  \
             support {support}\n  \
             partner {partner}  (sees the tenant acme and those below it)\n\n\
             The clients of some shops ask for up to {rate} decisions a second, on {CONNECTIONS} connections. Some ask for too \
             much, one\naddress copies the catalogue now and then, one guesses passwords. Ctrl-C ends it{time}.\n\n\
             Try:\n  \
             TIDEGATE_ADMIN_TOKEN={admin} tidegate top --server {api}\n  \
             tidegate check --server {http} user=ana@acme-books tenant=acme-books path=/api/products\n\n",
            version = env!("CARGO_PKG_VERSION"),
            listeners = banner.listeners(),
            data = self.data,
            admin = self.admin_token,
            support = tokens.support,
            partner = tokens.partner,
            rate = self.rate,
            http = url(Listener::Http),
            api = url(Listener::Admin),
        )
    }
}

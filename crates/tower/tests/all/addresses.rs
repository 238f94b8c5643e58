//! What the layer says where the server provides no peer address.

use std::fmt::Write;
use std::sync::{Arc, Mutex};

use tidegate::engine::Policy;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::common::{from, get, layer, send};

/// Keeps what is said while a function runs.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

struct Text<'t>(&'t mut String);

impl Visit for Text<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, "{field}={value:?} ").expect("writing to memory does not fail");
    }
}

impl Subscriber for Heard {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = format!("{} ", event.metadata().level());
        event.record(&mut Text(&mut text));
        self.0.lock().expect("nobody panics").push(text);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn heard(ask: impl FnOnce()) -> Vec<String> {
    let heard = Heard::default();
    tracing::subscriber::with_default(heard.clone(), ask);
    std::mem::take(&mut *heard.0.lock().expect("nobody panics"))
}

const PER_IP: &str = "name: per-ip, key: [ip], sustained: { rate: 1, window: hour }";
const GLOBAL: &str = "name: all, key: [], sustained: { rate: 100 }";
const INSIDE: &str = "name: inside, key: [], match: { ip: 10.0.0.0/8 }, sustained: { rate: 100 }";

#[test]
fn a_limit_by_address_without_addresses_is_told_once() {
    for limit in [PER_IP, INSIDE] {
        let (_, layer) = layer(&[GLOBAL, limit]);
        let lines = heard(|| {
            for _ in 0..3 {
                // A clone of the layer is the same layer.
                let _ = send(&layer.clone().trusted_proxies([]), get("/"));
            }
        });
        let [line] = &lines[..] else { panic!("not one line: {lines:?}") };
        assert!(line.starts_with("WARN ") && line.contains("no client address"), "{line}");
        assert!(line.contains(if limit == PER_IP { "per-ip" } else { "inside" }), "{line}");
    }
}

#[test]
fn nothing_is_said_where_nothing_is_missing() {
    let (_, plain) = layer(&[GLOBAL]);
    let (_, by_address) = layer(&[PER_IP]);
    let lines = heard(|| {
        let _ = send(&plain, get("/"));
        let _ = send(&by_address, from("203.0.113.7"));
        let _ = send(&by_address.clone().with_request(|_, request| request.ip([203, 0, 113, 8])), get("/"));
    });
    assert_eq!(lines, [""; 0]);
    // A policy that comes later is looked at too.
    let policy = Policy::parse(&format!("version: 1\nlimits: [{{ {PER_IP} }}]\n")).expect("a policy");
    plain.limiter().swap(policy).expect("it fits");
    assert_eq!(heard(|| _ = send(&plain, get("/"))).len(), 1);
}

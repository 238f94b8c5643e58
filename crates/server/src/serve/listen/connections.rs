//! Counts open connections, and refuses those beyond the bounds.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::bounds::budget::client_network;
use crate::bounds::{ADMIN_CONNECTIONS_MAX, ADMIN_CONNECTIONS_PER_ADDRESS_MAX, CONNECTIONS_PER_ADDRESS_MAX};
use crate::node::Node;
use crate::settings::Listener;

/// The connections of all listeners.
#[derive(Debug)]
pub(crate) struct Connections {
    max: usize,
    /// Open connections of all listeners but admin.
    deciding: AtomicUsize,
    admin: AtomicUsize,
    /// Open connections by address, except loopback and trusted proxies. The flag is true for the admin listener.
    by_address: Mutex<HashMap<(bool, IpAddr), usize>>,
    ended: Notify,
}

/// Why a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConnectionRefusal {
    /// There are too many connections.
    #[error("there are too many connections")]
    Full,
    /// There are too many connections from this address.
    #[error("there are too many connections from one address")]
    Address,
}

/// The right to one connection. Dropping it frees the slot.
#[derive(Debug)]
pub(crate) struct Permit {
    connections: Arc<Connections>,
    node: Arc<Node>,
    listener: Listener,
    counted: Option<(bool, IpAddr)>,
}

impl Connections {
    /// At most `max` connections, those of the admin listener not counted.
    pub(crate) fn new(max: usize) -> Arc<Connections> {
        Arc::new(Connections {
            max,
            deciding: AtomicUsize::new(0),
            admin: AtomicUsize::new(0),
            by_address: Mutex::default(),
            ended: Notify::new(),
        })
    }

    /// Admits one more connection.
    pub(crate) fn admit(
        self: &Arc<Self>,
        node: &Arc<Node>,
        listener: Listener,
        address: IpAddr,
    ) -> Result<Permit, ConnectionRefusal> {
        let (open, max) = self.counter_and_max(listener);
        let more = |open| (open < max).then_some(open + 1);
        open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).map_err(|_| ConnectionRefusal::Full)?;
        // From here on, dropping the permit undoes the count.
        let mut permit =
            Permit { connections: Arc::clone(self), node: Arc::clone(node), listener, counted: None };
        node.metrics().connection_opened(listener);
        let address = address.to_canonical();
        if !node.is_loopback_or_proxy(address) {
            let is_admin = listener == Listener::Admin;
            let address = (is_admin, client_network(address));
            let max = if is_admin { ADMIN_CONNECTIONS_PER_ADDRESS_MAX } else { CONNECTIONS_PER_ADDRESS_MAX };
            let mut by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
            let count = by_address.entry(address).or_default();
            if *count >= max {
                return Err(ConnectionRefusal::Address);
            }
            *count += 1;
            permit.counted = Some(address);
        }
        Ok(permit)
    }

    /// How many connections are open on all listeners but admin.
    pub(crate) fn deciding(&self) -> usize {
        self.deciding.load(Ordering::Relaxed)
    }

    /// Resolves when [`Connections::deciding`] is 0.
    pub(crate) async fn idle(&self) {
        loop {
            let ended = self.ended.notified();
            if self.deciding() == 0 {
                return;
            }
            ended.await;
        }
    }

    fn counter_and_max(&self, listener: Listener) -> (&AtomicUsize, usize) {
        match listener {
            Listener::Admin => (&self.admin, ADMIN_CONNECTIONS_MAX),
            Listener::Http | Listener::Grpc | Listener::Resp => (&self.deciding, self.max),
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.node.metrics().connection_closed(self.listener);
        if let Some(address) = self.counted {
            let mut by_address = self.connections.by_address.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(count) = by_address.get_mut(&address) {
                *count -= 1;
                if *count == 0 {
                    by_address.remove(&address);
                }
            }
        }
        self.connections.counter_and_max(self.listener).0.fetch_sub(1, Ordering::Relaxed);
        self.connections.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;
    use crate::settings::Settings;

    fn node() -> Arc<Node> {
        let settings = Settings {
            max_keys: 10,
            trusted_proxies: vec!["10.0.0.0/8".parse().unwrap()],
            ..Settings::default()
        };
        let identity = Identity::new(&settings).unwrap();
        Arc::new(Node::new(settings, tidegate_policy::RuleSet::default(), identity).unwrap())
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn there_are_at_most_so_many_and_admin_has_its_own() {
        let (connections, node) = (Connections::new(2), node());
        let local = address("127.0.0.1");
        let held: Vec<Permit> =
            [Listener::Http, Listener::Resp].map(|l| connections.admit(&node, l, local).unwrap()).into();
        assert_eq!(connections.admit(&node, Listener::Grpc, local).unwrap_err(), ConnectionRefusal::Full);
        let admin = connections.admit(&node, Listener::Admin, local).unwrap();
        drop(held);
        assert_eq!(connections.deciding(), 0);
        assert!(connections.admit(&node, Listener::Grpc, local).is_ok());
        drop(admin);
        assert_eq!(connections.admin.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn one_address_cannot_keep_others_from_the_admin_listener() {
        let (connections, node) = (Connections::new(10_000), node());
        let admit = |from: &str, listener| connections.admit(&node, listener, address(from));
        let few = 0..ADMIN_CONNECTIONS_PER_ADDRESS_MAX;
        let held: Vec<Permit> = few.map(|_| admit("192.0.2.1", Listener::Admin).unwrap()).collect();
        assert_eq!(admit("192.0.2.1", Listener::Admin).unwrap_err(), ConnectionRefusal::Address);
        assert!(admit("192.0.2.1", Listener::Http).is_ok(), "they do not count there");
        assert!(admit("192.0.2.2", Listener::Admin).is_ok());
        drop(held);
        assert!(connections.by_address.lock().unwrap().is_empty());
    }

    #[test]
    fn one_address_cannot_have_them_all() {
        let (connections, node) = (Connections::new(10_000), node());
        let admit = |from: &str| connections.admit(&node, Listener::Http, address(from));
        let held: Vec<Permit> =
            (0..CONNECTIONS_PER_ADDRESS_MAX).map(|n| admit(&format!("2001:db8::{n:x}")).unwrap()).collect();
        assert_eq!(admit("2001:db8::ffff").unwrap_err(), ConnectionRefusal::Address, "one /64");
        assert!(admit("2001:db8:0:1::1").is_ok());
        let many = |from: &str| (0..=CONNECTIONS_PER_ADDRESS_MAX).map(|_| admit(from)).collect::<Vec<_>>();
        assert!(many("127.0.0.1").iter().all(Result::is_ok), "loopback");
        assert!(many("10.1.2.3").iter().all(Result::is_ok), "a trusted proxy");
        assert!(many("::ffff:10.1.2.3").iter().all(Result::is_ok), "the same as IPv6 maps it");
        let mapped: Vec<_> = (0..=CONNECTIONS_PER_ADDRESS_MAX)
            .map(|n| admit(["192.0.2.1", "::ffff:192.0.2.1"][n % 2]))
            .collect();
        assert_eq!(mapped.iter().filter(|permit| permit.is_err()).count(), 1, "one address in two spellings");
        assert!(admit("::ffff:192.0.2.2").is_ok(), "mapped addresses are not one /64");
        drop(mapped);
        assert!(many("192.0.2.1").iter().any(Result::is_err));
        drop(held);
        assert_eq!(connections.deciding(), 0, "those that were refused are not counted");
        assert!(connections.by_address.lock().unwrap().is_empty());
        assert!(admit("2001:db8::ffff").is_ok());
    }

    #[test]
    fn a_panic_gives_its_connection_back() {
        let (connections, node) = (Connections::new(1), node());
        let permit = connections.admit(&node, Listener::Http, address("127.0.0.1")).unwrap();
        let answering = std::thread::spawn(move || {
            let _permit = permit;
            panic!("something that cannot be");
        });
        assert!(answering.join().is_err());
        assert_eq!(connections.deciding(), 0);
    }

    #[tokio::test]
    async fn it_is_told_when_all_have_ended() {
        let (connections, node) = (Connections::new(10), node());
        connections.idle().await;
        let permit = connections.admit(&node, Listener::Http, address("127.0.0.1")).unwrap();
        let ((), ()) = tokio::join!(connections.idle(), async { drop(permit) });
    }
}

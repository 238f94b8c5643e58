//! A budget of bytes that all clients share, with a limit per client address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A number of bytes, and how many of them each address uses.
///
/// One address gets a quarter at most, so that no single client can use up the budget. Loopback or a trusted proxy
/// carries many clients and gets three quarters: others are still answered when all it forwards is hostile.
#[derive(Debug)]
pub(crate) struct ByteBudget {
    max: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

impl ByteBudget {
    /// A budget of `max` bytes.
    pub(crate) fn of(max: usize) -> Arc<ByteBudget> {
        Arc::new(ByteBudget { max, taken: Mutex::default() })
    }

    /// The account of an address, with the limit of loopback and trusted proxies if it is one of them.
    pub(crate) fn account(self: &Arc<Self>, address: IpAddr, is_loopback_or_proxy: bool) -> BudgetAccount {
        let quarters = if is_loopback_or_proxy { 3 } else { 1 };
        BudgetAccount {
            budget: Arc::clone(self),
            address: client_network(address),
            max: self.max / 4 * quarters,
        }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The part of a budget that one address may use.
#[derive(Clone, Debug)]
pub(crate) struct BudgetAccount {
    budget: Arc<ByteBudget>,
    address: IpAddr,
    max: usize,
}

impl BudgetAccount {
    /// A share of 0 bytes, which can grow.
    pub(crate) fn share(&self) -> BudgetShare {
        BudgetShare { account: self.clone(), bytes: 0 }
    }
}

/// Bytes taken from a budget for one purpose, until this is dropped.
#[derive(Debug)]
pub(crate) struct BudgetShare {
    account: BudgetAccount,
    bytes: usize,
}

impl BudgetShare {
    /// How many bytes the share has.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Grows the share to `bytes` in all, if it has fewer. If they exceed the budget, returns `false` and changes
    /// nothing.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> bool {
        bytes <= self.bytes || self.set(bytes, true)
    }

    /// Sets the share to `bytes` in all. If they exceed the budget, returns `false` and changes nothing.
    pub(crate) fn set_to(&mut self, bytes: usize) -> bool {
        self.set(bytes, true)
    }

    /// Sets the share to `bytes` even beyond the budget, for bytes that exist already. Later growth is then refused.
    pub(crate) fn force_to(&mut self, bytes: usize) {
        let _forced = self.set(bytes, false);
    }

    fn set(&mut self, bytes: usize, within_bounds: bool) -> bool {
        if bytes == self.bytes {
            return true;
        }
        let BudgetAccount { budget, address, max } = &self.account;
        let mut taken = budget.taken();
        let of_address = taken.by_address.get(address).copied().unwrap_or_default() - self.bytes;
        let of_all = taken.all - self.bytes;
        let fits = |taken: usize, max: usize| taken.checked_add(bytes).is_some_and(|sum| sum <= max);
        if within_bounds && bytes > self.bytes && !(fits(of_address, *max) && fits(of_all, budget.max)) {
            return false;
        }
        taken.all = of_all.saturating_add(bytes);
        match of_address.saturating_add(bytes) {
            0 => _ = taken.by_address.remove(address),
            sum => _ = taken.by_address.insert(*address, sum),
        }
        self.bytes = bytes;
        true
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.force_to(0);
    }
}

/// The address by which a client is counted: for IPv6 its /64, since one client can use all addresses of a /64.
pub(crate) fn client_network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn account(budget: &Arc<ByteBudget>, address: &str, is_loopback_or_proxy: bool) -> BudgetAccount {
        budget.account(address.parse().unwrap(), is_loopback_or_proxy)
    }

    #[test]
    fn one_address_leaves_something_for_others() {
        let budget = ByteBudget::of(400);
        let (one, other) = (account(&budget, "2001:db8::1", false), account(&budget, "192.0.2.1", false));
        let (mut a, mut b) = (one.share(), account(&budget, "2001:db8::2", false).share());
        assert!(a.grow_to(60) && b.grow_to(40), "a quarter for a /64");
        assert!(!a.grow_to(61) && !b.grow_to(usize::MAX));
        let (mut c, mut proxy) = (other.share(), account(&budget, "10.0.0.1", true).share());
        assert!(!proxy.grow_to(301) && proxy.grow_to(200) && c.grow_to(100));
        assert!(!proxy.grow_to(201), "all is taken");
        drop(b);
        assert!(proxy.grow_to(240) && a.grow_to(60));
        proxy.force_to(1_000);
        assert!(!c.set_to(101) && c.set_to(50), "less is always possible");
        drop((a, c, proxy));
        let taken = budget.taken();
        assert!(taken.all == 0 && taken.by_address.is_empty(), "{taken:?}");
    }

    proptest! {
        /// Against a model that sums up all shares at each step.
        #[test]
        fn what_is_granted_fits_and_comes_back(steps in prop::collection::vec((0_usize..6, 0_usize..150, 0_u8..3), 1..60)) {
            let budget = ByteBudget::of(200);
            let accounts = ["192.0.2.1", "192.0.2.2", "10.0.0.1"].map(|text| account(&budget, text, text == "10.0.0.1"));
            let mut shares: Vec<BudgetShare> = (0..6).map(|n| accounts[n % 3].share()).collect();
            let mut model = [0_usize; 6];
            for (place, bytes, how) in steps {
                let (of_address, all) = (model[place % 3] + model[place % 3 + 3] - model[place], model.iter().sum::<usize>() - model[place]);
                let max = if place % 3 == 2 { 150 } else { 50 };
                let fits = of_address + bytes <= max && all + bytes <= 200;
                match how {
                    0 => {
                        let grown = shares[place].grow_to(bytes);
                        prop_assert_eq!(grown, bytes <= model[place] || fits);
                        if grown { model[place] = model[place].max(bytes); }
                    }
                    1 => {
                        let set = shares[place].set_to(bytes);
                        prop_assert_eq!(set, bytes <= model[place] || fits);
                        if set { model[place] = bytes; }
                    }
                    _ => {
                        shares[place] = accounts[place % 3].share();
                        model[place] = 0;
                    }
                }
                prop_assert_eq!(budget.taken().all, model.iter().sum::<usize>());
            }
            drop(shares);
            prop_assert!(budget.taken().by_address.is_empty());
        }
    }
}

//! Whose turn it is: a naive model of the order in a queue.

use std::collections::VecDeque;

use super::world::Asker;

/// The order in which the requests that wait for one bucket must be admitted, by a simple model.
#[derive(Default)]
pub(crate) struct Turns(VecDeque<(&'static str, Vec<(u8, u64)>)>);

impl Turns {
    pub(crate) fn join(&mut self, asker: Asker, number: u64) {
        let waiter = (asker.priority, number);
        match self.0.iter_mut().find(|own| own.0 == asker.tenant) {
            Some(own) => own.1.push(waiter),
            None => self.0.push_back((asker.tenant, vec![waiter])),
        }
    }

    pub(crate) fn leave(&mut self, number: u64) {
        self.0.iter_mut().for_each(|own| own.1.retain(|other| other.1 != number));
        self.0.retain(|own| !own.1.is_empty());
    }

    /// The first of the highest priority, of the tenant whose turn it is.
    pub(crate) fn next(&mut self) -> Option<u64> {
        let (tenant, mut own) = self.0.pop_front()?;
        let highest = own.iter().map(|waiter| waiter.0).max()?;
        let place = own.iter().position(|waiter| waiter.0 == highest)?;
        let (_, number) = own.remove(place);
        if !own.is_empty() {
            self.0.push_back((tenant, own));
        }
        Some(number)
    }
}

//! One generation of a limit: what it is between two edits, at every trust.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::sync::{Arc, OnceLock};

use tidegate_core::{Carry, Limit};

use super::{ClockPair, scaled};

/// One generation of a limit.
///
/// It refers to the next one, so whoever holds a generation can follow all edits since then, and the generations that
/// nobody holds are dropped. Each edit has its own instant and its own rounding, so the edits since then cannot be
/// replaced by one. They are few: the policy in force holds the newest generations, a request those of the policy by
/// which it was decided. So there is one link, of less than 300 bytes, for each edit of the limit during the longest
/// request in progress. Only whoever puts policies in force makes edits, no client does.
#[derive(Debug)]
pub struct Generation {
    /// How many edits came before it.
    pub index: u32,
    /// Its numbers without trust.
    pub limit: Limit,
    /// When it took effect, and what it did with the tokens then.
    pub(super) since: ClockPair,
    pub(super) carry: Carry,
    next: NextGeneration,
    /// The number of its plain version.
    number: AtomicU32,
    /// The numbers of its variants, at index trust − 1; zero for those that were never used.
    variants: OnceLock<Box<[AtomicU32]>>,
    /// Every [`crate::LimitRef`] of the generation holds a clone.
    in_use: Arc<()>,
    /// May keys have trust? True if the name was ever registered as trusted, or a variant was ever used. Shared by all
    /// generations of the name.
    trusted: Arc<AtomicBool>,
}

impl Generation {
    /// The first generation of a name, or the one that an edit makes after `previous`.
    pub(super) fn new(
        limit: Limit,
        carry: Carry,
        since: ClockPair,
        previous: Option<&Generation>,
    ) -> Generation {
        Generation {
            index: previous.map_or(0, |previous| previous.index + 1),
            limit,
            since,
            carry,
            next: NextGeneration::default(),
            number: AtomicU32::new(0),
            variants: OnceLock::new(),
            in_use: Arc::default(),
            trusted: previous.map_or_else(Arc::default, |previous| previous.trusted.clone()),
        }
    }

    /// The generation that replaced it in an edit.
    #[inline]
    pub(super) fn next(&self) -> Option<&Generation> {
        self.next.0.get().map(|next| &**next)
    }

    pub(super) fn replace_by(&self, next: Arc<Generation>) {
        assert!(self.next.0.set(next).is_ok(), "only the newest generation is edited");
    }

    /// The newest generation of its name.
    #[inline]
    pub fn newest(&self) -> &Generation {
        let mut generation = self;
        while let Some(next) = generation.next() {
            generation = next;
        }
        generation
    }

    /// Records that keys of this limit may have trust.
    pub(super) fn trust_keys(&self) {
        self.trusted.store(true, Ordering::Relaxed);
    }

    /// May a key have more trust at its next charge?
    #[inline]
    pub fn is_trusted(&self) -> bool {
        self.trusted.load(Ordering::Relaxed)
    }

    /// Its numbers at this trust.
    pub(super) fn scaled(&self, trust: u8) -> Limit {
        if trust == 0 { self.limit } else { scaled(&self.limit, trust) }
    }

    /// The number of its version at this trust; `None` if that was never used.
    pub(super) fn number_at(&self, trust: u8) -> Option<u32> {
        let cell = match usize::from(trust).checked_sub(1) {
            None => &self.number,
            Some(index) => self.variants.get()?.get(index)?,
        };
        let number = cell.load(Ordering::Acquire);
        (number != 0).then_some(number)
    }

    /// The trust and the number of each of its versions.
    pub fn numbers(&self) -> impl Iterator<Item = (u8, u32)> {
        let highest = if self.variants.get().is_some() { Limit::TRUST_MAX } else { 0 };
        (0..=highest).filter_map(|trust| Some((trust, self.number_at(trust)?)))
    }

    pub(super) fn set_number(&self, trust: u8, number: u32) {
        let cell = match usize::from(trust).checked_sub(1) {
            None => &self.number,
            Some(index) => {
                let cells = || (0..Limit::TRUST_MAX).map(|_| AtomicU32::new(0)).collect();
                &self.variants.get_or_init(cells)[index]
            }
        };
        cell.store(number, Ordering::Release);
    }

    pub(super) fn token(&self) -> Arc<()> {
        self.in_use.clone()
    }

    /// Does anybody hold a reference to it? If not, nobody can get one, except by registering the newest generation.
    pub(super) fn is_in_use(&self) -> bool {
        let in_use = Arc::strong_count(&self.in_use) > 1;
        // What the last holder did with the states happened before.
        fence(Ordering::Acquire);
        in_use
    }
}

/// The link to the next generation. Dropping a long chain must not recurse.
#[derive(Debug, Default)]
struct NextGeneration(OnceLock<Arc<Generation>>);

impl Drop for NextGeneration {
    fn drop(&mut self) {
        let mut next = self.0.take();
        while let Some(generation) = next {
            next = Arc::into_inner(generation).and_then(|mut generation| generation.next.0.take());
        }
    }
}

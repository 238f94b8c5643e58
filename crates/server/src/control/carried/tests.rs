use std::collections::{BTreeMap, VecDeque};

use futures_util::FutureExt;
use proptest::prelude::*;

use super::*;

type Name = &'static str;

/// What a carrier keeps: of each name its last change, and the heads of the past.
#[derive(Clone, Debug, Default)]
struct Kept {
    head: LiveHead,
    past: Vec<u64>,
    changes: BTreeMap<u64, (Name, bool)>,
}

/// Something that happens to a carrier.
#[derive(Clone, Debug)]
enum Event {
    /// Names that are added, or removed, by one change.
    Change(Vec<(Name, bool)>),
    /// It has again what it had before so many changes.
    GoBack(usize),
    /// It forgets that a name was removed.
    Forget,
    /// It has lost everything.
    Lose,
    /// The node hears nothing for long.
    Silence,
}

/// A carrier that gives two changes at a time.
#[derive(Default)]
struct Names {
    kept: Mutex<Kept>,
    earlier: Mutex<Vec<Kept>>,
    time: Mutex<u64>,
    /// What happens before each of the next pages is read.
    during: Mutex<VecDeque<Event>>,
    is_away: bool,
    known: Mutex<BTreeMap<Name, u64>>,
    pages: Mutex<u32>,
}

impl Names {
    fn happen(&self, event: &Event) {
        *self.time.lock().unwrap() += 10;
        let (time, mut kept) = (*self.time.lock().unwrap(), self.kept.lock().unwrap());
        match event {
            Event::Change(names) => {
                self.earlier.lock().unwrap().push(kept.clone());
                let before = kept.head.sequence;
                kept.past.push(before);
                for (name, is_there) in names {
                    kept.head.sequence = time.max(kept.head.sequence + 1);
                    kept.changes.retain(|_, (known, _)| known != name);
                    let sequence = kept.head.sequence;
                    kept.changes.insert(sequence, (name, *is_there));
                }
            }
            Event::GoBack(changes) => {
                let mut earlier = self.earlier.lock().unwrap();
                let left = earlier.len().saturating_sub(*changes);
                if let Some(before) = earlier.get(left).cloned() {
                    earlier.truncate(left);
                    *kept = before;
                }
            }
            Event::Forget => kept.changes.retain(|_, (_, is_there)| *is_there),
            Event::Lose => {
                *kept = Kept { head: LiveHead { epoch: time, sequence: 0 }, ..Kept::default() };
                self.earlier.lock().unwrap().clear();
            }
            Event::Silence => {}
        }
    }

    fn change(&self, name: Name, is_there: bool) {
        self.happen(&Event::Change(vec![(name, is_there)]));
    }

    fn known(&self) -> Vec<Name> {
        self.known.lock().unwrap().keys().copied().collect()
    }

    /// The names that the carrier has.
    fn there(&self) -> BTreeMap<Name, u64> {
        let kept = self.kept.lock().unwrap();
        let there = kept.changes.iter().filter(|(_, (_, is_there))| *is_there);
        there.map(|(sequence, (name, _))| (*name, *sequence)).collect()
    }

    fn pages(&self) -> u32 {
        std::mem::take(&mut self.pages.lock().unwrap())
    }
}

impl Carried for Names {
    type News = (Name, u64, bool);
    type Error = &'static str;

    fn sequence(news: &Self::News) -> u64 {
        news.1
    }

    async fn page(&self, seen: LiveHead, after: u64) -> Result<Option<CarriedPage<Self::News>>, Self::Error> {
        if self.is_away {
            return Err("away");
        }
        let event = self.during.lock().unwrap().pop_front();
        event.iter().for_each(|event| self.happen(event));
        *self.pages.lock().unwrap() += 1;
        let kept = self.kept.lock().unwrap();
        let is_head = seen.sequence == kept.head.sequence || seen.sequence == 0;
        let is_anew = seen.epoch != kept.head.epoch || !(is_head || kept.past.contains(&seen.sequence));
        let after = if is_anew { 0 } else { after };
        let news: Vec<_> =
            kept.changes.range(after + 1..).take(2).map(|(at, of)| (of.0, *at, of.1)).collect();
        Ok(Some(CarriedPage { head: kept.head, is_anew, is_last: news.len() < 2, news }))
    }

    async fn take(&self, news: Vec<Self::News>) {
        let mut known = self.known.lock().unwrap();
        for (name, sequence, is_there) in news {
            let _before = if is_there { known.insert(name, sequence) } else { known.remove(name) };
        }
    }

    async fn replace(&self, all: Vec<Self::News>) {
        self.known.lock().unwrap().clear();
        self.take(all).await;
    }
}

#[tokio::test]
async fn what_is_new_is_read_page_by_page_and_everything_of_another_epoch() {
    let (place, at) = (FollowedPlace::default(), Nanos::from_secs);
    let mut names = Names { is_away: true, ..Names::default() };
    names.kept.get_mut().unwrap().head.epoch = 7;
    assert_eq!(place.read(&names, at(1)).await, Err("away"));
    names.is_away = false;
    ["a", "b", "c", "d", "e"].into_iter().for_each(|name| names.change(name, true));
    place.read(&names, at(1)).await.unwrap();
    assert_eq!((names.known(), names.pages()), (vec!["a", "b", "c", "d", "e"], 3));
    names.change("b", false);
    place.read(&names, at(2)).await.unwrap();
    assert_eq!((names.known(), names.pages()), (vec!["a", "c", "d", "e"], 1));
    // Another epoch: what is not there any more is gone, though nobody has removed it.
    let drop = |names: &mut Names, dropped: Name| {
        names.kept.get_mut().unwrap().changes.retain(|_, (name, _)| *name != dropped);
    };
    names.kept.get_mut().unwrap().head.epoch = 8;
    drop(&mut names, "a");
    place.read(&names, at(3)).await.unwrap();
    assert_eq!((names.known(), names.pages()), (vec!["c", "d", "e"], 3));
    // What was removed is forgotten by the carrier after a while.
    drop(&mut names, "c");
    place.read(&names, at(3 + 30 * 60)).await.unwrap();
    assert_eq!(names.known(), ["c", "d", "e"]);
    place.read(&names, at(4 + 60 * 60)).await.unwrap();
    assert_eq!(names.known(), ["d", "e"]);
    // The carrier does not have what this node knows.
    drop(&mut names, "d");
    place.read(&names, at(5 + 60 * 60)).await.unwrap();
    assert_eq!(names.known(), ["d", "e"]);
    place.doubt();
    place.read(&names, at(5 + 60 * 60)).await.unwrap();
    assert_eq!(names.known(), ["e"]);
}

fn any_event() -> impl Strategy<Value = Event> {
    let name = proptest::sample::select(vec!["a", "b", "c", "d", "e", "f"]);
    prop_oneof![
        4 => proptest::collection::vec((name, any::<bool>()), 1..4).prop_map(Event::Change),
        2 => (1..6_usize).prop_map(Event::GoBack),
        1 => Just(Event::Lose),
        1 => Just(Event::Silence),
    ]
}

proptest! {
    /// Whatever the carrier loses and gets back, before a read or during it: after the next read, the node knows what the
    /// carrier has. What was removed is forgotten only while nobody has to learn of it.
    #[test]
    fn a_carrier_that_goes_back_is_followed(
        rounds in proptest::collection::vec(
            (proptest::collection::vec(any_event(), 0..5), proptest::collection::vec(any_event(), 0..4)), 1..12,
        ),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (place, names) = (FollowedPlace::default(), Names::default());
        let mut now = Nanos::from_secs(1);
        for (before, during) in rounds {
            for event in before {
                names.happen(&event);
                if matches!(event, Event::Silence) {
                    now = now.saturating_add(TOO_LONG).saturating_add(Nanos::SECOND);
                    names.happen(&Event::Forget);
                }
            }
            *names.during.lock().unwrap() = during.into();
            runtime.block_on(place.read(&names, now)).unwrap();
            // Nothing happens any more.
            names.during.lock().unwrap().clear();
            runtime.block_on(place.read(&names, now)).unwrap();
            prop_assert_eq!(&*names.known.lock().unwrap(), &names.there());
        }
    }
}

#[tokio::test]
async fn the_start_waits_for_a_first_reading_but_not_for_a_carrier_that_is_away() {
    let is_over = |place: &FollowedPlace| place.loaded().now_or_never().is_some();
    let mut names = Names { is_away: true, ..Names::default() };
    let (away, back) = (FollowedPlace::default(), FollowedPlace::default());
    for _ in 0..3 {
        assert!(!is_over(&away) && !away.is_loaded());
        assert_eq!(away.read(&names, Nanos::ZERO).await, Err("away"));
    }
    assert!(is_over(&away) && !away.is_loaded());
    // Once is no reason to begin without it.
    assert_eq!(back.read(&names, Nanos::ZERO).await, Err("away"));
    names.is_away = false;
    back.read(&names, Nanos::ZERO).await.unwrap();
    assert!(!is_over(&back), "it is not in force yet");
    back.note_loaded();
    assert!(is_over(&back) && back.is_loaded());
    names.is_away = true;
    assert_eq!(back.read(&names, Nanos::ZERO).await, Err("away"));
    assert!(back.is_loaded());
}

#[tokio::test(start_paused = true)]
async fn a_wake_up_ends_the_wait() {
    let place = FollowedPlace::default();
    let waited = async || {
        let before = tokio::time::Instant::now();
        place.wait(None, WakeTopic::Trust).await;
        before.elapsed()
    };
    assert!(waited().await >= POLL_PAUSE);
    // Those that came before count too, as one.
    (0..3).for_each(|_| place.wake());
    assert!(waited().await < POLL_PAUSE);
    assert!(waited().await >= POLL_PAUSE);
}

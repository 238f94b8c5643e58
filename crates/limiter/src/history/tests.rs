use super::*;
use tidegate_core::{Carry, Nanos, Quota, QuotaError};

/// A version without data.
type Plain = History<()>;

impl VersionData for () {
    fn plain<'a>(_: &LimitRef, _: impl Iterator<Item = &'a LimitVersion<()>>) {}

    fn variant(_: &LimitRef, _: &LimitVersion<()>) {}
}

fn limit(capacity: u32) -> Limit {
    Quota::new(1, Nanos::SECOND, capacity).unwrap().into()
}

#[test]
fn the_same_numbers_under_the_same_name_are_the_same_limit() {
    let history = Plain::default();
    let name = |name, capacity| history.name(name, limit(capacity), Carry::AsIs, Nanos::ZERO).unwrap().id();
    let first = name("a", 10);
    assert_eq!(name("a", 10), first);
    let edited = name("a", 20);
    assert_ne!(edited, first);
    let followed = history.get(first).newest().number;
    assert_eq!(followed, edited);
    assert_ne!(name("b", 10), first, "another name has a state of its own");
}

#[test]
fn a_variant_is_made_once_a_generation() {
    let history = Plain::default();
    let name = |capacity| history.name("a", limit(capacity), Carry::AsIs, Nanos::ZERO).unwrap();
    let variant = |of: &LimitRef, trust| history.variant(of.id(), trust).unwrap().handle.clone();
    let plain = name(10);
    let trusted = variant(&plain, 50);
    assert_eq!((trusted.name(), trusted.trust(), trusted.limit().capacity()), ("a", 50, 15));
    assert_eq!(variant(&plain, 50).id(), trusted.id());
    assert_eq!(variant(&trusted, 50).id(), trusted.id(), "of the limit, not of its variant");
    assert_eq!(variant(&trusted, 0).id(), plain.id());
    assert_ne!(variant(&plain, 51).id(), trusted.id());
    let edited = name(20);
    assert_ne!(variant(&edited, 50).id(), trusted.id());
    assert_eq!(variant(&plain, 50).id(), trusted.id());
    let too_much = history.variant(plain.id(), 101).unwrap_err();
    assert_eq!(too_much, QuotaError::TrustTooHigh { hundredths: 101 }.into());
}

#[test]
fn naming_several_is_all_or_nothing() {
    let history = Plain::default();
    history.leave_numbers(1);
    let named = |name| NamedLimit { name, limit: limit(1), carry: Carry::AsIs, trusted: false };
    assert!(history.name_all(&[named("a"), named("b")], Nanos::ZERO.into()).is_err());
    assert_eq!(history.lock().newest.len(), 0, "not even the first");
    assert!(history.name_all(&[named("a")], Nanos::ZERO.into()).is_ok());
}

#[test]
fn a_full_history_says_so() {
    let history = Plain::default();
    history.leave_numbers(1);
    let name = |name: &str| history.name(name, limit(1), Carry::AsIs, Nanos::ZERO);
    assert_eq!(name("last").unwrap().id(), VERSIONS_MAX);
    assert_eq!(name("more").unwrap_err(), LimitError::TooMany { max: VERSIONS_MAX });
    assert_eq!(name("last").unwrap().id(), VERSIONS_MAX, "a known limit can still be registered");
}

#[test]
fn edits_lead_from_older_to_newer_at_the_trust_of_the_state() {
    let history = Plain::default();
    let edit = |capacity, carry, secs| {
        history.name("a", limit(capacity), carry, Nanos::from_secs(secs)).unwrap().id()
    };
    let first = history.get(edit(10, Carry::AsIs, 1));
    let second = history.get(edit(20, Carry::Proportional, 2));
    let third = history.get(edit(40, Carry::AsIs, 3));
    let steps = |from, to, trust| {
        let step = |edit: edits::Edit| (edit.before.capacity(), edit.after.capacity(), edit.carry, edit.at());
        history.edits(from, to, trust).map(step).collect::<Vec<_>>()
    };
    let at = Nanos::from_secs;
    let all = [(15, 30, Carry::Proportional, at(2)), (30, 60, Carry::AsIs, at(3))];
    assert_eq!(steps(first, third, 50), all, "a variant need not be known");
    let trusted = history.variant(first.number, 50).unwrap();
    assert_eq!(steps(trusted, third, 50), all);
    assert_eq!(steps(third, first, 0), [], "an edit is not undone");
    assert!(history.keeps_tokens(second, third) && history.keeps_tokens(third, first));
    assert!(!history.keeps_tokens(trusted, third), "a proportional edit does not keep tokens");
    let generations = history.generations(trusted).map(|version| version.number);
    assert_eq!(generations.collect::<Vec<_>>(), [first.number, second.number, third.number]);
}

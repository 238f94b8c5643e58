use super::*;
use crate::NamedLimit;
use tidegate_core::{Carry, Nanos, OverrideNumbers, Quota, QuotaError};

/// A version without data.
type Plain = History<()>;

impl VersionData for () {
    fn plain<'a>(_: &str, _: &Limit, _: impl Iterator<Item = &'a LimitVersion<()>>) {}

    fn variant(_: LimitVariant, _: &LimitVersion<()>) {}
}

fn limit(capacity: u32) -> Limit {
    Quota::new(1, Nanos::SECOND, capacity).unwrap().into()
}

fn version(limit: &LimitRef) -> &LimitVersion<()> {
    LimitVersion::of(limit).unwrap()
}

#[test]
fn the_same_numbers_under_the_same_name_are_the_same_limit() {
    let history = Plain::default();
    let name = |name, capacity| history.name(name, limit(capacity), Carry::AsIs, Nanos::ZERO).unwrap();
    let first = name("a", 10);
    assert_eq!(name("a", 10).id(), first.id());
    let edited = name("a", 20);
    assert_ne!(edited.id(), first.id());
    let followed = version(&first).generation.newest().index;
    assert_eq!(followed, version(&edited).generation.index);
    assert_ne!(name("b", 10).id(), first.id(), "another name has a state of its own");
}

#[test]
fn a_variant_is_made_once_a_generation() {
    let history = Plain::default();
    let name = |capacity| history.name("a", limit(capacity), Carry::AsIs, Nanos::ZERO).unwrap();
    let variant = |of: &LimitRef, trust| history.variant(of, LimitVariant::at_trust(trust)).unwrap();
    let plain = name(10);
    let trusted = variant(&plain, 50);
    assert_eq!((trusted.name(), trusted.variant().trust, trusted.limit().capacity()), ("a", 50, 15));
    assert_eq!(variant(&plain, 50).id(), trusted.id());
    assert_eq!(variant(&trusted, 50).id(), trusted.id(), "of the limit, not of its variant");
    assert_eq!(variant(&trusted, 0).id(), plain.id());
    assert_ne!(variant(&plain, 51).id(), trusted.id());
    let edited = name(20);
    assert_ne!(variant(&edited, 50).id(), trusted.id());
    assert_eq!(variant(&plain, 50).id(), trusted.id());
    let too_much = history.variant(&plain, LimitVariant::at_trust(101)).unwrap_err();
    assert_eq!(too_much, QuotaError::TrustTooHigh { hundredths: 101 }.into());
}

#[test]
fn naming_several_is_all_or_nothing() {
    let history = Plain::default();
    history.leave_numbers(1);
    let named = |name| NamedLimit { name, limit: limit(1), carry: Carry::AsIs, trusted: false };
    let name_all = |limits: &[NamedLimit<'_>]| history.registration().name_all(limits, Nanos::ZERO.into());
    assert!(name_all(&[named("a"), named("b")]).is_err());
    assert_eq!(history.registration().generations("a").count(), 0, "not even the first");
    let other = NamedLimit { limit: limit(2), ..named("a") };
    assert!(name_all(&[named("a"), other]).is_err(), "an edit at once");
    assert!(name_all(&[named("a"), named("a")]).is_ok(), "one limit");
}

#[test]
fn a_full_history_says_so() {
    let history = Plain::default();
    history.leave_numbers(1);
    let name = |name: &str| history.name(name, limit(1), Carry::AsIs, Nanos::ZERO);
    assert_eq!(version(&name("last").unwrap()).number, VERSIONS_MAX);
    assert_eq!(name("more").unwrap_err(), LimitError::TooMany { max: VERSIONS_MAX });
    let known = name("last").unwrap();
    assert_eq!(version(&known).number, VERSIONS_MAX, "a known limit can still be registered");
}

#[test]
fn edits_lead_from_older_to_newer_at_the_trust_of_the_state() {
    let history = Plain::default();
    let edit =
        |capacity, carry, secs| history.name("a", limit(capacity), carry, Nanos::from_secs(secs)).unwrap();
    let first = edit(10, Carry::AsIs, 1);
    let second = edit(20, Carry::Proportional, 2);
    let third = edit(40, Carry::AsIs, 3);
    let [first_made, second_made, third_made] =
        [&first, &second, &third].map(|limit| &*version(limit).generation);
    let steps = |from: &Generation, to, trust| {
        let step = |edit: edits::Edit| (edit.before.capacity(), edit.after.capacity(), edit.carry, edit.at());
        from.edits_to(to, LimitVariant::at_trust(trust)).map(step).collect::<Vec<_>>()
    };
    let at = Nanos::from_secs;
    let all = [(15, 30, Carry::Proportional, at(2)), (30, 60, Carry::AsIs, at(3))];
    assert_eq!(steps(first_made, third_made, 50), all, "a variant need not be known");
    assert_eq!(steps(third_made, first_made, 0), [], "an edit is not undone");
    let plain = LimitVariant::PLAIN;
    assert!(second_made.keeps_tokens(third_made, plain) && third_made.keeps_tokens(first_made, plain));
    assert!(
        !first_made.keeps_tokens(third_made, LimitVariant::at_trust(50)),
        "a proportional edit does not keep tokens"
    );
    let registration = history.registration();
    let generations = registration.generations("a").map(|version| version.id);
    assert_eq!(generations.collect::<Vec<_>>(), [first.id(), second.id(), third.id()]);
}

#[test]
fn a_reference_keeps_its_generation_and_nothing_else() {
    let history = Plain::default();
    let edit = |capacity| history.name("a", limit(capacity), Carry::AsIs, Nanos::ZERO).unwrap();
    let unused = || {
        let unused = history.registration().unused();
        let generation = |unused: &reclaim::UnusedGeneration<()>| {
            (unused.plain.generation.index, unused.next.generation.index)
        };
        (unused.generations.iter().map(generation).collect::<Vec<_>>(), unused.names.len())
    };
    let first = edit(1);
    let trusted = history.variant(&first, LimitVariant::at_trust(7)).unwrap();
    let (second, third, fourth) = (edit(2), edit(3), edit(4));
    assert_eq!(unused(), (vec![], 0));
    drop((first, second));
    assert_eq!(unused(), (vec![(1, 2)], 0), "a variant is a reference too");
    drop(third);
    assert_eq!(unused(), (vec![(1, 3), (2, 3)], 0));
    drop(trusted);
    assert_eq!(unused(), (vec![(0, 3), (1, 3), (2, 3)], 0));
    drop(fourth);
    assert_eq!(unused(), (vec![(0, 3), (1, 3), (2, 3)], 1));
    drop(edit(4));
    let before = history.registration().unused();
    let again = edit(4);
    assert!(!history.registration().is_still_unused(&before.names[0]), "it was registered again");
    drop(again);
    history.registration().remove(before.generations.iter(), before.names.iter());
    assert_eq!(history.registration().versions(), 1, "and therefore stays");
    assert_eq!(unused(), (vec![], 1));
}

#[test]
fn an_edit_that_is_remembered_for_a_reference_takes_less_than_320_bytes() {
    // The generation and its token, each with the two counters of an `Arc`.
    let counters = 2 * size_of::<usize>();
    assert!(size_of::<Generation>() + 2 * counters < 320, "{}", size_of::<Generation>());
}

#[test]
fn a_long_chain_of_edits_ends_without_recursion() {
    let history = Plain::default();
    let edit = |capacity| history.name("a", limit(capacity), Carry::AsIs, Nanos::ZERO).unwrap();
    let first = edit(1);
    for capacity in 2..200_000 {
        let _ = edit(capacity);
    }
    let unused = history.registration().unused();
    history.registration().remove(unused.generations.iter(), unused.names.iter());
    drop(unused);
    assert_eq!(history.registration().versions(), 2);
    let edits =
        version(&first).generation.edits_to(version(&first).generation.newest(), LimitVariant::PLAIN).count();
    assert_eq!(edits, 199_998, "who holds the first can follow them all");
    drop((first, history));
}

#[test]
fn an_override_is_a_variant_of_each_generation() {
    let history = Plain::default();
    let edit = |capacity| history.name("a", limit(capacity), Carry::AsIs, Nanos::ZERO).unwrap();
    let doubled = LimitVariant::from(OverrideNumbers::Times(200));
    let fixed = LimitVariant::from(OverrideNumbers::Fixed { rate: None, capacity: Some(7) });
    let first = edit(10);
    let at = |limit: &LimitRef, variant| history.variant(limit, variant).unwrap();
    let capacities = |limit: &LimitRef| [doubled, fixed].map(|variant| at(limit, variant).limit().capacity());
    assert_eq!(capacities(&first), [20, 7]);
    assert_eq!(
        at(&at(&first, doubled), fixed).id(),
        at(&first, fixed).id(),
        "of the limit, not of its variant"
    );
    assert_ne!(at(&first, LimitVariant { trust: 5, ..doubled }).id(), at(&first, doubled).id());
    let second = edit(30);
    assert_eq!(capacities(&second), [60, 7]);
    let [first, second] = [&first, &second].map(|limit| &*version(limit).generation);
    let edits = |variant| -> Vec<(u32, u32)> {
        let edits = first.edits_to(second, variant);
        edits.map(|edit| (edit.before.capacity(), edit.after.capacity())).collect()
    };
    assert_eq!((edits(doubled), edits(fixed)), (vec![(20, 60)], vec![(7, 7)]));
    assert_eq!(first.numbers().count(), 4);
}

#[test]
fn overrides_leave_half_of_the_numbers_to_limits() {
    let history = Plain::default();
    let plain = history.name("a", limit(10), Carry::AsIs, Nanos::ZERO).unwrap();
    let overridden = |times| history.variant(&plain, OverrideNumbers::Times(times).into());
    history.leave_numbers(VERSIONS_MAX / 2 + 1);
    assert!(overridden(200).is_ok());
    assert_eq!(overridden(300).unwrap_err(), LimitError::TooMany { max: VERSIONS_MAX });
    assert!(overridden(200).is_ok(), "what is there stays");
    assert!(history.name("b", limit(10), Carry::AsIs, Nanos::ZERO).is_ok());
}

#[test]
fn a_bucket_is_kept_until_it_would_be_full_in_all_numbers() {
    let history = Plain::default();
    let plain = history.name("a", limit(10), Carry::AsIs, Nanos::ZERO).unwrap();
    let kept = || version(&plain).extra_idle_time();
    assert_eq!(kept(), Nanos::ZERO);
    let (large, small) =
        (OverrideNumbers::Fixed { rate: None, capacity: Some(40) }, OverrideNumbers::Times(10));
    history.variant(&plain, large.into()).unwrap();
    history.variant(&plain, small.into()).unwrap();
    assert_eq!(kept(), limit(40).fill_time(), "the longest of all that were ever used");
    history.expect_overrides(&plain, &[small]);
    assert_eq!(kept(), limit(10).fill_time(), "the large one is not in force");
    history.expect_overrides(&plain, &[large, small]);
    assert_eq!(kept(), limit(40).fill_time(), "the longest");
    history.variant(&plain, LimitVariant::at_trust(1)).unwrap();
    assert!(kept() >= limit(40).trusted(100).unwrap().fill_time());
}

#[test]
fn an_override_that_has_ended_keeps_only_the_buckets_that_were_charged_in_it() {
    let history = Plain::default();
    let plain = history.name("a", limit(10), Carry::AsIs, Nanos::ZERO).unwrap();
    let large = OverrideNumbers::Fixed { rate: None, capacity: Some(40) };
    history.expect_overrides(&plain, &[large]);
    let charged_in = history.variant(&plain, large.into()).unwrap();
    let kept = |limit: &LimitRef| version(limit).extra_idle_time();
    assert_eq!([kept(&plain), kept(&charged_in)], [limit(40).fill_time(); 2]);
    history.expect_overrides(&plain, &[]);
    assert_eq!(kept(&plain), Nanos::ZERO, "as before the override");
    assert_eq!(kept(&charged_in), limit(10).fill_time(), "until it is full in the limit's own numbers");
    // A request that began before the end.
    history.variant(&plain, OverrideNumbers::Times(9_000).into()).unwrap();
    let edited = history.name("a", limit(11), Carry::AsIs, Nanos::SECOND).unwrap();
    assert_eq!([kept(&plain), kept(&edited)], [Nanos::ZERO; 2]);
}

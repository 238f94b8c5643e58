use super::*;
use tidegate::{Carry, LimitVariant, Quota};
use tidegate_core::QuotaError;

fn bucket(rate: u64, capacity: u32) -> Limit {
    Quota::new(rate, Nanos::SECOND, capacity).unwrap().into()
}

fn name(registry: &LimitRegistry, limit: Limit) -> LimitRef {
    let named = NamedLimit { name: "a", limit, carry: Carry::AsIs, trusted: false };
    registry.name_all(&[named], Nanos::ZERO).unwrap().remove(0)
}

#[test]
fn the_same_numbers_under_the_same_name_are_the_same_limit() {
    let registry = LimitRegistry::new("t");
    let first = name(&registry, bucket(1, 10));
    assert_eq!(name(&registry, bucket(1, 10)).id(), first.id());
    let edited = name(&registry, bucket(1, 20));
    assert_ne!(edited.id(), first.id());
    let keys = [&first, &edited].map(|limit| registry.version(limit).data.namer().key("t", b"key", None));
    assert_eq!(keys[0], keys[1], "an edit keeps the keys where they are");
}

#[test]
fn going_back_is_another_edition() {
    let registry = LimitRegistry::new("t");
    let text = |limit: &LimitRef| registry.version(limit).data.text().to_string();
    let first = name(&registry, bucket(1, 10));
    let second = name(&registry, bucket(1, 20));
    let third = name(&registry, bucket(1, 10));
    assert_eq!(
        [text(&first), text(&second), text(&third)],
        ["b 1 1000000000 10", "b 1 1000000000 20", "b 1 1000000000 10 e1"]
    );
    let trusted = registry.variant(&third, LimitVariant::at_trust(50)).unwrap();
    assert_eq!(text(&trusted), "b 1 1000000000 10 t50 e1");
}

#[test]
fn a_variant_is_made_once_a_generation() {
    let registry = LimitRegistry::new("t");
    let plain = name(&registry, bucket(1, 10));
    let trusted = registry.variant(&plain, LimitVariant::at_trust(50)).unwrap();
    assert_eq!((trusted.name(), trusted.variant().trust, trusted.limit().capacity()), ("a", 50, 15));
    assert_eq!(registry.variant(&plain, LimitVariant::at_trust(50)).unwrap().id(), trusted.id());
    assert_eq!(registry.variant(&trusted, LimitVariant::at_trust(50)).unwrap().id(), trusted.id());
    assert_eq!(registry.variant(&trusted, LimitVariant::PLAIN).unwrap().id(), plain.id());
    let too_much = registry.variant(&plain, LimitVariant::at_trust(101)).unwrap_err();
    assert_eq!(too_much, QuotaError::TrustTooHigh { hundredths: 101 }.into());
}

#[test]
fn what_cannot_be_counted_is_not_named() {
    let registry = LimitRegistry::new("t");
    let odd: Limit = Quota::new(7, Nanos::new(365 * Nanos::DAY.get()), 7).unwrap().into();
    let named = |name, limit| NamedLimit { name, limit, carry: Carry::AsIs, trusted: false };
    let refused = registry.name_all(&[named("good", bucket(1, 1)), named("odd", odd)], Nanos::ZERO);
    let refused = refused.unwrap_err();
    assert!(matches!(&refused, LimitError::NotShared { name, .. } if &**name == "odd"), "{refused:?}");
    let told = refused.to_string();
    assert!(
        told.contains("`odd`") && told.contains("52 days") && told.contains("`store.mode: local`"),
        "{told}"
    );
    assert_eq!(registry.history.registration().versions(), 0, "not even the first was given a number");
    assert!(registry.ad_hoc(odd).is_none());
}

#[test]
fn limits_that_nobody_named_belong_to_their_numbers() {
    let registry = LimitRegistry::new("t");
    let key = |limit| {
        let limit = registry.ad_hoc(limit).unwrap();
        registry.version(&limit).data.namer().key("t", b"key", None)
    };
    assert_eq!(key(bucket(1, 10)), key(bucket(1, 10)));
    assert_ne!(key(bucket(1, 10)), key(bucket(1, 11)));
}

#[test]
fn editions_that_others_write_are_adopted() {
    let registry = LimitRegistry::new("t");
    let limit = name(&registry, bucket(1, 10));
    let version = registry.version(&limit);
    let raw = [&[0; 16], b"b 1 1000000000 10 e2".as_slice()].concat();
    let migrated = registry.migrate(&version, &raw, Nanos::from_secs(1));
    assert!(!migrated.poisoned);
    assert_eq!(&*version.data.text(), "b 1 1000000000 10 e2");
    assert_eq!(version.data.edition(), 2);
}

#[test]
fn what_is_no_state_is_none() {
    let registry = LimitRegistry::new("t");
    let version = registry.version(&name(&registry, bucket(1, 10)));
    for raw in [b"".as_slice(), b"short", &[0; 16], &[0xff; 40], b"0123456789abcdefb 1 1000000000 11"] {
        let migrated = registry.migrate(&version, raw, Nanos::from_secs(1));
        assert!(migrated.poisoned && migrated.state == crate::State::Word(0), "{raw:?}");
    }
}

/// Registers the limits of one policy after another, each with `edited` edits and one name that no other has. Requests
/// in progress hold the last few policies.
fn edit_all_day(registry: &LimitRegistry, policies: u32, edited: u32) {
    let names: Vec<String> = (0..edited).map(|index| index.to_string()).collect();
    let mut in_progress = std::collections::VecDeque::new();
    for policy in 0..policies {
        let gone = format!("gone {policy}");
        let named =
            |name| NamedLimit { name, limit: bucket(1, 1 + policy), carry: Carry::AsIs, trusted: false };
        let limits: Vec<NamedLimit<'_>> = names.iter().chain([&gone]).map(|name| named(name)).collect();
        in_progress.push_back(registry.name_all(&limits, Nanos::ZERO).unwrap());
        if in_progress.len() > 3 {
            in_progress.pop_front();
        }
        let versions = registry.history.registration().versions();
        // Three policies in progress, and the one that was just registered.
        let expected = 2 * (2 * KEPT + 4 * limits.len());
        assert!(versions <= expected, "{versions} versions after {policy} policies");
    }
}

#[test]
fn two_million_edits_take_no_more_numbers_than_are_kept() {
    edit_all_day(&LimitRegistry::new("t"), 2_000, 1_000);
}

#[test]
fn names_that_nobody_uses_are_forgotten() {
    edit_all_day(&LimitRegistry::new("t"), 50_000, 2);
}

#[test]
fn numbers_of_a_removed_version_return_in_another_edition() {
    let registry = LimitRegistry::new("t");
    let edition = |limit: &LimitRef| registry.version(limit).data.edition();
    assert_eq!(edition(&name(&registry, bucket(1, 10))), 0);
    name(&registry, bucket(1, 20));
    assert_eq!(edition(&name(&registry, bucket(1, 10))), 1);
    let _in_force = name(&registry, bucket(1, 30));
    forget(&mut registry.history.registration(), 0);
    assert_eq!(edition(&name(&registry, bucket(1, 10))), 2);
    assert_eq!(edition(&name(&registry, bucket(1, 40))), 2, "it may have been there before");
}

#[test]
fn an_edit_that_is_remembered_applies_and_one_that_is_forgotten_is_another_nodes() {
    let migrated = |kept| {
        let registry = LimitRegistry::new("t");
        let edit = |capacity, carry| {
            let named = NamedLimit { name: "a", limit: bucket(1, capacity), carry, trusted: false };
            registry.name_all(&[named], Nanos::from_secs(1)).unwrap().remove(0)
        };
        edit(10, Carry::AsIs);
        edit(20, Carry::Reset);
        let now = edit(30, Carry::AsIs);
        forget(&mut registry.history.registration(), kept);
        // Full again ten seconds after the start.
        let instant = crate::calls::wire::numbers::Scale::new(&Quota::new(1, Nanos::SECOND, 10).unwrap());
        let (full_at, rest) = instant.unwrap().instant(Nanos::from_secs(11));
        let raw =
            [(full_at as f64).to_le_bytes().as_slice(), &(rest as f64).to_le_bytes(), b"b 1 1000000000 10"]
                .concat();
        let migrated = registry.migrate(&registry.version(&now), &raw, Nanos::from_secs(1));
        assert!(!migrated.poisoned);
        migrated.state
    };
    assert_eq!(migrated(KEPT), crate::State::Word(0), "the edit has reset it");
    assert_ne!(migrated(0), crate::State::Word(0), "nobody gets tokens by an edit that is not known");
}

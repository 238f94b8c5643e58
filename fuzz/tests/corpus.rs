//! Inputs that failed once pass now, and a short run finds no failure.

use tidegate_fuzz::{FuzzTarget, corpus, try_some};

#[test]
fn nothing_that_once_failed_fails_again() {
    for target in FuzzTarget::ALL {
        for (file, input) in corpus::known(target).expect("the corpus can be read") {
            let tried = target.try_input(&input);
            assert!(tried.is_ok(), "{}: {tried:?}", file.display());
        }
    }
}

#[test]
fn the_examples_are_sound() {
    for target in FuzzTarget::ALL {
        let seeds = corpus::seeds(target).expect("the examples can be read");
        assert!(seeds.len() > 10, "the examples are there");
        for seed in seeds {
            assert_eq!(target.try_input(&seed).err(), None, "{}", String::from_utf8_lossy(&seed));
        }
    }
}

#[test]
fn a_few_hundred_inputs_find_nothing() {
    for target in FuzzTarget::ALL {
        let tried = try_some(target, 300, 4_711);
        assert!(tried.is_ok(), "{}: {tried:?}", target.name());
    }
}

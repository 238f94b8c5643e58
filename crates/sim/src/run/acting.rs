//! Resets and grants: one node acts on the store, and then tells the others.

use tidegate::{Cost, Intent};

use crate::invariants::served::TaskPurpose;
use crate::run::{ScenarioRun, node};
use crate::scenario::actions::SimKeyAction;

/// Schedules an action.
pub(crate) fn schedule(run: &ScenarioRun, number: usize, action: SimKeyAction) {
    let here = run.clone();
    run.world.at(action.at, move || {
        let acting = here.clone();
        here.world.spawn(Some(action.node), async move { act(&acting, number, action).await });
    });
}

async fn act(run: &ScenarioRun, number: usize, action: SimKeyAction) {
    let Some(limiter) = run.limiter(action.node) else { return };
    let task = run.world.current().expect("an action is a task");
    let bucket = run.scenario.bucket(action.limit, action.key);
    let purpose = TaskPurpose::Action { number, tokens: action.tokens };
    run.record.begin_acting(task, run.world.now(), bucket, purpose);
    let request = node::request(&[(action.limit, action.key)], None);
    let acted = match action.tokens {
        None => limiter.reset_async(&request, &|_| true).await,
        Some(tokens) => limiter.grant_async(&request, Cost::new(tokens), &|_| true).await,
    };
    let after = if action.tokens.is_none() { Intent::Reset } else { Intent::Refund };
    run.world.note(Some(action.node), format_args!("{action:?}: {acted:?}"));
    for other in (0..run.scenario.nodes).filter(|other| *other != action.node) {
        let here = run.clone();
        run.world.after(action.heard, move || {
            if let Some(limiter) = here.limiter(other) {
                limiter.forget(after, &node::request(&[(action.limit, action.key)], None), &|_| true);
            }
        });
    }
}

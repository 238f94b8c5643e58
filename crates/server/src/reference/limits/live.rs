//! The bounds of what the admin API does at run time: live entries, candidates, and trying things out.

use super::{Row, bytes, number, seconds};
use crate::bounds::*;

pub(super) fn live_actions() -> Vec<Row> {
    vec![
        ("live entries of one kind, such as clients that are blocked", number(LIVE_ENTRIES_MAX)),
        (
            "live entries on Redis, with those that have ended or were removed in the last hour",
            number(LIVE_SHARED_MAX),
        ),
        ("other limits with the key of a request that is looked up", number(OTHER_LIMITS_MAX)),
        (
            "buckets of one override that are written in its numbers when it is added or ends; the others are when something \
             is taken from them",
            number(RENUMBERED_BUCKETS_MAX),
        ),
        (
            "time that the start waits for the live entries, unless reading them fails",
            seconds(LIVE_ENTRIES_WAIT),
        ),
        ("candidates at once", number(CANDIDATES_MAX)),
        (
            "candidates that are kept, with those that have ended; one more makes the oldest of these be forgotten",
            number(CANDIDATES_KEPT_MAX),
        ),
        ("duration of a candidate", seconds(CANDIDATE_TIME_MAX)),
        (
            "comparisons of one candidate on one node that wait for the store; beyond it, decisions are not compared",
            number(CANDIDATE_WAITING_MAX),
        ),
        ("steps of half a minute in the report of a candidate", number(CANDIDATE_STEPS_MAX as usize)),
        ("streams of the overview at once", number(OVERVIEW_STREAMS_MAX)),
        ("duration of such a stream", seconds(OVERVIEW_STREAM_TIME_MAX)),
    ]
}

pub(super) fn trials() -> Vec<Row> {
    vec![
        (
            "of the calls that compute for long, simulations and explanations by another policy",
            number(TRIALS_MAX),
        ),
        (
            "calls that wait for their turn to try a policy out; one more is refused with 429",
            number(TRIALS_WAITING_MAX),
        ),
        (
            "time that these wait for their turn, and that a simulation or an explanation takes in all",
            seconds(TRIAL_TIME_MAX),
        ),
        (
            "limits and burst detectors of a policy that is not in force by which a request is explained",
            number(EXPLANATION_ENTRIES_MAX),
        ),
        (
            "such an explanation; that of a long request by many limits is refused sooner",
            bytes(EXPLANATION_BYTES_MAX),
        ),
        ("duration of a simulation", seconds(SIMULATION_TIME_MAX)),
        ("keys of a simulation", number(SIMULATION_KEYS_MAX)),
        (
            "decisions of a simulation, as lines; as JSON a sixteenth of it; the others are counted",
            bytes(SIMULATION_BYTES_MAX),
        ),
    ]
}

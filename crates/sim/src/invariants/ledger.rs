//! The tokens of every bucket on the server, replayed by a naive model: from what the scenario did and from the numbers that
//! it put in force, not from the numbers and tokens that calls had.
//!
//! - A bucket never gives more than it holds at most. This is exact, whatever fails: a server that loses its state may hold
//!   everything again, and two masters hold their tokens apart.
//! - A reset or a grant is executed once, and gives what it says.
//! - A bucket is charged in the numbers that are in force for it at the node, and in no others.
//! - Where nothing fails and nothing is leased, a bucket that refuses holds too little: no token is lost.

use std::collections::BTreeSet;

use tidegate_core::Nanos;
use tidegate_redis::{CallOutcome, CallVerb, StoreMode};

use super::account::{Account, AccountBound, CallInstants};
use super::in_force::NumbersInForce;
use super::naive_bucket::NaiveNumbers;
use super::served::{ServedCall, ServedEntry, ServerEvent, TaskPurpose};
use crate::START;
use crate::run::RunNotes;
use crate::scenario::Scenario;

/// Replays what happened on the server. A policy that is edited carries its buckets over by other rules, so worlds with
/// edits are left to the envelope.
pub(super) fn check_ledger(
    scenario: &Scenario,
    notes: &RunNotes,
    events: &[ServerEvent],
    violations: &mut Vec<String>,
) {
    if !scenario.edits.is_empty() {
        return;
    }
    let in_force = NumbersInForce::new(scenario, notes);
    let buckets = scenario.all_buckets().count();
    let accounts =
        |bound| (0..buckets).map(|bucket| Some(Account::new(in_force.plain(bucket)?, bound))).collect();
    let (most, least) = (accounts(AccountBound::Most), accounts(AccountBound::Least));
    let old = Vec::new();
    let mut ledger = Ledger {
        in_force,
        most,
        old,
        least,
        latest: Nanos::ZERO,
        acted: BTreeSet::new(),
        told: BTreeSet::new(),
        violations,
    };
    let is_exact = scenario.faults.is_empty() && scenario.mode == StoreMode::Strict;
    for event in events {
        match event {
            ServerEvent::Call(call) => ledger.serve(call, is_exact),
            ServerEvent::Lost(bucket) => ledger.lose(*bucket),
            ServerEvent::Split => {
                ledger.old = ledger.most.clone();
                ledger.lose(None);
            }
            ServerEvent::Merged => ledger.old.clear(),
        }
    }
}

struct Ledger<'r, 'v> {
    in_force: NumbersInForce<'r>,
    /// The most that each bucket can hold. Windows and logs have no account.
    most: Vec<Option<Account>>,
    /// The same on a master that was replaced.
    old: Vec<Option<Account>>,
    /// The least that each bucket can hold, as long as nothing fails.
    least: Vec<Option<Account>>,
    /// The latest instant that the server's clock has shown.
    latest: Nanos,
    /// The actions that were executed.
    acted: BTreeSet<usize>,
    /// The buckets about which something was said: what follows from one mistake is not said again.
    told: BTreeSet<usize>,
    violations: &'v mut Vec<String>,
}

impl Ledger<'_, '_> {
    fn serve(&mut self, call: &ServedCall, is_exact: bool) {
        self.latest = self.latest.max(call.at);
        if call.outcome == CallOutcome::Refused && call.verb == CallVerb::Take && is_exact {
            self.check_refusal(call);
        }
        if call.outcome != CallOutcome::Done || call.verb == CallVerb::Peek {
            return;
        }
        let is_asked_for = call.verb != CallVerb::Refund || self.is_asked_for(call);
        for entry in &call.entries {
            let Some(numbers) = self.numbers(call, entry) else { continue };
            match call.verb {
                CallVerb::Take => self.take(call, entry, numbers),
                CallVerb::HandBack => {
                    // As if the charge had never been made: what was refilled since is not handed back.
                    let since = numbers.refill(call.at.saturating_sub(entry.charged_at));
                    let most = (numbers.tokens(entry.cost) - since).max(0);
                    self.give(call, entry, numbers, (most, 0));
                }
                _ if is_asked_for => self.act(call, entry, numbers),
                _ => {}
            }
        }
    }

    /// The numbers in which an entry is charged; says so if they are not in force. `None` if it is no token bucket.
    fn numbers(&mut self, call: &ServedCall, entry: &ServedEntry) -> Option<NaiveNumbers> {
        let ServedEntry { bucket, limit, .. } = entry;
        let hundredths = match (call.purpose, call.verb) {
            (TaskPurpose::Upkeep, _) | (_, CallVerb::HandBack) => {
                self.in_force.recently_used(*bucket, call.node, call.sent)
            }
            _ => self.in_force.may_be_used(*bucket, call.node, (call.began, call.sent)),
        };
        let numbers = self.in_force.which(*bucket, limit, &hundredths);
        let is_well =
            numbers.is_some() || (self.most[*bucket].is_none() && self.in_force.is_plain(*bucket, limit));
        if !is_well {
            let what = format!("{:?} in the numbers {limit:?}, which are not in force", call.verb);
            self.tell(call, *bucket, &what);
        }
        numbers
    }

    fn take(&mut self, call: &ServedCall, entry: &ServedEntry, numbers: NaiveNumbers) {
        let taken = numbers.tokens(entry.cost) + numbers.tokens(entry.leased);
        let known = self.in_force.known(entry.bucket, call.node, call.sent);
        let when = self.instants(call, entry);
        if let Some(Some(account)) = self.least.get_mut(entry.bucket) {
            account.take(taken, (numbers, &known), when);
        }
        let account = self.on_master(call).get_mut(entry.bucket).and_then(Option::as_mut);
        let missing = account.map_or(0, |account| account.take(taken, (numbers, &known), when));
        if missing > 0 {
            let (tokens, missing) = (entry.cost + entry.leased, missing as f64 / numbers.tokens(1) as f64);
            self.tell(
                call,
                entry.bucket,
                &format!("{tokens} tokens are taken, {missing:.6} more than it held"),
            );
        }
    }

    /// Gives at most so much and at least so much.
    fn give(
        &mut self,
        call: &ServedCall,
        entry: &ServedEntry,
        numbers: NaiveNumbers,
        (most, least): (i128, i128),
    ) {
        let known = self.in_force.known(entry.bucket, call.node, call.sent);
        let when = self.instants(call, entry);
        if let Some(Some(account)) = self.on_master(call).get_mut(entry.bucket) {
            account.give(most, (numbers, &known), when);
        }
        if let Some(Some(account)) = self.least.get_mut(entry.bucket) {
            account.give(least, (numbers, &known), when);
        }
    }

    /// A reset, a grant or a renumbering, as the scenario says it.
    fn act(&mut self, call: &ServedCall, entry: &ServedEntry, numbers: NaiveNumbers) {
        let given = match call.purpose {
            TaskPurpose::Action { tokens: Some(tokens), .. } => numbers.tokens(tokens),
            TaskPurpose::Action { tokens: None, .. } => {
                if let Some(Some(account)) = self.on_master(call).get_mut(entry.bucket) {
                    account.lose(numbers);
                }
                numbers.capacity()
            }
            _ => 0,
        };
        self.give(call, entry, numbers, (given, given));
    }

    /// Says so if tokens are put into buckets that no action of the scenario gives, or not so many, or once more.
    fn is_asked_for(&mut self, call: &ServedCall) -> bool {
        let wanted = match call.purpose {
            TaskPurpose::Action { number, .. } if !self.acted.insert(number) => {
                Err("a reset or a grant once more")
            }
            TaskPurpose::Action { tokens, .. } => Ok(tokens),
            TaskPurpose::Renumbering => Ok(Some(0)),
            TaskPurpose::Request | TaskPurpose::Upkeep => Err("a reset or a grant that nobody asked for"),
        };
        let is_as_said = |tokens: u32| call.entries.iter().all(|entry| entry.cost == tokens);
        let wrong = match wanted {
            Err(wrong) => Some(wrong),
            // How a reset is written is up to the store.
            Ok(tokens) => {
                tokens.filter(|&tokens| !is_as_said(tokens)).map(|_| "a grant of other tokens than it says")
            }
        };
        if let (Some(wrong), Some(entry)) = (wrong, call.entries.first()) {
            self.tell(call, entry.bucket, wrong);
        }
        wrong.is_none()
    }

    /// A call is refused if a bucket holds less than it takes.
    fn check_refusal(&mut self, call: &ServedCall) {
        let mut held = Vec::new();
        for entry in &call.entries {
            let (Some(numbers), Some(account)) = (self.numbers(call, entry), &self.least[entry.bucket])
            else {
                // A window or a log may have refused it.
                return;
            };
            let left = account.held(numbers, self.instants(call, entry)) - numbers.tokens(entry.cost);
            if left < 0 {
                return;
            }
            held.push(format!("{} tokens of bucket {}", entry.cost, entry.bucket));
        }
        if let Some(entry) = call.entries.first() {
            self.tell(
                call,
                entry.bucket,
                &format!("{} are refused, although they are there", held.join(" and ")),
            );
        }
    }

    fn instants(&self, call: &ServedCall, entry: &ServedEntry) -> CallInstants {
        CallInstants { now: call.at, migrated_at: entry.migrated_at, latest: self.latest }
    }

    fn lose(&mut self, bucket: Option<usize>) {
        for (number, account) in self.most.iter_mut().enumerate() {
            if let (true, Some(account), Some(plain)) =
                (bucket.is_none_or(|bucket| bucket == number), account, self.in_force.plain(number))
            {
                account.lose(plain);
            }
        }
    }

    fn on_master(&mut self, call: &ServedCall) -> &mut Vec<Option<Account>> {
        if call.on_old && !self.old.is_empty() { &mut self.old } else { &mut self.most }
    }

    fn tell(&mut self, call: &ServedCall, bucket: usize, what: &str) {
        if self.told.insert(bucket) {
            let (at, name) = (call.at.saturating_sub(START), self.in_force.name(bucket));
            self.violations
                .push(format!("bucket {bucket} ({name}) on the server at {at}, node {}: {what}", call.node));
        }
    }
}

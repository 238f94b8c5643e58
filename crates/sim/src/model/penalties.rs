//! The list of penalties on the model server.

use std::collections::BTreeMap;
use std::ops::Bound;

use tidegate_core::Nanos;
use tidegate_redis::{PenaltyListAnswer, PenaltyListCall, PenaltyListOperation};

use super::{Model, OutOfMemory};

/// By id: when the penalty ends, and its text. What has ended stays until something is added.
pub(super) type ListedPenaltyMap = BTreeMap<u128, (Nanos, Vec<u8>)>;

impl Model {
    /// Changes or reads the list of penalties at the server's `now`, or at the instant that the call gives.
    ///
    /// # Errors
    /// When it would have to write and there is no memory left.
    pub fn list_penalties(
        &mut self,
        call: &PenaltyListCall,
        now: Nanos,
    ) -> Result<PenaltyListAnswer, OutOfMemory> {
        let now = Nanos::new(call.at.unwrap_or(now).get() / 1_000_000 * 1_000_000);
        let reads = matches!(call.operation, PenaltyListOperation::Page { .. });
        if self.out_of_memory && !reads {
            return Err(OutOfMemory);
        }
        match &call.operation {
            PenaltyListOperation::Page { after, most } => {
                let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
                let after = self.penalties.range((begin, Bound::Unbounded)).take(*most);
                Ok(PenaltyListAnswer::Page(after.map(|(&id, (_, text))| (id, text.clone())).collect()))
            }
            PenaltyListOperation::Remove(id) => {
                self.penalties.remove(id);
                Ok(PenaltyListAnswer::Changed(0))
            }
            PenaltyListOperation::Add { most, entries } => {
                self.penalties.retain(|_, (ends, _)| *ends > now);
                let mut without_room = 0;
                for entry in entries {
                    if self.penalties.len() < *most || self.penalties.contains_key(&entry.id) {
                        let lasts = Nanos::from_millis(entry.lasts.as_millis_ceil());
                        self.penalties.insert(entry.id, (now.saturating_add(lasts), entry.text.clone()));
                    } else {
                        without_room += 1;
                    }
                }
                Ok(PenaltyListAnswer::Changed(without_room))
            }
        }
    }
}

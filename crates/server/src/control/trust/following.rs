//! Follows the carrier: reads what is new into the trust book of this node.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use tidegate::engine::trust::TrustBook;
use tidegate::{Clock, Nanos};
use tidegate_database::LiveHead;
use tidegate_redis::WakeTopic;

use super::TrustBoard;
use super::carrier::{AccountNews, TrustCarrier};
use crate::control::api::ApiError;
use crate::control::carried::{Carried, CarriedPage, FollowLog};
use crate::node::Node;

/// How often accounts that have ended are dropped.
const TIDY_INTERVAL: Nanos = Nanos::from_secs(60 * 60);

/// Follows the carrier until the runtime ends. While it does not answer, what is known stays.
pub(in crate::control) async fn follow(node: Arc<Node>) {
    let Some(control) = node.control() else { return };
    let mut log = FollowLog::new(
        "what is known about users cannot be read; what was read before stays",
        "what is known about users can be read again",
    );
    loop {
        log.note(catch_up(&node).await);
        control.trust().place.wait(control.wake_ups(), WakeTopic::Trust).await;
    }
}

/// Reads what is new.
pub(super) async fn catch_up(node: &Node) -> Result<(), ApiError> {
    let (Some(control), Some(book)) = (node.control(), node.limiter().trust_book()) else { return Ok(()) };
    let board = control.trust();
    let _turn = board.place.turn().await;
    tidy(node, board, book);
    board.place.read(&FollowedAccounts { node, book }, node.clock().now()).await?;
    board.place.note_loaded();
    Ok(())
}

fn tidy(node: &Node, board: &TrustBoard, book: &TrustBook) {
    let now = node.clock().now();
    let mut last = board.tidied.lock().unwrap_or_else(PoisonError::into_inner);
    if last.is_none_or(|tidied| now.saturating_sub(tidied) > TIDY_INTERVAL) {
        *last = Some(now);
        book.drop_ended_accounts(node.clock().wall());
    }
}

/// The accounts of the carrier, and those in the trust book of this node.
struct FollowedAccounts<'n> {
    node: &'n Node,
    book: &'n TrustBook,
}

impl Carried for FollowedAccounts<'_> {
    type News = AccountNews;
    type Error = ApiError;

    fn sequence(news: &AccountNews) -> u64 {
        news.sequence
    }

    async fn page(&self, seen: LiveHead, after: u64) -> Result<Option<CarriedPage<AccountNews>>, ApiError> {
        TrustCarrier::of(self.node).news(seen, after).await
    }

    async fn take(&self, news: Vec<AccountNews>) {
        news.into_iter().for_each(|news| self.book.set_account(&news.user, news.account));
    }

    async fn replace(&self, all: Vec<AccountNews>) {
        // The last of a user counts: it may have been changed while everything was read.
        let last: HashMap<&str, _> = all.iter().map(|news| (news.user.as_str(), news.account)).collect();
        let known = last.into_iter().filter_map(|(user, account)| Some((user, account?)));
        self.book.replace_accounts(known);
    }
}

//! Follows the carrier: reads what is new into the trust book of this node.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate::engine::trust::{TrustAccount, TrustBook};
use tidegate::{Clock, Nanos};
use tidegate_database::LiveHead;

use super::carrier::TrustCarrier;
use crate::control::ControlPlane;
use crate::control::api::ApiError;
use crate::node::Node;

/// How often the carrier is asked for its last sequence: one small read.
const POLL_PAUSE: Duration = Duration::from_millis(200);

/// What has ended is kept by carriers for an hour; a node that heard nothing for this long reads everything anew.
const TOO_LONG: Nanos = Nanos::from_secs(30 * 60);

/// How often accounts that have ended are dropped.
const TIDY_INTERVAL: Nanos = Nanos::from_secs(60 * 60);

/// Follows the carrier until the runtime ends. While it does not answer, what is known stays.
pub(in crate::control) async fn follow(node: Arc<Node>) {
    let mut is_failing = false;
    loop {
        let caught_up = catch_up(&node).await;
        match (&caught_up, is_failing) {
            (Err(error), false) => {
                tracing::warn!(%error, "what is known about users cannot be read; what was read before stays");
            }
            (Ok(()), true) => tracing::info!("what is known about users can be read again"),
            _ => {}
        }
        is_failing = caught_up.is_err();
        tokio::time::sleep(POLL_PAUSE).await;
    }
}

/// Reads what is new.
pub(super) async fn catch_up(node: &Node) -> Result<(), ApiError> {
    let (Some(control), Some(book)) = (node.control(), node.limiter().trust_book()) else { return Ok(()) };
    let _turn = control.trust().catching_up.lock().await;
    tidy(node, control, book);
    read_news(node, control, book).await?;
    control.trust().loaded.send_replace(true);
    Ok(())
}

fn tidy(node: &Node, control: &ControlPlane, book: &TrustBook) {
    let now = node.clock().now();
    let mut seen = control.trust().seen();
    if seen.tidied.is_none_or(|tidied| now.saturating_sub(tidied) > TIDY_INTERVAL) {
        seen.tidied = Some(now);
        book.drop_ended_accounts(node.clock().wall());
    }
}

async fn read_news(node: &Node, control: &ControlPlane, book: &TrustBook) -> Result<(), ApiError> {
    let (board, carrier) = (control.trust(), TrustCarrier::of(node));
    let mut seen = {
        let mut known = board.seen();
        let now = node.clock().now();
        if known.answered.is_some_and(|answered| now.saturating_sub(answered) > TOO_LONG) {
            known.head = LiveHead::default();
        }
        known.head
    };
    // Filled anew if the epoch changes; put in place as a whole.
    let mut rebuilt: Option<HashMap<String, TrustAccount>> = None;
    loop {
        let Some(page) = carrier.news(seen).await? else { return Ok(()) };
        if page.head.epoch != seen.epoch {
            rebuilt = Some(HashMap::new());
            seen = LiveHead { epoch: page.head.epoch, sequence: 0 };
        }
        seen.sequence = page.news.last().map_or(seen.sequence, |news| news.sequence);
        if page.is_last {
            seen.sequence = seen.sequence.max(page.head.sequence);
        }
        for news in page.news {
            match (&mut rebuilt, news.account) {
                (Some(all), Some(account)) => _ = all.insert(news.user, account),
                (Some(all), None) => _ = all.remove(&news.user),
                (None, account) => book.set_account(&news.user, account),
            }
        }
        if page.is_last
            && let Some(all) = &rebuilt
        {
            book.replace_accounts(all.iter().map(|(user, account)| (user.as_str(), *account)));
        }
        if page.is_last || rebuilt.is_none() {
            let mut known = board.seen();
            (known.head, known.answered) = (seen, Some(node.clock().now()));
        }
        if page.is_last {
            return Ok(());
        }
    }
}

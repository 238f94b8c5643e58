//! Which rows of a list.

use std::net::IpAddr;

use crate::UnixMillis;
use crate::session::{SqlSession, SqlValue, stored_text};

/// Conditions that all must hold; the default lets everything through.
#[derive(Clone, Debug, Default)]
pub struct HistoryFilter {
    /// From this instant on.
    pub since: Option<UnixMillis>,
    /// Before this instant.
    pub until: Option<UnixMillis>,
    /// Who did it. Denials have nobody who did them.
    pub actor: Option<String>,
    /// One of these tenants: for instance a tenant and all below it.
    pub tenants: Option<Vec<String>>,
    /// The user.
    pub user: Option<String>,
    /// The address.
    pub ip: Option<IpAddr>,
    /// The limit.
    pub limit_name: Option<String>,
    /// The name of the event, or what it calls its kind.
    pub kind: Option<String>,
    /// A text that one of the texts of the row contains, whatever the case of its letters.
    pub text: Option<String>,
}

/// Which column says of which kind a row is.
#[derive(Clone, Copy, Debug)]
pub(super) enum KindMatch {
    /// Every kind is wanted.
    Any,
    Event,
    Kind,
}

/// A WHERE clause that grows.
#[derive(Debug, Default)]
pub(super) struct WhereClause {
    texts: Vec<String>,
    values: Vec<SqlValue>,
}

impl WhereClause {
    /// Adds a condition, in which each `?` stands for `value`.
    pub(super) fn add(&mut self, condition: &str, value: impl Into<SqlValue>) {
        self.values.push(value.into());
        self.texts.push(condition.replace('?', &format!("${}", self.values.len())));
    }

    /// The placeholder of one more value.
    pub(super) fn placeholder(&mut self, value: impl Into<SqlValue>) -> String {
        self.values.push(value.into());
        format!("${}", self.values.len())
    }

    /// Adds a condition whose placeholders are in it already.
    pub(super) fn add_text(&mut self, condition: String) {
        self.texts.push(condition);
    }

    /// The conditions, joined, and their values.
    pub(super) fn finish(self) -> (String, Vec<SqlValue>) {
        (self.texts.join(" AND "), self.values)
    }
}

impl HistoryFilter {
    /// The ways in which a row can be of the kind that is wanted. No row is so in two ways, and each has an index, which
    /// one condition with OR could not use.
    pub(super) fn kinds(&self) -> &'static [KindMatch] {
        match self.kind {
            None => &[KindMatch::Any],
            Some(_) => &[KindMatch::Event, KindMatch::Kind],
        }
    }

    /// The conditions for a table: the names of its columns for the time and the address.
    pub(super) fn conditions(
        &self,
        session: &SqlSession,
        kind: KindMatch,
        time: &str,
        ip: (&str, SqlValue),
    ) -> WhereClause {
        let mut conditions = WhereClause::default();
        match kind {
            KindMatch::Any => {}
            KindMatch::Event => conditions.add("event = ?", &self.kind),
            KindMatch::Kind => conditions.add("kind = ? AND event <> ?", &self.kind),
        }
        if let Some(since) = self.since {
            conditions.add(&format!("{time} >= ?"), since);
        }
        if let Some(until) = self.until {
            conditions.add(&format!("{time} < ?"), until);
        }
        if let Some(tenants) = &self.tenants {
            let tenants: Vec<String> = tenants.iter().map(|tenant| stored_text(tenant)).collect();
            let tenants = serde_json::to_string(&tenants).expect("texts can be written as JSON");
            conditions.add(one_of(session), tenants.as_str());
        }
        if self.ip.is_some() {
            conditions.add(&format!("{} = ?", ip.0), ip.1);
        }
        for (condition, value) in [("user_id = ?", &self.user), ("limit_name = ?", &self.limit_name)] {
            if value.is_some() {
                conditions.add(condition, value);
            }
        }
        if self.text.is_some() {
            conditions.add(contains(session), &self.text);
        }
        conditions
    }
}

/// The condition that the tenant is in a list. The list is one value, a JSON array, so that the statement is the same for
/// any number of tenants.
fn one_of(session: &SqlSession) -> &'static str {
    if session.is_postgres() {
        "tenant IN (SELECT jsonb_array_elements_text(CAST(? AS jsonb)))"
    } else {
        "tenant IN (SELECT value FROM json_each(?))"
    }
}

/// The condition of the filter `text`: the texts of a row, joined by spaces, contain it. Both tables have these columns.
fn contains(session: &SqlSession) -> &'static str {
    macro_rules! texts {
        () => {
            "lower(concat_ws(' ', event, kind, limit_name, endpoint, reason, node, user_id, client, tenant, bucket_key))"
        };
    }
    if session.is_postgres() {
        concat!("strpos(", texts!(), ", lower(?)) > 0")
    } else {
        concat!("instr(", texts!(), ", lower(?)) > 0")
    }
}

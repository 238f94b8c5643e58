//! Policies built in Rust, without a document's text.
//!
//! A builder makes the same tree that reading a text makes, so every check, hint and default of documents holds here
//! too.

use std::time::Duration;

use tidegate_core::{Algorithm, Nanos};
use tidegate_document::{DocumentNode, ValueKind};

use crate::document::algorithm_word;
use crate::{Policy, PolicyError, Problem, Span, Spanned, compile, read_node};

/// Builds a [`Policy`] limit by limit.
///
/// ```
/// use tidegate_policy::{LimitBuilder, PolicyBuilder};
///
/// let policy = PolicyBuilder::new()
///     .limit(LimitBuilder::per_second("per-address", 10).key(["ip"]).burst(20))
///     .limit(LimitBuilder::per_minute("searches", 30).key(["user"]).when("path", ["/search/**"]))
///     .block("ip", ["203.0.113.0/24"])
///     .build()?;
/// assert_eq!(policy.rules.rules().len(), 2);
///
/// let error = PolicyBuilder::new().limit(LimitBuilder::per_second("typo", 1).key(["usr"])).build().unwrap_err();
/// assert!(error.to_string().contains("did you mean `user`?"));
/// # Ok::<(), tidegate_policy::PolicyError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until `build`"]
pub struct PolicyBuilder {
    limits: Vec<DocumentNode>,
    allow: Vec<DocumentNode>,
    block: Vec<DocumentNode>,
    shadow: bool,
}

impl PolicyBuilder {
    /// A policy without limits.
    pub fn new() -> PolicyBuilder {
        PolicyBuilder::default()
    }

    /// Adds a limit. All limits that apply to a request must admit it.
    pub fn limit(mut self, limit: LimitBuilder) -> PolicyBuilder {
        self.limits.push(map(limit.members));
        self
    }

    /// Lets requests bypass all limits if a descriptor, such as `ip` or `header:x-internal`, has one of these values.
    pub fn allow<V: Into<String>>(
        mut self,
        descriptor: impl Into<String>,
        values: impl IntoIterator<Item = V>,
    ) -> PolicyBuilder {
        self.allow.push(map(vec![(descriptor.into(), texts(values))]));
        self
    }

    /// Refuses requests if a descriptor has one of these values.
    pub fn block<V: Into<String>>(
        mut self,
        descriptor: impl Into<String>,
        values: impl IntoIterator<Item = V>,
    ) -> PolicyBuilder {
        self.block.push(map(vec![(descriptor.into(), texts(values))]));
        self
    }

    /// Refuses nobody: decisions only say who would have been refused.
    pub fn shadow(mut self) -> PolicyBuilder {
        self.shadow = true;
        self
    }

    /// Checks everything and compiles it.
    ///
    /// # Errors
    /// Every problem, each with the path of its field: `limits[0].key[0]`.
    pub fn build(self) -> Result<Policy, PolicyError> {
        let mut members = vec![("version".to_owned(), number(1)), ("limits".to_owned(), list(self.limits))];
        for (name, entries) in [("allow", self.allow), ("block", self.block)] {
            if !entries.is_empty() {
                members.push((name.to_owned(), list(entries)));
            }
        }
        if self.shadow {
            members.push(("defaults".to_owned(), map(vec![("mode".to_owned(), text("shadow"))])));
        }
        let (document, mut problems) = read_node(&map(members));
        let (rules, more) = compile(&document, Nanos::ZERO);
        problems.extend(more);
        tidegate_document::complete(&mut problems, "");
        if problems.iter().any(Problem::is_error) {
            return Err(PolicyError { problems });
        }
        Ok(Policy { rules, warnings: problems })
    }
}

/// Builds one limit of a [`PolicyBuilder`]: a rate and whom it is for.
#[derive(Clone, Debug)]
#[must_use = "a limit does nothing until it is added to a policy"]
pub struct LimitBuilder {
    members: Vec<(String, DocumentNode)>,
}

impl LimitBuilder {
    /// `rate` tokens in each `window`, whole milliseconds long. State and metrics belong to the name.
    pub fn new(name: impl Into<String>, rate: u64, window: Duration) -> LimitBuilder {
        let sustained = vec![("rate".to_owned(), number(rate)), ("window".to_owned(), duration(window))];
        LimitBuilder {
            members: vec![("name".to_owned(), text(name)), ("sustained".to_owned(), map(sustained))],
        }
    }

    /// `rate` tokens a second.
    pub fn per_second(name: impl Into<String>, rate: u64) -> LimitBuilder {
        LimitBuilder::new(name, rate, Duration::from_secs(1))
    }

    /// `rate` tokens a minute.
    pub fn per_minute(name: impl Into<String>, rate: u64) -> LimitBuilder {
        LimitBuilder::new(name, rate, Duration::from_secs(60))
    }

    /// `rate` tokens an hour.
    pub fn per_hour(name: impl Into<String>, rate: u64) -> LimitBuilder {
        LimitBuilder::new(name, rate, Duration::from_secs(3_600))
    }

    /// Whom the limit is for: a bucket for each combination of these descriptors, such as `ip`, `user`, `tenant` or
    /// `header:x-api-key`. Without a key all requests share one bucket.
    pub fn key<D: Into<String>>(self, descriptors: impl IntoIterator<Item = D>) -> LimitBuilder {
        self.with("key", texts(descriptors))
    }

    /// The most tokens at once; as many as the rate unless this says otherwise.
    pub fn burst(self, capacity: u32) -> LimitBuilder {
        self.with("burst", map(vec![("capacity".to_owned(), number(capacity))]))
    }

    /// How the limit counts; a token bucket unless this says otherwise.
    pub fn algorithm(self, algorithm: Algorithm) -> LimitBuilder {
        self.with("algorithm", text(algorithm_word(algorithm)))
    }

    /// The limit applies only where a descriptor has one of these values. Several conditions must all hold.
    pub fn when<V: Into<String>>(
        mut self,
        descriptor: impl Into<String>,
        values: impl IntoIterator<Item = V>,
    ) -> LimitBuilder {
        let condition = (Spanned::new(descriptor.into(), Span::default()), texts(values));
        match self.members.iter_mut().find(|(name, _)| name == "match") {
            Some((_, DocumentNode { kind: ValueKind::Map(conditions), .. })) => conditions.push(condition),
            _ => self.members.push(("match".to_owned(), node(ValueKind::Map(vec![condition])))),
        }
        self
    }

    /// Of the limits of a group only the first one that matches applies.
    pub fn group(self, name: impl Into<String>) -> LimitBuilder {
        self.with("group", text(name))
    }

    /// Lets requests wait for tokens instead of refusing them: at most `depth` for one bucket, each at most `wait`.
    pub fn queue(self, depth: u32, wait: Duration) -> LimitBuilder {
        let bounds = vec![("max_depth".to_owned(), number(depth)), ("max_wait".to_owned(), duration(wait))];
        self.with("strategy", text("queue")).with("queue", map(bounds))
    }

    /// Admits requests beyond the limit, marked with this tag.
    pub fn degrade(self, tag: impl Into<String>) -> LimitBuilder {
        self.with("strategy", text("degrade")).with("degrade", map(vec![("tag".to_owned(), text(tag))]))
    }

    /// Refuses nobody by this limit: decisions only say whom it would have refused.
    pub fn shadow(self) -> LimitBuilder {
        self.with("mode", text("shadow"))
    }

    /// Sets a member; the last call counts.
    fn with(mut self, name: &str, value: DocumentNode) -> LimitBuilder {
        self.members.retain(|(member, _)| member != name);
        self.members.push((name.to_owned(), value));
        self
    }
}

/// A node that was written nowhere.
fn node(kind: ValueKind) -> DocumentNode {
    DocumentNode { kind, at: Span::default() }
}

fn text(text: impl Into<String>) -> DocumentNode {
    node(ValueKind::Text(text.into()))
}

fn number(number: impl ToString) -> DocumentNode {
    node(ValueKind::Number(number.to_string()))
}

fn list(items: Vec<DocumentNode>) -> DocumentNode {
    node(ValueKind::List(items))
}

fn texts<V: Into<String>>(values: impl IntoIterator<Item = V>) -> DocumentNode {
    list(values.into_iter().map(text).collect())
}

fn map(members: Vec<(String, DocumentNode)>) -> DocumentNode {
    let member = |(name, value)| (Spanned::new(name, Span::default()), value);
    node(ValueKind::Map(members.into_iter().map(member).collect()))
}

/// A duration as documents write it. One that is no whole number of milliseconds is refused by the document's own
/// check.
fn duration(span: Duration) -> DocumentNode {
    if span.subsec_nanos().is_multiple_of(1_000_000) {
        text(format!("{}ms", span.as_millis()))
    } else {
        text(format!("{span:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All of a limit but where it was written.
    fn limit_of(policy: &Policy) -> String {
        let rule = &policy.rules.rules()[0];
        format!("{} {:?} {:?} {:?} {}", rule.name, rule.group, rule.key, rule.strategy, rule.limit)
            + &rule.conditions.iter().map(|condition| format!(" {condition:?}")).collect::<String>()
    }

    #[test]
    fn a_policy_that_was_built_is_the_one_that_would_have_been_read() {
        let built = PolicyBuilder::new()
            .limit(
                LimitBuilder::new("search", 30, Duration::from_secs(60))
                    .key(["user", "ip"])
                    .burst(40)
                    .when("path", ["/search/**"])
                    .when("plan", ["free", "trial"])
                    .group("plans")
                    .queue(5, Duration::from_millis(1_500)),
            )
            .block("ip", ["203.0.113.0/24"])
            .build()
            .unwrap();
        let read = Policy::parse(
            "version: 1\n\
             limits:\n\
             - name: search\n\
            \x20 key: [user, ip]\n\
            \x20 sustained: { rate: 30, window: minute }\n\
            \x20 burst: { capacity: 40 }\n\
            \x20 match: { path: /search/**, plan: [free, trial] }\n\
            \x20 group: plans\n\
            \x20 strategy: queue\n\
            \x20 queue: { max_depth: 5, max_wait: 1500ms }\n\
             block:\n\
             - { ip: 203.0.113.0/24 }\n",
        )
        .unwrap();
        assert_eq!(limit_of(&built), limit_of(&read));
    }

    #[test]
    fn the_last_word_counts() {
        let limit = LimitBuilder::per_second("a", 1).burst(2).burst(3).degrade("slow").shadow();
        let policy = PolicyBuilder::new().limit(limit).build().unwrap();
        assert_eq!(policy.rules.rules()[0].limit.capacity(), 3);
    }

    #[test]
    fn every_problem_is_told_by_its_path_and_without_a_line() {
        let error = PolicyBuilder::new()
            .limit(LimitBuilder::per_second("a", 0).key(["usr"]))
            .limit(LimitBuilder::new("b", 1, Duration::from_nanos(1_500)))
            .build()
            .unwrap_err()
            .to_string();
        for part in ["limits[0].sustained.rate: ", "limits[0].key[0]: ", "limits[1].sustained.window: "] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(!error.contains("line 0"), "{error}");
    }
}

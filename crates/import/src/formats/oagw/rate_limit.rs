//! The `rate_limit` object in its three shapes: `rate`, `tokens_per_second`, or `sustained` and `burst`.

use crate::log::ImportLog;
use crate::source::{SourceFields, SourceValue};
use crate::terms::{
    Decimal, DraftCost, DraftTerms, ForeignAlgorithm, Unit, UnitWindow, capacity, cost, pace, window_pace,
};
use crate::yaml;

/// The bounds of a queue that has none in the document.
const QUEUE_DEPTH: u64 = 100;
const QUEUE_WAIT: &str = "5s";

/// A `rate_limit` object.
pub(crate) struct OagwRateLimit<'a> {
    pub(crate) item: SourceValue<'a>,
    /// `None` if it has no rate.
    pub(crate) terms: Option<DraftTerms>,
    /// The descriptor to count by; `tenant` by default.
    pub(crate) scope: String,
    /// `sharing`, as YAML.
    pub(crate) sharing: Option<(SourceValue<'a>, String)>,
    /// `budget`, as YAML.
    pub(crate) budget: Option<(SourceValue<'a>, String)>,
}

/// Reads the object; `None` if it cannot be used, with problems in the log.
pub(crate) fn read<'a>(item: &SourceValue<'a>, log: &mut ImportLog) -> Option<OagwRateLimit<'a>> {
    let mut fields = SourceFields::open(item, log)?;
    let known = log.problems.len();
    let sharing = choice(&mut fields, "sharing", &["private", "inherit", "enforce"], log);
    let scope = choice(&mut fields, "scope", &["global", "tenant", "user", "ip", "route"], log);
    let budget = fields.take("budget").and_then(|budget| Some((budget.clone(), read_budget(&budget, log)?)));
    let terms = read_terms(&mut fields, log);
    fields.finish(log);
    if log.problems.len() > known {
        return None;
    }
    let scope = scope.map_or_else(|| "tenant".to_owned(), |(_, scope)| scope);
    Some(OagwRateLimit { item: item.clone(), terms, scope, sharing, budget })
}

/// Reads an object with only a cost, as routes have.
pub(crate) fn read_cost_only(item: &SourceValue<'_>, log: &mut ImportLog) -> Option<u32> {
    let mut fields = SourceFields::open(item, log)?;
    let found = fields.need("cost", "`cost`, or a rate", log);
    let found = found.and_then(|found| cost(found.positive(log)?, &found, log));
    fields.finish(log);
    found
}

/// Reads a member that must be one of these words.
fn choice<'a>(
    fields: &mut SourceFields<'a>,
    name: &str,
    words: &[&str],
    log: &mut ImportLog,
) -> Option<(SourceValue<'a>, String)> {
    let item = fields.take(name)?;
    let text = item.text(log)?;
    if !words.contains(&text.as_str()) {
        log.problem(&item, format!("this {name} is not known"), &words.join(", "));
        return None;
    }
    Some((item, text))
}

fn read_terms(fields: &mut SourceFields<'_>, log: &mut ImportLog) -> Option<DraftTerms> {
    let item = fields.item.clone();
    let algorithm = choice(fields, "algorithm", &["token_bucket", "sliding_window"], log);
    let (rate, burst) = read_numbers(fields, log);
    let cost_of = fields.take("cost").and_then(|found| cost(found.positive(log)?, &found, log));
    let strategy = read_strategy(fields, log);
    let headers = fields.flag("response_headers", log);
    let (rate, window, origin) = rate?;
    let sliding = algorithm.is_some_and(|(_, algorithm)| algorithm == "sliding_window");
    let pace =
        if sliding { window_pace(rate, window, &origin, log) } else { pace(rate, window, &origin, log) };
    let mut terms = DraftTerms::bucket(pace?, None);
    terms.cost = cost_of.filter(|&cost| cost > 1).map_or(DraftCost::One, DraftCost::Plain);
    terms.strategy = strategy;
    terms.response_headers = headers.unwrap_or(true);
    match burst {
        Some((_, origin)) if sliding => {
            let why = "a sliding window has no burst: `sustained` is its whole limit";
            log.note(&origin, "the burst is left out", why);
        }
        Some((burst, origin)) => terms.burst = Some(capacity(burst, &origin, log)?),
        // In the source the capacity defaults to the rate, and a fractional rate gets a longer window here; so the
        // capacity is written out.
        None if rate.whole().is_none() && !sliding => {
            let whole = u32::try_from(rate.floor().max(1)).unwrap_or(u32::MAX);
            log.note(&origin, format!("the capacity becomes {whole}"), "capacities are whole numbers");
            terms.burst = Some(whole);
        }
        None => {}
    }
    if sliding {
        terms.algorithm = ForeignAlgorithm::SlidingWindow;
    }
    terms.checked(&item, log)
}

type Rate<'a> = Option<(Decimal, UnitWindow, SourceValue<'a>)>;
type Size<'a> = Option<(Decimal, SourceValue<'a>)>;

/// Rate and burst, from any of the three shapes.
fn read_numbers<'a>(fields: &mut SourceFields<'a>, log: &mut ImportLog) -> (Rate<'a>, Size<'a>) {
    let item = fields.item.clone();
    let shapes = ["sustained", "rate", "tokens_per_second"];
    if shapes.iter().filter(|name| item.has(name)).count() > 1 {
        log.problem(&item, "there is more than one rate", "one of `sustained`, `rate`, `tokens_per_second`");
    }
    let rate = if let Some(sustained) = fields.take("sustained") {
        SourceFields::open(&sustained, log).and_then(|mut inner| {
            let rate = inner.need("rate", "tokens per window", log);
            let window = read_window(&mut inner, log);
            inner.finish(log);
            let rate = rate?;
            Some((rate.positive(log)?, window?, rate))
        })
    } else if let Some(rate) = fields.take("rate") {
        let window = read_window(fields, log);
        rate.positive(log).and_then(|number| Some((number, window?, rate)))
    } else {
        let rate = fields.take("tokens_per_second");
        rate.and_then(|rate| Some((rate.positive(log)?, UnitWindow::SECOND, rate)))
    };
    let mut burst = fields.take_any(&["capacity", "bucket_capacity"]);
    if let Some(mut inner) = fields.take("burst").and_then(|found| SourceFields::open(&found, log)) {
        let within = inner.take("capacity");
        if let (Some(beside), Some(_)) = (&burst, &within) {
            log.note(beside, "this capacity is left out", "`burst.capacity` is used");
        }
        burst = within.or(burst);
        inner.finish(log);
    }
    (rate, burst.and_then(|burst| Some((burst.positive(log)?, burst))))
}

fn read_window(fields: &mut SourceFields<'_>, log: &mut ImportLog) -> Option<UnitWindow> {
    let Some(item) = fields.take("window") else { return Some(UnitWindow::SECOND) };
    let unit = Unit::from_word(&item.text(log)?);
    if unit.is_none() {
        log.problem(&item, "this window is not known", "second, minute, hour or day");
    }
    unit.map(|unit| UnitWindow { count: 1, unit })
}

fn read_strategy(fields: &mut SourceFields<'_>, log: &mut ImportLog) -> Vec<(&'static str, String)> {
    let strategy = choice(fields, "strategy", &["reject", "queue", "degrade"], log);
    match strategy {
        Some((item, strategy)) if strategy == "queue" => {
            let queue = read_queue(fields, &item, log);
            vec![("strategy", strategy), ("queue", queue)]
        }
        Some((_, strategy)) if strategy == "degrade" => {
            let why = "a response is only marked as degraded; the gateway decides what to do with it";
            fields.leave_out("degrade", why, log);
            vec![("strategy", strategy), ("degrade", yaml::map(&[("tag", "degraded".to_owned())]))]
        }
        _ => Vec::new(),
    }
}

/// The bounds of the queue. Missing ones get the gateway's defaults.
fn read_queue(fields: &mut SourceFields<'_>, strategy: &SourceValue<'_>, log: &mut ImportLog) -> String {
    let found = fields.take("queue");
    if found.is_none() {
        let what = format!("the queue holds {QUEUE_DEPTH} requests for up to {QUEUE_WAIT}");
        log.note(strategy, what, "a queue needs bounds, and the document has none");
    }
    let (mut depth, mut wait) = (QUEUE_DEPTH, QUEUE_WAIT.to_owned());
    if let Some(mut queue) = found.and_then(|found| SourceFields::open(&found, log)) {
        if let Some(item) = queue.take("max_depth") {
            depth = item.whole(log).unwrap_or(depth);
        }
        if let Some(item) = queue.take_any(&["timeout", "max_wait"]) {
            let text = item.text(log).unwrap_or_default();
            // A number without a unit is in seconds.
            wait = if text.bytes().all(|byte| byte.is_ascii_digit()) { format!("{text}s") } else { text };
            let number = wait.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            if !["ms", "s", "m"].contains(&&wait[number.len()..]) || number.parse::<u32>().is_err() {
                log.problem(&item, "this is not a duration", "a duration such as 5s");
            }
        }
        queue.finish(log);
    }
    yaml::map(&[("max_depth", depth.to_string()), ("max_wait", wait)])
}

fn read_budget(item: &SourceValue<'_>, log: &mut ImportLog) -> Option<String> {
    let mut fields = SourceFields::open(item, log)?;
    let mode = choice(&mut fields, "mode", &["unlimited", "allocated", "shared"], log);
    let total = fields.take("total").map(|total| total.whole(log));
    let ratio = fields.take("overcommit_ratio").map(|ratio| read_ratio(&ratio, log));
    let mut mode = mode.map(|(_, mode)| mode);
    if mode.is_none() && fields.item.has("shared_pool") {
        log.note(
            item,
            "the budget becomes `shared`",
            "the children share one pool, first come, first served",
        );
        mode = Some("shared".to_owned());
    }
    let why = "a shared budget guarantees nothing to a child: use an `allocated` one and give each child its own rate";
    fields.leave_out("guaranteed", why, log);
    fields.leave_out("shared_pool", "the size of the pool is `total`", log);
    fields.finish(log);
    let mut members = vec![("mode", mode.unwrap_or_else(|| "unlimited".to_owned()))];
    if let Some(total) = total {
        members.push(("total", total?.to_string()));
    }
    if let Some(ratio) = ratio {
        members.push(("overcommit_ratio", ratio?));
    }
    Some(yaml::map(&members))
}

fn read_ratio(item: &SourceValue<'_>, log: &mut ImportLog) -> Option<String> {
    let number = item.positive(log)?;
    let text = item.text(log)?;
    let is_two = number == Decimal::from(2);
    if number.floor() != 1 && !is_two {
        log.problem(item, "this ratio is out of range", "1.0 to 2.0");
        return None;
    }
    Some(text)
}

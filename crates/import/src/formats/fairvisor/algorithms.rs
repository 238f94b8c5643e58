//! `algorithm` and `algorithm_config` of a rule.

use crate::log::ImportLog;
use crate::source::{SourceFields, SourceValue};
use crate::terms::{Decimal, DraftCost, DraftTerms, Unit, UnitWindow, capacity, cost, pace};

use super::descriptor;

type Parts = Vec<(&'static str, DraftTerms)>;

/// The header in which Fairvisor expects the tokens of a request.
const TOKEN_HEADER: &str = "header:x-token-estimate";

/// Fairvisor's default for the tokens of a response.
const COMPLETION_TOKENS: u32 = 1_000;

/// The terms of a rule, each with a suffix for the name of its limit.
pub(crate) fn read(rule: &mut SourceFields<'_>, log: &mut ImportLog) -> Option<Parts> {
    let algorithm = rule.need("algorithm", "token_bucket, cost_based or token_bucket_llm", log);
    let config = rule.need("algorithm_config", "the numbers of the limit", log);
    let algorithm = algorithm.and_then(|item| Some((item.text(log)?, item)));
    let ((algorithm, origin), config) = (algorithm?, config?);
    let mut fields = SourceFields::open(&config, log)?;
    let parts = match algorithm.as_str() {
        "token_bucket" => token_bucket(&mut fields, log),
        "cost_based" => cost_based(&mut fields, log),
        "token_bucket_llm" => language_model(&mut fields, log),
        _ => {
            log.problem(
                &origin,
                "this algorithm is not known",
                "token_bucket, cost_based or token_bucket_llm",
            );
            return None;
        }
    };
    fields.finish(log);
    parts?.into_iter().map(|(suffix, terms)| Some((suffix, terms.checked(&config, log)?))).collect()
}

fn token_bucket(fields: &mut SourceFields<'_>, log: &mut ImportLog) -> Option<Parts> {
    let item = fields.item.clone();
    let rate = fields.take("tokens_per_second");
    match (&rate, fields.take("rps")) {
        (Some(_), Some(alias)) => log.note(&alias, "`rps` is left out", "`tokens_per_second` is used"),
        (None, Some(alias)) => return bucket_of(&alias, fields, log),
        (Some(_), None) => {}
        (None, None) => log.problem(&item, "`tokens_per_second` is missing", "tokens per second, or `rps`"),
    }
    bucket_of(&rate?, fields, log)
}

fn bucket_of(rate: &SourceValue<'_>, fields: &mut SourceFields<'_>, log: &mut ImportLog) -> Option<Parts> {
    let number = rate.positive(log);
    let burst = fields.need("burst", "the capacity of the bucket", log);
    let burst = burst.and_then(|burst| Some((burst.positive(log)?, burst)));
    if let (Some(number), Some((size, origin))) = (number, &burst)
        && size.is_below(number)
    {
        let why = "Fairvisor refuses a burst below the rate; here it is a bucket that holds less than the rate \
                   brings in one second";
        log.note(origin, "the burst is below the rate", why);
    }
    let pace = number.and_then(|number| pace(number, UnitWindow::SECOND, rate, log));
    let burst = burst.and_then(|(size, origin)| capacity(size, &origin, log));
    let cost = read_cost("cost_source", fields, log);
    Some(vec![("", DraftTerms { cost: cost?, ..DraftTerms::bucket(pace?, Some(burst?)) })])
}

/// A budget for each period, which the costs of requests use up.
fn cost_based(fields: &mut SourceFields<'_>, log: &mut ImportLog) -> Option<Parts> {
    let budget = fields.need("budget", "what a period grants", log);
    let budget = budget.and_then(|budget| Some((capacity(budget.positive(log)?, &budget, log)?, budget)));
    let period = fields.need("period", "5m, 1h, 1d or 7d", log);
    let window = period.and_then(|period| {
        let found = match period.text(log)?.as_str() {
            "5m" => Some(UnitWindow { count: 5, unit: Unit::Minute }),
            "1h" => Some(UnitWindow { count: 1, unit: Unit::Hour }),
            "1d" => Some(UnitWindow::DAY),
            "7d" => Some(UnitWindow { count: 7, unit: Unit::Day }),
            _ => None,
        };
        if found.is_none() {
            log.problem(&period, "this period is not known", "5m, 1h, 1d or 7d");
        }
        found
    });
    for action in fields.take("staged_actions").map(|actions| actions.list(log)).unwrap_or_default() {
        read_stage(&action, log);
    }
    let cost = read_cost("cost_key", fields, log);
    let ((budget, origin), window, cost) = (budget?, window?, cost?);
    let pace = pace(u64::from(budget).into(), window, &origin, log)?;
    Some(vec![("", DraftTerms { cost, ..DraftTerms::counter(pace, &origin, log) })])
}

/// A stage of a budget. Only the last one, which refuses what exceeds the budget, is what a limit does anyway.
fn read_stage(item: &SourceValue<'_>, log: &mut ImportLog) {
    let Some(mut stage) = SourceFields::open(item, log) else { return };
    let action = stage.text("action", log);
    let percent = stage.take("threshold_percent").and_then(|percent| percent.positive(log));
    if action.as_deref() == Some("reject") && percent == Some(Decimal::from(100)) {
        return stage.finish(log);
    }
    let why = "a limit only admits or refuses; use the metrics for warnings before it is used up";
    log.note(item, "this stage is left out", why);
}

/// Tokens of a language model: a token bucket per minute and a fixed window per day.
fn language_model(fields: &mut SourceFields<'_>, log: &mut ImportLog) -> Option<Parts> {
    let minute = fields.need("tokens_per_minute", "tokens per minute", log);
    let minute = minute.and_then(|item| Some((item.positive(log)?, item)));
    let burst = fields.take("burst_tokens");
    let burst = burst.map(|burst| capacity(burst.positive(log)?, &burst, log));
    // In the source the capacity defaults to the rate, and a fractional rate gets a longer window here; so the
    // capacity is written out.
    let whole =
        minute.as_ref().filter(|(rate, _)| rate.whole().is_none()).map(|(rate, _)| rate.floor().max(1));
    let burst = burst.unwrap_or_else(|| whole.and_then(|whole| u32::try_from(whole).ok()));
    let minute = minute.and_then(|(rate, item)| pace(rate, UnitWindow::MINUTE, &item, log));
    let day = fields.take("tokens_per_day");
    let day = day.map(|day| Some((pace(day.positive(log)?, UnitWindow::DAY, &day, log)?, day)));
    let completion = fields.take("default_max_completion");
    let cost = read_estimate(fields, completion, log)?;
    for name in ["max_tokens_per_request", "max_prompt_tokens", "max_completion_tokens"] {
        fields.leave_out(name, "only the capacity bounds a single request", log);
    }
    let mut parts = vec![("", DraftTerms { cost: cost.clone(), ..DraftTerms::bucket(minute?, burst) })];
    if let Some(day) = day {
        let (pace, origin) = day?;
        parts.push(("/day", DraftTerms { cost, ..DraftTerms::counter(pace, &origin, log) }));
    }
    Some(parts)
}

/// The cost of a request: from the header with an estimate, if that is where the source finds it.
fn read_estimate(
    fields: &mut SourceFields<'_>,
    completion: Option<SourceValue<'_>>,
    log: &mut ImportLog,
) -> Option<DraftCost> {
    let item = fields.item.clone();
    let default = match &completion {
        Some(item) => item.positive(log).and_then(|number| cost(number, item, log))?,
        None => COMPLETION_TOKENS,
    };
    let source = fields.take("token_source").and_then(|source| SourceFields::open(&source, log));
    let estimator = source.and_then(|mut source| {
        let estimator = source.take("estimator").and_then(|item| Some((item.text(log)?, item)));
        source.finish(log);
        estimator
    });
    if let Some((_, origin)) = estimator.as_ref().filter(|(estimator, _)| estimator != "header_hint") {
        log.note(origin, "`estimator` is left out", "bodies are not read, so their tokens are not counted");
    } else if estimator.is_some() {
        let why = "the tokens of the response are not added: send an estimate for prompt and response, and refund what \
                   was not used";
        log.note(&item, "the cost is the value of the header X-Token-Estimate", why);
        return Some(DraftCost::From { descriptor: TOKEN_HEADER.to_owned(), default });
    }
    if let Some(completion) = completion {
        let why = "the tokens of a response are not estimated: the `cost` of a request counts them";
        log.note(&completion, "`default_max_completion` is left out", why);
    }
    let why = "bodies are not read: send the number of tokens as `cost`, and refund what was not used";
    log.note(&item, "a request costs 1 unless it has a `cost`", why);
    Some(DraftCost::One)
}

/// The cost of a request: a number, or the descriptor that has it.
fn read_cost(source_name: &str, fields: &mut SourceFields<'_>, log: &mut ImportLog) -> Option<DraftCost> {
    let source = fields.take(source_name).and_then(|item| Some((item.text(log)?, item)));
    let fixed = fields.take("fixed_cost");
    let default = fields.take("default_cost");
    match source.filter(|(source, _)| source != "fixed") {
        None => {
            if let Some(default) = default.filter(|default| default.excerpt() != "`1`") {
                log.note(&default, "`default_cost` is left out", "the cost is fixed, so it needs no default");
            }
            let Some(fixed) = fixed else { return Some(DraftCost::One) };
            match cost(fixed.positive(log)?, &fixed, log)? {
                1 => Some(DraftCost::One),
                cost => Some(DraftCost::PerCall(cost)),
            }
        }
        Some((source, origin)) => {
            if let Some(fixed) = fixed {
                log.note(&fixed, "`fixed_cost` is left out", "the cost comes from the request");
            }
            let default = default.map_or(Some(1), |item| cost(item.positive(log)?, &item, log));
            let what = "the cost in a request must be a whole number of at least 1";
            log.note_once(&origin, what, "for anything else the default is used");
            Some(DraftCost::From { descriptor: descriptor(&source, &origin, log)?, default: default? })
        }
    }
}

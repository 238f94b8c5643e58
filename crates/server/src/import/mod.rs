//! Policies from elsewhere: reads what other limiters are configured by, writes a native policy.
//!
//! Nothing is dropped silently. What has no counterpart, and what had to be interpreted, is a
//! [`ImportNote`]. Where a condition cannot be carried over, its limit comes disabled: it never applies to
//! more than it did. An item that cannot be understood is left out and noted, and the rest is carried
//! over; a document that cannot be understood is a [`Problem`], and so is one of which nothing is left.

mod csv;
mod decimal;
mod draft;
mod endpoints;
mod envoy;
mod fairvisor;
mod finish;
mod item;
mod limitador;
mod log;
mod oagw;
mod rules;
mod terms;
mod yaml;

use tidegate_document::{DocumentNode, Problem, Span};

use draft::Draft;
use item::SourceValue;
use log::ImportLog;
pub use log::ImportNote;

/// The largest document that is read.
const DOCUMENT_BYTES_MAX: usize = 4 << 20;

/// What a document is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ImportFormat {
    /// OAGW's `rate_limit` objects, routes and tenants.
    Oagw,
    /// Fairvisor's policy bundles and rule lists.
    Fairvisor,
    /// The descriptors of envoyproxy/ratelimit.
    Envoy,
    /// Limitador's list of limits.
    Limitador,
    /// Rows of a rule table, as CSV or JSON.
    Rules,
    /// Configurations by endpoint.
    Spec,
}

impl ImportFormat {
    /// Every format by its name on the command line, with a sentence about it.
    pub const NAMES: &'static [(&'static str, ImportFormat, &'static str)] = &[
        (
            "oagw",
            ImportFormat::Oagw,
            "OAGW rate_limit objects, upstreams, routes and tenant trees (JSON or YAML)",
        ),
        ("fairvisor", ImportFormat::Fairvisor, "Fairvisor policy bundles and rule lists (JSON or YAML)"),
        ("envoy", ImportFormat::Envoy, "envoyproxy/ratelimit domains and descriptors (YAML)"),
        ("limitador", ImportFormat::Limitador, "Limitador's list of limits (YAML)"),
        (
            "rules",
            ImportFormat::Rules,
            "rows of a rule table: key_pattern, scope, rate_per_second … (CSV or JSON)",
        ),
        (
            "endpoints",
            ImportFormat::Spec,
            "configurations by endpoint: limit_type, capacity, refill_rate … (JSON or YAML)",
        ),
    ];

    /// The format with that name.
    pub fn from_name(name: &str) -> Option<ImportFormat> {
        ImportFormat::NAMES.iter().find(|(known, ..)| *known == name).map(|(_, format, _)| *format)
    }

    /// What a document of this format must hold.
    fn expected(self) -> &'static str {
        match self {
            ImportFormat::Oagw => {
                "a `rate_limit` object, or `upstreams`, `routes` or `tenants` with such objects"
            }
            ImportFormat::Fairvisor => "`policies` with rules, `rules`, a list of rules, or a single rule",
            ImportFormat::Envoy => "`domain` and `descriptors`, of which at least one has a `rate_limit`",
            ImportFormat::Limitador => "a list of limits, each with `namespace`, `max_value` and `seconds`",
            ImportFormat::Rules => "rows with `key_pattern`, `rate_per_second` and `burst_capacity`",
            ImportFormat::Spec => {
                "configurations with `endpoint`, `limit_type`, `capacity` and `refill_rate`"
            }
        }
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        let entry = ImportFormat::NAMES.iter().find(|(_, format, _)| *format == self);
        entry.map(|(name, ..)| *name).expect("every format has a name")
    }
}

/// A document, carried over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The native policy, as YAML.
    pub policy: String,
    /// What could not be carried over, and what was interpreted, in the order of the document.
    pub notes: Vec<ImportNote>,
}

/// Reads `text`, which is written in the format `from`, and writes it as a policy. The name of the
/// file is for messages, and tells CSV from JSON.
///
/// # Errors
/// With what cannot be understood, where that is the document as a whole or all that is in it.
pub fn import(from: ImportFormat, file_name: &str, text: &str) -> Result<Imported, Vec<Problem>> {
    let start = Span { line: 1, column: 1, length: 1 };
    if text.len() > DOCUMENT_BYTES_MAX {
        let problem = Problem::error(start, "", "this document is too large");
        return Err(vec![problem.want(format!("at most {DOCUMENT_BYTES_MAX} bytes"))]);
    }
    let document = parse(from, file_name, text)?;
    let root = SourceValue::root(&document);
    let (mut draft, mut log) = (Draft::default(), ImportLog::new(file_name));
    match from {
        ImportFormat::Oagw => oagw::read(&root, &mut draft, &mut log),
        ImportFormat::Fairvisor => fairvisor::read(&root, &mut draft, &mut log),
        ImportFormat::Envoy => envoy::read(&root, &mut draft, &mut log),
        ImportFormat::Limitador => limitador::read(&root, &mut draft, &mut log),
        ImportFormat::Rules => rules::read(&root, &mut draft, &mut log),
        ImportFormat::Spec => endpoints::read(&root, &mut draft, &mut log),
    }
    finish::finish(from, draft, log)
}

/// Reads the items of a list one by one: what one of them adds to the policy stays only if there is
/// no problem with it.
fn each_of(
    list: &SourceValue<'_>,
    draft: &mut Draft,
    log: &mut ImportLog,
    read: fn(&SourceValue<'_>, &mut Draft, &mut ImportLog),
) {
    log.note_if_empty(list);
    for item in list.list(log) {
        one_of(&item, draft, log, |draft, log| read(&item, draft, log));
    }
}

/// The same for a single item.
fn one_of(
    item: &SourceValue<'_>,
    draft: &mut Draft,
    log: &mut ImportLog,
    read: impl FnOnce(&mut Draft, &mut ImportLog),
) {
    let mark = draft.mark();
    let kept = log.attempt(item, |log| {
        read(draft, log);
        Some(())
    });
    if kept.is_none() {
        draft.back_to(mark);
    }
}

fn parse(from: ImportFormat, file_name: &str, text: &str) -> Result<DocumentNode, Vec<Problem>> {
    let is_csv = || {
        let name = file_name.to_ascii_lowercase();
        let structured = [".json", ".yaml", ".yml"].iter().any(|end| name.ends_with(end));
        name.ends_with(".csv") || !(structured || text.trim_start().starts_with(['[', '{', '-']))
    };
    if from == ImportFormat::Rules && is_csv() { csv::parse(text) } else { tidegate_document::parse(text) }
}

/// A path of a foreign document as a pattern: there, a final `/*` means any depth.
fn path_pattern(path: &str, item: &SourceValue<'_>, log: &mut ImportLog) -> Option<String> {
    let pattern = match path.strip_suffix("/*") {
        Some(prefix) => format!("{prefix}/**"),
        None => path.to_owned(),
    };
    match tidegate_policy::Pattern::parse(&pattern) {
        Ok(_) => Some(pattern),
        Err(error) => {
            log.problem(item, error.to_string(), "a path such as /api/search or /api/*");
            None
        }
    }
}

#[cfg(test)]
mod tests;

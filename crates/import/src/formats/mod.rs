//! The readers: one for each foreign format. A reader adds entries to the draft and notes to the log.

mod endpoints;
mod envoy;
mod fairvisor;
mod limitador;
mod oagw;
mod rules;

use tidegate_policy::Pattern;

use crate::ImportFormat;
use crate::draft::Draft;
use crate::log::ImportLog;
use crate::source::SourceValue;

/// Reads a whole document.
pub(crate) fn read(from: ImportFormat, root: &SourceValue<'_>, draft: &mut Draft, log: &mut ImportLog) {
    match from {
        ImportFormat::Oagw => oagw::read(root, draft, log),
        ImportFormat::Fairvisor => fairvisor::read(root, draft, log),
        ImportFormat::Envoy => envoy::read(root, draft, log),
        ImportFormat::Limitador => limitador::read(root, draft, log),
        ImportFormat::Rules => rules::read(root, draft, log),
        ImportFormat::Endpoints => endpoints::read(root, draft, log),
    }
}

/// Reads the items of a list one by one. What an item has added to the draft is removed again if there is a problem
/// with the item.
fn read_each(
    list: &SourceValue<'_>,
    draft: &mut Draft,
    log: &mut ImportLog,
    mut read: impl FnMut(&SourceValue<'_>, &mut Draft, &mut ImportLog),
) {
    log.note_if_empty(list);
    for item in list.list(log) {
        read_or_undo(&item, draft, log, |draft, log| read(&item, draft, log));
    }
}

/// Reads one item; removes what it has added to the draft if there is a problem with it.
fn read_or_undo(
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
        draft.undo_to(mark);
    }
}

/// A path of a foreign document as a pattern. In foreign documents, a final `/*` matches any depth.
fn path_pattern(path: &str, item: &SourceValue<'_>, log: &mut ImportLog) -> Option<String> {
    let pattern = match path.strip_suffix("/*") {
        Some(prefix) => format!("{prefix}/**"),
        None => path.to_owned(),
    };
    match Pattern::parse(&pattern) {
        Ok(_) => Some(pattern),
        Err(error) => {
            log.problem(item, error.to_string(), "a path such as /api/search or /api/*");
            None
        }
    }
}

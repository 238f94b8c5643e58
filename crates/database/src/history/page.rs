//! Pages of lists.

use crate::DatabaseError;

/// Which part of a list.
#[derive(Clone, Debug)]
pub struct PageRequest {
    /// How many items; at least 1 and at most 1,000.
    pub limit: u32,
    /// What the page before gave as `next`; `None` for the first page.
    pub cursor: Option<String>,
}

/// A part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paged<T> {
    /// The items.
    pub items: Vec<T>,
    /// The cursor of the next page, if there is one.
    pub next: Option<String>,
}

/// The most items of a page.
const LONGEST: u32 = 1_000;

impl Default for PageRequest {
    fn default() -> PageRequest {
        PageRequest { limit: 100, cursor: None }
    }
}

impl PageRequest {
    /// How many items, within the bounds.
    pub(crate) fn rows(&self) -> i64 {
        i64::from(self.limit.clamp(1, LONGEST))
    }
}

impl<T> Paged<T> {
    /// A page of `limit` items. `items` has one more if there is a next page, whose cursor is made of the last item.
    pub(crate) fn cut(mut items: Vec<T>, limit: i64, cursor: impl Fn(&T) -> String) -> Paged<T> {
        let limit = usize::try_from(limit).expect("a page is small");
        let has_more = items.len() > limit;
        items.truncate(limit);
        let next = if has_more { items.last().map(cursor) } else { None };
        Paged { items, next }
    }

    /// The same page with other items.
    pub(crate) fn map<U>(self, convert: impl FnMut(T) -> U) -> Paged<U> {
        Paged { items: self.items.into_iter().map(convert).collect(), next: self.next }
    }
}

/// The cursor of a list that is ordered by a number, greatest first: what is below it comes next.
pub(crate) fn number_cursor(page: &PageRequest) -> Result<i64, DatabaseError> {
    match &page.cursor {
        Some(cursor) => cursor.parse().map_err(|_| DatabaseError::Cursor),
        None => Ok(i64::MAX),
    }
}

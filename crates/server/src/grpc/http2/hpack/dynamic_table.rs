//! The dynamic table: fields that the client has sent and refers to by number, within a bound of bytes.

use std::collections::VecDeque;

/// What each field counts beside its bytes (RFC 7541, section 4.1).
pub(crate) const FIELD_OVERHEAD: usize = 32;
/// The most bytes of the table: the default of HTTP/2, which the server does not change.
pub(super) const TABLE_MAX: usize = 4_096;

#[derive(Debug)]
pub(super) struct DynamicTable {
    /// The newest first.
    fields: VecDeque<TableField>,
    size: usize,
    max: usize,
}

#[derive(Debug)]
struct TableField {
    /// The name, then the value.
    text: Box<[u8]>,
    name: usize,
}

impl TableField {
    fn size(&self) -> usize {
        self.text.len() + FIELD_OVERHEAD
    }
}

impl DynamicTable {
    pub(super) fn new() -> DynamicTable {
        DynamicTable { fields: VecDeque::new(), size: 0, max: TABLE_MAX }
    }

    /// The name and the value of a field; 0 is the newest.
    pub(super) fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        self.fields.get(index).map(|field| field.text.split_at(field.name))
    }

    /// Adds a field and drops the oldest as needed. One larger than the table only empties it.
    pub(super) fn add(&mut self, text: Box<[u8]>, name: usize) {
        let field = TableField { text, name };
        let size = field.size();
        self.shrink_to(self.max.saturating_sub(size));
        if size <= self.max {
            self.size += size;
            self.fields.push_front(field);
        }
    }

    /// Changes the bound; `None` if it is more than the server allows.
    pub(super) fn set_max(&mut self, max: usize) -> Option<()> {
        if max > TABLE_MAX {
            return None;
        }
        self.max = max;
        self.shrink_to(max);
        Some(())
    }

    fn shrink_to(&mut self, size: usize) {
        while self.size > size {
            let Some(oldest) = self.fields.pop_back() else { return };
            self.size -= oldest.size();
        }
    }

    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.size
    }
}

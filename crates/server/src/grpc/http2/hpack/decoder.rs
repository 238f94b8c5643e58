//! Reads header blocks (RFC 7541).

use super::dynamic_table::{DynamicTable, TABLE_MAX};
use super::huffman;
use super::static_table::STATIC;

/// A header block cannot be read to its end. The two ends no longer have the same table, so the connection must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadBlock {
    Invalid,
    /// The block would add far more bytes to the table than it has itself: two bytes can copy a long name.
    AddsTooMuch,
}

/// How many bytes each byte of a block may add to the table. Twice the size of the table is always allowed. Real clients
/// add short names, and values at most twice as long as their encoding.
const ADDED_PER_BYTE_MAX: usize = 16;
/// What a connection keeps of its buffers between blocks.
const TEXT_KEPT_BYTES: usize = 256;

/// Reads the header blocks of a connection.
#[derive(Debug)]
pub(crate) struct HeaderDecoder {
    table: DynamicTable,
    name: Vec<u8>,
    value: Vec<u8>,
    /// How many bytes the block may still add to the table.
    addable: usize,
}

impl HeaderDecoder {
    pub(crate) fn new() -> HeaderDecoder {
        HeaderDecoder { table: DynamicTable::new(), name: Vec::new(), value: Vec::new(), addable: 0 }
    }

    /// Calls `field` with the name and value of each field. Nothing is copied but what Huffman has encoded and what the
    /// client adds to the table, so a block that refers to large fields many times costs no memory.
    ///
    /// # Errors
    /// If the block is not valid.
    pub(crate) fn decode(
        &mut self,
        mut block: &[u8],
        mut field: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), BadBlock> {
        let mut at_start = true;
        self.addable = 2 * TABLE_MAX + ADDED_PER_BYTE_MAX * block.len();
        while let Some(&first) = block.first() {
            match first {
                0x80.. => {
                    let index = integer(&mut block, 7).ok_or(BadBlock::Invalid)?;
                    let (name, value) = find(&self.table, index).ok_or(BadBlock::Invalid)?;
                    field(name, value);
                }
                0x20..0x40 => {
                    // The size changes only before the first field.
                    let max = integer(&mut block, 5).filter(|_| at_start).ok_or(BadBlock::Invalid)?;
                    self.table.set_max(max).ok_or(BadBlock::Invalid)?;
                    continue;
                }
                // Added to the table, or not; 0x10 forbids proxies to add it, which does not concern a server.
                0x40.. => self.literal(&mut block, 6, true, &mut field)?,
                _ => self.literal(&mut block, 4, false, &mut field)?,
            }
            at_start = false;
        }
        // A text may be long; the connection need not keep its memory.
        for text in [&mut self.name, &mut self.value] {
            text.clear();
            text.shrink_to(TEXT_KEPT_BYTES);
        }
        Ok(())
    }

    fn literal(
        &mut self,
        block: &mut &[u8],
        prefix: u32,
        added: bool,
        field: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<(), BadBlock> {
        let HeaderDecoder { table, name, value, addable } = self;
        let name = match integer(block, prefix).ok_or(BadBlock::Invalid)? {
            0 => string(block, name).ok_or(BadBlock::Invalid)?,
            index => find(table, index).ok_or(BadBlock::Invalid)?.0,
        };
        let value = string(block, value).ok_or(BadBlock::Invalid)?;
        field(name, value);
        if added {
            *addable = addable.checked_sub(name.len() + value.len()).ok_or(BadBlock::AddsTooMuch)?;
            let (text, name) = ([name, value].concat().into_boxed_slice(), name.len());
            table.add(text, name);
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn kept_bytes(&self) -> usize {
        self.name.capacity() + self.value.capacity()
    }

    #[cfg(test)]
    pub(super) fn table_size(&self) -> usize {
        self.table.size()
    }
}

/// The field with this index, first in the static table and then in the dynamic one.
fn find(table: &DynamicTable, index: usize) -> Option<(&[u8], &[u8])> {
    let index = index.checked_sub(1)?;
    match STATIC.get(index) {
        Some((name, value)) => Some((name.as_bytes(), value.as_bytes())),
        None => table.get(index - STATIC.len()),
    }
}

/// An integer with a prefix of some bits (RFC 7541, section 5.1); `None` if it is incomplete or far too large.
fn integer(block: &mut &[u8], prefix: u32) -> Option<usize> {
    let (&first, mut rest) = block.split_first()?;
    let most = (1_usize << prefix) - 1;
    let mut number = usize::from(first) & most;
    if number == most {
        let mut shift = 0;
        loop {
            let (&byte, after) = rest.split_first()?;
            rest = after;
            number += usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
            shift += 7;
            // Neither an index nor a length needs more than four of these bytes.
            if shift > 21 {
                return None;
            }
        }
    }
    *block = rest;
    Some(number)
}

/// A text, which is decoded into `decoded` if Huffman has encoded it.
fn string<'t, 'b: 't>(block: &mut &'b [u8], decoded: &'t mut Vec<u8>) -> Option<&'t [u8]> {
    let is_encoded = block.first()? & 0x80 != 0;
    let length = integer(block, 7)?;
    let (text, rest) = block.split_at_checked(length)?;
    *block = rest;
    if !is_encoded {
        return Some(text);
    }
    decoded.clear();
    huffman::decode(text, decoded)?;
    Some(decoded)
}

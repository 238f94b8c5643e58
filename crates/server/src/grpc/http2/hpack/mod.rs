//! HPACK, the compression of headers in HTTP/2 (RFC 7541). [`decoder`] reads what clients send, with all of it: the
//! [`static_table`], a [`dynamic_table`] and the code in [`huffman`]. [`encoder`] writes the few headers of responses
//! as literals, so the server needs no table for them.

pub(crate) mod decoder;
mod dynamic_table;
pub(crate) mod encoder;
mod huffman;
mod static_table;

pub(crate) use dynamic_table::FIELD_OVERHEAD;

#[cfg(test)]
mod tests;

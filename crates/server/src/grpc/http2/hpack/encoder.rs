//! Writes the headers of responses.

/// `:status: 200` and `content-type: application/grpc`.
pub(crate) const GRPC_HEAD: &[u8] = b"\x88\x0f\x10\x10application/grpc";
/// `grpc-status: 0`.
pub(crate) const STATUS_OK: &[u8] = b"\x00\x0bgrpc-status\x010";

/// Sets the size of the table to 0: what the server writes never refers to one.
pub(crate) const NO_TABLE: &[u8] = &[0x20];

/// Writes a field as a literal that nobody adds to a table. Name and value are shorter than 16 KiB.
pub(crate) fn put_field(block: &mut Vec<u8>, name: &str, value: &str) {
    block.push(0);
    put_string(block, name);
    put_string(block, value);
}

fn put_string(block: &mut Vec<u8>, text: &str) {
    const MOST: usize = 0x7f;
    match text.len() {
        length @ ..MOST => block.push(length as u8),
        length => {
            block.push(MOST as u8);
            let mut rest = length - MOST;
            while rest >= 0x80 {
                block.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            block.push(rest as u8);
        }
    }
    block.extend_from_slice(text.as_bytes());
}

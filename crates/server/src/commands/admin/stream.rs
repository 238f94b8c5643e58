//! `tidegate admin stream`: the data of each event as a line, until it is interrupted.

use std::io::{ErrorKind, Write};
use std::ops::ControlFlow;
use std::path::Path;

use super::{check, running};
use crate::commands::http_client::{HttpCall, ServerTarget};
use crate::commands::terminal::exit::CommandFailure;

/// The longest line of an event stream.
const LINE_BYTES_MAX: usize = 16 * 1_024 * 1_024;

/// Prints the data of events, `count` of them or until it is interrupted. A server ends each stream after some minutes;
/// then the next one is asked for.
pub(super) async fn print_events(
    target: &ServerTarget,
    call: &HttpCall,
    ca: Option<&Path>,
    count: Option<u64>,
) -> Result<(), CommandFailure> {
    let mut left = count;
    loop {
        let mut reader = EventReader::default();
        let (mut printed, mut ended) = (false, None);
        let each = |bytes: &[u8]| {
            for data in reader.read(bytes) {
                printed = true;
                left = left.map(|left| left.saturating_sub(1));
                match print_line(&data) {
                    Ok(true) if left != Some(0) => {}
                    Ok(_) => ended = Some(Ok(())),
                    Err(failure) => ended = Some(Err(failure)),
                }
                if ended.is_some() {
                    return ControlFlow::Break(());
                }
            }
            match reader.is_too_long() {
                true => {
                    ended = Some(Err(running("the server sent a line without end")));
                    ControlFlow::Break(())
                }
                false => ControlFlow::Continue(()),
            }
        };
        let answer = target.follow(call, ca, each).await.map_err(running)?;
        check(&answer, "")?;
        match ended {
            Some(ended) => return ended,
            // Asking again and again for what has no events would be a loop without a pause.
            None if !printed => return Err(running("the server has ended the stream")),
            None => {}
        }
    }
}

/// Prints a line; `false` if nobody reads it any more, as in `tidegate admin stream | head`.
fn print_line(data: &str) -> Result<bool, CommandFailure> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{data}").and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(running(format!("cannot write to standard output: {error}"))),
    }
}

/// Reads server-sent events that come in pieces of any size.
#[derive(Default)]
struct EventReader {
    /// The last line, of which the end has not come.
    line: Vec<u8>,
    /// The data of the event that has not ended.
    data: Option<String>,
}

impl EventReader {
    /// The data of the events that end in these bytes.
    fn read(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut events = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                events.extend(self.line_ended(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n'])));
            }
        }
        events
    }

    /// The data of the event, if an empty line ends it. Names of events and comments are passed over.
    fn line_ended(&mut self, line: &str) -> Option<String> {
        if line.is_empty() {
            return self.data.take();
        }
        let value = line.strip_prefix("data:")?;
        let value = value.strip_prefix(' ').unwrap_or(value);
        match &mut self.data {
            Some(data) => data.push_str(&format!("\n{value}")),
            None => self.data = Some(value.to_owned()),
        }
        None
    }

    fn is_too_long(&self) -> bool {
        self.line.len() + self.data.as_ref().map_or(0, String::len) > LINE_BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_may_come_in_pieces_of_any_size() {
        let text = "event: overview\ndata: {\"a\":\"ä\"}\n\n: the connection lives\n\ndata:1\r\ndata: 2\r\n\r\ndata: cut";
        for size in 1..=text.len() {
            let mut reader = EventReader::default();
            let events: Vec<String> =
                text.as_bytes().chunks(size).flat_map(|piece| reader.read(piece)).collect();
            assert_eq!(events, ["{\"a\":\"ä\"}", "1\n2"], "in pieces of {size}");
        }
    }
}

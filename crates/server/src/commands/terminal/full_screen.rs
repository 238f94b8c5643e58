//! A program that has the terminal to itself: it draws its screen again and again, and ends by a key.

use std::io::{IsTerminal, Read, Write};

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use unicode_width::UnicodeWidthChar;

/// To the alternate screen, which has no history, with the cursor hidden.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
/// Back from it.
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// The size of a terminal that does not tell it.
const USUAL: ScreenSize = ScreenSize { rows: 24, columns: 80 };

/// The size of a terminal in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScreenSize {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

/// The terminal, until this is dropped: then it is as it was before, also after an error or a panic.
#[derive(Debug)]
pub(crate) struct FullScreen {
    /// How standard input was; `None` if it is no terminal, and nobody can press a key.
    before: Option<Termios>,
}

impl FullScreen {
    /// Takes the terminal of standard output. Keys arrive at once, and are not shown.
    pub(crate) fn enter() -> std::io::Result<FullScreen> {
        let before = std::io::stdin().is_terminal().then(|| tcgetattr(std::io::stdin())).transpose()?;
        let screen = FullScreen { before };
        if let Some(mut modes) = screen.before.clone() {
            modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            modes.special_codes[SpecialCodeIndex::VMIN] = 1;
            modes.special_codes[SpecialCodeIndex::VTIME] = 0;
            // A stopped program would leave its screen to the shell.
            modes.special_codes[SpecialCodeIndex::VSUSP] = 0;
            tcsetattr(std::io::stdin(), OptionalActions::Now, &modes)?;
        }
        write(ENTER)?;
        Ok(screen)
    }

    /// How large the terminal is now.
    pub(crate) fn size(&self) -> ScreenSize {
        let told = tcgetwinsize(std::io::stdout()).ok().filter(|size| size.ws_row > 0 && size.ws_col > 0);
        told.map_or(USUAL, |size| ScreenSize { rows: size.ws_row.into(), columns: size.ws_col.into() })
    }

    /// Draws a screen in place of the one before. Lines that are too long are cut, and those that are too many left out.
    pub(crate) fn draw(&self, lines: &[String]) -> std::io::Result<()> {
        write(&frame(lines, self.size()))
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        _ = write(LEAVE);
        if let Some(before) = &self.before {
            _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}

fn write(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// What draws these lines. No line ends with a new line but those before the last: the terminal would scroll.
fn frame(lines: &[String], size: ScreenSize) -> String {
    let lines: Vec<String> =
        lines.iter().take(size.rows).map(|line| cut(line, size.columns) + "\x1b[K").collect();
    format!("\x1b[H{}\x1b[J", lines.join("\n"))
}

/// A line that is at most so many columns wide. A letter may take two, and what sets colours takes none.
fn cut(line: &str, columns: usize) -> String {
    let (mut width, mut kept, mut in_code) = (0, 0, false);
    for (place, letter) in line.char_indices() {
        match letter {
            '\x1b' => in_code = true,
            _ if in_code => in_code = letter != 'm',
            _ => width += letter.width().unwrap_or(0),
        }
        // One column is for the mark.
        if width < columns {
            kept = place + letter.len_utf8();
        }
    }
    match width <= columns {
        true => line.to_owned(),
        false => format!("{}…\x1b[0m", &line[..kept]),
    }
}

/// What somebody who watches a screen wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScreenEvent {
    /// The program shall end: the key `q`, or a signal.
    End,
    /// The terminal has another size.
    Resized,
}

/// Signals and keys.
#[derive(Debug)]
pub(crate) struct ScreenEvents {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    resized: Signal,
    keys: Option<mpsc::Receiver<u8>>,
}

impl ScreenEvents {
    /// From here on, signals no longer end the program by themselves. To be called inside of a runtime.
    pub(crate) fn start() -> std::io::Result<ScreenEvents> {
        Ok(ScreenEvents {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            resized: signal(SignalKind::window_change())?,
            keys: None,
        })
    }

    /// Reads keys, too. The thread that waits for them ends with the program.
    pub(crate) fn read_keys(&mut self) -> std::io::Result<()> {
        let (pressed, keys) = mpsc::channel(1);
        let read = move || {
            for key in std::io::stdin().lock().bytes() {
                let Ok(key) = key else { break };
                if pressed.blocking_send(key).is_err() {
                    break;
                }
            }
        };
        std::thread::Builder::new().name("keys".into()).spawn(read)?;
        self.keys = Some(keys);
        Ok(())
    }

    /// The next event.
    pub(crate) async fn next(&mut self) -> ScreenEvent {
        loop {
            let key = async {
                match &mut self.keys {
                    Some(keys) => keys.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = self.interrupt.recv() => return ScreenEvent::End,
                _ = self.terminate.recv() => return ScreenEvent::End,
                _ = self.hang_up.recv() => return ScreenEvent::End,
                _ = self.resized.recv() => return ScreenEvent::Resized,
                key = key => match key {
                    Some(b'q' | b'Q') => return ScreenEvent::End,
                    Some(_) => {}
                    // Standard input has ended.
                    None => self.keys = None,
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_by_the_columns_that_it_takes() {
        assert_eq!(cut("abcde", 5), "abcde");
        assert_eq!(cut("abcdef", 5), "abcd…\x1b[0m");
        assert_eq!(cut("中文字", 6), "中文字");
        assert_eq!(cut("中文字", 5), "中文…\x1b[0m");
        assert_eq!(cut("中文字", 4), "中…\x1b[0m", "half a letter cannot be shown");
        assert_eq!(cut("a\u{301}b", 2), "a\u{301}b", "an accent takes no column");
        let coloured = "\x1b[31;1mabc\x1b[0m";
        assert_eq!(cut(coloured, 3), coloured);
        assert_eq!(cut(coloured, 2), "\x1b[31;1ma…\x1b[0m");
        assert_eq!(cut("abc", 1), "…\x1b[0m");
    }

    #[test]
    fn a_frame_fits_its_terminal() {
        let lines = ["one", "two", "three"].map(str::to_owned);
        let drawn = frame(&lines, ScreenSize { rows: 2, columns: 3 });
        assert_eq!(drawn, "\x1b[Hone\x1b[K\ntwo\x1b[K\x1b[J");
        let drawn = frame(&lines, ScreenSize { rows: 9, columns: 4 });
        assert_eq!(drawn, "\x1b[Hone\x1b[K\ntwo\x1b[K\nthr…\x1b[0m\x1b[K\x1b[J");
    }
}

//! Flow-control windows: how many bytes of DATA may be sent.

/// The most bytes of a window.
pub(super) const WINDOW_MAX: i64 = 0x7fff_ffff;
/// The window of the client's connection, and of its streams until its settings say otherwise.
pub(super) const WINDOW_AT_START: i64 = 65_535;

/// What the server may send. A change of settings can make it negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SendWindow(i64);

impl SendWindow {
    pub(super) fn new(bytes: i64) -> SendWindow {
        SendWindow(bytes)
    }

    pub(super) fn left(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }

    pub(super) fn take(&mut self, bytes: usize) {
        self.0 -= bytes as i64;
    }

    /// Changes it; `None` if it gets too large.
    pub(super) fn change(&mut self, bytes: i64) -> Option<()> {
        self.0 += bytes;
        (self.0 <= WINDOW_MAX).then_some(())
    }
}

/// What the client may send. Bytes that are used are given back together, when they are half of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReceiveWindow {
    left: u32,
    used: u32,
    size: u32,
}

impl ReceiveWindow {
    pub(super) fn new(size: u32) -> ReceiveWindow {
        ReceiveWindow { left: size, used: 0, size }
    }

    /// Counts bytes that were received; `None` if they are more than the client may send.
    pub(super) fn receive(&mut self, bytes: usize) -> Option<()> {
        self.left = self.left.checked_sub(u32::try_from(bytes).ok()?)?;
        Some(())
    }

    /// Counts bytes that are used; returns the increment of a WINDOW_UPDATE that is due.
    pub(super) fn release(&mut self, bytes: usize) -> Option<u32> {
        // What is released was received before, so the sum is within the size.
        self.used += bytes as u32;
        if self.used < self.size / 2 {
            return None;
        }
        self.left += self.used;
        Some(std::mem::take(&mut self.used))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_is_given_back_in_halves() {
        let mut window = ReceiveWindow::new(100);
        assert_eq!((window.receive(100), window.receive(1)), (Some(()), None));
        assert_eq!((window.release(49), window.receive(1)), (None, None));
        assert_eq!((window.release(1), window.receive(51)), (Some(50), None));
        assert_eq!((window.receive(50), window.release(50)), (Some(()), Some(50)));
    }

    #[test]
    fn a_window_may_be_negative_but_not_too_large() {
        let mut window = SendWindow::new(10);
        assert_eq!((window.change(-20), window.left()), (Some(()), 0));
        assert_eq!((window.change(15), window.left()), (Some(()), 5));
        assert_eq!(window.change(WINDOW_MAX - 5), Some(()));
        assert_eq!(window.change(1), None);
    }
}

//! How urgent a request is.

/// How urgent a request is: from 0 to 100, higher ones first. It orders the requests of one tenant in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(u8);

impl Priority {
    /// The highest.
    pub const MAX: Priority = Priority(100);

    /// A priority; `None` above 100.
    pub const fn new(priority: u8) -> Option<Priority> {
        if priority <= Priority::MAX.0 { Some(Priority(priority)) } else { None }
    }

    /// Parses a whole number from 0 to 100.
    pub fn parse(text: &str) -> Option<Priority> {
        // `parse` would also accept a plus sign.
        let is_plain = text.bytes().all(|b| b.is_ascii_digit());
        text.parse().ok().filter(|_| is_plain).and_then(Priority::new)
    }

    /// As a number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl Default for Priority {
    /// That of a request that says nothing: 50.
    fn default() -> Priority {
        Priority(50)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_is_a_whole_number_up_to_a_hundred() {
        for (text, priority) in [("0", 0), ("7", 7), ("007", 7), ("100", 100)] {
            assert_eq!(Priority::parse(text).map(Priority::get), Some(priority), "{text}");
        }
        for text in ["", "101", "-1", "+1", "1.0", "high", " 5", "99999999999999999999"] {
            assert_eq!(Priority::parse(text), None, "{text}");
        }
    }
}

//! Writes metrics in the Prometheus text format, version 0.0.4.

use std::fmt::{self, Write};

use tidegate::Nanos;

use super::families::{MetricFamily, MetricKind};

/// The media type of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A page of metrics under construction.
#[derive(Debug, Default)]
pub(crate) struct Exposition {
    text: String,
}

impl Exposition {
    /// Starts the next metric; its samples follow.
    pub(crate) fn family(&mut self, family: &'static MetricFamily) -> Samples<'_> {
        let MetricFamily { name, kind, help, .. } = family;
        push(&mut self.text, format_args!("# HELP {name} {}\n", Escaped(help, EscapeFor::Help)));
        push(&mut self.text, format_args!("# TYPE {name} {}\n", kind.as_str()));
        Samples { text: &mut self.text, family }
    }

    /// The text of the page.
    pub(crate) fn finish(self) -> String {
        self.text
    }
}

/// The samples of one metric.
#[derive(Debug)]
pub(crate) struct Samples<'p> {
    text: &'p mut String,
    family: &'static MetricFamily,
}

impl Samples<'_> {
    /// One sample. `labels` has a value for each of the metric's labels.
    pub(crate) fn sample(&mut self, labels: &[&str], value: impl fmt::Display) -> &mut Self {
        assert_ne!(self.family.kind, MetricKind::Histogram, "{} has buckets", self.family.name);
        self.line("", labels, None, value);
        self
    }

    /// One histogram: the cumulative count for each bound, the count of all values, and their sum.
    pub(crate) fn histogram<B: fmt::Display>(
        &mut self,
        labels: &[&str],
        cumulative: impl IntoIterator<Item = (B, u64)>,
        count: u64,
        sum: impl fmt::Display,
    ) -> &mut Self {
        assert_eq!(self.family.kind, MetricKind::Histogram, "{} has no buckets", self.family.name);
        for (bound, so_far) in cumulative {
            self.line("_bucket", labels, Some(&bound), so_far);
        }
        self.line("_bucket", labels, Some(&"+Inf"), count);
        self.line("_sum", labels, None, sum);
        self.line("_count", labels, None, count);
        self
    }

    fn line(
        &mut self,
        suffix: &str,
        values: &[&str],
        bound: Option<&dyn fmt::Display>,
        value: impl fmt::Display,
    ) {
        let MetricFamily { name, labels, .. } = self.family;
        assert_eq!(labels.len(), values.len(), "{name} has other labels");
        push(self.text, format_args!("{name}{suffix}"));
        let mut opening = '{';
        for (label, value) in labels.iter().zip(values) {
            push(self.text, format_args!("{opening}{label}=\"{}\"", Escaped(value, EscapeFor::Label)));
            opening = ',';
        }
        if let Some(bound) = bound {
            push(self.text, format_args!("{opening}le=\"{bound}\""));
            opening = ',';
        }
        let closing = if opening == ',' { "}" } else { "" };
        push(self.text, format_args!("{closing} {value}\n"));
    }
}

fn push(text: &mut String, what: fmt::Arguments<'_>) {
    text.write_fmt(what).expect("writing to memory does not fail");
}

#[derive(Clone, Copy, PartialEq)]
enum EscapeFor {
    Help,
    Label,
}

/// Text escaped as the format requires.
struct Escaped<'t>(&'t str, EscapeFor);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.0.chars() {
            match letter {
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '"' if self.1 == EscapeFor::Label => f.write_str("\\\"")?,
                _ => f.write_char(letter)?,
            }
        }
        Ok(())
    }
}

/// A fixed-point number, written as an exact decimal without floating point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FixedPoint {
    parts: u128,
    digits: u32,
}

impl FixedPoint {
    /// A duration in seconds.
    pub(crate) fn seconds(span: Nanos) -> FixedPoint {
        FixedPoint { parts: span.get().into(), digits: 9 }
    }

    /// A number of millionths.
    pub(crate) fn millionths(parts: u64) -> FixedPoint {
        FixedPoint { parts: parts.into(), digits: 6 }
    }

    /// A number of hundredths.
    pub(crate) fn hundredths(parts: u64) -> FixedPoint {
        FixedPoint { parts: parts.into(), digits: 2 }
    }
}

impl fmt::Display for FixedPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = 10_u128.pow(self.digits);
        write!(f, "{}", self.parts / one)?;
        let rest = self.parts % one;
        if rest == 0 {
            return Ok(());
        }
        let rest = format!("{rest:0width$}", width = self.digits as usize);
        write!(f, ".{}", rest.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::super::families;
    use super::*;

    #[test]
    fn label_values_cannot_break_out() {
        let mut page = Exposition::default();
        page.family(&families::DECISIONS).sample(&["a\"b\\c\nd", "denied"], 7);
        let text = page.finish();
        let line = text.lines().last().expect("there are lines");
        assert_eq!(line, r#"tidegate_decisions_total{limit="a\"b\\c\nd",outcome="denied"} 7"#);
    }

    #[test]
    fn a_histogram_has_buckets_sum_and_count() {
        let mut page = Exposition::default();
        let buckets = [(FixedPoint::hundredths(10), 1), (FixedPoint::hundredths(100), 3)];
        page.family(&families::TOKENS_REMAINING_RATIO).histogram(
            &["x"],
            buckets,
            7,
            FixedPoint::hundredths(150),
        );
        let text = page.finish();
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                r#"tidegate_tokens_remaining_ratio_bucket{limit="x",le="0.1"} 1"#,
                r#"tidegate_tokens_remaining_ratio_bucket{limit="x",le="1"} 3"#,
                r#"tidegate_tokens_remaining_ratio_bucket{limit="x",le="+Inf"} 7"#,
                r#"tidegate_tokens_remaining_ratio_sum{limit="x"} 1.5"#,
                r#"tidegate_tokens_remaining_ratio_count{limit="x"} 7"#,
            ]
        );
    }

    #[test]
    fn decimals_are_exact() {
        let shown = |nanos| FixedPoint::seconds(Nanos::new(nanos)).to_string();
        assert_eq!([shown(0), shown(100), shown(2_500_000_000)], ["0", "0.0000001", "2.5"]);
        assert_eq!(shown(u64::MAX), "18446744073.709551615");
    }
}

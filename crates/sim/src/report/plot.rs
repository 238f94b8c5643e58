//! Draws a line chart as SVG.

use std::fmt::Write;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 48.0;

/// A line of a chart.
#[derive(Clone, Debug)]
pub(super) struct ChartLine {
    pub(super) name: &'static str,
    /// A class of the page's style.
    pub(super) class: &'static str,
    /// One for each label on the horizontal axis.
    pub(super) values: Vec<f64>,
}

/// A chart with labels on its horizontal axis.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) across: &'static str,
    pub(super) up: &'static str,
    pub(super) labels: Vec<String>,
    pub(super) lines: Vec<ChartLine>,
}

impl Chart {
    /// The SVG. The vertical axis is logarithmic, with zero at the bottom.
    pub(super) fn svg(&self) -> String {
        let values = self.lines.iter().flat_map(|line| line.values.iter().copied());
        let highest = height_of(values.fold(1.0, f64::max)).ceil().max(1.0);
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">\n\
             <text class=\"title\" x=\"{LEFT}\" y=\"20\">{title}</text>\n",
            title = escaped(&self.title)
        );
        self.axes(highest, &mut svg);
        for line in &self.lines {
            let points: Vec<(f64, f64)> = (line.values.iter().enumerate())
                .map(|(index, &value)| (self.x(index), y(value, highest)))
                .collect();
            let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            put(
                &mut svg,
                format_args!("<polyline class=\"{}\" points=\"{}\"/>\n", line.class, path.join(" ")),
            );
            for ((x, y), value) in points.iter().zip(&line.values) {
                put(
                    &mut svg,
                    format_args!(
                        "<circle class=\"{}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"><title>{}: {value:.2}</title></circle>\n",
                        line.class,
                        escaped(line.name)
                    ),
                );
            }
        }
        svg.push_str("</svg>\n");
        svg + &self.legend()
    }

    fn axes(&self, highest: f64, svg: &mut String) {
        for power in 0..=highest as u32 {
            let value = if power == 0 { 0.0 } else { 10_f64.powi(power as i32) };
            let y = y(value, highest);
            put(
                svg,
                format_args!(
                    "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\"/>\n\
                     <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>\n",
                    WIDTH - RIGHT,
                    LEFT - 6.0,
                    y + 4.0
                ),
            );
        }
        for (index, name) in self.labels.iter().enumerate() {
            put(
                svg,
                format_args!(
                    "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
                    self.x(index),
                    HEIGHT - BOTTOM + 18.0,
                    escaped(name)
                ),
            );
        }
        let middle = TOP + (HEIGHT - TOP - BOTTOM) / 2.0;
        put(
            svg,
            format_args!(
                "<text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n\
                 <text class=\"axis\" x=\"14\" y=\"{middle:.1}\" text-anchor=\"middle\" \
                 transform=\"rotate(-90 14 {middle:.1})\">{}</text>\n",
                LEFT + (WIDTH - LEFT - RIGHT) / 2.0,
                HEIGHT - 8.0,
                escaped(self.across),
                escaped(self.up)
            ),
        );
    }

    fn legend(&self) -> String {
        let mut legend = String::from("<p class=\"legend\">");
        for line in &self.lines {
            put(
                &mut legend,
                format_args!("<span class=\"{}\">&#9632;</span> {} &#160; ", line.class, escaped(line.name)),
            );
        }
        legend.push_str("</p>\n");
        legend
    }

    fn x(&self, index: usize) -> f64 {
        let steps = (self.labels.len().max(2) - 1) as f64;
        LEFT + 20.0 + (WIDTH - LEFT - RIGHT - 40.0) * index as f64 / steps
    }
}

/// The height of a value on the logarithmic axis: 0 for zero, 1 for ten, 2 for a hundred.
fn height_of(value: f64) -> f64 {
    if value <= 1.0 {
        value * 0.3
    } else {
        0.3 + 0.7 * value.log10().min(1.0) + (value.log10() - 1.0).max(0.0)
    }
}

fn y(value: f64, highest: f64) -> f64 {
    HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * height_of(value) / highest
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

pub(super) fn put(text: &mut String, what: std::fmt::Arguments<'_>) {
    text.write_fmt(what).expect("writing to a string cannot fail");
}

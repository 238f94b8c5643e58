//! A page with charts: the calls that each way of sharing a limit makes, and by how much the limit can be exceeded.

mod measure;
mod plot;
mod push_pull;

pub use measure::{LIVES, NODES, Point, ReportData, measure};

use measure::{CAPACITY, RATE};
use plot::{Chart, ChartLine, put};

/// The index of 100 ms in [`LIVES`], and of four in [`NODES`].
const AT_100_MS: usize = 3;
const AT_FOUR: usize = 2;

const STYLE: &str = "
:root { color-scheme: light dark; --text: #1a2330; --back: #ffffff; --grid: #d5dae1; }
@media (prefers-color-scheme: dark) { :root { --text: #dfe6ee; --back: #11161d; --grid: #313b47; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 720px; margin: 2rem auto; padding: 0 1rem;
       color: var(--text); background: var(--back); }
svg { width: 100%; height: auto; } svg text { fill: var(--text); font-size: 12px; }
svg text.title { font-size: 15px; font-weight: 600; }
line.grid { stroke: var(--grid); } polyline { fill: none; stroke-width: 2; }
polyline.strict { stroke: #1f77b4; } circle.strict { fill: #1f77b4; } span.strict { color: #1f77b4; }
polyline.hybrid { stroke: #2a9d5c; } circle.hybrid { fill: #2a9d5c; } span.hybrid { color: #2a9d5c; }
polyline.bound { stroke: #8a6fd1; stroke-dasharray: 5 4; } circle.bound { fill: #8a6fd1; } span.bound { color: #8a6fd1; }
polyline.sketch { stroke: #d1495b; } circle.sketch { fill: #d1495b; } span.sketch { color: #d1495b; }
.legend { margin: 0 0 2rem; font-size: 14px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 14px; }
th, td { border: 1px solid var(--grid); padding: .2rem .6rem; text-align: right; }
";

/// The page as HTML.
pub fn page(measured: &ReportData) -> String {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         <title>Tidegate: sharing a limit</title><style>{STYLE}</style></head>\n<body>\n\
         <h1>Sharing a limit among nodes</h1>\n\
         <p>One bucket with a capacity of {CAPACITY} tokens and a rate of {RATE} tokens a second. Clients request five times \
         the rate for six seconds of virtual time. <b>Overshoot</b> is the worst excess over <i>B + R·t</i> (capacity plus \
         refill) in any interval. It is measured under a steady load and under an ambush: clients are busy, then idle \
         until the leases have nearly expired, then send a burst at all nodes. <b>Push and pull</b> is a design that \
         Tidegate does not use: every node has a full bucket, and adjusts it by a shared counter in every interval. Its \
         overshoot is unbounded: it grows for as long as the load lasts.</p>\n"
    );
    for chart in charts(measured) {
        page.push_str(&chart.svg());
    }
    table(measured, &mut page);
    page.push_str("</body>\n</html>\n");
    page
}

fn charts(measured: &ReportData) -> Vec<Chart> {
    let nodes: Vec<String> = NODES.iter().map(ToString::to_string).collect();
    let lives: Vec<String> = LIVES.iter().map(ToString::to_string).collect();
    let by_nodes = |of: fn(&Point) -> f64| {
        lines(of, &measured.strict, &column(&measured.hybrid), &column(&measured.push_pull))
    };
    let four = |of: fn(&Point) -> f64| {
        let strict = vec![measured.strict[AT_FOUR]; LIVES.len()];
        lines(of, &strict, &measured.hybrid[AT_FOUR], &measured.push_pull[AT_FOUR])
    };
    let bound = |points: &[Point]| ChartLine {
        name: "published bound",
        class: "bound",
        values: points.iter().map(|point| point.bound.unwrap_or(0) as f64).collect(),
    };
    let excess = |point: &Point| point.excess as f64;
    let chart = |title: &str, across, up, labels: &[String], lines| Chart {
        title: title.into(),
        across,
        up,
        labels: labels.to_vec(),
        lines,
    };
    let (over_nodes, over_lives) =
        ("nodes (lease life and interval 100 ms)", "lease life or interval, ms (four nodes)");
    let mut overshoot_nodes = by_nodes(excess);
    overshoot_nodes.push(bound(&column(&measured.hybrid)));
    let mut overshoot_lives = four(excess);
    overshoot_lives.push(bound(&measured.hybrid[AT_FOUR]));
    vec![
        chart("Overshoot by number of nodes", over_nodes, "tokens", &nodes, overshoot_nodes),
        chart("Overshoot by lease life", over_lives, "tokens", &lives, overshoot_lives),
        chart("Admitted under load", over_nodes, "times the rate", &nodes, by_nodes(Point::times_the_rate)),
        chart(
            "Redis commands by number of nodes",
            over_nodes,
            "per 1,000 decisions",
            &nodes,
            by_nodes(Point::commands_per_thousand),
        ),
        chart(
            "Redis commands by lease life",
            over_lives,
            "per 1,000 decisions",
            &lives,
            four(Point::commands_per_thousand),
        ),
    ]
}

/// The points for 100 ms.
fn column(points: &[Vec<Point>]) -> Vec<Point> {
    points.iter().map(|row| row[AT_100_MS]).collect()
}

fn lines(of: fn(&Point) -> f64, strict: &[Point], hybrid: &[Point], sketch: &[Point]) -> Vec<ChartLine> {
    let line =
        |name, class, points: &[Point]| ChartLine { name, class, values: points.iter().map(of).collect() };
    vec![
        line("strict", "strict", strict),
        line("hybrid: leases", "hybrid", hybrid),
        line("push and pull", "sketch", sketch),
    ]
}

fn table(measured: &ReportData, page: &mut String) {
    page.push_str(
        "<h2>Hybrid: worst overshoot / published bound, in tokens</h2>\n<table>\n<tr><th>nodes</th>",
    );
    for life in LIVES {
        put(page, format_args!("<th>{life} ms</th>"));
    }
    page.push_str("</tr>\n");
    for (nodes, row) in NODES.iter().zip(&measured.hybrid) {
        put(page, format_args!("<tr><th>{nodes}</th>"));
        for point in row {
            put(page, format_args!("<td>{} / {}</td>", point.excess, point.bound.unwrap_or(0)));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that every tag is closed, in order.
    fn assert_well_formed(page: &str) {
        let mut open: Vec<&str> = Vec::new();
        let body = page.strip_prefix("<!DOCTYPE html>").expect("it is a page");
        for tag in body.split('<').skip(1) {
            let (tag, _) = tag.split_once('>').expect("every tag ends");
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name), "closed in order");
            } else if !tag.ends_with('/') {
                open.push(tag.split_whitespace().next().expect("a tag has a name"));
            }
        }
        assert!(open.is_empty(), "{open:?} left open");
    }

    #[test]
    fn the_page_is_well_formed_and_shows_every_line() {
        let point = Point { excess: 12, bound: Some(40), requests: 1_000, admitted: 500, commands: 70 };
        let grid = vec![vec![point; LIVES.len()]; NODES.len()];
        let strict = vec![Point { excess: 0, ..point }; NODES.len()];
        let page = page(&ReportData { strict, hybrid: grid.clone(), push_pull: grid });
        assert_well_formed(&page);
        assert_eq!(page.matches("<svg").count(), 5);
        assert_eq!(page.matches("<polyline").count(), 5 * 3 + 2);
        assert!(page.contains("12 / 40"));
    }
}

//! The console in a real browser, with a policy of 10,000 limits and 10,000 tenants.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use serde::Deserialize;

use super::host::{ControlHost, HostDatabase, HostOptions, TOKEN};
use crate::report::{Bar, Figure, Report, Side};
use crate::server::{ProgramError, ServerBenchError, programs};
use crate::statistics::median;

/// The console in Chromium: the time until a list is shown, and the longest frame while it is scrolled.
///
/// Starts Tidegate with SQLite and a policy of 10,000 limits and 10,000 tenants, and opens the screens with long lists in
/// Chromium, which node drives with playwright-core. Both must be installed, and playwright-core too: `./test real`
/// puts it into target/real/node, and NODE_PATH names another folder.
/// Exit 0: done; 1: a bar was missed (with --check) or measuring failed; 2: bad usage.
#[derive(Debug, clap::Args)]
pub(crate) struct ConsoleArgs {
    /// Exit 1 if a bar is missed
    #[arg(long)]
    check: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Open each screen once instead of five times; the numbers are less stable
    #[arg(long)]
    quick: bool,
    /// The path of Tidegate's binary; without it, the binary is built
    #[arg(long, value_name = "PATH")]
    bin: Option<PathBuf>,
}

const LIMITS: u32 = 10_000;
/// The tenants without a parent, which the console shows opened, and those below each.
const ROOTS: u32 = 100;
const BELOW_EACH: u32 = 99;
const ROUNDS: u32 = 5;
/// A list must be shown, and a frame must be drawn, within so many milliseconds.
const FIRST_LIST_MILLIS: f64 = 2_000.0;
const FRAME_MILLIS: f64 = 100.0;

/// What the script measured when it opened a screen.
#[derive(Debug, Deserialize)]
struct OpenedScreen {
    screen: String,
    first_list_ms: f64,
    longest_frame_ms: f64,
}

/// Measures, and prints the results.
pub(crate) fn run(args: &ConsoleArgs) -> Result<ExitCode, ServerBenchError> {
    let (chromium, program) = (programs::chromium()?, programs::tidegate(args.bin.as_deref())?);
    let options = HostOptions { name: "console", policy: None, database: HostDatabase::Sqlite };
    let host = ControlHost::start(&program, options)?;
    eprintln!("writing a policy of {LIMITS} limits and {} tenants", ROOTS * (1 + BELOW_EACH));
    host.admin_api()?.call("PUT", "/api/v1/policy", "application/yaml", &policy())?;
    let rounds = if args.quick { 1 } else { ROUNDS };
    let opened = open_screens(&host, &chromium, rounds)?;
    let mut report = Report {
        notes: vec![
            "the time of a list is from the navigation, with the console's files in the browser's cache after the first",
            "a frame is the time between two frames of the browser while a list is scrolled from its beginning to its end",
        ],
        ..Report::default()
    };
    add_to(&mut report, &opened);
    Ok(report.finish(args.json, args.check)?)
}

/// Runs the script that drives the browser.
fn open_screens(
    host: &ControlHost,
    chromium: &Path,
    rounds: u32,
) -> Result<Vec<OpenedScreen>, ServerBenchError> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("tests");
    let packages = match std::env::var_os("NODE_PATH") {
        Some(path) => path.into(),
        None => programs::target()?.join("real/node/node_modules"),
    };
    let settings = serde_json::json!({
        "admin": format!("http://{}", host.admin),
        "http": format!("http://{}", host.http),
        "token": TOKEN,
        "rounds": rounds,
    });
    let mut script = Command::new(programs::node()?);
    script.arg(tests.join("real/console/main.js")).arg("measure");
    script.env("NODE_PATH", packages).env("CHROMIUM", chromium).env("CONSOLE_TEST", settings.to_string());
    eprintln!("opening the console in Chromium");
    let shown = format!("{script:?}");
    let output = script.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|source| ProgramError::NotRun { command: shown.clone(), source })?;
    if !output.status.success() {
        return Err(ProgramError::Failed(shown).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn add_to(report: &mut Report, opened: &[OpenedScreen]) {
    let mut screens: Vec<&str> = opened.iter().map(|one| &*one.screen).collect();
    screens.dedup();
    for screen in screens {
        let of = |value: fn(&OpenedScreen) -> f64| -> Vec<f64> {
            opened.iter().filter(|one| one.screen == screen).map(value).collect()
        };
        let measured = [
            ("time to the first list", of(|one| one.first_list_ms), FIRST_LIST_MILLIS),
            ("longest frame while scrolling", of(|one| one.longest_frame_ms), FRAME_MILLIS),
        ];
        for (what, values, bar) in measured {
            let longest = values.iter().copied().reduce(f64::max).unwrap_or(f64::NAN);
            let what = format!("{screen}: {what}");
            let figure = |what, value| Figure { what, contender: "tidegate", value, unit: "ms" };
            let middle = median(&values).unwrap_or(f64::NAN);
            report.figures.push(figure(format!("{what}, median"), middle));
            report.figures.push(figure(format!("{what}, of all rounds"), longest));
            report.bars.push(Bar::new(format!("{what}, median"), middle, Side::AtMost, bar, "ms"));
        }
    }
}

/// The policy, one line for each entry.
fn policy() -> String {
    let mut text = "version: 1\nlimits:\n".to_owned();
    let mut line = |entry: std::fmt::Arguments<'_>| {
        text.write_fmt(entry).expect("writing to a string succeeds");
    };
    for limit in 0..LIMITS {
        line(format_args!(
            "  - {{ name: limit-{limit:05}, match: {{ path: /api/{limit}/** }}, key: [ip], sustained: {{ rate: 10 }} }}\n"
        ));
    }
    line(format_args!("tenants:\n"));
    for root in 0..ROOTS {
        let rate = 10 * BELOW_EACH;
        line(format_args!(
            "  - {{ id: root-{root:02}, rate_limit: {{ sustained: {{ rate: {rate} }}, burst: {{ capacity: {rate} }}, \
             sharing: inherit, budget: {{ mode: allocated }} }} }}\n"
        ));
        for below in 0..BELOW_EACH {
            line(format_args!(
                "  - {{ id: tenant-{root:02}-{below:02}, parent: root-{root:02}, rate_limit: {{ sustained: {{ rate: 10 }} }} }}\n"
            ));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_ten_thousand_limits_and_tenants() {
        let policy = tidegate_policy::Policy::parse(&policy()).expect("valid");
        assert!(policy.warnings.is_empty(), "{:?}", policy.warnings.first());
        assert_eq!(policy.rules.tenants().nodes().len(), 10_000);
        let limits = policy.rules.rules().iter().filter(|rule| rule.name.starts_with("limit-"));
        assert_eq!(limits.count(), 10_000);
    }

    #[test]
    fn each_screen_has_two_bars() {
        let opened = |screen: &str, millis| OpenedScreen {
            screen: screen.to_owned(),
            first_list_ms: millis,
            longest_frame_ms: millis,
        };
        let mut report = Report::default();
        let screens = [("a", 50.0), ("a", 150.0), ("a", 60.0), ("b", 1_000.0)];
        add_to(&mut report, &screens.map(|(screen, millis)| opened(screen, millis)));
        let met: Vec<bool> = report.bars.iter().map(|bar| bar.met).collect();
        assert_eq!(met, [true, true, true, false]);
    }
}

//! `tidegate validate`: prints every problem of policy files.

use serde_json::json;
use tidegate_policy::{Policy, PolicyError, Problem, Span};

use super::{now, print};
use crate::commands::flags::{OutputFormat, Validate};
use crate::commands::terminal::exit::{CommandFailure, display_path, read_text};
use crate::commands::terminal::paint::{Paint, Tone};
use crate::commands::terminal::report;

pub(super) fn run(args: &Validate) -> Result<(), CommandFailure> {
    let now = now();
    let mut sound = true;
    let mut files = Vec::new();
    for path in &args.files {
        // A file that cannot be read is reported as a problem, and the other files are still checked.
        let (text, checked) = match read_text(path) {
            Ok(text) => (text.clone(), Policy::parse_at(&text, now)),
            Err(failure) => (String::new(), Err(PolicyError { problems: vec![unreadable(&failure)] })),
        };
        let (limits, tenants, problems) = match checked {
            Ok(policy) => {
                (policy.rules.limits().len(), policy.rules.tenants().nodes().len(), policy.warnings)
            }
            Err(error) => (0, 0, error.problems),
        };
        let valid = !problems.iter().any(Problem::is_error);
        sound &= valid;
        match args.format {
            OutputFormat::Json => {
                let problems = report::json(display_path(path), &problems);
                files.push(json!({ "file": display_path(path), "valid": valid, "problems": problems }));
            }
            OutputFormat::Text => {
                let paint = Paint::stdout();
                let rendered = report::text(display_path(path), &text, &problems, paint);
                let verdict =
                    if valid { paint.tone(Tone::Good, "valid") } else { paint.tone(Tone::Bad, "invalid") };
                let size = if valid {
                    format!(", {}, {}", report::count(limits, "limit"), report::count(tenants, "tenant"))
                } else {
                    String::new()
                };
                print(&format!(
                    "{rendered}{}: {verdict}, {}{size}\n",
                    display_path(path),
                    report::counts(&problems)
                ))?;
            }
        }
    }
    if args.format == OutputFormat::Json {
        let all = json!({ "valid": sound, "files": files });
        print(&format!("{}\n", serde_json::to_string_pretty(&all).expect("it is plain JSON")))?;
    }
    if sound { Ok(()) } else { Err(CommandFailure::Invalid) }
}

fn unreadable(failure: &CommandFailure) -> Problem {
    let problem = Problem::error(Span::default(), "", failure.to_string());
    problem.want("a policy file, YAML or JSON").hint("check the file name; `-` is standard input")
}

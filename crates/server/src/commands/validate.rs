//! `tidegate validate`: prints every problem of policy files and of settings files.

use std::path::Path;

use serde_json::json;
use tidegate::Nanos;
use tidegate_policy::{Policy, Problem, Span};

use super::{now, print};
use crate::commands::flags::{OutputFormat, Validate};
use crate::commands::terminal::exit::{CommandFailure, display_path, read_text};
use crate::commands::terminal::paint::{Paint, Tone};
use crate::commands::terminal::report;
use crate::settings;

pub(super) fn run(args: &Validate) -> Result<(), CommandFailure> {
    let now = now();
    let mut sound = true;
    let mut files = Vec::new();
    for path in &args.files {
        // A file that cannot be read is reported as a problem, and the other files are still checked.
        let checked = match read_text(path) {
            Ok(text) if settings::is_settings(&text) => CheckedFile::settings(&text, path),
            Ok(text) => CheckedFile::policy(text, now),
            Err(failure) => CheckedFile::unreadable(&failure),
        };
        sound &= checked.is_valid();
        let path = display_path(path);
        match args.format {
            OutputFormat::Json => files.push(json!({
                "file": path,
                "kind": checked.kind,
                "valid": checked.is_valid(),
                "problems": report::json(path, &checked.problems),
            })),
            OutputFormat::Text => print(&checked.text(path, Paint::stdout()))?,
        }
    }
    if args.format == OutputFormat::Json {
        let all = json!({ "valid": sound, "files": files });
        print(&format!("{}\n", serde_json::to_string_pretty(&all).expect("it is plain JSON")))?;
    }
    if sound { Ok(()) } else { Err(CommandFailure::Invalid) }
}

/// A file and what was found in it.
struct CheckedFile {
    /// `policy` or `settings`.
    kind: &'static str,
    /// Its text, for showing lines of it; without the secrets of settings.
    text: String,
    problems: Vec<Problem>,
    /// What it has, if it is valid: "2 limits, 1 tenant".
    size: Option<String>,
}

impl CheckedFile {
    fn policy(text: String, now: Nanos) -> CheckedFile {
        let (problems, size) = match Policy::parse_at(&text, now) {
            Ok(Policy { rules, warnings }) => {
                let limits = report::count(rules.limits().len(), "limit");
                let tenants = report::count(rules.tenants().nodes().len(), "tenant");
                (warnings, Some(format!("{limits}, {tenants}")))
            }
            Err(error) => (error.problems, None),
        };
        CheckedFile { kind: "policy", text, problems, size }
    }

    fn settings(text: &str, path: &str) -> CheckedFile {
        let home = Path::new(path).parent().unwrap_or(Path::new(""));
        let (problems, size) = match settings::read(text, home) {
            Ok((_, warnings)) => (warnings, Some("settings of a server".to_owned())),
            Err(problems) => (problems, None),
        };
        CheckedFile { kind: "settings", text: settings::masked(text), problems, size }
    }

    fn unreadable(failure: &CommandFailure) -> CheckedFile {
        let problem = Problem::error(Span::default(), "", failure.to_string());
        let problem = problem.want("a policy or a settings file, YAML or JSON");
        let problem = problem.hint("check the file name; `-` is standard input");
        CheckedFile { kind: "policy", text: String::new(), problems: vec![problem], size: None }
    }

    fn is_valid(&self) -> bool {
        !self.problems.iter().any(Problem::is_error)
    }

    fn text(&self, path: &str, paint: Paint) -> String {
        let problems = report::text(path, &self.text, &self.problems, paint);
        let verdict = match self.is_valid() {
            true => paint.tone(Tone::Good, "valid"),
            false => paint.tone(Tone::Bad, "invalid"),
        };
        let size = self.size.as_ref().map(|size| format!(", {size}")).unwrap_or_default();
        format!("{problems}{path}: {verdict}, {}{size}\n", report::counts(&self.problems))
    }
}

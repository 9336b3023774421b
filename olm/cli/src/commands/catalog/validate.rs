//! `olm catalog validate`.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use olm_catalog::{Catalog, Problem, Severity};
use serde::Serialize;

use crate::{
    args::ValidateArgs,
    exit::Failure,
    output::{Report, Stream, count},
    prose::printable,
    source::{self, Named, Opened},
};

/// The result, with totals.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict<'a> {
    source: &'a str,
    /// Empty if the check does not compute it.
    #[serde(skip_serializing_if = "str::is_empty")]
    digest: &'a str,
    /// Whether the command exits with 0.
    valid: bool,
    packages: usize,
    channels: usize,
    bundles: usize,
    errors: usize,
    warnings: usize,
    milliseconds: u128,
    problems: &'a [Problem],
}

pub async fn run(args: ValidateArgs) -> Result<(), Failure> {
    let named = Named::parse(&args.source)?;
    let options = source::options(&args.registry)?;
    let start = Instant::now();
    let mut catalog = Opened::open(&named, &options).await?.check().await?;
    catalog.problems.sort_by(|a, b| key(a).cmp(&key(b)));
    let verdict = Verdict::of(&catalog, args.strict, start.elapsed());
    print(&verdict, args.output)?;
    if verdict.valid { Ok(()) } else { Err(Failure::no()) }
}

/// Sorts by file, then by package, to group related problems.
fn key(problem: &Problem) -> (&str, Option<&str>, usize, usize, &str) {
    let place = &problem.place;
    (&place.path, problem.package.as_deref(), place.line, place.column, &problem.code)
}

impl<'a> Verdict<'a> {
    pub fn of(catalog: &'a Catalog, strict: bool, took: Duration) -> Self {
        let count = |severity| catalog.problems.iter().filter(|problem| problem.severity == severity).count();
        let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
        Self {
            source: &catalog.origin,
            digest: &catalog.digest,
            valid: errors == 0 && !(strict && warnings > 0),
            packages: catalog.len(),
            channels: catalog.summaries().map(|summary| summary.channels.len()).sum(),
            bundles: catalog.summaries().map(|summary| summary.versions).sum(),
            errors,
            warnings,
            milliseconds: took.as_millis(),
            problems: &catalog.problems,
        }
    }

    /// `catalog: valid: 43 packages, 115 channels, 192 bundles; no errors, 2 warnings`
    fn summary(&self) -> String {
        let judged = if self.valid { "valid" } else { "not valid" };
        format!(
            "{}: {judged}: {}, {}, {}; {}, {}",
            printable(self.source),
            count(self.packages, "package"),
            count(self.channels, "channel"),
            count(self.bundles, "bundle"),
            count(self.errors, "error"),
            count(self.warnings, "warning"),
        )
    }
}

fn print(verdict: &Verdict<'_>, format: Report) -> Result<(), Failure> {
    if format != Report::Text {
        return format.print(verdict, String::new);
    }
    let mut out = Stream::new();
    for (index, problem) in verdict.problems.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|before| verdict.problems.get(before));
        let group = |problem: &Problem| (problem.place.path.clone(), problem.package.clone());
        if before.is_some_and(|before| group(before) != group(problem)) {
            out.line("")?;
        }
        out.line(&problem_line(problem))?;
        if out.is_closed() {
            break;
        }
    }
    out.end()?;
    eprintln!("{} ({:.2} s)", verdict.summary(), verdict.milliseconds as f64 / 1e3);
    Ok(())
}

/// `catalog.yaml:3:5: error: channel a, entry b: text; fix [code]`, a format that editors parse.
pub fn problem_line(problem: &Problem) -> String {
    let place = &problem.place;
    let mut line = place.path.clone();
    if place.line > 0 {
        let _ = write!(line, ":{}:{}", place.line, place.column);
    }
    let severity = match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let _ = write!(line, ": {severity}: {}", problem.text);
    if !problem.fix.is_empty() {
        let _ = write!(line, "; {}", problem.fix);
    }
    let _ = write!(line, " [{}]", problem.code);
    printable(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog(text: &str) -> Catalog {
        Catalog::from_bytes("catalog.yaml", text.as_bytes())
    }

    const SOUND: &str = "\
schema: olm.package
name: a
defaultChannel: stable
---
schema: olm.channel
package: a
name: stable
entries: [{name: a.v1}]
---
schema: olm.bundle
package: a
name: a.v1
image: example.invalid/a:v1
properties:
- {type: olm.package, value: {packageName: a, version: 1.0.0}}
";

    #[test]
    fn warnings_fail_only_where_they_are_to_fail() {
        // given a catalog with a warning
        let catalog = catalog(&SOUND.replace("name: a\n", "name: a\nname: a\n"));
        // when it is validated
        let lenient = Verdict::of(&catalog, false, Duration::ZERO);
        // then only strict validation rejects it
        assert!(lenient.valid && lenient.warnings == 1, "{:?}", catalog.problems);
        assert!(!Verdict::of(&catalog, true, Duration::ZERO).valid);
        insta::assert_snapshot!(lenient.summary(), @"catalog.yaml: valid: 1 package, 1 channel, 1 bundle; no errors, 1 warning");
    }

    #[test]
    fn an_error_names_place_code_and_fix() {
        let catalog = catalog(&SOUND.replace("defaultChannel: stable", "defaultChannel: \"st\\e[2Jable\""));
        let lines: Vec<String> = catalog.problems.iter().map(problem_line).collect();
        insta::assert_snapshot!(lines.join("\n"), @r"catalog.yaml:1:1: error: default channel st\u{1b}[2Jable of package a does not exist; using stable; set defaultChannel to a channel of the package [default-channel-unknown]");
    }
}

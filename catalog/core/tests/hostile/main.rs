//! Catalogs that are invalid, unusual or malicious. Each case must be reported with its code and its place,
//! and must leave every other package unchanged.

#![allow(clippy::unwrap_used, clippy::panic)] // a helper of a test may fail it

mod files;
mod forms;
mod sizes;
mod text;
mod upstream;

use olm_catalog::{Catalog, Problem, Severity};

use upstream::Outcome;

/// The problem with a code; without one the test fails and prints all problems.
fn problem<'a>(catalog: &'a Catalog, code: &str) -> &'a Problem {
    catalog.problems.iter().find(|problem| problem.code == code).unwrap_or_else(|| {
        panic!("no problem {code} among {}", reported(&catalog.problems));
    })
}

fn reported(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().take(20).map(ToString::to_string).collect();
    format!("{} problems:\n{}", problems.len(), lines.join("\n"))
}

fn errors(catalog: &Catalog) -> Vec<&Problem> {
    catalog.problems.iter().filter(|problem| problem.severity == Severity::Error).collect()
}

/// The package `good` is loaded, complete and without a problem of its own.
fn assert_good(catalog: &Catalog, context: &str) {
    let good = catalog.package("good").unwrap();
    let good = good.unwrap_or_else(|| panic!("{context}: good is gone; {}", reported(&catalog.problems)));
    assert_eq!(good.head().map(|bundle| bundle.name.as_str()), Some("good.v1.0.0"), "{context}");
    let its: Vec<_> = catalog.problems.iter().filter(|it| it.package.as_deref() == Some("good")).collect();
    assert!(its.is_empty(), "{context}: {its:?}");
}

#[test]
fn upstreams_own_cases_have_their_outcome() {
    let mut wrong = Vec::new();
    let cases = upstream::cases();
    for upstream::Case { name, text, outcome } in &cases {
        // given the case, followed by a valid package
        let catalog = Catalog::from_bytes("c.yaml", (text.clone() + &text::sound("good")).as_bytes());
        // when it was read, then the case has its outcome, at its own line
        let lines = text.lines().count();
        let as_expected = match outcome {
            Outcome::Accepted => catalog.problems.is_empty(),
            Outcome::Warned(code) => {
                errors(&catalog).is_empty() && problem(&catalog, code).severity == Severity::Warning
            }
            Outcome::Refused(code) => catalog.problems.iter().any(|problem| {
                problem.code == *code
                    && problem.severity == Severity::Error
                    && (1..=lines).contains(&problem.place.line)
            }),
        };
        if !as_expected {
            wrong.push(format!("{name}: not {outcome:?} but {}", reported(&catalog.problems)));
        }
        assert_good(&catalog, name);
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

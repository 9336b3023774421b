//! Tests that are skipped in CI.

use std::process::Command;

use super::root;

#[test]
fn a_skip_that_is_not_listed_fails_ci() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("test.log");
    let check = |text: &str| {
        std::fs::write(&log, text).unwrap();
        let done = Command::new(root().join("scripts/unexpected-skips.sh")).arg(&log).output().unwrap();
        (done.status.code(), String::from_utf8(done.stdout).unwrap())
    };
    let listed = "skipped: sbom: cargo-cyclonedx is not installed\n";
    assert_eq!(check("test a ... ok\n"), (Some(0), String::new()));
    assert_eq!(check(listed), (Some(0), String::new()));
    let (code, text) = check(&format!("{listed}test a ... ok\nskipped: a: kubectl is not installed\n"));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(code, Some(1), "{text}");
    assert_eq!(
        lines,
        ["error: skips that tests/expected-skips.tsv does not list:", "a: kubectl is not installed"]
    );
}

/// `scripts/test.sh` checks the skips where `CI` is set.
#[test]
fn ci_checks_the_skips() {
    let lines = |file: &str| -> Vec<String> {
        let text = std::fs::read_to_string(root().join(file)).unwrap();
        text.lines().map(|line| line.trim().to_owned()).collect()
    };
    let at = |lines: &[String], line: &str| {
        lines.iter().position(|other| other == line).unwrap_or_else(|| panic!("no line {line:?}"))
    };
    let run = lines(".ci/run");
    assert!(at(&run, "export CI=${CI:-true}") < at(&run, "make test"));
    let test = lines("scripts/test.sh");
    let check = at(&test, "scripts/unexpected-skips.sh \"$log\" || status=1");
    assert_eq!(test[check - 1], "if [ -n \"${CI:-}\" ]; then");
    assert_eq!(test.last().map(String::as_str), Some("exit \"$status\""));
}

//! The browser scenarios: every id is in `tests/e2e/scenarios.tsv`, with tests that exist or a reason.

use std::collections::BTreeSet;

use super::root;

/// First and last number of each group of ids.
const GROUPS: [(u8, u8); 10] =
    [(1, 6), (10, 12), (20, 23), (30, 36), (40, 41), (50, 55), (60, 64), (70, 78), (80, 84), (90, 95)];

/// Whether a file has a test of this name.
fn has_test(text: &str, name: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.windows(2).any(|pair| {
        let is_test = pair[0].starts_with("#[test]") || pair[0].starts_with("#[tokio::test");
        let function = pair[1].trim_start_matches("async ").strip_prefix("fn ");
        is_test && function.and_then(|rest| rest.split_once('(')).is_some_and(|(found, _)| found == name)
    })
}

#[test]
fn every_browser_scenario_has_a_test_or_a_reason() {
    let list = std::fs::read_to_string(root().join("tests/e2e/scenarios.tsv")).expect("scenarios.tsv");
    let mut ids = BTreeSet::new();
    let mut wrong = Vec::new();
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        let mut cells = line.split('\t');
        let [id, what, tests] = [(); 3].map(|()| cells.next().unwrap_or_default());
        let remark = cells.next().unwrap_or_default();
        if what.is_empty() || tests.is_empty() || cells.next().is_some() || !ids.insert(id.to_owned()) {
            wrong.push(format!("{id}: not a line of its own with three or four cells"));
        }
        if tests == "-" {
            if remark.is_empty() {
                wrong.push(format!("{id}: neither a test nor a reason"));
            }
            continue;
        }
        for test in tests.split(' ') {
            let found = test.split_once("::").is_some_and(|(file, name)| {
                std::fs::read_to_string(root().join(file)).is_ok_and(|text| has_test(&text, name))
            });
            if !found {
                wrong.push(format!("{id}: no test {test}"));
            }
        }
    }
    let expected: BTreeSet<String> = GROUPS
        .iter()
        .flat_map(|(first, last)| (*first..=*last).map(|number| format!("E{number:02}")))
        .collect();
    wrong.extend(expected.symmetric_difference(&ids).map(|id| format!("{id}: missing or unknown")));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_test_is_found_by_its_attribute() {
    let text = "#[test]\nfn one() {}\n    #[tokio::test]\n    async fn two() {}\nfn three() {}\n";
    assert!(has_test(text, "one") && has_test(text, "two"));
    assert!(!has_test(text, "three") && !has_test(text, "on"));
}

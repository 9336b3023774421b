//! The index of cases: every number of reference/olm.md 9.5 has a test whose name begins with it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The last case.
const LAST: usize = 56;

/// Directories with tests, from the root of the checkout.
const FOLDERS: &[&str] =
    &["olm/resolver/tests", "olm/resolver/src", "olm/plan/tests", "olm/bundle/tests", "olm/manager/src"];

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn every_case_of_olms_own_tests_has_a_test() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut files = Vec::new();
    for folder in FOLDERS {
        rust_files(&root.join(folder), &mut files);
    }
    let mut there = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for pair in lines.windows(2) {
            let case = pair[1].strip_prefix("fn case_").and_then(|rest| rest.get(..2)?.parse::<usize>().ok());
            there.extend(case.filter(|_| pair[0] == "#[test]"));
        }
    }
    let missing: Vec<usize> = (1..=LAST).filter(|case| !there.contains(case)).collect();
    assert!(missing.is_empty(), "cases without a test: {missing:?}");
}

//! docs/catalog-codes.md lists every code that a check can report, and no other.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Strings that look like codes: names in manifests, annotations, suites.
const NO_CODES: &[&str] = &[
    "alm-examples",
    "alpha-deprecated-apis",
    "apiservice-cert",
    "catalog-templates",
    "cluster-admin",
    "extension-apiserver-authentication-reader",
    "good-practices",
    "hostmount-anyuid",
    "kube-system",
    "k8s-version",
    "node-exporter",
    "operator-group",
    "semver-skippatch",
    "webhook-cert",
];

/// Codes of one word.
const WORDS: &[&str] = &["syntax", "unreadable"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            sources(&path, found);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            found.push(path);
        }
    }
}

fn is_code(text: &str) -> bool {
    let parts_are_words = text.split('-').all(|part| {
        part.starts_with(|c: char| c.is_ascii_lowercase())
            && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    });
    let named = text.contains('-') && !text.starts_with("x-kubernetes-") && !NO_CODES.contains(&text);
    parts_are_words && (named || WORDS.contains(&text))
}

/// The string literals of a source file.
fn literals(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| line.split('"').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[test]
fn every_code_is_in_the_table() {
    // given the codes in the sources
    let mut files = Vec::new();
    for dir in ["catalog/core/src", "olm/bundle/src"] {
        sources(&root().join(dir), &mut files);
    }
    let texts = files.iter().map(|path| fs::read_to_string(path).unwrap());
    let defined: BTreeSet<String> =
        texts.flat_map(|text| literals(&text)).filter(|text| is_code(text)).collect();
    assert!(defined.len() > 100, "{defined:?}");
    // when they are looked up in the page
    let page = fs::read_to_string(root().join("docs/catalog-codes.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let listed: BTreeSet<String> =
        rows.filter(|(_, rest)| rest.matches(" | ").count() >= 1).map(|(code, _)| code.to_owned()).collect();
    // then all of them are listed
    let missing: Vec<&String> = defined.difference(&listed).collect();
    assert!(missing.is_empty(), "write into the tables of docs/catalog-codes.md: {missing:?}");
    let gone: Vec<&String> = listed.difference(&defined).collect();
    assert!(gone.is_empty(), "take out of the tables of docs/catalog-codes.md: {gone:?}");
}

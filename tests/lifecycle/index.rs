//! Every id of the upstream lists is a scenario here, or in `exclusions.tsv` with the reason. A deliberate
//! difference is listed there too when a scenario tests our behaviour.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// The ids in a text, one by one; of a range (`5..7`) each.
fn ids(text: &str) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    let chars: Vec<char> = text.chars().collect();
    let mut at = 0;
    while at < chars.len() {
        let start = at;
        while at < chars.len() && chars[at].is_ascii_uppercase() {
            at += 1;
        }
        let letters = at - start;
        let whole = start == 0 || !(chars[start - 1].is_alphanumeric() || chars[start - 1] == '-');
        if !(2..=3).contains(&letters) || !whole || chars.get(at) != Some(&'-') {
            at = at.max(start + 1);
            continue;
        }
        let prefix: String = chars[start..at].iter().collect();
        at += 1;
        let number = |at: &mut usize| {
            let from = *at;
            while chars.get(*at).is_some_and(char::is_ascii_digit) {
                *at += 1;
            }
            chars[from..*at].iter().collect::<String>().parse::<u32>().ok()
        };
        let Some(first) = number(&mut at) else { continue };
        let mut last = first;
        if chars.get(at) == Some(&'.') && chars.get(at + 1) == Some(&'.') {
            at += 2;
            last = number(&mut at).unwrap_or(first);
        }
        out.extend((first..=last).map(|n| format!("{prefix}-{n}")));
    }
    out
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("lifecycle")
}

fn sources(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|end| end == "rs") {
            out.push(path);
        }
    }
}

/// The ids in the doc comments of scenarios that run, by place.
fn scenarios() -> BTreeMap<String, String> {
    let mut files = Vec::new();
    sources(&folder(), &mut files);
    let mut out = BTreeMap::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a source file");
        let (mut named, mut runs) = (BTreeSet::new(), false);
        for line in text.lines().map(str::trim) {
            if let Some(doc) = line.strip_prefix("///") {
                named.extend(ids(doc));
            } else if line == "#[test]" {
                runs = true;
            } else if line.starts_with("#[ignore") {
                runs = false;
            } else if !line.starts_with("#[") {
                if runs && line.starts_with("fn ") {
                    let place = format!("{}: {line}", file.display());
                    out.extend(named.iter().map(|id| (id.clone(), place.clone())));
                }
                (named, runs) = (BTreeSet::new(), false);
            }
        }
    }
    out
}

/// Id, kind (`differs`, `elsewhere`, `not yet`) and reason.
fn exclusions() -> Vec<(String, String, String)> {
    let text = std::fs::read_to_string(folder().join("exclusions.tsv")).expect("exclusions.tsv");
    let rows = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    rows.map(|line| {
        let fields: Vec<&str> = line.split('\t').collect();
        assert!(
            fields.len() == 3 && fields.iter().all(|f| !f.trim().is_empty()),
            "three fields wanted: {line}"
        );
        assert!(["differs", "elsewhere", "not yet"].contains(&fields[1]), "unknown kind: {line}");
        (fields[0].to_owned(), fields[1].to_owned(), fields[2].to_owned())
    })
    .collect()
}

#[test]
fn every_id_is_a_scenario_or_excluded_with_a_reason() {
    let excluded = exclusions();
    let here = scenarios();
    for (id, kind, _) in &excluded {
        let place = here.get(id);
        assert!(
            kind == "differs" || place.is_none(),
            "{id} is excluded, and a scenario: {}",
            place.map(String::as_str).unwrap_or_default()
        );
    }
    let list = olm_tests::root().join("../shared/reference/olm.md");
    let Ok(text) = std::fs::read_to_string(&list) else {
        olm_tests::skipped("every_id_is_a_scenario", &format!("{} is not there", list.display()));
        return;
    };
    let part =
        text.split("### 9.1").nth(1).and_then(|rest| rest.split("### 9.2").next()).expect("section 9.1");
    // An id followed by a colon is a definition; in the text of others it is a reference.
    let mut all = BTreeSet::new();
    for line in part.lines() {
        let mut rest = line;
        while let Some(colon) = rest.find(':') {
            let word = rest[..colon].rsplit(' ').next().unwrap_or_default();
            all.extend(ids(word));
            rest = &rest[colon + 1..];
        }
    }
    assert!(all.len() > 100, "the list was not understood: {all:?}");
    let known: BTreeSet<&String> = excluded.iter().map(|(id, _, _)| id).chain(here.keys()).collect();
    let missing: Vec<&String> = all.iter().filter(|id| !known.contains(id)).collect();
    assert!(missing.is_empty(), "neither a scenario nor excluded: {missing:?}");
    let unknown: Vec<&&String> = known.iter().filter(|id| !all.contains(**id)).collect();
    assert!(unknown.is_empty(), "not in the list: {unknown:?}");
    let of = |wanted: &str| excluded.iter().filter(|(_, kind, _)| kind == wanted).count();
    println!(
        "{} ids: {} scenarios; {} differ on purpose, {} elsewhere, {} not yet",
        all.len(),
        here.len(),
        of("differs"),
        of("elsewhere"),
        of("not yet"),
    );
}

#[test]
fn ids_are_read() {
    let found = |text: &str| ids(text).into_iter().collect::<Vec<_>>();
    assert_eq!(found(" SUB-2, SUB-20: text"), ["SUB-2", "SUB-20"]);
    assert_eq!(found("FF-5..7"), ["FF-5", "FF-6", "FF-7"]);
    assert_eq!(found("UTF-8-ish X-1 and ABCD-2"), ["UTF-8"]);
}

//! A case for every rule, and near misses.

mod definitions;
mod schemas;

use std::collections::BTreeSet;

use serde_json::json;

use self::{definitions::definitions, schemas::fields};
use super::{ChangeCode, compare, crd, field, short};

#[test]
fn every_rule_finds_its_change_and_nothing_else() {
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    let mut judge = |name: &str, changes: Vec<super::Change>, expected: Vec<&str>| {
        seen.extend(changes.iter().map(|change| change.code));
        let found = short(&changes);
        if found != expected {
            wrong.push(format!("{name}:\n  found  {found:?}\n  wanted {expected:?}"));
        }
    };
    for (name, old, new, expected) in fields() {
        judge(name, field(old, new), expected);
    }
    for (name, old, new, expected) in definitions() {
        let (mut live, mut next) = (crd(json!({})), crd(json!({})));
        old(&mut live);
        new(&mut next);
        judge(name, compare(&live, &next), expected);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let without: Vec<_> = ChangeCode::ALL.iter().filter(|code| !seen.contains(code)).collect();
    assert!(without.is_empty(), "rules without a case: {without:?}");
}

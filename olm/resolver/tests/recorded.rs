//! Results of OLM's own solver for thousands of abstract problems.
// the lints let `#[test]` functions panic, not the helpers they share
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::HashMap;
use std::path::PathBuf;

use olm_resolver::solver::{Answer, Constraint, Problem, Var};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Recorded {
    name: String,
    vars: Vec<Variable>,
    sat: bool,
    result: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Variable {
    id: String,
    c: Vec<Value>,
}

impl Recorded {
    fn problem(&self) -> Problem {
        let ids = self.ids();
        let var = |value: &Value| ids[value.as_str().unwrap()];
        let list = |value: &Value| value.as_array().unwrap().iter().map(var).collect::<Vec<_>>();
        let constraint = |c: &Value| match c[0].as_str().unwrap() {
            "mandatory" => Constraint::Mandatory,
            "prohibited" => Constraint::Prohibited,
            "dependency" => Constraint::Dependency(list(&c[1])),
            "conflict" => Constraint::Conflict(var(&c[1])),
            "atmost" => Constraint::AtMost(c[1].as_u64().unwrap() as usize, list(&c[2])),
            other => panic!("{}: {other}", self.name),
        };
        Problem { variables: self.vars.iter().map(|v| v.c.iter().map(constraint).collect()).collect() }
    }

    fn ids(&self) -> HashMap<&str, Var> {
        self.vars.iter().enumerate().map(|(i, v)| (v.id.as_str(), i as Var)).collect()
    }

    fn selected(&self) -> Vec<Var> {
        let ids = self.ids();
        let mut list: Vec<Var> = self.result.iter().flatten().map(|id| ids[id.as_str()]).collect();
        list.sort_unstable();
        list
    }
}

fn shared(path: &str) -> Option<PathBuf> {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let root = std::env::var_os("OLM_SHARED_DATA").map_or_else(|| PathBuf::from(default), PathBuf::from);
    let file = root.join(path);
    if file.exists() {
        return Some(file);
    }
    println!("skipped: {} is not there (OLM_SHARED_DATA names the folder)", file.display());
    None
}

/// There is no difference: OLM's choice depends on the order of variables, and so does this one.
#[test]
fn every_recorded_problem_has_the_recorded_answer() {
    let Some(file) = shared("recorded/olm-v0/solver-instances.jsonl") else { return };
    let text = std::fs::read_to_string(file).unwrap();
    let mut count = 0;
    for line in text.lines() {
        // given a problem with a recorded result of OLM's solver
        let recorded: Recorded = serde_json::from_str(line).unwrap();
        // when ours is asked
        let answer = recorded.problem().solve();
        // then the result is the same
        match answer {
            Answer::Selected(selected) => {
                assert!(recorded.sat, "{}", recorded.name);
                assert_eq!(selected, recorded.selected(), "{}", recorded.name);
            }
            Answer::Contradiction(_) => assert!(!recorded.sat, "{}", recorded.name),
            Answer::GaveUp { steps } => panic!("{}: gave up after {steps} steps", recorded.name),
        }
        count += 1;
    }
    assert!(count >= 4_000, "{count}");
    println!("{count} problems, no differences");
}

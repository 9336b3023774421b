#![allow(clippy::unwrap_used, clippy::panic)]

use super::{Answer, Constraint, Problem};
use Constraint::{AtMost, Dependency, Mandatory, Prohibited};

fn problem(variables: &[&[Constraint]]) -> Problem {
    Problem { variables: variables.iter().map(|list| list.to_vec()).collect() }
}

#[test]
fn a_contradiction_names_only_what_it_needs() {
    let answer = problem(&[
        &[Mandatory, Dependency(vec![1, 2]), AtMost(1, vec![1, 2])],
        &[Mandatory],
        &[Mandatory],
        &[Mandatory, Dependency(vec![0])],
        &[Mandatory, Prohibited],
    ])
    .solve();
    let Answer::Contradiction(core) = answer else { panic!("{answer:?}") };
    assert!(core == [(4, 0), (4, 1)] || core == [(0, 2), (1, 0), (2, 0)], "{core:?}");
}

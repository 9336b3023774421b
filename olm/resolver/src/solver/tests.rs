#![allow(clippy::unwrap_used, clippy::panic)]

use super::{Answer, Constraint, Problem};
use Constraint::{AtMost, Conflict, Dependency, Mandatory, Prohibited};

fn problem(variables: &[&[Constraint]]) -> Problem {
    Problem { variables: variables.iter().map(|list| list.to_vec()).collect() }
}

#[test]
fn preference_beats_minimality_but_what_is_taken_counts() {
    // a: x or y, b: y; x is taken although y would do for both
    let answer =
        problem(&[&[Mandatory, Dependency(vec![2, 3])], &[Mandatory, Dependency(vec![3])], &[], &[]]).solve();
    assert_eq!(answer, Answer::Selected(vec![0, 1, 2, 3]));
    // a: y, z or m, b: x or y; y is taken by the time b asks
    let answer =
        problem(&[&[Mandatory, Dependency(vec![3, 4])], &[Mandatory, Dependency(vec![2, 3])], &[], &[], &[]])
            .solve();
    assert_eq!(answer, Answer::Selected(vec![0, 1, 3]));
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

#[test]
fn it_backtracks_over_several_lists() {
    // case 18 of OLM's own tests
    let answer = problem(&[
        &[Mandatory, Dependency(vec![3, 4])],
        &[Mandatory, Dependency(vec![5, 6])],
        &[Mandatory, Dependency(vec![7, 8])],
        &[Conflict(7), Conflict(8)],
        &[Conflict(7)],
        &[Conflict(7), Conflict(8)],
        &[Conflict(7)],
        &[],
        &[],
    ])
    .solve();
    assert_eq!(answer, Answer::Selected(vec![0, 1, 2, 4, 6, 8]));
}

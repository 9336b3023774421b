//! Cases 1 to 19: the solver alone.
//!
//! The letters of the cases are variables in the order in which they are named there.

use olm_resolver::solver::Constraint::{self, AtMost, Conflict, Dependency, Mandatory, Prohibited};

use crate::world::problem::{Outcome, solve};

fn of(variables: &[&[Constraint]]) -> Outcome {
    solve(&variables.iter().map(|list| list.to_vec()).collect::<Vec<_>>())
}

fn needs(list: &[u32]) -> Constraint {
    Dependency(list.to_vec())
}

fn selects(list: &[usize]) -> Outcome {
    Ok(list.to_vec())
}

fn contradiction(core: &[(usize, usize)]) -> Outcome {
    Err(core.to_vec())
}

/// Without variables nothing is selected.
#[test]
fn case_01_no_variables() {
    assert_eq!(of(&[]), selects(&[]));
}

/// An unneeded variable is not selected.
#[test]
fn case_02_unnecessary_variable_is_not_selected() {
    assert_eq!(of(&[&[]]), selects(&[]));
}

#[test]
fn case_03_single_mandatory() {
    assert_eq!(of(&[&[Mandatory]]), selects(&[0]));
}

/// Mandatory and prohibited at once is a contradiction, and both are named. OLM's solver has sentences ("a is
/// mandatory, a is prohibited"); here it names the constraints, and the explanation has the sentences
/// (tests/explanations.rs).
#[test]
fn case_04_both_mandatory_and_prohibited() {
    assert_eq!(of(&[&[Mandatory, Prohibited]]), contradiction(&[(0, 0), (0, 1)]));
}

/// b depends on a.
#[test]
fn case_05_dependency_is_selected() {
    assert_eq!(of(&[&[], &[Mandatory, needs(&[0])]]), selects(&[0, 1]));
}

/// c depends on b, b on a.
#[test]
fn case_06_transitive_dependency_is_selected() {
    assert_eq!(of(&[&[], &[needs(&[0])], &[Mandatory, needs(&[1])]]), selects(&[0, 1, 2]));
}

/// c depends on a and on b.
#[test]
fn case_07_both_dependencies_are_selected() {
    assert_eq!(of(&[&[], &[], &[Mandatory, needs(&[0]), needs(&[1])]]), selects(&[0, 1, 2]));
}

/// c prefers a over b, and b conflicts with a.
#[test]
fn case_08_only_first_dependency_with_a_conflict() {
    assert_eq!(of(&[&[], &[Conflict(0)], &[Mandatory, needs(&[0, 1])]]), selects(&[0, 2]));
}

/// The same without the conflict: one of them is enough.
#[test]
fn case_09_only_first_dependency_is_selected() {
    assert_eq!(of(&[&[], &[], &[Mandatory, needs(&[0, 1])]]), selects(&[0, 2]));
}

/// The order of the list decides, not that of the variables.
#[test]
fn case_10_only_first_dependency_in_reverse_order() {
    assert_eq!(of(&[&[], &[], &[Mandatory, needs(&[1, 0])]]), selects(&[1, 2]));
}

/// Two mandatory ones conflict; all three constraints are named.
#[test]
fn case_11_two_mandatory_but_conflicting() {
    let answer = of(&[&[Mandatory], &[Mandatory, Conflict(0)]]);
    assert_eq!(answer, contradiction(&[(0, 0), (1, 0), (1, 1)]));
}

/// The preferences of an unselected variable (a) do not matter. x is 2, y is 3.
#[test]
fn case_12_irrelevant_dependencies_do_not_influence_the_order() {
    let answer = of(&[&[needs(&[2, 3])], &[Mandatory, needs(&[3, 2])], &[], &[]]);
    assert_eq!(answer, selects(&[1, 3]));
}

/// At most one of x and y, both mandatory. a itself only contributes the limit.
#[test]
fn case_13_cardinality_constraint_prevents_resolution() {
    let answer = of(&[&[Mandatory, needs(&[1, 2]), AtMost(1, vec![1, 2])], &[Mandatory], &[Mandatory]]);
    assert_eq!(answer, contradiction(&[(0, 2), (1, 0), (2, 0)]));
}

/// a prefers x, but b needs y, and there may be only one of them. x is 2, y is 3.
#[test]
fn case_14_cardinality_constraint_forces_the_alternative() {
    let answer =
        of(&[&[Mandatory, needs(&[2, 3]), AtMost(1, vec![2, 3])], &[Mandatory, needs(&[3])], &[], &[]]);
    assert_eq!(answer, selects(&[0, 1, 3]));
}

/// a depends on y; b, which prefers x, takes the selected y. x is 2, y is 3.
#[test]
fn case_15_two_dependencies_satisfied_by_one_variable() {
    let answer = of(&[&[Mandatory, needs(&[3])], &[Mandatory, needs(&[2, 3])], &[], &[]]);
    assert_eq!(answer, selects(&[0, 1, 3]));
}

/// The same with more alternatives. x is 2, y is 3, z is 4, m is 5.
#[test]
fn case_16_other_candidates_do_not_matter_when_one_serves_both() {
    let answer = of(&[&[Mandatory, needs(&[3, 4, 5])], &[Mandatory, needs(&[2, 3])], &[], &[], &[], &[]]);
    assert_eq!(answer, selects(&[0, 1, 3]));
}

/// a takes its first preference x although y, which b needs, would serve both: preference comes before
/// number. x is 2, y is 3.
#[test]
fn case_17_preference_comes_before_the_smallest_number() {
    let answer = of(&[&[Mandatory, needs(&[2, 3])], &[Mandatory, needs(&[3])], &[], &[]]);
    assert_eq!(answer, selects(&[0, 1, 2, 3]));
}

/// Every first preference is impossible. a, b, c are 0 to 2; a1, a2 are 3, 4; b1, b2 are 5, 6; c1, c2 are 7,
/// 8.
#[test]
fn case_18_only_the_least_preferred_is_possible() {
    let answer = of(&[
        &[Mandatory, needs(&[3, 4])],
        &[Mandatory, needs(&[5, 6])],
        &[Mandatory, needs(&[7, 8])],
        &[Conflict(7), Conflict(8)],
        &[Conflict(7)],
        &[Conflict(7), Conflict(8)],
        &[Conflict(7)],
        &[],
        &[],
    ]);
    assert_eq!(answer, selects(&[0, 1, 2, 4, 6, 8]));
}

/// The first of each of two lists. x1, x2 are 1, 2; y1, y2 are 3, 4.
#[test]
fn case_19_preferences_are_kept_with_several_dependencies() {
    let answer = of(&[&[Mandatory, needs(&[1, 2]), needs(&[3, 4])], &[], &[], &[], &[]]);
    assert_eq!(answer, selects(&[0, 1, 3]));
}

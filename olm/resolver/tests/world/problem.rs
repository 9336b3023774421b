//! Abstract problems in a short notation.

use olm_resolver::solver::{Answer, Constraint, Problem, Var};

use super::sat::{Formula, no, yes};

/// The selection; or the variables and the indexes of their contradicting constraints. Both are sorted.
pub type Outcome = Result<Vec<usize>, Vec<(usize, usize)>>;

pub fn solve(variables: &[Vec<Constraint>]) -> Outcome {
    match (Problem { variables: variables.to_vec() }).solve() {
        Answer::Selected(selected) => Ok(selected.into_iter().map(|v| v as usize).collect()),
        Answer::Contradiction(core) => Err(core.into_iter().map(|(v, place)| (v as usize, place)).collect()),
        Answer::GaveUp { steps } => panic!("gave up after {steps} steps: {variables:?}"),
    }
}

/// The same as clauses; with `only`, of these constraints alone.
pub fn formula(variables: &[Vec<Constraint>], only: Option<&[(usize, usize)]>) -> Formula {
    let number = |v: &Var| *v as usize;
    let mut formula = Formula::new(variables.len());
    for (at, list) in variables.iter().enumerate() {
        for (place, constraint) in list.iter().enumerate() {
            if only.is_some_and(|only| !only.contains(&(at, place))) {
                continue;
            }
            match constraint {
                Constraint::Mandatory => formula.clause([yes(at)]),
                Constraint::Prohibited => formula.clause([no(at)]),
                Constraint::Dependency(list) => {
                    formula.clause(list.iter().map(|v| yes(number(v))).chain([no(at)]));
                }
                Constraint::Conflict(other) => formula.clause([no(at), no(number(other))]),
                Constraint::AtMost(n, list) => {
                    let mut list: Vec<usize> = list.iter().map(number).collect();
                    list.sort_unstable();
                    list.dedup();
                    formula.at_most(*n, &list);
                }
            }
        }
    }
    formula
}

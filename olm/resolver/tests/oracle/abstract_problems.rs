//! The solver alone.

use std::collections::VecDeque;

use olm_resolver::solver::{Constraint, Var};

use crate::world::problem::{formula, solve};
use crate::world::rng::{Rng, seeds};
use crate::world::sat::{Formula, no, yes};

fn problem(rng: &mut Rng) -> Vec<Vec<Constraint>> {
    let most = if rng.percent(10) { 40 } else { 14 };
    let count = 1 + rng.below(most);
    let some = |rng: &mut Rng, most: usize| -> Vec<Var> {
        (0..rng.below(most + 1)).map(|_| rng.below(count) as Var).collect()
    };
    (0..count)
        .map(|_| {
            let mut list = Vec::new();
            if rng.percent(25) {
                list.push(Constraint::Mandatory);
            }
            for _ in 0..rng.below(3) {
                list.push(Constraint::Dependency(some(rng, 4)));
            }
            if rng.percent(25) {
                list.push(Constraint::Conflict(rng.below(count) as Var));
            }
            if rng.percent(20) {
                list.push(Constraint::AtMost(rng.below(3), some(rng, 5)));
            }
            if rng.percent(6) {
                list.push(Constraint::Prohibited);
            }
            rng.shuffle(&mut list);
            list
        })
        .collect()
}

/// The result of OLM's order of choices: mandatory variables, then their dependencies, list by list; of a
/// list the first with which there is still a solution, and none when one of it was chosen before.
fn preferred(given: &[Vec<Constraint>], plain: &Formula) -> Vec<usize> {
    let mandatory = (0..given.len()).filter(|v| given[*v].contains(&Constraint::Mandatory));
    let mut queue: VecDeque<Vec<usize>> = mandatory.map(|v| vec![v]).collect();
    let mut chosen: Vec<usize> = Vec::new();
    while let Some(list) = queue.pop_front() {
        if list.iter().any(|v| chosen.contains(v)) {
            continue;
        }
        let leaves_one = |v: &usize| {
            let assumed: Vec<_> = chosen.iter().chain([v]).map(|v| yes(*v)).collect();
            plain.satisfiable(&assumed)
        };
        let found = list.into_iter().find(leaves_one).unwrap();
        chosen.push(found);
        for constraint in &given[found] {
            if let Constraint::Dependency(list) = constraint {
                queue.push_back(list.iter().map(|v| *v as usize).collect());
            }
        }
    }
    chosen.sort_unstable();
    chosen
}

#[test]
fn the_solver_finds_what_there_is() {
    seeds("the_solver_finds_what_there_is", 4000, |seed| {
        // given any problem
        let given = problem(&mut Rng::new(seed));
        let plain = formula(&given, None);
        match solve(&given) {
            // then a selection is a solution, and the one that OLM prefers
            Ok(selected) => {
                let values: Vec<bool> = (0..given.len()).map(|v| selected.contains(&v)).collect();
                assert!(plain.holds(&values), "{given:?}: {selected:?}");
                assert_eq!(selected, preferred(&given, &plain), "{given:?}");
            }
            // and a core has no solution, but has one without any of its constraints
            Err(core) => {
                assert!(!plain.satisfiable(&[]), "{given:?}: {core:?}");
                assert!(!formula(&given, Some(&core)).satisfiable(&[]), "{given:?}: {core:?}");
                for drop in &core {
                    let rest: Vec<_> = core.iter().copied().filter(|c| c != drop).collect();
                    let plain = formula(&given, Some(&rest));
                    assert!(plain.satisfiable(&[]), "{given:?}: {core:?}: not without {drop:?}");
                }
            }
        }
    });
}

/// The oracle itself is checked by brute force.
#[test]
fn the_plain_search_is_right() {
    seeds("the_plain_search_is_right", 500, |seed| {
        let rng = &mut Rng::new(seed);
        let count = 1 + rng.below(8);
        let mut formula = Formula::new(count);
        for _ in 0..rng.below(20) {
            let literal = |rng: &mut Rng| {
                let variable = rng.below(count);
                if rng.percent(50) { yes(variable) } else { no(variable) }
            };
            formula.clause((0..1 + rng.below(3)).map(|_| literal(rng)).collect::<Vec<_>>());
        }
        let most = rng.below(3);
        let limited: Vec<usize> = (0..count).filter(|_| rng.percent(50)).collect();
        let mut with_limit = formula.clone();
        with_limit.at_most(most, &limited);
        let by_trying = (0..1u32 << count).any(|bits| {
            let values: Vec<bool> = (0..count).map(|v| bits & (1 << v) != 0).collect();
            formula.holds(&values) && limited.iter().filter(|v| values[**v]).count() <= most
        });
        assert_eq!(with_limit.satisfiable(&[]), by_trying, "{with_limit:?}");
        if let Some(values) = with_limit.solution(&[]) {
            assert!(with_limit.holds(&values), "{with_limit:?}: {values:?}");
        }
    });
}

//! A problem with all rules known beforehand.

use super::core::minimal;
use super::engine::{Outcome, Rule, World, search};
use super::{BUDGET, Tag, Var};

/// A rule about one variable, as in OLM's solver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Constraint {
    /// It must be selected.
    Mandatory,
    /// It must not be selected.
    Prohibited,
    /// When it is selected, one of these must be too, in order of preference.
    Dependency(Vec<Var>),
    /// When it is selected, that one must not be.
    Conflict(Var),
    /// At most this many of these are selected, whether the variable itself is or not.
    AtMost(usize, Vec<Var>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// The constraints of each variable, by its index.
    pub variables: Vec<Vec<Constraint>>,
}

/// Result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The selected variables, in order.
    Selected(Vec<Var>),
    /// A minimal set of contradicting constraints (variable, index of the constraint).
    Contradiction(Vec<(Var, usize)>),
    /// No result within the budget.
    GaveUp {
        /// Number of decisions and contradictions.
        steps: u64,
    },
}

impl Problem {
    /// Searches, with the usual budget.
    pub fn solve(&self) -> Answer {
        let mut world = Fixed::new(self);
        let mut budget = BUDGET;
        match search(&mut world, &mut budget, &|_| true) {
            Outcome::Selected(mut selected) => {
                selected.sort_unstable();
                Answer::Selected(selected)
            }
            Outcome::GaveUp { steps, .. } => Answer::GaveUp { steps },
            Outcome::Contradiction(tags) => {
                let tags = minimal(&mut world, tags, &mut budget);
                let mut places: Vec<(Var, usize)> =
                    tags.into_iter().map(|tag| world.tags[tag as usize]).collect();
                places.sort_unstable();
                Answer::Contradiction(places)
            }
        }
    }
}

/// The problem as a source of rules.
struct Fixed {
    tags: Vec<(Var, usize)>,
    rules: Vec<Vec<Rule>>,
    always: Vec<Rule>,
    groups: Vec<(Tag, usize)>,
    groups_of: Vec<Vec<u32>>,
}

impl Fixed {
    fn new(problem: &Problem) -> Self {
        let count = problem.variables.len();
        let mut fixed = Self {
            tags: Vec::new(),
            rules: vec![Vec::new(); count],
            always: Vec::new(),
            groups: Vec::new(),
            groups_of: vec![Vec::new(); count],
        };
        for (var, constraints) in problem.variables.iter().enumerate() {
            for (place, constraint) in constraints.iter().enumerate() {
                let tag = fixed.tags.len() as Tag;
                fixed.tags.push((var as Var, place));
                match constraint {
                    Constraint::Mandatory => fixed.always.push(Rule::Must { tag, var: var as Var }),
                    Constraint::Prohibited => fixed.rules[var].push(Rule::OneOf { tag, of: Vec::new() }),
                    Constraint::Dependency(of) => {
                        let mut seen = std::collections::BTreeSet::new();
                        let of = of.iter().copied().filter(|var| seen.insert(*var)).collect();
                        fixed.rules[var].push(Rule::OneOf { tag, of });
                    }
                    Constraint::Conflict(other) => {
                        fixed.rules[var].push(Rule::Without { tag, var: *other });
                    }
                    Constraint::AtMost(limit, of) => {
                        let group = fixed.groups.len() as u32;
                        fixed.groups.push((tag, *limit));
                        for member in of {
                            let list = &mut fixed.groups_of[*member as usize];
                            if !list.contains(&group) {
                                list.push(group);
                            }
                        }
                    }
                }
            }
        }
        fixed
    }
}

impl World for Fixed {
    fn always(&mut self) -> Vec<Rule> {
        self.always.clone()
    }

    fn rules(&mut self, var: Var) -> Vec<Rule> {
        self.rules[var as usize].clone()
    }

    fn groups(&mut self, var: Var) -> Vec<u32> {
        self.groups_of[var as usize].clone()
    }

    fn group(&self, group: u32) -> (Tag, usize) {
        self.groups[group as usize]
    }
}

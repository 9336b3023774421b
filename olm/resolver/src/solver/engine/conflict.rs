//! Contradictions: what is learned from them, and the rules in them.

use std::collections::{BTreeSet, HashSet};

use super::{Cause, Engine, From, Lit, Outcome, Reason, World};

impl<W: World> Engine<'_, W> {
    fn lits_of(&self, cause: Cause, implied: Option<Lit>) -> Vec<Lit> {
        match cause {
            Cause::Clause(id) => self.clauses[id as usize].lits.clone(),
            Cause::Group(id) => {
                let Some(group) = &self.groups[id as usize] else { return Vec::new() };
                let count = group.limit + usize::from(implied.is_none());
                let selected = group.selected.iter().take(count).map(|var| Lit::new(*var, false));
                implied.into_iter().chain(selected).collect()
            }
        }
    }

    fn cause_of(&self, var: usize) -> Option<Cause> {
        match self.vars[var].reason? {
            Reason::Decision => None,
            Reason::Clause(id) => Some(Cause::Clause(id)),
            Reason::Group(id) => Some(Cause::Group(id)),
        }
    }

    /// Analyzes the conflict, backtracks to the level where it could have been derived, and learns a clause.
    pub(super) fn learn(&mut self, conflict: Cause) {
        let current = self.levels.len() as u32;
        let mut causes = vec![conflict];
        let mut lits = self.lits_of(conflict, None);
        let mut earlier = Vec::new();
        let mut marked = Vec::new();
        let mut open = 0;
        let mut at = self.trail.len();
        // back along the trail to the single literal of this level that implies the conflict
        let first = loop {
            self.work += lits.len() as u64;
            for lit in lits {
                let var = lit.var();
                if std::mem::replace(&mut self.vars[var].seen, true) {
                    continue;
                }
                marked.push(var);
                match self.vars[var].level {
                    level if level == current => open += 1,
                    0 => causes.extend(self.cause_of(var)),
                    _ => earlier.push(lit),
                }
            }
            let lit = loop {
                at -= 1;
                if self.vars[self.trail[at].var()].seen {
                    break self.trail[at];
                }
            };
            open -= 1;
            let cause = if open == 0 { None } else { self.cause_of(lit.var()) };
            let Some(cause) = cause else { break lit };
            causes.push(cause);
            lits = self.lits_of(cause, Some(lit));
        };
        for var in marked {
            self.vars[var].seen = false;
        }
        let back = earlier.iter().map(|lit| self.vars[lit.var()].level).max().unwrap_or(0);
        self.back_to(back);
        let mut lits = vec![first.not()];
        lits.append(&mut earlier);
        self.add(lits, From::Learned(causes));
    }

    /// Reverts everything decided after that level.
    fn back_to(&mut self, level: u32) {
        self.pending = None;
        let Some(start) = self.levels.get(level as usize).copied() else { return };
        self.levels.truncate(level as usize);
        for lit in self.trail.split_off(start).into_iter().rev() {
            let var = lit.var();
            self.vars[var].value = 0;
            self.vars[var].reason = None;
            if lit.selects() {
                for id in &self.vars[var].groups {
                    if let Some(group) = &mut self.groups[*id as usize] {
                        group.selected.pop();
                    }
                }
            }
        }
        self.next = self.trail.len();
        while let Some(guess) = self.guesses.pop_if(|guess| guess.level > level) {
            self.head = guess.head;
            self.queue.truncate(guess.queue);
            if let Some(var) = guess.taken {
                self.vars[var as usize].taken = false;
            }
        }
    }

    /// The rules of a conflict without any decision.
    pub(super) fn contradiction(&self, conflict: Cause) -> Outcome {
        let mut tags = BTreeSet::new();
        let mut seen = HashSet::new();
        let mut open = vec![conflict];
        while let Some(cause) = open.pop() {
            if !seen.insert(cause) {
                continue;
            }
            let vars: Vec<usize> = match cause {
                Cause::Clause(id) => {
                    let clause = &self.clauses[id as usize];
                    match &clause.from {
                        From::Rule(tag) => drop(tags.insert(*tag)),
                        From::Learned(causes) => open.extend(causes),
                    }
                    clause.lits.iter().map(|lit| lit.var()).collect()
                }
                Cause::Group(id) => match &self.groups[id as usize] {
                    Some(group) => {
                        tags.insert(group.tag);
                        group.selected.iter().map(|var| *var as usize).collect()
                    }
                    None => Vec::new(),
                },
            };
            open.extend(vars.into_iter().filter_map(|var| self.cause_of(var)));
        }
        Outcome::Contradiction(tags.into_iter().collect())
    }
}

//! Clauses and groups, and what follows from them.

use super::{Cause, Clause, Engine, From, Lit, Reason, Rule, Var, World};

impl<W: World> Engine<'_, W> {
    /// Propagates until a fixed point; returns the conflict, if any.
    pub(super) fn propagate(&mut self) -> Option<Cause> {
        while self.next < self.trail.len() {
            let lit = self.trail[self.next];
            self.next += 1;
            if lit.selects()
                && let Some(conflict) = self.fill_groups(lit.var()).or_else(|| self.expand(lit.var()))
            {
                return Some(conflict);
            }
            if let Some(conflict) = self.visit(lit.not()) {
                return Some(conflict);
            }
        }
        None
    }

    fn fill_groups(&mut self, var: usize) -> Option<Cause> {
        for place in 0..self.vars[var].groups.len() {
            let id = self.vars[var].groups[place];
            let Some(group) = &self.groups[id as usize] else { continue };
            if group.selected.len() > group.limit {
                return Some(Cause::Group(id));
            }
            if group.selected.len() == group.limit {
                self.work += group.members.len() as u64;
                for member in 0..group.members.len() {
                    let Some(other) = self.groups[id as usize].as_ref().map(|g| g.members[member]) else {
                        continue;
                    };
                    if self.vars[other as usize].value == 0 {
                        self.assign(Lit::new(other, false), Reason::Group(id));
                    }
                }
            }
        }
        None
    }

    /// Adds the rules of a selected variable.
    fn expand(&mut self, var: usize) -> Option<Cause> {
        if std::mem::replace(&mut self.vars[var].expanded, true) {
            return None;
        }
        let mut first = None;
        for rule in self.world.rules(var as Var) {
            let (tag, lits) = match rule {
                Rule::Must { .. } => continue,
                Rule::Without { tag, var: other } => {
                    self.meet(other);
                    (tag, vec![Lit::new(var as Var, false), Lit::new(other, false)])
                }
                Rule::OneOf { tag, of } => {
                    if !(self.keep)(tag) {
                        continue;
                    }
                    let mut lits = vec![Lit::new(var as Var, false)];
                    for other in &of {
                        self.meet(*other);
                        lits.push(Lit::new(*other, true));
                    }
                    if !of.is_empty() {
                        self.lists.push(of);
                        self.vars[var].lists.push(self.lists.len() as u32 - 1);
                    }
                    (tag, lits)
                }
            };
            if (self.keep)(tag) {
                // a variable that needs itself is satisfied
                let itself = lits[1..].contains(&Lit::new(var as Var, true));
                let conflict = if itself { None } else { self.add(lits, From::Rule(tag)) };
                // A clause of one literal watches nothing, so the conflict with it must be handled now; the
                // others are visited again when they matter.
                let alone =
                    matches!(conflict, Some(Cause::Clause(id)) if self.clauses[id as usize].lits.len() == 1);
                first = if alone { conflict } else { first.or(conflict) };
            }
        }
        first
    }

    /// Adds a clause, and propagates when all but one of its literals are false.
    pub(super) fn add(&mut self, mut lits: Vec<Lit>, from: From) -> Option<Cause> {
        lits.dedup();
        // watched are the literals that become false last
        let rank = |lit: &Lit| match self.value(*lit) {
            0 => u32::MAX - 1,
            1 => u32::MAX,
            _ => self.vars[lit.var()].level,
        };
        for place in 0..lits.len().min(2) {
            let best = (place..lits.len()).max_by_key(|at| (rank(&lits[*at]), std::cmp::Reverse(*at)));
            lits.swap(place, best.unwrap_or(place));
        }
        let id = self.clauses.len() as u32;
        if lits.len() > 1 {
            self.watches[lits[0].index()].push(id);
            self.watches[lits[1].index()].push(id);
        }
        let first = lits[0];
        let alone = lits.get(1).is_none_or(|lit| self.value(*lit) == 2);
        let value = self.value(first);
        self.clauses.push(Clause { lits, from });
        match value {
            2 => Some(Cause::Clause(id)),
            0 if alone => {
                self.assign(first, Reason::Clause(id));
                None
            }
            _ => None,
        }
    }

    /// A literal became false: visits the clauses that watch it.
    fn visit(&mut self, lit: Lit) -> Option<Cause> {
        let mut list = std::mem::take(&mut self.watches[lit.index()]);
        let mut conflict = None;
        let mut kept = 0;
        let mut at = 0;
        self.work += list.len() as u64 + 1;
        while at < list.len() {
            let id = list[at];
            at += 1;
            let (other, open) = {
                let lits = &mut self.clauses[id as usize].lits;
                if lits[0] == lit {
                    lits.swap(0, 1);
                }
                let other = lits[0];
                let vars = &self.vars;
                let is_false = |l: &Lit| vars[l.var()].value == if l.selects() { 2 } else { 1 };
                let is_true = vars[other.var()].value == if other.selects() { 1 } else { 2 };
                let open = if is_true { None } else { (2..lits.len()).find(|p| !is_false(&lits[*p])) };
                self.work += open.unwrap_or(lits.len()) as u64;
                if let Some(place) = open {
                    lits.swap(1, place);
                }
                (other, if is_true { None } else { Some(open.is_some()) })
            };
            match open {
                Some(true) => {
                    let watched = self.clauses[id as usize].lits[1];
                    self.watches[watched.index()].push(id);
                    continue;
                }
                Some(false) if self.value(other) == 0 => self.assign(other, Reason::Clause(id)),
                Some(false) => conflict = Some(Cause::Clause(id)),
                None => {}
            }
            list[kept] = id;
            kept += 1;
            if conflict.is_some() {
                while at < list.len() {
                    list[kept] = list[at];
                    kept += 1;
                    at += 1;
                }
            }
        }
        list.truncate(kept);
        // clauses added meanwhile may watch the literal too
        list.append(&mut self.watches[lit.index()]);
        self.watches[lit.index()] = list;
        conflict
    }
}

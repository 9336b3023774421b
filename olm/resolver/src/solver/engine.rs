//! The search.

use std::collections::{BTreeSet, HashSet};

use super::{Tag, Var};

/// One rule for the engine.
#[derive(Clone, Debug)]
pub(crate) enum Rule {
    /// The variable is selected.
    Must { tag: Tag, var: Var },
    /// When the variable of this rule is selected, one of these is too, in order of preference. Without
    /// duplicates.
    OneOf { tag: Tag, of: Vec<Var> },
    /// When the variable of this rule is selected, that one is not.
    Without { tag: Tag, var: Var },
}

impl Rule {
    /// Its tag, if it is a [`Rule::Must`].
    pub(crate) fn must(&self) -> Option<Tag> {
        match self {
            Self::Must { tag, .. } => Some(*tag),
            _ => None,
        }
    }
}

/// Source of rules. It must be deterministic.
pub(crate) trait World {
    /// Unconditional rules; only [`Rule::Must`] makes sense.
    fn always(&mut self) -> Vec<Rule>;
    /// The rules of a variable; called on its first selection.
    fn rules(&mut self, var: Var) -> Vec<Rule>;
    /// The groups of a variable; called on its first occurrence.
    fn groups(&mut self, var: Var) -> Vec<u32>;
    /// Tag of a group, and its maximum number of selected members.
    fn group(&self, group: u32) -> (Tag, usize);
}

/// Result of a search.
#[derive(Debug)]
pub(crate) enum Outcome {
    Selected(Vec<Var>),
    /// These rules contradict each other.
    Contradiction(Vec<Tag>),
    /// The budget was exceeded; with the rules of the last contradiction.
    GaveUp {
        steps: u64,
        met: Vec<Tag>,
    },
}

/// A variable, selected or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Lit(u32);

impl Lit {
    fn new(var: Var, selected: bool) -> Self {
        Self(var << 1 | u32::from(!selected))
    }

    fn var(self) -> usize {
        (self.0 >> 1) as usize
    }

    fn selects(self) -> bool {
        self.0 & 1 == 0
    }

    fn not(self) -> Self {
        Self(self.0 ^ 1)
    }

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// Why a literal holds.
#[derive(Clone, Copy, Debug)]
enum Reason {
    Decision,
    Clause(u32),
    /// The group has its maximum number of selected members.
    Group(u32),
}

/// At least one of the literals holds.
struct Clause {
    lits: Vec<Lit>,
    from: From,
}

/// Origin of a clause.
enum From {
    Rule(Tag),
    Learned(Vec<Cause>),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Cause {
    Clause(u32),
    Group(u32),
}

#[derive(Default)]
struct Group {
    tag: Tag,
    limit: usize,
    members: Vec<Var>,
    /// The selected members, in the order of selection.
    selected: Vec<Var>,
}

/// State of a variable.
#[derive(Default)]
struct State {
    known: bool,
    /// Whether its rules are clauses already.
    expanded: bool,
    /// 0: open, 1: selected, 2: not selected
    value: u8,
    level: u32,
    reason: Option<Reason>,
    /// Chosen from a list, not only implied.
    taken: bool,
    seen: bool,
    groups: Vec<u32>,
    /// Its lists of alternatives, as indexes into [`Engine::lists`].
    lists: Vec<u32>,
}

/// A list of alternatives whose first possible one was taken, or which was skipped.
struct Guess {
    head: usize,
    queue: usize,
    taken: Option<Var>,
    level: u32,
}

/// Next step of a search.
enum Next {
    Done,
    Propagate,
    Select(Var),
}

struct Engine<'w, W> {
    world: &'w mut W,
    keep: &'w dyn Fn(Tag) -> bool,
    vars: Vec<State>,
    groups: Vec<Option<Group>>,
    clauses: Vec<Clause>,
    watches: Vec<Vec<u32>>,
    trail: Vec<Lit>,
    levels: Vec<usize>,
    next: usize,
    lists: Vec<Vec<Var>>,
    queue: Vec<u32>,
    head: usize,
    guesses: Vec<Guess>,
    /// The last selected variable, until its lists are queued.
    pending: Option<Var>,
    /// Decisions and conflicts.
    steps: u64,
    /// Visited clauses and literals.
    work: u64,
}

/// Searches for a selection that meets all rules whose tag is kept. Its cost is subtracted from the budget.
pub(crate) fn search<W: World>(world: &mut W, budget: &mut u64, keep: &dyn Fn(Tag) -> bool) -> Outcome {
    let mut engine = Engine {
        world,
        keep,
        vars: Vec::new(),
        groups: Vec::new(),
        clauses: Vec::new(),
        watches: Vec::new(),
        trail: Vec::new(),
        levels: Vec::new(),
        next: 0,
        lists: Vec::new(),
        queue: Vec::new(),
        head: 0,
        guesses: Vec::new(),
        pending: None,
        steps: 0,
        work: 0,
    };
    let outcome = engine.run(*budget);
    *budget = budget.saturating_sub(engine.work);
    outcome
}

impl<W: World> Engine<'_, W> {
    fn run(&mut self, budget: u64) -> Outcome {
        for rule in self.world.always() {
            let Rule::Must { tag, var } = rule else { continue };
            if !(self.keep)(tag) {
                continue;
            }
            self.meet(var);
            self.lists.push(vec![var]);
            self.queue.push(self.lists.len() as u32 - 1);
            if let Some(conflict) = self.add(vec![Lit::new(var, true)], From::Rule(tag)) {
                return self.contradiction(conflict);
            }
        }
        loop {
            match self.propagate() {
                Some(conflict) if self.levels.is_empty() => return self.contradiction(conflict),
                Some(conflict) => {
                    self.steps += 1;
                    self.learn(conflict);
                }
                None => match self.choose() {
                    Next::Done => return Outcome::Selected(self.selected()),
                    Next::Propagate => {}
                    Next::Select(var) => {
                        self.steps += 1;
                        self.levels.push(self.trail.len());
                        self.assign(Lit::new(var, true), Reason::Decision);
                    }
                },
            }
            if self.work > budget {
                return Outcome::GaveUp { steps: self.steps, met: self.met() };
            }
        }
    }

    /// The rules of the last contradiction.
    fn met(&self) -> Vec<Tag> {
        let learned = self.clauses.iter().rev().find_map(|clause| match &clause.from {
            From::Learned(causes) => Some(causes),
            From::Rule(_) => None,
        });
        let tag = |cause: &Cause| match cause {
            Cause::Clause(id) => match self.clauses[*id as usize].from {
                From::Rule(tag) => Some(tag),
                From::Learned(_) => None,
            },
            Cause::Group(id) => self.groups[*id as usize].as_ref().map(|group| group.tag),
        };
        let tags: BTreeSet<Tag> = learned.into_iter().flatten().filter_map(tag).collect();
        tags.into_iter().collect()
    }

    fn selected(&self) -> Vec<Var> {
        self.trail.iter().filter(|lit| lit.selects()).map(|lit| lit.var() as Var).collect()
    }

    // ---- variables ----

    /// Registers a variable.
    fn meet(&mut self, var: Var) {
        let at = var as usize;
        if self.vars.len() <= at {
            self.vars.resize_with(at + 1, State::default);
            self.watches.resize_with(2 * (at + 1), Vec::new);
        }
        if std::mem::replace(&mut self.vars[at].known, true) {
            return;
        }
        let groups: Vec<u32> = self.world.groups(var);
        for &id in &groups {
            let slot = id as usize;
            if self.groups.len() <= slot {
                self.groups.resize_with(slot + 1, || None);
            }
            if self.groups[slot].is_none() {
                let (tag, limit) = self.world.group(id);
                // a group that is left out has no limit
                let limit = if (self.keep)(tag) { limit } else { usize::MAX };
                self.groups[slot] = Some(Group { tag, limit, ..Group::default() });
            }
            if let Some(group) = &mut self.groups[slot] {
                group.members.push(var);
            }
        }
        self.vars[at].groups = groups;
        self.close(var);
    }

    /// Records that a variable cannot be selected when one of its groups is full; whether that is new.
    fn close(&mut self, var: Var) -> bool {
        if self.vars[var as usize].value != 0 {
            return false;
        }
        let Some(group) = self.full_group(var) else { return false };
        self.assign(Lit::new(var, false), Reason::Group(group));
        true
    }

    fn full_group(&self, var: Var) -> Option<u32> {
        let full =
            |id: &&u32| self.groups[**id as usize].as_ref().is_some_and(|g| g.selected.len() >= g.limit);
        self.vars[var as usize].groups.iter().find(full).copied()
    }

    fn value(&self, lit: Lit) -> u8 {
        match self.vars[lit.var()].value {
            0 => 0,
            value => u8::from((value == 1) != lit.selects()) + 1,
        }
    }

    fn assign(&mut self, lit: Lit, reason: Reason) {
        let at = lit.var();
        self.vars[at].value = if lit.selects() { 1 } else { 2 };
        self.vars[at].level = self.levels.len() as u32;
        self.vars[at].reason = Some(reason);
        self.trail.push(lit);
        if lit.selects() {
            for id in &self.vars[at].groups {
                if let Some(group) = &mut self.groups[*id as usize] {
                    group.selected.push(at as Var);
                }
            }
        }
    }

    // ---- propagation ----

    /// Propagates until a fixed point; returns the conflict, if any.
    fn propagate(&mut self) -> Option<Cause> {
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
    fn add(&mut self, mut lits: Vec<Lit>, from: From) -> Option<Cause> {
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

    // ---- choices ----

    /// The next decision, after propagation.
    fn choose(&mut self) -> Next {
        if let Some(var) = self.pending.take() {
            self.queue.extend(&self.vars[var as usize].lists);
        }
        loop {
            let queued = self.queue.get(self.head).copied();
            let Some(list) = queued.or_else(|| self.forgotten()) else { return Next::Done };
            let mut pick = None;
            let mut closed = false;
            for place in 0..self.lists[list as usize].len() {
                let var = self.lists[list as usize][place];
                if self.vars[var as usize].taken {
                    pick = None;
                    break;
                }
                closed |= self.close(var);
                if pick.is_none() && self.vars[var as usize].value != 2 {
                    pick = Some(var);
                }
            }
            if closed {
                return Next::Propagate;
            }
            let open = pick.filter(|var| self.vars[*var as usize].value == 0);
            let level = self.levels.len() as u32 + u32::from(open.is_some());
            self.guesses.push(Guess { head: self.head, queue: self.queue.len(), taken: pick, level });
            if queued.is_none() {
                self.queue.push(list);
            }
            self.head += 1;
            if let Some(var) = pick {
                self.vars[var as usize].taken = true;
            }
            if let Some(var) = open {
                // its own lists are known once its rules are
                self.pending = Some(var);
                return Next::Select(var);
            }
            if let Some(var) = pick {
                self.queue.extend(&self.vars[var as usize].lists);
            }
        }
    }

    /// A list of a variable that was implied instead of taken from a list, with none of its alternatives
    /// selected.
    fn forgotten(&self) -> Option<u32> {
        let implied = self.trail.iter().filter(|lit| lit.selects() && !self.vars[lit.var()].taken);
        implied
            .flat_map(|lit| &self.vars[lit.var()].lists)
            .copied()
            .find(|list| !self.lists[*list as usize].iter().any(|var| self.vars[*var as usize].value == 1))
    }

    // ---- contradictions ----

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
    fn learn(&mut self, conflict: Cause) {
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
    fn contradiction(&self, conflict: Cause) -> Outcome {
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

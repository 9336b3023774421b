//! The search.

mod conflict;
mod propagation;

use std::collections::BTreeSet;

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
}

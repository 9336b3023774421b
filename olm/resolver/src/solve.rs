//! Encodes requests, bundles and operators for the solver.
//!
//! A variable is a request, a bundle or an installed operator. A request needs one of its candidates or its
//! installed operator; a bundle needs one provider of each of its requirements. Of a package at most one
//! bundle is selected, and of the providers of an API too.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use olm_constraint::{Constraint, Gvk};

use crate::bundle::CatalogRef;
use crate::candidates::Candidates;
use crate::context::Context;
use crate::place::Place;
use crate::solver::{Outcome, Rule, Tag, Var, World, fewest, minimal, search};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Choice<'a> {
    Bundle(Place<'a>),
    /// The installed operator of the request with that index.
    Installed(usize),
}

/// Why there is no solution.
#[derive(Debug)]
pub(crate) enum Unsolved<'a> {
    /// These contradict each other; the set is minimal.
    Conflict(Vec<Cause<'a>>),
    /// The search exceeded its budget.
    GaveUp(Search<'a>),
}

/// State of an aborted search.
#[derive(Debug)]
pub(crate) struct Search<'a> {
    pub(crate) steps: u64,
    /// Number of bundles in the search.
    pub(crate) bundles: usize,
    /// The rules of the last contradiction.
    pub(crate) met: Vec<Cause<'a>>,
}

/// A rule of a contradiction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cause<'a> {
    /// The request must be met.
    Request(usize),
    /// Only candidates of the request meet it.
    Candidates,
    /// A bundle has this requirement.
    Need(&'a str, &'a Constraint),
    /// The installed operator of the request with that index has a requirement.
    Held(usize),
    /// There can be only one version of a package.
    Package(&'a str),
    /// An API has one owner.
    Api(&'a Gvk),
}

/// The kind of the reported contradiction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnsatCore {
    /// Any for a single request: its missing requirements are usually found otherwise. A minimal one for
    /// several, which names the responsible ones.
    Any,
    Minimal,
}

#[derive(Clone, Copy)]
enum Item<'a> {
    Request(usize),
    Bundle(Place<'a>),
    Installed(usize),
}

#[derive(PartialEq, Eq, Hash)]
enum Key<'a> {
    Request(usize),
    /// Catalog and bundle by address: there is one of each.
    Bundle(*const CatalogRef, *const crate::bundle::Bundle),
    Installed(usize),
    Package(&'a str),
    Api(&'a Gvk),
}

struct Domain<'a, 'c> {
    ctx: &'c Context<'a>,
    wanted: &'c BTreeMap<usize, Candidates<'a>>,
    /// Requests whose operators' requirements do not count: they run without them, and would block others.
    lenient: &'c BTreeSet<usize>,
    items: Vec<Item<'a>>,
    vars: HashMap<Key<'a>, Var>,
    rules: Vec<Option<Vec<Rule>>>,
    groups: HashMap<Key<'a>, u32>,
    group_tags: Vec<Tag>,
    causes: Vec<Cause<'a>>,
    always: Vec<Rule>,
}

impl<'a> Domain<'a, '_> {
    fn var(&mut self, item: Item<'a>) -> Var {
        let key = match item {
            Item::Request(at) => Key::Request(at),
            Item::Bundle(place) => Key::Bundle(place.catalog, place.bundle),
            Item::Installed(at) => Key::Installed(self.ctx.same_installed(at)),
        };
        let next = self.items.len() as Var;
        let var = *self.vars.entry(key).or_insert(next);
        if var == next {
            self.items.push(item);
            self.rules.push(None);
        }
        var
    }

    fn tag(&mut self, cause: Cause<'a>) -> Tag {
        self.causes.push(cause);
        self.causes.len() as Tag - 1
    }

    fn one_of(&mut self, cause: Cause<'a>, of: Vec<Var>) -> Rule {
        Rule::OneOf { tag: self.tag(cause), of }
    }

    fn group(&mut self, key: Key<'a>, cause: Cause<'a>) -> u32 {
        let next = self.group_tags.len() as u32;
        let group = *self.groups.entry(key).or_insert(next);
        if group == next {
            let tag = self.tag(cause);
            self.group_tags.push(tag);
        }
        group
    }

    /// What meets a requirement, best first: existing operators, then bundles.
    fn meeting(&mut self, need: &Constraint, parent: &CatalogRef, present_only: bool) -> Vec<Var> {
        let ctx = self.ctx;
        let mut list: Vec<Var> = Vec::new();
        let taking_part: Vec<usize> = ctx.tied_meeting(need);
        for at in taking_part {
            list.push(self.var(Item::Installed(at)));
        }
        for (place, excluded) in ctx.providers(need, parent) {
            if excluded.is_none() && (!present_only || !ctx.requests_of(place.package).is_empty()) {
                list.push(self.var(Item::Bundle(place)));
            }
        }
        // a candidate of a request counts although it is off its channel's order
        let wanted = self.wanted;
        for candidate in wanted.values().flat_map(|list| &list.allowed) {
            if need.met_by(&candidate.place.bundle.subject(candidate.place.package)) {
                list.push(self.var(Item::Bundle(candidate.place)));
            }
        }
        let mut seen = HashSet::new();
        list.retain(|var| seen.insert(*var));
        list
    }

    fn needs(
        &mut self,
        cause: impl Fn(&'a Constraint) -> Cause<'a>,
        needs: Vec<&'a Constraint>,
        parent: &CatalogRef,
        present_only: bool,
    ) -> Vec<Rule> {
        let ctx = self.ctx;
        let open: Vec<_> = needs.into_iter().filter(|need| ctx.present(need).is_none()).collect();
        open.into_iter()
            .map(|need| {
                let of = self.meeting(need, parent, present_only);
                self.one_of(cause(need), of)
            })
            .collect()
    }

    /// The operators that a bundle replaces: those of its package and the current owners of its APIs.
    /// Operators have no rules among each other: their coexistence is a fact.
    fn instead_of(&mut self, place: Place<'a>) -> Vec<Rule> {
        let ctx = self.ctx;
        let package = ctx.requests_of(place.package).iter().filter(|at| ctx.tied[**at].is_some());
        let mut gone: Vec<(usize, Cause<'a>)> =
            package.map(|at| (*at, Cause::Package(place.package))).collect();
        for gvk in &place.bundle.provides {
            gone.extend(ctx.tied_owners(gvk).iter().map(|at| (*at, Cause::Api(gvk))));
        }
        let mut seen = BTreeSet::new();
        gone.retain(|(at, _)| seen.insert(*at));
        gone.into_iter()
            .map(|(at, cause)| Rule::Without { tag: self.tag(cause), var: self.var(Item::Installed(at)) })
            .collect()
    }

    fn rules_of(&mut self, item: Item<'a>) -> Vec<Rule> {
        let ctx = self.ctx;
        match item {
            Item::Request(at) => {
                let candidates = self.wanted.get(&at).map(|list| list.allowed.as_slice());
                let mut of: Vec<Var> = Vec::new();
                for candidate in candidates.unwrap_or_default() {
                    of.push(self.var(Item::Bundle(candidate.place)));
                }
                if ctx.requests[at].installed.is_some() {
                    of.push(self.var(Item::Installed(at)));
                }
                vec![self.one_of(Cause::Candidates, of)]
            }
            Item::Bundle(place) => {
                let present_only = ctx.present_only(place.package);
                let needs = place.needs();
                let name = &place.bundle.name;
                let cause = |need| Cause::Need(name, need);
                let mut rules = self.needs(cause, needs, place.catalog, present_only);
                rules.extend(self.instead_of(place));
                rules
            }
            Item::Installed(at) => {
                let lenient = self.lenient.contains(&at);
                let Some(operator) = ctx.tied[at].filter(|_| !lenient) else { return Vec::new() };
                let needs = operator.needs();
                self.needs(|_| Cause::Held(at), needs, &ctx.requests[at].catalog, false)
            }
        }
    }
}

impl World for Domain<'_, '_> {
    fn always(&mut self) -> Vec<Rule> {
        if self.always.is_empty() {
            for &at in self.wanted.keys() {
                let var = self.var(Item::Request(at));
                let tag = self.tag(Cause::Request(at));
                self.always.push(Rule::Must { tag, var });
            }
        }
        self.always.clone()
    }

    fn rules(&mut self, var: Var) -> Vec<Rule> {
        if let Some(rules) = &self.rules[var as usize] {
            return rules.clone();
        }
        let rules = self.rules_of(self.items[var as usize]);
        self.rules[var as usize] = Some(rules.clone());
        rules
    }

    fn groups(&mut self, var: Var) -> Vec<u32> {
        let Item::Bundle(Place { package, bundle, .. }) = self.items[var as usize] else { return Vec::new() };
        let mut groups = vec![self.group(Key::Package(package), Cause::Package(package))];
        for gvk in &bundle.provides {
            let group = self.group(Key::Api(gvk), Cause::Api(gvk));
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        groups
    }

    fn group(&self, group: u32) -> (Tag, usize) {
        (self.group_tags[group as usize], 1)
    }
}

/// Selects for every request one of its candidates, or its installed operator, and all dependencies.
pub(crate) fn solve<'a>(
    ctx: &Context<'a>,
    wanted: &BTreeMap<usize, Candidates<'a>>,
    lenient: &BTreeSet<usize>,
    unsat_core: UnsatCore,
    budget: &mut u64,
) -> Result<Vec<Choice<'a>>, Unsolved<'a>> {
    let mut domain = Domain {
        ctx,
        wanted,
        lenient,
        items: Vec::new(),
        vars: HashMap::new(),
        rules: Vec::new(),
        groups: HashMap::new(),
        group_tags: Vec::new(),
        causes: Vec::new(),
        always: Vec::new(),
    };
    match search(&mut domain, budget, &|_| true) {
        Outcome::Selected(vars) => {
            let choice = |var: Var| match domain.items[var as usize] {
                Item::Request(_) => None,
                Item::Bundle(place) => Some(Choice::Bundle(place)),
                Item::Installed(at) => Some(Choice::Installed(at)),
            };
            Ok(vars.into_iter().filter_map(choice).collect())
        }
        Outcome::GaveUp { steps, met } => Err(Unsolved::GaveUp(Search {
            steps,
            bundles: domain.items.iter().filter(|item| matches!(item, Item::Bundle(_))).count(),
            met: met.into_iter().map(|tag| domain.causes[tag as usize]).collect(),
        })),
        Outcome::Contradiction(tags) => {
            let tags = match (wanted.len(), unsat_core) {
                (1, UnsatCore::Any) => tags,
                _ => {
                    // Fewest requests first: one that can be met without the others is not responsible.
                    let requests: BTreeSet<Tag> = domain.always.iter().filter_map(Rule::must).collect();
                    let tags = fewest(&mut domain, tags, &requests, budget);
                    minimal(&mut domain, tags, budget)
                }
            };
            Err(Unsolved::Conflict(tags.into_iter().map(|tag| domain.causes[tag as usize]).collect()))
        }
    }
}

//! The question as resolvo understands it.
//!
//! - A *name* is a package, of which one bundle can be chosen, or an API, of which one package can be the owner.
//! - A *solvable* is a bundle, an installed operator, or "package P owns API A".
//! - A *version set* is one solvable; an ordered list of them is a union, so that every requirement keeps its own order
//!   of preference (the catalog of the one that requires comes first).
//!
//! A package's bundles are looked up when the first requirement on it is met.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Display;

use resolvo::{
    Candidates as SolverCandidates, Condition, ConditionId, ConditionalRequirement, DenseIndex, Dependencies,
    DependencyProvider, HintDependenciesAvailable, Interner, KnownDependencies, NameId, Problem, Requirement,
    SolvableId, Solver, SolverCache, StringId, UnsolvableOrCancelled, VersionSetId, VersionSetUnionId,
};

use crate::candidates::Candidates;
use crate::exclude::Context;
use crate::need::{NeedRef, Place, needs_of, needs_of_installed};
use crate::request::DependencyPolicy;
use crate::universe::{CatalogRef, Gvk};

/// How often the solver may ask before it gives up.
const BUDGET: usize = 2_000_000;

/// What was chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Choice<'a> {
    /// A bundle.
    Bundle(Place<'a>),
    /// What the request of that number has installed.
    Installed(usize),
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Unsolved {
    /// There can be none.
    Conflict,
    /// The search took too long.
    GaveUp,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Name<'a> {
    Package(&'a str),
    Api(&'a Gvk),
}

#[derive(Clone, Copy)]
enum Item<'a> {
    Bundle(Place<'a>),
    Installed(usize),
    Owner(&'a Gvk, &'a str),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key<'a> {
    Bundle(&'a CatalogRef, &'a str, &'a str),
    Installed(usize),
    Owner(&'a Gvk, &'a str),
}

#[derive(Default)]
struct Tables<'a> {
    names: Vec<Name<'a>>,
    name_ids: BTreeMap<Name<'a>, u32>,
    items: Vec<(NameId, Item<'a>)>,
    item_ids: BTreeMap<Key<'a>, u32>,
    of_name: BTreeMap<u32, Vec<SolvableId>>,
    sets: Vec<(NameId, Option<SolvableId>)>,
    unions: Vec<Vec<VersionSetId>>,
    asked: usize,
}

impl<'a> Tables<'a> {
    fn name(&mut self, name: Name<'a>) -> NameId {
        let next = self.names.len() as u32;
        let id = *self.name_ids.entry(name).or_insert(next);
        if id == next {
            self.names.push(name);
        }
        NameId::from_raw(id)
    }

    fn item(&mut self, name: Name<'a>, item: Item<'a>) -> SolvableId {
        let key = match item {
            Item::Bundle(place) => {
                let (catalog, package, bundle) = (place.catalog, place.package, place.bundle.name.as_str());
                Key::Bundle(catalog, package, bundle)
            }
            Item::Installed(request) => Key::Installed(request),
            Item::Owner(gvk, package) => Key::Owner(gvk, package),
        };
        if let Some(id) = self.item_ids.get(&key) {
            return SolvableId::from_raw(*id);
        }
        let name = self.name(name);
        let raw = self.items.len() as u32;
        self.items.push((name, item));
        self.item_ids.insert(key, raw);
        let id = SolvableId::from_raw(raw);
        self.of_name.entry(name.into_raw()).or_default().push(id);
        id
    }

    fn set(&mut self, name: NameId, only: Option<SolvableId>) -> VersionSetId {
        self.sets.push((name, only));
        VersionSetId(self.sets.len() as u32 - 1)
    }

    /// One of these, the first one rather than the second; of none, something that cannot be had.
    fn one_of(&mut self, items: &[SolvableId]) -> Requirement {
        let sets: Vec<VersionSetId> = items
            .iter()
            .map(|id| {
                let name = self.items[id.to_index()].0;
                self.set(name, Some(*id))
            })
            .collect();
        match sets.as_slice() {
            [] => {
                let nobody = self.name(Name::Package(""));
                Requirement::Single(self.set(nobody, None))
            }
            [one] => Requirement::Single(*one),
            _ => {
                self.unions.push(sets);
                Requirement::Union(VersionSetUnionId::from_index(self.unions.len() - 1))
            }
        }
    }
}

struct Provider<'a, 'c> {
    ctx: &'c Context<'a>,
    tables: RefCell<Tables<'a>>,
    /// Whether needs of installed operators count. They do not when an operator that runs without them would otherwise
    /// stand in the way of everything.
    strict: bool,
}

impl<'a> Provider<'a, '_> {
    /// Makes every bundle of a package known; resolvo wants to see them all at once.
    fn load_package(&self, package: &'a str) {
        let mut tables = self.tables.borrow_mut();
        for (request, wanted) in self.ctx.requests.iter().enumerate() {
            if wanted.package == package && wanted.installed.is_some() {
                tables.item(Name::Package(package), Item::Installed(self.ctx.same_installed(request)));
            }
        }
        for (catalog, content) in self.ctx.universe.catalogs() {
            let Some(found) = content.packages.get(package) else { continue };
            for bundle in found.bundles.values() {
                let place = Place { catalog, package: &found.name, channel: "", bundle };
                tables.item(Name::Package(&found.name), Item::Bundle(place));
            }
        }
    }

    fn load_api(&self, gvk: &'a Gvk) {
        let mut tables = self.tables.borrow_mut();
        for (request, installed) in self.ctx.tied.iter().enumerate() {
            if installed.is_some_and(|i| i.provides.contains(gvk)) {
                tables.item(Name::Api(gvk), Item::Owner(gvk, &self.ctx.requests[request].package));
            }
        }
        for (_, package) in self.ctx.universe.providers_of(gvk) {
            tables.item(Name::Api(gvk), Item::Owner(gvk, package));
        }
    }

    /// What meets a need, best first: operators that are there, then bundles.
    fn meeting(&self, need: NeedRef<'a>, parent: &CatalogRef, present_only: bool) -> Vec<SolvableId> {
        let mut list = Vec::new();
        for (request, installed) in self.ctx.tied.iter().enumerate() {
            let wanted = self.ctx.requests[request];
            if installed.is_some_and(|i| need.met_by(Some(&wanted.package), i.version.as_ref(), &i.provides))
            {
                let name = Name::Package(&wanted.package);
                let item = Item::Installed(self.ctx.same_installed(request));
                list.push(self.tables.borrow_mut().item(name, item));
            }
        }
        for (place, excluded) in self.ctx.providers(need, parent) {
            let requested = || self.ctx.requests.iter().any(|r| r.package == place.package);
            if excluded.is_none() && (!present_only || requested()) {
                list.push(self.tables.borrow_mut().item(Name::Package(place.package), Item::Bundle(place)));
            }
        }
        list
    }

    fn owns(&self, gvk: &'a Gvk, package: &'a str) -> Requirement {
        let mut tables = self.tables.borrow_mut();
        let owner = tables.item(Name::Api(gvk), Item::Owner(gvk, package));
        tables.one_of(&[owner])
    }

    fn requirements(&self, item: Item<'a>) -> Vec<Requirement> {
        let mut list = Vec::new();
        match item {
            Item::Owner(..) => {}
            Item::Bundle(place) => {
                let present_only = self.ctx.requests.iter().any(|r| {
                    r.package == place.package && r.dependencies == DependencyPolicy::RequirePresent
                });
                for need in needs_of(place.package, place.bundle) {
                    if self.ctx.present(need).is_none() {
                        let meeting = self.meeting(need, place.catalog, present_only);
                        list.push(self.tables.borrow_mut().one_of(&meeting));
                    }
                }
                list.extend(place.bundle.provides.iter().map(|gvk| self.owns(gvk, place.package)));
            }
            Item::Installed(request) => {
                let wanted = self.ctx.requests[request];
                let Some(installed) = self.ctx.tied[request] else { return list };
                if self.strict {
                    for need in needs_of_installed(installed) {
                        if self.ctx.present(need).is_none() {
                            let meeting = self.meeting(need, &wanted.catalog, false);
                            list.push(self.tables.borrow_mut().one_of(&meeting));
                        }
                    }
                }
                list.extend(installed.provides.iter().map(|gvk| self.owns(gvk, &wanted.package)));
            }
        }
        list
    }

    fn text(&self, id: SolvableId) -> String {
        match self.tables.borrow().items[id.to_index()].1 {
            Item::Bundle(place) => place.bundle.name.clone(),
            Item::Installed(request) => format!("installed {request}"),
            Item::Owner(_, package) => package.to_owned(),
        }
    }
}

impl Interner for Provider<'_, '_> {
    type NameId = NameId;
    type SolvableId = SolvableId;

    fn display_solvable(&self, solvable: SolvableId) -> impl Display + '_ {
        self.text(solvable)
    }

    fn display_name(&self, name: NameId) -> impl Display + '_ {
        match self.tables.borrow().names[name.to_index()] {
            Name::Package(package) => package.to_owned(),
            Name::Api(gvk) => gvk.to_string(),
        }
    }

    fn display_version_set(&self, version_set: VersionSetId) -> impl Display + '_ {
        let only = self.tables.borrow().sets[version_set.to_index()].1;
        only.map_or_else(|| "nothing".to_owned(), |id| self.text(id))
    }

    fn display_string(&self, _: StringId) -> impl Display + '_ {
        ""
    }

    fn version_set_name(&self, version_set: VersionSetId) -> NameId {
        self.tables.borrow().sets[version_set.to_index()].0
    }

    fn solvable_name(&self, solvable: SolvableId) -> NameId {
        self.tables.borrow().items[solvable.to_index()].0
    }

    fn version_sets_in_union(&self, union: VersionSetUnionId) -> impl Iterator<Item = VersionSetId> {
        self.tables.borrow().unions[union.to_index()].clone().into_iter()
    }

    fn resolve_condition(&self, _: ConditionId) -> Condition {
        unreachable!("no requirement of ours has a condition")
    }
}

impl DependencyProvider for Provider<'_, '_> {
    async fn filter_candidates(
        &self,
        candidates: &[SolvableId],
        version_set: VersionSetId,
        inverse: bool,
    ) -> Vec<SolvableId> {
        let only = self.tables.borrow().sets[version_set.to_index()].1;
        candidates.iter().copied().filter(|id| (Some(*id) == only) != inverse).collect()
    }

    async fn get_candidates(&self, name: NameId) -> Option<SolverCandidates> {
        let known = self.tables.borrow().names[name.to_index()];
        match known {
            Name::Package(package) => self.load_package(package),
            Name::Api(gvk) => self.load_api(gvk),
        }
        let candidates = self.tables.borrow().of_name.get(&name.into_raw()).cloned()?;
        Some(SolverCandidates {
            candidates,
            hint_dependencies_available: HintDependenciesAvailable::None,
            ..SolverCandidates::default()
        })
    }

    async fn sort_candidates(&self, _: &SolverCache<Self>, solvables: &mut [SolvableId]) {
        // version sets hold one solvable each, so this decides nothing
        solvables.sort_unstable();
    }

    async fn get_dependencies(&self, solvable: SolvableId) -> Dependencies {
        let item = self.tables.borrow().items[solvable.to_index()].1;
        let requirements = self.requirements(item).into_iter();
        Dependencies::Known(KnownDependencies {
            requirements: requirements
                .map(|requirement| ConditionalRequirement { condition: None, requirement })
                .collect(),
            constrains: Vec::new(),
        })
    }

    fn should_cancel_with_value(&self) -> Option<Box<dyn std::any::Any>> {
        let mut tables = self.tables.borrow_mut();
        tables.asked += 1;
        (tables.asked > BUDGET).then(|| Box::new(()) as Box<dyn std::any::Any>)
    }
}

/// Chooses for every request one of its candidates, or what it has installed, and everything they need.
pub(crate) fn solve<'a>(
    ctx: &Context<'a>,
    wanted: &[(usize, &Candidates<'a>)],
    strict: bool,
) -> Result<Vec<Choice<'a>>, Unsolved> {
    let provider = Provider { ctx, tables: RefCell::default(), strict };
    let mut requirements = Vec::new();
    for (request, candidates) in wanted {
        let package: &'a str = &ctx.requests[*request].package;
        let mut items: Vec<SolvableId> = candidates
            .allowed
            .iter()
            .map(|c| provider.tables.borrow_mut().item(Name::Package(package), Item::Bundle(c.place)))
            .collect();
        if ctx.requests[*request].installed.is_some() {
            let item = Item::Installed(ctx.same_installed(*request));
            items.push(provider.tables.borrow_mut().item(Name::Package(package), item));
        }
        let requirement = provider.tables.borrow_mut().one_of(&items);
        requirements.push(ConditionalRequirement { condition: None, requirement });
    }
    let mut solver = Solver::new(provider);
    match solver.solve(Problem::new().requirements(requirements)) {
        Ok(solution) => {
            let tables = solver.provider().tables.borrow();
            let choice = |id: SolvableId| match tables.items[id.to_index()].1 {
                Item::Bundle(place) => Some(Choice::Bundle(place)),
                Item::Installed(request) => Some(Choice::Installed(request)),
                Item::Owner(..) => None,
            };
            Ok(solution.into_iter().filter_map(choice).collect())
        }
        Err(UnsolvableOrCancelled::Unsolvable(_)) => Err(Unsolved::Conflict),
        Err(UnsolvableOrCancelled::Cancelled(_)) => Err(Unsolved::GaveUp),
    }
}

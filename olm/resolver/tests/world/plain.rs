//! A universe as plain clauses, written from reference/olm.md 4.3 to 4.5: solutions, and OLM's preference
//! among them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::model::{Channel, Content, Edge, Kind, Model, Need, Sub};
use super::sat::{Formula, no, yes};

/// A selectable item.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Item {
    /// A bundle: catalog, package, major version.
    Bundle(&'static str, &'static str, u64),
    /// The installed operator of a Subscription (by its index).
    Installed(usize),
}

/// The problem for some of the Subscriptions of a model.
pub struct Plain<'a> {
    model: &'a Model,
    /// The Subscriptions in question.
    subs: Vec<usize>,
    /// All Subscriptions except those given up: their requests need not be met, but their policies count, and
    /// their installed operators may stay.
    alive: Vec<usize>,
    /// Those given up: their installed operators are facts, and their other packages cannot be dependencies.
    failed: Vec<usize>,
    pub items: Vec<Item>,
    numbers: BTreeMap<Item, usize>,
    /// Without the requirements of existing operators.
    relaxed: Formula,
    strict: Formula,
}

/// The bundles of a channel from its head on; `None` when the channel has no order.
pub fn order(channel: &Channel) -> Option<Vec<u64>> {
    let entries = &channel.entries;
    let covered = |e: &Edge| {
        entries.iter().any(|other| other.replaces == Some(e.major) || other.skips.contains(&e.major))
    };
    let heads: Vec<&Edge> = entries.iter().filter(|e| !covered(e)).collect();
    let [head] = heads.as_slice() else { return None };
    let mut seen = BTreeSet::new();
    let mut at = Some(*head);
    let mut list = Vec::new();
    while let Some(edge) = at {
        if !seen.insert(edge.major) {
            return None;
        }
        if !entries.iter().any(|e| e.skips.contains(&edge.major)) {
            list.push(edge.major);
        }
        at = edge.replaces.and_then(|major| entries.iter().find(|e| e.major == major));
    }
    Some(list)
}

impl<'a> Plain<'a> {
    /// The problem for some Subscriptions after others were given up.
    pub fn new(model: &'a Model, subs: &[usize], failed: &[usize]) -> Self {
        let alive: Vec<usize> = (0..model.subs.len()).filter(|sub| !failed.contains(sub)).collect();
        let mut items = Vec::new();
        for sub in alive.iter().filter(|s| model.subs[**s].installed.is_some()) {
            items.push(Item::Installed(*sub));
        }
        for catalog in &model.catalogs {
            for package in &catalog.packages {
                items.extend(
                    package.bundles.iter().map(|b| Item::Bundle(catalog.name, package.name, b.major)),
                );
            }
        }
        let numbers = items.iter().cloned().enumerate().map(|(i, item)| (item, i)).collect();
        let mut it = Self {
            model,
            subs: subs.to_vec(),
            alive,
            failed: failed.to_vec(),
            relaxed: Formula::new(items.len()),
            strict: Formula::default(),
            items,
            numbers,
        };
        it.relaxed = it.formula(false);
        it.strict = it.formula(true);
        it
    }

    /// For all of them.
    pub fn of(model: &'a Model) -> Self {
        Self::new(model, &(0..model.subs.len()).collect::<Vec<_>>(), &[])
    }

    /// Whether there is a solution; requirements of installed operators that stay do not count.
    pub fn satisfiable(&self) -> bool {
        self.relaxed.satisfiable(&[])
    }

    /// Whether there is one in which the requirements of installed operators that stay are met.
    pub fn strictly_satisfiable(&self) -> bool {
        self.strict.satisfiable(&[])
    }

    pub fn content(&self, item: &Item) -> (&'static str, &'a Content) {
        match item {
            Item::Bundle(catalog, package, major) => {
                (package, self.model.package(catalog, package).unwrap().content(*major).unwrap())
            }
            Item::Installed(sub) => {
                (self.model.subs[*sub].package, self.model.subs[*sub].installed.as_ref().unwrap())
            }
        }
    }

    fn provides(&self, item: &Item) -> &'a BTreeSet<Kind> {
        &self.content(item).1.provides
    }

    fn formula(&self, strict: bool) -> Formula {
        let mut formula = Formula::new(self.items.len());
        for sub in &self.subs {
            formula.clause(self.candidates(*sub).into_iter().map(yes));
        }
        let mut packages: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (number, item) in self.items.iter().enumerate() {
            let (package, content) = self.content(item);
            packages.entry(package).or_default().push(number);
            if self.ruled_out(item) {
                formula.clause([no(number)]);
            }
            if strict || matches!(item, Item::Bundle(..)) {
                for need in content.open_needs(package) {
                    if let Some(list) = self.meeting(item, need) {
                        formula.clause(list.into_iter().map(yes).chain([no(number)]));
                    }
                }
            }
            for (other, second) in self.items.iter().enumerate().take(number) {
                // the coexistence of installed operators is a fact and no contradiction
                let both_there = matches!((item, second), (Item::Installed(_), Item::Installed(_)));
                if !both_there
                    && self.content(second).0 != package
                    && !self.provides(second).is_disjoint(self.provides(item))
                {
                    formula.clause([no(number), no(other)]);
                }
            }
        }
        for members in packages.values() {
            let there = |number: &usize| matches!(self.items[*number], Item::Installed(_));
            for (i, a) in members.iter().enumerate() {
                for b in &members[i + 1..] {
                    if !(there(a) && there(b)) {
                        formula.at_most_one(&[*a, *b]);
                    }
                }
            }
        }
        formula
    }

    /// Operators that stay unchanged, and whether they are in another namespace.
    fn there(&self) -> impl Iterator<Item = (&'static str, &'a Content, bool)> {
        let model = self.model;
        let staying = self.failed.iter().map(|sub| &model.subs[*sub]);
        let staying = staying.filter_map(|sub| Some((sub.package, sub.installed.as_ref()?, false)));
        staying.chain(model.fixed.iter().map(|fixed| (fixed.package, &fixed.content, fixed.elsewhere)))
    }

    /// Prohibited, or too new, or of a package or the owner of an API that exists and stays.
    fn ruled_out(&self, item: &Item) -> bool {
        let Item::Bundle(..) = item else { return false };
        let (package, content) = self.content(item);
        content.prohibited
            || content.too_new
            || !self.model.policy.iter().all(|need| need.met_by(package, content))
            || self.takes_away(package, content)
            || self.there().any(|(other, there, elsewhere)| {
                // the same package in another namespace is another instance of the same operator
                if other == package { !elsewhere } else { !there.provides.is_disjoint(&content.provides) }
            })
    }

    /// Whether an operator that stays would lose a met requirement, or get a wrong version of a required
    /// package.
    fn takes_away(&self, package: &str, content: &Content) -> bool {
        let about = |sub: &usize| self.model.subs[*sub].package == package;
        let mut about: Vec<usize> = self.alive.iter().chain(&self.failed).copied().filter(about).collect();
        about.sort_by_key(|sub| &self.model.subs[*sub].name);
        let now = about.first().filter(|sub| self.alive.contains(sub));
        let now = now.and_then(|sub| self.model.subs[*sub].installed.as_ref());
        self.there().any(|(other, there, _)| {
            there.open_needs(other).any(|need| {
                let about = match now {
                    Some(now) => need.met_by(package, now),
                    None => matches!(need, Need::Package(name, ..) if *name == package),
                };
                about && !need.met_by(package, content)
            })
        })
    }

    /// Whether a package cannot be a dependency: a failed Subscription requests it.
    fn given_up(&self, package: &str) -> bool {
        let about = |sub: &usize| self.model.subs[*sub].package == package;
        self.failed.iter().any(about)
    }

    /// The candidates of a Subscription, best first, the installed one last.
    pub fn candidates(&self, sub: usize) -> Vec<usize> {
        let it = &self.model.subs[sub];
        let package = self.model.package(it.catalog, it.package).unwrap();
        let default = &package.channels[0];
        let channels: Vec<&Channel> = match it.channel {
            Some(name) => package.channel(name).into_iter().collect(),
            None => by_default(&package.channels, default.name),
        };
        // OLM does not follow a channel without an order, whatever is installed
        if it.starting.is_none() && channels.iter().all(|channel| order(channel).is_none()) {
            return Vec::new();
        }
        let mut list = Vec::new();
        for channel in channels {
            list.extend(choose(it, channel).into_iter().map(|major| self.number(it, major)));
        }
        list.retain(|number| !self.ruled_out(&self.items[*number]));
        // not in OLM v0, but in v1: deprecated bundles come last
        list.sort_by_key(|number| self.content(&self.items[*number]).1.deprecated);
        list.extend(self.numbers.get(&Item::Installed(sub)));
        without_repetition(list)
    }

    fn number(&self, sub: &Sub, major: u64) -> usize {
        self.numbers[&Item::Bundle(sub.catalog, sub.package, major)]
    }

    /// What meets a requirement, best first; `None` when something that stays meets it.
    fn meeting(&self, parent: &Item, need: &Need) -> Option<Vec<usize>> {
        let fixed = self.there().any(|(package, content, _)| need.met_by(package, content));
        // an API served by the cluster counts, unless an operator that may change serves it
        let moving = |kind: &Kind| {
            self.alive
                .iter()
                .any(|s| self.model.subs[*s].installed.as_ref().is_some_and(|i| i.provides.contains(kind)))
        };
        let serves = |need: &Need| match need {
            Need::Api(kind) => self.model.cluster.contains(kind) && !moving(kind),
            _ => false,
        };
        let served = match need {
            Need::Any(inner) => inner.iter().any(serves),
            other => serves(other),
        };
        if fixed || served {
            return None;
        }
        let (parent_package, _) = self.content(parent);
        let parent_catalog = match parent {
            Item::Bundle(catalog, ..) => catalog,
            Item::Installed(sub) => self.model.subs[*sub].catalog,
        };
        let wanted = |package: &str| self.alive.iter().any(|s| self.model.subs[*s].package == package);
        let present_only = matches!(parent, Item::Bundle(..))
            && self.alive.iter().any(|s| {
                let sub = &self.model.subs[*s];
                sub.package == parent_package && sub.require_present
            });
        let mut list: Vec<usize> =
            self.alive.iter().filter_map(|s| self.numbers.get(&Item::Installed(*s)).copied()).collect();
        let mut catalogs: Vec<_> = self.model.catalogs.iter().collect();
        catalogs.sort_by_key(|c| (c.name != parent_catalog, std::cmp::Reverse(c.priority), c.name));
        for catalog in catalogs {
            let mut channels: Vec<(bool, &'static str, &'static str, Vec<u64>)> = Vec::new();
            for package in &catalog.packages {
                for (i, channel) in package.channels.iter().enumerate() {
                    channels.push((i != 0, package.name, channel.name, order(channel).unwrap_or_default()));
                }
            }
            channels.sort();
            for (_, package, _, majors) in channels {
                if self.given_up(package) || present_only && !wanted(package) {
                    continue;
                }
                list.extend(majors.iter().map(|m| self.numbers[&Item::Bundle(catalog.name, package, *m)]));
            }
        }
        // a candidate of a Subscription may be in no order, and still counts when it is selected
        list.extend(self.alive.iter().flat_map(|sub| self.candidates(*sub)));
        list.retain(|number| {
            let item = &self.items[*number];
            let (package, content) = self.content(item);
            need.met_by(package, content) && !self.ruled_out(item)
        });
        Some(without_repetition(list))
    }

    /// OLM's preference: every Subscription gets the first candidate that leaves a solution, then every
    /// choice gets the first of each list of its requirements that leaves one; existing ones are not chosen
    /// again.
    pub fn preferred(&self, strict: bool) -> Option<BTreeSet<Item>> {
        let formula = if strict { &self.strict } else { &self.relaxed };
        let mut subs = self.subs.clone();
        subs.sort_by_key(|s| {
            let sub = &self.model.subs[*s];
            (sub.name.clone(), sub.package)
        });
        let mut queue: VecDeque<Vec<usize>> = subs.into_iter().map(|sub| self.candidates(sub)).collect();
        let mut chosen: Vec<usize> = Vec::new();
        while let Some(list) = queue.pop_front() {
            if list.iter().any(|c| chosen.contains(c)) {
                continue;
            }
            let found = list.into_iter().find(|c| {
                let assumed: Vec<i32> = chosen.iter().chain([c]).map(|n| yes(*n)).collect();
                formula.satisfiable(&assumed)
            })?;
            chosen.push(found);
            let item = &self.items[found];
            if strict || matches!(item, Item::Bundle(..)) {
                let (package, content) = self.content(item);
                let mut needs: Vec<&Need> = content.open_needs(package).collect();
                needs.sort_by_cached_key(|need| constraint(need));
                queue.extend(needs.into_iter().filter_map(|need| self.meeting(item, need)));
            }
        }
        Some(chosen.into_iter().map(|n| self.items[n].clone()).collect())
    }

    /// Whether exactly this is a solution.
    pub fn is_solution(&self, chosen: &BTreeSet<Item>, strict: bool) -> bool {
        let values: Vec<bool> = self.items.iter().map(|item| chosen.contains(item)).collect();
        if strict { self.strict.holds(&values) } else { self.relaxed.holds(&values) }
    }
}

/// The major versions of a channel that a Subscription may get.
fn choose(sub: &Sub, channel: &Channel) -> Vec<u64> {
    let entry = |major: u64| channel.entries.iter().find(|e| e.major == major);
    let mut list = match (&sub.installed, sub.starting) {
        (None, Some(starting)) => entry(starting).map(|e| e.major).into_iter().collect(),
        (None, None) => order(channel).unwrap_or_default(),
        (Some(installed), _) => {
            let leads = |major: &u64| {
                entry(*major).is_some_and(|e| {
                    e.replaces == Some(installed.major)
                        || e.skips.contains(&installed.major)
                        || e.range && installed.major < e.major
                })
            };
            order(channel).unwrap_or_default().into_iter().filter(leads).collect()
        }
    };
    let installed = sub.installed.as_ref().map(|i| i.major);
    list.retain(|major| sub.range.is_none_or(|(from, below)| (from..below).contains(major)));
    list.retain(|major| !sub.skip.contains(major) && Some(*major) != installed);
    list
}

fn by_default<'a>(channels: &'a [Channel], default: &str) -> Vec<&'a Channel> {
    let mut list: Vec<&Channel> = channels.iter().collect();
    list.sort_by_key(|c| (c.name != default, c.name));
    list
}

fn without_repetition(list: Vec<usize>) -> Vec<usize> {
    let mut seen = BTreeSet::new();
    list.into_iter().filter(|n| seen.insert(*n)).collect()
}

/// The order of the requirements of a bundle is that of their constraints.
fn constraint(need: &Need) -> olm_constraint::Constraint {
    let content = Content { needs: vec![need.clone()], ..Content::default() };
    content.to_b("p").bundle.requires.remove(0)
}

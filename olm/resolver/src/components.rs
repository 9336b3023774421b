//! Groups requests that can interact. Each group is decided separately, so that groups cannot fail each
//! other.

use std::collections::{BTreeMap, HashMap};

use olm_constraint::Gvk;

use crate::context::Context;

/// What requests can share.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum SharedItem<'a> {
    Request(usize),
    Package(&'a str),
    Api(&'a Gvk),
}

#[derive(Default)]
struct Sets<'a> {
    places: HashMap<SharedItem<'a>, usize>,
    parent: Vec<usize>,
}

impl<'a> Sets<'a> {
    /// The index of an item, and whether it is new.
    fn place(&mut self, item: SharedItem<'a>) -> (usize, bool) {
        let next = self.parent.len();
        let place = *self.places.entry(item).or_insert(next);
        if place == next {
            self.parent.push(next);
        }
        (place, place == next)
    }

    fn root(&mut self, mut place: usize) -> usize {
        while self.parent[place] != place {
            self.parent[place] = self.parent[self.parent[place]];
            place = self.parent[place];
        }
        place
    }

    /// Joins two items; whether the second one is new.
    fn join(&mut self, a: usize, item: SharedItem<'a>) -> bool {
        let (b, new) = self.place(item);
        let (a, b) = (self.root(a), self.root(b));
        self.parent[a.max(b)] = a.min(b);
        new
    }
}

/// The indexes of the requests, by component; components and requests in order.
pub(crate) fn components(ctx: &Context<'_>) -> Vec<Vec<usize>> {
    let all = || vec![(0..ctx.requests.len()).collect()];
    if ctx.requests.len() < 2 {
        return all();
    }
    let mut sets = Sets::default();
    let mut open: Vec<&str> = Vec::new();
    for (at, request) in ctx.requests.iter().enumerate() {
        let (place, _) = sets.place(SharedItem::Request(at));
        if sets.join(place, SharedItem::Package(&request.package)) {
            open.push(&request.package);
        }
        let Some(operator) = ctx.tied[at] else { continue };
        for gvk in &operator.provides {
            sets.join(place, SharedItem::Api(gvk));
        }
        for need in &operator.requires {
            let Some(keys) = need.keys() else { return all() };
            let providers = keys.apis.iter().flat_map(|gvk| ctx.universe.providers_of(gvk));
            let packages = keys.packages.iter().copied().chain(providers.map(|(_, name)| name.as_str()));
            for package in packages {
                if sets.join(place, SharedItem::Package(package)) {
                    open.push(package);
                }
            }
            for gvk in keys.apis {
                sets.join(place, SharedItem::Api(gvk));
            }
        }
    }
    while let Some(name) = open.pop() {
        let (place, _) = sets.place(SharedItem::Package(name));
        for catalog in ctx.universe.catalogs().values() {
            let Some(package) = catalog.packages.get(name) else { continue };
            let reach = package.reach();
            if reach.needs_anything {
                return all();
            }
            for gvk in &reach.provides {
                sets.join(place, SharedItem::Api(gvk));
            }
            for needed in &reach.needs_packages {
                if sets.join(place, SharedItem::Package(needed)) {
                    open.push(needed);
                }
            }
            for gvk in &reach.needs_apis {
                sets.join(place, SharedItem::Api(gvk));
                for (_, provider) in ctx.universe.providers_of(gvk) {
                    if sets.join(place, SharedItem::Package(provider)) {
                        open.push(provider);
                    }
                }
            }
        }
    }
    let mut found: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for at in 0..ctx.requests.len() {
        let (place, _) = sets.place(SharedItem::Request(at));
        found.entry(sets.root(place)).or_default().push(at);
    }
    found.into_values().collect()
}

//! Installed operators, with indexes.

use std::collections::HashMap;

use olm_constraint::{Constraint, Gvk, Rule};

use crate::facts::{Facts, Installed};

/// A requirement of an operator.
pub(crate) type Held<'a> = (&'a Installed, &'a Constraint);

#[derive(Default)]
pub(crate) struct Operators<'a> {
    /// By namespace and name.
    pub(crate) all: Vec<&'a Installed>,
    places: HashMap<(&'a str, &'a str), Vec<&'a Installed>>,
    apis: HashMap<&'a Gvk, Vec<&'a Installed>>,
    /// By package and by name.
    names: HashMap<&'a str, Vec<&'a Installed>>,
    /// Their requirements, by package or API; and the rest.
    held_packages: HashMap<&'a str, Vec<Held<'a>>>,
    held_apis: HashMap<&'a Gvk, Vec<Held<'a>>>,
    held_otherwise: Vec<Held<'a>>,
}

impl<'a> Operators<'a> {
    pub(crate) fn new(facts: &'a Facts) -> Self {
        let mut operators = Self { all: facts.installed.iter().collect(), ..Self::default() };
        operators.all.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        for operator in operators.all.iter().copied() {
            let place = (operator.namespace.as_str(), operator.name.as_str());
            operators.places.entry(place).or_default().push(operator);
            for gvk in &operator.provides {
                operators.apis.entry(gvk).or_default().push(operator);
            }
            operators.names.entry(&operator.name).or_default().push(operator);
            if let Some(package) = operator.package.as_deref().filter(|package| *package != operator.name) {
                operators.names.entry(package).or_default().push(operator);
            }
            for need in operator.needs() {
                let held = (operator, need);
                match &need.rule {
                    Rule::Package { name, .. } => operators.held_packages.entry(name).or_default().push(held),
                    Rule::Api(gvk) => operators.held_apis.entry(gvk).or_default().push(held),
                    _ => operators.held_otherwise.push(held),
                }
            }
        }
        operators
    }

    /// The operators of that name in that namespace; a cluster has one.
    pub(crate) fn at(&self, namespace: &'a str, name: &'a str) -> &[&'a Installed] {
        self.places.get(&(namespace, name)).map_or(&[], Vec::as_slice)
    }

    /// Those that provide an API.
    pub(crate) fn owners(&self, gvk: &Gvk) -> &[&'a Installed] {
        self.apis.get(gvk).map_or(&[], Vec::as_slice)
    }

    /// Those with this package or name.
    pub(crate) fn named(&self, name: &str) -> &[&'a Installed] {
        self.names.get(name).map_or(&[], Vec::as_slice)
    }

    /// Requirements of a package by its name; of its APIs; and unspecific ones.
    pub(crate) fn held<'s>(&'s self, package: &str, apis: &'s [Gvk]) -> impl Iterator<Item = Held<'a>> + 's {
        let by_name = self.held_packages.get(package).into_iter().flatten();
        let by_api = apis.iter().filter_map(|gvk| self.held_apis.get(gvk)).flatten();
        by_name.chain(by_api).chain(&self.held_otherwise).copied()
    }
}

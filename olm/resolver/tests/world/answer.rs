//! Evaluates a resolution for a model.

use std::collections::BTreeSet;

use olm_resolver::{Action, ChosenBundle, Dependency, Explanation, Resolution, SatisfiedBy};

use super::build::World;
use super::model::{Model, major};
use super::plain::Item;

/// The indexes of the Subscriptions with a result.
pub fn met(resolution: &Resolution) -> Vec<usize> {
    let items = resolution.items.iter().enumerate();
    items.filter(|(_, item)| item.is_ok()).map(|(number, _)| number).collect()
}

fn bundle(model: &Model, chosen: &ChosenBundle) -> Item {
    let catalog = model.catalogs.iter().find(|c| c.name == chosen.catalog.name).unwrap();
    let package = catalog.packages.iter().find(|p| p.name == chosen.package).unwrap();
    Item::Bundle(catalog.name, package.name, major(chosen.version.as_ref()))
}

/// Everything that is there afterwards.
pub fn chosen(model: &Model, resolution: &Resolution) -> BTreeSet<Item> {
    let mut set = BTreeSet::new();
    for (number, item) in resolution.items.iter().enumerate() {
        let Ok(item) = item else { continue };
        set.insert(match item.action {
            Action::None => Item::Installed(number),
            Action::Install | Action::Upgrade => bundle(model, &item.chosen),
        });
        for dependency in &item.dependencies {
            if let SatisfiedBy::Install(chosen) = &dependency.satisfied_by {
                set.insert(bundle(model, chosen));
            }
        }
    }
    set
}

/// The indexes of the Subscriptions in an explanation.
pub fn blamed(model: &Model, explanation: &Explanation) -> Vec<usize> {
    let named: BTreeSet<&str> =
        explanation.nodes.iter().filter_map(|node| node.subject.strip_prefix("Subscription ns/")).collect();
    (0..model.subs.len()).filter(|i| named.contains(model.subs[*i].name.as_str())).collect()
}

/// A dependency whose named provider does not meet it.
pub fn dangling(world: &World, resolution: &Resolution) -> Option<String> {
    let given = |subscription: &str, name: &str| {
        let mut all = world.requests.iter().zip(&resolution.items);
        all.any(|(r, item)| {
            r.subscription == subscription && item.as_ref().is_ok_and(|item| item.chosen.name == name)
        })
    };
    let there = |name: &str, namespace: &str| {
        world.facts.installed.iter().any(|i| i.name == name && i.namespace == namespace)
    };
    let all = resolution.items.iter().flatten().flat_map(|item| &item.dependencies);
    let wrong = |dependency: &&Dependency| match &dependency.satisfied_by {
        SatisfiedBy::Request { subscription, name } => !given(subscription, name),
        SatisfiedBy::Installed { name, namespace } => !there(name, namespace),
        SatisfiedBy::Install(_) | SatisfiedBy::Cluster { .. } => false,
    };
    all.filter(wrong).map(|dependency| format!("{dependency:?}")).next()
}

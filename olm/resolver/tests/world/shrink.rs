//! The smallest universe that still fails.

use super::model::{Content, Model};

/// Removes parts while the test still fails.
pub fn shrink(model: &Model, fails: impl Fn(&Model) -> bool) -> Model {
    let mut smallest = model.clone();
    loop {
        let Some(next) = smaller(&smallest).into_iter().find(|m| fails(m)) else { return smallest };
        smallest = next;
    }
}

fn smaller(model: &Model) -> Vec<Model> {
    let mut list = Vec::new();
    let mut with = |change: &dyn Fn(&mut Model)| {
        let mut copy = model.clone();
        change(&mut copy);
        if sound(&copy) && copy != *model {
            list.push(copy);
        }
    };
    with(&|m| m.cluster.clear());
    with(&|m| m.policy.clear());
    for i in 0..model.subs.len() {
        with(&|m| drop(m.subs.remove(i)));
        with(&|m| m.subs[i].installed = None);
        with(&|m| m.subs[i].starting = None);
        with(&|m| m.subs[i].channel = None);
        with(&|m| m.subs[i].skip.clear());
        with(&|m| m.subs[i].range = None);
        with(&|m| m.subs[i].require_present = false);
        content(&mut with, &model.subs[i].installed, &|m| m.subs[i].installed.as_mut());
    }
    for i in 0..model.fixed.len() {
        with(&|m| drop(m.fixed.remove(i)));
        with(&|m| m.fixed[i].elsewhere = false);
    }
    for c in 0..model.catalogs.len() {
        with(&|m| drop(m.catalogs.remove(c)));
        with(&|m| m.catalogs[c].priority = 0);
        for p in 0..model.catalogs[c].packages.len() {
            with(&|m| drop(m.catalogs[c].packages.remove(p)));
            let package = &model.catalogs[c].packages[p];
            for channel in 0..package.channels.len() {
                with(&|m| drop(m.catalogs[c].packages[p].channels.remove(channel)));
                for e in 0..package.channels[channel].entries.len() {
                    with(&|m| drop(m.catalogs[c].packages[p].channels[channel].entries.remove(e)));
                    with(&|m| m.catalogs[c].packages[p].channels[channel].entries[e].range = false);
                    with(&|m| m.catalogs[c].packages[p].channels[channel].entries[e].skips.clear());
                    with(&|m| m.catalogs[c].packages[p].channels[channel].entries[e].replaces = None);
                }
            }
            for b in 0..package.bundles.len() {
                with(&|m| drop(m.catalogs[c].packages[p].bundles.remove(b)));
                content(&mut with, &Some(package.bundles[b].clone()), &|m| {
                    m.catalogs[c].packages[p].bundles.get_mut(b)
                });
            }
        }
    }
    list
}

type Place<'a> = &'a dyn Fn(&mut Model) -> Option<&mut Content>;

fn content(with: &mut impl FnMut(&dyn Fn(&mut Model)), it: &Option<Content>, at: Place<'_>) {
    let Some(it) = it else { return };
    let change = |m: &mut Model, change: &dyn Fn(&mut Content)| {
        if let Some(content) = at(m) {
            change(content);
        }
    };
    with(&|m| change(m, &|c| c.prohibited = false));
    with(&|m| change(m, &|c| c.too_new = false));
    with(&|m| change(m, &|c| c.deprecated = false));
    with(&|m| change(m, &|c| c.labels.clear()));
    for i in 0..it.needs.len() {
        with(&|m| change(m, &|c| drop(c.needs.remove(i))));
    }
    for kind in &it.provides {
        with(&|m| {
            change(m, &|c| {
                c.provides.remove(kind);
            })
        });
    }
}

/// Whether the model is still valid: no entry without its bundle, no Subscription without its package.
fn sound(model: &Model) -> bool {
    let channels = model.catalogs.iter().flat_map(|c| &c.packages).all(|p| {
        !p.channels.is_empty()
            && p.channels
                .iter()
                .all(|c| !c.entries.is_empty() && c.entries.iter().all(|e| p.content(e.major).is_some()))
    });
    let subs = model.subs.iter().all(|s| {
        model.package(s.catalog, s.package).is_some_and(|p| s.channel.is_none_or(|c| p.channel(c).is_some()))
    });
    channels && subs && !model.subs.is_empty()
}

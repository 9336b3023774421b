//! Reconciliations per Subscription. A large cluster has ten thousand of them, and the labels of one
//! operator's are equal, so they are shared.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kube::ResourceExt;
use olm_api::Subscription;

use crate::runner::{Key, key};

/// Installed version, channel, package, and approval strategy.
type Said = Arc<[String; 4]>;

#[derive(Debug, Default)]
pub(super) struct Syncs {
    /// The labels of a Subscription at its last count, and the count since.
    counts: BTreeMap<Key, (Said, u64)>,
    said: BTreeSet<Said>,
}

impl Syncs {
    /// Counts one. The count restarts when the labels change, as upstream's does.
    pub(super) fn count(&mut self, subscription: &Subscription) {
        let (namespace, name) = (subscription.namespace().unwrap_or_default(), subscription.name_any());
        let status = subscription.status.as_ref();
        let spec = &subscription.spec;
        let said = [
            status.and_then(|status| status.installed_csv.clone()).unwrap_or_default(),
            spec.channel.clone().unwrap_or_default(),
            spec.name.clone(),
            spec.install_plan_approval.to_string(),
        ];
        let said = match self.said.get(&said) {
            Some(said) => Arc::clone(said),
            None => {
                let said = Arc::new(said);
                self.said.insert(Arc::clone(&said));
                said
            }
        };
        let count = self.counts.entry(key(&namespace, &name)).or_insert_with(|| (Arc::clone(&said), 0));
        if count.0 != said {
            *count = (said, 0);
        }
        count.1 += 1;
    }

    /// Removes deleted Subscriptions, so that the list does not grow without bound.
    pub(super) fn retain(&mut self, is_there: impl Fn(&str, &str) -> bool) {
        self.counts
            .retain(|key, _| key.split_once('/').is_some_and(|(namespace, name)| is_there(namespace, name)));
        self.said.retain(|said| Arc::strong_count(said) > 1);
    }

    /// Labels and counts.
    pub(super) fn series(&self) -> impl Iterator<Item = (Vec<String>, f64)> {
        self.counts.iter().map(|(key, (said, count))| {
            let (namespace, name) = key.split_once('/').unwrap_or_default();
            let labels = [namespace, name].into_iter().map(str::to_owned).chain(said.iter().cloned());
            (labels.collect(), *count as f64)
        })
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.counts.is_empty() && self.said.is_empty()
    }
}

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
type Labels = Arc<[String; 4]>;

#[derive(Debug, Default)]
pub(super) struct Syncs {
    /// The labels of a Subscription at its last count, and the count since.
    counts: BTreeMap<Key, (Labels, u64)>,
    labels: BTreeSet<Labels>,
}

impl Syncs {
    /// Counts one. The count restarts when the labels change, as upstream's does.
    pub(super) fn count(&mut self, subscription: &Subscription) {
        let (namespace, name) = (subscription.namespace().unwrap_or_default(), subscription.name_any());
        let status = subscription.status.as_ref();
        let spec = &subscription.spec;
        let labels = [
            status.and_then(|status| status.installed_csv.clone()).unwrap_or_default(),
            spec.channel.clone().unwrap_or_default(),
            spec.name.clone(),
            spec.install_plan_approval.to_string(),
        ];
        let labels = match self.labels.get(&labels) {
            Some(labels) => Arc::clone(labels),
            None => {
                let labels = Arc::new(labels);
                self.labels.insert(Arc::clone(&labels));
                labels
            }
        };
        let count = self.counts.entry(key(&namespace, &name)).or_insert_with(|| (Arc::clone(&labels), 0));
        if count.0 != labels {
            *count = (labels, 0);
        }
        count.1 += 1;
    }

    /// Removes deleted Subscriptions, so that the list does not grow without bound.
    pub(super) fn retain(&mut self, is_there: impl Fn(&str, &str) -> bool) {
        self.counts
            .retain(|key, _| key.split_once('/').is_some_and(|(namespace, name)| is_there(namespace, name)));
        self.labels.retain(|labels| Arc::strong_count(labels) > 1);
    }

    /// Labels and counts.
    pub(super) fn series(&self) -> impl Iterator<Item = (Vec<String>, f64)> {
        self.counts.iter().map(|(key, (labels, count))| {
            let (namespace, name) = key.split_once('/').unwrap_or_default();
            let labels = [namespace, name].into_iter().map(str::to_owned).chain(labels.iter().cloned());
            (labels.collect(), *count as f64)
        })
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.counts.is_empty() && self.labels.is_empty()
    }
}

//! Decides the actions for a Deployment: a pure function of the observed state.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet, ReplicaSetSpec},
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{history, rollout, scale, status};
use crate::{cache::Key, claim::controller_reference};

pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
pub(super) const MAX: &str = "deployment.kubernetes.io/max-replicas";
pub(super) const HASH_LABEL: &str = "pod-template-hash";

/// The observed state.
pub(super) struct Input<'a> {
    pub(super) deployment: &'a Deployment,
    /// The controlled ReplicaSets.
    pub(super) sets: &'a [&'a ReplicaSet],
    /// Whether a ReplicaSet has pods that are not finished.
    pub(super) has_running_pods: &'a dyn Fn(&ReplicaSet) -> bool,
    pub(super) now: Timestamp,
}

/// One write.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Change {
    Create(Box<ReplicaSet>),
    Patch {
        set: Key,
        patch: Value,
        event: Option<String>,
    },
    Delete(Key),
    /// Annotations of the Deployment itself.
    Annotate(BTreeMap<String, String>),
}

/// The writes, in this order, followed by the status.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) changes: Vec<Change>,
    pub(super) status: Option<DeploymentStatus>,
    /// Delay of the next reconciliation without an event.
    pub(super) check_after: Option<SignedDuration>,
}

/// Limits of a rolling update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) replicas: i32,
    pub(super) surge: i32,
    pub(super) unavailable: i32,
}

impl Limits {
    pub(super) fn of(deployment: &Deployment) -> Self {
        let replicas = deployment.spec.replicas.unwrap_or(1);
        let strategy = deployment.spec.strategy.as_ref();
        if is_recreate(deployment) {
            return Self { replicas, surge: 0, unavailable: 0 };
        }
        let rolling = strategy.and_then(|s| s.rolling_update.as_ref());
        let quarter = IntOrString::String("25%".to_owned());
        let surge = rolling.and_then(|r| r.max_surge.as_ref()).unwrap_or(&quarter);
        let unavailable = rolling.and_then(|r| r.max_unavailable.as_ref()).unwrap_or(&quarter);
        let surge = resolve(surge, replicas, true);
        let mut unavailable = resolve(unavailable, replicas, false);
        // With both at zero the rollout could not progress.
        if surge == 0 && unavailable == 0 {
            unavailable = 1;
        }
        Self { replicas, surge, unavailable: unavailable.min(replicas) }
    }

    /// Upper limit of the number of pods.
    pub(super) fn max_total(self) -> i32 {
        self.replicas + self.surge
    }

    /// Required number of available pods.
    pub(super) fn min_available(self) -> i32 {
        self.replicas - self.unavailable
    }
}

/// A number, or a percentage of `total`.
fn resolve(value: &IntOrString, total: i32, up: bool) -> i32 {
    match value {
        IntOrString::Int(number) => (*number).max(0),
        IntOrString::String(text) => {
            let percent: f64 = text.trim_end_matches('%').parse().unwrap_or(0.0);
            let share = f64::from(total) * percent / 100.0;
            let share = if up { share.ceil() } else { share.floor() };
            share.clamp(0.0, f64::from(i32::MAX)) as i32
        }
    }
}

pub(super) fn is_recreate(deployment: &Deployment) -> bool {
    deployment.spec.strategy.as_ref().and_then(|s| s.type_.as_deref()) == Some("Recreate")
}

pub(super) fn is_paused(deployment: &Deployment) -> bool {
    deployment.spec.paused == Some(true)
}

pub(super) fn desired_replicas(set: &ReplicaSet) -> i32 {
    set.spec.replicas.unwrap_or(1)
}

/// Number of available pods. After scaling down, the status still counts pods that will be deleted: they are
/// excluded here.
pub(super) fn available(set: &ReplicaSet) -> i32 {
    let counted = set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0);
    counted.min(desired_replicas(set))
}

/// Current or intended number of pods, whichever is larger. After scaling down, pods that will be deleted
/// still exist: they are included here.
pub(super) fn size(set: &ReplicaSet) -> i32 {
    let counted = set.status.as_ref().map_or(0, |status| status.replicas);
    counted.max(desired_replicas(set))
}

/// The ReplicaSets of a Deployment by role.
pub(super) struct Sets<'a> {
    /// The one with the current template.
    pub(super) new: Option<&'a ReplicaSet>,
    /// The others, oldest first.
    pub(super) old: Vec<&'a ReplicaSet>,
}

impl<'a> Sets<'a> {
    fn of(input: &Input<'a>) -> Self {
        let mut sorted: Vec<&ReplicaSet> = input.sets.to_vec();
        sorted.sort_by_key(|set| {
            (set.metadata.creation_timestamp.as_ref().map(|time| time.0), set.metadata.name.clone())
        });
        let new = sorted.iter().copied().find(|set| history::same_template(set, input.deployment));
        let new_uid = new.and_then(|set| set.uid());
        let old = sorted.into_iter().filter(|set| set.uid() != new_uid || new.is_none()).collect();
        Self { new, old }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &'a ReplicaSet> {
        self.new.into_iter().chain(self.old.iter().copied())
    }

    pub(super) fn total(&self) -> i32 {
        self.all().map(desired_replicas).sum()
    }
}

pub(super) fn plan(input: &Input<'_>) -> Plan {
    let deployment = input.deployment;
    let sets = Sets::of(input);
    let mut plan = Plan::default();
    let mut status = status::Builder::new(input, &sets);
    if deployment.metadata.deletion_timestamp.is_some() {
        status.finish(&mut plan);
        return plan;
    }
    let revision = history::next_revision(&sets);
    if let Some(new) = sets.new {
        history::update_annotations(deployment, new, revision, &mut plan);
    }
    if is_paused(deployment) || scale::is_scaling(deployment, &sets) {
        scale::scale(deployment, &sets, &mut plan);
    } else if is_recreate(deployment) {
        rollout::recreate(input, &sets, revision, &mut plan);
    } else {
        rollout::rolling_update(input, &sets, revision, &mut plan);
    }
    for change in &plan.changes {
        if let Change::Create(set) = change {
            status.created(&set.name_any());
        }
    }
    let rollout_done = status.finish(&mut plan);
    if rollout_done && plan.changes.is_empty() {
        history::clean_up(deployment, &sets, &mut plan);
    }
    plan
}

/// The ReplicaSet for the current template.
pub(super) fn new_set(deployment: &Deployment, replicas: i32, revision: i64) -> ReplicaSet {
    let hash = history::template_hash(deployment);
    let mut template = deployment.spec.template.clone();
    let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
    labels.insert(HASH_LABEL.to_owned(), hash.clone());
    let labels = labels.clone();
    let mut selector = deployment.spec.selector.clone();
    selector.match_labels.get_or_insert_default().insert(HASH_LABEL.to_owned(), hash.clone());
    let mut set = ReplicaSet {
        spec: ReplicaSetSpec {
            replicas: Some(replicas),
            min_ready_seconds: deployment.spec.min_ready_seconds,
            selector,
            template: Some(template),
        },
        ..ReplicaSet::default()
    };
    set.metadata.name = Some(format!("{}-{hash}", deployment.name_any()));
    set.metadata.namespace = deployment.namespace();
    set.metadata.labels = Some(labels);
    set.metadata.owner_references = Some(vec![controller_reference(deployment)]);
    set.metadata.annotations = Some(history::annotations(deployment, None, revision));
    set
}

/// Adds a resize of a ReplicaSet.
pub(super) fn resize(deployment: &Deployment, set: &ReplicaSet, replicas: i32, plan: &mut Plan) {
    let before = desired_replicas(set);
    let limits = Limits::of(deployment);
    let patch = json!({
        "metadata": { "annotations": {
            DESIRED: limits.replicas.to_string(),
            MAX: limits.max_total().to_string(),
        } },
        "spec": { "replicas": replicas },
    });
    let event = (before != replicas).then(|| {
        let direction = if replicas > before { "up" } else { "down" };
        format!("Scaled {direction} replica set {} from {before} to {replicas}", set.name_any())
    });
    plan.changes.push(Change::Patch { set: Key::of(set), patch, event });
}

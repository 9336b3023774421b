//! A change of `spec.replicas` in the middle of a rollout is spread over the ReplicaSets in proportion.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::ResourceExt;

use super::plan::{DESIRED, Limits, MAX, Plan, Sets, available, desired_replicas, is_recreate, resize};

/// Whether `spec.replicas` changed since the ReplicaSets were last sized.
pub(super) fn is_scaling(deployment: &Deployment, sets: &Sets<'_>) -> bool {
    let replicas = Limits::of(deployment).replicas;
    sets.all().filter(|set| desired_replicas(set) > 0).any(|set| {
        let desired = set.annotations().get(DESIRED).and_then(|text| text.parse::<i32>().ok());
        desired.is_some_and(|desired| desired != replicas)
    })
}

pub(super) fn scale(deployment: &Deployment, sets: &Sets<'_>, plan: &mut Plan) {
    let limits = Limits::of(deployment);
    let active: Vec<&ReplicaSet> = sets.all().filter(|set| desired_replicas(set) > 0).collect();
    let single = match active.as_slice() {
        [] => sets.new.or(sets.old.last().copied()),
        [one] => Some(*one),
        _ => None,
    };
    if let Some(set) = single {
        if desired_replicas(set) != limits.replicas {
            resize(deployment, set, limits.replicas, plan);
        }
        return;
    }
    if let Some(new) = sets.new.filter(|new| is_saturated(deployment, new)) {
        for set in active.into_iter().filter(|set| set.uid() != new.uid()) {
            resize(deployment, set, 0, plan);
        }
        return;
    }
    if !is_recreate(deployment) {
        in_proportion(deployment, active, plan);
    }
}

/// The new ReplicaSet already has all replicas.
fn is_saturated(deployment: &Deployment, set: &ReplicaSet) -> bool {
    let replicas = Limits::of(deployment).replicas;
    let desired = set.annotations().get(DESIRED).and_then(|text| text.parse::<i32>().ok());
    desired_replicas(set) == replicas && desired == Some(replicas) && available(set) == replicas
}

fn in_proportion(deployment: &Deployment, mut active: Vec<&ReplicaSet>, plan: &mut Plan) {
    let limits = Limits::of(deployment);
    let allowed = if limits.replicas > 0 { limits.max_total() } else { 0 };
    let to_add = allowed - active.iter().map(|set| desired_replicas(set)).sum::<i32>();
    // The largest first; among equals the newest when growing, the oldest when shrinking.
    active.sort_by_key(|set| {
        let age = set.metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second());
        (-desired_replicas(set), if to_add > 0 { -age } else { age })
    });
    let mut added = 0;
    let mut sizes = Vec::with_capacity(active.len());
    for set in &active {
        let share = if to_add == 0 { 0 } else { share(deployment, set, to_add, added) };
        added += share;
        sizes.push(desired_replicas(set) + share);
    }
    if let Some(first) = sizes.first_mut()
        && to_add != 0
    {
        *first = (*first + to_add - added).max(0);
    }
    for (set, size) in active.into_iter().zip(sizes) {
        let desired = set.annotations().get(DESIRED).and_then(|text| text.parse::<i32>().ok());
        if size != desired_replicas(set) || desired != Some(limits.replicas) {
            resize(deployment, set, size.max(0), plan);
        }
    }
}

/// Share of `to_add` for one ReplicaSet.
fn share(deployment: &Deployment, set: &ReplicaSet, to_add: i32, added: i32) -> i32 {
    let limits = Limits::of(deployment);
    if desired_replicas(set) == 0 {
        return 0;
    }
    let fraction = if limits.replicas == 0 {
        -desired_replicas(set)
    } else {
        let before = set
            .annotations()
            .get(MAX)
            .and_then(|text| text.parse::<i32>().ok())
            .or(deployment.status.as_ref().and_then(|status| status.replicas))
            .filter(|before| *before > 0)
            .unwrap_or(limits.max_total());
        let size = f64::from(desired_replicas(set)) * f64::from(limits.max_total()) / f64::from(before);
        size.round() as i32 - desired_replicas(set)
    };
    let left = to_add - added;
    if to_add > 0 { fraction.min(left) } else { fraction.max(left) }
}

//! One step from the old ReplicaSets to the new one.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};

use super::plan::{Change, Input, Limits, Plan, Sets, available, desired_replicas, new_set, resize, size};

/// All old pods are deleted before the first new one is created.
pub(super) fn recreate(input: &Input<'_>, sets: &Sets<'_>, revision: i64, plan: &mut Plan) {
    let deployment = input.deployment;
    let active: Vec<&ReplicaSet> = sets.old.iter().copied().filter(|set| desired_replicas(set) > 0).collect();
    if !active.is_empty() {
        for set in active {
            resize(deployment, set, 0, plan);
        }
        return;
    }
    if sets.old.iter().any(|set| (input.has_running_pods)(set)) {
        return;
    }
    let replicas = Limits::of(deployment).replicas;
    match sets.new {
        None => plan.changes.push(Change::Create(Box::new(new_set(deployment, replicas, revision)))),
        Some(new) if desired_replicas(new) != replicas => resize(deployment, new, replicas, plan),
        Some(_) => {}
    }
}

/// Scales the new ReplicaSet up within `maxSurge`, and the old ones down within `maxUnavailable`.
pub(super) fn rolling_update(input: &Input<'_>, sets: &Sets<'_>, revision: i64, plan: &mut Plan) {
    let deployment = input.deployment;
    let Some(new) = sets.new else {
        let replicas = size_of_new(deployment, 0, sets.all().map(size).sum());
        plan.changes.push(Change::Create(Box::new(new_set(deployment, replicas, revision))));
        return;
    };
    let replicas = Limits::of(deployment).replicas;
    let total = sets.all().map(size).sum();
    let target = if desired_replicas(new) > replicas {
        replicas
    } else {
        size_of_new(deployment, desired_replicas(new), total)
    };
    if target != desired_replicas(new) {
        resize(deployment, new, target, plan);
        return;
    }
    scale_down_old(deployment, new, sets, plan);
}

/// Allowed size of the new ReplicaSet.
fn size_of_new(deployment: &Deployment, current: i32, total: i32) -> i32 {
    let limits = Limits::of(deployment);
    let room = limits.max_total() - total;
    if room <= 0 {
        return current;
    }
    current + room.min(limits.replicas - current).max(0)
}

fn scale_down_old(deployment: &Deployment, new: &ReplicaSet, sets: &Sets<'_>, plan: &mut Plan) {
    if sets.old.iter().all(|set| desired_replicas(set) == 0) {
        return;
    }
    let limits = Limits::of(deployment);
    let new_unavailable = desired_replicas(new) - available(new);
    let mut allowed = sets.total() - limits.min_available() - new_unavailable;
    if allowed <= 0 {
        return;
    }
    let mut sizes: Vec<(&ReplicaSet, i32)> =
        sets.old.iter().map(|set| (*set, desired_replicas(set))).collect();
    // Unhealthy pods are deleted first: they cost no availability.
    for (set, size) in &mut sizes {
        let broken = (*size - available(set)).clamp(0, allowed);
        *size -= broken;
        allowed -= broken;
    }
    let available_now: i32 = sets.all().map(available).sum();
    let mut spare = available_now - limits.min_available();
    for (_, size) in &mut sizes {
        let down = (*size).clamp(0, spare.max(0));
        *size -= down;
        spare -= down;
    }
    for (set, size) in sizes {
        if size != desired_replicas(set) {
            resize(deployment, set, size, plan);
        }
    }
}

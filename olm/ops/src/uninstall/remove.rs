//! Applies a plan of an uninstall.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions},
    core::GroupVersionKind,
};
use olm_api::{
    Condition, Subscription, condition,
    names::{CONDITION_DELETION_HELD, FINALIZER_SUBSCRIPTION_CLEANUP},
};
use olm_engine::{
    Refusal,
    ownership::{labelled, selector},
    resources::{Id, Resources},
};
use olm_plan::{ObjectRef, Op, Plan};
use serde_json::Value;

use super::{
    Progress, UninstallOptions, UninstallReport, UninstallTarget, described, leases,
    stages::{HeldCondition, PendingDeletion, in_words, stages},
};
use crate::error::Error;

/// Time limit for the deletion of an object.
const GONE: Duration = Duration::from_secs(60);
/// Total time to wait for the dependents of a ClusterServiceVersion: objects that take longer are reported
/// and deleted later.
const FOLLOW: Duration = Duration::from_secs(5);
/// Total time to wait for the pods that hold Leases: the default grace period of a pod, and some more.
const RELEASED: Duration = Duration::from_secs(35);
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Concurrent deletions.
const WRITES: usize = 8;

/// Deletes the objects of the plan, stage by stage, each after the one before is gone. Dependents of deleted
/// objects are awaited at the end.
pub(super) async fn apply(
    client: &Client,
    operator: &UninstallTarget,
    plan: &Plan,
    options: &UninstallOptions,
) -> Result<UninstallReport, Error> {
    let mut report = UninstallReport {
        namespace: plan.namespace.clone(),
        package: plan.package.clone(),
        digest: plan.digest.clone(),
        ..UninstallReport::default()
    };
    let remover =
        Remover { client, resources: Resources::new(client.clone()), operator, policy: Value::Null };
    for stage in stages(plan) {
        report.removed.extend(remover.remove(stage).await?.iter().map(ToString::to_string));
    }
    let (mut following, mut kept) = (Vec::new(), Vec::new());
    for object in &plan.objects {
        match object.op {
            Op::Delete if object.goes_with.is_some() => following.push(&object.reference),
            Op::Delete => {}
            _ => kept.push(described(object)),
        }
    }
    report.kept = kept;
    let now = tokio::time::Instant::now();
    let (deadline, released) = (now + FOLLOW, now + RELEASED);
    let (held, following): (Vec<&ObjectRef>, Vec<&ObjectRef>) =
        following.into_iter().partition(|reference| operator.holder_of(reference).is_some());
    for reference in following {
        let name = reference.to_string();
        match remover.follow(reference, deadline).await {
            true => report.removed.push(name),
            false => report.leftovers.push(name),
        }
    }
    for lease in held {
        match remover.release(lease, released).await {
            None => report.removed.push(lease.to_string()),
            Some(why) => report.kept.push(format!("{lease} ({why})")),
        }
    }
    // Objects that no manifest names and that carry the version's name.
    for version in operator.versions(options) {
        let found = labelled(client, &selector(&version, &plan.namespace)).await;
        let found = found.map_err(Error::kube(format!("list the remaining objects of {version}")))?;
        let names = found.iter().map(ToString::to_string);
        let new: Vec<String> = names.filter(|name| !report.leftovers.contains(name)).collect();
        report.leftovers.extend(new);
    }
    Ok(report)
}

/// One step of the plan: deletes the rest of the first unfinished stage. The Subscription that requests it is
/// deleted last.
pub(super) async fn advance(
    client: &Client,
    operator: &UninstallTarget,
    plan: &Plan,
    subscription: &Subscription,
) -> Result<Progress, Error> {
    let policy = serde_json::to_value(subscription.spec.deletion_policy).unwrap_or_default();
    let remover = Remover { client, resources: Resources::new(client.clone()), operator, policy };
    let own = |r: &ObjectRef| r.kind == "Subscription" && r.name == subscription.name_any();
    for mut stage in stages(plan) {
        stage.retain(|reference| !own(reference));
        let held = remover.push(stage, &mut BTreeMap::new()).await?;
        if let Some(along) = held.iter().find_map(|(held, _)| held_along(held, subscription)) {
            return Ok(along);
        }
        // A Subscription with its own cleanup reports its own delays.
        let is_late = |held: &PendingDeletion, since: &Option<Timestamp>| {
            !held.completes_on_its_own() && since.is_some_and(overdue)
        };
        if let Some((_, since)) = held.iter().find(|(held, since)| is_late(held, since)) {
            let since = since.unwrap_or_default();
            let late: Vec<PendingDeletion> =
                held.iter().filter(|(h, s)| is_late(h, s)).map(|(h, _)| h.clone()).collect();
            return Err(stuck(&late, &format!("since {since}")));
        }
        if !held.is_empty() {
            let held: Vec<PendingDeletion> = held.into_iter().map(|(held, _)| held).collect();
            return Ok(Progress::Waiting(in_words(&held)));
        }
    }
    Ok(Progress::Done)
}

fn overdue(since: Timestamp) -> bool {
    // With a clock behind the API server's, nothing is overdue.
    std::time::Duration::try_from(Timestamp::now().duration_since(since)).is_ok_and(|past| past > GONE)
}

fn stuck(held: &[PendingDeletion], how_long: &str) -> Error {
    Error::Refused {
        code: "StuckFinalizer".into(),
        text: format!("not deleted {how_long}: {}", in_words(held)),
        fix: held.first().map(PendingDeletion::fix),
    }
}

/// A dependency whose own deletion is held also blocks this one.
fn held_along(held: &PendingDeletion, subscription: &Subscription) -> Option<Progress> {
    let condition = held.condition.as_ref().filter(|_| held.completes_on_its_own())?;
    let (dependency, namespace) = (&held.object, subscription.namespace().unwrap_or_default());
    let message = format!(
        "the deletion of dependency {dependency} is held: {}; its own policy applies now: to retain its \
            objects, set spec.deletionPolicy to null in {dependency} and in Subscription {namespace}/{}",
        condition.message,
        subscription.name_any()
    );
    Some(Progress::HeldAlong { reason: condition.reason.clone(), message })
}

struct Remover<'a> {
    client: &'a Client,
    resources: Resources,
    operator: &'a UninstallTarget,
    /// The `deletionPolicy` that the Subscriptions of dependencies are deleted with.
    policy: Value,
}

impl Remover<'_> {
    /// The endpoint of an object. Those of instances are known from their list.
    async fn api(&self, object: &ObjectRef) -> Result<(Api<DynamicObject>, ApiResource), Error> {
        let gvk = GroupVersionKind::gvk(object.group(), object.version(), &object.kind);
        let resource = match self.operator.plural_of(object) {
            Some(plural) => ApiResource::from_gvk_with_plural(&gvk, plural),
            None => self.resources.lookup(&gvk).await.map_err(Refusal::from)?.0,
        };
        let api = match &object.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        Ok((api, resource))
    }

    /// Deletes the objects of a stage and waits until they are gone, finalizers included; returns those that
    /// existed.
    async fn remove(&self, stage: Vec<ObjectRef>) -> Result<Vec<ObjectRef>, Error> {
        let deadline = tokio::time::Instant::now() + GONE;
        let mut pause = SHORTEST_PAUSE;
        let mut seen = BTreeMap::new();
        let mut left = stage.clone();
        loop {
            let held = self.push(left, &mut seen).await?;
            if held.is_empty() {
                return Ok(stage.into_iter().filter(|reference| seen.contains_key(reference)).collect());
            }
            let held: Vec<PendingDeletion> = held.into_iter().map(|(held, _)| held).collect();
            if tokio::time::Instant::now() > deadline {
                return Err(stuck(&held, &format!("after {GONE:?}")));
            }
            left = held.into_iter().map(|held| held.object).collect();
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Deletes the objects that are not deleted yet; returns all that still exist, with the time of their
    /// deletion. `seen` stores their UIDs: a recreated object is another one.
    async fn push(
        &self,
        objects: Vec<ObjectRef>,
        seen: &mut BTreeMap<ObjectRef, String>,
    ) -> Result<Vec<(PendingDeletion, Option<Timestamp>)>, Error> {
        let known = &*seen;
        let pushed: Vec<_> = stream::iter(objects)
            .map(|object| async move {
                let held = self.push_one(&object, known.get(&object).map(String::as_str)).await?;
                Ok::<_, Error>((object, held))
            })
            .buffered(WRITES)
            .try_collect()
            .await?;
        let mut out = Vec::new();
        for (object, pushed) in pushed {
            let Some(pushed) = pushed else { continue };
            seen.insert(object.clone(), pushed.uid);
            if let Some(held) = pushed.held {
                out.push(held);
            }
        }
        Ok(out)
    }

    /// `None` when it does not exist.
    async fn push_one(&self, object: &ObjectRef, known: Option<&str>) -> Result<Option<Pushed>, Error> {
        let (api, resource) = self.api(object).await?;
        let found = api.get_opt(&object.name).await;
        let Some(found) = found.map_err(Error::kube(format!("get {object}")))? else { return Ok(None) };
        let uid = found.uid().unwrap_or_default();
        if known.is_some_and(|known| known != uid) {
            // Possibly by a GitOps pipeline.
            return Err(Error::Refused {
                code: "Recreated".into(),
                text: format!("{object} was deleted and another client created it again"),
                fix: Some("stop the client that creates it, then uninstall again".into()),
            });
        }
        let held = |object: &ObjectRef, found: &DynamicObject| PendingDeletion {
            object: object.clone(),
            resource: match resource.group.as_str() {
                "" => resource.plural.clone(),
                group => format!("{}.{group}", resource.plural),
            },
            finalizers: found.finalizers().to_vec(),
            condition: held_condition(object, found),
        };
        if let Some(since) = &found.metadata.deletion_timestamp {
            // The manager holds it for its policy, which does not apply to this removal. (A missing finalizer
            // cannot be added after the deletion.)
            if object.kind == "Subscription" && self.policy.is_null() {
                self.set_deletion_policy(&api, &found).await?;
            }
            return Ok(Some(Pushed { uid, held: Some((held(object, &found), Some(since.0))) }));
        }
        if object.kind == "Subscription" && !self.set_deletion_policy(&api, &found).await? {
            // It was changed concurrently: the next iteration reads it again.
            return Ok(Some(Pushed { uid, held: Some((held(object, &found), None)) }));
        }
        let preconditions = Preconditions { uid: found.uid(), resource_version: None };
        let params = DeleteParams::default().preconditions(preconditions);
        match api.delete(&object.name, &params).await {
            // An object without finalizers is gone with the response or shortly after.
            Ok(_) => Ok(Some(Pushed { uid, held: Some((held(object, &found), None)) })),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Some(Pushed { uid, held: None })),
            Err(error) => Err(Error::kube(format!("delete {object}"))(error)),
        }
    }

    /// A Subscription with a `deletionPolicy` is held until the manager has applied that policy. The policy
    /// of this plan takes precedence. A complete removal clears the policy; a stepwise one sets its own,
    /// because between two steps the operator would have no Subscription.
    async fn set_deletion_policy(
        &self,
        api: &Api<DynamicObject>,
        found: &DynamicObject,
    ) -> Result<bool, Error> {
        let ours = |finalizer: &&str| *finalizer == FINALIZER_SUBSCRIPTION_CLEANUP;
        let all = || found.finalizers().iter().map(String::as_str);
        let held = !self.policy.is_null();
        if all().any(|f| ours(&f)) == held && found.data["spec"]["deletionPolicy"] == self.policy {
            return Ok(true);
        }
        let finalizers: Vec<&str> =
            all().filter(|f| !ours(f)).chain(held.then_some(FINALIZER_SUBSCRIPTION_CLEANUP)).collect();
        let patch = serde_json::json!({
            "metadata": { "finalizers": finalizers, "resourceVersion": found.resource_version() },
            "spec": { "deletionPolicy": self.policy },
        });
        let name = found.name_any();
        match api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(true),
            Err(kube::Error::Api(status)) if status.is_conflict() => Ok(false),
            Err(error) => Err(Error::kube(format!("set the deletionPolicy of Subscription {name}"))(error)),
        }
    }

    /// Deletes a Lease after the pods of its operator are gone: a running process would create it again, and
    /// two leaders could act at once. Returns why it stays, if it does: the rest of the operator is gone, so
    /// that is not a failure.
    async fn release(&self, lease: &ObjectRef, deadline: tokio::time::Instant) -> Option<&'static str> {
        let deployment = self.operator.holder_of(lease).unwrap_or_default();
        let own = self.operator.installed().namespace.as_str();
        // A pod in the Lease's namespace with such a name is another installation's.
        let namespaces: BTreeSet<&str> = lease.namespace.as_deref().into_iter().chain([own]).collect();
        let mut pause = SHORTEST_PAUSE;
        loop {
            match leases::has_pods(self.client, &namespaces, deployment).await {
                Ok(false) => break,
                Ok(true) if tokio::time::Instant::now() > deadline => {
                    return Some("pods with the name of its holder's Deployment still run");
                }
                Ok(true) => {}
                Err(error) => {
                    tracing::debug!(%lease, %error, "failed to list the pods of its holder");
                    return Some("the pods of its holder could not be listed");
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        match leases::delete(self.client, lease, deployment).await {
            Ok(retained) => retained,
            Err(kube::Error::Api(status)) if status.is_forbidden() => Some("no permission to delete it"),
            Err(error) => {
                tracing::debug!(%lease, %error, "failed to delete it");
                Some("its deletion failed")
            }
        }
    }

    /// Whether a dependent of a deleted object is gone in time. A missing right to read it is not a failure:
    /// the caller's part is done.
    async fn follow(&self, object: &ObjectRef, deadline: tokio::time::Instant) -> bool {
        let id = Id::new(&object.api_version, &object.kind, object.namespace.as_deref(), &object.name);
        let mut pause = SHORTEST_PAUSE;
        loop {
            match self.resources.get(&id).await {
                Ok(None) => return true,
                Ok(Some(_)) => {}
                Err(error) => {
                    tracing::debug!(%object, %error, "failed to check its deletion");
                    return false;
                }
            }
            if tokio::time::Instant::now() > deadline {
                return false;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// The held condition of a deleted Subscription.
fn held_condition(object: &ObjectRef, found: &DynamicObject) -> Option<HeldCondition> {
    let conditions = found.data.pointer("/status/conditions").filter(|_| object.kind == "Subscription")?;
    let conditions: Vec<Condition> = serde_json::from_value(conditions.clone()).ok()?;
    let held = condition::find(&conditions, CONDITION_DELETION_HELD).filter(|c| c.is_true())?;
    Some(HeldCondition {
        reason: held.reason.clone().unwrap_or_default(),
        message: held.message.clone().unwrap_or_default(),
    })
}

/// An object that existed.
struct Pushed {
    uid: String,
    held: Option<(PendingDeletion, Option<Timestamp>)>,
}

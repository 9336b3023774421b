//! Carrying out a plan for an uninstall.

use std::{collections::BTreeMap, time::Duration};

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
use olm_plan::{ObjectRef, Op, Plan};
use serde_json::Value;

use super::{
    Leaving, Progress, UninstallOptions, UninstallReport, described,
    stages::{Held, HeldCondition, in_words, stages},
};
use olm_engine::{
    Refusal,
    ownership::{labelled, selector},
    resources::{Id, Resources},
};

use crate::error::Error;

/// How long an object may take to go.
const GONE: Duration = Duration::from_secs(60);
/// How long what goes with a ClusterServiceVersion is waited for, all of it together: whatever takes longer is named and
/// goes when its time comes.
const FOLLOW: Duration = Duration::from_secs(5);
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Deletions at a time.
const WRITES: usize = 8;

/// Deletes what the plan deletes, stage by stage, each stage when the one before is gone. Objects that go with another
/// are waited for at the end.
pub(super) async fn carry_out(
    client: &Client,
    leaving: &Leaving,
    plan: &Plan,
    options: &UninstallOptions,
) -> Result<UninstallReport, Error> {
    let mut report = UninstallReport {
        namespace: plan.namespace.clone(),
        package: plan.package.clone(),
        digest: plan.digest.clone(),
        ..UninstallReport::default()
    };
    let doing = Doing { client, resources: Resources::new(client.clone()), leaving, policy: Value::Null };
    for stage in stages(plan) {
        report.removed.extend(doing.remove(stage).await?.iter().map(ToString::to_string));
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
    let deadline = tokio::time::Instant::now() + FOLLOW;
    for reference in following {
        let name = reference.to_string();
        match doing.follow(reference, deadline).await {
            true => report.removed.push(name),
            false => report.leftovers.push(name),
        }
    }
    // What no manifest names, and carries the version's name all the same.
    for version in leaving.versions(options) {
        let found = labelled(client, &selector(&version, &plan.namespace)).await;
        let found = found.map_err(Error::kube(format!("list the remaining objects of {version}")))?;
        let names = found.iter().map(ToString::to_string);
        let new: Vec<String> = names.filter(|name| !report.leftovers.contains(name)).collect();
        report.leftovers.extend(new);
    }
    Ok(report)
}

/// One step of the same: what is left of the first stage that something is left of is deleted. The Subscription that asks for it goes
/// when everything else is gone.
pub(super) async fn advance(
    client: &Client,
    leaving: &Leaving,
    plan: &Plan,
    subscription: &Subscription,
) -> Result<Progress, Error> {
    let policy = serde_json::to_value(subscription.spec.deletion_policy).unwrap_or_default();
    let doing = Doing { client, resources: Resources::new(client.clone()), leaving, policy };
    let own = |r: &ObjectRef| r.kind == "Subscription" && r.name == subscription.name_any();
    for mut stage in stages(plan) {
        stage.retain(|reference| !own(reference));
        let held = doing.push(stage, &mut BTreeMap::new()).await?;
        if let Some(along) = held.iter().find_map(|(held, _)| held_along(held, subscription)) {
            return Ok(along);
        }
        // One that carries itself out says itself what is late.
        let is_late =
            |held: &Held, since: &Option<Timestamp>| !held.carries_itself_out() && since.is_some_and(overdue);
        if let Some((_, since)) = held.iter().find(|(held, since)| is_late(held, since)) {
            let since = since.unwrap_or_default();
            let late: Vec<Held> =
                held.iter().filter(|(h, s)| is_late(h, s)).map(|(h, _)| h.clone()).collect();
            return Err(stuck(&late, &format!("since {since}")));
        }
        if !held.is_empty() {
            let held: Vec<Held> = held.into_iter().map(|(held, _)| held).collect();
            return Ok(Progress::Waiting(in_words(&held)));
        }
    }
    Ok(Progress::Done)
}

fn overdue(since: Timestamp) -> bool {
    // A clock that is behind the API server's makes nothing late.
    std::time::Duration::try_from(Timestamp::now().duration_since(since)).is_ok_and(|past| past > GONE)
}

fn stuck(held: &[Held], how_long: &str) -> Error {
    Error::Refused {
        code: "StuckFinalizer".into(),
        text: format!("not deleted {how_long}: {}", in_words(held)),
        fix: held.first().map(Held::fix),
    }
}

/// A dependency that was deleted along cannot be carried out: what stands in its way stands in ours.
fn held_along(held: &Held, subscription: &Subscription) -> Option<Progress> {
    let told = held.told.as_ref().filter(|_| held.carries_itself_out())?;
    let (dependency, namespace) = (&held.object, subscription.namespace().unwrap_or_default());
    let message = format!(
        "the deletion of dependency {dependency} is held: {}; its own policy applies now: to retain its \
            objects, set spec.deletionPolicy to null in {dependency} and in Subscription {namespace}/{}",
        told.message,
        subscription.name_any()
    );
    Some(Progress::HeldAlong { reason: told.reason.clone(), message })
}

struct Doing<'a> {
    client: &'a Client,
    resources: Resources,
    leaving: &'a Leaving,
    /// The `deletionPolicy` that the Subscriptions of dependencies are deleted with.
    policy: Value,
}

impl Doing<'_> {
    /// The endpoint of an object. Those of instances are known from the list that they are on.
    async fn api(&self, object: &ObjectRef) -> Result<(Api<DynamicObject>, ApiResource), Error> {
        let gvk = GroupVersionKind::gvk(object.group(), object.version(), &object.kind);
        let resource = match self.leaving.plural_of(object) {
            Some(plural) => ApiResource::from_gvk_with_plural(&gvk, plural),
            None => self.resources.lookup(&gvk).await.map_err(Refusal::from)?.0,
        };
        let api = match &object.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        Ok((api, resource))
    }

    /// Deletes the objects of a stage and waits until they are gone, finalizers included; returns those that were there.
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
            let held: Vec<Held> = held.into_iter().map(|(held, _)| held).collect();
            if tokio::time::Instant::now() > deadline {
                return Err(stuck(&held, &format!("after {GONE:?}")));
            }
            left = held.into_iter().map(|held| held.object).collect();
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Deletes those objects that are not deleted yet; returns all that are still there, with the time of their deletion. `seen`
    /// remembers which objects these are: one that is made anew is told apart.
    async fn push(
        &self,
        objects: Vec<ObjectRef>,
        seen: &mut BTreeMap<ObjectRef, String>,
    ) -> Result<Vec<(Held, Option<Timestamp>)>, Error> {
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

    /// `None` when it is not there.
    async fn push_one(&self, object: &ObjectRef, known: Option<&str>) -> Result<Option<Pushed>, Error> {
        let (api, resource) = self.api(object).await?;
        let found = api.get_opt(&object.name).await;
        let Some(found) = found.map_err(Error::kube(format!("get {object}")))? else { return Ok(None) };
        let uid = found.uid().unwrap_or_default();
        if known.is_some_and(|known| known != uid) {
            // A GitOps pipeline, perhaps.
            return Err(Error::Refused {
                code: "Recreated".into(),
                text: format!("{object} was deleted and another client created it again"),
                fix: Some("stop the client that creates it, then uninstall again".into()),
            });
        }
        let held = |object: &ObjectRef, found: &DynamicObject| Held {
            object: object.clone(),
            resource: match resource.group.as_str() {
                "" => resource.plural.clone(),
                group => format!("{}.{group}", resource.plural),
            },
            finalizers: found.finalizers().to_vec(),
            told: told(object, found),
        };
        if let Some(since) = &found.metadata.deletion_timestamp {
            // The manager holds it by its policy, which is not what is done now. (A finalizer that is not there cannot be added any
            // more.)
            if object.kind == "Subscription" && self.policy.is_null() {
                self.settle(&api, &found).await?;
            }
            return Ok(Some(Pushed { uid, held: Some((held(object, &found), Some(since.0))) }));
        }
        if object.kind == "Subscription" && !self.settle(&api, &found).await? {
            // Somebody wrote it just now: the next look is at what it is then.
            return Ok(Some(Pushed { uid, held: Some((held(object, &found), None)) }));
        }
        let preconditions = Preconditions { uid: found.uid(), resource_version: None };
        let params = DeleteParams::default().preconditions(preconditions);
        match api.delete(&object.name, &params).await {
            // An object without finalizers is gone with the answer, or a moment later.
            Ok(_) => Ok(Some(Pushed { uid, held: Some((held(object, &found), None)) })),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Some(Pushed { uid, held: None })),
            Err(error) => Err(Error::kube(format!("delete {object}"))(error)),
        }
    }

    /// A Subscription with a `deletionPolicy` is held until the manager has carried that out. What becomes of its operator is decided
    /// here: the policy of this plan counts. Who removes all of it himself takes the policy back; who goes step by step hands his own
    /// on, because between two steps an operator without its Subscription would be nobody's.
    async fn settle(&self, api: &Api<DynamicObject>, found: &DynamicObject) -> Result<bool, Error> {
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

    /// Whether an object that goes with another is gone in time. Not to be allowed to look is no failure: everything
    /// that was for the caller to do is done.
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

/// What a Subscription says that is deleted and cannot be carried out.
fn told(object: &ObjectRef, found: &DynamicObject) -> Option<HeldCondition> {
    let conditions = found.data.pointer("/status/conditions").filter(|_| object.kind == "Subscription")?;
    let conditions: Vec<Condition> = serde_json::from_value(conditions.clone()).ok()?;
    let held = condition::find(&conditions, CONDITION_DELETION_HELD).filter(|c| c.is_true())?;
    Some(HeldCondition {
        reason: held.reason.clone().unwrap_or_default(),
        message: held.message.clone().unwrap_or_default(),
    })
}

/// An object that was there.
struct Pushed {
    uid: String,
    held: Option<(Held, Option<Timestamp>)>,
}

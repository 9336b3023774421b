//! Applies a plan in the order of dependencies.
//!
//! The OperatorGroup → the Subscriptions of the operators that are installed along → CRDs, established → a
//! wait until those operators run → the ClusterServiceVersion, which owns the rest → prerequisites → rights →
//! configuration. Workloads and the endpoints that the API server calls are left to the
//! ClusterServiceVersion's controller, which also maintains them.
//!
//! CRDs come before the wait: operators that need each other's kinds would otherwise wait for each other
//! forever.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams, WatchEvent, WatchParams},
    runtime::wait::{Condition as _, await_condition, conditions},
};
use olm_api::{
    ClusterServiceVersion, InstallPlan, OperatorGroup, Subscription,
    install_plan::{Step, StepStatus},
};
use olm_bundle::hold_conversion_back;
use olm_engine::{
    Change, Snapshot,
    ownership::{Owner, own},
    resources::{Created, ResourceError, Resources},
};
use olm_ops::authority::Authority;
use olm_plan::{ObjectRef, Op, Phase};
use serde_json::Value;

use super::{
    alongside, authority, csv_object,
    status::{is_done, set_step},
    wait,
};
use crate::{
    cache::ClusterCache,
    context::{Ctx, Error},
};

/// Objects of one phase are independent of each other.
const WRITES: usize = 8;
/// A CRD is established within milliseconds; a longer wait is an error to report.
const ESTABLISH: Duration = Duration::from_secs(10);

/// The plan and its authority.
pub(super) struct Job<'a> {
    pub(super) plan: &'a InstallPlan,
    pub(super) change: &'a Change,
    pub(super) subscription: &'a Subscription,
    pub(super) snapshot: &'a Snapshot,
    /// The user who approved it, where the API server records that.
    pub(super) authority: Option<&'a Authority>,
}

/// The progress of a plan.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Done,
    /// The pending condition; everything before it is done.
    Waiting(String),
}

/// Warnings of the API server about the written objects, with the object.
pub(super) type Warnings = Vec<String>;

/// `resources` have the rights that the OperatorGroup grants.
pub(super) async fn apply(
    job: &Job<'_>,
    resources: &Resources,
    steps: &mut [Step],
    warnings: &mut Warnings,
    ctx: &Ctx,
) -> Result<Progress, Error> {
    let change = job.change;
    let (mut groups, mut along, mut crds, mut rest) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut csv = None;
    let csv_reference = csv_object::reference(change);
    for phase in change.plan.phases() {
        for object in phase.objects {
            match phase.phase {
                Phase::Crds => crds.push(object),
                Phase::Prerequisites | Phase::Rbac | Phase::Config => match &object.1 {
                    reference if reference.same_object(&csv_reference) => csv = Some(object.2),
                    // The plan is in the namespace, so the namespace exists.
                    reference if reference.kind == "Namespace" => {}
                    reference if is::<OperatorGroup>(reference) => groups.push(object),
                    reference if is::<Subscription>(reference) => along.push(object),
                    _ => rest.push((phase.phase, object)),
                },
                // Left to the ClusterServiceVersion's controller.
                Phase::Endpoints | Phase::Workloads | Phase::Serving => {}
            }
        }
    }
    for (_, _, crd) in &mut crds {
        hold_conversion_back(&change.bundle, crd);
        alongside::annotate(crd, change, job.snapshot);
    }

    // A waiting plan is reconciled repeatedly; what precedes the wait is not applied each time.
    let prepared =
        groups.iter().chain(&along).chain(&crds).all(|(_, reference, _)| is_done(steps, reference));
    let mut writer = Writer { steps, warnings, resources, cache: &ctx.cache };
    if !prepared {
        writer.apply_all(groups, None).await?;
        for (_, reference, manifest) in along {
            let manifest = with_author(job.authority, manifest);
            writer.subscribe(&reference, &manifest, resources).await?;
        }
        still_approved(job, ctx)?;
        // Existing CRDs are served already, as the response shows.
        let new = writer.apply_definitions(crds).await?;
        // Collected first: a lazy closure over references would make the controller's future not Send.
        let waits: Vec<_> =
            new.iter().map(|crd| established(&crd.reference.name, crd.version.as_deref(), ctx)).collect();
        stream::iter(waits).buffer_unordered(WRITES).try_collect::<Vec<()>>().await?;
        for crd in &new {
            set_step(writer.steps, &crd.reference, crd.status);
        }
        // New kinds are served now.
        ctx.resources.forget_missing();
    }
    if let Some(what) = wait::for_others(&change.along, job.subscription, job.snapshot) {
        return Ok(Progress::Waiting(what));
    }

    let csv = csv.ok_or_else(|| Error::Bundle {
        name: change.resolved.chosen.name.clone(),
        text: "the plan has no ClusterServiceVersion".into(),
    })?;
    still_approved(job, ctx)?;
    if csv_object::makes_replaces_cycle(change, job.snapshot) {
        forget_predecessor(change, ctx).await?;
    }
    let csv = writer.create_csv(change, csv_object::finish(csv, change)).await?;
    let owner = Owner::of(&csv, Some(&job.subscription.spec.name));
    // rest is in the order of the phases already; each phase is complete before the next begins.
    for phase in [Phase::Prerequisites, Phase::Rbac, Phase::Config] {
        still_approved(job, ctx)?;
        let objects: Vec<_> = rest.iter().filter(|(p, _)| *p == phase).map(|(_, o)| o.clone()).collect();
        writer.apply_all(objects, Some(&owner)).await?;
    }
    Ok(Progress::Done)
}

/// Verifies that the approval was not revoked since the last phase, and that the InstallPolicies are those
/// that it was checked against.
fn still_approved(job: &Job<'_>, ctx: &Ctx) -> Result<(), Error> {
    let object = || format!("InstallPlan {}", job.plan.name_any());
    if !authority::is_still_approved(job.plan, ctx) {
        let text = "is no longer approved; applied objects are retained".into();
        return Err(Error::NotReady { object: object(), text });
    }
    let policies = ctx.cache.policies_in(&job.change.plan.namespace);
    if job.snapshot.policies.known() != Some(&policies) {
        let text = "is checked again, because InstallPolicies changed; applied objects are retained".into();
        return Err(Error::NotReady { object: object(), text });
    }
    Ok(())
}

/// The author of a Subscription that is installed along is the approver of the plan that creates it.
fn with_author(authority: Option<&Authority>, mut manifest: Value) -> Value {
    for (key, value) in authority.into_iter().flat_map(Authority::annotations) {
        manifest["metadata"]["annotations"][key] = value.into();
    }
    manifest
}

/// An object that was written and is not done yet.
struct Unfinished {
    reference: ObjectRef,
    status: StepStatus,
    /// The `resourceVersion` after the write.
    version: Option<String>,
}

/// Writes objects and records the result of each.
struct Writer<'a> {
    steps: &'a mut [Step],
    warnings: &'a mut Warnings,
    resources: &'a Resources,
    cache: &'a ClusterCache,
}

impl Writer<'_> {
    async fn apply_all(
        &mut self,
        objects: Vec<(Op, ObjectRef, Value)>,
        owner: Option<&Owner>,
    ) -> Result<(), Error> {
        self.write_all(objects, owner, |_| true).await.map(drop)
    }

    /// A CRD is done when it is established: a resumed plan waits for it too. Returns those that are not.
    async fn apply_definitions(
        &mut self,
        crds: Vec<(Op, ObjectRef, Value)>,
    ) -> Result<Vec<Unfinished>, Error> {
        self.write_all(crds, None, is_established).await
    }

    /// Records objects as done if the response of the write shows that; returns the others.
    async fn write_all(
        &mut self,
        objects: Vec<(Op, ObjectRef, Value)>,
        owner: Option<&Owner>,
        done: fn(&Value) -> bool,
    ) -> Result<Vec<Unfinished>, Error> {
        let resources = self.resources;
        let write = |(op, reference, mut manifest): (Op, ObjectRef, Value)| async move {
            if op == Op::Noop {
                let there = Unfinished { reference, status: StepStatus::Present, version: None };
                return Ok((there, Vec::new(), done(&Value::Null)));
            }
            if let Some(owner) = owner {
                own(&mut manifest, owner);
            }
            let (applied, warnings) = resources.apply_with_warnings(&manifest).await?;
            let status = if op == Op::Create { StepStatus::Created } else { StepStatus::Present };
            let version = applied.pointer("/metadata/resourceVersion").and_then(Value::as_str);
            let written = Unfinished { reference, status, version: version.map(str::to_owned) };
            Ok::<_, ResourceError>((written, warnings, done(&applied)))
        };
        let mut results = stream::iter(objects).map(write).buffer_unordered(WRITES);
        let mut unfinished = Vec::new();
        while let Some((written, warnings, done)) = results.try_next().await? {
            let reference = &written.reference;
            self.warnings.extend(warnings.into_iter().map(|text| format!("{reference}: {text}")));
            if done {
                set_step(self.steps, reference, written.status);
            } else {
                unfinished.push(written);
            }
        }
        Ok(unfinished)
    }

    /// Creates the Subscription of an operator that is installed along. An existing one with the same request
    /// is left as it is: it may have been changed since, and no longer belongs to this plan.
    async fn subscribe(
        &mut self,
        reference: &ObjectRef,
        manifest: &Value,
        resources: &Resources,
    ) -> Result<(), Error> {
        let created = resources.create(manifest).await?;
        let status = match created {
            Created::New(_) => StepStatus::Created,
            Created::There(there) => {
                for field in ["/spec/name", "/spec/source", "/spec/sourceNamespace"] {
                    if there.pointer(field) != manifest.pointer(field) {
                        return Err(Error::Bundle {
                            name: reference.to_string(),
                            text: format!(
                                "expected the Subscription of dependency {}, and {field} differs; rename or \
                                    delete it",
                                manifest["spec"]["startingCSV"]
                            ),
                        });
                    }
                }
                StepStatus::Present
            }
        };
        set_step(self.steps, reference, status);
        Ok(())
    }

    /// Creates the ClusterServiceVersion; an existing one stays as it is, as upstream. The raw manifest is
    /// sent instead of the parsed one: unknown fields are the author's.
    async fn create_csv(&mut self, change: &Change, manifest: Value) -> Result<ClusterServiceVersion, Error> {
        let (object, status) = match self.resources.create(&manifest).await? {
            Created::New(object) => (object, StepStatus::Created),
            Created::There(object) => (object, StepStatus::Present),
        };
        set_step(self.steps, &csv_object::reference(change), status);
        let csv: ClusterServiceVersion = serde_json::from_value(object).map_err(|error| Error::Bundle {
            name: change.resolved.chosen.name.clone(),
            text: error.to_string(),
        })?;
        self.cache.csvs.store_written(csv.clone());
        Ok(csv)
    }
}

/// Clears `replaces` of the version being replaced: on a rollback it names the new one, which now replaces it.
async fn forget_predecessor(change: &Change, ctx: &Ctx) -> Result<(), Error> {
    let Some(name) = &change.replaces else { return Ok(()) };
    let api = Api::<ClusterServiceVersion>::namespaced(ctx.client.clone(), &change.plan.namespace);
    let patch = serde_json::json!({ "spec": { "replaces": null } });
    let written = api
        .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .map_err(Error::kube(format!("change ClusterServiceVersion {name}")))?;
    ctx.cache.csvs.store_written(written);
    Ok(())
}

fn is<K: kube::Resource<DynamicType = ()>>(reference: &ObjectRef) -> bool {
    reference.group() == K::group(&()) && reference.kind == K::kind(&())
}

fn is_established(object: &Value) -> bool {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|c| c["type"] == "Established" && c["status"] == "True")
}

/// Waits until a CRD is established. `version` is its `resourceVersion` after the write: a watch from there
/// misses nothing and needs no list before it.
async fn established(name: &str, version: Option<&str>, ctx: &Ctx) -> Result<(), Error> {
    let api = Api::<CustomResourceDefinition>::all(ctx.client.clone());
    let wait = async {
        if let Some(version) = version
            && watched_until_established(&api, name, version).await
        {
            return Ok(());
        }
        await_condition(api.clone(), name, conditions::is_crd_established()).await.map(drop)
    };
    let failed = |text: String| Error::NotReady { object: format!("CustomResourceDefinition {name}"), text };
    match tokio::time::timeout(ESTABLISH, wait).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(failed(format!("failed to watch until it is established: {error}"))),
        Err(_) => {
            let crd =
                api.get(name).await.map_err(Error::kube(format!("get CustomResourceDefinition {name}")))?;
            let conditions = crd.status.and_then(|s| s.conditions).unwrap_or_default();
            let why: Vec<String> = conditions
                .iter()
                .filter(|c| c.status != "True")
                .map(|c| format!("{}: {}", c.type_, c.message.as_deref().unwrap_or_default()))
                .collect();
            let taken = conditions.iter().any(|c| c.type_ == "NamesAccepted" && c.status != "True");
            let fix = if taken {
                "; delete the CustomResourceDefinition of the group with these names"
            } else {
                ""
            };
            Err(failed(format!("is not established after {ESTABLISH:?}: {}{fix}", why.join("; "))))
        }
    }
}

/// Whether a watch from a version reports the CRD as established; `false` when it ends before, for any
/// reason.
async fn watched_until_established(api: &Api<CustomResourceDefinition>, name: &str, version: &str) -> bool {
    let params = WatchParams::default().fields(&format!("metadata.name={name}"));
    let Ok(events) = api.watch(&params, version).await else { return false };
    let mut events = std::pin::pin!(events);
    while let Some(Ok(event)) = events.next().await {
        match event {
            WatchEvent::Added(crd) | WatchEvent::Modified(crd) => {
                if conditions::is_crd_established().matches_object(Some(&crd)) {
                    return true;
                }
            }
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Deleted(_) | WatchEvent::Error(_) => return false,
        }
    }
    false
}

//! Carrying a plan out, in an order in which everything finds what it needs.
//!
//! The OperatorGroup → CRDs, established → the ClusterServiceVersion, which owns the rest → prerequisites → rights →
//! configuration. Deployments are left to the ClusterServiceVersion's controller: it also keeps them right.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{DynamicObject, PostParams},
    runtime::wait::{await_condition, conditions},
};
use olm_api::{
    ClusterServiceVersion, OperatorGroup, Subscription,
    install_plan::{Step, StepStatus},
};
use olm_plan::{ObjectRef, Op, Phase};
use serde_json::Value;

use super::{applied, csv_object, status::set_step};
use crate::{
    context::{Ctx, Error},
    engine::Change,
    ownership::{Owner, own},
    resources::{Id, ResourceError},
};

/// Objects of one phase are independent of each other.
const WRITES: usize = 8;
/// A CRD is established within milliseconds, or something is wrong that is worth reporting.
const ESTABLISH: Duration = Duration::from_secs(10);

pub(super) async fn apply(
    change: &Change,
    subscription: &Subscription,
    steps: &mut [Step],
    ctx: &Ctx,
) -> Result<(), Error> {
    let (mut groups, mut crds, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    let mut csv = None;
    let csv_reference = csv_object::reference(change);
    for phase in change.plan.phases() {
        for object in phase.objects {
            match phase.phase {
                Phase::Workloads => {}
                Phase::Crds => crds.push(object),
                _ if object.1.same_object(&csv_reference) => csv = Some(object.2),
                // The plan is in it: whoever made the Subscription made the namespace.
                _ if object.1.kind == "Namespace" => {}
                _ if is::<OperatorGroup>(&object.1) => groups.push(object),
                other => rest.push((other, object)),
            }
        }
    }

    apply_all(groups, None, steps, ctx).await?;
    let crd_names: Vec<String> = crds.iter().map(|(_, reference, _)| reference.name.clone()).collect();
    apply_all(crds, None, steps, ctx).await?;
    for name in crd_names {
        established(&name, ctx).await?;
    }

    let csv = csv.ok_or_else(|| Error::Bundle {
        name: change.resolved.chosen.name.clone(),
        text: "the plan has no ClusterServiceVersion".into(),
    })?;
    let csv = create_csv(change, csv_object::finish(csv, change), steps, ctx).await?;
    let owner = Owner::of(&csv, Some(&subscription.spec.name));
    // rest is in the order of the phases already; each phase is complete before the next begins.
    for phase in [Phase::Prerequisites, Phase::Rbac, Phase::Config] {
        let objects: Vec<_> = rest.iter().filter(|(p, _)| *p == phase).map(|(_, o)| o.clone()).collect();
        apply_all(objects, Some(&owner), steps, ctx).await?;
    }
    Ok(())
}

async fn apply_all(
    objects: Vec<(Op, ObjectRef, Value)>,
    owner: Option<&Owner>,
    steps: &mut [Step],
    ctx: &Ctx,
) -> Result<(), Error> {
    let write = |(op, reference, mut manifest): (Op, ObjectRef, Value)| async move {
        if op == Op::Noop {
            return Ok((reference, StepStatus::Present));
        }
        if let Some(owner) = owner {
            own(&mut manifest, owner);
        }
        ctx.resources.apply(&manifest).await?;
        Ok::<_, ResourceError>((reference, applied(op)))
    };
    let mut results = stream::iter(objects).map(write).buffer_unordered(WRITES);
    while let Some((reference, status)) = results.try_next().await? {
        set_step(steps, &reference, status);
    }
    Ok(())
}

fn is<K: kube::Resource<DynamicType = ()>>(reference: &ObjectRef) -> bool {
    reference.group() == K::group(&()) && reference.kind == K::kind(&())
}

/// Creates the ClusterServiceVersion; one that is there stays as it is, as upstream has it.
async fn create_csv(
    change: &Change,
    manifest: Value,
    steps: &mut [Step],
    ctx: &Ctx,
) -> Result<ClusterServiceVersion, Error> {
    let namespace = &change.plan.namespace;
    let id = Id::of(&manifest)?;
    let bundle_error =
        |error: serde_json::Error| Error::Bundle { name: id.name.clone(), text: error.to_string() };
    let (resource, _) = ctx.resources.lookup(&id.gvk).await?;
    // The raw manifest goes out, not our reading of it: fields that we do not know are the author's.
    let api = Api::<DynamicObject>::namespaced_with(ctx.client.clone(), namespace, &resource);
    let object: DynamicObject = serde_json::from_value(manifest).map_err(bundle_error)?;
    let (object, status) = match api.create(&PostParams::default(), &object).await {
        Ok(created) => (created, StepStatus::Created),
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            let found = api.get(&id.name).await.map_err(Error::kube(format!("get {id}")))?;
            (found, StepStatus::Present)
        }
        Err(error) => return Err(Error::kube(format!("create {id}"))(error)),
    };
    set_step(steps, &csv_object::reference(change), status);
    let object = serde_json::to_value(object).and_then(serde_json::from_value).map_err(bundle_error)?;
    Ok(object)
}

async fn established(name: &str, ctx: &Ctx) -> Result<(), Error> {
    let api = Api::<CustomResourceDefinition>::all(ctx.client.clone());
    let wait = await_condition(api, name, conditions::is_crd_established());
    let failed = |text: String| Error::Bundle { name: format!("CustomResourceDefinition {name}"), text };
    match tokio::time::timeout(ESTABLISH, wait).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(failed(format!("waiting for it to be established: {error}"))),
        Err(_) => {
            let api = Api::<CustomResourceDefinition>::all(ctx.client.clone());
            let crd =
                api.get(name).await.map_err(Error::kube(format!("get CustomResourceDefinition {name}")))?;
            let conditions = crd.status.and_then(|s| s.conditions).unwrap_or_default();
            let why: Vec<String> = conditions
                .iter()
                .filter(|c| c.status != "True")
                .map(|c| format!("{}: {}", c.type_, c.message.as_deref().unwrap_or_default()))
                .collect();
            Err(failed(format!("it is not established after {ESTABLISH:?}: {}", why.join("; "))))
        }
    }
}

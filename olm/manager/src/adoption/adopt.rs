//! Adopts what OLM v0 installed, in place.
//!
//! Its ClusterServiceVersions, Subscriptions, InstallPlans and OperatorGroups are used as they are. What
//! differs is the names of its objects and the owner of their fields:
//!
//! * roles and bindings are created under our names before OLM's are deleted, so that the operator keeps its
//!   rights
//! * fields that OLM set become ours ([`super::fields`])
//!
//! No progress is stored: the objects show what is still OLM's. An interrupted manager resumes, and a start
//! with nothing to adopt makes two list requests and no write.

use std::collections::{BTreeMap, BTreeSet};

use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams},
};
use olm_api::{ClusterServiceVersion, OperatorGroup, Subscription, names};
use olm_bundle::{Phase, RenderError};
use olm_engine::{
    bundle_of,
    ownership::{Owned, Owner, OwnerKey, labelled, own},
    resources::Id,
    targets,
};
use olm_plan::ObjectRef;
use serde_json::{Value, json};

use super::{fields::adopted, traces};
use crate::context::{Ctx, Error};

/// Label that OLM v0 sets on its roles and bindings, and that we do not set.
const MADE_BY_OLM: &str = "olm.permissions.hash";

/// The remains of OLM on a version.
#[derive(Debug, Default)]
struct LegacyObjects {
    /// Roles and bindings.
    rights: Vec<Owned>,
}

pub(super) async fn adopt(ctx: &Ctx) -> Result<(), Error> {
    let found = found(ctx).await?;
    if found.is_empty() {
        return Ok(());
    }
    tracing::info!(versions = found.len(), "adopting the objects of OLM");
    for (owner, legacy) in found {
        let api = Api::<ClusterServiceVersion>::namespaced(ctx.client.clone(), &owner.namespace);
        let what = format!("get ClusterServiceVersion {}/{}", owner.namespace, owner.name);
        // Objects of a deleted version are orphaned and not adopted.
        let Some(csv) = api.get_opt(&owner.name).await.map_err(Error::kube(what))? else { continue };
        if csv.metadata.deletion_timestamp.is_some() || csv.labels().contains_key(names::LABEL_COPIED_FROM) {
            continue;
        }
        version(&csv, legacy, ctx).await?;
    }
    Ok(())
}

/// The versions with traces of OLM: its roles, or Deployments with its fields.
async fn found(ctx: &Ctx) -> Result<BTreeMap<OwnerKey, LegacyObjects>, Error> {
    let mut out: BTreeMap<OwnerKey, LegacyObjects> = BTreeMap::new();
    let selector = format!("{MADE_BY_OLM},{}=ClusterServiceVersion", names::LABEL_OWNER_KIND);
    let rights = labelled(&ctx.client, &selector).await.map_err(Error::kube("list the roles of OLM"))?;
    for owned in rights {
        if let Some(owner) = OwnerKey::of(&owned.metadata) {
            out.entry(owner).or_default().rights.push(owned);
        }
    }
    for owner in traces::deployments(&ctx.client).await.map_err(Error::kube("list Deployments"))? {
        out.entry(owner).or_default();
    }
    Ok(out)
}

fn moved(metadata: &Value) -> Option<Vec<Value>> {
    adopted(metadata["managedFields"].as_array()?, names::FIELD_MANAGER)
}

/// Adopts one version. New rights first: between two requests the operator has both.
async fn version(csv: &ClusterServiceVersion, legacy: LegacyObjects, ctx: &Ctx) -> Result<(), Error> {
    let namespace = csv.namespace().unwrap_or_default();
    let name = csv.name_any();
    let groups = Api::<OperatorGroup>::namespaced(ctx.client.clone(), &namespace);
    let groups = groups.list(&ListParams::default()).await.map_err(Error::kube("list OperatorGroups"))?;
    let subscriptions = Api::<Subscription>::namespaced(ctx.client.clone(), &namespace);
    let subscriptions = subscriptions.list(&ListParams::default()).await;
    let subscriptions = subscriptions.map_err(Error::kube("list Subscriptions"))?;
    let package = olm_engine::package_of(csv);
    let config = subscriptions.iter().find(|s| Some(&s.spec.name) == package.as_ref());
    let objects = match objects(csv, &groups.items, config.and_then(|s| s.spec.config.as_ref())) {
        Ok(objects) => objects,
        // Its controller reports that on the version; OLM's roles stay, since the version has no others.
        Err(error) => {
            tracing::warn!(csv = name, namespace, %error, "not adopted: failed to render the bundle");
            return Ok(());
        }
    };
    let owner = Owner::of(csv, package.as_deref());
    let mut kept: BTreeSet<(String, Option<String>, String)> = BTreeSet::new();
    for (phase, mut object) in objects.clone() {
        if phase == Phase::Rbac {
            own(&mut object, &owner);
            ctx.resources.apply(&object).await?;
            if let Some(reference) = ObjectRef::of(&object) {
                kept.insert((reference.kind, reference.namespace, reference.name));
            }
        }
    }
    let mut removed = Vec::new();
    for owned in legacy.rights {
        let id = owned.metadata.name.clone().unwrap_or_default();
        if kept.contains(&(owned.resource.kind.clone(), owned.metadata.namespace.clone(), id.clone())) {
            continue;
        }
        match owned.api(&ctx.client).delete(&id, &DeleteParams::default()).await {
            Ok(_) => removed.push(owned.to_string()),
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(error) => return Err(Error::kube(format!("delete {owned} of OLM"))(error)),
        }
    }
    let mut ids: Vec<Id> = Vec::new();
    for (phase, object) in &objects {
        // Rights were just applied whole; missing objects have no fields.
        if *phase != Phase::Rbac {
            ids.push(Id::of(object)?);
        }
    }
    let crds = csv.spec.owned_crds().iter();
    ids.extend(
        crds.map(|crd| Id::new("apiextensions.k8s.io/v1", "CustomResourceDefinition", None, &crd.name)),
    );
    for id in ids {
        move_fields(&id, &name, package.as_deref(), &namespace, ctx).await?;
    }
    let note = format!(
        "adopted from OLM; its pods keep running. Replaced {} roles and bindings of OLM",
        removed.len()
    );
    tracing::info!(csv = name, namespace, ?removed, "{note}");
    ctx.event(csv, false, "Adopted", &note).await;
    Ok(())
}

/// The objects of the version as we would install them.
fn objects(
    csv: &ClusterServiceVersion,
    groups: &[OperatorGroup],
    config: Option<&Value>,
) -> Result<Vec<(Phase, Value)>, RenderError> {
    let namespace = csv.namespace().unwrap_or_default();
    let bundle = bundle_of(csv);
    let targets = targets::targets(&namespace, &bundle, groups);
    let rendered = targets.render(&namespace, &bundle, config)?;
    Ok(rendered.objects().map(|(phase, object)| (phase, object.clone())).collect())
}

/// Moves OLM's fields of an object of the version to us.
async fn move_fields(
    id: &Id,
    csv: &str,
    package: Option<&str>,
    namespace: &str,
    ctx: &Ctx,
) -> Result<(), Error> {
    let Some(live) = ctx.resources.get(id).await? else { return Ok(()) };
    let labels = &live["metadata"]["labels"];
    let component = package.map(|package| names::component_label(package, namespace));
    let ours = labels[names::LABEL_OWNER] == csv && labels[names::LABEL_OWNER_NAMESPACE] == namespace
        || component.is_some_and(|label| labels.get(label).is_some());
    let Some(entries) = moved(&live["metadata"]).filter(|_| ours) else { return Ok(()) };
    let patch = json!({ "metadata": {
        "managedFields": entries,
        // Conditional on the entries that were read.
        "resourceVersion": live["metadata"]["resourceVersion"],
    } });
    let (resource, namespaced) = ctx.resources.lookup(&id.gvk).await?;
    let api: Api<DynamicObject> = match (&id.namespace, namespaced) {
        (Some(namespace), true) => Api::namespaced_with(ctx.client.clone(), namespace, &resource),
        _ => Api::all_with(ctx.client.clone(), &resource),
    };
    match api.patch_metadata(&id.name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(Error::kube(format!("take ownership of the fields of {id}"))(error)),
    }
}

//! Moves the rights of an installed version when its OperatorGroup watches other namespaces.
//!
//! An InstallPlan makes them for the namespaces at that time. A manually applied version has manually granted
//! rights, and keeps those.

use std::collections::BTreeSet;

use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject},
    core::GroupVersionKind,
};
use olm_api::{ClusterServiceVersion, OperatorGroup, names};
use olm_bundle::Phase;
use olm_engine::{
    bundle_of,
    ownership::{Owner, own},
    targets::Targets,
};
use serde_json::Value;

use super::{authority, facts::name_of};
use crate::context::{Ctx, Error};

/// Applies the rights of a version for its targets, with no more rights than the group grants. The annotation
/// of the version records the last targets; it is written after this, so that an interrupted change is
/// repeated.
pub(super) async fn follow(
    csv: &ClusterServiceVersion,
    package: Option<&str>,
    targets: &Targets,
    group: Option<&OperatorGroup>,
    ctx: &Ctx,
) -> Result<(), Error> {
    let Some((old, new)) = moved(csv, targets) else { return Ok(()) };
    authority::of_targets(csv, group, &new, ctx).await?;
    let resources = ctx.resources_for(group).await?;
    let owner = Owner::of(csv, package);
    for object in &new {
        let mut object = object.clone();
        own(&mut object, &owner);
        match resources.apply(&object).await {
            // A target need not exist yet.
            Err(error) if error.is_not_found() => {}
            result => drop(result?),
        }
    }
    let kept: BTreeSet<Key<'_>> = new.iter().map(key).collect();
    // The binding is deleted before the role that it binds.
    for stale in old.iter().rev().filter(|object| !kept.contains(&key(object))) {
        delete(stale, resources.client()).await?;
    }
    Ok(())
}

type Key<'a> = (Option<&'a str>, Option<&'a str>, Option<&'a str>);

fn key(object: &Value) -> Key<'_> {
    (object["kind"].as_str(), object["metadata"]["namespace"].as_str(), name_of(object))
}

/// Roles and bindings for the previous and for the current targets; `None` when nothing changes. Pure.
fn moved(csv: &ClusterServiceVersion, targets: &Targets) -> Option<(Vec<Value>, Vec<Value>)> {
    let planned = csv.labels().get(names::LABEL_MANAGED).is_some_and(|managed| managed == "true");
    let before = csv.annotations().get(names::ANNOTATION_TARGET_NAMESPACES)?;
    if !planned || *before == targets.namespaces.join(",") {
        return None;
    }
    let before =
        Targets { group: targets.group.clone(), namespaces: before.split(',').map(str::to_owned).collect() };
    let rights = |targets: &Targets| -> Option<Vec<Value>> {
        let rendered = targets.render(&csv.namespace().unwrap_or_default(), &bundle_of(csv), None).ok()?;
        let roles = rendered.objects().filter(|(phase, object)| {
            *phase == Phase::Rbac && object["kind"].as_str().is_some_and(|kind| kind != "ServiceAccount")
        });
        Some(roles.map(|(_, object)| object.clone()).collect())
    };
    // Unsupported targets had no rights made for them.
    Some((rights(&before).unwrap_or_default(), rights(targets)?))
}

async fn delete(object: &Value, client: &Client) -> Result<(), Error> {
    let (Some(kind), namespace, Some(name)) = key(object) else { return Ok(()) };
    let gvk = GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", kind);
    let resource = ApiResource::from_gvk(&gvk);
    let api = match namespace {
        Some(namespace) => Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    match api.delete(name, &DeleteParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(Error::kube(format!("delete {kind} {name}"))(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn csv(managed: bool, targets: &str) -> ClusterServiceVersion {
        let mode = |mode: &str| json!({ "type": mode, "supported": true });
        let mut csv: ClusterServiceVersion = serde_json::from_value(json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": { "name": "a.v1", "namespace": "db" },
            "spec": {
                "installModes": [mode("OwnNamespace"), mode("MultiNamespace"), mode("AllNamespaces")],
                "install": { "strategy": "deployment", "spec": {
                    "deployments": [],
                    "permissions": [{ "serviceAccountName": "a", "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }] }]
                } }
            }
        }))
        .unwrap();
        csv.metadata.annotations =
            Some(BTreeMap::from([(names::ANNOTATION_TARGET_NAMESPACES.to_owned(), targets.to_owned())]));
        if managed {
            csv.metadata.labels =
                Some(BTreeMap::from([(names::LABEL_MANAGED.to_owned(), "true".to_owned())]));
        }
        csv
    }

    fn targets(namespaces: &[&str]) -> Targets {
        Targets { group: "og".into(), namespaces: namespaces.iter().map(|n| (*n).to_owned()).collect() }
    }

    fn kinds(objects: &[Value]) -> Vec<String> {
        let text = |o: &Value| {
            format!("{} {}", o["kind"].as_str().unwrap(), o["metadata"]["namespace"].as_str().unwrap_or("-"))
        };
        objects.iter().map(text).collect()
    }

    #[test]
    fn rights_of_the_cluster_become_those_of_the_namespaces() {
        let (old, new) = moved(&csv(true, ""), &targets(&["db", "web"])).unwrap();
        assert_eq!(kinds(&old), ["ClusterRole -", "ClusterRoleBinding -"]);
        assert_eq!(kinds(&new), ["Role db", "Role web", "RoleBinding db", "RoleBinding web"]);
    }

    #[test]
    fn what_is_as_it_was_or_was_applied_by_hand_is_left_alone() {
        assert!(moved(&csv(true, "db"), &targets(&["db"])).is_none());
        assert!(moved(&csv(false, "db"), &targets(&[""])).is_none());
    }
}

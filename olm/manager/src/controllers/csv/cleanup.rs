//! What goes with a ClusterServiceVersion and is out of reach of garbage collection.

use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
    runtime::controller::Action,
};
use olm_api::{ClusterServiceVersion, names::FINALIZER_CSV_CLEANUP};
use serde_json::json;

use crate::{
    context::{Ctx, Error},
    ownership::selector,
};

/// Kinds that are looked through for the owner's labels, in the order in which they are deleted: first the binding,
/// then the role that it binds.
const KINDS: &[(&str, &str, &str, &str)] = &[
    ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings"),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles"),
    ("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses"),
];

pub(super) async fn on_deletion(csv: &ClusterServiceVersion, ctx: &Ctx) -> Result<Action, Error> {
    if !csv.finalizers().iter().any(|f| f == FINALIZER_CSV_CLEANUP) {
        return Ok(Action::await_change());
    }
    let name = csv.name_any();
    let namespace = csv.namespace().unwrap_or_default();
    let labelled = ListParams::default().labels(&selector(&name, &namespace));
    for (group, version, kind, plural) in KINDS {
        let resource =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
        let all = Api::<DynamicObject>::all_with(ctx.client.clone(), &resource);
        let found = all.list(&labelled).await.map_err(Error::kube(format!("list {plural} of {name}")))?;
        for object in found {
            let id = object.name_any();
            let api = match object.namespace() {
                // Its own namespace is left to garbage collection: the next version may have taken it over.
                Some(own) if own == namespace => continue,
                Some(other) => Api::namespaced_with(ctx.client.clone(), &other, &resource),
                None => all.clone(),
            };
            match api.delete(&id, &DeleteParams::default()).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                Err(error) => return Err(Error::kube(format!("delete {kind} {id}"))(error)),
            }
        }
    }
    let finalizers: Vec<&String> = csv.finalizers().iter().filter(|f| *f != FINALIZER_CSV_CLEANUP).collect();
    let patch =
        json!({ "metadata": { "finalizers": finalizers, "resourceVersion": csv.resource_version() } });
    let api = Api::<ClusterServiceVersion>::namespaced(ctx.client.clone(), &namespace);
    match api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(_) => Ok(Action::await_change()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Action::await_change()),
        Err(error) => {
            Err(Error::kube(format!("remove the finalizer of ClusterServiceVersion {name}"))(error))
        }
    }
}

//! The objects that are deleted with an object: those that it owns, and those that they own.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, ListParams, PartialObjectMeta},
};
use serde::Serialize;

use crate::{dynamic::CustomKind, error::WebError, links::clean};

/// The kinds of objects that operators create: group, version, kind, plural.
const KINDS: [(&str, &str, &str, &str); 17] = [
    ("", "v1", "Pod", "pods"),
    ("", "v1", "Service", "services"),
    ("", "v1", "ConfigMap", "configmaps"),
    ("", "v1", "Secret", "secrets"),
    ("", "v1", "ServiceAccount", "serviceaccounts"),
    ("", "v1", CLAIM, "persistentvolumeclaims"),
    ("apps", "v1", "StatefulSet", "statefulsets"),
    ("apps", "v1", "Deployment", "deployments"),
    ("apps", "v1", "ReplicaSet", "replicasets"),
    ("apps", "v1", "DaemonSet", "daemonsets"),
    ("batch", "v1", "Job", "jobs"),
    ("batch", "v1", "CronJob", "cronjobs"),
    ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    ("networking.k8s.io", "v1", "Ingress", "ingresses"),
    ("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies"),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings"),
];
const CLAIM: &str = "PersistentVolumeClaim";
/// Kinds whose deletion ends programs or deletes data.
const HOLD_DATA: [&str; 9] =
    [CLAIM, "Pod", "StatefulSet", "Deployment", "ReplicaSet", "DaemonSet", "Job", "CronJob", "Secret"];

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Dependent {
    pub(super) kind: String,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Dependents {
    /// Deleted with the object.
    pub(super) deleted: Vec<Dependent>,
    /// Claims that the deleted pods use and that stay.
    pub(super) retained_claims: Vec<Dependent>,
    /// Plural names of kinds that the user may not list.
    pub(super) not_listed: Vec<String>,
}

impl Dependents {
    /// Reads the objects of the usual kinds, and of the other kinds of the operator.
    pub(super) async fn read(
        client: &Client,
        uid: &str,
        namespace: Option<&str>,
        others: &[CustomKind],
    ) -> Result<Self, WebError> {
        let usual = KINDS.iter().map(|(group, version, kind, plural)| ApiResource {
            group: (*group).to_owned(),
            version: (*version).to_owned(),
            api_version: if group.is_empty() { (*version).to_owned() } else { format!("{group}/{version}") },
            kind: (*kind).to_owned(),
            plural: (*plural).to_owned(),
        });
        let others = others.iter().filter(|kind| kind.namespaced || namespace.is_none());
        let resources: Vec<ApiResource> = usual.chain(others.map(|kind| kind.resource.clone())).collect();
        let lists = join_all(resources.iter().map(|resource| async move {
            let api: Api<DynamicObject> = match namespace {
                Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
                None => Api::all_with(client.clone(), resource),
            };
            (resource, api.list_metadata(&ListParams::default()).await)
        }))
        .await;
        let mut out = Self::default();
        let mut objects = Vec::new();
        for (resource, list) in lists {
            match list {
                Ok(list) => objects.extend(list.items.iter().map(|o| Node::new(&resource.kind, o))),
                Err(kube::Error::Api(status)) if status.code == 403 => {
                    out.not_listed.push(resource.plural.clone());
                }
                // A kind that this cluster does not serve has no objects.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error.into()),
            }
        }
        let deleted = deleted_with(uid, &objects);
        out.deleted = deleted.iter().map(|node| node.object.clone()).collect();
        if deleted.iter().any(|node| node.object.kind == "Pod") {
            let claims = claims_of(client, namespace, &deleted).await?;
            let goes = |claim: &Dependent| out.deleted.contains(claim);
            out.retained_claims = claims.into_iter().filter(|claim| !goes(claim)).collect();
        }
        out.deleted.sort();
        Ok(out)
    }

    /// Whether the deletion may lose data.
    pub(super) fn may_lose_data(&self) -> bool {
        !self.not_listed.is_empty()
            || self.deleted.iter().any(|object| HOLD_DATA.contains(&object.kind.as_str()))
    }
}

/// An object and its owners.
struct Node {
    object: Dependent,
    uid: String,
    owners: Vec<String>,
}

impl Node {
    fn new(kind: &str, object: &PartialObjectMeta<DynamicObject>) -> Self {
        Self {
            object: Dependent { kind: clean(kind), namespace: object.namespace(), name: object.name_any() },
            uid: object.uid().unwrap_or_default(),
            owners: object.owner_references().iter().map(|owner| owner.uid.clone()).collect(),
        }
    }
}

/// The objects whose owners are all deleted. One with another owner stays.
fn deleted_with<'a>(uid: &str, objects: &'a [Node]) -> Vec<&'a Node> {
    let mut gone: BTreeSet<&str> = BTreeSet::from([uid]);
    let mut out: BTreeMap<usize, &Node> = BTreeMap::new();
    loop {
        let before = out.len();
        for (i, node) in objects.iter().enumerate() {
            let owned =
                !node.owners.is_empty() && node.owners.iter().all(|owner| gone.contains(owner.as_str()));
            if owned && !out.contains_key(&i) {
                gone.insert(&node.uid);
                out.insert(i, node);
            }
        }
        if out.len() == before {
            return out.into_values().collect();
        }
    }
}

/// The claims that the pods among these objects use.
async fn claims_of(
    client: &Client,
    namespace: Option<&str>,
    objects: &[&Node],
) -> Result<BTreeSet<Dependent>, WebError> {
    let api: Api<Pod> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let pods = api.list(&ListParams::default()).await?;
    let deleted = |pod: &&Pod| {
        let uid = pod.uid().unwrap_or_default();
        objects.iter().any(|node| node.object.kind == "Pod" && node.uid == uid)
    };
    let mut out = BTreeSet::new();
    for pod in pods.items.iter().filter(deleted) {
        let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        for claim in volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref()) {
            out.insert(Dependent {
                kind: CLAIM.to_owned(),
                namespace: pod.namespace(),
                name: claim.claim_name.clone(),
            });
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependents_of_dependents_are_deleted_and_shared_ones_are_retained() {
        let node = |name: &str, owners: &[&str]| Node {
            object: Dependent { kind: "Pod".into(), namespace: None, name: name.into() },
            uid: name.into(),
            owners: owners.iter().map(|owner| (*owner).to_owned()).collect(),
        };
        let objects = [
            node("pod", &["set"]),
            node("set", &["root"]),
            node("shared", &["root", "another"]),
            node("other", &["another"]),
            node("free", &[]),
        ];
        let names: Vec<&str> =
            deleted_with("root", &objects).iter().map(|node| node.object.name.as_str()).collect();
        assert_eq!(names, ["pod", "set"]);
    }
}

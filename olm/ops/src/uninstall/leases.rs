//! Leases that processes of an operator created for leader election. No manifest has them, garbage collection
//! does not reach them, and they outlive the operator.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
    coordination::v1::Lease,
    core::v1::Pod,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, PostParams, Preconditions},
};
use olm_plan::{ObjectRef, OperatorLease};

use crate::{error::Error, list::Installed};

/// Why a Lease that the operator held at the time of the plan is retained.
const TAKEN_OVER: &str = "another process took it over";

/// The Leases that pods of the Deployments hold, in the operator's namespace and in the only one that it
/// watches. `deployments` maps them to the ServiceAccounts of their pods. Empty without the right to list
/// Leases.
pub(super) async fn read(
    client: &Client,
    installed: &Installed,
    deployments: &BTreeMap<String, String>,
) -> Result<Vec<OperatorLease>, Error> {
    let mut out = Vec::new();
    if deployments.is_empty() {
        return Ok(out);
    }
    let mut namespaces = BTreeSet::from([installed.namespace.as_str()]);
    if let [one] = installed.watches.as_slice()
        && !one.is_empty()
    {
        namespaces.insert(one);
    }
    for namespace in namespaces {
        let leases = Api::<Lease>::namespaced(client.clone(), namespace);
        let list = match leases.list(&ListParams::default()).await {
            Ok(list) => list.items,
            Err(kube::Error::Api(status)) if status.is_forbidden() => continue,
            Err(error) => return Err(Error::kube(format!("list Leases in namespace {namespace}"))(error)),
        };
        for lease in list.iter().filter_map(|lease| held_by(lease, deployments)) {
            // The author of an OperatorGroup chooses its targets, and that of a version the names of its
            // Deployments: neither makes a Lease of another namespace the operator's.
            let account = deployments.get(&lease.deployment).map_or("default", String::as_str);
            if namespace == installed.namespace
                || may_update(client, &installed.namespace, account, &lease.reference).await
            {
                out.push(lease);
            }
        }
    }
    Ok(out)
}

/// Whether a ServiceAccount may update a Lease; false without the right to review it.
async fn may_update(client: &Client, namespace: &str, account: &str, lease: &ObjectRef) -> bool {
    let groups = ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
    let spec = SubjectAccessReviewSpec {
        user: Some(format!("system:serviceaccount:{namespace}:{account}")),
        groups: Some(groups.into_iter().chain(["system:authenticated".to_owned()]).collect()),
        resource_attributes: Some(ResourceAttributes {
            verb: Some("update".to_owned()),
            group: Some("coordination.k8s.io".to_owned()),
            resource: Some("leases".to_owned()),
            name: Some(lease.name.clone()),
            namespace: lease.namespace.clone(),
            ..ResourceAttributes::default()
        }),
        ..SubjectAccessReviewSpec::default()
    };
    let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
    let reviews = Api::<SubjectAccessReview>::all(client.clone());
    match reviews.create(&PostParams::default(), &review).await {
        Ok(review) => review.status.is_some_and(|status| status.allowed),
        Err(error) => {
            tracing::debug!(%lease, account, %error, "failed to review the access to it");
            false
        }
    }
}

/// Whether pods of a Deployment exist in any of these namespaces.
pub(super) async fn has_pods(
    client: &Client,
    namespaces: &BTreeSet<&str>,
    deployment: &str,
) -> Result<bool, kube::Error> {
    for namespace in namespaces {
        let pods = Api::<Pod>::namespaced(client.clone(), namespace);
        let pods = pods.list_metadata(&ListParams::default()).await?;
        if pods.items.iter().any(|pod| is_pod_of(&pod.name_any(), deployment)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Deletes a Lease, unless another process took it over since the plan; returns why it stays, if it does.
pub(super) async fn delete(
    client: &Client,
    lease: &ObjectRef,
    deployment: &str,
) -> Result<Option<&'static str>, kube::Error> {
    let leases = Api::<Lease>::namespaced(client.clone(), lease.namespace.as_deref().unwrap_or_default());
    let Some(found) = leases.get_opt(&lease.name).await? else { return Ok(None) };
    // A process that shuts down releases the Lease.
    if holder(&found).is_some_and(|pod| !pod.is_empty() && !is_pod_of(pod, deployment)) {
        return Ok(Some(TAKEN_OVER));
    }
    let preconditions = Preconditions { uid: found.uid(), resource_version: found.resource_version() };
    match leases.delete(&lease.name, &DeleteParams::default().preconditions(preconditions)).await {
        Ok(_) if found.finalizers().is_empty() => Ok(None),
        Ok(_) => Ok(Some("its finalizers block the deletion")),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
        Err(kube::Error::Api(status)) if status.is_conflict() => Ok(Some(TAKEN_OVER)),
        Err(error) => Err(error),
    }
}

/// The Lease, if a pod of one of the Deployments holds it.
fn held_by(lease: &Lease, deployments: &BTreeMap<String, String>) -> Option<OperatorLease> {
    let pod = holder(lease)?;
    let deployment = deployments.keys().find(|deployment| is_pod_of(pod, deployment))?.clone();
    let (namespace, name) = (lease.namespace()?, lease.name_any());
    let reference = ObjectRef::new("coordination.k8s.io/v1", "Lease", Some(&namespace), &name);
    Some(OperatorLease { reference, deployment })
}

/// The name of the pod that holds a Lease.
fn holder(lease: &Lease) -> Option<&str> {
    // Leader election of client-go, and of this project, appends `_` and a unique suffix to it.
    lease.spec.as_ref()?.holder_identity.as_deref()?.split('_').next()
}

/// Whether a name has the form of a Deployment's pods: `DEPLOYMENT-HASH-SUFFIX`.
fn is_pod_of(name: &str, deployment: &str) -> bool {
    let rest = name.strip_prefix(deployment).and_then(|rest| rest.strip_prefix('-'));
    let Some((hash, suffix)) = rest.and_then(|rest| rest.split_once('-')) else { return false };
    let generated = |text: &str| text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    (1..=10).contains(&hash.len()) && suffix.len() == 5 && generated(hash) && generated(suffix)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_lease_belongs_to_the_operator_whose_pod_holds_it() {
        let deployments =
            BTreeMap::from(["etcd-operator", "etcd"].map(|name| (name.to_owned(), "a".to_owned())));
        let held = |holder: Option<&str>| {
            let lease: Result<Lease, _> = serde_json::from_value(json!({
                "metadata": { "name": "leader", "namespace": "ns" }, "spec": { "holderIdentity": holder },
            }));
            held_by(&lease.unwrap(), &deployments).map(|lease| lease.deployment)
        };
        for (holder, deployment) in [
            ("etcd-operator-6d5f7c9b8d-x2x4z_0a1b2c3d", Some("etcd-operator")),
            ("etcd-operator-6d5f7c9b8d-x2x4z", Some("etcd-operator")),
            ("etcd-6d5f7c9b8d-x2x4z_6c1f8a52-1c1d-4c3c-8f6e-0d1e2f3a4b5c", Some("etcd")),
            // a pod of another Deployment, of a StatefulSet, a node, and a name alone
            ("etcd-backup-operator-6d5f7c9b8d-x2x4z", None),
            ("etcd-operator-0", None),
            ("node-1", None),
            ("etcd-operator", None),
            ("", None),
        ] {
            assert_eq!(held(Some(holder)).as_deref(), deployment, "{holder}");
        }
        assert_eq!(held(None), None, "a released one has no holder");
    }

    #[tokio::test]
    async fn a_lease_that_another_process_took_over_stays() {
        let reference = ObjectRef::new("coordination.k8s.io/v1", "Lease", Some("ns"), "leader");
        for (holder, finalizers, expected) in [
            (json!("a-6d5f7c9b8d-x2x4z_0a1b2c3d"), json!([]), None),
            // a process that shut down released it
            (json!(""), json!([]), None),
            (json!(null), json!([]), None),
            (json!("b-6d5f7c9b8d-x2x4z_0a1b2c3d"), json!([]), Some(TAKEN_OVER)),
            (
                json!("a-6d5f7c9b8d-x2x4z"),
                json!(["example.com/held"]),
                Some("its finalizers block the deletion"),
            ),
        ] {
            let lease = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": { "name": "leader", "namespace": "ns", "finalizers": finalizers },
                "spec": { "holderIdentity": holder } });
            let client = olm_testing::client(vec![("/namespaces/ns/leases/leader", lease)]);
            assert_eq!(delete(&client, &reference, "a").await.unwrap(), expected, "{holder}");
        }
        assert_eq!(delete(&olm_testing::client(vec![]), &reference, "a").await.unwrap(), None, "it is gone");
    }

    /// Otherwise a tenant whose OperatorGroup names any namespace could have its Leases deleted by an
    /// administrator.
    #[tokio::test]
    async fn a_lease_of_another_namespace_belongs_to_an_operator_that_may_update_it() {
        let reference = ObjectRef::new("coordination.k8s.io/v1", "Lease", Some("kube-system"), "leader");
        for allowed in [true, false] {
            let review = json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                "metadata": {}, "spec": {}, "status": { "allowed": allowed } });
            let client = olm_testing::client(vec![("/subjectaccessreviews", review)]);
            assert_eq!(may_update(&client, "ns", "default", &reference).await, allowed);
        }
        let client = olm_testing::client(vec![]);
        assert!(!may_update(&client, "ns", "default", &reference).await, "without the right to review it");
    }
}

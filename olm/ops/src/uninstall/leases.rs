//! Leases that processes of an operator created for leader election. No manifest has them, garbage collection
//! does not reach them, and they outlive the operator.

use std::collections::BTreeSet;

use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube::{Api, Client, ResourceExt, api::ListParams};
use olm_plan::{ObjectRef, OperatorLease};

use crate::{error::Error, list::Installed};

/// The Leases that pods of the Deployments hold, in the operator's namespace and in the only one that it
/// watches. Without the right to list Leases there are none.
pub(super) async fn read(
    client: &Client,
    installed: &Installed,
    deployments: &BTreeSet<String>,
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
        match Api::<Lease>::namespaced(client.clone(), namespace).list(&ListParams::default()).await {
            Ok(list) => out.extend(list.items.iter().filter_map(|lease| held_by(lease, deployments))),
            Err(kube::Error::Api(status)) if status.is_forbidden() => {}
            Err(error) => return Err(Error::kube(format!("list Leases in namespace {namespace}"))(error)),
        }
    }
    Ok(out)
}

/// Whether pods of a Deployment exist.
pub(super) async fn has_pods(
    client: &Client,
    namespace: &str,
    deployment: &str,
) -> Result<bool, kube::Error> {
    let pods =
        Api::<Pod>::namespaced(client.clone(), namespace).list_metadata(&ListParams::default()).await?;
    Ok(pods.items.iter().any(|pod| is_pod_of(&pod.name_any(), deployment)))
}

/// The Lease, if a pod of one of the Deployments holds it.
fn held_by(lease: &Lease, deployments: &BTreeSet<String>) -> Option<OperatorLease> {
    let holder = lease.spec.as_ref()?.holder_identity.as_deref()?;
    // Leader election of client-go, and of this project, appends `_` and a unique suffix to the pod's name.
    let pod = holder.split('_').next()?;
    let deployment = deployments.iter().find(|deployment| is_pod_of(pod, deployment))?.clone();
    let (namespace, name) = (lease.namespace()?, lease.name_any());
    let reference = ObjectRef::new("coordination.k8s.io/v1", "Lease", Some(&namespace), &name);
    Some(OperatorLease { reference, deployment })
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
        let deployments = BTreeSet::from(["etcd-operator".to_owned(), "etcd".to_owned()]);
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
}

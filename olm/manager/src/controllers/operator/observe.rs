//! Reads the components of an Operator: those of watched kinds from the cache, the others from the API server.

use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api, Resource, ResourceExt,
    api::{ApiResource, ListParams},
    core::{DynamicObject, GroupVersionKind},
};
use olm_api::{
    ClusterServiceVersion, Condition, InstallPlan, OperatorCondition, Subscription, operator::RichReference,
};

use super::name_for;
use crate::context::{Ctx, Error};

/// Kinds of components that are listed from the API server, and whether they are in the namespace of the
/// operator. The other kinds come from the cache. Secrets are not included: the manager reads none.
const KINDS: &[(&str, &str, &str, &str, bool)] = &[
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", false),
    ("apps", "v1", "Deployment", "deployments", true),
    ("", "v1", "Service", "services", true),
    ("", "v1", "ServiceAccount", "serviceaccounts", true),
    ("", "v1", "ConfigMap", "configmaps", true),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles", true),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", true),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", false),
    ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", false),
    ("apiregistration.k8s.io", "v1", "APIService", "apiservices", false),
];

/// The components of the kinds that the cache contains; the status is compared with them.
pub(super) fn stored(key: &str, operator: &str, namespace: &str, ctx: &Ctx) -> Vec<RichReference> {
    let mut refs = Vec::new();
    for csv in ctx.cache.csvs.in_namespace(namespace) {
        if csv.labels().contains_key(key) {
            let conditions = phase(&csv).into_iter().collect();
            refs.push(RichReference { conditions, ..reference::<ClusterServiceVersion>(&csv.metadata) });
        }
    }
    // Users make them, without the label.
    for subscription in ctx.cache.subscriptions.in_namespace(namespace) {
        if name_for(&subscription) == operator {
            refs.push(reference::<Subscription>(&subscription.metadata));
        }
    }
    let namespaces = ctx.cache.namespaces.keyed(key);
    refs.extend(namespaces.iter().map(|namespace| reference::<Namespace>(&namespace.metadata)));
    for plan in ctx.cache.plans.in_namespace(namespace) {
        if plan.labels().contains_key(key) && !in_progress(&plan) {
            refs.push(reference::<InstallPlan>(&plan.metadata));
        }
    }
    for condition in ctx.cache.conditions.in_namespace(namespace) {
        if condition.labels().contains_key(key) {
            refs.push(reference::<OperatorCondition>(&condition.metadata));
        }
    }
    refs
}

/// Whether a plan is in progress. A plan is listed once it is complete or failed.
fn in_progress(plan: &InstallPlan) -> bool {
    plan.spec.approved && !plan.is_over() && plan.metadata.deletion_timestamp.is_none()
}

fn reference<K: Resource<DynamicType = ()>>(metadata: &ObjectMeta) -> RichReference {
    RichReference {
        api_version: Some(K::api_version(&()).into_owned()),
        kind: Some(K::kind(&()).into_owned()),
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        ..RichReference::default()
    }
}

/// All objects of the other kinds with the label, by their metadata.
pub(super) async fn listed(key: &str, namespace: &str, ctx: &Ctx) -> Result<Vec<RichReference>, Error> {
    let params = ListParams::default().labels(key);
    let mut refs = Vec::new();
    for (group, version, kind, plural, namespaced) in KINDS.iter().copied() {
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
        let api = if namespaced {
            Api::<DynamicObject>::namespaced_with(ctx.client.clone(), namespace, &resource)
        } else {
            Api::all_with(ctx.client.clone(), &resource)
        };
        let list = match api.list_metadata(&params).await {
            Ok(list) => list,
            // A cluster without the kind, or an administrator revoked the right.
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_forbidden() => continue,
            Err(error) => return Err(Error::kube(format!("list {plural} of {key}"))(error)),
        };
        refs.extend(list.into_iter().map(|found| RichReference {
            api_version: Some(gvk.api_version()),
            kind: Some(kind.to_owned()),
            namespace: found.namespace(),
            name: found.metadata.name,
            ..RichReference::default()
        }));
    }
    Ok(refs)
}

/// The phase of a version as a condition, in upstream's form. Pure.
fn phase(csv: &ClusterServiceVersion) -> Option<Condition> {
    let status = csv.status.as_ref()?;
    let mut condition = Condition::new(
        status.phase.as_str(),
        true,
        status.reason.clone().unwrap_or_default(),
        status.message.clone().unwrap_or_default(),
    );
    condition.last_update_time.clone_from(&status.last_update_time);
    condition.last_transition_time.clone_from(&status.last_transition_time);
    Some(condition)
}

#[cfg(test)]
mod tests {
    use olm_api::{ClusterServiceVersionStatus, csv::CsvPhase};

    use super::*;

    #[test]
    fn a_version_is_shown_with_its_phase() {
        let mut csv = ClusterServiceVersion::default();
        assert!(phase(&csv).is_none());
        csv.status = Some(ClusterServiceVersionStatus {
            phase: CsvPhase::Succeeded,
            reason: Some("InstallSucceeded".into()),
            ..Default::default()
        });
        let condition = phase(&csv).unwrap();
        assert_eq!(
            (condition.type_.as_str(), condition.reason.as_deref()),
            ("Succeeded", Some("InstallSucceeded"))
        );
    }
}

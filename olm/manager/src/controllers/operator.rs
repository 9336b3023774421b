//! Operator: what belongs to one package in one namespace, summed up in one object for the whole cluster to see.
//!
//! The object `<package>.<namespace>` is made with a Subscription, and goes when nothing but CustomResourceDefinitions is
//! left of its components. It is written when a version has come to rest, not at each step of an installation.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::{
    Api, Resource, ResourceExt,
    api::{ApiResource, DeleteParams, ListParams, Patch, PatchParams},
    core::{DynamicObject, GroupVersionKind},
    runtime::{Controller, controller::Action, reflector::ObjectRef, watcher},
};
use olm_api::{
    ClusterServiceVersion, Condition, Operator, OperatorStatus, Subscription,
    csv::CsvPhase,
    names,
    operator::{Components, RichReference},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    context::{Ctx, Error, SAFETY_NET, drive},
    resources::Id,
};

/// Kinds of components, and whether they are in the namespace of the operator. Secrets are not among them: the manager reads none.
const KINDS: &[(&str, &str, &str, &str, bool)] = &[
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", false),
    ("operators.coreos.com", "v1alpha1", "InstallPlan", "installplans", true),
    ("operators.coreos.com", "v1alpha1", "ClusterServiceVersion", "clusterserviceversions", true),
    ("operators.coreos.com", "v2", "OperatorCondition", "operatorconditions", true),
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

pub(crate) async fn run(ctx: Arc<Ctx>, shutdown: CancellationToken) {
    let client = ctx.client.clone();
    let any = watcher::Config::default;
    let originals = any().labels(&format!("!{}", names::LABEL_COPIED_FROM));
    let operators = Controller::new(Api::<Operator>::all(client.clone()), any())
        .watches(Api::<Subscription>::all(client.clone()), any(), |subscription| {
            Some(ObjectRef::new(&name_for(&subscription)))
        })
        .watches(Api::<ClusterServiceVersion>::all(client.clone()), originals, |csv| {
            let keys = csv.labels().keys().filter_map(|key| key.strip_prefix(names::LABEL_COMPONENT_PREFIX));
            let rests = csv.metadata.deletion_timestamp.is_some() || at_rest(&csv);
            keys.filter(|_| rests).map(ObjectRef::new).collect::<Vec<_>>()
        });
    // The object is made with the Subscription that wants the operator.
    let makers = Controller::new(Api::<Subscription>::all(client), any());
    tokio::join!(
        drive("operator", operators, Arc::clone(&ctx), shutdown.clone(), reconcile),
        drive("operator_of_subscription", makers, ctx, shutdown, make),
    );
}

/// Names are those of the component label, so that either leads to the other.
fn name_for(subscription: &Subscription) -> String {
    let label =
        names::component_label(&subscription.spec.name, &subscription.namespace().unwrap_or_default());
    label.trim_start_matches(names::LABEL_COMPONENT_PREFIX).to_owned()
}

/// Whether a version has come to a phase in which it may stay.
fn at_rest(csv: &ClusterServiceVersion) -> bool {
    csv.status.as_ref().is_some_and(|s| matches!(s.phase, CsvPhase::Succeeded | CsvPhase::Failed))
}

async fn make(subscription: Arc<Subscription>, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let installed = subscription.status.as_ref().is_some_and(|s| s.installed_csv.is_some());
    // Before there is anything to sum up, there is no summary.
    if subscription.metadata.deletion_timestamp.is_some() || !installed {
        return Ok(Action::await_change());
    }
    let name = name_for(&subscription);
    let api = Api::<Operator>::all(ctx.client.clone());
    let found = api.get_metadata_opt(&name).await.map_err(Error::kube(format!("get Operator {name}")))?;
    if found.is_none() {
        let operator = json!({
            "apiVersion": "operators.coreos.com/v1", "kind": "Operator", "metadata": { "name": name }, "spec": {}
        });
        ctx.resources.apply(&operator).await?;
    }
    Ok(Action::await_change())
}

async fn reconcile(operator: Arc<Operator>, ctx: Arc<Ctx>) -> Result<Action, Error> {
    if operator.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let name = operator.name_any();
    // Names of packages have dots, names of namespaces have none.
    let Some((package, namespace)) = name.rsplit_once('.') else { return Ok(Action::await_change()) };
    let key = names::component_label(package, namespace);
    let mut refs = components(&key, namespace, &ctx).await?;
    refs.extend(subscriptions(&name, namespace, &ctx).await?);
    let api = Api::<Operator>::all(ctx.client.clone());
    if refs.iter().all(|component| component.kind.as_deref() == Some("CustomResourceDefinition")) {
        return match api.delete(&name, &DeleteParams::default()).await {
            Ok(_) => Ok(Action::await_change()),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Action::await_change()),
            Err(error) => Err(Error::kube(format!("delete Operator {name}"))(error)),
        };
    }
    // Written when a version has come to rest; then it is heard of again.
    let moving = |component: &RichReference| {
        let conditions = &component.conditions;
        let csv = component.kind.as_deref() == Some("ClusterServiceVersion");
        csv && !conditions.iter().any(|c| c.type_ == "Succeeded" || c.type_ == "Failed")
    };
    if refs.iter().any(moving) {
        return Ok(Action::await_change());
    }
    let new = status(&key, refs);
    if operator.status.as_ref() != Some(&new) {
        let patch = json!({ "status": new });
        let written = api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        written.map_err(Error::kube(format!("write the status of Operator {name}")))?;
    }
    Ok(Action::requeue(SAFETY_NET))
}

/// Everything that carries the label: metadata alone, but for the one object whose phase users look for.
async fn components(key: &str, namespace: &str, ctx: &Ctx) -> Result<Vec<RichReference>, Error> {
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
            // A cluster without the kind, or an administrator who took the right away.
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_forbidden() => continue,
            Err(error) => return Err(Error::kube(format!("list {plural} of {key}"))(error)),
        };
        for found in list {
            let mut reference = RichReference {
                api_version: Some(gvk.api_version()),
                kind: Some(kind.to_owned()),
                namespace: found.namespace(),
                name: found.metadata.name.clone(),
                ..RichReference::default()
            };
            if kind == "ClusterServiceVersion" {
                let id = Id::new(&gvk.api_version(), kind, Some(namespace), &found.name_any());
                let csv = ctx.resources.get(&id).await?.and_then(|csv| serde_json::from_value(csv).ok());
                reference.conditions.extend(csv.as_ref().and_then(phase));
            }
            refs.push(reference);
        }
    }
    Ok(refs)
}

/// The Subscriptions of the package: users make them, without the label.
async fn subscriptions(operator: &str, namespace: &str, ctx: &Ctx) -> Result<Vec<RichReference>, Error> {
    let api = Api::<Subscription>::namespaced(ctx.client.clone(), namespace);
    let all = api.list(&ListParams::default()).await;
    let all = all.map_err(Error::kube(format!("list Subscriptions in {namespace}")))?;
    let ours = all.items.into_iter().filter(|subscription| name_for(subscription) == operator);
    let reference = |subscription: Subscription| RichReference {
        api_version: Some(Subscription::api_version(&()).into_owned()),
        kind: Some(Subscription::kind(&()).into_owned()),
        namespace: subscription.namespace(),
        name: subscription.metadata.name,
        ..RichReference::default()
    };
    Ok(ours.map(reference).collect())
}

/// Pure. The phase of a version as a condition: upstream's form of it.
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

/// Pure. In a fixed order, so that the same components are the same status.
fn status(key: &str, refs: Vec<RichReference>) -> OperatorStatus {
    let sorted: BTreeMap<_, _> =
        refs.into_iter().map(|r| ((r.kind.clone(), r.namespace.clone(), r.name.clone()), r)).collect();
    let exists = LabelSelectorRequirement {
        key: key.to_owned(),
        operator: "Exists".into(),
        ..LabelSelectorRequirement::default()
    };
    let label_selector = LabelSelector { match_expressions: Some(vec![exists]), ..LabelSelector::default() };
    OperatorStatus { components: Some(Components { label_selector, refs: sorted.into_values().collect() }) }
}

#[cfg(test)]
mod tests {
    use olm_api::ClusterServiceVersionStatus;

    use super::*;

    #[test]
    fn the_name_is_that_of_the_label() {
        let mut subscription = Subscription::default();
        subscription.spec.name = "etcd".into();
        subscription.metadata.namespace = Some("db".into());
        assert_eq!(name_for(&subscription), "etcd.db");
        assert_eq!(names::component_label("etcd", "db"), "operators.coreos.com/etcd.db");
    }

    #[test]
    fn the_status_has_upstreams_form_and_a_fixed_order() {
        let reference = |kind: &str, name: &str| RichReference {
            kind: Some(kind.into()),
            name: Some(name.into()),
            ..Default::default()
        };
        let refs = vec![reference("Subscription", "s"), reference("ClusterRole", "r")];
        let once = status("operators.coreos.com/etcd.db", refs.clone());
        assert_eq!(once, status("operators.coreos.com/etcd.db", refs.into_iter().rev().collect()));
        let value = serde_json::to_value(once).unwrap();
        assert_eq!(value["components"]["labelSelector"]["matchExpressions"][0]["operator"], "Exists");
        assert_eq!(value["components"]["refs"][0]["kind"], "ClusterRole");
    }

    #[test]
    fn a_version_is_shown_with_its_phase_once_it_rests() {
        let mut csv = ClusterServiceVersion::default();
        assert!(!at_rest(&csv) && phase(&csv).is_none());
        csv.status = Some(ClusterServiceVersionStatus {
            phase: CsvPhase::Succeeded,
            reason: Some("InstallSucceeded".into()),
            ..Default::default()
        });
        assert!(at_rest(&csv));
        let condition = phase(&csv).unwrap();
        assert_eq!(
            (condition.type_.as_str(), condition.reason.as_deref()),
            ("Succeeded", Some("InstallSucceeded"))
        );
    }
}

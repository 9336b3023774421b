//! Deployments.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::DeploymentSpec;
use serde_json::{Map, Value, json};

use super::maps::{map_at, merge};
use super::serving::{Endpoint, mount};
use super::{Target, config};
use crate::error::RenderError;

/// The Deployments of a bundle, with the parts that operators rely on: the annotations that name its group
/// and target namespaces, the variable that names its OperatorCondition, and certificates where the API
/// server calls it.
pub(crate) fn objects(target: &Target<'_>, endpoints: &[Endpoint]) -> Result<Vec<Value>, RenderError> {
    let mut seen = BTreeSet::new();
    let mut objects = Vec::new();
    for (index, deployment) in target.bundle.deployments().iter().enumerate() {
        let field = format!("spec.install.spec.deployments[{index}]");
        let invalid = |text: &str| RenderError::Invalid {
            bundle: target.bundle.name().to_owned(),
            field: field.clone(),
            text: text.to_owned(),
        };
        let name = deployment.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| invalid("it has no name"))?;
        if !seen.insert(name) {
            return Err(invalid("another deployment has the same name"));
        }
        let mut spec = deployment
            .get("spec")
            .filter(|spec| spec.is_object())
            .cloned()
            .ok_or_else(|| invalid("it has no spec"))?;
        let containers = spec.pointer("/template/spec/containers").and_then(Value::as_array);
        if containers
            .is_none_or(|containers| containers.is_empty() || !containers.iter().all(Value::is_object))
        {
            return Err(invalid("spec.template.spec.containers is not a list of containers"));
        }

        // The manager upgrades operators; old ReplicaSets are useless.
        map_at(&mut spec, &[]).insert("revisionHistoryLimit".into(), json!(1));
        merge(map_at(&mut spec, &["template", "metadata", "annotations"]), template_annotations(target));

        let mut labels = deployment.get("label").and_then(Value::as_object).cloned().unwrap_or_default();
        merge(&mut labels, target.owner_labels());
        let mut object = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": target.options.install_namespace, "labels": labels},
            "spec": spec,
        });
        if let Some(settings) = &target.options.subscription_config {
            config::apply(settings, &mut object).map_err(|problem| RenderError::Invalid {
                bundle: target.bundle.name().to_owned(),
                field: format!("Subscription spec.config.{}", problem.field),
                text: problem.text.to_owned(),
            })?;
        }
        // Last, so that no setting can redirect an operator to another's condition or certificate.
        config::set_env(
            &mut object,
            &[json!({"name": "OPERATOR_CONDITION_NAME", "value": target.bundle.name()})],
        );
        if let Some(endpoint) = endpoints.iter().find(|endpoint| endpoint.deployment == name) {
            mount(endpoint, &mut object);
        }
        object["spec"] = typed(object["spec"].take()).map_err(|error| invalid(&format!("spec: {error}")))?;
        objects.push(object);
    }
    Ok(objects)
}

/// Passes a spec through the Kubernetes type. Unknown fields would make a server-side apply fail; upstream's
/// types drop them, too.
fn typed(mut spec: Value) -> Result<Value, serde_json::Error> {
    for list in ["initContainers", "containers"] {
        let containers = spec.pointer_mut(&format!("/template/spec/{list}")).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            for part in ["limits", "requests"] {
                let quantities =
                    container.pointer_mut(&format!("/resources/{part}")).and_then(Value::as_object_mut);
                // `cpu: 1` is a number in YAML and a quantity in Kubernetes.
                for (_, quantity) in
                    quantities.into_iter().flatten().filter(|(_, quantity)| quantity.is_number())
                {
                    *quantity = quantity.to_string().into();
                }
            }
        }
    }
    serde_json::to_value(serde_json::from_value::<DeploymentSpec>(spec)?)
}

/// The annotations of the ClusterServiceVersion, overridden by the group's: operators read
/// `olm.targetNamespaces` through the downward API.
fn template_annotations(target: &Target<'_>) -> Map<String, Value> {
    let annotations = target.bundle.csv_raw.pointer("/metadata/annotations").and_then(Value::as_object);
    let mut annotations: Map<String, Value> = annotations
        .into_iter()
        .flatten()
        .filter(|(_, value)| value.is_string())
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    annotations.insert("olm.targetNamespaces".into(), target.namespaces.join(",").into());
    annotations.insert("olm.operatorNamespace".into(), target.options.install_namespace.as_str().into());
    if let Some(group) = &target.options.operator_group {
        annotations.insert("olm.operatorGroup".into(), group.as_str().into());
    }
    annotations
}

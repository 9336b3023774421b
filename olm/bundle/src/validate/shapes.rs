//! Shapes of manifests by kind, as the API server would check them.

use k8s_openapi::api::apps::v1::DeploymentSpec;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Findings;
use crate::model::{Bundle, kind};
use crate::provenance::Origin;

pub(super) fn check(bundle: &Bundle, findings: &mut Findings) {
    for (index, deployment) in bundle.deployments().iter().enumerate() {
        let spec = deployment.get("spec").unwrap_or(&Value::Null);
        let prefix = format!("spec.install.spec.deployments[{index}].spec");
        if let Err((field, why)) = shape::<DeploymentSpec>(spec) {
            let text = format!("it is not a valid DeploymentSpec: {why}");
            let field = if field.is_empty() { prefix } else { format!("{prefix}.{field}") };
            findings.of(Origin::Csv).error("deployment-shape", field, text, "correct the field");
        }
    }
    for (index, object) in bundle.objects.iter().enumerate() {
        if let Err((field, why)) = object_shape(object) {
            let text = format!("the API server refuses it: {why}");
            findings.of(Origin::Object(index)).error("object-shape", field, text, "correct the field");
        }
    }
}

/// The error and its field.
type ShapeError = (String, String);

fn object_shape(object: &Value) -> Result<(), ShapeError> {
    let api_version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    match (api_version, kind(object)) {
        ("v1", "ConfigMap") => shape::<ConfigMap>(object),
        ("v1", "Secret") => shape::<Secret>(object),
        ("v1", "Service") => shape::<Service>(object),
        ("v1", "ServiceAccount") => shape::<ServiceAccount>(object),
        ("rbac.authorization.k8s.io/v1", "Role") => shape::<Role>(object),
        ("rbac.authorization.k8s.io/v1", "ClusterRole") => shape::<ClusterRole>(object),
        ("rbac.authorization.k8s.io/v1", "RoleBinding") => shape::<RoleBinding>(object),
        ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding") => shape::<ClusterRoleBinding>(object),
        ("scheduling.k8s.io/v1", "PriorityClass") => shape::<PriorityClass>(object),
        ("policy/v1", "PodDisruptionBudget") => shape::<PodDisruptionBudget>(object),
        ("networking.k8s.io/v1", "NetworkPolicy") => shape::<NetworkPolicy>(object),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition") => shape::<CustomResourceDefinition>(object),
        _ => match object.get("metadata") {
            Some(metadata) => shape::<ObjectMeta>(metadata).map_err(|(field, why)| {
                (if field.is_empty() { "metadata".to_owned() } else { format!("metadata.{field}") }, why)
            }),
            None => Ok(()),
        },
    }
}

fn shape<T: DeserializeOwned>(value: &Value) -> Result<(), ShapeError> {
    match serde_path_to_error::deserialize::<_, T>(value) {
        Ok(_) => Ok(()),
        Err(error) => {
            let path = error.path().to_string();
            Err((if path == "." { String::new() } else { path }, error.inner().to_string()))
        }
    }
}

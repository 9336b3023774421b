//! Everything that puts `olm` on a cluster, as plain objects in apply order.
//!
//! There is one way to install `olm`: the dev cluster, `olm self install` and a real cluster get the very same
//! objects. They are built here and nowhere else.

mod rbac;
mod workloads;

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    runtime::wait::{await_condition, conditions},
};
use serde_json::{Value, json};

use crate::resources::{ResourceError, Resources};

/// The namespace of the product. Catalogs in it are visible from every namespace.
pub const NAMESPACE: &str = "olm";
/// Name of the manager's Deployment, Service and ServiceAccount.
pub const MANAGER: &str = "olm-manager";
/// Name of the console's Deployment, Service and ServiceAccount.
pub const CONSOLE: &str = "olm-console";
/// The CatalogSource that serves the catalog embedded in the manager's binary.
pub const SHIPPED_CATALOG: &str = "community";
/// The image reference that stands for the embedded catalog.
pub const SHIPPED_CATALOG_IMAGE: &str = olm_catalog::SHIPPED_IMAGE;
/// The ClusterRole by which the manager may read pull secrets; it is bound in its own namespace, and by an administrator
/// wherever else catalogs with pull secrets are.
pub const PULL_SECRETS_ROLE: &str = "olm-pull-secrets";
/// The ConfigMap with the site's settings of registries, in the manager's namespace; there need not be one.
pub const REGISTRIES: &str = "olm-registries";
/// Port on which the manager and the console speak HTTP.
pub const HTTP_PORT: u16 = 8080;

/// What may differ between two installations of `olm`.
#[derive(Debug, Clone)]
pub struct ManifestOptions {
    /// Image of the manager; its entry point is the `olm` binary.
    pub image: String,
    /// Image of the console; `None` leaves the console out.
    pub console_image: Option<String>,
    /// `imagePullPolicy` of both.
    pub image_pull_policy: String,
    /// Whether the shipped catalog is subscribed to as CatalogSource `community`.
    pub shipped_catalog: bool,
    /// Further objects, applied last (CatalogSources of the site).
    pub extra_catalogs: Vec<Value>,
    /// Further environment of the manager and the console, for example log levels.
    pub env: Vec<(String, String)>,
}

impl Default for ManifestOptions {
    fn default() -> Self {
        Self {
            image: "localhost/olm/olm:0.1.0".into(),
            console_image: Some("localhost/olm/olm:0.1.0".into()),
            image_pull_policy: "IfNotPresent".into(),
            shipped_catalog: true,
            extra_catalogs: Vec::new(),
            env: Vec::new(),
        }
    }
}

/// The objects of an installation, in the order in which they must be applied.
///
/// CustomResourceDefinitions come early and must be established before the CatalogSource at the end is applied.
/// All objects carry `app.kubernetes.io/part-of: olm`.
#[must_use]
pub fn manifests(options: &ManifestOptions) -> Vec<Value> {
    let mut out = vec![namespace()];
    out.extend(olm_api::crds().into_iter().filter_map(|crd| serde_json::to_value(crd).ok()));
    out.extend(rbac::objects(options.console_image.is_some()));
    out.extend(workloads::manager(options));
    if let Some(image) = &options.console_image {
        out.extend(workloads::console(options, image));
    }
    if options.shipped_catalog {
        out.push(shipped_catalog());
    }
    for object in &mut out {
        label_part_of(object);
    }
    out.extend(options.extra_catalogs.iter().cloned());
    out
}

/// Applies an installation's objects in order, as `field_manager`; CRDs are waited for, so that what follows finds
/// them. Applying the same objects again changes nothing.
///
/// # Errors
/// [`ResourceError`] for the first object that cannot be applied.
pub async fn apply(client: &Client, objects: &[Value], field_manager: &str) -> Result<(), ResourceError> {
    let resources = Resources::new(client.clone());
    let mut crds = Vec::new();
    for object in objects {
        if object["kind"] != "CustomResourceDefinition" {
            for crd in crds.drain(..) {
                established(client, crd).await?;
            }
        }
        resources.apply_as(object, field_manager).await?;
        if object["kind"] == "CustomResourceDefinition" {
            crds.extend(object["metadata"]["name"].as_str());
        }
    }
    Ok(())
}

async fn established(client: &Client, name: &str) -> Result<(), ResourceError> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let failed = |text: &str| ResourceError::NotEstablished { name: name.to_owned(), text: text.to_owned() };
    let wait = await_condition(api, name, conditions::is_crd_established());
    match tokio::time::timeout(Duration::from_secs(10), wait).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(failed(&error.to_string())),
        Err(_) => Err(failed("the API server did not establish it within 10 s")),
    }
}

fn namespace() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": NAMESPACE,
            // Both pods pass the strictest Pod Security level; the labels make the cluster hold us to it.
            "labels": {
                "pod-security.kubernetes.io/enforce": "restricted",
                "pod-security.kubernetes.io/enforce-version": "latest"
            }
        }
    })
}

fn shipped_catalog() -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "CatalogSource",
        "metadata": { "name": SHIPPED_CATALOG, "namespace": NAMESPACE },
        "spec": {
            "sourceType": "grpc",
            "image": SHIPPED_CATALOG_IMAGE,
            "displayName": "Community operators",
            "publisher": "olm",
            "description": "The operators that olm ships with."
        }
    })
}

fn label_part_of(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    if let Some(labels) = labels.as_object_mut() {
        labels.insert("app.kubernetes.io/part-of".into(), "olm".into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(objects: &[Value]) -> Vec<String> {
        objects
            .iter()
            .map(|o| {
                format!(
                    "{}/{}",
                    o["kind"].as_str().unwrap_or_default(),
                    o["metadata"]["name"].as_str().unwrap_or_default()
                )
            })
            .collect()
    }

    #[test]
    fn objects_come_in_an_order_that_can_be_applied() {
        // when
        let objects = kinds(&manifests(&ManifestOptions::default()));

        // then: what is needed comes before what needs it
        let at = |name: &str| objects.iter().position(|o| o == name).expect(name);
        assert_eq!(at("Namespace/olm"), 0);
        assert!(
            at("CustomResourceDefinition/catalogsources.operators.coreos.com")
                < at("CatalogSource/community")
        );
        assert!(at("ServiceAccount/olm-manager") < at("Deployment/olm-manager"));
        assert!(at("ClusterRole/olm-manager") < at("ClusterRoleBinding/olm-manager"));
        assert!(at("ServiceAccount/olm-console") < at("Deployment/olm-console"));
    }

    #[test]
    fn secrets_are_read_in_the_managers_namespace_alone() {
        // given everything that may read Secrets
        let objects = manifests(&ManifestOptions::default());
        let reads = |object: &&Value| {
            object["rules"].as_array().into_iter().flatten().any(|rule| {
                let has = |field: &str, wanted: &[&str]| {
                    rule[field]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .any(|v| v.as_str().is_some_and(|v| wanted.contains(&v)))
                };
                has("resources", &["secrets"]) && has("verbs", &["get", "list", "watch"])
            })
        };
        let roles: Vec<&Value> = objects.iter().filter(reads).collect();
        // then it is one ClusterRole, to get what one knows the name of
        assert_eq!(roles.len(), 1, "{roles:?}");
        assert_eq!(roles[0]["metadata"]["name"], PULL_SECRETS_ROLE);
        assert_eq!(
            roles[0]["rules"],
            json!([{ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"] }])
        );
        // and it is bound in the manager's namespace alone
        let bindings: Vec<&Value> =
            objects.iter().filter(|o| o["roleRef"]["name"] == PULL_SECRETS_ROLE).collect();
        assert_eq!(bindings.len(), 1);
        assert_eq!(bindings[0]["kind"], "RoleBinding");
        assert_eq!(bindings[0]["metadata"]["namespace"], NAMESPACE);
    }

    #[test]
    fn the_manager_can_write_to_its_cache_alone() {
        let objects = manifests(&ManifestOptions::default());
        let manager = objects.iter().find(|o| o["kind"] == "Deployment" && o["metadata"]["name"] == MANAGER);
        let pod = &manager.expect("a Deployment")["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
        let mounts = container["volumeMounts"].as_array().expect("mounts");
        let writable: Vec<&Value> =
            mounts.iter().filter(|m| m["readOnly"] != true).map(|m| &m["mountPath"]).collect();
        assert_eq!(writable, ["/var/cache/olm"]);
        let cache =
            pod["volumes"].as_array().expect("volumes").iter().find(|v| v["name"] == "cache").expect("cache");
        assert!(cache["emptyDir"]["sizeLimit"].is_string(), "{cache}");
    }

    #[test]
    fn the_manager_has_no_wildcard_right() {
        for object in manifests(&ManifestOptions::default()) {
            for rule in object["rules"].as_array().into_iter().flatten() {
                for field in ["apiGroups", "resources", "verbs"] {
                    let stars =
                        rule[field].as_array().into_iter().flatten().filter(|v| v.as_str() == Some("*"));
                    assert_eq!(stars.count(), 0, "{rule}");
                }
            }
        }
    }

    #[test]
    fn the_console_has_no_rights_of_its_own() {
        for object in manifests(&ManifestOptions::default()) {
            for subject in object["subjects"].as_array().into_iter().flatten() {
                assert_ne!(subject["name"], CONSOLE, "{object}");
            }
        }
    }

    #[test]
    fn pods_meet_the_restricted_pod_security_level() {
        for object in manifests(&ManifestOptions::default()) {
            if object["kind"] != "Deployment" {
                continue;
            }
            let pod = &object["spec"]["template"]["spec"];
            assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
            assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
            for container in pod["containers"].as_array().into_iter().flatten() {
                let security = &container["securityContext"];
                assert_eq!(security["allowPrivilegeEscalation"], false);
                assert_eq!(security["readOnlyRootFilesystem"], true);
                assert_eq!(security["capabilities"]["drop"][0], "ALL");
            }
        }
    }
}

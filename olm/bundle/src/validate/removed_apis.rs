//! APIs removed in newer versions of Kubernetes (upstream's `alpha-deprecated-apis`).

use olm_version::{Version, parse_lenient};
use serde_json::Value;

use super::{Findings, Options, Severity};
use crate::model::{Bundle, kind};
use crate::provenance::Origin;

/// Version of Kubernetes (1.x), API version, kinds.
const REMOVED: &[(u64, &str, &[&str])] = &[
    (
        22,
        "admissionregistration.k8s.io/v1beta1",
        &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"],
    ),
    (22, "apiextensions.k8s.io/v1beta1", &["CustomResourceDefinition"]),
    (22, "apiregistration.k8s.io/v1beta1", &["APIService"]),
    (22, "authentication.k8s.io/v1beta1", &["TokenReview"]),
    (
        22,
        "authorization.k8s.io/v1beta1",
        &["LocalSubjectAccessReview", "SelfSubjectAccessReview", "SubjectAccessReview"],
    ),
    (22, "certificates.k8s.io/v1beta1", &["CertificateSigningRequest"]),
    (22, "coordination.k8s.io/v1beta1", &["Lease"]),
    (22, "extensions/v1beta1", &["Ingress"]),
    (22, "networking.k8s.io/v1beta1", &["Ingress", "IngressClass"]),
    (22, "rbac.authorization.k8s.io/v1beta1", &["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"]),
    (22, "scheduling.k8s.io/v1beta1", &["PriorityClass"]),
    (22, "storage.k8s.io/v1beta1", &["CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"]),
    (25, "autoscaling/v2beta1", &["HorizontalPodAutoscaler"]),
    (25, "batch/v1beta1", &["CronJob"]),
    (25, "discovery.k8s.io/v1beta1", &["EndpointSlice"]),
    (25, "events.k8s.io/v1beta1", &["Event"]),
    (25, "node.k8s.io/v1beta1", &["RuntimeClass"]),
    (25, "policy/v1beta1", &["PodDisruptionBudget", "PodSecurityPolicy"]),
    (26, "autoscaling/v2beta2", &["HorizontalPodAutoscaler"]),
];

/// Resources without a remaining version, as in roles: version of Kubernetes, group, resource.
const GONE: &[(u64, &str, &str)] = &[(25, "policy", "podsecuritypolicies")];

/// The version of Kubernetes (1.x) that removed it.
pub(super) fn removed_in(api_version: &str, kind: &str) -> Option<u64> {
    let entry = REMOVED.iter().find(|(_, api, kinds)| *api == api_version && kinds.contains(&kind));
    entry.map(|(minor, ..)| *minor)
}

pub(super) fn check(bundle: &Bundle, options: &Options, findings: &mut Findings) {
    // The minimum version decides whether the bundle can be installed where it claims to.
    let least = bundle.csv.spec.min_kube_version.as_deref().and_then(|text| parse_lenient(text).ok());
    let severity = |minor: u64| {
        let reached = |version: &Version| (version.major, version.minor) >= (1, minor);
        match options.kubernetes.iter().chain(least.as_ref()).any(reached) {
            true => Severity::Error,
            false => Severity::Warning,
        }
    };
    let fix = "use the version that replaces it".to_owned();
    for (index, object) in bundle.objects.iter().enumerate() {
        let api_version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        if let Some(minor) = removed_in(api_version, kind(object)) {
            let text = format!("Kubernetes 1.{minor} and later do not serve {api_version} {}", kind(object));
            let (code, field) = ("api-removed", "apiVersion".to_owned());
            findings.of(Origin::Object(index)).add(severity(minor), code, field, text, fix.clone());
        }
    }
    let mut csv = findings.of(Origin::Csv);
    for relation in ["owned", "required"] {
        for (index, crd) in
            bundle.list(&format!("/spec/customresourcedefinitions/{relation}")).iter().enumerate()
        {
            let resources = crd.get("resources").and_then(Value::as_array);
            for (number, resource) in resources.into_iter().flatten().enumerate() {
                let text = |key: &str| resource.get(key).and_then(Value::as_str).unwrap_or_default();
                // Descriptions name API versions as manifests do. Upstream does not check those removed in
                // 1.22.
                if let Some(minor) = removed_in(text("version"), text("kind")).filter(|minor| *minor >= 25) {
                    let field = format!(
                        "spec.customresourcedefinitions.{relation}[{index}].resources[{number}].version"
                    );
                    let text = format!(
                        "Kubernetes 1.{minor} and later do not serve {} {}",
                        text("version"),
                        text("kind")
                    );
                    csv.add(severity(minor), "api-removed", field, text, fix.clone());
                }
            }
        }
    }
    for (key, list) in
        [("permissions", bundle.permissions()), ("clusterPermissions", bundle.cluster_permissions())]
    {
        for (index, permission) in list.iter().enumerate() {
            let rules = permission.get("rules").and_then(Value::as_array);
            for (number, rule) in rules.into_iter().flatten().enumerate() {
                for (minor, group, resource) in GONE {
                    if super::practices::has(rule, "apiGroups", &[group])
                        && super::practices::has(rule, "resources", &[resource])
                    {
                        let field = format!("spec.install.spec.{key}[{index}].rules[{number}]");
                        let text = format!("Kubernetes 1.{minor} and later have no {resource}");
                        csv.warn(
                            "api-removed",
                            field,
                            text,
                            "remove the rule when older versions are not supported",
                        );
                    }
                }
            }
        }
    }
}

//! Objects that no operator may create, change or delete, regardless of the approver: those of olm, of
//! Kubernetes itself and of system namespaces. One function decides for plans and for manually applied
//! ClusterServiceVersions.

use olm_api::names;
use olm_bundle::crd_of_role;
use serde_json::Value;

use crate::json::{label, list, strings, text};
use crate::object::{ObjectRef, RBAC};

const BOOTSTRAPPING: &str = "kubernetes.io/bootstrapping";
/// Label of APIServices that the API server creates for its own groups and those of
/// CustomResourceDefinitions.
const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
const PART_OF: &str = "app.kubernetes.io/part-of";
/// Groups of olm's own kinds.
const OLM_GROUPS: &[&str] = &[names::GROUP, "packages.operators.coreos.com", "olm.operatorframework.io"];
/// Namespaces of the control plane and olm.
const SYSTEM_NAMESPACES: &[&str] = &["kube-system", "kube-public", "kube-node-lease", "olm"];
/// Names of olm's own objects; `olm-manager` also covers `olm-manager-instances`.
const OLM_NAMES: &[&str] = &[
    "olm-manager",
    "olm-console",
    "olm-packages",
    "olm-pull-secrets",
    "olm-registries",
    "olm-approvals",
    "olm-requests",
    "olm-catalog-reader",
    "olm-metrics-reader",
    "olm-view",
    "olm-edit",
    "olm-admin",
];
/// Default roles of users, maintained by the API server.
const USER_ROLES: &[&str] = &["view", "edit", "admin", "cluster-admin"];
/// Built-in groups of the API server that resemble custom ones. Groups without a dot are built-in, too.
const SERVED_BY_KUBERNETES: &[&str] = &[
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    RBAC,
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// The intended scope of an operator.
#[derive(Clone, Copy, Debug)]
pub struct Installed<'a> {
    pub namespace: &'a str,
    /// The target namespaces of its OperatorGroup.
    pub targets: &'a [String],
    /// Its CustomResourceDefinitions.
    pub crds: &'a [&'a str],
    /// The groups of the aggregated APIs that it serves.
    pub groups: &'a [&'a str],
}

/// Why an operator may not write an object, as the end of a sentence that begins with the object's name;
/// `None` when it may. `live` is the live object, where known.
#[must_use]
pub fn reserved(manifest: &Value, live: Option<&Value>, installed: &Installed<'_>) -> Option<String> {
    let reference = ObjectRef::of(manifest)?;
    by_name(&reference, manifest)
        .or_else(|| by_namespace(&reference, manifest, installed))
        .or_else(|| by_label(manifest, installed))
        .or_else(|| live.and_then(marked))
}

/// Whether an object belongs to olm or Kubernetes: as [`reserved`], for deletions.
#[must_use]
pub fn is_reserved(reference: &ObjectRef, live: Option<&Value>) -> bool {
    by_name(reference, live.unwrap_or(&Value::Null)).is_some()
        || live.is_some_and(|live| marked(live).is_some())
}

fn by_name(reference: &ObjectRef, manifest: &Value) -> Option<String> {
    let name = reference.name.as_str();
    match (reference.group(), reference.kind.as_str()) {
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            let named = name.split_once('.').map_or("", |(_, group)| group);
            let group = [named, text(manifest, "/spec/group")].into_iter().find(|group| is_olms(group))?;
            return Some(format!("defines an API of olm (group {group})"));
        }
        ("apiregistration.k8s.io", "APIService") => {
            let named = name.split_once('.').map_or("", |(_, group)| group);
            let defined = manifest.pointer("/spec/group").and_then(Value::as_str);
            return [Some(named), defined].into_iter().flatten().find_map(|group| {
                let own = is_olms(group) || SERVED_BY_KUBERNETES.contains(&group) || !group.contains('.');
                own.then(|| format!("serves group `{group}`, which belongs to the API server or olm"))
            });
        }
        (group, _) if is_olms(group) && reference.namespace.is_none() => {
            return Some("configures olm".to_owned());
        }
        (RBAC, kind) => {
            let users = kind.starts_with("ClusterRole") && USER_ROLES.contains(&name);
            if name.starts_with("system:") || users {
                return Some("is a role or binding of Kubernetes".to_owned());
            }
        }
        ("scheduling.k8s.io", "PriorityClass") if name.starts_with("system-") => {
            return Some("is a PriorityClass of Kubernetes".to_owned());
        }
        ("", "ConfigMap") if name == "kube-root-ca.crt" => {
            return Some("is the certificate authority that all pods trust".to_owned());
        }
        _ => {}
    }
    let own =
        |own: &&str| name.strip_prefix(*own).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
    OLM_NAMES.iter().any(own).then(|| "has the name of an object of olm".to_owned())
}

fn is_olms(group: &str) -> bool {
    OLM_GROUPS.contains(&group)
}

fn by_namespace(reference: &ObjectRef, manifest: &Value, installed: &Installed<'_>) -> Option<String> {
    let namespace = reference.namespace.as_deref()?;
    let on_purpose =
        namespace == installed.namespace || installed.targets.iter().any(|target| target == namespace);
    if on_purpose || !SYSTEM_NAMESPACES.contains(&namespace) {
        return None;
    }
    // A server of an aggregated API reads its trusted CAs from one ConfigMap.
    let reader = reference.kind == "RoleBinding"
        && text(manifest, "/roleRef/kind") == "Role"
        && text(manifest, "/roleRef/name") == "extension-apiserver-authentication-reader";
    (!reader).then(|| format!("is in system namespace {namespace}"))
}

/// Labels that give an object rights or protection.
fn by_label(manifest: &Value, installed: &Installed<'_>) -> Option<String> {
    if let Some(why) = marked(manifest) {
        return Some(why);
    }
    (label(manifest, names::LABEL_AGGREGATE_TO_MANAGER).is_some() && !over_own_kinds(manifest, installed))
        .then(|| format!("adds to the permissions of olm (label {})", names::LABEL_AGGREGATE_TO_MANAGER))
}

/// Whether a role only grants rights over the operator's own kinds.
fn over_own_kinds(role: &Value, installed: &Installed<'_>) -> bool {
    let rules = list(role, "/rules");
    let own_group = |group: &String| installed.groups.contains(&group.as_str());
    let aggregated = |rule: &Value| {
        let groups = strings(rule, "/apiGroups");
        !groups.is_empty() && groups.iter().all(own_group)
    };
    crd_of_role(role).is_some_and(|crd| installed.crds.contains(&crd.as_str()))
        || !rules.is_empty() && rules.iter().all(aggregated)
}

fn marked(object: &Value) -> Option<String> {
    if label(object, PART_OF) == Some("olm") {
        return Some(format!("is part of olm (label {PART_OF})"));
    }
    let keys = [BOOTSTRAPPING, AUTOMANAGED];
    let key = keys.into_iter().find(|key| label(object, key).is_some())?;
    Some(format!("is maintained by the API server (label {key})"))
}

/// The group of a CustomResourceDefinition that the API server refuses to create: a group of Kubernetes
/// without the approval annotation.
pub(crate) fn unapproved_group(crd: &Value) -> Option<&str> {
    let group = text(crd, "/spec/group");
    let protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')));
    let approval = text(crd, "/metadata/annotations/api-approved.kubernetes.io");
    let valid = approval.starts_with("unapproved") || approval.contains("://");
    (protected && !valid).then_some(group)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(api_version: &str, kind: &str, namespace: Option<&str>, name: &str) -> Value {
        let mut object = json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": name } });
        if let Some(namespace) = namespace {
            object["metadata"]["namespace"] = json!(namespace);
        }
        object
    }

    fn why(manifest: &Value, live: Option<&Value>) -> Option<String> {
        let targets = ["db".to_owned()];
        let installed = Installed {
            namespace: "db",
            targets: &targets,
            crds: &["things.example.com"],
            groups: &["served.example.com"],
        };
        reserved(manifest, live, &installed)
    }

    const RBAC_V1: &str = "rbac.authorization.k8s.io/v1";
    const CRD: (&str, &str) = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    const API: (&str, &str) = ("apiregistration.k8s.io/v1", "APIService");

    #[test]
    fn t07_names_of_olm_and_of_kubernetes_are_reserved() {
        for (api_version, kind, name) in [
            (CRD.0, CRD.1, "installplans.operators.coreos.com"),
            (CRD.0, CRD.1, "clusterextensions.olm.operatorframework.io"),
            (RBAC_V1, "ClusterRole", "view"),
            (RBAC_V1, "ClusterRole", "cluster-admin"),
            (RBAC_V1, "ClusterRoleBinding", "cluster-admin"),
            (RBAC_V1, "ClusterRole", "system:node"),
            (RBAC_V1, "ClusterRoleBinding", "olm-manager-instances"),
            (RBAC_V1, "ClusterRole", "olm-pull-secrets"),
            (API.0, API.1, "v1.apps"),
            (API.0, API.1, "v1."),
            (API.0, API.1, "v1.rbac.authorization.k8s.io"),
            (API.0, API.1, "v1alpha1.operators.coreos.com"),
            ("scheduling.k8s.io/v1", "PriorityClass", "system-node-critical"),
        ] {
            let object = object(api_version, kind, None, name);
            assert!(why(&object, None).is_some(), "{kind} {name}");
            assert!(is_reserved(&ObjectRef::of(&object).unwrap(), None), "{kind} {name}");
        }
        for (api_version, kind, name) in [
            (CRD.0, CRD.1, "things.example.com"),
            (RBAC_V1, "ClusterRole", "thing-view"),
            (RBAC_V1, "ClusterRole", "olm-managers"),
            (API.0, API.1, "v1beta1.metrics.k8s.io"),
            (API.0, API.1, "v1.things.example.com"),
            ("scheduling.k8s.io/v1", "PriorityClass", "thing"),
        ] {
            let object = object(api_version, kind, None, name);
            assert_eq!(why(&object, None), None, "{kind} {name}");
            assert!(!is_reserved(&ObjectRef::of(&object).unwrap(), None), "{kind} {name}");
        }
        // only the group in the definition counts
        let mut disguised = object(CRD.0, CRD.1, None, "things.example.com");
        disguised["spec"] = json!({ "group": "operators.coreos.com" });
        assert!(why(&disguised, None).is_some());
    }

    #[test]
    fn t07_system_namespaces_are_reserved_unless_the_operator_is_installed_there() {
        let role = |namespace| object(RBAC_V1, "Role", Some(namespace), "thing");
        for namespace in ["kube-system", "kube-public", "kube-node-lease", "olm"] {
            assert!(why(&role(namespace), None).is_some(), "{namespace}");
            let targets = [namespace.to_owned()];
            let there = Installed { namespace: "db", targets: &targets, crds: &[], groups: &[] };
            assert_eq!(reserved(&role(namespace), None, &there), None);
        }
        assert_eq!(why(&role("db"), None), None);
        // servers of aggregated APIs read one ConfigMap there
        let mut reader = object(RBAC_V1, "RoleBinding", Some("kube-system"), "thing-auth-reader");
        reader["roleRef"] = json!({ "kind": "Role", "name": "extension-apiserver-authentication-reader" });
        assert_eq!(why(&reader, None), None);
        reader["roleRef"]["name"] = json!("system:controller:token-cleaner");
        assert!(why(&reader, None).is_some());
    }

    #[test]
    fn t07_labels_of_olm_and_of_kubernetes_are_reserved() {
        let plain = object(RBAC_V1, "ClusterRole", None, "thing");
        for (label, value) in [
            ("app.kubernetes.io/part-of", "olm"),
            ("kubernetes.io/bootstrapping", "rbac-defaults"),
            ("kube-aggregator.kubernetes.io/automanaged", "true"),
        ] {
            let mut marked = plain.clone();
            marked["metadata"]["labels"] = json!({ label: value });
            assert!(why(&plain, Some(&marked)).is_some(), "{label} on the cluster");
            assert!(why(&marked, None).is_some(), "{label} in the bundle");
        }
        let mut other = plain.clone();
        other["metadata"]["labels"] = json!({ "app.kubernetes.io/part-of": "thing" });
        assert_eq!(why(&other, Some(&other)), None);
        // only roles over the bundle's own kinds are aggregated into the manager's
        let role = |crd: &str, plural: &str| {
            json!({ "apiVersion": RBAC_V1, "kind": "ClusterRole",
                "metadata": { "name": format!("{crd}-v1-view"), "labels": {
                    "olm.opgroup.permissions/aggregate-to-1-view": "true",
                    names::LABEL_AGGREGATE_TO_MANAGER: "true" } },
                "rules": [{ "verbs": ["get"], "apiGroups": ["example.com"], "resources": [plural] }] })
        };
        assert_eq!(why(&role("things.example.com", "things"), None), None);
        assert!(why(&role("others.example.com", "others"), None).is_some());
        let mut served = role("flunders.served.example.com", "flunders");
        served["rules"][0]["apiGroups"] = json!(["served.example.com"]);
        assert_eq!(why(&served, None), None);
        let mut more = role("things.example.com", "things");
        let secrets = json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["secrets"] });
        more["rules"].as_array_mut().unwrap().push(secrets);
        assert!(why(&more, None).is_some());
    }

    #[test]
    fn groups_of_kubernetes_need_an_approval() {
        let crd = |group: &str, approval: &str| json!({ "metadata": { "annotations": { "api-approved.kubernetes.io": approval } }, "spec": { "group": group } });
        for group in ["k8s.io", "gateway.networking.k8s.io", "x.kubernetes.io"] {
            assert_eq!(unapproved_group(&crd(group, "")), Some(group));
            assert_eq!(
                unapproved_group(&crd(group, "https://github.com/kubernetes/enhancements/pull/1111")),
                None
            );
            assert_eq!(unapproved_group(&crd(group, "unapproved, experimental-only")), None);
        }
        assert_eq!(unapproved_group(&crd("notk8s.io", "")), None);
    }
}

//! The calls that the manager makes across the cluster, and their purpose. The ClusterRole of the manager and
//! a table of `docs/running.md` are generated from here; a scenario runs the manager with these permissions
//! alone and checks that it uses each.

/// Permissions with one purpose.
pub struct Call {
    pub group: &'static str,
    pub resources: &'static [&'static str],
    pub verbs: &'static [&'static str],
    pub why: &'static str,
}

const fn call(
    group: &'static str,
    resources: &'static [&'static str],
    verbs: &'static [&'static str],
    why: &'static str,
) -> Call {
    Call { group, resources, verbs, why }
}

/// For the objects of bundles.
const INSTALL: &[&str] = &["get", "list", "create", "update", "patch", "delete"];
const WATCHED: &[&str] = &["get", "list", "watch", "create", "update", "patch", "delete"];

pub const CALLS: &[Call] = &[
    call(
        "operators.coreos.com",
        &[
            "catalogsources",
            "subscriptions",
            "installplans",
            "clusterserviceversions",
            "operatorgroups",
            "operatorconditions",
            "operators",
            "olmconfigs",
        ],
        WATCHED,
        "The API of OLM.",
    ),
    call(
        "operators.coreos.com",
        &[
            "catalogsources/status",
            "subscriptions/status",
            "installplans/status",
            "clusterserviceversions/status",
            "operatorgroups/status",
            "operatorconditions/status",
            "operators/status",
            "olmconfigs/status",
        ],
        &["get", "update", "patch"],
        "Conditions and progress.",
    ),
    call(
        "operators.coreos.com",
        &[
            "catalogsources/finalizers",
            "subscriptions/finalizers",
            "installplans/finalizers",
            "clusterserviceversions/finalizers",
            "operatorgroups/finalizers",
            "operatorconditions/finalizers",
        ],
        &["update"],
        "Owner references with blockOwnerDeletion, on clusters with OwnerReferencesPermissionEnforcement.",
    ),
    call(
        "operators.coreos.com",
        &["installpolicies"],
        &["list", "watch"],
        "Policies for installs. Read-only.",
    ),
    call(
        "apiextensions.k8s.io",
        &["customresourcedefinitions"],
        &["get", "list", "watch", "create", "update", "patch"],
        "CRDs of operators. No delete: deleting a CRD deletes all its objects, so only a user with that permission does it.",
    ),
    call("apps", &["deployments"], WATCHED, "Deployments of operators."),
    call("", &["configmaps"], INSTALL, "Objects of bundles; catalogs of type configmap."),
    call(
        "",
        &["serviceaccounts", "services"],
        WATCHED,
        "Objects of bundles. Watched, so that changes by others are reverted.",
    ),
    call(
        "",
        &["serviceaccounts"],
        &["impersonate"],
        "Limits an install to the permissions of `spec.serviceAccountName` of its OperatorGroup.",
    ),
    call(
        "",
        &["secrets"],
        &["create", "patch", "delete"],
        "Secrets of bundles, and certificates of webhooks. No permission to read or list them.",
    ),
    call("policy", &["poddisruptionbudgets"], INSTALL, "Objects of bundles."),
    call("networking.k8s.io", &["networkpolicies"], INSTALL, "Objects of bundles."),
    call("scheduling.k8s.io", &["priorityclasses"], INSTALL, "Objects of bundles."),
    call(
        "monitoring.coreos.com",
        &["prometheusrules", "servicemonitors", "podmonitors"],
        INSTALL,
        "Objects of bundles.",
    ),
    call(
        "rbac.authorization.k8s.io",
        &["roles", "clusterroles"],
        &["get", "list", "watch", "create", "update", "patch", "delete", "escalate", "bind"],
        "Permissions of operators, from approved plans. `escalate` and `bind` are required to grant permissions that the manager does not hold.",
    ),
    call(
        "rbac.authorization.k8s.io",
        &["rolebindings", "clusterrolebindings"],
        WATCHED,
        "Bindings of these roles.",
    ),
    call(
        "admissionregistration.k8s.io",
        &["validatingwebhookconfigurations", "mutatingwebhookconfigurations"],
        &["get", "list", "watch", "create", "patch", "delete"],
        "Webhooks of operators, and checks whether an unavailable webhook would block a plan.",
    ),
    call(
        "apiregistration.k8s.io",
        &["apiservices"],
        &["get", "list", "watch", "create", "patch", "delete"],
        "Aggregated APIs of operators.",
    ),
    call(
        "",
        &["namespaces"],
        &["get", "list", "watch", "patch"],
        "Target namespaces, and the labels of OperatorGroups on them.",
    ),
    call("", &["pods"], &["list"], "Causes of a rollout that does not finish."),
    call("", &["resourcequotas"], &["list"], "Quotas that a plan would exceed."),
    call("", &["nodes"], &["list"], "Checks whether a node has an image that no registry serves."),
    call("discovery.k8s.io", &["endpointslices"], &["list"], "Checks whether a webhook is available."),
    call(
        "admissionregistration.k8s.io",
        &["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"],
        &["get"],
        "Checks whether the API server records the authority of plans.",
    ),
    call(
        "authentication.k8s.io",
        &["tokenreviews"],
        &["create"],
        "Authenticates clients of catalogs and metrics.",
    ),
    call(
        "authorization.k8s.io",
        &["subjectaccessreviews"],
        &["create"],
        "Authorizes these clients; checks that the authority of a plan holds the permissions that the plan uses and grants.",
    ),
    call("events.k8s.io", &["events"], &["create", "patch"], "Events for `kubectl describe`."),
];

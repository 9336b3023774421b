//! Every kind of call that the manager makes in the whole cluster, and why. Its ClusterRole is made of this table, and `docs/running.md`
//! has it too; a scenario runs the manager with these rights alone and looks which of them it used.

/// Rights to the same end.
pub(crate) struct Call {
    pub(crate) group: &'static str,
    pub(crate) resources: &'static [&'static str],
    pub(crate) verbs: &'static [&'static str],
    pub(crate) why: &'static str,
}

const fn call(
    group: &'static str,
    resources: &'static [&'static str],
    verbs: &'static [&'static str],
    why: &'static str,
) -> Call {
    Call { group, resources, verbs, why }
}

/// What a bundle's own objects need.
const INSTALL: &[&str] = &["get", "list", "create", "update", "patch", "delete"];
const WATCHED: &[&str] = &["get", "list", "watch", "create", "update", "patch", "delete"];

pub(crate) const CALLS: &[Call] = &[
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
        "Its own API.",
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
        "What it reports there.",
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
        "Owner references to them that block their deletion, where the cluster checks that.",
    ),
    call(
        "operators.coreos.com",
        &["installpolicies"],
        &["list", "watch"],
        "What may be installed where. No right to change them.",
    ),
    call(
        "apiextensions.k8s.io",
        &["customresourcedefinitions"],
        &["get", "list", "watch", "create", "update", "patch"],
        "What operators extend the API with. No delete: removing one removes everyone's data, so only a user does it, with the user's own rights.",
    ),
    call("apps", &["deployments"], WATCHED, "What operators run as."),
    call(
        "",
        &["configmaps"],
        INSTALL,
        "What bundles bring; and they are read for CatalogSources of type configmap.",
    ),
    call(
        "",
        &["serviceaccounts", "services"],
        WATCHED,
        "What bundles bring, and what operators run with; put right when it changes.",
    ),
    call(
        "",
        &["serviceaccounts"],
        &["impersonate"],
        "An OperatorGroup names the ServiceAccount whose rights an install must keep to.",
    ),
    call(
        "",
        &["secrets"],
        &["create", "patch", "delete"],
        "A bundle may bring one, and webhooks need a certificate. No right to read or list them.",
    ),
    call("policy", &["poddisruptionbudgets"], INSTALL, "What bundles bring."),
    call("networking.k8s.io", &["networkpolicies"], INSTALL, "What bundles bring."),
    call("scheduling.k8s.io", &["priorityclasses"], INSTALL, "What bundles bring."),
    call(
        "monitoring.coreos.com",
        &["prometheusrules", "servicemonitors", "podmonitors"],
        INSTALL,
        "What bundles bring.",
    ),
    call(
        "rbac.authorization.k8s.io",
        &["roles", "clusterroles"],
        &["get", "list", "watch", "create", "update", "patch", "delete", "escalate", "bind"],
        "An operator is granted what its bundle asks for and an administrator approved; granting what one does not hold needs `escalate` and `bind`.",
    ),
    call("rbac.authorization.k8s.io", &["rolebindings", "clusterrolebindings"], WATCHED, "The same."),
    call(
        "admissionregistration.k8s.io",
        &["validatingwebhookconfigurations", "mutatingwebhookconfigurations"],
        &["get", "list", "watch", "create", "patch", "delete"],
        "Webhooks of operators; and those that stand in the way of a plan, which its findings tell.",
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
        "Where operators live and what they watch; OperatorGroups label the namespaces that they choose.",
    ),
    call("", &["pods"], &["list"], "What is wrong with them when a rollout does not finish."),
    call("", &["resourcequotas"], &["list"], "What may stand in the way of a plan."),
    call("discovery.k8s.io", &["endpointslices"], &["list"], "Whether a webhook that is in the way answers."),
    call(
        "admissionregistration.k8s.io",
        &["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"],
        &["get"],
        "Whether the API server records who asks for a change.",
    ),
    call(
        "authentication.k8s.io",
        &["tokenreviews"],
        &["create"],
        "Authenticates those who read catalogs and metrics from its port.",
    ),
    call(
        "authorization.k8s.io",
        &["subjectaccessreviews"],
        &["create"],
        "Whether they may read; and whether the user in whose name a plan is applied holds the rights that it uses and grants.",
    ),
    call("events.k8s.io", &["events"], &["create", "patch"], "What it did, told to `kubectl describe`."),
];

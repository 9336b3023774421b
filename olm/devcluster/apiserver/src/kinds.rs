//! The tables of built-in kinds, reviews and subresources.

use super::{
    aggregation::{registered::GROUP as AGGREGATION, rules as aggregation},
    builtin::{Builtin, Review, Subresource},
    defaults, disruption_budgets, job_rules,
    names::NameRule,
    policies::rules as policies,
    strategy, validate, volumes,
    webhooks::{active::GROUP as ADMISSION, rules as webhooks},
};

const BASE: Builtin = Builtin {
    group: "",
    version: "v1",
    kind: "",
    plural: "",
    singular: "",
    short: &[],
    categories: &[],
    namespaced: true,
    status: false,
    scale: false,
    generation: false,
    enforced: true,
    fields: &[],
    stored_as: None,
    name_rule: NameRule::Subdomain,
    default: |_| {},
    prepare: |_, _| {},
    validate: |_, _, _| {},
};

const RBAC: Builtin =
    Builtin { group: "rbac.authorization.k8s.io", name_rule: NameRule::PathSegment, ..BASE };

/// Every stored built-in kind, in the order of discovery.
pub(crate) static BUILTINS: &[Builtin] = &[
    Builtin {
        kind: "ConfigMap",
        plural: "configmaps",
        singular: "configmap",
        short: &["cm"],
        validate: validate::config_map,
        ..BASE
    },
    Builtin { kind: "Endpoints", plural: "endpoints", singular: "endpoints", short: &["ep"], ..BASE },
    Builtin {
        kind: "Event",
        plural: "events",
        singular: "event",
        short: &["ev"],
        fields: &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ..BASE
    },
    Builtin { kind: "LimitRange", plural: "limitranges", singular: "limitrange", short: &["limits"], ..BASE },
    Builtin {
        kind: "Namespace",
        plural: "namespaces",
        singular: "namespace",
        short: &["ns"],
        namespaced: false,
        status: true,
        fields: &["status.phase"],
        name_rule: NameRule::Label,
        default: defaults::namespace,
        prepare: strategy::namespace,
        ..BASE
    },
    Builtin {
        kind: "Node",
        plural: "nodes",
        singular: "node",
        short: &["no"],
        namespaced: false,
        status: true,
        fields: &["spec.unschedulable"],
        ..BASE
    },
    Builtin {
        kind: "PersistentVolumeClaim",
        plural: "persistentvolumeclaims",
        singular: "persistentvolumeclaim",
        short: &["pvc"],
        status: true,
        default: defaults::persistent_volume_claim,
        prepare: strategy::persistent_volume_claim,
        validate: volumes::claim,
        ..BASE
    },
    Builtin {
        kind: "PersistentVolume",
        plural: "persistentvolumes",
        singular: "persistentvolume",
        short: &["pv"],
        namespaced: false,
        status: true,
        default: volumes::volume_defaults,
        prepare: volumes::prepare_volume,
        validate: volumes::volume,
        ..BASE
    },
    Builtin {
        kind: "Pod",
        plural: "pods",
        singular: "pod",
        short: &["po"],
        categories: &["all"],
        status: true,
        generation: true,
        fields: &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        default: defaults::pod,
        prepare: strategy::pod,
        validate: validate::pod,
        ..BASE
    },
    Builtin {
        kind: "ResourceQuota",
        plural: "resourcequotas",
        singular: "resourcequota",
        short: &["quota"],
        status: true,
        ..BASE
    },
    Builtin {
        kind: "Secret",
        plural: "secrets",
        singular: "secret",
        fields: &["type"],
        default: defaults::secret,
        prepare: strategy::secret,
        validate: validate::secret,
        ..BASE
    },
    Builtin {
        kind: "ServiceAccount",
        plural: "serviceaccounts",
        singular: "serviceaccount",
        short: &["sa"],
        ..BASE
    },
    Builtin {
        kind: "Service",
        plural: "services",
        singular: "service",
        short: &["svc"],
        categories: &["all"],
        status: true,
        fields: &["spec.clusterIP", "spec.type"],
        name_rule: NameRule::Label1035,
        default: defaults::service,
        prepare: strategy::service,
        validate: validate::service,
        ..BASE
    },
    Builtin {
        group: ADMISSION,
        kind: "MutatingWebhookConfiguration",
        plural: "mutatingwebhookconfigurations",
        singular: "mutatingwebhookconfiguration",
        categories: &["api-extensions"],
        namespaced: false,
        generation: true,
        default: webhooks::defaults_mutating,
        validate: webhooks::mutating_rules,
        ..BASE
    },
    Builtin {
        group: ADMISSION,
        kind: "ValidatingWebhookConfiguration",
        plural: "validatingwebhookconfigurations",
        singular: "validatingwebhookconfiguration",
        categories: &["api-extensions"],
        namespaced: false,
        generation: true,
        default: webhooks::defaults_validating,
        validate: webhooks::validating_rules,
        ..BASE
    },
    Builtin {
        group: ADMISSION,
        kind: "MutatingAdmissionPolicy",
        plural: "mutatingadmissionpolicies",
        singular: "mutatingadmissionpolicy",
        categories: &["api-extensions"],
        namespaced: false,
        generation: true,
        default: policies::defaults,
        validate: policies::mutating_rules,
        ..BASE
    },
    Builtin {
        group: ADMISSION,
        kind: "MutatingAdmissionPolicyBinding",
        plural: "mutatingadmissionpolicybindings",
        singular: "mutatingadmissionpolicybinding",
        categories: &["api-extensions"],
        namespaced: false,
        generation: true,
        default: policies::defaults_binding,
        validate: policies::mutating_binding_rules,
        ..BASE
    },
    Builtin {
        group: ADMISSION,
        kind: "ValidatingAdmissionPolicy",
        plural: "validatingadmissionpolicies",
        singular: "validatingadmissionpolicy",
        categories: &["api-extensions"],
        namespaced: false,
        generation: true,
        status: true,
        default: policies::defaults,
        validate: policies::validating_rules,
        ..BASE
    },
    Builtin {
        group: ADMISSION,
        kind: "ValidatingAdmissionPolicyBinding",
        plural: "validatingadmissionpolicybindings",
        singular: "validatingadmissionpolicybinding",
        categories: &["api-extensions"],
        namespaced: false,
        generation: true,
        default: policies::defaults_binding,
        validate: policies::validating_binding_rules,
        ..BASE
    },
    Builtin {
        group: AGGREGATION,
        kind: "APIService",
        plural: "apiservices",
        singular: "apiservice",
        categories: &["api-extensions"],
        namespaced: false,
        status: true,
        name_rule: NameRule::PathSegment,
        default: aggregation::defaults,
        prepare: aggregation::prepare,
        validate: aggregation::rules,
        ..BASE
    },
    Builtin {
        group: "apps",
        kind: "Deployment",
        plural: "deployments",
        singular: "deployment",
        short: &["deploy"],
        categories: &["all"],
        status: true,
        scale: true,
        generation: true,
        default: defaults::deployment,
        validate: validate::workload,
        ..BASE
    },
    Builtin {
        group: "apps",
        kind: "ReplicaSet",
        plural: "replicasets",
        singular: "replicaset",
        short: &["rs"],
        categories: &["all"],
        status: true,
        scale: true,
        generation: true,
        fields: &["status.replicas"],
        default: defaults::replica_set,
        validate: validate::workload,
        ..BASE
    },
    Builtin {
        group: job_rules::GROUP,
        kind: "Job",
        plural: "jobs",
        singular: "job",
        categories: &["all"],
        status: true,
        generation: true,
        default: job_rules::set_defaults,
        validate: job_rules::rules,
        ..BASE
    },
    Builtin {
        group: "events.k8s.io",
        kind: "Event",
        plural: "events",
        singular: "event",
        short: &["ev"],
        stored_as: Some("/events"),
        ..BASE
    },
    Builtin {
        group: "networking.k8s.io",
        kind: "NetworkPolicy",
        plural: "networkpolicies",
        singular: "networkpolicy",
        short: &["netpol"],
        generation: true,
        enforced: false,
        ..BASE
    },
    Builtin {
        group: "policy",
        kind: "PodDisruptionBudget",
        plural: "poddisruptionbudgets",
        singular: "poddisruptionbudget",
        short: &["pdb"],
        status: true,
        generation: true,
        validate: disruption_budgets::rules,
        ..BASE
    },
    Builtin {
        kind: "ClusterRoleBinding",
        plural: "clusterrolebindings",
        singular: "clusterrolebinding",
        namespaced: false,
        default: defaults::binding,
        validate: validate::role_binding,
        ..RBAC
    },
    Builtin {
        kind: "ClusterRole",
        plural: "clusterroles",
        singular: "clusterrole",
        namespaced: false,
        validate: validate::role,
        ..RBAC
    },
    Builtin {
        kind: "RoleBinding",
        plural: "rolebindings",
        singular: "rolebinding",
        default: defaults::binding,
        validate: validate::role_binding,
        ..RBAC
    },
    Builtin { kind: "Role", plural: "roles", singular: "role", validate: validate::role, ..RBAC },
    Builtin {
        group: volumes::GROUP,
        kind: "StorageClass",
        plural: "storageclasses",
        singular: "storageclass",
        short: &["sc"],
        namespaced: false,
        default: volumes::class_defaults,
        validate: volumes::class,
        ..BASE
    },
    Builtin {
        group: "apiextensions.k8s.io",
        kind: "CustomResourceDefinition",
        plural: "customresourcedefinitions",
        singular: "customresourcedefinition",
        short: &["crd", "crds"],
        categories: &["api-extensions"],
        namespaced: false,
        status: true,
        generation: true,
        default: olm_devcluster_machinery::crd::set_defaults,
        prepare: strategy::custom_resource_definition,
        ..BASE
    },
    Builtin {
        group: "scheduling.k8s.io",
        kind: "PriorityClass",
        plural: "priorityclasses",
        singular: "priorityclass",
        short: &["pc"],
        namespaced: false,
        generation: true,
        default: defaults::priority_class,
        ..BASE
    },
    Builtin { group: "coordination.k8s.io", kind: "Lease", plural: "leases", singular: "lease", ..BASE },
    Builtin {
        group: "discovery.k8s.io",
        kind: "EndpointSlice",
        plural: "endpointslices",
        singular: "endpointslice",
        generation: true,
        ..BASE
    },
];

/// The review APIs.
pub(crate) static REVIEWS: &[Review] = &[
    Review {
        group: "authentication.k8s.io",
        kind: "SelfSubjectReview",
        plural: "selfsubjectreviews",
        namespaced: false,
    },
    Review { group: "authentication.k8s.io", kind: "TokenReview", plural: "tokenreviews", namespaced: false },
    Review {
        group: "authorization.k8s.io",
        kind: "LocalSubjectAccessReview",
        plural: "localsubjectaccessreviews",
        namespaced: true,
    },
    Review {
        group: "authorization.k8s.io",
        kind: "SelfSubjectAccessReview",
        plural: "selfsubjectaccessreviews",
        namespaced: false,
    },
    Review {
        group: "authorization.k8s.io",
        kind: "SelfSubjectRulesReview",
        plural: "selfsubjectrulesreviews",
        namespaced: false,
    },
    Review {
        group: "authorization.k8s.io",
        kind: "SubjectAccessReview",
        plural: "subjectaccessreviews",
        namespaced: false,
    },
];

const CORE: Subresource = Subresource { of: "pods", name: "", group: "", version: "", kind: "", verbs: &[] };

/// Subresources of core kinds. Those that the dev cluster refuses are not listed.
pub(crate) static SUBRESOURCES: &[Subresource] = &[
    Subresource { of: "namespaces", name: "finalize", kind: "Namespace", verbs: &["update"], ..CORE },
    Subresource { name: "binding", kind: "Binding", verbs: &["create"], ..CORE },
    Subresource {
        name: "eviction",
        group: "policy",
        version: "v1",
        kind: "Eviction",
        verbs: &["create"],
        ..CORE
    },
    Subresource { name: "exec", kind: "PodExecOptions", verbs: &["create", "get"], ..CORE },
    Subresource { name: "log", kind: "Pod", verbs: &["get"], ..CORE },
    Subresource { name: "portforward", kind: "PodPortForwardOptions", verbs: &["create", "get"], ..CORE },
    Subresource {
        name: "proxy",
        kind: "PodProxyOptions",
        verbs: &["create", "delete", "get", "patch", "update"],
        ..CORE
    },
    Subresource {
        of: "services",
        name: "proxy",
        kind: "ServiceProxyOptions",
        verbs: &["create", "delete", "get", "patch", "update"],
        ..CORE
    },
    Subresource {
        of: "serviceaccounts",
        name: "token",
        group: "authentication.k8s.io",
        version: "v1",
        kind: "TokenRequest",
        verbs: &["create"],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_kinds_are_unique() {
        let mut seen = std::collections::HashSet::new();
        for kind in BUILTINS {
            assert!(seen.insert((kind.group, kind.plural)), "{}/{}", kind.group, kind.plural);
            assert!(!kind.singular.is_empty() && !kind.kind.is_empty());
        }
    }
}

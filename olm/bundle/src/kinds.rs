//! The kinds allowed in a `registry+v1` bundle, and the phases of an installation.

/// The phases of an installation, in order. Each is complete before the next begins.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
pub enum Phase {
    /// PriorityClasses, NetworkPolicies, PodDisruptionBudgets.
    Prerequisites,
    /// CustomResourceDefinitions, established.
    Crds,
    /// ServiceAccounts, roles and bindings.
    Rbac,
    /// Services, ConfigMaps, Secrets and the like.
    Config,
    /// What Deployments require that serve webhooks or aggregated APIs: Services, Secrets with certificates,
    /// and roles to read them.
    Endpoints,
    /// Deployments, until rolled out.
    Workloads,
    /// What is served once the operator runs: webhooks, aggregated APIs, roles for its kinds.
    Serving,
}

/// Whether objects of a kind are namespaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Namespaced,
    Cluster,
}

/// Kind, scope, and the phase in which a bundle's own object of it is applied.
const KINDS: &[(&str, Scope, Phase)] = &[
    ("CustomResourceDefinition", Scope::Cluster, Phase::Crds),
    ("PriorityClass", Scope::Cluster, Phase::Prerequisites),
    ("NetworkPolicy", Scope::Namespaced, Phase::Prerequisites),
    ("PodDisruptionBudget", Scope::Namespaced, Phase::Prerequisites),
    ("ServiceAccount", Scope::Namespaced, Phase::Rbac),
    ("ClusterRole", Scope::Cluster, Phase::Rbac),
    ("ClusterRoleBinding", Scope::Cluster, Phase::Rbac),
    ("Role", Scope::Namespaced, Phase::Rbac),
    ("RoleBinding", Scope::Namespaced, Phase::Rbac),
    ("Secret", Scope::Namespaced, Phase::Config),
    ("ConfigMap", Scope::Namespaced, Phase::Config),
    ("Service", Scope::Namespaced, Phase::Config),
    ("VerticalPodAutoscaler", Scope::Namespaced, Phase::Config),
    ("ServiceMonitor", Scope::Namespaced, Phase::Config),
    ("PodMonitor", Scope::Namespaced, Phase::Config),
    ("PrometheusRule", Scope::Namespaced, Phase::Config),
    ("ConsoleYAMLSample", Scope::Cluster, Phase::Config),
    ("ConsoleQuickStart", Scope::Cluster, Phase::Config),
    ("ConsoleCLIDownload", Scope::Cluster, Phase::Config),
    ("ConsoleLink", Scope::Cluster, Phase::Config),
    ("ConsolePlugin", Scope::Cluster, Phase::Config),
];

/// The scope of an allowed kind; `None` for every other kind.
#[must_use]
pub fn scope_of(kind: &str) -> Option<Scope> {
    KINDS.iter().find(|(name, ..)| *name == kind).map(|(_, scope, _)| *scope)
}

/// The phase of a bundle's own object; `None` for a kind that is not allowed.
pub(crate) fn phase_of(kind: &str) -> Option<Phase> {
    KINDS.iter().find(|(name, ..)| *name == kind).map(|(.., phase)| *phase)
}

//! Names of an installation of olm, and the namespace that it is in.

use std::sync::LazyLock;

/// The namespace of the product, unless told otherwise. Catalogs in it are visible from every namespace.
pub const NAMESPACE: &str = "olm";
/// Name of the manager's Deployment, Service and ServiceAccount.
pub const MANAGER: &str = "olm-manager";
/// Name of the console's Deployment, Service and ServiceAccount.
pub const CONSOLE: &str = "olm-console";
/// The ClusterRole by which the manager may read pull secrets; it is bound in its own namespace, and by an administrator
/// wherever else catalogs with pull secrets are.
pub const PULL_SECRETS_ROLE: &str = "olm-pull-secrets";
/// Port on which the manager and the console speak HTTP.
pub const HTTP_PORT: u16 = 8080;
/// Names the namespace of the product to every program of ours that is told it; the pods are.
pub const NAMESPACE_VARIABLE: &str = "OLM_NAMESPACE";

/// The namespace in which this process takes the product to be: `OLM_NAMESPACE`, else [`NAMESPACE`].
#[must_use]
pub fn home() -> &'static str {
    static HOME: LazyLock<String> = LazyLock::new(|| {
        std::env::var(NAMESPACE_VARIABLE).ok().filter(|name| !name.is_empty()).unwrap_or(NAMESPACE.into())
    });
    &HOME
}

/// The name by which the API server knows the manager.
#[must_use]
pub fn manager_user(namespace: &str) -> String {
    format!("system:serviceaccount:{namespace}:{MANAGER}")
}

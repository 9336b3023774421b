//! Names of an installation of olm, and its namespace.

use std::sync::LazyLock;

/// The default namespace of the product. Catalogs in it are visible from every namespace.
pub const NAMESPACE: &str = "olm";
/// Name of the manager's Deployment, Service and ServiceAccount.
pub const MANAGER: &str = "olm-manager";
/// Name of the console's Deployment, Service and ServiceAccount.
pub const CONSOLE: &str = "olm-console";
/// The ClusterRole by which the manager may read pull secrets. It is bound in the manager's own namespace; an
/// administrator binds it in other namespaces whose catalogs have pull secrets.
pub const PULL_SECRETS_ROLE: &str = "olm-pull-secrets";
/// The optional ConfigMap with the site's registry settings, in the product's namespace.
pub const REGISTRIES: &str = "olm-registries";
/// Port on which the manager and the console serve HTTP.
pub const HTTP_PORT: u16 = 8080;
/// Environment variable with the product's namespace; the pods set it.
pub const NAMESPACE_VARIABLE: &str = "OLM_NAMESPACE";

/// The product's namespace as configured for this process: `OLM_NAMESPACE`, else [`NAMESPACE`].
#[must_use]
pub fn manager_namespace() -> &'static str {
    static CONFIGURED: LazyLock<String> = LazyLock::new(|| {
        std::env::var(NAMESPACE_VARIABLE).ok().filter(|name| !name.is_empty()).unwrap_or(NAMESPACE.into())
    });
    &CONFIGURED
}

/// The manager's user name at the API server.
#[must_use]
pub fn manager_user(namespace: &str) -> String {
    format!("system:serviceaccount:{namespace}:{MANAGER}")
}

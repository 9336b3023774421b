//! Deployments that the API server calls.

/// The port of the API server's calls where a description names none.
const DEFAULT_PORT: i32 = 443;

/// A Deployment that the API server calls, with its Secret and CA fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub deployment: String,
    pub namespace: String,
    pub service: String,
    pub secret: String,
    /// Whether it serves an aggregated API.
    pub aggregated: bool,
    /// Fields for the CA bundle of its certificate.
    pub trust: Vec<CaPlace>,
}

impl Endpoint {
    /// The DNS names for its certificate.
    #[must_use]
    pub fn names(&self) -> [String; 3] {
        let base = format!("{}.{}", self.service, self.namespace);
        [base.clone(), format!("{base}.svc"), format!("{base}.svc.cluster.local")]
    }
}

/// A field for a CA bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaPlace {
    pub api_version: &'static str,
    pub kind: &'static str,
    /// Its name; objects with CA bundles are cluster-scoped.
    pub name: String,
    /// The field, as a JSON pointer.
    pub pointer: &'static str,
}

/// The Service of a Deployment. Unlike names of Deployments, names of Services have no dots.
pub(super) fn service_name(deployment: &str) -> String {
    format!("{}-service", deployment.replace('.', "-"))
}

pub(super) fn port(described: Option<i32>) -> i32 {
    described.filter(|port| *port != 0).unwrap_or(DEFAULT_PORT)
}

//! Recorded requests of ServiceAccounts, to derive the permissions of an operator.
//!
//! The API server of a dev cluster counts the requests of ServiceAccounts by verb and resource at
//! authorization, and serves the counts at [`PATH`] to administrators; [`Rights`] is the client. Access
//! reviews (`kubectl auth can-i`) do not count as requests for the reviewed resource.

use kube::Client;
use serde::{Deserialize, Serialize};

/// Path of the counts at the API server of a dev cluster. Outside of the Kubernetes API, so that no other
/// cluster serves it.
pub const PATH: &str = "/dev/rights";

/// One permission, as in a rule of a role.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Right {
    /// API group.
    pub group: String,
    /// Resource, with its subresource: `pods/log`.
    pub resource: String,
    /// Verb.
    pub verb: String,
    /// Whether the request was cluster-wide rather than in one namespace.
    pub cluster_wide: bool,
}

/// Use of a permission since the dev cluster started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Used {
    /// The permission.
    #[serde(flatten)]
    pub right: Right,
    /// Number of allowed requests.
    pub allowed: u64,
    /// Number of forbidden requests.
    pub forbidden: u64,
}

/// Response of the API server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct List {
    pub(crate) items: Vec<Used>,
}

/// Client for the recorded requests of a dev cluster.
#[derive(Clone)]
pub struct Rights(Client);

impl Rights {
    /// With the permissions of this client; it needs those of an administrator.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self(client)
    }

    /// The requests of an account since the dev cluster started, by group, resource and verb.
    ///
    /// # Errors
    /// The API server does not respond, or this is not a dev cluster (404).
    pub async fn of(&self, namespace: &str, account: &str) -> kube::Result<Vec<Used>> {
        let uri = format!("{PATH}/{namespace}/{account}");
        let request = http::Request::get(uri).body(Vec::new()).map_err(kube::Error::HttpError)?;
        Ok(self.0.request::<List>(request).await?.items)
    }
}

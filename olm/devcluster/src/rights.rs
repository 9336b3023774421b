//! What ServiceAccounts asked for, for whoever writes down the rights that an operator needs.
//!
//! The API server of a dev cluster counts the requests of ServiceAccounts by verb and resource as they are authorized, and tells them at
//! [`PATH`] to whoever may do anything; [`Rights`] is the client. Reviews (`kubectl auth can-i`) are no requests for what they ask about.

use kube::Client;
use serde::{Deserialize, Serialize};

/// Where the API server of a dev cluster tells them. It is no Kubernetes API, so that no cluster but this one has it.
pub const PATH: &str = "/dev/rights";

/// One right, as a rule of a role would give it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Right {
    /// API group.
    pub group: String,
    /// Resource, with its subresource: `pods/log`.
    pub resource: String,
    /// Verb.
    pub verb: String,
    /// Whether it was asked for in the whole cluster, and not in one namespace.
    pub cluster_wide: bool,
}

/// How often a right was used since the dev cluster started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Used {
    /// The right.
    #[serde(flatten)]
    pub right: Right,
    /// Requests that were allowed.
    pub allowed: u64,
    /// Requests that were forbidden.
    pub forbidden: u64,
}

/// The answer of the API server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct List {
    pub(crate) items: Vec<Used>,
}

/// Reads what ServiceAccounts asked for, by the API server of a dev cluster.
#[derive(Clone)]
pub struct Rights(Client);

impl Rights {
    /// With the rights of this client; it needs those of an administrator.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self(client)
    }

    /// What an account asked for since the dev cluster started, by group, resource and verb.
    ///
    /// # Errors
    /// The API server does not answer, or this is no dev cluster (404).
    pub async fn of(&self, namespace: &str, account: &str) -> kube::Result<Vec<Used>> {
        let uri = format!("{PATH}/{namespace}/{account}");
        let request = http::Request::get(uri).body(Vec::new()).map_err(kube::Error::HttpError)?;
        Ok(self.0.request::<List>(request).await?.items)
    }
}

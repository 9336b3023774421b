//! State of the server, shared by requests.

use std::sync::{
    Arc, Mutex, PoisonError, RwLock,
    atomic::{AtomicI64, Ordering},
};

use olm_devcluster_machinery::backend::NodeBackend;
use tokio_util::sync::CancellationToken;

use super::{
    aggregation::registered::Aggregation,
    authn::{ISSUER, Identity, TokenAuthenticator, Tokens},
    meta,
    outbound::Network,
    policies::active::Policies,
    registry::Registry,
    request_counts::RequestCounts,
    serialized::SerializedObjects,
    store::Store,
    webhooks::active::Webhooks,
};

/// State shared by requests.
pub(crate) struct Server {
    pub store: Store,
    pub registry: Registry,
    pub tokens: Tokens,
    pub authenticator: RwLock<Option<Arc<dyn TokenAuthenticator>>>,
    pub backend: RwLock<Option<Arc<dyn NodeBackend>>>,
    pub shutdown: CancellationToken,
    /// Held while a write allocates from what objects share: the addresses of Services, and quotas.
    pub allocation: Arc<tokio::sync::Mutex<()>>,
    /// Held while the registry is updated to the stored CRDs.
    pub definitions: Mutex<()>,
    /// Time of the last purge of events, in seconds since 1970.
    pub purged: AtomicI64,
    pub webhooks: Webhooks,
    pub policies: Policies,
    pub serialized: SerializedObjects,
    pub aggregation: Aggregation,
    pub request_counts: RequestCounts,
}

impl Server {
    pub(crate) fn backend(&self) -> Option<Arc<dyn NodeBackend>> {
        self.backend.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether a minute has passed since the last purge of events; a caller that gets true performs it.
    pub(crate) fn purge_is_due(&self) -> bool {
        let (now, last) = (meta::now_unix(), self.purged.load(Ordering::Relaxed));
        now - last > 60
            && self.purged.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Access to Services and pods for calls of the server itself.
    pub(crate) fn network(&self) -> Network<'_> {
        Network { store: &self.store, backend: self.backend() }
    }

    /// The user of a token of an external issuer, if an authenticator is set.
    pub(crate) async fn external_user(&self, token: &str) -> Option<Identity> {
        let authenticator = self.authenticator.read().unwrap_or_else(PoisonError::into_inner).clone()?;
        if self.tokens.verify(&self.store, token, &[ISSUER.to_owned()]).is_some() {
            return None;
        }
        let mut identity = authenticator.authenticate(token).await?;
        // An external issuer must not assign system names.
        if identity.user.starts_with("system:") || identity.groups.iter().any(|g| g.starts_with("system:")) {
            return None;
        }
        identity.groups.push("system:authenticated".to_owned());
        Some(identity)
    }
}

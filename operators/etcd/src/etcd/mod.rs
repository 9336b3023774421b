//! Connections to etcd: one per member, never load-balanced, so that an answer belongs to one member.

mod change;
mod hash;
mod maintain;
mod observe;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use etcd_client::{Client, ConnectOptions};
use tokio::net::TcpStream;

use crate::tls::Access;

pub use change::{ChangeError, Changed};
pub(crate) use observe::permission_denied;

const TIMEOUT: Duration = Duration::from_secs(2);
/// A host that does not accept a connection within this time counts as down.
const CONNECT: Duration = Duration::from_millis(700);
/// A connection idle for this long belongs to a member that is gone.
const UNUSED: Duration = Duration::from_secs(120);

/// The connections to members, by endpoint. Clones share them.
#[derive(Default, Clone)]
pub struct Etcd {
    clients: Arc<Mutex<HashMap<String, Connection>>>,
    access: Access,
}

struct Connection {
    client: Client,
    /// Of the access it was made with: a renewed certificate makes a new connection.
    fingerprint: u64,
    used: Instant,
}

impl std::fmt::Debug for Etcd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Etcd").field("access", &self.access).finish_non_exhaustive()
    }
}

impl Etcd {
    /// The same connection pool, with the access of another cluster.
    #[must_use]
    pub fn with(&self, access: Access) -> Self {
        Self { clients: self.clients.clone(), access }
    }

    #[must_use]
    pub const fn access(&self) -> &Access {
        &self.access
    }

    /// A connection to the member behind `endpoint` (host and port).
    pub(crate) async fn client(&self, endpoint: &str) -> Result<Client, etcd_client::Error> {
        let fingerprint = self.access.fingerprint();
        if let Some(known) = self.lock().get_mut(endpoint)
            && known.fingerprint == fingerprint
        {
            known.used = Instant::now();
            return Ok(known.client.clone());
        }
        let client = match self.connect(endpoint, options()).await {
            // A learner rejects logins, and older ones answer status requests without one. The connection is
            // not cached: the learner becomes a voter.
            Err(error)
                if self.access.has_user() && error.to_string().contains("not supported for learner") =>
            {
                let anonymous = self.access.without_user().options(options());
                return Client::connect([self.url(endpoint)], Some(anonymous)).await;
            }
            other => other?,
        };
        self.remember(endpoint, &client);
        Ok(client)
    }

    /// A new connection, with a login where a user is configured.
    async fn connect(&self, endpoint: &str, options: ConnectOptions) -> Result<Client, etcd_client::Error> {
        reached(endpoint).await?;
        let url = [self.url(endpoint)];
        match Client::connect(&url, Some(self.access.options(options.clone()))).await {
            // Authentication is not enabled yet: the user is created once the cluster is complete.
            Err(error)
                if self.access.has_user() && error.to_string().contains("authentication is not enabled") =>
            {
                Client::connect(&url, Some(self.access.without_user().options(options))).await
            }
            other => other,
        }
    }

    /// A connection to the learner behind `endpoint`, with a login at the member behind `host`: tokens are
    /// valid at all members.
    async fn client_by(&self, host: &str, endpoint: &str) -> Result<Client, etcd_client::Error> {
        reached(endpoint).await?;
        let client = Client::connect([self.url(host)], Some(self.access.options(options()))).await?;
        client.add_endpoint(self.url(endpoint)).await?;
        client.remove_endpoint(self.url(host)).await?;
        self.remember(endpoint, &client);
        Ok(client)
    }

    fn url(&self, endpoint: &str) -> String {
        format!("{}://{endpoint}", self.access.scheme())
    }

    fn remember(&self, endpoint: &str, client: &Client) {
        let fingerprint = self.access.fingerprint();
        let mut clients = self.lock();
        clients.retain(|_, known| known.used.elapsed() < UNUSED);
        let connection = Connection { client: client.clone(), fingerprint, used: Instant::now() };
        clients.insert(endpoint.to_owned(), connection);
    }

    /// Drops a connection, so that the next request makes a new one.
    pub(crate) fn forget(&self, endpoint: &str) {
        self.lock().remove(endpoint);
    }

    /// Drops all connections made with this access.
    pub(crate) fn forget_all(&self) {
        let fingerprint = self.access.fingerprint();
        self.lock().retain(|_, known| known.fingerprint != fingerprint);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Connection>> {
        // The map is consistent after every statement, also when a holder of the lock panicked.
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn options() -> ConnectOptions {
    ConnectOptions::new().with_connect_timeout(CONNECT).with_timeout(TIMEOUT)
}

/// The client connects on first use and hides a rejection behind its own retries: the host is probed first.
async fn reached(endpoint: &str) -> Result<(), etcd_client::Error> {
    let refused = |error: std::io::Error| etcd_client::Error::IoError(error);
    tokio::time::timeout(CONNECT, TcpStream::connect(endpoint))
        .await
        .map_err(|_| refused(std::io::ErrorKind::TimedOut.into()))?
        .map(drop)
        .map_err(refused)
}

//! Talking to etcd: one connection per member, never one that is balanced over several. What a member says counts as
//! the word of that member.

mod change;
mod hash;
mod look;
mod maintain;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use etcd_client::{Client, ConnectOptions};
use tokio::net::TcpStream;

use crate::tls::Access;

pub use change::{ChangeError, Changed};
pub(crate) use look::permission_denied;

/// Every question must be answered within this time.
const TIMEOUT: Duration = Duration::from_secs(2);
/// A host that does not take a connection within this time is not there.
const CONNECT: Duration = Duration::from_millis(700);
/// A connection that nobody used for this long is of a member that is gone.
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
    /// The same connections, for the members of a cluster that is entered like this.
    #[must_use]
    pub fn with(&self, access: Access) -> Self {
        Self { clients: self.clients.clone(), access }
    }

    /// How it gets in.
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
            // Nobody logs in to a learner, and older ones tell everybody how they stand. It is not remembered: it will be a voter.
            Err(error)
                if self.access.has_user() && error.to_string().contains("not supported for learner") =>
            {
                let nobody = self.access.without_user().options(options());
                return Client::connect([self.url(endpoint)], Some(nobody)).await;
            }
            other => other?,
        };
        self.remember(endpoint, &client);
        Ok(client)
    }

    /// A new connection, as the user if there is authentication.
    async fn connect(&self, endpoint: &str, options: ConnectOptions) -> Result<Client, etcd_client::Error> {
        reached(endpoint).await?;
        let url = [self.url(endpoint)];
        match Client::connect(&url, Some(self.access.options(options.clone()))).await {
            // Not yet: the user is created when the cluster is whole.
            Err(error)
                if self.access.has_user() && error.to_string().contains("authentication is not enabled") =>
            {
                Client::connect(&url, Some(self.access.without_user().options(options))).await
            }
            other => other,
        }
    }

    /// A connection to the learner behind `endpoint`, with a login that the member behind `host` gave: what one has logged in, all know.
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

    /// Drops a connection, so that the next question makes a new one.
    pub(crate) fn forget(&self, endpoint: &str) {
        self.lock().remove(endpoint);
    }

    /// Drops all connections that were made like this.
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

/// The client connects when it is first used and hides a refusal behind its own retries: the host is asked first.
async fn reached(endpoint: &str) -> Result<(), etcd_client::Error> {
    let refused = |error: std::io::Error| etcd_client::Error::IoError(error);
    tokio::time::timeout(CONNECT, TcpStream::connect(endpoint))
        .await
        .map_err(|_| refused(std::io::ErrorKind::TimedOut.into()))?
        .map(drop)
        .map_err(refused)
}

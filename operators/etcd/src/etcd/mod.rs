//! Talking to etcd: one connection per member, never one that is balanced over several. What a member says counts as
//! the word of that member.

mod change;
mod look;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use etcd_client::{Client, ConnectOptions};
use tokio::net::TcpStream;

pub use change::{ChangeError, Changed};

/// Every question must be answered within this time.
const TIMEOUT: Duration = Duration::from_secs(2);
/// A host that does not take a connection within this time is not there.
const CONNECT: Duration = Duration::from_millis(700);

/// The connections to members, by endpoint.
#[derive(Default)]
pub struct Etcd {
    clients: Mutex<HashMap<String, Client>>,
}

impl std::fmt::Debug for Etcd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Etcd").finish_non_exhaustive()
    }
}

impl Etcd {
    /// A connection to the member behind `endpoint` (host and port).
    async fn client(&self, endpoint: &str) -> Result<Client, etcd_client::Error> {
        if let Some(client) = self.lock().get(endpoint) {
            return Ok(client.clone());
        }
        // The client connects when it is first used and hides a refusal behind its own retries: ask the host first.
        let refused = |error: std::io::Error| etcd_client::Error::IoError(error);
        tokio::time::timeout(CONNECT, TcpStream::connect(endpoint))
            .await
            .map_err(|_| refused(std::io::ErrorKind::TimedOut.into()))?
            .map_err(refused)?;
        let options = ConnectOptions::new().with_connect_timeout(CONNECT).with_timeout(TIMEOUT);
        let client = Client::connect([format!("http://{endpoint}")], Some(options)).await?;
        self.lock().insert(endpoint.to_owned(), client.clone());
        Ok(client)
    }

    /// Drops a connection, so that the next question makes a new one.
    fn forget(&self, endpoint: &str) {
        self.lock().remove(endpoint);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Client>> {
        // The map is whole after every statement, whoever panicked.
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

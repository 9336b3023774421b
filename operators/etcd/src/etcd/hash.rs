//! Sums over the data of members, to find one that differs.

use std::collections::BTreeMap;
use std::time::Duration;

use etcd_client::{Client, ConnectOptions};
use futures::future::join_all;
use tokio::net::TcpStream;

use super::{CONNECT, Etcd};
use crate::addressing::Addressing;
use crate::observed::{Endpoint, Hash, PodView};

/// A member reads its whole database for the sum.
const PATIENCE: Duration = Duration::from_secs(30);

impl Etcd {
    /// Asks all voters for the sum at a revision that all of them have. A difference is asked about once more before it
    /// is told: between two answers somebody may have compacted.
    pub(crate) async fn hashes(
        &self,
        pods: &[PodView],
        endpoints: &BTreeMap<String, Endpoint>,
        addressing: &dyn Addressing,
    ) -> BTreeMap<String, Hash> {
        let first = self.sums(pods, endpoints, addressing).await;
        let mut all = first.values();
        let same = all.next().is_none_or(|one| all.all(|other| one == other));
        if same { first } else { self.sums(pods, endpoints, addressing).await }
    }

    async fn sums(
        &self,
        pods: &[PodView],
        endpoints: &BTreeMap<String, Endpoint>,
        addressing: &dyn Addressing,
    ) -> BTreeMap<String, Hash> {
        let voters = || endpoints.iter().filter(|(_, e)| !e.is_learner && e.revision > 0);
        let Some(revision) = voters().map(|(_, e)| e.revision).min() else { return BTreeMap::new() };
        let questions = voters().filter_map(|(name, _)| {
            let endpoint = addressing.endpoint(pods.iter().find(|pod| pod.name == *name)?)?;
            Some(async move {
                match tokio::time::timeout(PATIENCE, self.sum(&endpoint, revision)).await {
                    Ok(Ok(hash)) => return Some((name.clone(), hash)),
                    Ok(Err(error)) => tracing::debug!(pod = name, %error, "no sum over the data"),
                    Err(_) => tracing::debug!(pod = name, "no sum over the data in time"),
                }
                None
            })
        });
        join_all(questions).await.into_iter().flatten().collect()
    }

    async fn sum(&self, endpoint: &str, revision: i64) -> Result<Hash, etcd_client::Error> {
        let answer = self.patient(endpoint).await?.maintenance_client().hash_kv(revision).await?;
        Ok(Hash { hash: answer.hash(), revision, compacted: answer.compact_version() })
    }

    /// A connection of its own: those for questions end long before a member has read all that it has.
    async fn patient(&self, endpoint: &str) -> Result<Client, etcd_client::Error> {
        // The client hides a refusal behind its own retries: ask the host first.
        let refused = |error: std::io::Error| etcd_client::Error::IoError(error);
        drop(
            tokio::time::timeout(CONNECT, TcpStream::connect(endpoint))
                .await
                .map_err(|_| refused(std::io::ErrorKind::TimedOut.into()))?
                .map_err(refused)?,
        );
        let options = ConnectOptions::new().with_connect_timeout(CONNECT).with_timeout(PATIENCE);
        let url = format!("{}://{endpoint}", self.access().scheme());
        match Client::connect([&url], Some(self.access().options(options.clone()))).await {
            // Not yet: the user is created when the cluster is whole.
            Err(error)
                if self.access().has_user()
                    && error.to_string().contains("authentication is not enabled") =>
            {
                Client::connect([&url], Some(self.access().without_user().options(options))).await
            }
            other => other,
        }
    }
}

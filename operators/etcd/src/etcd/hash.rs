//! Hashes over the data of members, to detect one that differs.

use std::collections::BTreeMap;
use std::time::Duration;

use etcd_client::{Client, ResponseHeader};

use super::{Etcd, options};
use crate::addressing::Addressing;
use crate::observed::{Endpoint, Hash, PodView};

/// Timeout: a member reads its whole database for the hash.
const PATIENCE: Duration = Duration::from_secs(30);

impl Etcd {
    /// Requests the hash of all voters at a revision that all of them have. A difference is checked once more
    /// before it is reported, unless one is already `known`: a compaction may have happened between two
    /// answers.
    pub(crate) async fn hashes(
        &self,
        pods: &[PodView],
        endpoints: &BTreeMap<String, Endpoint>,
        addressing: &dyn Addressing,
        known: bool,
    ) -> BTreeMap<String, Hash> {
        let first = self.sums(pods, endpoints, addressing).await;
        let mut all = first.values();
        if known || all.next().is_none_or(|one| all.all(|other| one == other)) {
            return first;
        }
        tracing::info!(sums = ?first, "data hashes of the members differ; requesting them again");
        self.sums(pods, endpoints, addressing).await
    }

    /// Sequential: a member takes no writes while it reads its database for the hash, and the others must
    /// continue meanwhile.
    async fn sums(
        &self,
        pods: &[PodView],
        endpoints: &BTreeMap<String, Endpoint>,
        addressing: &dyn Addressing,
    ) -> BTreeMap<String, Hash> {
        let voters = || endpoints.iter().filter(|(_, e)| e.has_sum());
        let mut sums = BTreeMap::new();
        let Some(revision) = voters().map(|(_, e)| e.revision).min() else { return sums };
        for (name, _) in voters() {
            let pod = pods.iter().find(|pod| pod.name == *name);
            let Some(endpoint) = pod.and_then(|pod| addressing.endpoint(pod)) else { continue };
            match tokio::time::timeout(PATIENCE, self.sum(&endpoint, revision)).await {
                Ok(Ok(hash)) => drop(sums.insert(name.clone(), hash)),
                Ok(Err(error)) => tracing::debug!(pod = name, %error, "failed to read the data hash"),
                Err(_) => tracing::debug!(pod = name, "timed out reading the data hash"),
            }
        }
        sums
    }

    async fn sum(&self, endpoint: &str, revision: i64) -> Result<Hash, etcd_client::Error> {
        let mut member = self.patient(endpoint).await?.maintenance_client();
        match member.hash_kv(revision).await {
            Ok(answer) => Ok(Hash { hash: answer.hash(), revision, compacted: answer.compact_version() }),
            // Up to 3.4.26 and 3.5.9 also when this is the compacted revision and the newest one, as in a
            // cluster without writes. Then the newest is requested, and the answer states its revision.
            Err(error) if error.to_string().contains("compacted") => {
                let answer = member.hash_kv(0).await?;
                let revision = answer.header().map_or(0, ResponseHeader::revision);
                Ok(Hash { hash: answer.hash(), revision, compacted: answer.compact_version() })
            }
            Err(error) => Err(error),
        }
    }

    /// A separate connection: the timeout of the shared ones is shorter than reading a whole database takes.
    async fn patient(&self, endpoint: &str) -> Result<Client, etcd_client::Error> {
        self.connect(endpoint, options().with_timeout(PATIENCE)).await
    }
}

//! What members say.

use std::collections::BTreeMap;

use futures::future::join_all;

use super::{Etcd, TIMEOUT};
use crate::addressing::Addressing;
use crate::observed::{Endpoint, Member, PodView};
use crate::validate::Validated;

/// What etcd says to a user it does not know, and to a password that is another one.
const WRONG_PASSWORD: &str = "authentication failed";
/// What it says of a login that it has forgotten.
const OLD_TOKEN: &str = "invalid auth token";

impl Etcd {
    /// Asks the etcd in every pod that can have one, all at the same time.
    pub async fn look(
        &self,
        cluster: &Validated,
        pods: &[PodView],
        addressing: &dyn Addressing,
    ) -> BTreeMap<String, Endpoint> {
        let questions = pods.iter().filter(|pod| !pod.deleting && !pod.ended).filter_map(|pod| {
            let endpoint = addressing.endpoint(pod)?;
            Some(async move {
                match tokio::time::timeout(TIMEOUT, self.ask(cluster, &endpoint, addressing)).await {
                    Ok(Ok(answer)) => return Some((pod.name.clone(), answer)),
                    Ok(Err(error)) => tracing::debug!(pod = pod.name, %error, "the member does not answer"),
                    Err(_) => tracing::debug!(pod = pod.name, "the member does not answer in time"),
                }
                self.forget(&endpoint);
                None
            })
        });
        join_all(questions).await.into_iter().flatten().collect()
    }

    async fn ask(
        &self,
        cluster: &Validated,
        endpoint: &str,
        addressing: &dyn Addressing,
    ) -> Result<Endpoint, etcd_client::Error> {
        let (client, refused) = match self.client(endpoint).await {
            // It is there, and only a person knows the password: what members tell everybody is worth knowing all the same.
            Err(error) if self.access.has_user() && error.to_string().contains(WRONG_PASSWORD) => {
                (self.with(self.access.without_user()).client(endpoint).await?, true)
            }
            other => (other?, false),
        };
        let (mut maintenance, mut members, mut kv) =
            (client.maintenance_client(), client.cluster_client(), client.kv_client());
        // The read goes through the leader and a majority: its answer, whatever it is, proves that they are there.
        let read = async {
            match tokio::time::timeout(TIMEOUT * 3 / 4, kv.get("health", None)).await {
                Ok(Ok(_)) => (true, false),
                Ok(Err(etcd_client::Error::GRpcStatus(status))) => {
                    let text = status.to_string();
                    let denied = permission_denied(&text);
                    if self.access.has_user() && (denied || text.contains(OLD_TOKEN)) {
                        // Made while authentication was off, or before it was: the next question logs in.
                        self.forget(endpoint);
                    }
                    (denied, denied)
                }
                Ok(Err(_)) | Err(_) => (false, false),
            }
        };
        let (status, list, (linearizable, denied)) =
            tokio::join!(maintenance.status(), members.member_list(), read);
        let status = status?;
        // A learner of etcd 3.4 answers nothing but its status.
        let list = match list {
            Ok(list) => list.members().iter().map(|m| member(cluster, m, addressing)).collect(),
            Err(_) if status.is_learner() => Vec::new(),
            Err(error) => return Err(error),
        };
        let header = status.header();
        let mut answer = Endpoint {
            member_id: header.map_or(0, etcd_client::ResponseHeader::member_id),
            cluster_id: header.map_or(0, etcd_client::ResponseHeader::cluster_id),
            leader: status.leader(),
            raft_index: status.raft_index(),
            applied: status.raft_applied_index(),
            is_learner: status.is_learner(),
            version: status.version().to_owned(),
            errors: status.errors().to_vec(),
            linearizable: linearizable && !status.is_learner(),
            auth: denied || self.access().has_user(),
            refused,
            db_size: u64::try_from(status.db_size()).unwrap_or_default(),
            db_in_use: u64::try_from(status.raft_used_db_size()).unwrap_or_default(),
            revision: header.map_or(0, etcd_client::ResponseHeader::revision),
            members: list,
        };
        answer.members.sort_by_key(|m| m.id);
        Ok(answer)
    }
}

/// With authentication switched on by somebody, the refusal is an answer that went through the quorum.
pub(crate) fn permission_denied(text: &str) -> bool {
    // The last of a client certificate whose name is no user.
    ["permission denied", "user name is empty", "user name not found"]
        .iter()
        .any(|words| text.contains(words))
}

fn member(cluster: &Validated, member: &etcd_client::Member, addressing: &dyn Addressing) -> Member {
    let peer_url = member.peer_urls().first().cloned().unwrap_or_default();
    Member {
        id: member.id(),
        pod: addressing.member(cluster, &peer_url),
        peer_url,
        started: !member.name().is_empty(),
        is_learner: member.is_learner(),
    }
}

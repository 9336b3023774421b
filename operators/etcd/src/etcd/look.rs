//! What members say.

use std::collections::BTreeMap;

use etcd_client::Client;
use futures::future::join_all;

use super::{Etcd, TIMEOUT};
use crate::addressing::Addressing;
use crate::observed::{Endpoint, Heard, Member, PodView};
use crate::validate::Validated;

/// What etcd says to a user it does not know, and to a password that is another one.
const WRONG_PASSWORD: &str = "authentication failed";
/// What it says of a login that it has forgotten.
const OLD_TOKEN: &str = "invalid auth token";

/// What one member answers.
struct Said {
    /// Nothing of itself, as long as it does not know who asks.
    endpoint: Option<Endpoint>,
    /// The password is not the one it knows.
    refused: bool,
}

impl Etcd {
    /// Asks the etcd in every pod that can have one, all at the same time.
    pub async fn look(&self, cluster: &Validated, pods: &[PodView], addressing: &dyn Addressing) -> Heard {
        let asked = pods.iter().filter(|pod| !pod.deleting && !pod.ended);
        let asked: BTreeMap<&str, String> =
            asked.filter_map(|pod| Some((pod.name.as_str(), addressing.endpoint(pod)?))).collect();
        let questions = asked.iter().map(|(&pod, endpoint)| async move {
            let said = self.in_time(pod, endpoint, self.ask(cluster, endpoint, addressing)).await;
            (pod.to_owned(), said)
        });
        let mut heard = Heard::default();
        for (pod, said) in join_all(questions).await {
            let Some(said) = said else { continue };
            if said.refused {
                heard.refused.insert(pod.clone());
            }
            match said.endpoint {
                Some(endpoint) => _ = heard.endpoints.insert(pod, endpoint),
                None => _ = heard.silent.insert(pod),
            }
        }
        // A learner logs nobody in, but knows those whom others have logged in.
        let lets_in = |(pod, e): &(&String, &Endpoint)| {
            e.linearizable && !e.is_learner && !heard.refused.contains(*pod)
        };
        let host = heard.endpoints.iter().find(lets_in).map(|(pod, _)| pod);
        if let Some(host) = host.and_then(|pod| asked.get(pod.as_str())).filter(|_| self.access.has_user()) {
            let learners =
                heard.silent.difference(&heard.refused).filter_map(|pod| asked.get_key_value(pod.as_str()));
            let questions = learners.map(|(&pod, endpoint)| async move {
                let said = self.ask_by(host, cluster, endpoint, addressing);
                Some((pod.to_owned(), self.in_time(pod, endpoint, said).await??))
            });
            let said: Vec<_> = join_all(questions).await.into_iter().flatten().collect();
            heard.endpoints.extend(said);
        }
        if self.access.has_user() {
            // Whom the password is not refused by, that is no matter of a password.
            let Heard { silent, refused, .. } = &mut heard;
            silent.retain(|pod| refused.contains(pod));
        }
        heard
    }

    /// An answer that comes in time. For want of one the next question makes a new connection.
    async fn in_time<T>(
        &self,
        pod: &str,
        endpoint: &str,
        answer: impl Future<Output = Result<T, etcd_client::Error>>,
    ) -> Option<T> {
        match tokio::time::timeout(TIMEOUT, answer).await {
            Ok(Ok(answer)) => return Some(answer),
            Ok(Err(error)) => tracing::debug!(pod, %error, "request to the member failed"),
            Err(_) => tracing::debug!(pod, "request to the member timed out"),
        }
        self.forget(endpoint);
        None
    }

    async fn ask(
        &self,
        cluster: &Validated,
        endpoint: &str,
        addressing: &dyn Addressing,
    ) -> Result<Said, etcd_client::Error> {
        let (client, refused) = match self.client(endpoint).await {
            // It is there, and only a person knows the password: what members tell everybody is worth knowing all the same.
            Err(error) if self.access.has_user() && error.to_string().contains(WRONG_PASSWORD) => {
                (self.with(self.access.without_user()).client(endpoint).await?, true)
            }
            other => (other?, false),
        };
        let endpoint = self.question(cluster, endpoint, addressing, &client).await?;
        Ok(Said { endpoint, refused })
    }

    /// The same, with the login that another member gave.
    async fn ask_by(
        &self,
        host: &str,
        cluster: &Validated,
        endpoint: &str,
        addressing: &dyn Addressing,
    ) -> Result<Option<Endpoint>, etcd_client::Error> {
        let client = self.client_by(host, endpoint).await?;
        self.question(cluster, endpoint, addressing, &client).await
    }

    /// What a member says of itself over a connection; nothing when it asks who we are. Up to etcd 3.5.27 it tells everybody how
    /// it stands; later ones, and all of 3.6, do not (CVE-2026-33413).
    async fn question(
        &self,
        cluster: &Validated,
        endpoint: &str,
        addressing: &dyn Addressing,
        client: &Client,
    ) -> Result<Option<Endpoint>, etcd_client::Error> {
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
        let answers = match (status, list) {
            // A learner of etcd 3.4 answers nothing but its status.
            (Ok(status), Err(_)) if status.is_learner() => Ok((status, Vec::new())),
            (Ok(status), Ok(list)) => {
                let members = list.members().iter().map(|m| member(cluster, m, addressing)).collect();
                Ok((status, members))
            }
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        let (status, members) = match answers {
            Err(error) if asks(&error.to_string()) => {
                // Made before authentication was on, or by a login that is forgotten.
                self.forget(endpoint);
                return Ok(None);
            }
            other => other?,
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
            db_size: u64::try_from(status.db_size()).unwrap_or_default(),
            db_in_use: u64::try_from(status.raft_used_db_size()).unwrap_or_default(),
            revision: header.map_or(0, etcd_client::ResponseHeader::revision),
            members,
        };
        answer.members.sort_by_key(|m| m.id);
        Ok(Some(answer))
    }
}

/// It wants to know who we are. The last is what a learner says of a login that it has forgotten: the client tries to log in again, and
/// a learner lets nobody.
fn asks(text: &str) -> bool {
    permission_denied(text) || text.contains("not supported for learner")
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

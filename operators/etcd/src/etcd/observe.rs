//! Status requests to members.

use std::collections::BTreeMap;

use etcd_client::Client;
use futures::future::join_all;

use super::{Etcd, TIMEOUT};
use crate::addressing::Addressing;
use crate::observed::{Answers, Endpoint, Member, PodView};
use crate::validate::Validated;

/// etcd's message for an unknown user and for a wrong password.
const WRONG_PASSWORD: &str = "authentication failed";
/// etcd's message for a login that it has forgotten.
const OLD_TOKEN: &str = "invalid auth token";

/// Answer of one member.
struct MemberAnswer {
    /// None while it requires authentication.
    endpoint: Option<Endpoint>,
    /// It rejects the password.
    refused: bool,
}

impl Etcd {
    /// Queries the etcd of every pod with an address, concurrently.
    pub async fn observe(
        &self,
        cluster: &Validated,
        pods: &[PodView],
        addressing: &dyn Addressing,
    ) -> Answers {
        let asked = pods.iter().filter(|pod| !pod.deleting && !pod.ended);
        let asked: BTreeMap<&str, String> =
            asked.filter_map(|pod| Some((pod.name.as_str(), addressing.endpoint(pod)?))).collect();
        let requests = asked.iter().map(|(&pod, endpoint)| async move {
            let answer = self.in_time(pod, endpoint, self.query(cluster, endpoint, addressing)).await;
            (pod.to_owned(), answer)
        });
        let mut answers = Answers::default();
        for (pod, answer) in join_all(requests).await {
            let Some(answer) = answer else { continue };
            if answer.refused {
                answers.refused.insert(pod.clone());
            }
            match answer.endpoint {
                Some(endpoint) => _ = answers.endpoints.insert(pod, endpoint),
                None => _ = answers.silent.insert(pod),
            }
        }
        // A learner accepts no logins, but accepts tokens of other members.
        let lets_in = |(pod, e): &(&String, &Endpoint)| {
            e.linearizable && !e.is_learner && !answers.refused.contains(*pod)
        };
        let host = answers.endpoints.iter().find(lets_in).map(|(pod, _)| pod);
        if let Some(host) = host.and_then(|pod| asked.get(pod.as_str())).filter(|_| self.access.has_user()) {
            let learners = answers
                .silent
                .difference(&answers.refused)
                .filter_map(|pod| asked.get_key_value(pod.as_str()));
            let requests = learners.map(|(&pod, endpoint)| async move {
                let answer = self.query_with_login_at(host, cluster, endpoint, addressing);
                Some((pod.to_owned(), self.in_time(pod, endpoint, answer).await??))
            });
            let answer: Vec<_> = join_all(requests).await.into_iter().flatten().collect();
            answers.endpoints.extend(answer);
        }
        if self.access.has_user() {
            // With a user, only members that reject the password count as silent; others are silent for other reasons.
            let Answers { silent, refused, .. } = &mut answers;
            silent.retain(|pod| refused.contains(pod));
        }
        answers
    }

    /// An answer within the timeout. Otherwise the next request makes a new connection.
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

    async fn query(
        &self,
        cluster: &Validated,
        endpoint: &str,
        addressing: &dyn Addressing,
    ) -> Result<MemberAnswer, etcd_client::Error> {
        let (client, refused) = match self.client(endpoint).await {
            // The member runs, and only a user has the password: its unauthenticated answers are still
            // useful.
            Err(error) if self.access.has_user() && error.to_string().contains(WRONG_PASSWORD) => {
                (self.with(self.access.without_user()).client(endpoint).await?, true)
            }
            other => (other?, false),
        };
        let endpoint = self.query_over(cluster, endpoint, addressing, &client).await?;
        Ok(MemberAnswer { endpoint, refused })
    }

    /// The same, with a login at another member.
    async fn query_with_login_at(
        &self,
        host: &str,
        cluster: &Validated,
        endpoint: &str,
        addressing: &dyn Addressing,
    ) -> Result<Option<Endpoint>, etcd_client::Error> {
        let client = self.client_by(host, endpoint).await?;
        self.query_over(cluster, endpoint, addressing, &client).await
    }

    /// Status of a member over a connection; none when it requires authentication. Up to etcd 3.5.27 status
    /// needs no login; later 3.5 versions and all of 3.6 require it (CVE-2026-33413).
    async fn query_over(
        &self,
        cluster: &Validated,
        endpoint: &str,
        addressing: &dyn Addressing,
        client: &Client,
    ) -> Result<Option<Endpoint>, etcd_client::Error> {
        let (mut maintenance, mut members, mut kv) =
            (client.maintenance_client(), client.cluster_client(), client.kv_client());
        // The read passes through the leader and a majority: any answer proves that they exist.
        let read = async {
            match tokio::time::timeout(TIMEOUT * 3 / 4, kv.get("health", None)).await {
                Ok(Ok(_)) => (true, false),
                Ok(Err(etcd_client::Error::GRpcStatus(status))) => {
                    let text = status.to_string();
                    let denied = permission_denied(&text);
                    if self.access.has_user() && (denied || text.contains(OLD_TOKEN)) {
                        // Made while or before authentication was off: the next request logs in.
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
            // A learner of etcd 3.4 answers only status requests.
            (Ok(status), Err(_)) if status.is_learner() => Ok((status, Vec::new())),
            (Ok(status), Ok(list)) => {
                let members = list.members().iter().map(|m| member(cluster, m, addressing)).collect();
                Ok((status, members))
            }
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        let (status, members) = match answers {
            Err(error) if requires_login(&error.to_string()) => {
                // Made before authentication was on, or with a forgotten login.
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

/// Whether the member requires authentication. The last message is a learner's answer to a forgotten login:
/// the client logs in again, and a learner rejects logins.
fn requires_login(text: &str) -> bool {
    permission_denied(text) || text.contains("not supported for learner")
}

/// With authentication enabled by a user, the rejection is an answer that passed through the quorum.
pub(crate) fn permission_denied(text: &str) -> bool {
    // The last is for a client certificate whose name is not a user.
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

//! Source member of a snapshot: a voter that has a leader and is up to date, preferably not the leader,
//! which has the most load. Unreachable members are reported and not waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;

use crate::etcd::{Etcd, permission_denied};
use crate::tls::Access;

const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// A member more entries than this behind the newest one is not up to date.
const LAG: u64 = 1000;

/// Answer of one member.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct VoterStatus {
    pub(crate) member_id: u64,
    pub(crate) cluster_id: u64,
    pub(crate) leader: u64,
    pub(crate) applied: u64,
    pub(crate) is_learner: bool,
    pub(crate) corrupt: bool,
    pub(crate) version: String,
    /// Client endpoints (host and port) of the voters that it lists.
    pub(crate) clients: Vec<String>,
}

/// Usable members in order of preference, and the unusable ones with reasons.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Candidates {
    pub(crate) best: Vec<(String, VoterStatus)>,
    pub(crate) skipped: Vec<String>,
}

pub(crate) fn rank(answers: &BTreeMap<String, Result<VoterStatus, String>>) -> Result<Candidates, String> {
    let mut found = Candidates::default();
    let clusters: BTreeSet<u64> = answers.values().flatten().map(|a| a.cluster_id).collect();
    if clusters.len() > 1 {
        let list: Vec<String> = clusters.iter().map(|id| format!("{id:x}")).collect();
        return Err(format!(
            "the endpoints belong to different etcd clusters ({}), expected endpoints of one cluster",
            list.join(", ")
        ));
    }
    let newest = answers.values().flatten().map(|a| a.applied).max().unwrap_or_default();
    let mut known = BTreeSet::new();
    for (endpoint, answer) in answers {
        let why = match answer {
            Err(why) => why.clone(),
            Ok(a) if a.is_learner => "member is a learner".into(),
            Ok(a) if a.leader == 0 => "member has no leader: its cluster has no quorum".into(),
            Ok(a) if a.corrupt => "member is corrupt (alarm CORRUPT)".into(),
            Ok(a) if a.applied + LAG < newest => format!("member is {} entries behind", newest - a.applied),
            Ok(a) => {
                // One member may have many endpoints.
                if known.insert(a.member_id) {
                    found.best.push((endpoint.clone(), a.clone()));
                }
                continue;
            }
        };
        found.skipped.push(format!("{endpoint}: {why}"));
    }
    found.best.sort_by_key(|(_, a)| (a.leader == a.member_id, std::cmp::Reverse(a.applied)));
    if found.best.is_empty() {
        let why = if found.skipped.is_empty() { "no endpoints".into() } else { found.skipped.join("; ") };
        return Err(format!("no member is suitable for a backup: {why}"));
    }
    Ok(found)
}

/// Host and port of an endpoint in the user's notation. A host of one word is a Service of the namespace.
pub(crate) fn address(endpoint: &str, namespace: &str) -> Result<(bool, String, String), String> {
    let (tls, rest) = match endpoint.split_once("://") {
        Some(("http", rest)) => (false, rest),
        Some(("https", rest)) => (true, rest),
        Some((other, _)) => {
            return Err(format!("{endpoint}: invalid scheme {other:?}, expected http or https"));
        }
        None => (false, endpoint),
    };
    let rest = rest.trim_end_matches('/');
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            (host, port.parse::<u16>().map_err(|_| format!("{endpoint}: invalid port {port:?}"))?)
        }
        _ => (rest, crate::names::CLIENT_PORT),
    };
    if host.is_empty() || host.contains(['/', '@', '?', ' ']) {
        return Err(format!("{endpoint}: expected http(s)://<host>:<port>"));
    }
    let local = host == "localhost" || host.starts_with('[') || host.contains('.');
    let host = if local { host.to_owned() } else { format!("{host}.{namespace}.svc") };
    Ok((tls, format!("{host}:{port}"), host))
}

/// Credentials for the members of one cluster.
pub(crate) struct MemberClients<'a> {
    pub(crate) etcd: &'a Etcd,
    pub(crate) entry: Entry<'a>,
}

pub(crate) enum Entry<'a> {
    /// The same for all members.
    Known(&'a Access),
    /// Certificates from a user's Secret; each server is verified under its own name.
    Secret(&'a str, &'a Secret),
    Plain,
}

impl MemberClients<'_> {
    /// Connections for the host of an endpoint.
    pub(crate) fn etcd(&self, host: &str) -> Result<Etcd, String> {
        let access = match &self.entry {
            Entry::Known(access) => (*access).clone(),
            Entry::Plain => Access::plain(),
            Entry::Secret(name, secret) => {
                Access::client(name, Some(secret), host.trim_matches(['[', ']']), Timestamp::now())
                    .map_err(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?
            }
        };
        Ok(self.etcd.with(access))
    }

    /// Requests the status of endpoints (host and port).
    pub(crate) async fn query(
        &self,
        endpoints: &BTreeSet<String>,
    ) -> BTreeMap<String, Result<VoterStatus, String>> {
        let questions = endpoints.iter().map(|endpoint| async move {
            let answer = match tokio::time::timeout(RESPONSE_TIMEOUT, self.status(endpoint)).await {
                Ok(answer) => answer,
                Err(_) => Err(format!("no response within {} seconds", RESPONSE_TIMEOUT.as_secs())),
            };
            (endpoint.clone(), answer)
        });
        join_all(questions).await.into_iter().collect()
    }

    async fn status(&self, endpoint: &str) -> Result<VoterStatus, String> {
        let etcd = self.etcd(host_of(endpoint))?;
        let client = etcd.client(endpoint).await.map_err(|e| message_of(&e))?;
        let (mut maintenance, mut members) = (client.maintenance_client(), client.cluster_client());
        let status = maintenance.status().await.map_err(|e| match etcd.access().has_user() {
            // A learner, which rejects logins.
            true => message_of(&e),
            false => with_hint(message_of(&e)),
        })?;
        // A learner of etcd 3.4 answers only status requests.
        let list = members.member_list().await.ok();
        let voters = list.iter().flat_map(|list| list.members()).filter(|m| !m.is_learner());
        let clients = voters.flat_map(|m| m.client_urls().to_vec());
        let header = status.header();
        Ok(VoterStatus {
            member_id: header.map_or(0, etcd_client::ResponseHeader::member_id),
            cluster_id: header.map_or(0, etcd_client::ResponseHeader::cluster_id),
            leader: status.leader(),
            applied: status.raft_applied_index(),
            is_learner: status.is_learner(),
            corrupt: status.errors().iter().any(|error| error.contains("CORRUPT")),
            version: status.version().to_owned(),
            clients: clients
                .filter_map(|url| address(&url, "").ok())
                .map(|(_, address, _)| address)
                .collect(),
        })
    }

    /// Queries the endpoints, and then those that they list.
    pub(crate) async fn survey(
        &self,
        endpoints: &BTreeSet<String>,
    ) -> BTreeMap<String, Result<VoterStatus, String>> {
        let mut answers = self.query(endpoints).await;
        let named: BTreeSet<String> =
            answers.values().flatten().flat_map(|a| a.clients.iter().cloned()).collect();
        let more: BTreeSet<String> = named.difference(endpoints).cloned().collect();
        answers.extend(self.query(&more).await);
        answers
    }

    /// Revision by a linearizable read, which passes through the leader and a majority: the answer of this
    /// member is not stale.
    pub(crate) async fn fresh(&self, endpoint: &str) -> Result<i64, String> {
        let client = self.etcd(host_of(endpoint))?.client(endpoint).await.map_err(|e| message_of(&e))?;
        let mut kv = client.kv_client();
        let answer = tokio::time::timeout(RESPONSE_TIMEOUT, kv.get("health", None)).await;
        let answer = answer
            .map_err(|_| format!("no response to a read within {} seconds", RESPONSE_TIMEOUT.as_secs()))?;
        let answer = answer.map_err(|e| with_hint(message_of(&e)))?;
        Ok(answer.header().map_or(0, etcd_client::ResponseHeader::revision))
    }

    /// Streams the snapshot of a member.
    pub(crate) async fn snapshot(
        &self,
        endpoint: &str,
    ) -> Result<impl Stream<Item = Result<Bytes, String>> + use<>, String> {
        let client = self.etcd(host_of(endpoint))?.client(endpoint).await.map_err(|e| message_of(&e))?;
        let stream = client.maintenance_client().snapshot().await.map_err(|e| with_hint(message_of(&e)))?;
        Ok(futures::stream::try_unfold(stream, |mut stream| async move {
            let piece = stream.message().await.map_err(|e| message_of(&e))?;
            Ok(piece.map(|piece| (Bytes::from_owner(SnapshotChunk(piece)), stream)))
        }))
    }
}

/// A chunk as etcd sent it, read without a copy.
struct SnapshotChunk(etcd_client::SnapshotResponse);

impl AsRef<[u8]> for SnapshotChunk {
    fn as_ref(&self) -> &[u8] {
        self.0.blob()
    }
}

/// The message of etcd; for an authentication error with a hint.
fn with_hint(words: String) -> String {
    if !permission_denied(&words) {
        return words;
    }
    format!(
        "{words}: authentication is enabled in etcd and only user root may read snapshots. hint: set \
         spec.clusterName to the EtcdCluster, and its spec.auth.rootSecret to the Secret with the password \
         of root"
    )
}

/// The message of etcd without its transport wrapper.
pub(crate) fn message_of(error: &etcd_client::Error) -> String {
    let text = match error {
        etcd_client::Error::GRpcStatus(status) => status.message().to_owned(),
        other => other.to_string(),
    };
    crate::storage::shorten(&text)
}

fn host_of(endpoint: &str) -> &str {
    endpoint.rsplit_once(':').map_or(endpoint, |(host, _)| host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn voter(member_id: u64, applied: u64) -> Result<VoterStatus, String> {
        Ok(VoterStatus { member_id, cluster_id: 7, leader: 1, applied, ..VoterStatus::default() })
    }

    fn ranked(answers: &[(&str, Result<VoterStatus, String>)]) -> Result<Candidates, String> {
        rank(&answers.iter().map(|(e, a)| ((*e).to_owned(), a.clone())).collect())
    }

    #[test]
    fn a_follower_that_is_up_to_date_is_best_and_the_leader_last() {
        let found = ranked(&[
            ("a", voter(1, 5000)),
            ("b", voter(2, 4990)),
            ("c", voter(3, 4999)),
            ("d", voter(4, 10)),
        ])
        .unwrap();
        let order: Vec<&str> = found.best.iter().map(|(e, _)| e.as_str()).collect();
        assert_eq!(order, ["c", "b", "a"]);
        assert_eq!(found.skipped, ["d: member is 4990 entries behind"]);
    }

    #[test]
    fn one_endpoint_that_does_not_answer_does_not_stop_a_backup() {
        let found =
            ranked(&[("a", Err("refused".into())), ("b", voter(2, 9)), ("service", voter(2, 9))]).unwrap();
        assert_eq!(found.best.len(), 1);
        assert_eq!(found.skipped, ["a: refused"]);
    }

    #[test]
    fn learners_members_without_a_leader_and_corrupt_ones_are_not_used() {
        let change = |change: fn(&mut VoterStatus)| {
            voter(2, 9).map(|mut a| {
                change(&mut a);
                a
            })
        };
        let error = ranked(&[
            ("a", change(|a| a.is_learner = true)),
            ("b", change(|a| a.leader = 0)),
            ("c", change(|a| a.corrupt = true)),
        ])
        .unwrap_err();
        for words in ["learner", "no quorum", "CORRUPT"] {
            assert!(error.contains(words), "{error}");
        }
        let other = change(|a| a.cluster_id = 8);
        assert!(
            ranked(&[("a", voter(1, 1)), ("b", other)])
                .unwrap_err()
                .contains("different etcd clusters (7, 8)")
        );
        assert!(ranked(&[]).unwrap_err().contains("no endpoints"));
    }

    #[test]
    fn hosts_of_one_word_are_services_of_the_namespace() {
        let at = |text: &str| address(text, "shop").map(|(tls, address, _)| (tls, address));
        assert_eq!(at("http://orders-client:2379").unwrap(), (false, "orders-client.shop.svc:2379".into()));
        assert_eq!(
            at("https://orders-client.other.svc/").unwrap(),
            (true, "orders-client.other.svc:2379".into())
        );
        assert_eq!(at("127.0.0.1:1234").unwrap(), (false, "127.0.0.1:1234".into()));
        assert_eq!(at("http://[::1]:2379").unwrap(), (false, "[::1]:2379".into()));
        for bad in ["", "http://", "ftp://a:1", "http://a:b", "http://a:99999", "http://u@h:1", "unix:///x"] {
            assert!(at(bad).is_err(), "{bad}");
        }
    }
}

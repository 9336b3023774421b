//! The members' own answers, queried one by one at their inside addresses: the test's observation, unaffected
//! by cut wires.

use std::{collections::BTreeMap, net::Ipv4Addr, time::Duration};

use anyhow::{Context as _, Result};
use etcd_client::Client;
use futures::future::join_all;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::entry::Entry;

const ANSWER: Duration = Duration::from_millis(1500);
/// Timeout of the test's own requests on a busy machine.
const WANT: Duration = Duration::from_secs(15);

/// A member in a member list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    pub id: u64,
    /// Name; empty until it started.
    pub name: String,
    pub peer_urls: Vec<String>,
    /// It has no vote.
    pub learner: bool,
}

/// Answer of one member.
#[derive(Debug, Clone, Default)]
pub struct MemberReport {
    pub id: u64,
    pub cluster: u64,
    /// The leader; 0 when it has none.
    pub leader: u64,
    /// The leader's term.
    pub term: u64,
    /// The last entry of its log.
    pub index: u64,
    /// The last applied entry.
    pub applied: u64,
    /// Whether it has no vote.
    pub learner: bool,
    pub version: String,
    /// Errors and alarms.
    pub errors: Vec<String>,
    /// Size of its database.
    pub db_size: i64,
    /// The members in its list, by id; empty for a learner, which does not return it.
    pub members: Vec<Listed>,
    /// Revision of its data.
    pub revision: i64,
}

/// Answers of all members, by name. Without those that do not answer.
#[derive(Debug, Clone, Default)]
pub struct Facts(pub BTreeMap<String, MemberReport>);

/// A client of one member without TLS, at an address with port 2379.
/// # Errors
/// When the address is invalid.
pub async fn client(ip: Ipv4Addr) -> Result<Client> {
    Entry::default().client(ip, WANT).await
}

/// Queries one member.
/// # Errors
/// When it does not answer.
pub async fn ask(entry: &Entry, ip: Ipv4Addr) -> Result<MemberReport> {
    ask_within(ANSWER, entry, ip).await
}

async fn ask_within(limit: Duration, entry: &Entry, ip: Ipv4Addr) -> Result<MemberReport> {
    let asked = async {
        // The client hides a rejection behind its own retries.
        drop(tokio::net::TcpStream::connect((ip, 2379)).await?);
        let client = entry.client(ip, limit).await?;
        let (mut maintenance, mut cluster) = (client.maintenance_client(), client.cluster_client());
        let (status, list) = tokio::join!(maintenance.status(), cluster.member_list());
        let status = status?;
        let header = status.header().context("an answer without a header")?;
        let mut members: Vec<Listed> = Vec::new();
        if let Ok(list) = list {
            members = list
                .members()
                .iter()
                .map(|m| Listed {
                    id: m.id(),
                    name: m.name().to_owned(),
                    peer_urls: m.peer_urls().to_vec(),
                    learner: m.is_learner(),
                })
                .collect();
            members.sort();
        }
        anyhow::Ok(MemberReport {
            id: header.member_id(),
            cluster: header.cluster_id(),
            leader: status.leader(),
            term: status.raft_term(),
            index: status.raft_index(),
            applied: status.raft_applied_index(),
            learner: status.is_learner(),
            version: status.version().to_owned(),
            errors: status.errors().to_vec(),
            db_size: status.db_size(),
            members,
            revision: header.revision(),
        })
    };
    tokio::time::timeout(limit, asked).await.context("no answer in time")?
}

/// The cluster version that the members have agreed on, as reported by one.
/// # Errors
/// When it does not answer.
pub async fn cluster_version(ip: Ipv4Addr) -> Result<String> {
    let asked = async {
        let mut stream = tokio::net::TcpStream::connect((ip, 2379)).await?;
        let question = format!("GET /version HTTP/1.1\r\nHost: {ip}\r\nConnection: close\r\n\r\n");
        stream.write_all(question.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        let text = String::from_utf8_lossy(&answer).into_owned();
        let body = text.split_once("\r\n\r\n").context("an answer without a body")?.1;
        let value: serde_json::Value = serde_json::from_str(body.trim())?;
        Ok(value["etcdcluster"].as_str().context("no version in it")?.to_owned())
    };
    tokio::time::timeout(ANSWER, asked).await.context("no answer in time")?
}

impl Facts {
    /// Queries members concurrently.
    pub async fn of(entry: &Entry, members: impl IntoIterator<Item = (String, Ipv4Addr)>) -> Self {
        Self::within(ANSWER, entry, members).await
    }

    /// The same with a timeout for each.
    pub(super) async fn within(
        limit: Duration,
        entry: &Entry,
        members: impl IntoIterator<Item = (String, Ipv4Addr)>,
    ) -> Self {
        let asked = members
            .into_iter()
            .map(|(name, ip)| async move { Some((name, ask_within(limit, entry, ip).await.ok()?)) });
        Self(join_all(asked).await.into_iter().flatten().collect())
    }

    /// The leader that most voters follow.
    #[must_use]
    pub fn leader(&self) -> Option<u64> {
        let mut votes: BTreeMap<u64, usize> = BTreeMap::new();
        for report in self.0.values().filter(|report| report.leader != 0 && !report.learner) {
            *votes.entry(report.leader).or_default() += 1;
        }
        votes.into_iter().max_by_key(|(_, count)| *count).map(|(id, _)| id)
    }

    /// The member list of the leader, otherwise of the member with the newest log.
    #[must_use]
    pub fn members(&self) -> Vec<Listed> {
        let leader = self.leader();
        let lists = || self.0.values().filter(|report| !report.members.is_empty());
        let best = lists()
            .find(|report| Some(report.id) == leader)
            .or_else(|| lists().max_by_key(|report| (report.term, report.applied)));
        best.map(|report| report.members.clone()).unwrap_or_default()
    }

    #[must_use]
    pub fn voters(&self) -> Vec<Listed> {
        self.members().into_iter().filter(|m| !m.learner).collect()
    }

    #[must_use]
    pub fn learners(&self) -> Vec<Listed> {
        self.members().into_iter().filter(|m| m.learner).collect()
    }

    /// The answer of the member with an id.
    #[must_use]
    pub fn by_id(&self, id: u64) -> Option<&MemberReport> {
        self.0.values().find(|report| report.id == id)
    }

    /// Whether a voter answers and follows the leader of the majority.
    #[must_use]
    pub fn healthy(&self, id: u64) -> bool {
        self.by_id(id).is_some_and(|report| {
            !report.learner && report.leader != 0 && Some(report.leader) == self.leader()
        })
    }

    /// In one line, for messages.
    #[must_use]
    pub fn brief(&self) -> String {
        let reports = self.0.iter().map(|(name, s)| {
            format!(
                "{name}: id {:x}, leader {:x}, term {}, applied {}/{}{}",
                s.id,
                s.leader,
                s.term,
                s.applied,
                s.index,
                if s.learner { ", learner" } else { "" }
            )
        });
        let members = self
            .members()
            .into_iter()
            .map(|m| format!("{:x} {:?}{}", m.id, m.name, if m.learner { " (learner)" } else { "" }));
        format!(
            "[{}] members [{}]",
            reports.collect::<Vec<_>>().join("; "),
            members.collect::<Vec<_>>().join(", ")
        )
    }
}

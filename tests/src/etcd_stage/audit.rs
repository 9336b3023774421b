//! Records the operator's requests to etcd, and checks them against the state at that moment.
//!
//! Each operator reaches members at its own port. Requests are forwarded to the member unchanged; but before
//! a change, all members are queried whether it is allowed (reference, section 6.2), and a fault may be
//! injected as at any call to Kubernetes.

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper::{body::Incoming, client::conn::http2::SendRequest, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

pub use super::grpc::Change;
use super::{entry::Entry, facts::Facts, net::Net, wire::Wires};
use crate::inprocess::{Fault, Faults};

type Body = UnsyncBoxBody<Bytes, io::Error>;

/// Maximum age of an operator's observation when it requests a change: it gives members two seconds to
/// answer. A later fault of the test excuses it.
const LOOK: Duration = Duration::from_secs(4);

/// Maximum lag of a learner that is to be promoted: the operator's limit of 1,000, and writes of clients
/// after its observation. etcd itself checks that it has nine tenths of the leader's log, by the leader's
/// state at the request (`isLearnerReady`). Members are queried before that, so in a young cluster, where an
/// entry is a tenth of the log, their answers do not show the leader's later state.
const BEHIND: u64 = 2000;

/// Timeout of the audit's queries: longer than the operator's, so that a member that it observed on a busy
/// machine is observed here too; shorter than the operator's timeout of the change itself.
const EYES: Duration = Duration::from_secs(4);

/// One requested change.
#[derive(Debug, Clone)]
pub struct Rpc {
    /// Index among all calls of the operators, to Kubernetes too.
    pub number: usize,
    /// Slot of the operator.
    pub slot: u16,
    /// The member that received the request.
    pub via: String,
    pub change: Change,
    pub at: Instant,
    /// The members' answers right before.
    pub facts: Facts,
    /// Violated rules.
    pub wrong: Vec<String>,
    /// A fault of the test was too recent for the operator to observe it.
    pub excused: bool,
    /// etcd's answer: code and message; `None` without one.
    pub answer: Option<(String, String)>,
}

impl Rpc {
    /// Whether etcd made the change.
    #[must_use]
    pub fn made(&self) -> bool {
        self.answer.as_ref().is_some_and(|(code, _)| code == "0")
    }

    #[must_use]
    pub fn brief(&self) -> String {
        let answer =
            self.answer.as_ref().map_or("no answer".to_owned(), |(code, text)| format!("{code} {text}"));
        format!("#{} slot {} {:?} via {} → {answer}", self.number, self.slot, self.change, self.via)
    }
}

/// The audit of a stage.
pub struct Audit {
    net: Arc<Net>,
    wires: Arc<Wires>,
    faults: BTreeMap<u16, Faults>,
    log: Mutex<Vec<Rpc>>,
    disturbed: Mutex<Option<Instant>>,
    lives: Mutex<BTreeMap<u16, CancellationToken>>,
}

impl Audit {
    pub(super) fn new(net: Arc<Net>, wires: Arc<Wires>, faults: BTreeMap<u16, Faults>) -> Arc<Self> {
        let (log, disturbed, lives) = (Mutex::default(), Mutex::default(), Mutex::default());
        Arc::new(Self { net, wires, faults, log, disturbed, lives })
    }

    /// Every requested change so far.
    #[must_use]
    pub fn log(&self) -> Vec<Rpc> {
        lock(&self.log).clone()
    }

    /// Membership changes since this number of entries.
    #[must_use]
    pub fn membership_since(&self, from: usize) -> Vec<Rpc> {
        lock(&self.log).iter().skip(from).filter(|rpc| rpc.change.is_membership()).cloned().collect()
    }

    /// Number of entries.
    #[must_use]
    pub fn count(&self) -> usize {
        lock(&self.log).len()
    }

    /// Records that the test disturbs a member now.
    pub fn disturb(&self) {
        *lock(&self.disturbed) = Some(Instant::now());
    }

    /// The operator of a slot lives until this is cancelled.
    pub(super) fn life(&self, slot: u16) -> CancellationToken {
        lock(&self.lives).get(&slot).cloned().unwrap_or_default()
    }

    /// The operator of a slot lives until this is cancelled.
    pub(super) fn lives(&self, slot: u16, dead: CancellationToken) {
        lock(&self.lives).insert(slot, dead);
    }

    /// Listens for the operators of all slots at a member.
    pub(super) async fn listen(self: &Arc<Self>, member: &str) -> Result<()> {
        for &slot in self.faults.keys() {
            let at = SocketAddr::from((self.net.outside(member), Net::audited(slot)));
            if !self.wires.claim(at) {
                continue;
            }
            let listener =
                TcpListener::bind(at).await.with_context(|| format!("failed to listen on {at}"))?;
            let (audit, member) = (Arc::clone(self), member.to_owned());
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let (audit, member) = (Arc::clone(&audit), member.clone());
                    tokio::spawn(async move {
                        // The endpoints handle connection errors.
                        let _ = audit.connection(stream, slot, &member).await;
                    });
                }
            });
        }
        Ok(())
    }

    async fn connection(self: &Arc<Self>, mut stream: TcpStream, slot: u16, member: &str) -> Result<()> {
        let Ok(mut inside) = TcpStream::connect((self.net.inside(member), 2379)).await else {
            // Like a host without a listener.
            stream.set_zero_linger()?;
            return Ok(());
        };
        let mut first = [0];
        if stream.peek(&mut first).await? == 0 {
            return Ok(());
        }
        if first == [0x16] {
            // TLS: the content is encrypted, and not in the audit.
            tokio::io::copy_bidirectional(&mut stream, &mut inside).await?;
            return Ok(());
        }
        let (sender, carrier) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(inside)).await?;
        let over = CancellationToken::new();
        let ended = over.clone();
        tokio::spawn(async move {
            let _ = carrier.await;
            ended.cancel();
        });
        let service = service_fn(|request: Request<Incoming>| {
            let (audit, sender, member) = (Arc::clone(self), sender.clone(), member.to_owned());
            async move { audit.call(request, sender, slot, &member).await }
        });
        let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        tokio::select! {
            served = server.serve_connection(TokioIo::new(stream), service) => served.map_err(Into::into),
            () = over.cancelled() => Ok(()),
        }
    }

    async fn call(
        self: Arc<Self>,
        request: Request<Incoming>,
        mut sender: SendRequest<Body>,
        slot: u16,
        via: &str,
    ) -> io::Result<Response<Body>> {
        let dead = self.life(slot);
        if dead.is_cancelled() {
            return std::future::pending().await;
        }
        let path = request.uri().path().to_owned();
        // Snapshots are long streams of responses; a request is always one short message.
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let change = Change::of(&path, &body);
        let request = Request::from_parts(head, full(body));
        let Some(change) = change else {
            let answer = sender.send_request(request).await.map_err(io::Error::other)?;
            return Ok(answer.map(|body| body.map_err(io::Error::other).boxed_unsync()));
        };
        let facts = Facts::within(EYES, &Entry::default(), self.siblings(via)).await;
        let wrong = broken_rules(&change, &facts);
        let excused = lock(&self.disturbed).is_some_and(|at| at.elapsed() < LOOK);
        let faults = self.faults.get(&slot).ok_or_else(|| io::Error::other("no such slot"))?;
        let (number, fault) = faults.begin_other("ETCD", &path);
        let at = {
            let mut log = lock(&self.log);
            let at = Instant::now();
            log.push(Rpc {
                number,
                slot,
                via: via.to_owned(),
                change,
                at,
                facts,
                wrong,
                excused,
                answer: None,
            });
            log.len() - 1
        };
        match fault {
            Some(Fault::KillBefore) => {
                dead.cancel();
                return std::future::pending().await;
            }
            Some(Fault::Broken) => return Err(io::ErrorKind::ConnectionReset.into()),
            Some(Fault::Status(_)) => {
                let answer = Response::builder().header("content-type", "application/grpc");
                let answer = answer.header("grpc-status", "14").header("grpc-message", "made to fail");
                faults.ended(number, 500);
                return answer.body(full(Bytes::new())).map_err(io::Error::other);
            }
            Some(Fault::Held) => faults.released().await,
            None | Some(Fault::LostAnswer | Fault::KillAfter) => {}
        }
        let (head, body) = sender.send_request(request).await.map_err(io::Error::other)?.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?;
        let trailers = body.trailers().cloned();
        let grpc_status = grpc_status(trailers.as_ref().unwrap_or(&head.headers));
        faults.ended(number, if grpc_status.0 == "0" { 200 } else { 400 });
        if let Some(rpc) = lock(&self.log).get_mut(at) {
            rpc.answer = Some(grpc_status);
        }
        match fault {
            Some(Fault::LostAnswer) => Err(io::ErrorKind::ConnectionAborted.into()),
            Some(Fault::KillAfter) => {
                dead.cancel();
                std::future::pending().await
            }
            _ => {
                let body = full(body.to_bytes()).with_trailers(std::future::ready(trailers.map(Ok)));
                Ok(Response::from_parts(head, body.boxed_unsync()))
            }
        }
    }

    /// All members of the same cluster, including former ones.
    fn siblings(&self, member: &str) -> Vec<(String, std::net::Ipv4Addr)> {
        let cluster = |name: &str| name.rsplit_once('-').map(|(cluster, _)| cluster.to_owned());
        let names = self.net.names().into_iter().filter(|name| cluster(name) == cluster(member));
        names.map(|name| (name.clone(), self.net.inside(&name))).collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn full(body: Bytes) -> Body {
    Full::new(body).map_err(|never| match never {}).boxed_unsync()
}

fn grpc_status(headers: &HeaderMap) -> (String, String) {
    let text = |name| headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
    (text("grpc-status"), text("grpc-message"))
}

/// The rules of the reference's section 6.2 that a change violates, by the members' answers.
#[must_use]
pub fn broken_rules(change: &Change, facts: &Facts) -> Vec<String> {
    let mut wrong = Vec::new();
    let (voters, learners) = (facts.voters(), facts.learners());
    let quorum = |voters: usize| voters / 2 + 1;
    let healthy: Vec<u64> = voters.iter().map(|m| m.id).filter(|id| facts.healthy(*id)).collect();
    let unhealthy = voters.len() - healthy.len();
    let mut rule = |holds: bool, text: String| {
        if !holds {
            wrong.push(format!("{text}; {}", facts.brief()));
        }
    };
    if change.is_membership() || matches!(change, Change::MoveLeader(_)) {
        rule(healthy.len() >= quorum(voters.len()), "1: no quorum of healthy voters".into());
    }
    match change {
        Change::Add { learner, .. } => {
            rule(*learner, "4: a member is added with a vote".into());
            rule(learners.is_empty(), "4: there is a learner already".into());
            let nameless = voters.iter().chain(&learners).filter(|m| m.name.is_empty()).count();
            rule(nameless == 0, format!("2: {nameless} members have no name yet"));
            rule(unhealthy == 0, format!("4: {unhealthy} voters are not healthy"));
        }
        Change::Promote(id) => {
            let learner = learners.iter().find(|m| m.id == *id);
            rule(learner.is_some_and(|m| !m.name.is_empty()), "5: it is not a learner that started".into());
            let leader = facts.leader().and_then(|id| facts.by_id(id)).map_or(0, |report| report.index);
            let caught_up = facts.by_id(*id).is_some_and(|report| {
                report.learner && report.applied > 0 && report.applied + BEHIND >= leader
            });
            rule(caught_up, "5: the learner has not caught up".into());
            rule(unhealthy == 0, format!("5: {unhealthy} voters are not healthy"));
            rule(healthy.len() + 1 >= quorum(voters.len() + 1), "5: the quorum would be lost".into());
        }
        Change::Remove(id) if voters.iter().any(|m| m.id == *id) => {
            let left = healthy.iter().filter(|other| **other != *id).count();
            rule(voters.len() > 1, "3: it is the only voter".into());
            rule(left >= quorum(voters.len() - 1), "3: the remaining members are not a quorum".into());
            rule(
                !healthy.contains(id) || unhealthy == 0,
                "3: a good member goes while another is bad".into(),
            );
            rule(facts.leader() != Some(*id), "3: it leads".into());
        }
        Change::MoveLeader(id) => {
            rule(healthy.contains(id), "3: the new leader is not a healthy voter".into());
        }
        Change::Update(id) => {
            rule(!learners.iter().any(|m| m.id == *id), "6.7: a learner's addresses are changed".into());
        }
        // A learner has no vote, so its removal is harmless; the rest does not change membership.
        Change::Remove(_) | Change::Other(_) => {}
    }
    wrong
}

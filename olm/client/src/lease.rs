//! Leader election with a `coordination.k8s.io` Lease, as in client-go.
//!
//! The death of a holder is judged by *our* clock only: the lease is taken over when its record has not
//! changed for its whole duration, measured from our first observation of that record. Wall clocks are
//! written for information and never read. The lease is released on shutdown and the others watch or poll
//! it, so a rolling update hands over at once. Writes are fenced: see [`Fence`].

mod fence;
mod lead;

use std::{pin::pin, sync::Arc, time::Duration};

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
    runtime::watcher,
};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::patient;

pub use fence::Fence;
pub use lead::lead;

/// Validity of a lease after its last renewal.
const DURATION: Duration = Duration::from_secs(15);
/// A holder that fails to renew for this long stops writing, well before another replica may start.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// A third of the validity: the idle cost is one small write every five seconds.
const RENEW: Duration = Duration::from_secs(5);
/// Time limit of an attempt.
const RETRY: Duration = Duration::from_secs(2);
/// Minimum delay between attempts, and the interval of polling.
const PAUSE: Duration = Duration::from_secs(1);

/// The lease of one replica.
#[derive(Clone)]
pub struct Elector {
    api: Api<Lease>,
    name: String,
    identity: String,
    fence: Arc<Fence>,
    polls: bool,
}

/// The action for an observed lease.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    Create,
    /// Take it or keep it.
    Write,
    Wait,
}

/// The observed lease, and when that state was first observed.
struct Observed {
    lease: Option<Lease>,
    since: Instant,
}

impl Observed {
    fn record(&self) -> Option<&LeaseSpec> {
        self.lease.as_ref()?.spec.as_ref()
    }

    fn see(&mut self, lease: Option<Lease>) {
        let same = self.record() == lease.as_ref().and_then(|l| l.spec.as_ref());
        if !same {
            self.since = Instant::now();
        }
        self.lease = lease;
    }

    /// When the lease may be taken without a change; soon when its state is unknown.
    fn expires(&self) -> Instant {
        match self.record() {
            Some(record) if record.holder_identity.is_some() => self.since + valid(record),
            _ => Instant::now() + RETRY,
        }
    }
}

/// A lease that was taken, as stored by the API server.
pub struct Held(Lease);

impl Elector {
    /// The client must not be behind the fence: the elector opens it. `identity` is unique among the
    /// processes; a candidate needs the permissions to get, list, watch, create and update the lease.
    #[must_use]
    pub fn new(client: Client, namespace: &str, name: &str, identity: &str, fence: Arc<Fence>) -> Self {
        let (api, name, identity) = (Api::namespaced(client, namespace), name.into(), identity.into());
        Self { api, name, identity, fence, polls: false }
    }

    /// Polls the lease every second instead of watching it, without the permissions to list and watch.
    #[must_use]
    pub fn polling(self) -> Self {
        Self { polls: true, ..self }
    }

    /// Whether this replica may write now.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.fence.leads()
    }

    /// Returns when this replica leads, with the fence open; `None` when shutdown came first.
    pub async fn acquire(&self, shutdown: &CancellationToken) -> Option<Held> {
        let mut observed = Observed { lease: None, since: Instant::now() };
        let only_ours = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        let mut changes = pin!(if self.polls {
            stream::pending::<watcher::Result<watcher::Event<Lease>>>().left_stream()
        } else {
            patient(watcher(self.api.clone(), only_ours)).right_stream()
        });
        loop {
            match timeout(RETRY, self.attempt(&mut observed)).await {
                Ok(Ok(Some(held))) => {
                    tracing::info!(lease = self.name, identity = self.identity, "leading");
                    return Some(held);
                }
                Ok(Ok(None)) => {
                    if self.fence.follow() {
                        let holder = observed.record().and_then(|record| record.holder_identity.as_deref());
                        tracing::info!(lease = self.name, holder, "waiting for the lease");
                    }
                }
                Ok(Err(error)) => tracing::warn!(lease = self.name, %error, "failed to acquire the lease"),
                Err(_) => tracing::warn!(lease = self.name, "acquiring the lease timed out"),
            }
            let mut free = false;
            while !free {
                let soon = Instant::now() + PAUSE;
                let next = if self.polls { soon } else { observed.expires().max(soon) };
                tokio::select! {
                    () = shutdown.cancelled() => return None,
                    () = sleep_until(next) => break,
                    event = changes.next() => match event {
                        Some(Ok(watcher::Event::Apply(lease) | watcher::Event::InitApply(lease))) => {
                            observed.see(Some(lease));
                            free = self.decide(&observed) != Decision::Wait;
                        }
                        Some(Ok(watcher::Event::Delete(_))) => free = true,
                        // Without the watch, the timer above triggers the attempts.
                        Some(Ok(watcher::Event::Init | watcher::Event::InitDone) | Err(_)) | None => {}
                    }
                }
            }
        }
    }

    /// Keeps the lease until shutdown (then releases it and returns `true`) or until it is lost (`false`):
    /// the fence is closed then.
    pub async fn hold(&self, held: Held, shutdown: &CancellationToken) -> bool {
        let mut lease = held.0;
        let mut next = Instant::now() + RENEW;
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {
                    self.release(lease).await;
                    return true;
                }
                () = self.fence.lost() => {
                    tracing::error!(lease = self.name, "could not renew the lease in time");
                    self.fence.close();
                    return false;
                }
                () = sleep_until(next) => {}
            }
            let asked = fence::Moment::now();
            next = Instant::now() + RENEW;
            match timeout(RETRY, self.renew(&lease)).await {
                Ok(Ok(Some(renewed))) => {
                    lease = renewed;
                    self.fence.extend(asked, RENEW_DEADLINE);
                    continue;
                }
                Ok(Ok(None)) => {
                    tracing::error!(lease = self.name, "lost the lease to another replica");
                    self.fence.close();
                    return false;
                }
                Ok(Err(error)) => tracing::warn!(lease = self.name, %error, "failed to renew the lease"),
                Err(_) => tracing::warn!(lease = self.name, "renewing the lease timed out"),
            }
            next = Instant::now() + PAUSE;
        }
    }

    fn decide(&self, observed: &Observed) -> Decision {
        decide(&self.identity, observed.lease.is_some(), observed.record(), observed.since.elapsed())
    }

    /// Takes the lease if it may be taken.
    async fn attempt(&self, observed: &mut Observed) -> Result<Option<Held>, kube::Error> {
        observed.see(self.api.get_opt(&self.name).await?);
        let asked = fence::Moment::now();
        let written = match self.decide(observed) {
            Decision::Wait => return Ok(None),
            Decision::Create => self.create().await,
            Decision::Write => self.write(observed.lease.clone().unwrap_or_default()).await,
        };
        let held = ours(written)?;
        if held.is_some() {
            self.fence.extend(asked, RENEW_DEADLINE);
        }
        Ok(held.map(Held))
    }

    /// Renews the lease; `None` when another replica holds it.
    async fn renew(&self, lease: &Lease) -> Result<Option<Lease>, kube::Error> {
        match ours(self.write(lease.clone()).await) {
            Ok(Some(lease)) => return Ok(Some(lease)),
            // It changed since: perhaps by a renewal of ours whose response was lost.
            Ok(None) => {}
            Err(kube::Error::Api(status)) if status.is_not_found() => return ours(self.create().await),
            Err(error) => return Err(error),
        }
        let Some(current) = self.api.get_opt(&self.name).await? else { return ours(self.create().await) };
        let holder = current.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
        if holder != Some(&self.identity) {
            return Ok(None);
        }
        // A conflict here is retried: it alone does not show another holder.
        self.write(current).await.map(Some)
    }

    async fn create(&self) -> Result<Lease, kube::Error> {
        let lease = Lease {
            metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
            spec: Some(self.record(None)),
        };
        self.api.create(&PostParams::default(), &lease).await
    }

    /// Conditional on the resourceVersion: of two concurrent writes, the server accepts one.
    async fn write(&self, mut lease: Lease) -> Result<Lease, kube::Error> {
        lease.spec = Some(self.record(lease.spec.as_ref()));
        self.api.replace(&self.name, &PostParams::default(), &lease).await
    }

    fn record(&self, previous: Option<&LeaseSpec>) -> LeaseSpec {
        let now = Some(MicroTime(Timestamp::now()));
        let same = previous.filter(|p| p.holder_identity.as_deref() == Some(&self.identity));
        let transitions = previous.and_then(|p| p.lease_transitions).unwrap_or(0);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(DURATION.as_secs() as i32),
            acquire_time: same.and_then(|p| p.acquire_time.clone()).or_else(|| now.clone()),
            renew_time: now,
            lease_transitions: Some(if same.is_some() { transitions } else { transitions.saturating_add(1) }),
            ..LeaseSpec::default()
        }
    }

    /// Releases the lease. Best effort: if it fails, the next leader waits for its expiry.
    async fn release(&self, mut lease: Lease) {
        self.fence.close();
        let released = |lease: &mut Lease| {
            if let Some(spec) = lease.spec.as_mut() {
                spec.holder_identity = None;
                spec.lease_duration_seconds = Some(1);
            }
        };
        let release = async {
            released(&mut lease);
            let written = ours(self.api.replace(&self.name, &PostParams::default(), &lease).await)?;
            if written.is_some() {
                return Ok(());
            }
            // A renewal of ours whose response was lost, or another replica's.
            let Some(mut current) = self.api.get_opt(&self.name).await? else { return Ok(()) };
            let holder = current.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
            if holder == Some(&self.identity) {
                released(&mut current);
                self.api.replace(&self.name, &PostParams::default(), &current).await?;
            }
            Ok::<_, kube::Error>(())
        };
        match timeout(RETRY, release).await {
            Ok(Ok(())) => tracing::info!(lease = self.name, "released"),
            Ok(Err(error)) => tracing::warn!(lease = self.name, %error, "failed to release the lease"),
            Err(_) => tracing::warn!(lease = self.name, "releasing the lease timed out"),
        }
    }
}

/// The written lease; `None` on a conflict.
fn ours(written: Result<Lease, kube::Error>) -> Result<Option<Lease>, kube::Error> {
    match written {
        Ok(lease) => Ok(Some(lease)),
        Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The duration of a record. One without a duration is valid for as long as ours.
fn valid(record: &LeaseSpec) -> Duration {
    let seconds = record.lease_duration_seconds.and_then(|s| u64::try_from(s).ok());
    seconds.map_or(DURATION, Duration::from_secs)
}

fn decide(me: &str, exists: bool, record: Option<&LeaseSpec>, unchanged_for: Duration) -> Decision {
    if !exists {
        return Decision::Create;
    }
    let Some(record) = record else { return Decision::Write };
    match record.holder_identity.as_deref() {
        None | Some("") => Decision::Write,
        Some(holder) if holder == me => Decision::Write,
        Some(_) if unchanged_for >= valid(record) => Decision::Write,
        Some(_) => Decision::Wait,
    }
}

#[cfg(test)]
mod tests;

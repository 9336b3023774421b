//! One replica leads: a `coordination.k8s.io` Lease, by the algorithm of client-go.
//!
//! A holder is judged dead by *our* clock only: the lease is taken over when its record has not changed for as
//! long as it promises to be renewed, measured from when we first saw that record. Wall clocks of two machines are
//! never compared. The lease is released on shutdown, so that a rolling update hands over at once.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use tokio_util::sync::CancellationToken;

/// How long a lease is valid after its last renewal.
const DURATION: Duration = Duration::from_secs(15);
/// A holder that could not renew for this long stops, before anyone else may start.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// Time between two attempts.
const RETRY: Duration = Duration::from_secs(2);

/// The lease of one replica.
pub(crate) struct Elector {
    api: Api<Lease>,
    name: String,
    identity: String,
}

/// What a look at the lease says to do.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    Create,
    /// Take it or keep it.
    Write,
    Wait,
}

/// The record as last seen, and when it was first seen like that.
struct Observed {
    record: Option<LeaseSpec>,
    since: Instant,
}

impl Elector {
    pub(crate) fn new(client: Client, namespace: &str, name: &str, identity: &str) -> Self {
        Self { api: Api::namespaced(client, namespace), name: name.into(), identity: identity.into() }
    }

    /// Returns when this replica leads; `false` when shutdown came first.
    pub(crate) async fn acquire(&self, shutdown: &CancellationToken) -> bool {
        let mut observed = Observed { record: None, since: Instant::now() };
        loop {
            match self.attempt(&mut observed).await {
                Ok(true) => {
                    tracing::info!(lease = self.name, identity = self.identity, "leading");
                    return true;
                }
                Ok(false) => {}
                Err(error) => tracing::warn!(lease = self.name, %error, "failed to acquire the lease"),
            }
            tokio::select! {
                () = shutdown.cancelled() => return false,
                () = tokio::time::sleep(RETRY) => {}
            }
        }
    }

    /// Keeps the lease until shutdown (then releases it and returns `true`) or until it is lost (`false`).
    pub(crate) async fn hold(&self, shutdown: &CancellationToken) -> bool {
        let mut observed = Observed { record: None, since: Instant::now() };
        let mut renewed = Instant::now();
        loop {
            tokio::select! {
                () = shutdown.cancelled() => {
                    self.release().await;
                    return true;
                }
                // A third of the validity: idle cost is one small write every five seconds.
                () = tokio::time::sleep(DURATION / 3) => {}
            }
            match tokio::time::timeout(RETRY, self.attempt(&mut observed)).await {
                Ok(Ok(true)) => renewed = Instant::now(),
                Ok(Ok(false)) => {
                    tracing::error!(lease = self.name, "lost the lease to another replica");
                    return false;
                }
                Ok(Err(error)) => tracing::warn!(lease = self.name, %error, "failed to renew the lease"),
                Err(_) => tracing::warn!(lease = self.name, "renewing the lease timed out"),
            }
            if renewed.elapsed() >= RENEW_DEADLINE {
                tracing::error!(lease = self.name, "could not renew the lease in time");
                return false;
            }
        }
    }

    async fn attempt(&self, observed: &mut Observed) -> Result<bool, kube::Error> {
        let current = self.api.get_opt(&self.name).await?;
        let spec = current.as_ref().and_then(|l| l.spec.clone());
        if observed.record != spec {
            observed.record.clone_from(&spec);
            observed.since = Instant::now();
        }
        let written = match decide(&self.identity, current.is_some(), spec.as_ref(), observed.since.elapsed())
        {
            Decision::Wait => return Ok(false),
            Decision::Create => {
                let lease = Lease {
                    metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
                    spec: Some(self.record(None)),
                };
                self.api.create(&PostParams::default(), &lease).await
            }
            Decision::Write => {
                // The resourceVersion that was read goes back: of two that try, the server lets one through.
                let mut lease = current.unwrap_or_default();
                lease.spec = Some(self.record(spec.as_ref()));
                self.api.replace(&self.name, &PostParams::default(), &lease).await
            }
        };
        match written {
            Ok(lease) => {
                observed.record = lease.spec;
                observed.since = Instant::now();
                Ok(true)
            }
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => Ok(false),
            Err(error) => Err(error),
        }
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
            lease_transitions: Some(if same.is_some() { transitions } else { transitions + 1 }),
            ..LeaseSpec::default()
        }
    }

    /// Gives the lease back. Best effort: if it fails, the next leader waits for the lease to run out.
    async fn release(&self) {
        let release = async {
            let Some(mut lease) = self.api.get_opt(&self.name).await? else { return Ok(()) };
            let Some(spec) = lease.spec.as_mut() else { return Ok(()) };
            if spec.holder_identity.as_deref() != Some(&self.identity) {
                return Ok(());
            }
            spec.holder_identity = None;
            spec.lease_duration_seconds = Some(1);
            self.api.replace(&self.name, &PostParams::default(), &lease).await.map(|_| ())
        };
        match tokio::time::timeout(RETRY, release).await {
            Ok(Ok(())) => tracing::info!(lease = self.name, "released"),
            Ok(Err(error)) => tracing::warn!(lease = self.name, %error, "failed to release the lease"),
            Err(_) => tracing::warn!(lease = self.name, "releasing the lease timed out"),
        }
    }
}

fn decide(me: &str, exists: bool, record: Option<&LeaseSpec>, unchanged_for: Duration) -> Decision {
    if !exists {
        return Decision::Create;
    }
    let Some(record) = record else { return Decision::Write };
    match record.holder_identity.as_deref() {
        None | Some("") => Decision::Write,
        Some(holder) if holder == me => Decision::Write,
        Some(_) => {
            let valid = record.lease_duration_seconds.and_then(|s| u64::try_from(s).ok()).unwrap_or(0);
            if unchanged_for > Duration::from_secs(valid) { Decision::Write } else { Decision::Wait }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held_by(holder: &str) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.into()),
            lease_duration_seconds: Some(15),
            ..LeaseSpec::default()
        }
    }

    #[test]
    fn a_lease_that_does_not_exist_is_created() {
        assert_eq!(decide("a", false, None, Duration::ZERO), Decision::Create);
    }

    #[test]
    fn a_released_lease_is_taken_at_once() {
        let released = LeaseSpec { holder_identity: None, ..held_by("b") };
        assert_eq!(decide("a", true, Some(&released), Duration::ZERO), Decision::Write);
    }

    #[test]
    fn our_own_lease_is_renewed_even_after_a_restart() {
        assert_eq!(decide("a", true, Some(&held_by("a")), Duration::ZERO), Decision::Write);
    }

    #[test]
    fn anothers_lease_is_taken_only_when_it_stood_still_for_its_whole_validity() {
        assert_eq!(decide("a", true, Some(&held_by("b")), Duration::from_secs(15)), Decision::Wait);
        assert_eq!(decide("a", true, Some(&held_by("b")), Duration::from_secs(16)), Decision::Write);
    }
}

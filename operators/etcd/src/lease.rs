//! Leader election by a Lease, with the algorithm of client-go. Clocks of two machines are never compared: a
//! holder counts as gone when its record is unchanged, by the local clock, for the promised renewal time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;

/// Lease of the cluster controller. All three names are those of the programs of coreos/etcd-operator.
pub const NAME: &str = "etcd-operator";
/// Lease of the backup controller.
pub const BACKUP_NAME: &str = "etcd-backup-operator";
/// Lease of the restore controller.
pub const RESTORE_NAME: &str = "etcd-restore-operator";
const VALID: Duration = Duration::from_secs(15);
/// A holder that could not renew for this long stops, well before another may start.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// Also bounds how long a call may take.
const RETRY: Duration = Duration::from_secs(2);
/// Polling interval of candidates, so that a released lease is taken quickly.
const WAIT: Duration = Duration::from_secs(1);

/// On a busy machine a renewal may be a moment late: until then no action is taken, and a skipped
/// reconciliation is repeated after this. A process that loses the lease ends.
pub(crate) const UNLED: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub struct Elector {
    api: Api<Lease>,
    name: &'static str,
    identity: String,
    renewed: Arc<Mutex<Option<Instant>>>,
}

/// The record as last read, and since when it is unchanged.
#[derive(Default)]
struct Seen {
    record: Option<LeaseSpec>,
    since: Option<Instant>,
}

impl Elector {
    /// For the lease of the controller of clusters in a namespace.
    #[must_use]
    pub fn new(client: Client, namespace: &str, identity: &str) -> Self {
        Self::named(client, namespace, NAME, identity)
    }

    #[must_use]
    pub fn named(client: Client, namespace: &str, name: &'static str, identity: &str) -> Self {
        let renewed = Arc::default();
        Self { api: Api::namespaced(client, namespace), name, identity: identity.to_owned(), renewed }
    }

    /// Checked before every write: whether the lease is certainly still held.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.lock().is_some_and(|at| at.elapsed() < RENEW_DEADLINE)
    }

    /// Waits until this operator leads; false when it is stopped first.
    pub async fn acquire(&self, shutdown: &CancellationToken) -> bool {
        let mut seen = Seen::default();
        let mut waiting = false;
        loop {
            match tokio::time::timeout(RETRY, self.attempt(&mut seen)).await {
                Ok(Ok(true)) => {
                    tracing::info!(lease = self.name, identity = self.identity, "leading");
                    return true;
                }
                Ok(Ok(false)) if !waiting => {
                    waiting = true;
                    let holder =
                        seen.record.as_ref().and_then(|r| r.holder_identity.clone()).unwrap_or_default();
                    tracing::info!(lease = self.name, holder, "waiting for the lease");
                }
                Ok(Ok(false)) => {}
                // Another candidate was faster; the next read shows the holder.
                Ok(Err(error)) if raced(&error) => {}
                Ok(Err(error)) => tracing::warn!(%error, "failed to acquire the lease"),
                Err(_) => tracing::warn!("timed out acquiring the lease"),
            }
            tokio::select! {
                () = shutdown.cancelled() => return false,
                () = tokio::time::sleep(WAIT) => {}
            }
        }
    }

    /// Renews the lease. Returns true on shutdown, false when the lease is lost.
    pub async fn hold(&self, shutdown: &CancellationToken) -> bool {
        let mut seen = Seen::default();
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return true,
                () = tokio::time::sleep(VALID / 5) => {}
            }
            match tokio::time::timeout(RETRY, self.attempt(&mut seen)).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => {
                    tracing::error!(lease = self.name, "another operator acquired the lease");
                    return false;
                }
                Ok(Err(error)) => tracing::warn!(%error, "failed to renew the lease"),
                Err(_) => tracing::warn!("timed out renewing the lease"),
            }
            if !self.leads() {
                tracing::error!(lease = self.name, "lease renewal deadline exceeded");
                return false;
            }
        }
    }

    /// Releases the lease, after all work has stopped.
    pub async fn release(&self) {
        *self.lock() = None;
        let release = async {
            let Some(mut lease) = self.api.get_opt(self.name).await? else { return Ok(()) };
            match lease.spec.as_mut() {
                Some(spec) if spec.holder_identity.as_deref() == Some(&self.identity) => {
                    spec.holder_identity = Some(String::new());
                    spec.lease_duration_seconds = Some(1);
                }
                _ => return Ok(()),
            }
            self.api.replace(self.name, &PostParams::default(), &lease).await.map(drop)
        };
        match tokio::time::timeout(RETRY, release).await {
            Ok(Ok(())) => tracing::info!(lease = self.name, "released the lease"),
            Ok(Err(error)) => {
                tracing::warn!(%error, "failed to release the lease; the next operator waits until it \
                 expires")
            }
            Err(_) => {
                tracing::warn!("timed out releasing the lease; the next operator waits until it expires")
            }
        }
    }

    async fn attempt(&self, seen: &mut Seen) -> Result<bool, kube::Error> {
        let asked = Instant::now();
        let current = self.api.get_opt(self.name).await?;
        let record = current.as_ref().and_then(|lease| lease.spec.clone());
        if seen.since.is_none() || seen.record != record {
            *seen = Seen { record: record.clone(), since: Some(asked) };
        }
        let still = seen.since.map_or(Duration::ZERO, |since| since.elapsed());
        if current.is_some() && !free(&self.identity, record.as_ref(), still) {
            return Ok(false);
        }
        let wanted = self.record(record.as_ref());
        let written = match current {
            // With the resourceVersion that was read: of two candidates, the server accepts one.
            Some(mut lease) => {
                lease.spec = Some(wanted);
                self.api.replace(self.name, &PostParams::default(), &lease).await
            }
            None => {
                let metadata = ObjectMeta { name: Some(self.name.into()), ..ObjectMeta::default() };
                self.api.create(&PostParams::default(), &Lease { metadata, spec: Some(wanted) }).await
            }
        };
        let lease = written?;
        *seen = Seen { record: lease.spec, since: Some(asked) };
        *self.lock() = Some(asked);
        Ok(true)
    }

    fn record(&self, old: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let ours = old.filter(|r| r.holder_identity.as_deref() == Some(&self.identity));
        let transitions = old.and_then(|r| r.lease_transitions).unwrap_or_default();
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(VALID.as_secs()).ok(),
            acquire_time: ours.and_then(|r| r.acquire_time.clone()).or_else(|| Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(if ours.is_some() { transitions } else { transitions + 1 }),
            ..LeaseSpec::default()
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.renewed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the lease was written between the local read and write.
fn raced(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_conflict() || status.is_already_exists())
}

/// Whether a record unchanged for this long may be overwritten.
fn free(identity: &str, record: Option<&LeaseSpec>, still: Duration) -> bool {
    let Some(record) = record else { return true };
    match record.holder_identity.as_deref() {
        None | Some("") => true,
        Some(holder) if holder == identity => true,
        Some(_) => {
            let valid = record.lease_duration_seconds.and_then(|s| u64::try_from(s).ok()).unwrap_or_default();
            still > Duration::from_secs(valid)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::ready;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Method, Request, Response};
    use kube::client::Body;

    use super::*;

    #[tokio::test]
    async fn a_conflict_alone_does_not_cost_the_lease() {
        let writes = AtomicUsize::new(0);
        let service = tower::service_fn(move |request: Request<Body>| {
            let second = request.method() == Method::PUT && writes.fetch_add(1, Ordering::Relaxed) == 1;
            let (code, answer) = if second {
                let status = serde_json::json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure",
                    "message": "the object has been modified", "reason": "Conflict", "code": 409 });
                (409, status)
            } else {
                let lease = serde_json::json!({ "metadata": { "name": NAME, "namespace": "ns" },
                    "spec": { "holderIdentity": "a" } });
                (200, lease)
            };
            let answer = Body::from(answer.to_string().into_bytes());
            ready(Ok::<_, Infallible>(Response::builder().status(code).body(answer).unwrap()))
        });
        let elector = Elector::new(Client::new(service, "ns"), "ns", "a");
        let stop = CancellationToken::new();
        assert!(elector.acquire(&stop).await);
        let told = async {
            // The second write and the one after it.
            tokio::time::sleep(VALID / 2).await;
            stop.cancel();
        };
        let (kept, ()) = tokio::join!(elector.hold(&stop), told);
        assert!(kept, "a lease is lost when another one has it, or when it could not be renewed in time");
    }

    #[test]
    fn a_lease_is_taken_when_it_is_free_ours_or_stood_still() {
        let held = |holder: &str| LeaseSpec {
            holder_identity: Some(holder.into()),
            lease_duration_seconds: Some(15),
            ..LeaseSpec::default()
        };
        assert!(free("a", None, Duration::ZERO));
        assert!(free("a", Some(&held("")), Duration::ZERO), "released");
        assert!(free("a", Some(&held("a")), Duration::ZERO), "ours, from before a restart");
        assert!(!free("a", Some(&held("b")), Duration::from_secs(15)));
        assert!(free("a", Some(&held("b")), Duration::from_secs(16)));
    }
}

//! Two replicas and one API server, in tokio's paused time: it jumps to the next timer once every task is
//! idle, so sleeps return at once and durations do not depend on the machine.

use std::sync::{Mutex, MutexGuard, PoisonError};

use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::{sync::Notify, time::sleep};

use super::*;

/// An API server with one Lease. It refuses conflicting writes, as the real one does, and can be unreachable.
#[derive(Clone, Default)]
struct Server(Arc<Content>);

#[derive(Default)]
struct Content {
    lease: Mutex<Option<Value>>,
    version: Mutex<u64>,
    /// Number of writes that are still to be refused as conflicts.
    conflicts: Mutex<u32>,
    lists: Mutex<u32>,
    away: Mutex<bool>,
    back: Notify,
    changed: Notify,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { server.answer(request).await }
        });
        Client::new(service, "default")
    }

    /// As a network that loses every packet: no response arrives, and no request is processed.
    fn go_away(&self) {
        *lock(&self.0.away) = true;
    }

    fn come_back(&self) {
        *lock(&self.0.away) = false;
        self.0.back.notify_waiters();
    }

    fn holder(&self) -> Option<String> {
        lock(&self.0.lease).as_ref()?["spec"]["holderIdentity"].as_str().map(str::to_owned)
    }

    async fn answer(&self, request: Request<Body>) -> Result<Response<Body>, std::io::Error> {
        if *lock(&self.0.away) {
            std::future::pending::<()>().await;
        }
        let method = request.method().clone();
        let watch = request.uri().query().is_some_and(|q| q.contains("watch=true"));
        if watch {
            // Changes so far are sent; then the watch ends and is restarted.
            self.0.changed.notified().await;
            let lease = lock(&self.0.lease).clone();
            let event = json!({ "type": "MODIFIED", "object": lease });
            return Ok(Response::new(Body::from(format!("{event}\n").into_bytes())));
        }
        let list = method == Method::GET && request.uri().path().ends_with("/leases");
        let body = request.into_body().collect_bytes().await.unwrap_or_default();
        let (code, answer) = self.store(&method, list, &body);
        let body = Body::from(answer.to_string().into_bytes());
        Ok(Response::builder().status(code).body(body).expect("a response"))
    }

    fn store(&self, method: &Method, list: bool, body: &[u8]) -> (u16, Value) {
        let mut lease = lock(&self.0.lease);
        let no = |code: u16, reason: &str| {
            (
                code,
                json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code }),
            )
        };
        if list {
            *lock(&self.0.lists) += 1;
            let items: Vec<&Value> = lease.iter().collect();
            return (
                200,
                json!({
                    "kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1",
                    "metadata": { "resourceVersion": lock(&self.0.version).to_string() }, "items": items,
                }),
            );
        }
        if *method == Method::GET {
            return lease.clone().map_or_else(|| no(404, "NotFound"), |lease| (200, lease));
        }
        let mut conflicts = lock(&self.0.conflicts);
        if *conflicts > 0 {
            *conflicts -= 1;
            return no(409, "Conflict");
        }
        let mut new: Value = serde_json::from_slice(body).expect("JSON");
        let (old, sent) = (
            lease.as_ref().map(|l| l["metadata"]["resourceVersion"].clone()),
            &new["metadata"]["resourceVersion"],
        );
        match old {
            Some(_) if *method == Method::POST => return no(409, "AlreadyExists"),
            None if *method == Method::PUT => return no(404, "NotFound"),
            Some(old) if old != *sent => return no(409, "Conflict"),
            _ => {}
        }
        let mut version = lock(&self.0.version);
        *version += 1;
        new["metadata"]["resourceVersion"] = version.to_string().into();
        *lease = Some(new.clone());
        self.0.changed.notify_waiters();
        (200, new)
    }
}

/// A replica: acquires, holds, and reports by its fence.
struct Replica {
    fence: Arc<Fence>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<bool>,
}

impl Replica {
    fn start(server: &Server, identity: &str) -> Self {
        let fence = Arc::<Fence>::default();
        Self::of(Elector::new(server.client(), "olm", "olm-manager", identity, Arc::clone(&fence)), fence)
    }

    /// Without the permission to watch.
    fn polling(server: &Server, identity: &str) -> Self {
        let fence = Arc::<Fence>::default();
        let elector = Elector::new(server.client(), "olm", "olm-manager", identity, Arc::clone(&fence));
        Self::of(elector.polling(), fence)
    }

    fn of(elector: Elector, fence: Arc<Fence>) -> Self {
        let stop = CancellationToken::new();
        let token = stop.clone();
        let task = tokio::spawn(async move {
            match elector.acquire(&token).await {
                Some(held) => elector.hold(held, &token).await,
                None => true,
            }
        });
        Self { fence, stop, task }
    }

    /// Advances the paused time until it leads, and returns how long that took.
    async fn leads(&self) -> Duration {
        let start = Instant::now();
        while !self.fence.leads() {
            sleep(Duration::from_millis(100)).await;
            assert!(start.elapsed() < Duration::from_secs(120), "it never leads");
        }
        start.elapsed()
    }
}

#[tokio::test(start_paused = true)]
async fn one_of_two_leads_and_a_released_lease_is_taken_at_once() {
    for start in [Replica::start, Replica::polling] {
        // given two replicas of which the first leads
        let server = Server::default();
        let first = start(&server, "a");
        first.leads().await;
        let second = start(&server, "b");
        sleep(Duration::from_secs(60)).await;
        assert!(first.fence.leads() && !second.fence.leads());

        // when the first is stopped
        first.stop.cancel();

        // then the second leads within two seconds, and the first stopped before
        let took = second.leads().await;
        assert!(took <= Duration::from_secs(2), "{took:?}");
        assert!(!first.fence.leads());
        assert!(first.task.await.unwrap());
        assert_eq!(server.holder().as_deref(), Some("b"));
    }
}

#[tokio::test(start_paused = true)]
async fn polling_candidates_do_not_watch() {
    let server = Server::default();
    let first = Replica::polling(&server, "a");
    first.leads().await;
    let _second = Replica::polling(&server, "b");
    sleep(Duration::from_secs(60)).await;
    assert_eq!(*lock(&server.0.lists), 0);
}

#[tokio::test(start_paused = true)]
async fn conflicts_alone_do_not_cost_the_lease() {
    // given a leader, and a server that refuses the next writes as conflicts
    let server = Server::default();
    let first = Replica::start(&server, "a");
    first.leads().await;
    *lock(&server.0.conflicts) = 3;
    // then it is renewed after them
    sleep(Duration::from_secs(60)).await;
    assert!(first.fence.leads() && !first.task.is_finished());
    assert_eq!(*lock(&server.0.conflicts), 0);
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_was_killed_is_followed_within_twenty_seconds() {
    let server = Server::default();
    let first = Replica::start(&server, "a");
    first.leads().await;
    let second = Replica::start(&server, "b");
    sleep(Duration::from_secs(30)).await;

    first.task.abort();

    let took = second.leads().await;
    assert!(took <= Duration::from_secs(20), "{took:?}");
    assert!(took >= DURATION - RENEW, "a renewal was not honoured: {took:?}");
}

#[tokio::test(start_paused = true)]
async fn while_the_api_server_is_away_neither_writes_and_after_it_one_does() {
    let server = Server::default();
    let first = Replica::start(&server, "a");
    first.leads().await;
    let second = Replica::start(&server, "b");
    sleep(Duration::from_secs(30)).await;

    // when it is unreachable for a minute
    server.go_away();
    let mut led = Duration::ZERO;
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        sleep(Duration::from_millis(100)).await;
        if first.fence.leads() {
            led = start.elapsed();
        }
        assert!(!second.fence.leads(), "at {:?}", start.elapsed());
    }
    // then the leader stopped by its own deadline
    assert!(led <= RENEW_DEADLINE, "{led:?}");
    assert!(!first.task.await.unwrap(), "the loss is reported");

    // when it is reachable again
    server.come_back();
    let took = second.leads().await;
    assert!(took <= DURATION + RETRY, "{took:?}");
    assert_eq!(server.holder().as_deref(), Some("b"));
}

#[tokio::test(start_paused = true)]
async fn at_no_time_do_two_lead_however_often_the_server_goes_away() {
    // given two replicas that are replaced whenever they lose, and a server that is unreachable for odd times
    let server = Server::default();
    let mut replicas = [Replica::start(&server, "a"), Replica::start(&server, "b")];
    let mut changes = 0;
    let mut last = None;
    for step in 0_u64..3_000 {
        if step % 97 == 0 {
            server.go_away();
        } else if step % 97 == 7 + step / 97 * 5 % 80 {
            server.come_back();
        }
        sleep(Duration::from_millis(370)).await;
        let leading: Vec<usize> = (0..2).filter(|i| replicas[*i].fence.leads()).collect();
        assert!(leading.len() < 2, "two lead at step {step}");
        if let [leader] = leading[..]
            && last != Some(leader)
        {
            changes += 1;
            last = Some(leader);
        }
        for (index, name) in ["a", "b"].iter().enumerate() {
            if replicas[index].task.is_finished() {
                replicas[index] = Replica::start(&server, &format!("{name}-{step}"));
            }
        }
    }
    assert!(changes > 3, "the lease changed hands {changes} times: the test tests nothing");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_wrong_by_days_changes_nothing() {
    // given a lease with timestamps of the distant past or future
    let server = Server::default();
    *lock(&server.0.lease) = Some(json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": "olm-manager", "namespace": "olm", "resourceVersion": "0" },
        "spec": { "holderIdentity": "z", "leaseDurationSeconds": 15, "leaseTransitions": 2147483647,
            "acquireTime": "1999-01-01T00:00:00.000000Z", "renewTime": "1999-01-01T00:00:00.000000Z" },
    }));
    let start = Instant::now();
    let replica = Replica::start(&server, "a");
    replica.leads().await;
    // then its holder had its whole time, counted from the first observation
    assert!((DURATION..=DURATION + RETRY).contains(&start.elapsed()), "{:?}", start.elapsed());
}

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
    // client-go writes an empty holder.
    for holder_identity in [None, Some(String::new())] {
        let released = LeaseSpec { holder_identity, ..held_by("b") };
        assert_eq!(decide("a", true, Some(&released), Duration::ZERO), Decision::Write);
    }
    assert_eq!(decide("a", true, None, Duration::ZERO), Decision::Write, "a lease without a spec");
}

#[test]
fn our_own_lease_is_renewed_even_after_a_restart() {
    assert_eq!(decide("a", true, Some(&held_by("a")), Duration::ZERO), Decision::Write);
}

#[test]
fn anothers_lease_is_taken_only_when_it_stood_still_for_its_whole_validity() {
    assert_eq!(decide("a", true, Some(&held_by("b")), Duration::from_secs(14)), Decision::Wait);
    assert_eq!(decide("a", true, Some(&held_by("b")), Duration::from_secs(15)), Decision::Write);
    // A holder without a duration has as long as we would.
    let silent = LeaseSpec { lease_duration_seconds: None, ..held_by("b") };
    assert_eq!(decide("a", true, Some(&silent), Duration::from_secs(1)), Decision::Wait);
}

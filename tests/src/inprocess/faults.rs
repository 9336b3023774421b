//! The layer between a manager and the API: it records every call, and injects the faults of its rules.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::StreamExt as _;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use kube::{Client, client::Body};
use serde_json::json;
use tokio::{runtime::Handle, sync::watch};
use tokio_util::sync::CancellationToken;

type Problem = Box<dyn std::error::Error + Send + Sync>;
type Answer = Response<UnsyncBoxBody<Bytes, Problem>>;

/// One call of a manager.
#[derive(Debug, Clone)]
pub struct Call {
    /// Counted from 0, over all lives of all managers.
    pub number: usize,
    /// `GET`, `POST`, `PATCH`, `PUT`, `DELETE`.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    pub query: String,
    /// The answer; `None` without one, or not yet.
    pub status: Option<u16>,
    /// Time of the call.
    pub at: Instant,
    /// Duration until the answer.
    pub took: Option<Duration>,
}

impl Call {
    /// Whether it opens a watch.
    #[must_use]
    pub fn is_watch(&self) -> bool {
        self.query.split('&').any(|part| part == "watch=true" || part == "watch=1")
    }

    /// Whether it is a write. Reviews are reads, though they are posted.
    #[must_use]
    pub fn is_write(&self) -> bool {
        self.method != "GET"
            && !self.query.contains("dryRun=")
            && !self.path.starts_with("/apis/authorization.k8s.io/")
            && !self.path.starts_with("/apis/authentication.k8s.io/")
    }

    /// Whether it sends an event.
    #[must_use]
    pub fn is_event(&self) -> bool {
        self.path.ends_with("/events") || self.path.contains("/events/")
    }

    /// Whether it is for the lease.
    #[must_use]
    pub fn is_lease(&self) -> bool {
        self.path.contains("/leases")
    }

    /// Whether it changed an object, without events and the lease.
    #[must_use]
    pub fn changed(&self) -> bool {
        self.is_write()
            && !self.is_event()
            && !self.is_lease()
            && self.status.is_some_and(|code| (200..300).contains(&code))
    }
}

/// Objects of these writes, each counted once: a create names its object only in the body, and is counted
/// with the following writes to a name in the same collection.
#[must_use]
pub fn objects(writes: &[Call]) -> usize {
    let (mut created, mut named) = (BTreeMap::<&str, usize>::new(), BTreeMap::<&str, BTreeSet<&str>>::new());
    for call in writes {
        if call.method == "POST" {
            *created.entry(&call.path).or_default() += 1;
        } else if let Some((collection, name)) = call.path.trim_end_matches("/status").rsplit_once('/') {
            named.entry(collection).or_default().insert(name);
        }
    }
    let of = |collection: &&str| {
        let names = named.get(collection).map_or(0, BTreeSet::len);
        names.max(created.get(collection).copied().unwrap_or_default())
    };
    created.keys().chain(named.keys()).collect::<BTreeSet<_>>().into_iter().map(of).sum()
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "#{} {} {}", self.number, self.method, self.path)?;
        if !self.query.is_empty() {
            write!(f, "?{}", self.query)?;
        }
        match self.status {
            Some(code) => write!(f, " → {code}"),
            None => write!(f, " → no answer"),
        }
    }
}

/// The fault of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is answered with this code, and not applied.
    Status(u16),
    /// It is applied, and the connection breaks before the answer.
    LostAnswer,
    /// The connection breaks before it is applied.
    Broken,
    /// The manager dies before it is applied.
    KillBefore,
    /// The manager dies right after it was applied.
    KillAfter,
    /// It is applied, but not before [`Faults::release`]: as in a slow network.
    Held,
}

type Matches = Box<dyn Fn(&Call) -> bool + Send + Sync>;

struct Rule {
    matches: Matches,
    fault: Fault,
    left: usize,
}

#[derive(Default)]
struct State {
    calls: Vec<Call>,
    rules: Vec<Rule>,
    latency: Duration,
}

/// Recorded calls, and pending faults. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Faults {
    state: Arc<Mutex<State>>,
    /// Calls in progress, without watches.
    in_flight: Arc<AtomicUsize>,
    /// Counts calls that began or ended.
    moved: Arc<watch::Sender<u64>>,
    /// Cancelled, and replaced, to end every watch.
    watches: Arc<Mutex<CancellationToken>>,
    /// Cancelled, and replaced, to release held calls.
    gate: Arc<Mutex<CancellationToken>>,
    /// Of the cluster: a received call is applied whatever happens to the caller.
    server: Handle,
}

impl Faults {
    /// Without faults. To be called where the cluster's runtime is entered.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: Arc::default(),
            in_flight: Arc::default(),
            moved: Arc::new(watch::Sender::new(0)),
            watches: Arc::default(),
            gate: Arc::default(),
            server: Handle::current(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next `times` matching calls get this fault.
    pub fn add(&self, fault: Fault, times: usize, matches: impl Fn(&Call) -> bool + Send + Sync + 'static) {
        self.state().rules.push(Rule { matches: Box::new(matches), fault, left: times });
    }

    /// From now on every call has this additional latency, as over a network.
    pub fn set_latency(&self, latency: Duration) {
        self.state().latency = latency;
    }

    /// Removes all faults.
    pub fn heal(&self) {
        self.state().rules.clear();
    }

    /// Ends every open watch, like a restarting server or a proxy.
    pub fn drop_watches(&self) {
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        watches.cancel();
        *watches = CancellationToken::new();
    }

    /// Releases every held call.
    pub fn release(&self) {
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        gate.cancel();
        *gate = CancellationToken::new();
    }

    /// Every call so far.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.state().calls.clone()
    }

    /// Number of calls so far.
    #[must_use]
    pub fn count(&self) -> usize {
        self.state().calls.len()
    }

    /// Calls since `from` that changed an object.
    #[must_use]
    pub fn writes_since(&self, from: usize) -> Vec<Call> {
        self.state().calls.iter().skip(from).filter(|call| call.changed()).cloned().collect()
    }

    /// Number of calls in progress.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Notified of every call that begins or ends.
    #[must_use]
    pub fn moved(&self) -> watch::Receiver<u64> {
        self.moved.subscribe()
    }

    /// A client for one life of a manager. When `dead` is cancelled none of its calls reaches the API any
    /// more.
    #[must_use]
    pub fn client(&self, api: Client, dead: CancellationToken) -> Client {
        let faults = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (faults, api, dead) = (faults.clone(), api.clone(), dead.clone());
            async move { faults.call(api, dead, request).await }
        });
        Client::new(service, "default")
    }

    async fn call(
        &self,
        api: Client,
        dead: CancellationToken,
        request: Request<Body>,
    ) -> Result<Answer, Problem> {
        if dead.is_cancelled() {
            return std::future::pending().await;
        }
        let uri = request.uri();
        let (number, is_watch, fault) =
            self.begin(request.method().as_str(), uri.path(), uri.query().unwrap_or_default());
        let _under_way = InFlight::begin(self, is_watch);
        match fault {
            Some(Fault::KillBefore) => {
                dead.cancel();
                std::future::pending().await
            }
            Some(Fault::Broken) => Err("connection reset by peer".into()),
            Some(Fault::Status(code)) => Ok(self.refusal(number, code)),
            Some(Fault::LostAnswer) => {
                self.carried_out(api, number, request).await?;
                Err("connection closed before the answer was complete".into())
            }
            Some(Fault::KillAfter) => {
                self.carried_out(api, number, request).await?;
                dead.cancel();
                std::future::pending().await
            }
            fault @ (None | Some(Fault::Held)) => {
                if fault.is_some() {
                    self.released().await;
                }
                let answer = tokio::select! {
                    biased;
                    () = dead.cancelled() => std::future::pending().await,
                    answer = self.carried_out(api, number, request) => answer?,
                };
                Ok(self.delivered(answer, is_watch, dead))
            }
        }
    }

    /// Records a call to another server, and returns its fault: the caller applies that.
    pub(crate) fn begin_other(&self, method: &str, path: &str) -> (usize, Option<Fault>) {
        let (number, _, fault) = self.begin(method, path, "");
        (number, fault)
    }

    /// Returns when held calls are released.
    pub(crate) async fn released(&self) {
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner).clone();
        gate.cancelled().await;
    }

    fn begin(&self, method: &str, path: &str, query: &str) -> (usize, bool, Option<Fault>) {
        let mut state = self.state();
        let call = Call {
            number: state.calls.len(),
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            status: None,
            at: Instant::now(),
            took: None,
        };
        let rule = state.rules.iter_mut().find(|rule| rule.left > 0 && (rule.matches)(&call));
        let fault = rule.map(|rule| {
            rule.left -= 1;
            rule.fault
        });
        let (number, is_watch) = (call.number, call.is_watch());
        state.calls.push(call);
        (number, is_watch, fault)
    }

    pub(crate) fn ended(&self, number: usize, code: u16) {
        if let Some(call) = self.state().calls.get_mut(number) {
            call.status = Some(code);
            call.took = Some(call.at.elapsed());
        }
    }

    /// In a task of the cluster: a sent request is applied even if its sender dies.
    async fn carried_out(
        &self,
        api: Client,
        number: usize,
        request: Request<Body>,
    ) -> Result<Response<Body>, Problem> {
        let (faults, latency) = (self.clone(), self.state().latency);
        let task = self.server.spawn(async move {
            if !latency.is_zero() {
                tokio::time::sleep(latency).await;
            }
            let answer = api.send(request).await;
            if let Ok(answer) = &answer {
                faults.ended(number, answer.status().as_u16());
            }
            answer
        });
        Ok(task.await??)
    }

    fn refusal(&self, number: usize, code: u16) -> Answer {
        self.ended(number, code);
        let reason = match code {
            403 => "Forbidden",
            409 => "Conflict",
            410 => "Expired",
            429 => "TooManyRequests",
            _ => "InternalError",
        };
        let status = json!({
            "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason,
            "message": format!("made to fail: {reason}"),
        });
        let body = Full::new(Bytes::from(status.to_string())).map_err(Into::into).boxed_unsync();
        let mut answer = Response::new(body);
        *answer.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        answer
    }

    /// The answer for the manager: a watch ends when all do, and a dead manager receives nothing.
    fn delivered(&self, answer: Response<Body>, is_watch: bool, dead: CancellationToken) -> Answer {
        if !is_watch {
            return answer.map(|body| body.map_err(Into::into).boxed_unsync());
        }
        let over = self.watches.lock().unwrap_or_else(PoisonError::into_inner).clone();
        answer.map(|body| {
            let frames = body.into_data_stream().map(|data| data.map(hyper::body::Frame::data));
            let frames = frames.take_until(async move {
                tokio::select! {
                    () = over.cancelled() => {}
                    () = dead.cancelled() => std::future::pending().await,
                }
            });
            BodyExt::map_err(StreamBody::new(frames), Into::into).boxed_unsync()
        })
    }
}

impl Default for Faults {
    fn default() -> Self {
        Self::new()
    }
}

/// Counts a call in progress, and notifies when it begins and ends.
struct InFlight {
    faults: Faults,
    counted: bool,
}

impl InFlight {
    fn begin(faults: &Faults, is_watch: bool) -> Self {
        if !is_watch {
            faults.in_flight.fetch_add(1, Ordering::Relaxed);
        }
        faults.moved.send_modify(|n| *n += 1);
        Self { faults: faults.clone(), counted: !is_watch }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if self.counted {
            self.faults.in_flight.fetch_sub(1, Ordering::Relaxed);
        }
        self.faults.moved.send_modify(|n| *n += 1);
    }
}

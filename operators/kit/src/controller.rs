//! A reconciliation: plan, apply, report. Once at a time for each object, after every change.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use futures::future::join_all;
use futures::{FutureExt as _, StreamExt as _};
use jiff::Timestamp;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::runtime::Controller;
use kube::runtime::controller::{Action, Config, Error as ControllerError};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource as _, ResourceExt as _};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::apply::{self, Applied, Change, Pass, version};
use crate::failure::Failure;
use crate::kind::Kind;
use crate::lease::Elector;
use crate::metrics::{Ended, Metrics};
use crate::observed::Observed;
use crate::plan::Decision;
use crate::status::{self, Report};
use crate::watches::{self, Owner, Watched};

/// Objects of a kind that are reconciled at the same time.
const CONCURRENCY: u16 = 16;

/// What all controllers of a run share.
#[derive(Clone)]
pub(crate) struct Running {
    pub(crate) client: Client,
    pub(crate) operator: String,
    pub(crate) identity: String,
    pub(crate) namespaces: Vec<String>,
    pub(crate) elector: Elector,
    pub(crate) metrics: Arc<Metrics>,
}

/// A controller of a kind in a namespace, or in all of them.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) operator: String,
    pub(crate) owned: Vec<Watched>,
    identity: String,
    kind: Kind,
    elector: Elector,
    metrics: Arc<Metrics>,
    states: Mutex<HashMap<String, State>>,
}

/// The state of an object between reconciliations.
#[derive(Debug, Default)]
struct State {
    uid: String,
    failures: u32,
    applied: Applied,
    /// The last written status, and the version of the response.
    written: Option<(u64, Value)>,
}

/// Runs the controllers of these kinds until shutdown, then finishes the reconciliations in progress.
pub(crate) async fn run(running: Running, kinds: Vec<Kind>, stop: CancellationToken) {
    let mut controllers = Vec::new();
    for kind in kinds {
        let all = running.namespaces.is_empty() || !kind.of.namespaced;
        let namespaces: Vec<Option<String>> =
            if all { vec![None] } else { running.namespaces.iter().cloned().map(Some).collect() };
        for namespace in namespaces {
            controllers.push(run_one(running.clone(), kind.clone(), namespace, stop.clone()).boxed());
        }
    }
    join_all(controllers).await;
    // A run without kinds is a run too.
    stop.cancelled().await;
}

async fn run_one(running: Running, kind: Kind, namespace: Option<String>, stop: CancellationToken) {
    let namespace = namespace.as_deref();
    let without_fields = |object: &mut DynamicObject| object.metadata.managed_fields = None;
    let (main, objects) = watches::watch(&running.client, &kind.of, namespace, without_fields, &stop);
    let resource = kind.of.resource.clone();
    let config = Config::default().concurrency(CONCURRENCY);
    let shutdown = stop.clone();
    let mut controller = Controller::for_stream_with(objects, main.reader(), resource.clone())
        .with_config(config)
        .graceful_shutdown_on(async move { shutdown.cancelled().await });
    let mut owned = Vec::new();
    for of in &kind.owned {
        let strip = watches::strip(resource.clone());
        let (watched, changes) = watches::watch(&running.client, of, namespace, strip, &stop);
        controller = controller.owns_stream_with(changes, of.resource.clone());
        owned.push(watched);
    }
    let context = Arc::new(Context::new(running, kind, owned));
    controller
        .run(reconcile, error_policy, Arc::clone(&context))
        .for_each(|result| {
            match result {
                // An event of an owned object or a timer of a deleted object.
                Err(ControllerError::ObjectNotFound(gone)) => {
                    context.forget(&key_of(gone.namespace.as_deref(), &gone.name));
                }
                Err(error) => tracing::debug!(%error, "reconciliation failed"),
                Ok(_) => {}
            }
            std::future::ready(())
        })
        .await;
}

fn key(object: &DynamicObject) -> String {
    key_of(object.metadata.namespace.as_deref(), object.metadata.name.as_deref().unwrap_or_default())
}

fn key_of(namespace: Option<&str>, name: &str) -> String {
    format!("{}/{name}", namespace.unwrap_or_default())
}

fn error_policy(object: Arc<DynamicObject>, failure: &Failure, context: Arc<Context>) -> Action {
    let key = key(&object);
    let wait = failure.delay(context.keep(&key, |state| state.failures));
    if !matches!(failure, Failure::Unled) {
        tracing::warn!(object = key, error = %failure, ?wait, "reconciliation failed, will retry");
    }
    Action::requeue(wait)
}

pub(crate) async fn reconcile(object: Arc<DynamicObject>, context: Arc<Context>) -> Result<Action, Failure> {
    if object.metadata.deletion_timestamp.is_some() {
        // The garbage collector deletes what it owns.
        context.forget(&key(&object));
        return Ok(Action::await_change());
    }
    context.leads()?;
    let (begin, controller) = (Instant::now(), context.kind.of.resource.kind.to_lowercase());
    context.metrics.begin(&controller);
    let result = context.reconcile(&object).await;
    let ended = match &result {
        Ok(action) if *action == Action::await_change() => Ended::Success,
        Ok(_) => Ended::RequeueAfter,
        Err(_) => Ended::Error,
    };
    context.metrics.end(&controller, ended, begin.elapsed());
    result
}

impl Context {
    pub(crate) fn new(running: Running, kind: Kind, owned: Vec<Watched>) -> Self {
        let Running { client, operator, identity, elector, metrics, .. } = running;
        Self { client, operator, owned, identity, kind, elector, metrics, states: Mutex::default() }
    }

    /// Checked before every write.
    pub(crate) fn leads(&self) -> Result<(), Failure> {
        if self.elector.leads() { Ok(()) } else { Err(Failure::Unled) }
    }

    fn keep<T>(&self, key: &str, change: impl FnOnce(&mut State) -> T) -> T {
        // The map is consistent after every change, also when a holder of the lock panicked.
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        change(states.entry(key.to_owned()).or_default())
    }

    fn forget(&self, key: &str) {
        self.states.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    async fn reconcile(&self, object: &DynamicObject) -> Result<Action, Failure> {
        let (key, uid) = (key(object), object.uid().unwrap_or_default());
        let mut state = self.keep(&key, std::mem::take);
        // A later object of the same name: the state does not belong to it.
        if state.uid != uid {
            state = State { uid, ..State::default() };
        }
        let mut changes = Vec::new();
        let converged = self.converge(object, &mut state.applied, &mut changes).await;
        state.failures = if converged.is_ok() { 0 } else { state.failures.saturating_add(1) };
        let reported = self.report(object, &mut state, &converged).await;
        if converged.is_ok() && reported.is_err() {
            state.failures = state.failures.saturating_add(1);
        }
        let transition = reported.as_ref().ok().cloned().flatten();
        self.keep(&key, |kept| *kept = state);
        for change in changes {
            let note = format!("{} {} {}", change.reason, change.kind, change.name);
            self.publish(object, change.reason, note, false).await;
        }
        if let Some(transition) = transition {
            self.publish(object, &transition.reason, transition.message, transition.warning).await;
        }
        // The first error is the cause; while the API server is unreachable both fail.
        let decision = converged?;
        reported?;
        Ok(decision.again.map_or_else(Action::await_change, Action::requeue))
    }

    /// Plans, and applies the plan.
    async fn converge(
        &self,
        object: &DynamicObject,
        applied: &mut Applied,
        changes: &mut Vec<Change>,
    ) -> Result<Decision, Failure> {
        for watched in &self.owned {
            watched.listed().await?;
        }
        let resource = &self.kind.of.resource;
        let reference = object
            .controller_owner_ref(resource)
            .ok_or_else(|| Failure::Unreadable("the object has no name or uid".to_owned()))?;
        let (name, uid) = (reference.name.clone(), reference.uid.clone());
        let owner = Owner { resource, name: &name, uid: &uid };
        let (mut observed, mut seen) = (Vec::new(), HashMap::new());
        for watched in &self.owned {
            for object in watched.owned(&owner) {
                let namespace = object.metadata.namespace.as_deref();
                seen.insert(apply::key(&watched.kind, namespace, &object.name_any()), version(&object));
                observed.push((watched.kind.resource.clone(), object));
            }
        }
        let mut decision = (self.kind.decide)(object, &Observed::new(observed))?;
        let namespace = object.metadata.namespace.as_deref();
        Pass { context: self, owner, namespace, reference }.apply(&decision, applied, changes).await?;
        // The plan has not seen the effect of what was applied after its observation.
        decision.ready &=
            applied.iter().all(|(key, made)| seen.get(key).is_some_and(|version| *version >= made.version));
        Ok(decision)
    }

    /// Writes the status if it differs, and returns the transition of condition `Ready`.
    async fn report(
        &self,
        object: &DynamicObject,
        state: &mut State,
        converged: &Result<Decision, Failure>,
    ) -> Result<Option<Transition>, Failure> {
        // The watch may lag behind the last write.
        let old = match &state.written {
            Some((written, status)) if version(object) <= *written => status.clone(),
            _ => object.data["status"].clone(),
        };
        let message;
        let (planned, report): (Map<String, Value>, Report<'_>) = match converged {
            Err(failure) if !failure.is_reported(state.failures) => return Ok(None),
            Err(failure) => {
                message = failure.to_string();
                let stalled = failure.is_stalled(state.failures);
                let report = Report { ready: false, stalled, reason: failure.reason(), message: &message };
                (old.as_object().cloned().unwrap_or_default(), report)
            }
            Ok(Decision { status, ready, message, .. }) => {
                let reason = if *ready { "Ready" } else { "InProgress" };
                (status.clone(), Report { ready: *ready, stalled: false, reason, message })
            }
        };
        let new = status::next(&old, planned, report, object.metadata.generation, Timestamp::now());
        if new == old {
            return Ok(None);
        }
        let transition = (status::readiness(&old) != status::readiness(&new)).then(|| Transition {
            reason: report.reason.to_owned(),
            message: report.message.to_owned(),
            warning: converged.is_err(),
        });
        self.leads()?;
        let written = self.write(object, &new).await?;
        state.written = written.map(|version| (version, new));
        Ok(transition)
    }

    /// Writes the status; `None` when the object is gone.
    async fn write(&self, object: &DynamicObject, status: &Value) -> Result<Option<u64>, Failure> {
        let (kind, name) = (&self.kind.of, object.name_any());
        let mut body = json!({
            "apiVersion": kind.resource.api_version, "kind": kind.resource.kind,
            "metadata": { "name": name, "uid": object.metadata.uid }, "status": status,
        });
        if let Some(namespace) = &object.metadata.namespace {
            body["metadata"]["namespace"] = namespace.clone().into();
        }
        let api = watches::api(&self.client, kind, object.metadata.namespace.as_deref());
        let params = PatchParams::apply(&format!("{}-status", self.operator)).force();
        match api.patch_status(&name, &params, &Patch::Apply(&body)).await {
            Ok(written) => Ok(Some(version(&written))),
            Err(kube::Error::Api(answer)) if answer.is_not_found() => Ok(None),
            Err(source) => {
                let what = format!("the status of {} {name}", kind.resource.kind);
                Err(Failure::Kubernetes { verb: "write", what, source: Box::new(source) })
            }
        }
    }

    /// Reports an event. It is lost when the API server refuses it.
    async fn publish(&self, object: &DynamicObject, reason: &str, note: String, warning: bool) {
        let reporter = Reporter { controller: self.operator.clone(), instance: Some(self.identity.clone()) };
        let event = Event {
            type_: if warning { EventType::Warning } else { EventType::Normal },
            reason: reason.to_owned(),
            note: Some(note.chars().take(NOTE).collect()),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        // A recorder counts events with the same reason as one and retains the first text. Each of these is a
        // change, so each has a recorder of its own.
        let recorder = Recorder::new(self.client.clone(), reporter);
        let regarding = object.object_ref(&self.kind.of.resource);
        if let Err(error) = recorder.publish(&event, &regarding).await {
            tracing::warn!(object = key(object), %error, "failed to report an event");
        }
    }
}

/// Longest note of an event: the API accepts 1 KiB, and a character takes up to four bytes.
const NOTE: usize = 255;

/// A change of condition `Ready`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Transition {
    reason: String,
    message: String,
    warning: bool,
}

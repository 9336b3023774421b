//! The task of one pod: level-triggered, one step at a time.

mod faults;
mod image;
mod probes;
mod report;
mod set_up;
mod slot;
mod start;
mod stop;

use std::{
    collections::HashMap,
    net::Ipv4Addr,
    os::fd::OwnedFd,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use k8s_openapi::{
    api::core::v1::{Pod, PodCondition},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::Api;
use olm_devcluster_machinery::fault::Done;
use serde_json::Value;
use tokio::sync::mpsc;

pub(crate) use self::faults::FaultMessage;
use self::{
    faults::Faults,
    slot::{Pull, Run, Slot},
};
use super::{
    decide::{Plan, Policy, View, ViewState, plan},
    launch,
    probe::Outcome,
};
use crate::{
    context::Context,
    events::Severity,
    helper::wire::ProcessSpec,
    images::{ContainerImage, PullError},
    logs::{self, InstanceLog},
    network::PodNetwork,
    sandbox::{Exit, Process, Sandbox},
    volumes::Volumes,
};

/// A message to a worker.
pub(crate) enum Message {
    /// The pod object changed.
    Update(Arc<Pod>),
    /// The pod object is gone.
    Gone,
    /// A ConfigMap, Secret or ServiceAccount in the pod's namespace changed.
    Refresh,
    /// Stop the containers within this time and leave the pod object as it is.
    Shutdown(Duration),
    Exited {
        slot: usize,
        instance: u64,
        exit: Exit,
    },
    Probed {
        slot: usize,
        instance: u64,
        outcome: Outcome,
    },
    /// A `postStart` hook failed.
    HookFailed {
        slot: usize,
        instance: u64,
        message: String,
    },
    SandboxEnded,
    /// The search for an image has ended.
    Image {
        slot: usize,
        /// The reference that was searched for: the container may have another one by now.
        reference: String,
        result: Result<Box<ContainerImage>, PullError>,
    },
    Fault(FaultMessage),
}

/// State of a pod's containers for other tasks.
#[derive(Default)]
pub(crate) struct SharedPodState {
    pub(crate) containers: Mutex<HashMap<String, ContainerHandle>>,
    pub(crate) faults: Mutex<Vec<Done>>,
    /// The pod's address in the cluster network.
    pub(crate) ip: Mutex<Option<Ipv4Addr>>,
    pub(crate) network_namespace: Mutex<Option<Arc<OwnedFd>>>,
}

/// A container for `logs` and `exec`.
#[derive(Clone, Default)]
pub(crate) struct ContainerHandle {
    pub(crate) running: Option<(Process, ProcessSpec)>,
    pub(crate) log: Option<InstanceLog>,
    pub(crate) previous: Option<InstanceLog>,
    /// The reason why it is not running.
    pub(crate) state: String,
}

/// The handle of a worker.
#[derive(Clone)]
pub(crate) struct Handle {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Names of the containers, then of the init containers.
    pub(crate) containers: Vec<String>,
    pub(crate) live: Arc<SharedPodState>,
    pub(crate) messages: mpsc::UnboundedSender<Message>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Active,
    /// The pod is being deleted.
    Terminating {
        grace: Duration,
    },
    /// The agent is being stopped.
    Leaving,
    /// All containers are done; the object stays until it is deleted.
    Finished(bool),
    Over,
}

/// The worker of one pod.
pub(crate) struct Worker {
    cx: Arc<Context>,
    pod: Arc<Pod>,
    dir: PathBuf,
    inbox: mpsc::UnboundedReceiver<Message>,
    messages: mpsc::UnboundedSender<Message>,
    live: Arc<SharedPodState>,
    slots: Vec<Slot>,
    volumes: Volumes,
    volumes_ready: bool,
    refresh: bool,
    sandbox: Option<Arc<Sandbox>>,
    network: Option<PodNetwork>,
    stage: Stage,
    initialized: bool,
    refused: Option<String>,
    set_up_at: Option<Instant>,
    set_up_delay: Duration,
    last_error: Option<String>,
    conditions: Vec<PodCondition>,
    start_time: Time,
    sent: Option<Value>,
    send_at: Option<Instant>,
    /// The pod was finished before this agent started.
    finished_before: bool,
    faults: Faults,
}

fn now() -> Time {
    Time(jiff::Timestamp::now())
}

impl Worker {
    /// Starts the task for a pod.
    pub(crate) fn start(cx: &Arc<Context>, pod: Arc<Pod>) -> Handle {
        let (messages, inbox) = mpsc::unbounded_channel();
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let dir = cx.pods_dir.join(&uid);
        let live = Arc::new(SharedPodState::default());
        let spec = pod.spec.clone().unwrap_or_default();
        let present = pod.status.clone().unwrap_or_default();
        let statuses = || {
            present
                .container_statuses
                .iter()
                .flatten()
                .chain(present.init_container_statuses.iter().flatten())
        };
        let init = spec.init_containers.unwrap_or_default().into_iter().map(|container| (true, container));
        let main = spec.containers.into_iter().map(|container| (false, container));
        let over = matches!(present.phase.as_deref(), Some("Succeeded" | "Failed"));
        let restarts = !over && Policy::parse(spec.restart_policy.as_deref()) != Policy::Never;
        let slots: Vec<Slot> = init
            .chain(main)
            .map(|(is_init, container)| {
                let earlier = statuses().find(|status| status.name == container.name);
                Slot::recover(container, is_init, earlier, restarts)
            })
            .collect();
        let names = |is_init| slots.iter().filter(move |slot: &&Slot| slot.is_init == is_init);
        let containers =
            names(false).chain(names(true)).map(|slot| slot.container.name.clone()).collect::<Vec<_>>();
        let stage = match present.phase.as_deref() {
            Some("Succeeded") => Stage::Finished(true),
            Some("Failed") => Stage::Finished(false),
            _ => Stage::Active,
        };
        let handle = Handle {
            namespace: pod.metadata.namespace.clone().unwrap_or_default(),
            name: pod.metadata.name.clone().unwrap_or_default(),
            containers,
            live: Arc::clone(&live),
            messages: messages.clone(),
        };
        let has_init = slots.iter().any(|slot| slot.is_init);
        let worker = Self {
            cx: Arc::clone(cx),
            volumes: Volumes::new(dir.join("volumes")),
            refused: pod.spec.as_ref().and_then(launch::refusal),
            start_time: present.start_time.unwrap_or_else(now),
            conditions: present.conditions.unwrap_or_default(),
            pod,
            dir,
            inbox,
            messages,
            live,
            slots,
            volumes_ready: false,
            refresh: false,
            sandbox: None,
            network: None,
            stage,
            // Without init containers initialization is complete.
            initialized: !has_init,
            set_up_at: None,
            set_up_delay: Duration::ZERO,
            last_error: None,
            sent: None,
            send_at: None,
            finished_before: over,
            faults: Faults::default(),
        };
        tokio::spawn(worker.run());
        handle
    }

    fn uid(&self) -> String {
        self.pod.metadata.uid.clone().unwrap_or_default()
    }

    fn api(&self) -> Api<Pod> {
        let namespace = self.pod.metadata.namespace.as_deref().unwrap_or("default");
        Api::namespaced(self.cx.client.clone(), namespace)
    }

    async fn run(mut self) {
        for (index, slot) in self.slots.iter().enumerate() {
            let log = |instance| {
                let log = InstanceLog::finished(logs::path_of(&self.dir, &slot.container.name, instance));
                log.exists().then_some(log)
            };
            let entry = ContainerHandle {
                log: log(slot.restarts),
                previous: log(slot.restarts - 1),
                ..ContainerHandle::default()
            };
            lock(&self.live.containers).insert(self.slots[index].container.name.clone(), entry);
        }
        let update = Arc::clone(&self.pod);
        self.handle(Message::Update(update));
        loop {
            self.apply_queued_faults().await;
            let wake = self.step().await;
            if self.stage == Stage::Over {
                break;
            }
            let publish = self.publish().await;
            let wake = [wake, publish].into_iter().flatten().min();
            let sleep = async {
                match wake {
                    Some(time) => tokio::time::sleep_until(time.into()).await,
                    None => std::future::pending().await,
                }
            };
            let message = tokio::select! {
                message = self.inbox.recv() => message,
                () = sleep => None,
            };
            if let Some(message) = message {
                self.handle(message);
            }
            while let Ok(message) = self.inbox.try_recv() {
                self.handle(message);
            }
        }
        if let Some(sandbox) = self.sandbox.take() {
            sandbox.destroy().await;
        }
        self.cx.workers().remove(&self.uid());
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Update(pod) => {
                self.pod = pod;
                self.refresh = true;
                if self.pod.metadata.deletion_timestamp.is_some() {
                    let seconds = self.pod.metadata.deletion_grace_period_seconds.unwrap_or(30);
                    let grace = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
                    self.terminate(grace);
                }
                self.redefine();
            }
            Message::Gone => {
                // The object was deleted without a grace period: all of the pod is removed.
                self.slots.iter_mut().for_each(|slot| slot.run = Run::New);
                let _ = std::fs::remove_dir_all(&self.dir);
                self.stage = Stage::Over;
            }
            Message::Refresh => self.refresh = true,
            Message::Fault(message) => self.enqueue_fault(message),
            Message::Shutdown(limit) => {
                self.end_stops();
                if !matches!(self.stage, Stage::Terminating { .. }) {
                    self.stage = Stage::Leaving;
                }
                self.stop_all(limit.min(self.grace()));
            }
            Message::Exited { slot, instance, exit } => self.exited(slot, instance, exit),
            Message::Probed { slot, instance, outcome } => self.probed(slot, instance, outcome),
            Message::HookFailed { slot, instance, message } => {
                if self.is_current(slot, instance) {
                    let text = format!("PostStartHook failed: {message}");
                    self.event(Some(slot), Severity::Warning, "FailedPostStartHook", text);
                    self.stop(slot, self.grace());
                }
            }
            Message::Image { slot, reference, result } => {
                if let Some(slot) = self.slots.get_mut(slot)
                    && slot.container.image.as_ref() == Some(&reference)
                    && matches!(slot.pull, Pull::Running)
                {
                    slot.pull = Pull::Done(result);
                }
            }
            Message::SandboxEnded => {
                if self.sandbox.as_ref().is_some_and(|sandbox| *sandbox.ended().borrow()) {
                    self.sandbox = None;
                    // A new sandbox starts with the init containers.
                    for slot in self.slots.iter_mut().filter(|slot| slot.is_init) {
                        slot.run = Run::New;
                    }
                }
            }
        }
    }

    fn grace(&self) -> Duration {
        let seconds = self.pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
        Duration::from_secs(u64::try_from(seconds.unwrap_or(30)).unwrap_or(30))
    }

    fn event(&self, slot: Option<usize>, severity: Severity, reason: &'static str, message: String) {
        let container = slot.and_then(|index| self.slots.get(index)).map(|slot| slot.container.name.as_str());
        self.cx.events.pod(&self.pod, container, severity, reason, message);
    }

    fn is_current(&self, slot: usize, instance: u64) -> bool {
        self.slots
            .get(slot)
            .is_some_and(|slot| slot.instance == instance && matches!(slot.run, Run::Running(_)))
    }

    /// Executes the actions that are due; returns the time of the next step without a message.
    async fn step(&mut self) -> Option<Instant> {
        // No container starts before all killed processes are gone: it may find its volumes empty.
        if self.is_being_killed() {
            return None;
        }
        match self.stage {
            Stage::Active => {}
            Stage::Finished(_) => {
                self.close_sandbox().await;
                return None;
            }
            Stage::Terminating { .. } => {
                return if self.is_running() { None } else { self.finish_deletion().await };
            }
            Stage::Leaving => {
                if !self.is_running() {
                    self.stage = Stage::Over;
                }
                return None;
            }
            Stage::Over => return None,
        }
        if let Some(refused) = self.refused.clone() {
            if self.last_error.as_ref() != Some(&refused) {
                self.event(None, Severity::Warning, "FailedCreatePodSandBox", refused.clone());
                self.last_error = Some(refused.clone());
            }
            for slot in &mut self.slots {
                slot.waiting = Some(("CreateContainerConfigError", refused.clone()));
            }
            return None;
        }
        let started = Instant::now();
        if let Some(time) = self.set_up_at.filter(|time| *time > started && !self.refresh) {
            return Some(time);
        }
        if let Err((reason, error)) = self.set_up().await {
            if self.last_error.as_ref() != Some(&error) {
                self.event(None, Severity::Warning, reason, error.clone());
                self.last_error = Some(error);
            }
            self.set_up_delay =
                (self.set_up_delay * 2).clamp(Duration::from_millis(500), Duration::from_secs(60));
            self.set_up_at = Some(Instant::now() + self.set_up_delay);
            self.refresh = false;
            return self.set_up_at;
        }
        self.set_up_at = None;
        self.set_up_delay = Duration::ZERO;
        self.last_error = None;
        let mut decided = self.plan();
        // The next init container starts in the same step.
        loop {
            let init = decided.start_init;
            let starting: Vec<usize> = match init {
                Some(index) => vec![index],
                None => decided.start.iter().map(|index| index + self.init_count()).collect(),
            };
            if starting.is_empty() {
                break;
            }
            for slot in starting {
                self.start_container(slot).await;
            }
            decided = self.plan();
        }
        let init_count = self.init_count();
        let others = decided.backing_off.iter().map(|index| index + init_count);
        for index in decided.init_backing_off.into_iter().chain(others) {
            self.show_backoff(index);
        }
        self.initialized = decided.initialized;
        if let Some(success) = decided.finished {
            self.stage = Stage::Finished(success);
            self.close_sandbox().await;
            return None;
        }
        [decided.wake, self.volumes.renewal()].into_iter().flatten().min()
    }

    fn init_count(&self) -> usize {
        self.slots.iter().filter(|slot| slot.is_init).count()
    }

    fn plan(&self) -> Plan {
        let view = |slot: &Slot| View {
            state: match &slot.run {
                // It is being started.
                _ if matches!(slot.pull, Pull::Running) => ViewState::Running,
                Run::New => ViewState::New,
                Run::Running(_) => ViewState::Running,
                Run::Exited(end) => ViewState::Exited(end.exit_code),
            },
            not_before: slot.not_before,
        };
        let views: Vec<View> = self.slots.iter().map(view).collect();
        let (init, main) = views.split_at(self.init_count());
        let policy = Policy::parse(self.pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()));
        plan(policy, init, main, Instant::now())
    }

    fn is_running(&self) -> bool {
        self.slots.iter().any(|slot| matches!(slot.run, Run::Running(_)))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

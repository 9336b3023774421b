//! The task that looks after one pod: level-triggered, one step at a time.

use std::{
    collections::HashMap,
    net::Ipv4Addr,
    os::fd::AsFd as _,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use k8s_openapi::{
    api::core::v1::{
        Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, LifecycleHandler, Pod,
        PodCondition,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::AbortHandle};

use super::{
    decide::{Backoff, Plan, Policy, View, ViewState, plan},
    launch::{self, Surroundings},
    probe::{self, Outcome, ProbeKind, Target},
    status::{Report, Snapshot, status, waiting},
};
use crate::node::{
    context::Context,
    env::{self, PodFacts},
    events::Severity,
    helper::wire::ProcessSpec,
    images::Image,
    logs::{self, InstanceLog},
    network::{NODE_IP, PodNetwork},
    sandbox::{Exit, Process, Sandbox, SandboxError, pipes},
    volumes::{self, Subject, Volumes},
};

/// What a worker is told.
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
}

/// What others see of a pod's containers.
#[derive(Default)]
pub(crate) struct Live {
    pub(crate) containers: Mutex<HashMap<String, LiveContainer>>,
}

/// A container for `logs` and `exec`.
#[derive(Clone, Default)]
pub(crate) struct LiveContainer {
    pub(crate) running: Option<(Process, ProcessSpec)>,
    pub(crate) log: Option<InstanceLog>,
    pub(crate) previous: Option<InstanceLog>,
    /// Why it is not running.
    pub(crate) state: String,
}

/// A worker, from outside.
#[derive(Clone)]
pub(crate) struct Handle {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Names of the containers, then of the init containers.
    pub(crate) containers: Vec<String>,
    pub(crate) live: Arc<Live>,
    pub(crate) messages: mpsc::UnboundedSender<Message>,
}

enum Run {
    New,
    Running(Box<Running>),
    Exited(ContainerStateTerminated),
}

struct Running {
    process: Process,
    template: ProcessSpec,
    since: Instant,
    started_at: Time,
    tasks: Vec<AbortHandle>,
    /// Set while the container is being stopped.
    stopping: Option<AbortHandle>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.tasks.iter().chain(&self.stopping).for_each(AbortHandle::abort);
    }
}

struct Slot {
    container: Container,
    is_init: bool,
    run: Run,
    /// Shown instead of what `run` says.
    waiting: Option<(&'static str, String)>,
    last: Option<ContainerStateTerminated>,
    restarts: i32,
    instance: u64,
    container_id: Option<String>,
    backoff: Backoff,
    not_before: Option<Instant>,
    started: bool,
    ready: bool,
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
    /// Nothing will run again; the object stays until it is deleted.
    Finished(bool),
    Over,
}

/// Looks after one pod.
pub(crate) struct Worker {
    cx: Arc<Context>,
    pod: Arc<Pod>,
    dir: PathBuf,
    inbox: mpsc::UnboundedReceiver<Message>,
    messages: mpsc::UnboundedSender<Message>,
    live: Arc<Live>,
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
    /// The pod was over before this agent started.
    old_news: bool,
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
        let live = Arc::new(Live::default());
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
                recover(container, is_init, earlier, restarts)
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
            // Without init containers there is nothing to wait for.
            initialized: !has_init,
            set_up_at: None,
            set_up_delay: Duration::ZERO,
            last_error: None,
            sent: None,
            send_at: None,
            old_news: over,
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
            let entry = LiveContainer {
                log: log(slot.restarts),
                previous: log(slot.restarts - 1),
                ..LiveContainer::default()
            };
            lock(&self.live.containers).insert(self.slots[index].container.name.clone(), entry);
        }
        let update = Arc::clone(&self.pod);
        self.handle(Message::Update(update));
        loop {
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
            }
            Message::Gone => {
                // Somebody removed the object without waiting: nothing of the pod may stay.
                self.slots.iter_mut().for_each(|slot| slot.run = Run::New);
                let _ = std::fs::remove_dir_all(&self.dir);
                self.stage = Stage::Over;
            }
            Message::Refresh => self.refresh = true,
            Message::Shutdown(limit) => {
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
            Message::SandboxEnded => {
                if self.sandbox.as_ref().is_some_and(|sandbox| *sandbox.ended().borrow()) {
                    self.sandbox = None;
                    // A new sandbox begins from the beginning.
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

    /// Does what can be done now; returns when to look again without a message.
    async fn step(&mut self) -> Option<Instant> {
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
        // A finished init container is followed by the next at once, not by another round.
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

    async fn close_sandbox(&mut self) {
        if let Some(sandbox) = self.sandbox.take() {
            sandbox.destroy().await;
        }
        self.network = None;
    }

    /// Makes network, sandbox and volumes what they have to be.
    async fn set_up(&mut self) -> Result<(), (&'static str, String)> {
        let sandbox_failed = |error: String| ("FailedCreatePodSandBox", error);
        if self.network.is_none() {
            for dir in ["root", "termination", "volumes", "logs"] {
                let dir = self.dir.join(dir);
                std::fs::create_dir_all(&dir)
                    .map_err(|error| sandbox_failed(format!("failed to make {}: {error}", dir.display())))?;
            }
            let network = self.cx.network.attach_pod().await;
            self.network = Some(network.map_err(|error| sandbox_failed(error.to_string()))?);
        }
        if self.sandbox.is_none()
            && let Some(network) = &self.network
        {
            let metadata = &self.pod.metadata;
            let label = format!(
                "{}/{}",
                metadata.namespace.as_deref().unwrap_or_default(),
                metadata.name.as_deref().unwrap_or_default()
            );
            let hostname = launch::hostname(&self.pod);
            let sandbox = Sandbox::start(&self.cx.spawner, label, hostname, network.namespace.as_fd()).await;
            let sandbox = sandbox.map_err(|error| sandbox_failed(error.to_string()))?;
            let (mut ended, messages) = (sandbox.ended(), self.messages.clone());
            tokio::spawn(async move {
                let _ = ended.wait_for(|ended| *ended).await;
                let _ = messages.send(Message::SandboxEnded);
            });
            self.sandbox = Some(sandbox);
        }
        let renewal = self.volumes.renewal().is_some_and(|time| time <= Instant::now());
        if !self.volumes_ready || self.refresh || renewal {
            let facts = self.facts();
            let subject = Subject { client: &self.cx.client, pod: &self.pod, facts: &facts };
            match self.volumes.sync(&subject).await {
                Ok(()) => self.volumes_ready = true,
                Err(error) if !self.volumes_ready => return Err(("FailedMount", error.to_string())),
                // A running pod keeps what it has.
                Err(error) => tracing::debug!(%error, "failed to bring a volume up to date"),
            }
            self.refresh = false;
        }
        Ok(())
    }

    fn pod_ip(&self) -> Ipv4Addr {
        self.network.as_ref().map_or(Ipv4Addr::UNSPECIFIED, |network| network.ip)
    }

    fn facts(&self) -> PodFacts {
        PodFacts { pod_ip: self.pod_ip().to_string(), host_ip: NODE_IP.to_string() }
    }

    async fn start_container(&mut self, index: usize) {
        let Some(sandbox) = self.sandbox.clone() else { return };
        let image = self.slots[index].container.image.clone().unwrap_or_default();
        let resolved = {
            let images = self.cx.images.read().unwrap_or_else(PoisonError::into_inner);
            images.resolve(&image)
        };
        let program = match resolved {
            Ok(program) => program,
            Err(unknown) => return self.image_missing(index, &image, &unknown.to_string()),
        };
        self.event(
            Some(index),
            Severity::Normal,
            "Pulled",
            format!("Image {image:?} is a program on this machine: {}", program.description),
        );
        let spec = match self.process_spec(index, &program).await {
            Ok(spec) => spec,
            Err(message) => {
                let slot = &mut self.slots[index];
                let known = slot.waiting.as_ref().is_some_and(|(_, other)| *other == message);
                slot.not_before = Some(Instant::now() + Duration::from_secs(2));
                slot.waiting = Some(("CreateContainerConfigError", message.clone()));
                if !known {
                    self.event(Some(index), Severity::Warning, "Failed", format!("Error: {message}"));
                }
                return;
            }
        };
        self.launch(index, &sandbox, spec).await;
    }

    fn image_missing(&mut self, index: usize, image: &str, message: &str) {
        {
            let mut images = self.cx.images.write().unwrap_or_else(PoisonError::into_inner);
            images.refresh();
        }
        let slot = &mut self.slots[index];
        let first = slot.waiting.is_none();
        slot.not_before = Some(Instant::now() + slot.backoff.after_failure());
        if first {
            slot.waiting = Some(("ErrImagePull", message.to_owned()));
            self.event(
                Some(index),
                Severity::Warning,
                "Failed",
                format!("Failed to pull image {image:?}: {message}"),
            );
            self.event(Some(index), Severity::Warning, "Failed", "Error: ErrImagePull".to_owned());
        } else {
            let text = format!("Back-off pulling image {image:?}: {message}");
            slot.waiting = Some(("ImagePullBackOff", text.clone()));
            self.event(Some(index), Severity::Normal, "BackOff", text);
        }
    }

    async fn process_spec(&self, index: usize, image: &Image) -> Result<ProcessSpec, String> {
        let container = &self.slots[index].container;
        let facts = self.facts();
        let subject = Subject { client: &self.cx.client, pod: &self.pod, facts: &facts };
        let sources = volumes::env_sources(&subject, container).await?;
        let namespace = self.pod.metadata.namespace.as_deref().unwrap_or("default");
        let links = self.pod.spec.as_ref().and_then(|spec| spec.enable_service_links).unwrap_or(true);
        let services = env::of_services(&self.cx.zone(), namespace, links);
        let hostname = launch::hostname(&self.pod);
        let env = env::build(&self.pod, container, &facts, &sources, services, &hostname)?;
        let message = launch::message_file(&self.dir, &container.name);
        std::fs::write(&message, "")
            .and_then(|()| {
                use std::os::unix::fs::PermissionsExt as _;
                std::fs::set_permissions(&message, std::fs::Permissions::from_mode(0o666))
            })
            .map_err(|error| format!("failed to write {}: {error}", message.display()))?;
        let around = Surroundings {
            pod_dir: &self.dir,
            pod_ip: &facts.pod_ip,
            dns_ip: &self.cx.dns_ip,
            domain: &self.cx.domain,
            one_user: self.cx.one_user,
        };
        launch::process(&self.pod, container, image, env, &self.volumes, &around)
    }

    async fn launch(&mut self, index: usize, sandbox: &Arc<Sandbox>, spec: ProcessSpec) {
        let name = self.slots[index].container.name.clone();
        {
            let slot = &mut self.slots[index];
            if let Run::Exited(end) = std::mem::replace(&mut slot.run, Run::New) {
                slot.last = Some(end);
                slot.restarts += 1;
            }
            slot.instance += 1;
            slot.waiting = None;
            slot.not_before = None;
            slot.container_id = Some(format!("olm://{:032x}", rand::random::<u128>()));
        }
        let (restarts, instance) = (self.slots[index].restarts, self.slots[index].instance);
        let path = logs::path_of(&self.dir, &name, restarts);
        logs::forget_older(&self.dir, &name, restarts);
        let template = ProcessSpec { argv: Vec::new(), ..spec.clone() };
        let launched = async {
            let (stdio, streams) =
                pipes(false).map_err(|error| error.to_string()).map_err(StartFailure::Create)?;
            let process = sandbox.run(spec, stdio).await.map_err(|error| match error {
                SandboxError::Start { message, not_found } => StartFailure::Start(message, not_found),
                other => StartFailure::Create(other.to_string()),
            })?;
            let log = logs::record(path, streams.stdout, streams.stderr)
                .map_err(|error| StartFailure::Create(format!("failed to open the log: {error}")))?;
            Ok::<_, StartFailure>((process, log))
        };
        match launched.await {
            Ok((process, log)) => {
                {
                    let mut live = lock(&self.live.containers);
                    let entry = live.entry(name.clone()).or_default();
                    entry.previous = entry.log.take();
                    entry.log = Some(log);
                    entry.running = Some((process.clone(), template.clone()));
                }
                self.event(Some(index), Severity::Normal, "Created", format!("Created container {name}"));
                self.event(Some(index), Severity::Normal, "Started", format!("Started container {name}"));
                self.watch(index, instance, process, template);
            }
            Err(StartFailure::Start(message, not_found)) => {
                self.event(
                    Some(index),
                    Severity::Warning,
                    "Failed",
                    format!("Error: failed to start container {name:?}: {message}"),
                );
                let end = ContainerStateTerminated {
                    exit_code: if not_found { 127 } else { 128 },
                    reason: Some("StartError".to_owned()),
                    message: Some(message),
                    started_at: Some(now()),
                    finished_at: Some(now()),
                    container_id: self.slots[index].container_id.clone(),
                    ..ContainerStateTerminated::default()
                };
                let slot = &mut self.slots[index];
                slot.not_before = Some(Instant::now() + slot.backoff.after_failure());
                slot.run = Run::Exited(end);
            }
            Err(StartFailure::Create(message)) => {
                self.event(Some(index), Severity::Warning, "Failed", format!("Error: {message}"));
                let slot = &mut self.slots[index];
                slot.not_before = Some(Instant::now() + slot.backoff.after_failure());
                slot.waiting = Some(("CreateContainerError", message));
            }
        }
    }

    /// Follows a process that was just started: its end, its probes, its `postStart` hook.
    fn watch(&mut self, index: usize, instance: u64, process: Process, template: ProcessSpec) {
        let target = Target {
            network: self.cx.network.clone(),
            pod_ip: self.pod_ip(),
            process: process.clone(),
            template: template.clone(),
            ports: self.slots[index].container.ports.clone().unwrap_or_default(),
        };
        let (mut waiting, messages) = (process.clone(), self.messages.clone());
        tokio::spawn(async move {
            let exit = waiting.wait().await;
            let _ = messages.send(Message::Exited { slot: index, instance, exit });
        });
        let mut tasks = Vec::new();
        let container = self.slots[index].container.clone();
        if let Some(hook) = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.post_start.clone()) {
            let (messages, target, limit) = (self.messages.clone(), target.clone(), self.grace());
            let task = tokio::spawn(async move {
                if let Err(message) = probe::hook(&target, &hook, limit).await {
                    let _ = messages.send(Message::HookFailed { slot: index, instance, message });
                }
            });
            tasks.push(task.abort_handle());
        }
        let slot = &mut self.slots[index];
        slot.started = container.startup_probe.is_none();
        slot.ready = slot.started && container.readiness_probe.is_none() && !slot.is_init;
        let since = Instant::now();
        slot.run = Run::Running(Box::new(Running {
            process,
            template,
            since,
            started_at: now(),
            tasks,
            stopping: None,
        }));
        if slot.started {
            self.start_probes(index, &[ProbeKind::Readiness, ProbeKind::Liveness]);
        } else {
            self.start_probes(index, &[ProbeKind::Startup]);
        }
    }

    fn start_probes(&mut self, index: usize, kinds: &[ProbeKind]) {
        let (network, pod_ip, messages) = (self.cx.network.clone(), self.pod_ip(), self.messages.clone());
        let slot = &mut self.slots[index];
        let (instance, container) = (slot.instance, slot.container.clone());
        let Run::Running(running) = &mut slot.run else { return };
        for kind in kinds.iter().copied() {
            let probe = match kind {
                ProbeKind::Startup => container.startup_probe.clone(),
                ProbeKind::Readiness => container.readiness_probe.clone(),
                ProbeKind::Liveness => container.liveness_probe.clone(),
            };
            let Some(probe) = probe else { continue };
            let target = Target {
                network: network.clone(),
                pod_ip,
                process: running.process.clone(),
                template: running.template.clone(),
                ports: container.ports.clone().unwrap_or_default(),
            };
            let messages = messages.clone();
            let report = move |outcome| {
                let _ = messages.send(Message::Probed { slot: index, instance, outcome });
            };
            running.tasks.push(tokio::spawn(probe::run(target, probe, kind, report)).abort_handle());
        }
    }

    fn probed(&mut self, index: usize, instance: u64, outcome: Outcome) {
        if !self.is_current(index, instance) || self.stage != Stage::Active {
            return;
        }
        if let Some(failure) = &outcome.failure {
            let text = format!("{} probe failed: {failure}", outcome.kind.name());
            self.event(Some(index), Severity::Warning, "Unhealthy", text);
        }
        let has_readiness = self.slots[index].container.readiness_probe.is_some();
        match (outcome.kind, outcome.verdict) {
            (_, None) | (ProbeKind::Liveness, Some(true)) => {}
            (ProbeKind::Readiness, Some(good)) => self.slots[index].ready = good,
            (ProbeKind::Startup, Some(true)) => {
                self.slots[index].started = true;
                self.slots[index].ready = !has_readiness;
                self.start_probes(index, &[ProbeKind::Readiness, ProbeKind::Liveness]);
            }
            (ProbeKind::Startup | ProbeKind::Liveness, Some(false)) => {
                let container = &self.slots[index].container;
                let name = container.name.clone();
                let kind = outcome.kind.name().to_lowercase();
                let probe = match outcome.kind {
                    ProbeKind::Startup => &container.startup_probe,
                    _ => &container.liveness_probe,
                };
                let seconds = probe.as_ref().and_then(|probe| probe.termination_grace_period_seconds);
                let own = seconds.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
                let text = format!("Container {name} failed {kind} probe, will be restarted");
                self.event(Some(index), Severity::Normal, "Killing", text);
                self.stop(index, own.unwrap_or_else(|| self.grace()));
            }
        }
    }

    /// Stops a container: hook, SIGTERM, and after the grace period SIGKILL. Its end comes as a message.
    fn stop(&mut self, index: usize, grace: Duration) {
        let (network, pod_ip) = (self.cx.network.clone(), self.pod_ip());
        let slot = &mut self.slots[index];
        slot.ready = false;
        let lifecycle = slot.container.lifecycle.as_ref();
        let hook = lifecycle.and_then(|lifecycle| lifecycle.pre_stop.clone());
        let ports = slot.container.ports.clone().unwrap_or_default();
        let Run::Running(running) = &mut slot.run else { return };
        running.tasks.drain(..).for_each(|task| task.abort());
        // A second, shorter notice does not run the hook again.
        let hook = if running.stopping.is_some() { None } else { hook };
        let process = running.process.clone();
        let template = running.template.clone();
        let target = Target { network, pod_ip, process, template, ports };
        if let Some(earlier) =
            running.stopping.replace(tokio::spawn(stop_process(target, hook, grace)).abort_handle())
        {
            earlier.abort();
        }
    }

    fn stop_all(&mut self, grace: Duration) {
        for index in 0..self.slots.len() {
            self.stop(index, grace);
        }
    }

    fn terminate(&mut self, grace: Duration) {
        match self.stage {
            Stage::Terminating { grace: earlier } if grace >= earlier => return,
            Stage::Over | Stage::Leaving => return,
            Stage::Terminating { .. } => {}
            Stage::Active | Stage::Finished(_) => {
                for index in 0..self.slots.len() {
                    if matches!(self.slots[index].run, Run::Running(_)) {
                        let text = format!("Stopping container {}", self.slots[index].container.name);
                        self.event(Some(index), Severity::Normal, "Killing", text);
                    }
                }
            }
        }
        self.stage = Stage::Terminating { grace };
        self.stop_all(grace);
    }

    /// The pod is stopped: removes what it had here, then the object.
    async fn finish_deletion(&mut self) -> Option<Instant> {
        self.close_sandbox().await;
        let _ = self.publish().await;
        let _ = std::fs::remove_dir_all(&self.dir);
        let name = self.pod.metadata.name.clone().unwrap_or_default();
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions {
                uid: self.pod.metadata.uid.clone(),
                ..Preconditions::default()
            }),
            ..DeleteParams::default()
        };
        match self.api().delete(&name, &params).await {
            // With finalizers the object stays for a while; its end comes as a message.
            Ok(_) => {
                let waits = self.pod.metadata.finalizers.as_ref().is_some_and(|list| !list.is_empty());
                if !waits {
                    self.stage = Stage::Over;
                }
                None
            }
            Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => {
                self.stage = Stage::Over;
                None
            }
            Err(error) => {
                tracing::warn!(%error, pod = name, "failed to delete a pod that is stopped; trying again");
                Some(Instant::now() + Duration::from_secs(1))
            }
        }
    }

    fn exited(&mut self, index: usize, instance: u64, exit: Exit) {
        if !self.is_current(index, instance) {
            return;
        }
        let name = self.slots[index].container.name.clone();
        let message = self.last_words(index, exit);
        let slot = &mut self.slots[index];
        let Run::Running(running) = &slot.run else { return };
        let end = ContainerStateTerminated {
            exit_code: exit.code,
            signal: exit.signal,
            reason: Some(if exit.code == 0 { "Completed" } else { "Error" }.to_owned()),
            message,
            started_at: Some(running.started_at.clone()),
            finished_at: Some(now()),
            container_id: slot.container_id.clone(),
        };
        let delay = slot.backoff.after(running.since.elapsed());
        slot.not_before = Some(Instant::now() + delay);
        slot.run = Run::Exited(end);
        slot.started = false;
        // An init container that completed is what "ready" means for it.
        slot.ready = slot.is_init && exit.code == 0;
        if let Some(entry) = lock(&self.live.containers).get_mut(&name) {
            entry.running = None;
        }
    }

    /// The termination message: from its file, or the end of the log when the container asks for that.
    fn last_words(&self, index: usize, exit: Exit) -> Option<String> {
        const MOST: usize = 4096;
        let container = &self.slots[index].container;
        let bytes = std::fs::read(launch::message_file(&self.dir, &container.name)).unwrap_or_default();
        let mut text = String::from_utf8_lossy(&bytes[..bytes.len().min(MOST)]).into_owned();
        let fall_back = container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError");
        if text.is_empty() && fall_back && exit.code != 0 {
            let log = lock(&self.live.containers).get(&container.name).and_then(|entry| entry.log.clone());
            text = log.map(|log| log.tail(80)).unwrap_or_default();
            let cut = text.len().saturating_sub(2048);
            let cut = (cut..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            text = text.split_off(cut);
        }
        (!text.is_empty()).then_some(text)
    }

    fn show_backoff(&mut self, index: usize) {
        let (name, namespace) = (
            self.pod.metadata.name.clone().unwrap_or_default(),
            self.pod.metadata.namespace.clone().unwrap_or_default(),
        );
        let uid = self.uid();
        let slot = &mut self.slots[index];
        if slot.waiting.is_some() || !matches!(slot.run, Run::Exited(_)) {
            return;
        }
        let left =
            slot.not_before.map_or(Duration::ZERO, |time| time.saturating_duration_since(Instant::now()));
        let container = slot.container.name.clone();
        let seconds = left.as_secs_f32().ceil();
        let text = format!(
            "back-off {seconds}s restarting failed container={container} pod={name}_{namespace}({uid})"
        );
        slot.waiting = Some(("CrashLoopBackOff", text.clone()));
        self.event(
            Some(index),
            Severity::Warning,
            "BackOff",
            format!("Back-off restarting failed container {container}: {text}"),
        );
    }

    fn report<'a>(&self, slot: &'a Slot) -> Report<'a> {
        let creating = || match slot.is_init || self.initialized {
            true => waiting("ContainerCreating", self.last_error.clone()),
            false => waiting("PodInitializing", None),
        };
        let (state, last) = match (&slot.run, &slot.waiting) {
            (Run::Running(running), _) => {
                let running = ContainerStateRunning { started_at: Some(running.started_at.clone()) };
                (ContainerState { running: Some(running), ..ContainerState::default() }, slot.last.clone())
            }
            (Run::Exited(end), Some((reason, message))) => {
                (waiting(reason, Some(message.clone())), Some(end.clone()))
            }
            (Run::New, Some((reason, message))) => {
                (waiting(reason, Some(message.clone())), slot.last.clone())
            }
            (Run::Exited(end), None) => (
                ContainerState { terminated: Some(end.clone()), ..ContainerState::default() },
                slot.last.clone(),
            ),
            (Run::New, None) => (creating(), slot.last.clone()),
        };
        Report {
            container: &slot.container,
            state,
            last,
            restarts: slot.restarts,
            started: slot.started,
            ready: slot.ready,
            container_id: slot.container_id.clone(),
        }
    }

    /// Writes the status when it differs from what was written last; returns when to try again.
    async fn publish(&mut self) -> Option<Instant> {
        // When it is not the pod that stops but the node, the next start takes pods up as they are reported now.
        // And of a pod that was over before the agent started there is nothing new to say.
        if self.stage == Stage::Leaving || self.old_news {
            return None;
        }
        if let Some(time) = self.send_at.filter(|time| *time > Instant::now()) {
            return Some(time);
        }
        let (init, main): (Vec<&Slot>, Vec<&Slot>) = self.slots.iter().partition(|slot| slot.is_init);
        let finished = match self.stage {
            Stage::Finished(success) => Some(success),
            _ => None,
        };
        let earlier_ip = self.pod.status.as_ref().and_then(|status| status.pod_ip.clone());
        let made = status(&Snapshot {
            pod: &self.pod,
            init: init.into_iter().map(|slot| self.report(slot)).collect(),
            containers: main.into_iter().map(|slot| self.report(slot)).collect(),
            conditions: &self.conditions,
            initialized: self.initialized || finished == Some(true),
            finished,
            terminating: matches!(self.stage, Stage::Terminating { .. }),
            pod_ip: self.network.as_ref().map(|network| network.ip.to_string()).or(earlier_ip),
            host_ip: NODE_IP.to_string(),
            start_time: self.start_time.clone(),
            now: now(),
        });
        self.conditions = made.conditions.clone().unwrap_or_default();
        self.show_state(&made);
        let value = serde_json::to_value(&made).unwrap_or_default();
        if self.sent.as_ref() == Some(&value) {
            return None;
        }
        let patch = json!({"metadata": {"uid": self.pod.metadata.uid}, "status": value});
        let name = self.pod.metadata.name.clone().unwrap_or_default();
        match self.api().patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(_) => {
                self.sent = Some(value);
                self.send_at = None;
                None
            }
            // The object is gone, or another pod has its name by now: the watch will say so.
            Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => {
                self.sent = Some(value);
                None
            }
            Err(error) => {
                tracing::warn!(%error, pod = name, "failed to write a pod's status; trying again");
                self.send_at = Some(Instant::now() + Duration::from_secs(1));
                self.send_at
            }
        }
    }

    fn show_state(&self, status: &k8s_openapi::api::core::v1::PodStatus) {
        let mut live = lock(&self.live.containers);
        let all =
            status.container_statuses.iter().flatten().chain(status.init_container_statuses.iter().flatten());
        for container in all {
            let state = container.state.clone().unwrap_or_default();
            let text = match (state.waiting, state.terminated) {
                (Some(waiting), _) => format!("is waiting to start: {}", waiting.reason.unwrap_or_default()),
                (None, Some(_)) => "is terminated".to_owned(),
                (None, None) => "is running".to_owned(),
            };
            if let Some(entry) = live.get_mut(&container.name) {
                entry.state = text;
            }
        }
    }
}

enum StartFailure {
    /// The program did not start.
    Start(String, bool),
    /// What the program needs could not be made.
    Create(String),
}

async fn stop_process(target: Target, hook: Option<LifecycleHandler>, grace: Duration) {
    let deadline = tokio::time::Instant::now() + grace;
    if let Some(hook) = hook
        && let Err(error) = probe::hook(&target, &hook, grace).await
    {
        tracing::debug!(error, "a preStop hook failed");
    }
    target.process.signal(Signal::SIGTERM, false);
    // As kubelet: after a hook that took all of the time, two seconds are left.
    let least = tokio::time::Instant::now() + Duration::from_secs(if grace.is_zero() { 0 } else { 2 });
    tokio::time::sleep_until(deadline.max(least)).await;
    target.process.signal(Signal::SIGKILL, true);
}

/// What a container is when the agent starts: what ran before is not running any more.
fn recover(
    container: Container,
    is_init: bool,
    earlier: Option<&k8s_openapi::api::core::v1::ContainerStatus>,
    restarts: bool,
) -> Slot {
    let mut slot = Slot {
        container,
        is_init,
        run: Run::New,
        waiting: None,
        last: None,
        restarts: 0,
        instance: 0,
        container_id: None,
        backoff: Backoff::default(),
        not_before: None,
        started: false,
        ready: false,
    };
    let Some(earlier) = earlier else { return slot };
    slot.restarts = earlier.restart_count;
    slot.container_id.clone_from(&earlier.container_id);
    slot.last = earlier.last_state.as_ref().and_then(|state| state.terminated.clone());
    let state = earlier.state.clone().unwrap_or_default();
    if let Some(end) = state.terminated {
        // Init containers run again in the new sandbox; a container that had ended stays ended.
        if !is_init || !restarts {
            slot.run = Run::Exited(end);
        }
    } else if let Some(running) = state.running {
        slot.run = Run::Exited(ContainerStateTerminated {
            exit_code: 255,
            reason: Some("Unknown".to_owned()),
            message: Some("the node was stopped while the container ran".to_owned()),
            started_at: running.started_at,
            finished_at: Some(now()),
            container_id: earlier.container_id.clone(),
            ..ContainerStateTerminated::default()
        });
    }
    slot
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

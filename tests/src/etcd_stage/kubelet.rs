//! A kubelet that runs the pods of members as processes, and applies the scenarios' faults.

use std::{
    collections::BTreeMap,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
    runtime::{WatchStreamExt as _, watcher},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use tokio::{process::Child, sync::Notify};
use tokio_util::sync::CancellationToken;

use super::{
    audit::Audit,
    images::Etcds,
    net::Net,
    pod,
    pod_status::{now, running, waiting},
    wire::{Use, Wires},
};

/// First restart delay of a terminated container; it doubles each time.
pub(super) const BACKOFF: Duration = Duration::from_millis(200);
pub(super) const BACKOFF_MAX: Duration = Duration::from_secs(2);
/// Runtime after which the delay is reset.
const RAN_WELL: Duration = Duration::from_secs(10);
/// Interval of readiness probes. A real kubelet uses the probe's period, which is a second.
const PROBE: Duration = Duration::from_millis(250);
/// Polling interval of obstacles to a start.
const LOOK: Duration = Duration::from_millis(100);
/// Minimum time to stop after a hook.
const LEAST: Duration = Duration::from_secs(2);
/// Number of failing probes until a ready pod is not ready.
const FAILURES: u32 = 3;

/// A scenario's faults of a pod.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Orders {
    /// A terminated process stays down.
    pub(super) held: bool,
    /// The data is deleted before the next start.
    pub(super) wipe: bool,
}

/// One start of a member's process.
#[derive(Debug, Clone)]
pub struct Start {
    pub pod: String,
    /// Initial cluster state of etcd without data: `new` or `existing`.
    pub state: String,
    /// It has no data.
    pub empty: bool,
    pub image: String,
}

/// One pod.
pub(super) struct Run {
    /// Its current state: images and annotations change.
    pub(super) pod: Mutex<Pod>,
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) uid: String,
    pub(super) outside: Ipv4Addr,
    pub(super) inside: Ipv4Addr,
    pub(super) folder: PathBuf,
    pub(super) orders: Mutex<Orders>,
    pub(super) state: Mutex<State>,
    /// Deletion has begun.
    pub(super) ending: CancellationToken,
    /// The object is gone: its status is not written any more.
    pub(super) gone: CancellationToken,
    pub(super) changed: Notify,
}

#[derive(Debug, Clone, Default)]
pub(super) struct State {
    pub(super) pid: Option<i32>,
    pub(super) ready: bool,
    pub(super) restarts: i32,
    pub(super) data: Option<PathBuf>,
}

impl Run {
    /// The current image of its container.
    fn image(&self) -> String {
        let pod = lock(&self.pod);
        let container = pod.spec.as_ref().and_then(|spec| spec.containers.first());
        container.and_then(|container| container.image.clone()).unwrap_or_default()
    }
}

/// Whether etcd wrote below a directory.
fn has_data(folder: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries
        .flatten()
        .any(|entry| entry.file_name() == "member" || (entry.path().is_dir() && has_data(&entry.path())))
}

/// Why a pod may not start, if so.
pub(super) type Rule = Arc<dyn Fn(&Pod) -> Option<String> + Send + Sync>;

/// The kubelet. Cheap to clone.
#[derive(Clone)]
pub struct Kubelet {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) client: Client,
    pub(super) net: Arc<Net>,
    pub(super) wires: Arc<Wires>,
    pub(super) audit: Arc<Audit>,
    pub(super) etcds: Etcds,
    pub(super) folder: PathBuf,
    pub(super) node: &'static str,
    pub(super) runs: Mutex<BTreeMap<String, Arc<Run>>>,
    pub(super) rule: Mutex<Option<Rule>>,
    /// Images whose program exits at once.
    pub(super) broken: Mutex<Option<String>>,
    pub(super) starts: Mutex<Vec<Start>>,
    pub(super) stop: CancellationToken,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Kubelet {
    pub(super) fn start(
        client: Client,
        (net, wires, audit): (Arc<Net>, Arc<Wires>, Arc<Audit>),
        etcds: Etcds,
        folder: &Path,
        node: &'static str,
        stop: CancellationToken,
    ) -> Self {
        let inner = Inner {
            client,
            net,
            wires,
            audit,
            etcds,
            folder: folder.to_owned(),
            node,
            runs: Mutex::default(),
            rule: Mutex::default(),
            broken: Mutex::default(),
            starts: Mutex::default(),
            stop: stop.clone(),
        };
        let kubelet = Self { inner: Arc::new(inner) };
        let task = kubelet.clone();
        tokio::spawn(stop.run_until_cancelled_owned(async move { task.watch().await }));
        kubelet
    }

    async fn watch(&self) {
        let pods: Api<Pod> = Api::all(self.inner.client.clone());
        let mut events = watcher(pods, watcher::Config::default()).default_backoff().boxed();
        loop {
            match events.try_next().await {
                Ok(Some(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod))) => self.seen(pod),
                Ok(Some(watcher::Event::Delete(pod))) => {
                    if let Some(run) = self.run_of(&pod) {
                        run.gone.cancel();
                        run.ending.cancel();
                    }
                }
                Ok(Some(watcher::Event::Init | watcher::Event::InitDone)) | Err(_) => {}
                Ok(None) => return,
            }
        }
    }

    fn run_of(&self, pod: &Pod) -> Option<Arc<Run>> {
        lock(&self.inner.runs)
            .get(&pod.name_any())
            .filter(|run| Some(&run.uid) == pod.metadata.uid.as_ref())
            .cloned()
    }

    fn seen(&self, pod: Pod) {
        let here = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(self.inner.node);
        if pod.metadata.deletion_timestamp.is_some() {
            match self.run_of(&pod) {
                Some(run) => {
                    // With the grace period of the deletion.
                    *lock(&run.pod) = pod;
                    run.ending.cancel();
                }
                // It never ran; no other controller deletes it.
                None => {
                    let kubelet = self.clone();
                    tokio::spawn(async move {
                        if kubelet.run_of(&pod).is_none() {
                            kubelet
                                .remove(&pod.name_any(), &pod.namespace().unwrap_or_default(), pod.uid())
                                .await;
                        }
                    });
                }
            }
            return;
        }
        if let Some(run) = self.run_of(&pod) {
            *lock(&run.pod) = pod;
            run.changed.notify_one();
            return;
        }
        if !here {
            return;
        }
        let (name, uid) = (pod.name_any(), pod.uid().unwrap_or_default());
        let run = Arc::new(Run {
            outside: self.inner.net.outside(&name),
            inside: self.inner.net.inside(&name),
            folder: self.inner.folder.join(format!("{name}-{uid}")),
            namespace: pod.namespace().unwrap_or_default(),
            name: name.clone(),
            uid,
            pod: Mutex::new(pod),
            orders: Mutex::default(),
            state: Mutex::default(),
            ending: CancellationToken::new(),
            gone: CancellationToken::new(),
            changed: Notify::new(),
        });
        let before = lock(&self.inner.runs).insert(name, Arc::clone(&run));
        let (kubelet, stop) = (self.clone(), self.inner.stop.clone());
        tokio::spawn(stop.run_until_cancelled_owned(async move {
            // An address belongs to one pod at a time.
            if let Some(before) = before {
                before.gone.cancel();
                before.ending.cancel();
                while lock(&before.state).pid.is_some() {
                    tokio::time::sleep(LOOK).await;
                }
            }
            kubelet.live(&run).await;
        }));
    }

    /// One pod from its start to its end.
    async fn live(&self, run: &Run) {
        let mut reported = Value::Null;
        if let Err(error) = self.prepare(run).await {
            self.report(run, &mut reported, &waiting("CreateContainerError", &format!("{error:#}"))).await;
            run.ending.cancelled().await;
        } else {
            self.work(run, &mut reported).await;
        }
        lock(&run.state).pid = None;
        lock(&run.state).ready = false;
        // The content of an emptyDir is deleted with its pod; a claim stays.
        let _ = std::fs::remove_dir_all(&run.folder);
        self.remove(&run.name, &run.namespace, Some(run.uid.clone())).await;
        let mut runs = lock(&self.inner.runs);
        if runs.get(&run.name).is_some_and(|now| now.uid == run.uid) {
            runs.remove(&run.name);
        }
    }

    async fn prepare(&self, run: &Run) -> Result<()> {
        let (net, wires) = (&self.inner.net, &self.inner.wires);
        wires.lay(&run.name, Use::Peers, run.outside, run.inside, 2380).await?;
        wires.lay(&run.name, Use::Clients, run.outside, run.inside, 2379).await?;
        self.inner.audit.listen(&run.name).await?;
        ensure!(net.outside(&run.name) == run.outside, "its address changed");
        std::fs::create_dir_all(&run.folder)?;
        Ok(())
    }

    async fn work(&self, run: &Run, reported: &mut Value) {
        let mut last: Value = Value::Null;
        let mut backoff = BACKOFF;
        let mut initialised = false;
        loop {
            // Nothing starts while there is an obstacle.
            while let Some((reason, why)) = self.obstacle(run).await {
                let mut status = waiting(reason, &why);
                status["containerStatuses"][0]["lastState"] = last.clone();
                status["containerStatuses"][0]["restartCount"] = json!(lock(&run.state).restarts);
                self.report(run, reported, &status).await;
                tokio::select! {
                    () = run.ending.cancelled() => return,
                    () = run.changed.notified() => {}
                    () = tokio::time::sleep(LOOK) => {}
                }
            }
            if run.ending.is_cancelled() {
                return;
            }
            if !initialised && !self.initialise(run, reported).await {
                return;
            }
            initialised = true;
            let begun = Instant::now();
            let log_begins = std::fs::metadata(self.log(&run.name)).map_or(0, |log| log.len());
            let started = self.begin(run).await;
            let why = match started {
                Ok(mut child) => match self.runs(run, &mut child, reported, &last).await {
                    Some(code) => format!("exit code {code}"),
                    None => return,
                },
                Err(error) => format!("{error:#}"),
            };
            if begun.elapsed() > RAN_WELL {
                backoff = BACKOFF;
            }
            let code = why.rsplit(' ').next().and_then(|code| code.parse::<i32>().ok()).unwrap_or(128);
            // Like a kubelet for a container with policy FallbackToLogsOnError.
            let message = if code == 0 { String::new() } else { self.log_end(run, log_begins) };
            last = json!({ "terminated": { "exitCode": code, "reason": "Error", "message": message,
                "finishedAt": now() } });
            let restarts = {
                let mut state = lock(&run.state);
                state.pid = None;
                state.ready = false;
                state.restarts += 1;
                state.restarts
            };
            let mut status =
                waiting("CrashLoopBackOff", &format!("back-off restarting failed container: {why}"));
            status["phase"] = "Running".into();
            status["podIP"] = run.outside.to_string().into();
            status["containerStatuses"][0]["lastState"] = last.clone();
            status["containerStatuses"][0]["restartCount"] = json!(restarts);
            self.report(run, reported, &status).await;
            tokio::select! {
                () = run.ending.cancelled() => return,
                () = tokio::time::sleep(backoff) => {}
            }
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
    }

    async fn obstacle(&self, run: &Run) -> Option<(&'static str, String)> {
        if lock(&run.orders).held {
            return Some(("CrashLoopBackOff", "held back by the scenario".into()));
        }
        let pod = lock(&run.pod).clone();
        let image = run.image();
        if let Err(error) = self.inner.etcds.image(&image) {
            return Some(("ErrImagePull", error.to_string()));
        }
        for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
            if let Some(claim) = &volume.persistent_volume_claim
                && let Err(error) = self.claimed(&run.namespace, &claim.claim_name).await
            {
                return Some(("ContainerCreating", format!("{error:#}")));
            }
        }
        let rule = lock(&self.inner.rule).clone();
        rule.and_then(|rule| rule(&pod)).map(|why| ("ContainerCreating", why))
    }

    /// Creates directories and the process.
    async fn begin(&self, run: &Run) -> Result<Child> {
        let pod = lock(&run.pod).clone();
        let spec = pod.spec.as_ref().context("a pod without a spec")?;
        let volumes = self.volumes(run).await?;
        let orders = {
            let mut orders = lock(&run.orders);
            let now = *orders;
            orders.wipe = false;
            now
        };
        let container = spec.containers.first().context("a pod without a container")?;
        let mounts = pod::mounts(container, &volumes)?;
        let data = volumes.get("etcd-data").cloned();
        if let (true, Some(data)) = (orders.wipe, &data) {
            std::fs::remove_dir_all(data)?;
            std::fs::create_dir_all(data)?;
        }
        lock(&run.state).data = data;
        let image = container.image.clone().unwrap_or_default();
        let broken = lock(&self.inner.broken).as_ref().is_some_and(|broken| image.contains(broken.as_str()));
        let started = Start {
            pod: run.name.clone(),
            state: pod::initial_state(&pod, container),
            empty: lock(&run.state).data.as_ref().is_none_or(|data| !has_data(data)),
            image,
        };
        lock(&self.inner.starts).push(started);
        if broken {
            bail!("the scenario broke it: exit code 1");
        }
        pod::start(&self.inner.etcds, &pod, container, &mounts, run.inside, &self.log(&run.name))
    }

    /// While the process runs: `Some` with its code when it ended, `None` when the pod is deleted.
    async fn runs(&self, run: &Run, child: &mut Child, reported: &mut Value, last: &Value) -> Option<i32> {
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        lock(&run.state).pid = pid;
        let started = now();
        let pod = lock(&run.pod).clone();
        let container = pod.spec.as_ref()?.containers.first()?;
        let image = run.image();
        let mut told_to_restart = false;
        let (mut failures, mut mirrored) = (0, Instant::now());
        loop {
            let status = running(run, &image, &started, last);
            self.report(run, reported, &status).await;
            tokio::select! {
                ended = child.wait() => {
                    use std::os::unix::process::ExitStatusExt as _;
                    let code = ended.ok().map(|s| s.code().unwrap_or_else(|| 128 + s.signal().unwrap_or_default()));
                    return Some(code.unwrap_or(255));
                }
                () = run.ending.cancelled() => break,
                // Another image: the container is restarted with it.
                () = run.changed.notified(), if !told_to_restart => {
                    if run.image() != image {
                        told_to_restart = true;
                        let _ = pid.map(|pid| kill(Pid::from_raw(pid), Signal::SIGTERM));
                    }
                    continue;
                }
                () = tokio::time::sleep(PROBE) => {}
            }
            let ready = pod::is_ready(container, run.inside).await;
            failures = if ready { 0 } else { failures + 1 };
            {
                let mut state = lock(&run.state);
                state.ready = ready || (state.ready && failures < FAILURES);
            }
            // Changed Secrets are written to the directories of their pods.
            if mirrored.elapsed() > Duration::from_secs(1) {
                mirrored = Instant::now();
                let _ = self.volumes(run).await;
            }
        }
        let grace = pod::grace(&lock(&run.pod));
        if let Some(pid) = pid.filter(|_| !run.gone.is_cancelled() && !grace.is_zero()) {
            let hook = pod::pre_stop(container).min(grace);
            for (signal, limit) in [(None, hook), (Some(Signal::SIGTERM), (grace - hook).max(LEAST))] {
                let _ = signal.map(|signal| kill(Pid::from_raw(pid), signal));
                tokio::select! {
                    _ = child.wait() => break,
                    () = run.gone.cancelled() => break,
                    () = tokio::time::sleep(limit) => {}
                }
            }
        }
        let _ = child.kill().await;
        None
    }

    pub(super) async fn report(&self, run: &Run, reported: &mut Value, status: &Value) {
        let mut status = status.clone();
        let ready = status["ready"] == true;
        let text = if ready { "True" } else { "False" };
        let since = match &reported["conditions"][1] {
            before if before["status"] == text => before["lastTransitionTime"].clone(),
            _ => json!(now()),
        };
        if let Some(status) = status.as_object_mut() {
            status.remove("ready");
            status.insert("conditions".into(), json!([
                { "type": "PodScheduled", "status": "True", "lastTransitionTime": lock(&run.pod).metadata.creation_timestamp },
                { "type": "Ready", "status": text, "lastTransitionTime": since },
            ]));
        }
        // An unchanged status would trigger all watchers.
        if *reported == status || run.gone.is_cancelled() {
            return;
        }
        let api: Api<Pod> = Api::namespaced(self.inner.client.clone(), &run.namespace);
        let patch = json!({ "metadata": { "uid": run.uid }, "status": status });
        // A pod deleted at this moment needs no status.
        if api.patch_status(&run.name, &PatchParams::default(), &Patch::Merge(&patch)).await.is_ok() {
            *reported = status;
        }
    }

    async fn remove(&self, name: &str, namespace: &str, uid: Option<String>) {
        let api: Api<Pod> = Api::namespaced(self.inner.client.clone(), namespace);
        let own = Preconditions { uid, resource_version: None };
        // Already gone is fine.
        let _ = api.delete(name, &DeleteParams::default().grace_period(0).preconditions(own)).await;
    }

    /// The end of the output of a pod's container since then, at most 2048 bytes.
    fn log_end(&self, run: &Run, begin: u64) -> String {
        const LENGTH: usize = 2048;
        let log = std::fs::read(self.log(&run.name)).unwrap_or_default();
        let log = log.get(usize::try_from(begin).unwrap_or_default()..).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(LENGTH)..]).into_owned()
    }

    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.inner.folder.join(format!("{name}.log"))
    }

    /// Kills everything at once, callable from any thread.
    pub(super) fn end(&self) {
        for run in lock(&self.inner.runs).values() {
            run.gone.cancel();
            if let Some(pid) = lock(&run.state).pid.take() {
                // A terminated one is fine.
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
    }
}

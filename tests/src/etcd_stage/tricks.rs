//! Faults of pods by scenarios, and queries.

use std::{net::Ipv4Addr, path::PathBuf, sync::Arc};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{
    kubelet::{Kubelet, Run, Start, lock},
    pod_status::tail,
};

impl Kubelet {
    fn run(&self, name: &str) -> Result<Arc<Run>> {
        lock(&self.inner.runs).get(name).cloned().with_context(|| format!("there is no pod {name}"))
    }

    fn signal(&self, name: &str, signal: Signal) -> Result<()> {
        self.inner.audit.disturb();
        let pid = lock(&self.run(name)?.state).pid.with_context(|| format!("pod {name} does not run"))?;
        kill(Pid::from_raw(pid), signal).with_context(|| format!("failed to signal {name}"))
    }

    /// `kill -9`; it is restarted like by a kubelet.
    /// # Errors
    /// When it does not run.
    pub fn kill(&self, name: &str) -> Result<()> {
        self.signal(name, Signal::SIGKILL)
    }

    /// `kill -9`, and it stays down until [`Self::up`].
    ///
    /// # Errors
    /// When there is no such pod.
    pub fn down(&self, name: &str) -> Result<()> {
        lock(&self.run(name)?.orders).held = true;
        self.kill(name)
    }

    /// Starts a process stopped by [`Self::down`].
    /// # Errors
    /// When there is no such pod.
    pub fn up(&self, name: &str) -> Result<()> {
        self.inner.audit.disturb();
        let run = self.run(name)?;
        lock(&run.orders).held = false;
        run.changed.notify_one();
        Ok(())
    }

    /// `kill -9`, with its data deleted before the restart; the pod stays.
    /// # Errors
    /// When it does not run.
    pub fn wipe(&self, name: &str) -> Result<()> {
        lock(&self.run(name)?.orders).wipe = true;
        self.kill(name)
    }

    /// Pauses it, with all its resources open.
    /// # Errors
    /// When it does not run.
    pub fn pause(&self, name: &str) -> Result<()> {
        self.signal(name, Signal::SIGSTOP)
    }

    /// Resumes it.
    /// # Errors
    /// When it does not run.
    pub fn resume(&self, name: &str) -> Result<()> {
        self.signal(name, Signal::SIGCONT)
    }

    /// From now on pods start only if this rule gives no reason against it.
    pub fn refuse(&self, rule: impl Fn(&Pod) -> Option<String> + Send + Sync + 'static) {
        *lock(&self.inner.rule) = Some(Arc::new(rule));
    }

    /// Removes the rule.
    pub fn accept(&self) {
        *lock(&self.inner.rule) = None;
    }

    /// From now on the program of images whose name contains this exits as soon as it starts; `None` for no
    /// image.
    pub fn break_image(&self, name: Option<&str>) {
        *lock(&self.inner.broken) = name.map(str::to_owned);
    }

    /// Every start of a member's process so far.
    #[must_use]
    pub fn starts(&self) -> Vec<Start> {
        lock(&self.inner.starts).clone()
    }

    /// Data directory of a pod.
    /// # Errors
    /// When it never ran.
    pub fn data(&self, name: &str) -> Result<PathBuf> {
        lock(&self.run(name)?.state).data.clone().with_context(|| format!("pod {name} never ran"))
    }

    /// Outside addresses of the ready pods of a cluster that its Service selects: its endpoints. Without any,
    /// those of terminating pods that still serve.
    #[must_use]
    pub fn ready(&self, cluster: &str) -> Vec<(String, Ipv4Addr)> {
        let of = |run: &Run| run.name.rsplit_once('-').is_some_and(|(name, _)| name == cluster);
        let runs: Vec<Arc<Run>> = lock(&self.inner.runs).values().cloned().collect();
        let selected =
            |run: &Run| lock(&run.pod).labels().get("etcd_serving").is_none_or(|serving| serving == "true");
        let serves = |run: &Arc<Run>| of(run) && selected(run) && lock(&run.state).ready;
        let (ending, ready): (Vec<_>, Vec<_>) =
            runs.into_iter().filter(serves).partition(|run| run.ending.is_cancelled());
        let used = if ready.is_empty() { ending } else { ready };
        used.into_iter().map(|run| (run.name.clone(), run.outside)).collect()
    }

    /// Pods of a cluster that run, ready or not.
    #[must_use]
    pub fn running(&self, cluster: &str) -> Vec<String> {
        let of = |run: &Run| run.name.rsplit_once('-').is_some_and(|(name, _)| name == cluster);
        let runs: Vec<Arc<Run>> = lock(&self.inner.runs).values().cloned().collect();
        runs.into_iter()
            .filter(|run| of(run) && lock(&run.state).pid.is_some())
            .map(|run| run.name.clone())
            .collect()
    }

    /// The end of a pod's process output, for a failed scenario.
    #[must_use]
    pub fn log_tail(&self, name: &str, lines: usize) -> String {
        tail(&std::fs::read_to_string(self.log(name)).unwrap_or_default(), lines)
    }
}

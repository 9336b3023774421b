//! Stops containers, and handles their exit.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::{ContainerStateTerminated, LifecycleHandler};
use kube::api::{DeleteParams, Preconditions};
use nix::sys::signal::Signal;

use super::{Stage, Worker, lock, now, slot::Run};
use crate::{
    events::Severity,
    pod::{
        launch,
        probe::{self, Target},
    },
    sandbox::Exit,
};

impl Worker {
    /// Stops a container: hook, SIGTERM, and after the grace period SIGKILL. Its exit arrives as a message.
    pub(super) fn stop(&mut self, index: usize, grace: Duration) {
        let (network, pod_ip) = (self.cx.network.clone(), self.pod_ip());
        let slot = &mut self.slots[index];
        slot.ready = false;
        let lifecycle = slot.container.lifecycle.as_ref();
        let hook = lifecycle.and_then(|lifecycle| lifecycle.pre_stop.clone());
        let ports = slot.container.ports.clone().unwrap_or_default();
        let Run::Running(running) = &mut slot.run else { return };
        running.tasks.drain(..).for_each(|task| task.abort());
        // A second stop with a shorter grace period does not run the hook again.
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

    /// Adopts the containers' definitions from the pod. A container whose image changed is restarted whatever
    /// the restart policy requires.
    pub(super) fn redefine(&mut self) {
        if self.stage != Stage::Active {
            return;
        }
        let pod = Arc::clone(&self.pod);
        let Some(spec) = &pod.spec else { return };
        for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
            let Some(index) = self.slots.iter().position(|slot| slot.container.name == container.name) else {
                continue;
            };
            if self.slots[index].redefine(container) {
                let text = format!("Container {} definition changed, will be restarted", container.name);
                self.event(Some(index), Severity::Normal, "Killing", text);
                self.stop(index, self.grace());
            }
        }
    }

    pub(super) fn stop_all(&mut self, grace: Duration) {
        for index in 0..self.slots.len() {
            self.stop(index, grace);
        }
    }

    pub(super) fn terminate(&mut self, grace: Duration) {
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

    /// Removes the local state of a stopped pod, then the object.
    pub(super) async fn finish_deletion(&mut self) -> Option<Instant> {
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
            // With finalizers the object stays for a while; its deletion arrives as a message.
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
                tracing::warn!(%error, pod = name, "failed to delete a stopped pod, will retry");
                Some(Instant::now() + Duration::from_secs(1))
            }
        }
    }

    pub(super) fn exited(&mut self, index: usize, instance: u64, exit: Exit) {
        if !self.is_current(index, instance) {
            return;
        }
        let name = self.slots[index].container.name.clone();
        let message = self.termination_message(index, exit);
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
        if let Some(replacement) = slot.replacement.take().filter(|_| self.stage == Stage::Active) {
            slot.count_restart();
            slot.adopt(replacement);
        }
        // A completed init container counts as ready.
        slot.ready = slot.is_init && exit.code == 0;
        if let Some(entry) = lock(&self.live.containers).get_mut(&name) {
            entry.running = None;
        }
    }

    /// The termination message: from its file, or with `FallbackToLogsOnError` the end of the log.
    fn termination_message(&self, index: usize, exit: Exit) -> Option<String> {
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
}

async fn stop_process(target: Target, hook: Option<LifecycleHandler>, grace: Duration) {
    let deadline = tokio::time::Instant::now() + grace;
    if let Some(hook) = hook
        && let Err(error) = probe::hook(&target, &hook, grace).await
    {
        tracing::debug!(error, "preStop hook failed");
    }
    target.process.signal(Signal::SIGTERM, false);
    // As in the kubelet: after a hook that took all of the time, two seconds are left.
    let least = tokio::time::Instant::now() + Duration::from_secs(if grace.is_zero() { 0 } else { 2 });
    tokio::time::sleep_until(deadline.max(least)).await;
    target.process.signal(Signal::SIGKILL, true);
}

//! Reports a pod's state: its status, and the containers for `logs` and `exec`.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ContainerState, ContainerStateRunning, PodStatus};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::{
    Stage, Worker, lock, now,
    slot::{Run, Slot},
};
use crate::{
    events::Severity,
    network::NODE_IP,
    pod::status::{Report, Snapshot, status, waiting},
};

impl Worker {
    pub(super) fn show_backoff(&mut self, index: usize) {
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
            image_id: slot.image_id.clone(),
        }
    }

    /// Writes the status when it differs from the last written one; returns the time of the next attempt.
    pub(super) async fn publish(&mut self) -> Option<Instant> {
        // When only the node stops, the next start resumes pods from the status as it is. A pod that was
        // finished before the agent started has no changes.
        if self.stage == Stage::Leaving || self.finished_before {
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
            // The object is gone, or another pod has its name by now: the watch will report it.
            Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => {
                self.sent = Some(value);
                None
            }
            Err(error) => {
                tracing::warn!(%error, pod = name, "failed to write the status of a pod, will retry");
                self.send_at = Some(Instant::now() + Duration::from_secs(1));
                self.send_at
            }
        }
    }

    fn show_state(&self, status: &PodStatus) {
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

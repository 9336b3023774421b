//! The probes of a running container, and the reactions to their results.

use std::time::Duration;

use super::{Message, Stage, Worker, slot::Run};
use crate::{
    events::Severity,
    pod::probe::{self, Outcome, ProbeKind, Target},
};

impl Worker {
    pub(super) fn start_probes(&mut self, index: usize, kinds: &[ProbeKind]) {
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

    pub(super) fn probed(&mut self, index: usize, instance: u64, outcome: Outcome) {
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
}

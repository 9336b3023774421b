//! Faults of a pod: applied by its own worker, so that no container starts in between.

use std::{
    net::Ipv4Addr,
    sync::{Arc, Weak},
    time::Duration,
};

use nix::sys::signal::Signal;
use olm_devcluster_machinery::fault::{CutFrom, Done, Fault, Kind, Order};
use tokio::{sync::oneshot, task::AbortHandle};

use super::{Stage, Worker, lock};
use crate::{events::Severity, network::cut::Cut, sandbox::Sandbox};

/// A message to a worker about faults.
pub(crate) enum FaultMessage {
    /// Apply a fault, with the addresses of the pods that it names.
    Put { order: Order, peers: Vec<Ipv4Addr>, reply: oneshot::Sender<Result<Done, String>> },
    /// Revert faults, of one kind or all.
    Undo { kind: Option<Kind>, reply: oneshot::Sender<Result<Vec<Done>, String>> },
}

/// The faults of one pod.
#[derive(Default)]
pub(super) struct Faults {
    waiting: Vec<FaultMessage>,
    cut: Option<Cut>,
    /// Stops and continues the pod in turns.
    stopping_task: Option<AbortHandle>,
    /// A kill whose processes have not ended yet.
    killing: Option<PendingKill>,
}

struct PendingKill {
    wipe: bool,
    done: Done,
    reply: oneshot::Sender<Result<Done, String>>,
}

impl Drop for Faults {
    fn drop(&mut self) {
        self.stopping_task.take().iter().for_each(AbortHandle::abort);
    }
}

impl Worker {
    pub(super) fn enqueue_fault(&mut self, message: FaultMessage) {
        self.faults.waiting.push(message);
    }

    /// Executes the queued orders.
    pub(super) async fn apply_queued_faults(&mut self) {
        for message in std::mem::take(&mut self.faults.waiting) {
            match message {
                FaultMessage::Put { order, peers, reply } => self.apply_fault(order, peers, reply).await,
                FaultMessage::Undo { kind, reply } => {
                    let undone = self.undo_faults(kind).await;
                    let _ = reply.send(undone);
                }
            }
        }
    }

    async fn apply_fault(
        &mut self,
        order: Order,
        peers: Vec<Ipv4Addr>,
        reply: oneshot::Sender<Result<Done, String>>,
    ) {
        let done = Done {
            namespace: order.namespace,
            pod: order.pod,
            uid: self.uid(),
            fault: order.fault,
            since: jiff::Timestamp::now(),
        };
        if let Fault::Kill { wipe } = done.fault {
            return self.kill(wipe, done, reply);
        }
        let result = match &done.fault {
            Fault::Cut(from) => {
                let cut = match from {
                    CutFrom::Everything => Cut::Everything,
                    CutFrom::Pods => Cut::Pods { except: self.cx.own_services() },
                    CutFrom::Named(_) => Cut::Addresses(peers),
                };
                self.cut(Some(cut)).await
            }
            Fault::Pause | Fault::Slow { .. } => {
                let kind = done.fault.kind();
                let mut faults = lock(&self.live.faults).clone();
                faults.retain(|other| other.fault.kind() != kind);
                faults.push(done.clone());
                self.apply_stops(&faults)
            }
            Fault::Kill { .. } => Ok(()),
        };
        let result = result.map(|()| {
            let mut faults = lock(&self.live.faults);
            faults.retain(|other| other.fault.kind() != done.fault.kind());
            faults.push(done.clone());
            done
        });
        if let Ok(done) = &result {
            self.report_fault(done);
        }
        let _ = reply.send(result);
    }

    fn report_fault(&self, done: &Done) {
        let text = format!("{}: {} (olm dev fault)", done.fault.kind().name(), done.fault.describe());
        self.event(None, Severity::Warning, "Fault", text);
    }

    async fn undo_faults(&mut self, kind: Option<Kind>) -> Result<Vec<Done>, String> {
        let (undone, left): (Vec<Done>, Vec<Done>) = lock(&self.live.faults)
            .clone()
            .into_iter()
            .partition(|done| kind.is_none_or(|kind| done.fault.kind() == kind));
        let of_kind = |kind: Kind| undone.iter().any(|done| done.fault.kind() == kind);
        if of_kind(Kind::Cut) {
            self.cut(None).await?;
        }
        if of_kind(Kind::Pause) || of_kind(Kind::Slow) {
            self.apply_stops(&left)?;
        }
        *lock(&self.live.faults) = left;
        for done in &undone {
            let text = format!("{} removed (olm dev fault)", done.fault.kind().name());
            self.event(None, Severity::Normal, "FaultUndone", text);
        }
        Ok(undone)
    }

    async fn cut(&mut self, cut: Option<Cut>) -> Result<(), String> {
        let Some(network) = &self.network else {
            // Without a network no cut is possible, and none is in force.
            return if cut.is_none() { Ok(()) } else { Err("the pod has no network".to_owned()) };
        };
        network.cut(cut.as_ref(), self.faults.cut.as_ref()).await.map_err(|error| error.to_string())?;
        self.faults.cut = cut;
        Ok(())
    }

    /// Stops the pod, continues it, or both in turns, according to these faults.
    fn apply_stops(&mut self, faults: &[Done]) -> Result<(), String> {
        self.faults.stopping_task.take().iter().for_each(AbortHandle::abort);
        let Some(sandbox) = &self.sandbox else {
            return if faults.is_empty() { Ok(()) } else { Err("the pod is not running".to_owned()) };
        };
        let paused = faults.iter().any(|done| done.fault == Fault::Pause);
        let slow = faults.iter().find_map(|done| match done.fault {
            Fault::Slow { stop_milliseconds, run_milliseconds } => {
                Some((stop_milliseconds, run_milliseconds))
            }
            _ => None,
        });
        let signal = if paused || slow.is_some() { Signal::SIGSTOP } else { Signal::SIGCONT };
        sandbox.signal_all(signal).map_err(|error| error.to_string())?;
        if let (false, Some((stop, run))) = (paused, slow) {
            let (stop, run) = (Duration::from_millis(stop.into()), Duration::from_millis(run.into()));
            let stopping_task = stop_and_continue(Arc::downgrade(sandbox), stop, run);
            self.faults.stopping_task = Some(tokio::spawn(stopping_task).abort_handle());
        }
        Ok(())
    }

    /// Applies the faults of the pod to a container, or a whole sandbox, that was just started.
    pub(super) fn reapply_faults(&mut self) {
        let faults = lock(&self.live.faults).clone();
        if faults.iter().any(|done| matches!(done.fault.kind(), Kind::Pause | Kind::Slow))
            && let Err(error) = self.apply_stops(&faults)
        {
            tracing::warn!(%error, "failed to apply the faults of a pod to a new container");
        }
    }

    /// Continues a pod that is about to be stopped with its node, so that it receives the signal.
    pub(super) fn end_stops(&mut self) {
        if lock(&self.live.faults).iter().any(|done| matches!(done.fault.kind(), Kind::Pause | Kind::Slow)) {
            let _ = self.apply_stops(&[]);
        }
    }

    fn kill(&mut self, wipe: bool, done: Done, reply: oneshot::Sender<Result<Done, String>>) {
        if self.faults.killing.is_some() {
            let _ = reply.send(Err("the pod is already being killed".to_owned()));
            return;
        }
        let killed = match &self.sandbox {
            Some(sandbox) if self.is_running() => {
                sandbox.signal_all(Signal::SIGKILL).map_err(|error| error.to_string())
            }
            // A pod that is not running needs no kill; its volumes can still be emptied.
            _ if wipe && self.stage == Stage::Active => Ok(()),
            _ => Err("the pod is not running".to_owned()),
        };
        if let Err(error) = killed {
            let _ = reply.send(Err(error));
            return;
        }
        self.report_fault(&done);
        self.faults.killing = Some(PendingKill { wipe, done, reply });
    }

    /// Whether a kill is in progress; completes it when the processes are gone.
    pub(super) fn is_being_killed(&mut self) -> bool {
        if self.faults.killing.is_some() && self.is_running() {
            return true;
        }
        if let Some(PendingKill { wipe, done, reply }) = self.faults.killing.take() {
            let wiped = if wipe { self.volumes.wipe() } else { Ok(()) };
            let _ = reply.send(wiped.map(|()| done));
        }
        false
    }
}

async fn stop_and_continue(sandbox: Weak<Sandbox>, stop: Duration, run: Duration) {
    let signal = |signal| {
        let sandbox = sandbox.upgrade()?;
        sandbox.signal_all(signal).ok()
    };
    loop {
        if signal(Signal::SIGSTOP).is_none() {
            return;
        }
        tokio::time::sleep(stop).await;
        if signal(Signal::SIGCONT).is_none() {
            return;
        }
        tokio::time::sleep(run).await;
    }
}

//! Faults of a pod: done by its own worker, so that no container starts in between.

use std::{
    net::Ipv4Addr,
    sync::{Arc, Weak},
    time::Duration,
};

use nix::sys::signal::Signal;
use tokio::{sync::oneshot, task::AbortHandle};

use super::{Stage, Worker, lock};
use crate::{
    fault::{CutFrom, Done, Fault, Kind, Order},
    node::{events::Severity, network::cut::Cut, sandbox::Sandbox},
};

/// A message to a worker about faults.
pub(crate) enum FaultMessage {
    /// Do it, with the addresses of the pods that it names.
    Put { order: Order, peers: Vec<Ipv4Addr>, reply: oneshot::Sender<Result<Done, String>> },
    /// Take faults back, of one kind or all.
    Undo { kind: Option<Kind>, reply: oneshot::Sender<Result<Vec<Done>, String>> },
}

/// The faults of one pod.
#[derive(Default)]
pub(super) struct Faults {
    waiting: Vec<FaultMessage>,
    cut: Option<Cut>,
    /// Stops and continues the pod in turns.
    turns: Option<AbortHandle>,
    /// A kill whose processes have not ended yet.
    killing: Option<Killing>,
}

struct Killing {
    wipe: bool,
    done: Done,
    reply: oneshot::Sender<Result<Done, String>>,
}

impl Drop for Faults {
    fn drop(&mut self) {
        self.turns.take().iter().for_each(AbortHandle::abort);
    }
}

impl Worker {
    pub(super) fn take_order(&mut self, message: FaultMessage) {
        self.faults.waiting.push(message);
    }

    /// Carries out what was ordered since the last time.
    pub(super) async fn carry_out_orders(&mut self) {
        for message in std::mem::take(&mut self.faults.waiting) {
            match message {
                FaultMessage::Put { order, peers, reply } => self.put_fault(order, peers, reply).await,
                FaultMessage::Undo { kind, reply } => {
                    let undone = self.undo_faults(kind).await;
                    let _ = reply.send(undone);
                }
            }
        }
    }

    async fn put_fault(
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
                self.rhythm(&faults)
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
            self.tell_fault(done);
        }
        let _ = reply.send(result);
    }

    fn tell_fault(&self, done: &Done) {
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
            self.rhythm(&left)?;
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
            // Without a network there is nothing to cut, and nothing that still is.
            return if cut.is_none() { Ok(()) } else { Err("the pod has no network".to_owned()) };
        };
        network.cut(cut.as_ref(), self.faults.cut.as_ref()).await.map_err(|error| error.to_string())?;
        self.faults.cut = cut;
        Ok(())
    }

    /// Stops the pod, lets it run, or both in turns, as these faults say.
    fn rhythm(&mut self, faults: &[Done]) -> Result<(), String> {
        self.faults.turns.take().iter().for_each(AbortHandle::abort);
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
            let turns = take_turns(Arc::downgrade(sandbox), stop, run);
            self.faults.turns = Some(tokio::spawn(turns).abort_handle());
        }
        Ok(())
    }

    /// A container was just started, or a whole sandbox: it has the faults of its pod.
    pub(super) fn apply_faults_again(&mut self) {
        let faults = lock(&self.live.faults).clone();
        if faults.iter().any(|done| matches!(done.fault.kind(), Kind::Pause | Kind::Slow))
            && let Err(error) = self.rhythm(&faults)
        {
            tracing::warn!(%error, "failed to apply the faults of a pod to a new container");
        }
    }

    /// The pod is about to be stopped with its node: it has to hear of it.
    pub(super) fn forget_rhythm(&mut self) {
        if lock(&self.live.faults).iter().any(|done| matches!(done.fault.kind(), Kind::Pause | Kind::Slow)) {
            let _ = self.rhythm(&[]);
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
            // What does not run needs no killing; its volumes can be emptied all the same.
            _ if wipe && self.stage == Stage::Active => Ok(()),
            _ => Err("the pod is not running".to_owned()),
        };
        if let Err(error) = killed {
            let _ = reply.send(Err(error));
            return;
        }
        self.tell_fault(&done);
        self.faults.killing = Some(Killing { wipe, done, reply });
    }

    /// Whether a kill is under way; finishes it when the processes are gone.
    pub(super) fn is_being_killed(&mut self) -> bool {
        if self.faults.killing.is_some() && self.is_running() {
            return true;
        }
        if let Some(Killing { wipe, done, reply }) = self.faults.killing.take() {
            let wiped = if wipe { self.volumes.wipe() } else { Ok(()) };
            let _ = reply.send(wiped.map(|()| done));
        }
        false
    }
}

async fn take_turns(sandbox: Weak<Sandbox>, stop: Duration, run: Duration) {
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

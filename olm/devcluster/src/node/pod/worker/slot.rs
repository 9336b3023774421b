//! One container of a pod, as its worker remembers it.

use std::time::Instant;

use k8s_openapi::{
    api::core::v1::{Container, ContainerStateTerminated, ContainerStatus},
    apimachinery::pkg::apis::meta::v1::Time,
};
use tokio::task::AbortHandle;

use super::now;
use crate::node::{helper::wire::ProcessSpec, pod::decide::Backoff, sandbox::Process};

pub(super) enum Run {
    New,
    Running(Box<Running>),
    Exited(ContainerStateTerminated),
}

pub(super) struct Running {
    pub(super) process: Process,
    pub(super) template: ProcessSpec,
    pub(super) since: Instant,
    pub(super) started_at: Time,
    pub(super) tasks: Vec<AbortHandle>,
    /// Set while the container is being stopped.
    pub(super) stopping: Option<AbortHandle>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.tasks.iter().chain(&self.stopping).for_each(AbortHandle::abort);
    }
}

pub(super) struct Slot {
    pub(super) container: Container,
    pub(super) is_init: bool,
    pub(super) run: Run,
    /// Shown instead of what `run` says.
    pub(super) waiting: Option<(&'static str, String)>,
    pub(super) last: Option<ContainerStateTerminated>,
    pub(super) restarts: i32,
    pub(super) instance: u64,
    pub(super) container_id: Option<String>,
    pub(super) backoff: Backoff,
    pub(super) not_before: Option<Instant>,
    pub(super) started: bool,
    pub(super) ready: bool,
}

impl Slot {
    /// What a container is when the agent starts: what ran before is not running any more.
    pub(super) fn recover(
        container: Container,
        is_init: bool,
        earlier: Option<&ContainerStatus>,
        restarts: bool,
    ) -> Self {
        let mut slot = Self {
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
}

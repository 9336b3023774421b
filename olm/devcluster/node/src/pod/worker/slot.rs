//! One container of a pod, as stored by its worker.

use std::{sync::Arc, time::Instant};

use k8s_openapi::{
    api::core::v1::{Container, ContainerStateTerminated, ContainerStatus},
    apimachinery::pkg::apis::meta::v1::Time,
};
use tokio::task::AbortHandle;

use super::now;
use crate::{
    helper::wire::ProcessSpec,
    images::{ContainerImage, InUse, PullError},
    pod::decide::Backoff,
    sandbox::Process,
};

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
    pub(super) _image: Arc<InUse>,
}

/// The image of the next instance.
#[derive(Default)]
pub(super) enum Pull {
    #[default]
    Needed,
    Running,
    Done(Result<Box<ContainerImage>, PullError>),
}

impl Drop for Running {
    fn drop(&mut self) {
        self.tasks.iter().chain(&self.stopping).for_each(AbortHandle::abort);
    }
}

pub(super) struct Slot {
    /// The definition of the running or the next instance.
    pub(super) container: Container,
    /// The definition that replaces it after the running instance has ended.
    pub(super) replacement: Option<Container>,
    pub(super) is_init: bool,
    pub(super) run: Run,
    /// Reported instead of the state of `run`.
    pub(super) waiting: Option<(&'static str, String)>,
    pub(super) last: Option<ContainerStateTerminated>,
    pub(super) restarts: i32,
    pub(super) instance: u64,
    pub(super) container_id: Option<String>,
    pub(super) image_id: String,
    pub(super) pull: Pull,
    /// Of crashes and failed starts.
    pub(super) backoff: Backoff,
    /// Of failed pulls.
    pub(super) pull_backoff: Backoff,
    pub(super) not_before: Option<Instant>,
    pub(super) started: bool,
    pub(super) ready: bool,
}

impl Slot {
    /// State of a container when the agent starts: earlier instances are not running any more.
    pub(super) fn recover(
        container: Container,
        is_init: bool,
        earlier: Option<&ContainerStatus>,
        restarts: bool,
    ) -> Self {
        let mut slot = Self {
            container,
            replacement: None,
            is_init,
            run: Run::New,
            waiting: None,
            last: None,
            restarts: 0,
            instance: 0,
            container_id: None,
            image_id: String::new(),
            pull: Pull::Needed,
            backoff: Backoff::default(),
            pull_backoff: Backoff::default(),
            not_before: None,
            started: false,
            ready: false,
        };
        let Some(earlier) = earlier else { return slot };
        slot.restarts = earlier.restart_count;
        slot.container_id.clone_from(&earlier.container_id);
        slot.image_id.clone_from(&earlier.image_id);
        slot.last = earlier.last_state.as_ref().and_then(|state| state.terminated.clone());
        let state = earlier.state.clone().unwrap_or_default();
        if let Some(end) = state.terminated {
            // Init containers run again in the new sandbox; a finished container stays finished.
            if !is_init || !restarts {
                slot.run = Run::Exited(end);
            }
        } else if let Some(running) = state.running {
            slot.run = Run::Exited(ContainerStateTerminated {
                exit_code: 255,
                reason: Some("Unknown".to_owned()),
                message: Some("the node was stopped while the container was running".to_owned()),
                started_at: running.started_at,
                finished_at: Some(now()),
                container_id: earlier.container_id.clone(),
                ..ContainerStateTerminated::default()
            });
        }
        slot
    }

    /// Adopts the current definition of the pod; true when the running instance has to be restarted for it.
    /// As in the kubelet, only another image counts as a change, and an init container uses its new image at
    /// the next run.
    pub(super) fn redefine(&mut self, container: &Container) -> bool {
        let current = self.replacement.as_ref().unwrap_or(&self.container);
        if current.image == container.image {
            return false;
        }
        match &self.run {
            Run::Running(_) if self.is_init => {
                self.container = container.clone();
                false
            }
            Run::Running(_) => self.replacement.replace(container.clone()).is_none(),
            Run::New | Run::Exited(_) => {
                self.adopt(container.clone());
                false
            }
        }
    }

    /// Moves the end of the last instance to the last state; the next instance counts as a restart.
    pub(super) fn count_restart(&mut self) {
        if let Run::Exited(end) = std::mem::replace(&mut self.run, Run::New) {
            self.last = Some(end);
            self.restarts += 1;
        }
    }

    /// The next instance uses this definition, without backoff: the earlier failures were those of another
    /// image.
    pub(super) fn adopt(&mut self, container: Container) {
        self.container = container;
        self.pull = Pull::Needed;
        self.backoff = Backoff::default();
        self.pull_backoff = Backoff::default();
        self.not_before = None;
        self.waiting = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(image: &str) -> Container {
        Container { name: "main".to_owned(), image: Some(image.to_owned()), ..Container::default() }
    }

    #[test]
    fn a_new_image_starts_without_the_backoff_of_the_old_one() {
        // given a container that crashed twice and is in backoff
        let mut slot = Slot::recover(container("a"), false, None, true);
        slot.run =
            Run::Exited(ContainerStateTerminated { exit_code: 3, ..ContainerStateTerminated::default() });
        slot.backoff.after_failure();
        slot.not_before = Some(Instant::now() + slot.backoff.after_failure());
        slot.waiting = Some(("CrashLoopBackOff", "back-off".to_owned()));
        // when the pod is updated with the same image, then the backoff stays
        assert!(!slot.redefine(&container("a")));
        assert!(slot.not_before.is_some() && slot.waiting.is_some());
        // when the image changes, then it starts without delay, and that is a restart
        assert!(!slot.redefine(&container("b")));
        assert_eq!((slot.not_before, slot.waiting.is_some()), (None, false));
        assert_eq!(slot.container.image.as_deref(), Some("b"));
        slot.count_restart();
        assert_eq!((slot.restarts, slot.last.map(|end| end.exit_code)), (1, Some(3)));
    }
}

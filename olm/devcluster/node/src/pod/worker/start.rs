//! Starts a container: its image, its process, and the tasks that follow it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::ContainerStateTerminated;

use super::{
    Message, Worker, lock, now,
    slot::{Run, Running},
};
use crate::{
    env,
    events::Severity,
    helper::wire::ProcessSpec,
    images::{ContainerImage, InUse},
    logs,
    pod::{
        launch::{self, LaunchContext},
        probe::{self, ProbeKind, Target},
    },
    sandbox::{Process, Sandbox, SandboxError, pipes},
    volumes::{self, Subject},
};

enum StartFailure {
    /// The program did not start.
    Start(String, bool),
    /// A prerequisite of the program failed.
    Create(String),
}

impl Worker {
    pub(super) async fn start_container(&mut self, index: usize) {
        let Some(sandbox) = self.sandbox.clone() else { return };
        let Some(image) = self.image(index) else { return };
        let spec = match self.process_spec(index, &image).await {
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
        self.launch(index, &sandbox, spec, *image).await;
    }

    async fn process_spec(&self, index: usize, image: &ContainerImage) -> Result<ProcessSpec, String> {
        let container = &self.slots[index].container;
        let facts = self.facts();
        let subject =
            Subject { client: &self.cx.client, pod: &self.pod, facts: &facts, one_user: self.cx.one_user };
        let sources = volumes::env_sources(&subject, container).await?;
        let namespace = self.pod.metadata.namespace.as_deref().unwrap_or("default");
        let links = self.pod.spec.as_ref().and_then(|spec| spec.enable_service_links).unwrap_or(true);
        let user = launch::image_user(&self.pod, container, image)?;
        let defaults = env::Defaults {
            hostname: launch::hostname(&self.pod),
            home: user.home.clone(),
            image: image.config.env.clone(),
            services: env::of_services(&self.cx.zone(), namespace, links),
        };
        let env = env::build(&self.pod, container, &facts, &sources, defaults)?;
        let message = launch::message_file(&self.dir, &container.name);
        std::fs::write(&message, "")
            .and_then(|()| {
                use std::os::unix::fs::PermissionsExt as _;
                std::fs::set_permissions(&message, std::fs::Permissions::from_mode(0o666))
            })
            .map_err(|error| format!("failed to write {}: {error}", message.display()))?;
        let inputs = LaunchContext {
            pod_dir: &self.dir,
            pod_ip: &facts.pod_ip,
            dns_ip: &self.cx.dns_ip,
            domain: &self.cx.domain,
            one_user: self.cx.one_user,
        };
        launch::process(&self.pod, container, image, &user, env, &self.volumes, &inputs)
    }

    async fn launch(
        &mut self,
        index: usize,
        sandbox: &Arc<Sandbox>,
        spec: ProcessSpec,
        image: ContainerImage,
    ) {
        let name = self.slots[index].container.name.clone();
        {
            let slot = &mut self.slots[index];
            slot.count_restart();
            slot.instance += 1;
            slot.waiting = None;
            slot.not_before = None;
            slot.container_id = Some(format!("olm://{:032x}", rand::random::<u128>()));
            slot.image_id = image.id;
        }
        let (restarts, instance) = (self.slots[index].restarts, self.slots[index].instance);
        let path = logs::path_of(&self.dir, &name, restarts);
        logs::remove_older(&self.dir, &name, restarts);
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
                self.watch(index, instance, process, template, image.in_use);
                self.reapply_faults();
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

    /// Follows a newly started process: its exit, its probes, its `postStart` hook.
    fn watch(
        &mut self,
        index: usize,
        instance: u64,
        process: Process,
        template: ProcessSpec,
        image: Arc<InUse>,
    ) {
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
            _image: image,
        }));
        if slot.started {
            self.start_probes(index, &[ProbeKind::Readiness, ProbeKind::Liveness]);
        } else {
            self.start_probes(index, &[ProbeKind::Startup]);
        }
    }
}

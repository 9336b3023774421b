//! The init containers of a pod, run sequentially like by a kubelet: each until it succeeds, with its state
//! in the status of the pod.

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Container, EnvVarSource, Secret};
use kube::Api;
use serde_json::{Value, json};
use tokio::process::Child;

use super::{
    kubelet::{BACKOFF, BACKOFF_MAX, Kubelet, Run, lock},
    pod,
    pod_status::{now, tail},
};

/// Number of a container's last lines in its status, as in Kubernetes.
const LINES: usize = 5;

/// The status of each init container.
struct ContainerStatuses {
    containers: Vec<Value>,
}

impl ContainerStatuses {
    fn new(all: &[Container]) -> Self {
        let waits = json!({ "waiting": { "reason": "PodInitializing" } });
        let one = |container: &Container| {
            json!({ "name": container.name, "image": container.image, "imageID": "", "ready": false,
                "restartCount": 0, "state": waits })
        };
        Self { containers: all.iter().map(one).collect() }
    }

    /// The status of a pod whose containers wait for those before them.
    fn status(&self, run: &Run) -> Value {
        let mut status = super::pod_status::waiting("PodInitializing", "");
        let ip = run.outside.to_string();
        status["podIPs"] = json!([{ "ip": ip }]);
        status["podIP"] = ip.into();
        status["initContainerStatuses"] = json!(self.containers);
        status
    }
}

impl Kubelet {
    /// Runs them; false when the pod is deleted first.
    pub(super) async fn initialise(&self, run: &Run, reported: &mut Value) -> bool {
        let all: Vec<Container> = lock(&run.pod)
            .spec
            .iter()
            .flat_map(|spec| spec.init_containers.iter().flatten())
            .cloned()
            .collect();
        let mut statuses = ContainerStatuses::new(&all);
        for (at, container) in all.iter().enumerate() {
            let mut backoff = BACKOFF;
            loop {
                let why = match self.once(run, container).await {
                    Ok(child) => {
                        statuses.containers[at]["state"] = json!({ "running": { "startedAt": now() } });
                        self.report(run, reported, &statuses.status(run)).await;
                        match self.ended(run, child).await {
                            None => return false,
                            Some(0) => {
                                let end = json!({ "terminated": { "exitCode": 0, "reason": "Completed", "finishedAt": now() } });
                                statuses.containers[at]["state"] = end;
                                statuses.containers[at]["ready"] = true.into();
                                break;
                            }
                            Some(code) => {
                                let logged = std::fs::read_to_string(self.log(&log(run, container)));
                                let end = json!({ "terminated": { "exitCode": code, "reason": "Error",
                                    "message": tail(&logged.unwrap_or_default(), LINES), "finishedAt": now() } });
                                statuses.containers[at]["lastState"] = end;
                                let count =
                                    statuses.containers[at]["restartCount"].as_u64().unwrap_or_default();
                                statuses.containers[at]["restartCount"] = (count + 1).into();
                                ("CrashLoopBackOff", "back-off restarting failed container".to_owned())
                            }
                        }
                    }
                    Err(error) => ("CreateContainerConfigError", format!("{error:#}")),
                };
                statuses.containers[at]["state"] =
                    json!({ "waiting": { "reason": why.0, "message": why.1 } });
                self.report(run, reported, &statuses.status(run)).await;
                tokio::select! {
                    () = run.ending.cancelled() => return false,
                    () = tokio::time::sleep(backoff) => {}
                }
                backoff = (backoff * 2).min(BACKOFF_MAX);
            }
        }
        !run.ending.is_cancelled()
    }

    async fn once(&self, run: &Run, container: &Container) -> Result<Child> {
        let volumes = self.volumes(run).await?;
        let mounts = pod::mounts(container, &volumes)?;
        let container = self.with_secrets(run, container).await?;
        let pod = lock(&run.pod).clone();
        let log = self.log(&log(run, &container));
        pod::start(&self.inner.etcds, &pod, &container, &mounts, run.inside, &log)
    }

    /// Its exit code; `None` when the pod is deleted first.
    async fn ended(&self, run: &Run, mut child: Child) -> Option<i32> {
        lock(&run.state).pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        let code = tokio::select! {
            ended = child.wait() => Some(ended.ok().and_then(|status| status.code()).unwrap_or(255)),
            () = run.ending.cancelled() => {
                // It may have terminated.
                let _ = child.kill().await;
                None
            }
        };
        lock(&run.state).pid = None;
        code
    }

    /// Variables from Secrets, resolved.
    async fn with_secrets(&self, run: &Run, container: &Container) -> Result<Container> {
        let mut container = container.clone();
        for variable in container.env.iter_mut().flatten() {
            let Some(EnvVarSource { secret_key_ref: Some(wanted), .. }) = &variable.value_from else {
                continue;
            };
            let api: Api<Secret> = Api::namespaced(self.inner.client.clone(), &run.namespace);
            let data = api.get(&wanted.name).await?.data.unwrap_or_default();
            let value = data.get(&wanted.key);
            let value = value.with_context(|| format!("Secret {} has no key {}", wanted.name, wanted.key))?;
            variable.value = Some(String::from_utf8(value.0.clone())?);
            variable.value_from = None;
        }
        Ok(container)
    }
}

fn log(run: &Run, container: &Container) -> String {
    format!("{}-{}", run.name, container.name)
}

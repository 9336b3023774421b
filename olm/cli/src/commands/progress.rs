//! Progress of a wait, with a diagnosis on timeout.

use std::{
    fmt::Write as _,
    future::Future,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::{Api, Client, ResourceExt as _, api::ListParams};

use crate::exit::{Code, Failure};

/// The result of a probe.
pub enum Seen<T> {
    Ready(T),
    /// Not ready yet, with the cause.
    Waiting(String),
}

/// Prints progress to standard error: one line per step, and one line per change of the pending status.
pub struct Progress {
    start: Instant,
    color: bool,
}

impl Progress {
    pub fn new(color: bool) -> Self {
        Self { start: Instant::now(), color }
    }

    /// Reports a completed step.
    pub fn done(&self, what: &str) {
        let (green, off) = if self.color { ("\x1b[32m", "\x1b[0m") } else { ("", "") };
        eprintln!("{green}✔{off} {what} ({:.1}s)", self.start.elapsed().as_secs_f64());
    }

    /// Waits until the probe is ready, and prints each change of the status. On timeout the failure contains
    /// the last status, and the pods and events of the namespace.
    pub async fn wait<T, F, Fut>(
        &self,
        client: &Client,
        namespace: &str,
        what: &str,
        limit: Duration,
        mut probe: F,
    ) -> Result<T, Failure>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<Seen<T>, kube::Error>>,
    {
        let start = Instant::now();
        let mut printed = String::new();
        loop {
            let seen = match probe().await {
                Ok(Seen::Ready(value)) => {
                    self.done(what);
                    return Ok(value);
                }
                Ok(Seen::Waiting(seen)) => seen,
                Err(error) => error.to_string(),
            };
            // A step that completes within half a second prints no status.
            if seen != printed && start.elapsed() > Duration::from_millis(500) {
                eprintln!("… {what}: {seen}");
                printed.clone_from(&seen);
            }
            if start.elapsed() > limit {
                let message = format!(
                    "{what}: timed out after {}s; last status: {seen}\n{}",
                    limit.as_secs(),
                    diagnosis(client, namespace).await
                );
                return Err(Failure::new(Code::Timeout, message)
                    .hint(format!("kubectl describe pods -n {namespace}, kubectl logs -n {namespace} POD")));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Pods and last warnings of a namespace, as text.
async fn diagnosis(client: &Client, namespace: &str) -> String {
    let mut out = String::new();
    if let Ok(pods) = Api::<Pod>::namespaced(client.clone(), namespace).list(&ListParams::default()).await {
        for pod in pods {
            let _ = writeln!(out, "  pod {}: {}", pod.name_any(), pod_state(&pod));
        }
    }
    if let Ok(events) = Api::<Event>::namespaced(client.clone(), namespace).list(&ListParams::default()).await
    {
        let mut warnings: Vec<_> =
            events.into_iter().filter(|e| e.type_.as_deref() == Some("Warning")).collect();
        warnings.sort_by_key(|e| e.last_timestamp.clone().map(|t| t.0));
        for event in warnings.iter().rev().take(5) {
            let _ = writeln!(
                out,
                "  event {} {}: {}",
                event.involved_object.name.as_deref().unwrap_or_default(),
                event.reason.as_deref().unwrap_or_default(),
                event.message.as_deref().unwrap_or_default()
            );
        }
    }
    out
}

/// A pod's phase, and why a container of it is waiting.
pub fn pod_state(pod: &Pod) -> String {
    let Some(status) = &pod.status else { return "unknown".into() };
    let waiting = status
        .init_container_statuses
        .iter()
        .flatten()
        .chain(status.container_statuses.iter().flatten())
        .find_map(|c| {
            let state = c.state.as_ref()?;
            if let Some(waiting) = &state.waiting {
                return Some(format!(
                    "{}: {}{}",
                    c.name,
                    waiting.reason.as_deref().unwrap_or("waiting"),
                    waiting.message.as_deref().map(|m| format!(" ({m})")).unwrap_or_default()
                ));
            }
            (state.running.is_some() && !c.ready).then(|| format!("{}: running, not ready yet", c.name))
        });
    let condition = status
        .conditions
        .iter()
        .flatten()
        .find(|c| c.type_ == "PodScheduled" && c.status == "False")
        .and_then(|c| c.message.clone());
    let phase = status.phase.as_deref().unwrap_or("Pending");
    match waiting.or(condition) {
        Some(why) => format!("{phase}, {why}"),
        None => phase.to_string(),
    }
}

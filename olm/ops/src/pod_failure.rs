//! Why a pod fails to start. Pure.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

/// Waiting reasons of a container that only an external change resolves.
const REASONS: &[&str] = &[
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "CrashLoopBackOff",
];

/// A failure of a pod that does not resolve by waiting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodFailure {
    pub(crate) container: Option<String>,
    image: Option<String>,
    /// A stable word, as the kubelet or the scheduler reports it.
    pub(crate) reason: String,
    message: String,
}

impl PodFailure {
    /// The failure of a pod, if any; a pod that is being deleted has none.
    #[must_use]
    pub fn of(pod: &Pod) -> Option<Self> {
        let status = pod.status.as_ref().filter(|_| pod.metadata.deletion_timestamp.is_none())?;
        let containers =
            status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten());
        for container in containers {
            let Some(waiting) = container.state.as_ref().and_then(|s| s.waiting.as_ref()) else { continue };
            let Some(reason) = waiting.reason.as_deref().filter(|r| REASONS.contains(r)) else { continue };
            let mut message = waiting.message.clone().unwrap_or_default();
            // The back-off does not include why the container ended.
            if let Some(ended) = container.last_state.as_ref().and_then(|s| s.terminated.as_ref()) {
                message = format!("exit code {}; {message}", ended.exit_code);
            }
            return Some(Self {
                container: Some(container.name.clone()),
                image: Some(container.image.clone()),
                reason: reason.to_owned(),
                message,
            });
        }
        let scheduled = status.conditions.iter().flatten().find(|c| c.type_ == "PodScheduled")?;
        let unschedulable =
            scheduled.status == "False" && scheduled.reason.as_deref() == Some("Unschedulable");
        unschedulable.then(|| Self {
            container: None,
            image: None,
            reason: "Unschedulable".to_owned(),
            message: scheduled.message.clone().unwrap_or_default(),
        })
    }

    /// The first of these pods that fails to start, and why: `pod POD: container main: ...`.
    #[must_use]
    pub fn first(pods: &[Pod]) -> Option<String> {
        pods.iter().find_map(|pod| Some(format!("pod {}: {}", pod.name_any(), Self::of(pod)?.detail())))
    }

    /// `container main: ErrImagePull: MESSAGE`.
    pub(crate) fn text(&self) -> String {
        let container = self.container.as_ref().map_or(String::new(), |name| format!("container {name}: "));
        format!("{container}{}", self.cause())
    }

    /// The same with the image, where that is the cause and the message does not name it.
    #[must_use]
    pub fn detail(&self) -> String {
        match (&self.container, self.missing_image()) {
            (Some(container), Some(image)) if !self.message.contains(image) => {
                format!("container {container}, image {image}: {}", self.cause())
            }
            _ => self.text(),
        }
    }

    /// The next step.
    pub(crate) fn fix(&self, pod: &Pod) -> String {
        let place = format!("-n {} {}", pod.namespace().unwrap_or_default(), pod.name_any());
        match (self.reason.as_str(), &self.container, self.missing_image()) {
            ("CrashLoopBackOff", Some(container), _) => {
                format!("kubectl logs {place} -c {container} --previous")
            }
            (.., Some(image)) => {
                format!("check image {image} and the pull secrets of the pod: kubectl describe pod {place}")
            }
            _ => format!("kubectl describe pod {place}"),
        }
    }

    fn cause(&self) -> String {
        let message = if self.message.is_empty() { String::new() } else { format!(": {}", self.message) };
        format!("{}{message}", self.reason)
    }

    /// The image, where the node does not have it.
    fn missing_image(&self) -> Option<&str> {
        let of_image = self.reason.contains("Image") || self.reason == "RegistryUnavailable";
        self.image.as_deref().filter(|_| of_image)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(status: Value) -> Pod {
        serde_json::from_value(json!({ "metadata": { "name": "p", "namespace": "ns" }, "status": status }))
            .unwrap()
    }

    fn waiting(reason: &str, message: &str) -> Pod {
        pod(
            json!({ "containerStatuses": [{ "name": "main", "image": "reg/x:1", "imageID": "", "ready": false,
            "restartCount": 0, "state": { "waiting": { "reason": reason, "message": message } } }] }),
        )
    }

    #[test]
    fn every_reason_that_does_not_end_by_waiting_is_a_failure() {
        for reason in REASONS {
            let failure = PodFailure::of(&waiting(reason, "because")).unwrap();
            assert_eq!(failure.text(), format!("container main: {reason}: because"));
        }
        assert_eq!(PodFailure::of(&waiting("ContainerCreating", "")), None);
        let unschedulable = json!({ "conditions": [{ "type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": "0/1 nodes are available" }] });
        let failure = PodFailure::of(&pod(unschedulable)).unwrap();
        assert_eq!(failure.detail(), "Unschedulable: 0/1 nodes are available");
        let mut leaving = waiting("ErrImagePull", "because");
        leaving.metadata.deletion_timestamp =
            Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
        assert_eq!(PodFailure::of(&leaving), None);
    }

    #[test]
    fn an_image_is_named_once() {
        let detail = |reason, message| PodFailure::of(&waiting(reason, message)).unwrap().detail();
        assert_eq!(detail("ErrImagePull", "denied"), "container main, image reg/x:1: ErrImagePull: denied");
        assert_eq!(
            detail("ImagePullBackOff", "Back-off pulling image \"reg/x:1\""),
            "container main: ImagePullBackOff: Back-off pulling image \"reg/x:1\""
        );
        assert_eq!(detail("CrashLoopBackOff", "later"), "container main: CrashLoopBackOff: later");
    }
}

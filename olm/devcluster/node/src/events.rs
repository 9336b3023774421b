//! Events about pods; repeated ones are counted.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering},
};

use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference, Pod},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::sync::mpsc;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Severity {
    Normal,
    Warning,
}

#[derive(Debug)]
struct EventDraft {
    object: ObjectReference,
    severity: Severity,
    reason: &'static str,
    message: String,
}

/// Sends events without blocking the caller.
#[derive(Clone)]
pub(crate) struct Events {
    queue: mpsc::UnboundedSender<EventDraft>,
}

impl Events {
    /// Starts the writer task.
    pub(crate) fn start(client: Client, host: String) -> Self {
        let (queue, notes) = mpsc::unbounded_channel();
        tokio::spawn(write(client, host, notes));
        Self { queue }
    }

    /// Reports an event of a pod, or of one of its containers.
    pub(crate) fn pod(
        &self,
        pod: &Pod,
        container: Option<&str>,
        severity: Severity,
        reason: &'static str,
        message: String,
    ) {
        let object = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.clone(),
            uid: pod.metadata.uid.clone(),
            field_path: container.map(|name| format!("spec.containers{{{name}}}")),
            ..ObjectReference::default()
        };
        let _ = self.queue.send(EventDraft { object, severity, reason, message });
    }
}

async fn write(client: Client, host: String, mut notes: mpsc::UnboundedReceiver<EventDraft>) {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    /// Limit of remembered events: above it counting starts anew.
    const REMEMBERED: usize = 4096;
    let mut seen: HashMap<String, (String, i32)> = HashMap::new();
    while let Some(note) = notes.recv().await {
        let namespace = note.object.namespace.clone().unwrap_or_default();
        let api: Api<Event> = Api::namespaced(client.clone(), &namespace);
        let now = Time(jiff::Timestamp::now());
        let key =
            format!("{:?}/{:?}/{}/{}", note.object.uid, note.object.field_path, note.reason, note.message);
        if let Some((name, count)) = seen.get_mut(&key) {
            *count += 1;
            let patch = json!({"count": *count, "lastTimestamp": now});
            if api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.is_ok() {
                continue;
            }
        }
        if seen.len() >= REMEMBERED {
            seen.clear();
        }
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let stamp = u128::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap_or(0) + u128::from(serial);
        let name = format!("{}.{stamp:x}", note.object.name.clone().unwrap_or_default());
        let event = Event {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(namespace),
                ..ObjectMeta::default()
            },
            involved_object: note.object,
            reason: Some(note.reason.to_owned()),
            message: Some(note.message),
            type_: Some(format!("{:?}", note.severity)),
            count: Some(1),
            first_timestamp: Some(now.clone()),
            last_timestamp: Some(now),
            source: Some(EventSource { component: Some("kubelet".to_owned()), host: Some(host.clone()) }),
            reporting_component: Some("kubelet".to_owned()),
            reporting_instance: Some(host.clone()),
            ..Event::default()
        };
        match api.create(&PostParams::default(), &event).await {
            Ok(_) => {
                seen.insert(key, (name, 1));
            }
            // A namespace that is being deleted accepts no events; this one is dispensable.
            Err(error) => tracing::debug!(%error, "failed to write an event"),
        }
    }
}

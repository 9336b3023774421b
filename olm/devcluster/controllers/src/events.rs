//! Events of the controllers. Repeated events increase the count of the first.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::{
    Api, Client, Resource,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

/// Limit of remembered events.
const REMEMBERED: usize = 512;

#[derive(Clone)]
pub(crate) struct Recorder {
    client: Client,
    component: &'static str,
    known: Arc<Mutex<HashMap<String, (String, i32)>>>,
}

impl Recorder {
    pub(crate) fn new(client: Client, component: &'static str) -> Self {
        Self { client, component, known: Arc::default() }
    }

    pub(crate) fn normal<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        reason: &str,
        message: impl Into<String>,
    ) {
        self.record(object, "Normal", reason, message.into());
    }

    pub(crate) fn warning<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        reason: &str,
        message: impl Into<String>,
    ) {
        self.record(object, "Warning", reason, message.into());
    }

    fn record<K: Resource<DynamicType = ()>>(&self, object: &K, ty: &str, reason: &str, message: String) {
        self.record_reference(object.object_ref(&()), ty, reason, message);
    }

    /// Writes in the background: callers do not wait for it, and a failure is only logged.
    pub(crate) fn record_reference(
        &self,
        regarding: ObjectReference,
        ty: &str,
        reason: &str,
        message: String,
    ) {
        let this = self.clone();
        let (ty, reason) = (ty.to_owned(), reason.to_owned());
        tokio::spawn(async move {
            if let Err(error) = this.write(regarding, &ty, &reason, &message).await {
                tracing::debug!(%reason, %message, %error, "failed to write event");
            }
        });
    }

    async fn write(
        &self,
        regarding: ObjectReference,
        ty: &str,
        reason: &str,
        message: &str,
    ) -> Result<(), kube::Error> {
        let namespace = regarding.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        let now = Time(jiff::Timestamp::now());
        let key = format!("{}\n{reason}\n{message}", regarding.uid.as_deref().unwrap_or_default());
        let known = self.count(&key, None);
        if let Some((name, count)) = known {
            let patch = json!({ "count": count, "lastTimestamp": now });
            match api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                other => return other.map(|_| ()),
            }
        }
        let object_name = regarding.name.clone().unwrap_or_default();
        let name = format!("{object_name}.{:016x}", rand::random::<u64>());
        let event = Event {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(namespace),
                ..ObjectMeta::default()
            },
            involved_object: regarding,
            type_: Some(ty.to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            source: Some(EventSource { component: Some(self.component.to_owned()), host: None }),
            reporting_component: Some(self.component.to_owned()),
            first_timestamp: Some(now.clone()),
            last_timestamp: Some(now),
            count: Some(1),
            ..Event::default()
        };
        api.create(&PostParams::default(), &event).await?;
        self.count(&key, Some(name));
        Ok(())
    }

    /// Counts a known event, or starts counting a new one.
    fn count(&self, key: &str, new: Option<String>) -> Option<(String, i32)> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match new {
            Some(name) => {
                if known.len() >= REMEMBERED {
                    known.clear();
                }
                known.insert(key.to_owned(), (name, 1));
                None
            }
            None => {
                let (name, count) = known.get_mut(key)?;
                *count += 1;
                Some((name.clone(), *count))
            }
        }
    }
}

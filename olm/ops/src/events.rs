//! Events of an operator's objects.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::{Api, Client, ResourceExt as _, api::ListParams};
use serde::Serialize;

use crate::{error::Error, list::World, timeline::Workload};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventLine {
    /// When it was last observed, in RFC 3339.
    pub time: String,
    /// `Normal` or `Warning`.
    #[serde(rename = "type")]
    pub type_: String,
    /// A stable word.
    pub reason: String,
    /// `Kind name`.
    pub object: String,
    pub message: String,
}

/// The objects whose events belong to an operator, by name.
#[derive(Debug, Default)]
pub(super) struct Related {
    pub(super) names: Vec<String>,
    /// The names of ReplicaSets and pods begin with their Deployment's name.
    pub(super) deployments: Vec<String>,
}

impl Related {
    fn contains(&self, name: &str) -> bool {
        let of = |deployment: &String| {
            name.strip_prefix(deployment.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        self.names.iter().any(|known| known == name) || self.deployments.iter().any(of)
    }
}

/// All events of an operator's Subscription, InstallPlans, ClusterServiceVersion, Deployments and pods that the
/// cluster retains, oldest first.
///
/// # Errors
/// [`Error::NotFound`], [`Error::Forbidden`].
pub async fn list_events(client: &Client, namespace: &str, target: &str) -> Result<Vec<EventLine>, Error> {
    let world = World::read(client, Some(namespace)).await?;
    let view = world.find(target)?;
    let api = Api::<Event>::namespaced(client.clone(), namespace);
    let everything = ListParams::default();
    let (events, workload) = tokio::join!(api.list(&everything), Workload::objects(client, namespace, &view));
    let events = events.map_err(Error::kube(format!("list events in namespace {namespace}")))?;
    let mut related = workload.related(&view);
    if let Some(uid) = view.subscription.as_ref().and_then(|subscription| subscription.uid()) {
        let owned =
            |plan: &&olm_api::InstallPlan| plan.owner_references().iter().any(|owner| owner.uid == uid);
        related.names.extend(world.plans.iter().filter(owned).map(|plan| plan.name_any()));
    }
    Ok(lines(&events.items, &related))
}

/// The events of these objects, oldest first.
pub(super) fn lines(events: &[Event], related: &Related) -> Vec<EventLine> {
    let involved = |event: &Event| event.involved_object.name.clone().unwrap_or_default();
    let mut found: Vec<(Option<Timestamp>, &Event)> = events
        .iter()
        .filter(|event| related.contains(&involved(event)))
        .map(|event| (time(event), event))
        .collect();
    found.sort_by_key(|(time, _)| *time);
    found.into_iter().map(|(time, event)| line(time, event)).collect()
}

pub(super) fn line(time: Option<Timestamp>, event: &Event) -> EventLine {
    let object = &event.involved_object;
    EventLine {
        time: time.map(|time| time.to_string()).unwrap_or_default(),
        type_: event.type_.clone().unwrap_or_default(),
        reason: event.reason.clone().unwrap_or_default(),
        object: format!(
            "{} {}",
            object.kind.as_deref().unwrap_or_default(),
            object.name.as_deref().unwrap_or_default()
        ),
        message: event.message.clone().unwrap_or_default(),
    }
}

/// When an event was last observed.
pub(super) fn time(event: &Event) -> Option<Timestamp> {
    let series =
        event.series.as_ref().and_then(|series| series.last_observed_time.as_ref()).map(|time| time.0);
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    let first = event.first_timestamp.as_ref().map(|time| time.0);
    series.or(last).or(event.event_time.as_ref().map(|time| time.0)).or(first)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_of_other_objects_are_left_out_and_the_others_sorted_by_time() {
        let event = |name: &str, at: &str| -> Event {
            serde_json::from_value(json!({
                "metadata": { "name": format!("{name}.1") }, "reason": "R", "type": "Normal", "message": at,
                "involvedObject": { "kind": "Pod", "name": name }, "lastTimestamp": at,
            }))
            .unwrap()
        };
        let related = Related { names: vec!["etcd".into()], deployments: vec!["etcd-operator".into()] };
        let events = [
            event("etcd", "2026-01-01T00:00:03Z"),
            event("etcd-operator-6c9f-x", "2026-01-01T00:00:01Z"),
            event("etcd-operators", "2026-01-01T00:00:02Z"),
            event("etcd-0", "2026-01-01T00:00:04Z"),
        ];
        let found: Vec<String> = lines(&events, &related).into_iter().map(|line| line.object).collect();
        assert_eq!(found, ["Pod etcd-operator-6c9f-x", "Pod etcd"]);
    }
}

//! Activity of all operators: events and approvals.

use std::{cmp::Reverse, collections::HashMap};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::{Client, Resource as _, ResourceExt as _, api::ListParams};
use olm_api::{ClusterServiceVersion, InstallPlan, Subscription, names};
use serde::Serialize;

use crate::{
    error::Error,
    events::{EventLine, line, time},
    list::{World, list_selected},
    revisions::approval,
    status::plan_summary,
};

/// Maximum number of entries; older ones are omitted.
const ENTRIES: usize = 300;

/// Reason of the entries that plans record.
const APPROVED: &str = "Approved";

/// What happened to operators, newest first.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ActivityLog {
    pub entries: Vec<Activity>,
    /// Whether older entries are omitted.
    pub truncated: bool,
    /// Why events are missing; approvals are listed nevertheless.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events_missing: Option<String>,
}

/// An event or an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Activity {
    pub namespace: String,
    /// Name of the Subscription; absent when it does not exist any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// The approver of a plan, or the component that reported the event.
    pub who: String,
    #[serde(flatten)]
    pub event: EventLine,
}

/// The events of Subscriptions, InstallPlans and ClusterServiceVersions that the cluster retains, and the approvals
/// of plans; of a namespace, or of all.
///
/// # Errors
/// [`Error::Forbidden`] when the operators may not be listed.
pub async fn activity(client: &Client, namespace: Option<&str>) -> Result<ActivityLog, Error> {
    let kinds = [Subscription::kind(&()), InstallPlan::kind(&()), ClusterServiceVersion::kind(&())];
    let events =
        futures::future::try_join_all(kinds.map(|kind| events_of(client, namespace, kind.into_owned())));
    let (world, events) = tokio::join!(World::read(client, namespace), events);
    let (events, events_missing) = match events {
        Ok(lists) => (lists.concat(), None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    Ok(ActivityLog { events_missing, ..log(&world?, &events) })
}

async fn events_of(client: &Client, namespace: Option<&str>, kind: String) -> Result<Vec<Event>, Error> {
    let of_kind = ListParams::default().fields(&format!("involvedObject.kind={kind}"));
    let mut list: Vec<Event> = list_selected(client, namespace, &of_kind).await?;
    list.retain(|event| {
        let object = &event.involved_object;
        // Other kinds of the same name exist in other API groups.
        let group = object.api_version.as_deref().and_then(|version| version.split_once('/'));
        let ours = group.is_some_and(|(group, _)| group == names::GROUP);
        // Users who may create events could imitate an approval.
        ours && object.kind.as_deref() == Some(&kind) && event.reason.as_deref() != Some(APPROVED)
    });
    Ok(list)
}

/// Pure.
fn log(world: &World, events: &[Event]) -> ActivityLog {
    let operators = operators(world);
    let operator =
        |namespace: &str, object: &str| operators.get(&(namespace.to_owned(), object.to_owned())).cloned();
    let of_event = |event: &Event| {
        let at = time(event);
        let namespace = event.involved_object.namespace.clone().unwrap_or_default();
        let name = event.involved_object.name.as_deref().unwrap_or_default();
        let source = event.source.as_ref().and_then(|source| source.component.clone());
        let who = event.reporting_component.clone().filter(|who| !who.is_empty()).or(source);
        let operator = operator(&namespace, name);
        (at, Activity { operator, namespace, who: who.unwrap_or_default(), event: line(at, event) })
    };
    let of_plan = |plan: &InstallPlan| {
        let (approval, namespace) = (approval(plan), plan.namespace().unwrap_or_default());
        let at = approval.at.as_ref().and_then(|at| at.parse::<Timestamp>().ok());
        let at = at.or_else(|| plan.creation_timestamp().map(|time| time.0));
        let event = EventLine {
            time: at.map(|at| at.to_string()).unwrap_or_default(),
            type_: "Normal".to_owned(),
            reason: APPROVED.to_owned(),
            object: format!("{} {}", InstallPlan::kind(&()), plan.name_any()),
            message: plan_summary(plan),
        };
        (
            at,
            Activity {
                operator: operator(&namespace, &plan.name_any()),
                namespace,
                who: approval.who(),
                event,
            },
        )
    };
    let approved = world.plans.iter().filter(|plan| plan.spec.approved);
    let mut found: Vec<(Option<Timestamp>, Activity)> =
        events.iter().map(of_event).chain(approved.map(of_plan)).collect();
    found.sort_by_key(|(at, _)| Reverse(*at));
    let truncated = found.len() > ENTRIES;
    let entries = found.into_iter().take(ENTRIES).map(|(_, entry)| entry).collect();
    ActivityLog { entries, truncated, events_missing: None }
}

/// Names of Subscriptions by the namespace and name of their objects.
fn operators(world: &World) -> HashMap<(String, String), String> {
    let mut out = HashMap::new();
    for view in world.views() {
        let Some(subscription) = &view.subscription else { continue };
        let (namespace, name) = (subscription.namespace().unwrap_or_default(), subscription.name_any());
        let owns = |plan: &&InstallPlan| {
            plan.namespace().as_deref() == Some(namespace.as_str())
                && plan.owner_references().iter().any(|owner| Some(&owner.uid) == subscription.uid().as_ref())
        };
        let csvs = [&view.csv, &view.old].into_iter().flatten().map(|csv| csv.name_any());
        let plans = world.plans.iter().filter(owns).map(|plan| plan.name_any());
        for object in csvs.chain(plans).chain([name.clone()]) {
            out.insert((namespace.clone(), object), name.clone());
        }
    }
    out
}

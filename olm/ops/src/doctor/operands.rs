//! Custom resources of operators that report a problem in their conditions, independent of the operator.

use std::collections::BTreeMap;

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, ListParams},
    core::GroupVersionKind,
};
use olm_api::{ClusterServiceVersion, OperatorGroup, names};
use olm_engine::targets;
use serde_json::Value;

use super::{
    facts::{cause, place},
    problem::{Code, Problem, Severity},
};
use crate::operand_state::{Health, problem_health, problems};

/// Maximum number of kinds that are read.
const KINDS: usize = 300;
/// Maximum number of objects that are read of a kind, and the page size.
const OBJECTS: usize = 2000;
const PAGE: u32 = 250;
const AT_ONCE: usize = 8;
/// Objects of a kind that are reported one by one; the others are counted.
const NAMED: usize = 10;

/// A custom resource that reports a problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Operand {
    /// `plural.group`
    pub(super) resource: String,
    pub(super) kind: String,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    pub(super) created: Option<Timestamp>,
    /// `status.conditions`
    pub(super) conditions: Vec<Value>,
}

/// A kind that installed operators own, and the namespaces that they watch (`""` is all).
struct Kind {
    resource: ApiResource,
    watched: Vec<String>,
    homes: Vec<String>,
}

/// The result of reading custom resources.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) operands: Vec<Operand>,
    pub(super) count: usize,
    pub(super) unread: Vec<String>,
}

/// Reads the custom resources that installed versions own, in the namespaces that their operators watch.
pub(super) async fn read(client: &Client, csvs: &[ClusterServiceVersion], groups: &[OperatorGroup]) -> Read {
    let mut out = Read::default();
    let mut kinds = kinds(csvs, groups);
    if kinds.len() > KINDS {
        out.unread.push(format!(
            "custom resources of {} more kinds: only {KINDS} are checked",
            kinds.len() - KINDS
        ));
        kinds.truncate(KINDS);
    }
    // Collected first: a lazy closure over references would make the caller's future not Send.
    let reads: Vec<_> = kinds.iter().map(|kind| read_kind(client, kind)).collect();
    for read in stream::iter(reads).buffered(AT_ONCE).collect::<Vec<_>>().await {
        out.operands.extend(read.operands);
        out.count += read.count;
        out.unread.extend(read.unread);
    }
    out
}

fn kinds(csvs: &[ClusterServiceVersion], groups: &[OperatorGroup]) -> Vec<Kind> {
    let mut found: BTreeMap<(String, String), Kind> = BTreeMap::new();
    let own = |csv: &&ClusterServiceVersion| {
        !csv.labels().contains_key(names::LABEL_COPIED_FROM) && csv.metadata.deletion_timestamp.is_none()
    };
    for csv in csvs.iter().filter(own) {
        let home = csv.namespace().unwrap_or_default();
        let group = groups.iter().find(|g| g.namespace().as_deref() == Some(&home));
        let watched = group.map(targets::of_group).filter(|w| !w.is_empty());
        let watched = watched.unwrap_or_else(|| vec![home.clone()]);
        for crd in csv.spec.owned_crds() {
            let Some((plural, group)) = crd.name.split_once('.') else { continue };
            let gvk = GroupVersionKind::gvk(group, &crd.version, &crd.kind);
            let key = (crd.name.clone(), crd.version.clone());
            let kind = found.entry(key).or_insert_with(|| Kind {
                resource: ApiResource::from_gvk_with_plural(&gvk, plural),
                watched: Vec::new(),
                homes: Vec::new(),
            });
            kind.watched.extend(watched.iter().cloned());
            kind.homes.push(home.clone());
        }
    }
    let mut kinds: Vec<Kind> = found.into_values().collect();
    for kind in &mut kinds {
        for list in [&mut kind.watched, &mut kind.homes] {
            list.sort();
            list.dedup();
        }
    }
    kinds
}

async fn read_kind(client: &Client, kind: &Kind) -> Read {
    let mut out = Read::default();
    let everywhere = Api::all_with(client.clone(), &kind.resource);
    match pages(&everywhere, kind, &mut out).await {
        Err(kube::Error::Api(status)) if status.is_forbidden() => {}
        // The CustomResourceDefinition is gone, which the version's status reports.
        Err(kube::Error::Api(status)) if status.is_not_found() => return out,
        Err(error) => {
            out.unread.push(format!("{}: {}", what(kind, None), cause(&error)));
            return out;
        }
        Ok(()) => return out,
    }
    // A caller with rights in some namespaces gets the objects of these.
    let all = kind.watched.iter().any(String::is_empty);
    if all {
        out.unread.push(format!("{}: forbidden", what(kind, None)));
    }
    for namespace in if all { &kind.homes } else { &kind.watched } {
        let api = Api::namespaced_with(client.clone(), namespace, &kind.resource);
        if let Err(error) = pages(&api, kind, &mut out).await {
            out.unread.push(format!("{}: {}", what(kind, Some(namespace)), cause(&error)));
        }
    }
    out
}

fn what(kind: &Kind, namespace: Option<&str>) -> String {
    format!("{}.{} {}", kind.resource.plural, kind.resource.group, place(namespace))
}

/// Reads a list to its end, or up to the maximum number of objects.
async fn pages(api: &Api<DynamicObject>, kind: &Kind, out: &mut Read) -> Result<(), kube::Error> {
    let mut params = ListParams::default().limit(PAGE);
    let mut count = 0;
    loop {
        let page = api.list(&params).await?;
        count += page.items.len();
        out.count += page.items.len();
        out.operands.extend(page.items.iter().filter_map(|object| operand(kind, object)));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            None => return Ok(()),
            Some(_) if count >= OBJECTS => {
                out.unread.push(format!("{}: only the first {count} are checked", what(kind, None)));
                return Ok(());
            }
            Some(token) => params = params.continue_token(&token),
        }
    }
}

/// An object that an operator manages and that reports a problem.
fn operand(kind: &Kind, object: &DynamicObject) -> Option<Operand> {
    let namespace = object.namespace();
    let watched = kind.watched.iter().any(String::is_empty)
        || namespace.as_ref().is_none_or(|namespace| kind.watched.contains(namespace));
    let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array)?;
    let problem = problems(conditions).next().is_some();
    let leaving = object.metadata.deletion_timestamp.is_some();
    (watched && problem && !leaving).then(|| Operand {
        resource: format!("{}.{}", kind.resource.plural, kind.resource.group),
        kind: kind.resource.kind.clone(),
        namespace,
        name: object.name_any(),
        created: object.creation_timestamp().map(|time| time.0),
        conditions: conditions.clone(),
    })
}

pub(super) fn check(operands: &[Operand], now: Timestamp) -> Vec<Problem> {
    let mut by_kind: BTreeMap<&str, Vec<Problem>> = BTreeMap::new();
    for operand in operands {
        by_kind.entry(&operand.resource).or_default().push(one(operand, now));
    }
    let mut out = Vec::new();
    for (resource, mut problems) in by_kind {
        problems.sort_by(|a, b| (a.severity, &a.object).cmp(&(b.severity, &b.object)));
        let more = problems.split_off(problems.len().min(NAMED));
        out.extend(problems);
        if let Some(worst) = more.first().map(|a| a.severity) {
            let why = format!("{} more objects report a problem", more.len());
            let object = Some(format!("CustomResourceDefinition {resource}"));
            out.push(
                Problem::new(Code::OperandUnhealthy, object, why)
                    .severity(worst)
                    .fix(format!("kubectl get {resource} --all-namespaces")),
            );
        }
    }
    out
}

fn one(operand: &Operand, now: Timestamp) -> Problem {
    let text = |condition: &Value, key: &str| condition[key].as_str().unwrap_or_default().to_owned();
    let mut parts: Vec<String> = Vec::new();
    let mut messages: Vec<String> = Vec::new();
    for (condition, what) in problems(&operand.conditions) {
        let (reason, message) = (text(condition, "reason"), text(condition, "message"));
        let reason = if reason.is_empty() { reason } else { format!(" ({reason})") };
        // Several conditions often carry one message.
        let message = if message.is_empty() || messages.contains(&message) {
            String::new()
        } else {
            messages.push(message.clone());
            format!(": {message}")
        };
        parts.push(format!("{what}{reason}{message}"));
    }
    let severity = match problem_health(&operand.conditions, operand.created, now) {
        Some(Health::Progressing | Health::Degraded) => Severity::Warning,
        _ => Severity::Error,
    };
    let (object, fix) = match &operand.namespace {
        Some(namespace) => (
            format!("{} {namespace}/{}", operand.kind, operand.name),
            format!("kubectl describe {} -n {namespace} {}", operand.resource, operand.name),
        ),
        None => (
            format!("{} {}", operand.kind, operand.name),
            format!("kubectl describe {} {}", operand.resource, operand.name),
        ),
    };
    Problem::new(Code::OperandUnhealthy, Some(object), parts.join("; ")).severity(severity).fix(fix)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    fn operand(name: &str, conditions: Value) -> Operand {
        Operand {
            resource: "etcdclusters.etcd.database.coreos.com".into(),
            kind: "EtcdCluster".into(),
            namespace: Some("db".into()),
            name: name.into(),
            created: Some("2026-01-01T10:00:00Z".parse().unwrap()),
            conditions: conditions.as_array().unwrap().clone(),
        }
    }

    #[test]
    fn an_object_reports_its_problem_at_once_and_names_the_next_step() {
        let lost = operand(
            "etcd",
            json!([
                { "type": "Available", "status": "False", "reason": "QuorumLost", "message": "1 of 3 answer",
                  "lastTransitionTime": "2026-01-01T11:59:59Z" },
                { "type": "Progressing", "status": "False", "reason": "QuorumLost", "message": "1 of 3 answer" },
                { "type": "Degraded", "status": "False", "reason": "AsExpected" },
            ]),
        );
        let problems = check(&[lost], now());
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].severity, Severity::Error);
        assert_eq!(problems[0].object.as_deref(), Some("EtcdCluster db/etcd"));
        assert_eq!(problems[0].why, "Available=False (QuorumLost): 1 of 3 answer");
        let fix = "kubectl describe etcdclusters.etcd.database.coreos.com -n db etcd";
        assert_eq!(problems[0].fix.as_deref(), Some(fix));
    }

    #[test]
    fn progress_and_reduced_service_are_warnings() {
        let severity = |conditions| check(&[operand("x", conditions)], now())[0].severity;
        let ready = |time: &str| json!({ "type": "Ready", "status": "False", "lastTransitionTime": time });
        let moving = json!({ "type": "Progressing", "status": "True" });
        assert_eq!(severity(json!([ready("2026-01-01T11:58:00Z"), moving])), Severity::Warning);
        assert_eq!(severity(json!([ready("2026-01-01T11:50:00Z"), moving])), Severity::Error);
        assert_eq!(severity(json!([ready("2026-01-01T11:59:59Z")])), Severity::Error);
        let degraded = json!({ "type": "Degraded", "status": "True", "message": "one member lost" });
        assert_eq!(severity(json!([degraded, { "type": "Available", "status": "True" }])), Severity::Warning);
        assert_eq!(severity(json!([degraded, moving])), Severity::Error);
        let mut young = operand("x", json!([ready("nonsense")]));
        young.created = Some("2026-01-01T11:59:30Z".parse().unwrap());
        assert_eq!(check(&[young], now())[0].severity, Severity::Warning);
    }

    #[test]
    fn equal_messages_are_merged_and_objects_counted() {
        let both = json!([{ "type": "Ready", "status": "False", "message": "m" },
            { "type": "Degraded", "status": "True", "message": "m" }]);
        assert_eq!(check(&[operand("x", both.clone())], now())[0].why, "Degraded=True: m; Ready=False");
        let many: Vec<Operand> = (0..NAMED + 3).map(|n| operand(&format!("x{n}"), both.clone())).collect();
        let problems = check(&many, now());
        assert_eq!(problems.len(), NAMED + 1);
        assert_eq!(problems[NAMED].why, "3 more objects report a problem");
    }

    #[test]
    fn only_objects_that_an_operator_watches_are_checked() {
        let kind = |watched: &[&str]| Kind {
            resource: ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("g.io", "v1", "A"), "as"),
            watched: watched.iter().map(|w| (*w).to_owned()).collect(),
            homes: vec!["home".into()],
        };
        let object = |conditions: Value| -> DynamicObject {
            serde_json::from_value(json!({ "apiVersion": "g.io/v1", "kind": "A",
                "metadata": { "name": "a", "namespace": "ns" }, "status": { "conditions": conditions } }))
            .unwrap()
        };
        let bad = json!([{ "type": "Ready", "status": "False" }]);
        assert!(super::operand(&kind(&["ns"]), &object(bad.clone())).is_some());
        assert!(super::operand(&kind(&[""]), &object(bad.clone())).is_some());
        assert!(super::operand(&kind(&["other"]), &object(bad)).is_none());
        // authors use conditions in other ways than Kubernetes defines
        for odd in
            [json!([{ "type": "Ready", "status": false }]), json!(["Ready"]), json!({ "Ready": "False" })]
        {
            assert!(super::operand(&kind(&[""]), &object(odd)).is_none());
        }
    }
}

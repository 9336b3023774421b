//! Mandatory admission webhooks without ready endpoints.

use std::collections::BTreeSet;

use olm_version::shell_word;
use serde_json::{Value, json};

use super::pod;
use super::{Context, Report};
use crate::desired::namespace_ref;
use crate::finding::{Finding, FindingCode, MOST_NAMED, Severity};
use crate::input::{Live, PlanInput};
use crate::json::{list, plural, selects, some_of, strings, text};
use crate::object::ObjectRef;
use crate::plan::Op;

/// A write by the plan, or by Kubernetes as its consequence.
struct Write<'a> {
    operations: &'static [&'static str],
    group: &'a str,
    version: &'a str,
    resource: String,
    namespace: Option<&'a str>,
    labels: Option<&'a Value>,
    /// The object, for messages.
    what: String,
}

impl<'a> Write<'a> {
    fn of(reference: &'a ObjectRef, object: Option<&'a Value>, operations: &'static [&'static str]) -> Self {
        Self {
            operations,
            group: reference.group(),
            version: reference.version(),
            resource: plural(&reference.kind),
            namespace: reference.namespace.as_deref(),
            labels: object.and_then(|o| o.pointer("/metadata/labels")),
            what: reference.to_string(),
        }
    }

    /// Writes of Kubernetes caused by a workload.
    fn made_by(reference: &'a ObjectRef, manifest: &'a Value) -> Vec<Self> {
        let Some(template) = pod::template(reference, manifest).filter(|_| reference.kind != "Pod") else {
            return Vec::new();
        };
        let made = |group: &'a str, resource: &str, what: &str| Self {
            operations: &["CREATE"],
            group,
            version: "v1",
            resource: resource.to_owned(),
            namespace: reference.namespace.as_deref(),
            labels: template.pointer("/metadata/labels"),
            what: format!("{what} of {reference}"),
        };
        let mut list = vec![made("", "pods", "the pods")];
        if reference.kind == "Deployment" {
            list.push(made("apps", "replicasets", "the ReplicaSet"));
        }
        list
    }
}

pub(super) fn check(context: &Context<'_>, report: &mut Report) {
    let facts = &context.input.facts;
    let Some(configurations) = report.known_or_record(&facts.webhooks, "admission webhooks") else { return };
    let writes = writes(context);
    for configuration in configurations {
        for webhook in list(configuration, "/webhooks") {
            let Some((namespace, name)) = service(webhook) else { continue };
            let hit: Vec<String> =
                writes.iter().filter(|w| matches(webhook, w, context.live)).map(|w| w.what.clone()).collect();
            if hit.is_empty() || context.wanted.iter().any(|(_, r, _)| is_service(r, &namespace, &name)) {
                continue;
            }
            let Some(fact) = facts.ready_services.get(&(namespace.clone(), name.clone())) else { continue };
            let what = format!(
                "whether Service {namespace}/{name} of webhook {} is available",
                text(webhook, "/name")
            );
            if report.known_or_record(fact, &what) != Some(&false) {
                continue;
            }
            // Conditions in CEL may exclude the objects of the plan.
            let conditional = !list(webhook, "/matchConditions").is_empty();
            let text = format!(
                "its webhook {} (failurePolicy: Fail) is required to write {}, and its Service \
                    {namespace}/{name} has no ready endpoints",
                text(webhook, "/name"),
                some_of(&hit, MOST_NAMED)
            );
            let subject = format!(
                "{} {}",
                crate::json::text(configuration, "/kind"),
                crate::json::text(configuration, "/metadata/name")
            );
            report.push(
                Finding::new(FindingCode::WebhookUnavailable, subject, text)
                    .severity(if conditional { Severity::Warn } else { Severity::Block })
                    .fix(format!(
                        "kubectl get endpointslices -n {} -l {}",
                        shell_word(&namespace),
                        shell_word(&format!("kubernetes.io/service-name={name}"))
                    )),
            );
        }
    }
}

fn is_service(reference: &ObjectRef, namespace: &str, name: &str) -> bool {
    reference.kind == "Service" && reference.namespace.as_deref() == Some(namespace) && reference.name == name
}

/// Services of mandatory webhooks for possible writes of the plan.
pub(super) fn services(
    input: &PlanInput<'_>,
    live: &Live,
    configurations: &[Value],
) -> BTreeSet<(String, String)> {
    let rendered: Vec<(ObjectRef, &Value)> = input
        .rendered
        .ok()
        .into_iter()
        .flat_map(|r| r.objects())
        .filter_map(|(_, object)| Some((ObjectRef::of(object)?, object)))
        .collect();
    let mut writes = Vec::new();
    let csv = crate::desired::csv_ref(input.namespace, &input.resolved.chosen.name);
    writes.push(Write::of(&csv, Some(&input.bundle.csv_raw), &["CREATE", "UPDATE"]));
    for (reference, object) in &rendered {
        writes.push(Write::of(reference, Some(object), &["CREATE", "UPDATE"]));
        writes.extend(Write::made_by(reference, object));
    }
    configurations
        .iter()
        .flat_map(|configuration| list(configuration, "/webhooks"))
        .filter(|webhook| writes.iter().any(|write| matches(webhook, write, live)))
        .filter_map(service)
        .collect()
}

/// The Service of a mandatory webhook.
fn service(webhook: &Value) -> Option<(String, String)> {
    if text(webhook, "/failurePolicy") == "Ignore" {
        return None;
    }
    let service = webhook.pointer("/clientConfig/service")?;
    Some((text(service, "/namespace").to_owned(), text(service, "/name").to_owned()))
}

fn writes<'a>(context: &Context<'a>) -> Vec<Write<'a>> {
    let manifest = |r: &ObjectRef| context.wanted.iter().find(|(_, w, _)| w == r).map(|(.., m)| &**m);
    // Unchanged objects are still applied, except when nothing changes at all.
    let idle = context.objects.iter().all(|o| matches!(o.op, Op::Unchanged | Op::Noop));
    let mut list = Vec::new();
    for object in context.objects.iter().filter(|_| !idle) {
        let reference = &object.reference;
        let operations: &[&str] = match object.op {
            Op::Create => &["CREATE"],
            Op::Update | Op::Adopt | Op::Unchanged => &["UPDATE"],
            Op::Delete => &["DELETE"],
            Op::Noop => continue,
        };
        let labelled = manifest(reference).or_else(|| context.live.get(reference));
        list.push(Write::of(reference, labelled, operations));
    }
    for pods in pod::changed(context) {
        list.extend(Write::made_by(pods.reference, pods.workload));
    }
    list
}

fn matches(webhook: &Value, write: &Write<'_>, live: &Live) -> bool {
    // Kubernetes excludes these, so that a broken webhook can be removed.
    if write.group == "admissionregistration.k8s.io" {
        return false;
    }
    let exact = text(webhook, "/matchPolicy") == "Exact";
    list(webhook, "/rules").iter().any(|rule| rule_matches(rule, write, exact))
        && selects(webhook.get("objectSelector"), write.labels)
        && namespace_matches(webhook.get("namespaceSelector"), write, live)
}

fn rule_matches(rule: &Value, write: &Write<'_>, exact: bool) -> bool {
    let has = |key: &str, wanted: &str| strings(rule, key).iter().any(|v| v == "*" || v == wanted);
    let scope = match text(rule, "/scope") {
        "Namespaced" => write.namespace.is_some(),
        "Cluster" => write.namespace.is_none(),
        _ => true,
    };
    scope
        && write.operations.iter().any(|operation| has("/operations", operation))
        && has("/apiGroups", write.group)
        && (!exact || has("/apiVersions", write.version))
        && strings(rule, "/resources").iter().any(|r| r == "*" || r == "*/*" || *r == write.resource)
}

fn namespace_matches(selector: Option<&Value>, write: &Write<'_>, live: &Live) -> bool {
    let empty = selector.is_none_or(|s| s.as_object().is_none_or(serde_json::Map::is_empty));
    if empty {
        return true;
    }
    let Some(namespace) = write.namespace else {
        // Cluster-scoped objects are not selected by namespace; a Namespace is by its own labels.
        return write.resource != "namespaces" || selects(selector, write.labels);
    };
    match live.get(&namespace_ref(namespace)) {
        Some(object) => selects(selector, object.pointer("/metadata/labels")),
        // A new namespace has only the label that the API server sets.
        None => selects(selector, Some(&json!({ "kubernetes.io/metadata.name": namespace }))),
    }
}

//! Whether the quota of the namespace suffices for the plan.

use std::collections::BTreeMap;

use serde_json::Value;

use super::pod::{self, Pods};
use super::{Context, Report};
use crate::finding::{Finding, FindingCode, Severity};
use crate::json::{list, plural, strings, text};
use crate::plan::Op;
use crate::quantity;

/// Resources that a quota may require every container to specify.
const DEMANDED: &[&str] =
    &["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

pub(super) fn check(context: &Context<'_>, report: &mut Report) {
    let namespace = context.input.namespace;
    let quotas = &context.input.facts.quotas;
    let Some(quotas) = report.known_or_record(quotas, &format!("the quota of namespace {namespace}")) else {
        return;
    };
    if quotas.is_empty() {
        return;
    }
    let pods: Vec<(Pods<'_>, u64)> = pod::changed(context)
        .into_iter()
        .filter(|p| p.reference.namespace.as_deref() == Some(namespace))
        .map(|p| {
            let count = new_pods(context, &p);
            (p, count)
        })
        .filter(|(_, count)| *count > 0)
        .collect();
    for quota in quotas {
        let name = format!("ResourceQuota {namespace}/{}", text(quota, "/metadata/name"));
        // An unknown scope may exclude the pods of the plan.
        if !(is_scoped(quota) && pods.iter().any(|(p, _)| in_scope(quota, p).is_none())) {
            report.extend(exceeded(context, quota, &name, &pods));
        } else {
            report.not_checked(name, "its scope is not supported");
        }
    }
}

/// Additional pods besides the existing ones.
fn new_pods(context: &Context<'_>, pods: &Pods<'_>) -> u64 {
    let wanted = pod::replicas(pods.reference, pods.workload);
    let Some(live) = context.live.get(pods.reference) else { return wanted };
    let more = wanted.saturating_sub(pod::replicas(pods.reference, live));
    let rolls = context.objects.iter().any(|o| {
        o.reference == *pods.reference && o.diff.iter().any(|d| d.path.starts_with("/spec/template"))
    });
    let beside =
        if rolls && pods.reference.kind == "Deployment" { pod::surge(pods.workload, wanted) } else { 0 };
    more.saturating_add(beside)
}

fn exceeded(context: &Context<'_>, quota: &Value, name: &str, pods: &[(Pods<'_>, u64)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut short = Vec::new();
    let hard =
        quota.pointer("/status/hard").or_else(|| quota.pointer("/spec/hard")).and_then(Value::as_object);
    let mine: Vec<&(Pods<'_>, u64)> = pods.iter().filter(|(p, _)| in_scope(quota, p) == Some(true)).collect();
    for (key, limit) in hard.into_iter().flatten() {
        let Some(limit) = limit.as_str().and_then(quantity::parse) else { continue };
        let used = quota.pointer("/status/used").and_then(|u| u.get(key)).and_then(Value::as_str);
        // The usage is written shortly after the quota; until then it is unknown.
        let Some(used) = used.and_then(quantity::parse) else { continue };
        let more = match adds(key, &mine) {
            Some(more) => more,
            None if is_scoped(quota) => continue,
            None => counted(context, key),
        };
        if more > 0 && used.saturating_add(more) > limit {
            let bytes = key.contains("memory") || key.contains("storage");
            let show = |v: i128| quantity::text(v, bytes);
            short.push(format!("{key}: {} of {} used, {} needed", show(used), show(limit), show(more)));
        }
        if DEMANDED.contains(&key.as_str()) {
            for (pods, _) in &mine {
                findings.extend(unnamed(key, name, pods));
            }
        }
    }
    if !short.is_empty() {
        short.sort();
        let text = format!("the plan exceeds the quota: {}", short.join("; "));
        let plain = name.rsplit('/').next().unwrap_or(name);
        findings.push(
            Finding::new(FindingCode::QuotaExceeded, name, text)
                .fix(format!("kubectl edit resourcequota {plain} -n {}", context.input.namespace)),
        );
    }
    findings
}

/// The demand of pods on a limit; `None` for a limit on something else.
fn adds(key: &str, pods: &[&(Pods<'_>, u64)]) -> Option<i128> {
    let total = |each: &dyn Fn(&Pods<'_>) -> i128| {
        pods.iter()
            .fold(0_i128, |sum, (p, count)| sum.saturating_add(each(p).saturating_mul(i128::from(*count))))
    };
    if key == "pods" || key == "count/pods" {
        return Some(total(&|_| quantity::whole(1)));
    }
    let (kind, resource) = match key.split_once('.') {
        Some(("requests", "storage")) => return None,
        Some(("requests", resource)) => ("requests", resource),
        Some(("limits", resource)) => ("limits", resource),
        _ if matches!(key, "cpu" | "memory" | "ephemeral-storage") || key.starts_with("hugepages-") => {
            ("requests", key)
        }
        _ => return None,
    };
    Some(total(&|p| demand(p, kind, resource)))
}

/// The demand of one pod: its containers together, or an init container alone where that is more.
fn demand(pods: &Pods<'_>, kind: &str, resource: &str) -> i128 {
    let of = |container: &Value| quantity_of(container, kind, resource).unwrap_or(0);
    let spec = pods.spec();
    let (mut running, mut starting) = (0_i128, 0_i128);
    for container in list(spec, "/initContainers") {
        // A sidecar keeps running and counts with the following containers.
        if container["restartPolicy"] == "Always" {
            running = running.saturating_add(of(container));
            starting = starting.max(running);
        } else {
            starting = starting.max(running.saturating_add(of(container)));
        }
    }
    let running = list(spec, "/containers").iter().fold(running, |sum, c| sum.saturating_add(of(c)));
    let overhead = spec.pointer("/overhead").and_then(|o| o.get(resource)).and_then(amount).unwrap_or(0);
    running.max(starting).saturating_add(overhead)
}

fn amount(value: &Value) -> Option<i128> {
    match value {
        Value::String(text) => quantity::parse(text),
        Value::Number(number) => quantity::parse(&number.to_string()),
        _ => None,
    }
}

/// An omitted request equals the limit.
fn quantity_of(container: &Value, kind: &str, resource: &str) -> Option<i128> {
    let at = |kind: &str| container.pointer(&format!("/resources/{kind}"))?.get(resource).and_then(amount);
    match kind {
        "requests" => at("requests").or_else(|| at("limits")),
        _ => at(kind),
    }
}

/// Containers that omit a resource that the quota requires.
fn unnamed(key: &str, quota: &str, pods: &Pods<'_>) -> Option<Finding> {
    let (kind, resource) = key.split_once('.').unwrap_or(("requests", key));
    let silent: Vec<&str> = pods
        .containers()
        .filter(|c| quantity_of(c, kind, resource).is_none())
        .map(|c| text(c, "/name"))
        .collect();
    (!silent.is_empty()).then(|| {
        let text = format!(
            "{quota} limits {key}, and container {} has no {kind}.{resource}: its pods are rejected unless a \
                LimitRange of the namespace sets a default",
            silent.join(", ")
        );
        Finding::new(FindingCode::QuotaExceeded, pods.reference, text).severity(Severity::Warn).fix(format!(
            "kubectl get limitrange -n {}",
            pods.reference.namespace.as_deref().unwrap_or_default()
        ))
    })
}

/// Objects other than pods that the plan creates and the limit counts.
fn counted(context: &Context<'_>, key: &str) -> i128 {
    let namespace = context.input.namespace;
    let created = context
        .objects
        .iter()
        .filter(|o| o.op == Op::Create && o.reference.namespace.as_deref() == Some(namespace));
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for object in created {
        let resource = plural(&object.reference.kind);
        let full = match object.reference.group() {
            "" => resource.clone(),
            group => format!("{resource}.{group}"),
        };
        *counts.entry(format!("count/{full}")).or_insert(0) += 1;
        if object.reference.group().is_empty() {
            *counts.entry(resource).or_insert(0) += 1;
        }
        if object.reference.kind == "Deployment" {
            *counts.entry("count/replicasets.apps".to_owned()).or_insert(0) += 1;
        }
        if object.reference.kind == "Service" {
            let manifest = context.wanted.iter().find(|(_, r, _)| *r == object.reference);
            let kind = manifest.map_or("", |(.., m)| text(m, "/spec/type"));
            let ports = manifest.map_or(0, |(.., m)| list(m, "/spec/ports").len());
            if matches!(kind, "NodePort" | "LoadBalancer") {
                *counts.entry("services.nodeports".to_owned()).or_insert(0) +=
                    u64::try_from(ports).unwrap_or(0);
            }
            if kind == "LoadBalancer" {
                *counts.entry("services.loadbalancers".to_owned()).or_insert(0) += 1;
            }
        }
    }
    counts.get(key).copied().map_or(0, quantity::whole)
}

fn is_scoped(quota: &Value) -> bool {
    !list(quota, "/spec/scopes").is_empty() || !list(quota, "/spec/scopeSelector/matchExpressions").is_empty()
}

/// Whether a quota applies to these pods; `None` for an unknown scope.
fn in_scope(quota: &Value, pods: &Pods<'_>) -> Option<bool> {
    let mut all = true;
    for scope in strings(quota, "/spec/scopes") {
        all &= scope_fits(&scope, pods)?;
    }
    for expression in list(quota, "/spec/scopeSelector/matchExpressions") {
        let scope = text(expression, "/scopeName");
        all &= match (scope, text(expression, "/operator")) {
            ("PriorityClass", operator) => {
                let class = text(pods.spec(), "/priorityClassName");
                let named = strings(expression, "/values").iter().any(|v| v == class);
                match operator {
                    "In" => named,
                    "NotIn" => !named,
                    "Exists" => !class.is_empty(),
                    "DoesNotExist" => class.is_empty(),
                    _ => return None,
                }
            }
            (scope, "Exists") => scope_fits(scope, pods)?,
            _ => return None,
        };
    }
    Some(all)
}

fn scope_fits(scope: &str, pods: &Pods<'_>) -> Option<bool> {
    let ends = pods.spec()["activeDeadlineSeconds"].is_u64();
    let best_effort = !pods.containers().any(|c| {
        ["requests", "limits"]
            .iter()
            .any(|kind| ["cpu", "memory"].iter().any(|r| quantity_of(c, kind, r).is_some_and(|v| v > 0)))
    });
    match scope {
        "Terminating" => Some(ends),
        "NotTerminating" => Some(!ends),
        "BestEffort" => Some(best_effort),
        "NotBestEffort" => Some(!best_effort),
        "PriorityClass" => Some(!text(pods.spec(), "/priorityClassName").is_empty()),
        _ => None,
    }
}

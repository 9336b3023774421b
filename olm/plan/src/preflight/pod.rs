//! The pods that objects make.

use serde_json::Value;

use super::Context;
use super::json::{list, text};
use crate::object::ObjectRef;
use crate::plan::Op;

/// Pods that the plan makes: the template of a workload.
pub(super) struct Pods<'a> {
    /// The workload.
    pub(super) reference: &'a ObjectRef,
    /// Its manifest.
    pub(super) workload: &'a Value,
    /// `metadata` and `spec` of its pods.
    pub(super) template: &'a Value,
}

impl<'a> Pods<'a> {
    pub(super) fn spec(&self) -> &'a Value {
        &self.template["spec"]
    }

    /// Every container, those that run first included.
    pub(super) fn containers(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        let spec = self.spec();
        ["/initContainers", "/containers", "/ephemeralContainers"]
            .into_iter()
            .flat_map(move |p| list(spec, p))
    }
}

/// The kinds with a pod template, and where it is.
const TEMPLATES: &[(&str, &str, &str)] = &[
    ("", "Pod", ""),
    ("", "ReplicationController", "/spec/template"),
    ("apps", "Deployment", "/spec/template"),
    ("apps", "DaemonSet", "/spec/template"),
    ("apps", "StatefulSet", "/spec/template"),
    ("apps", "ReplicaSet", "/spec/template"),
    ("batch", "Job", "/spec/template"),
    ("batch", "CronJob", "/spec/jobTemplate/spec/template"),
];

/// The template of an object that makes pods.
pub(super) fn template<'a>(reference: &ObjectRef, manifest: &'a Value) -> Option<&'a Value> {
    let (.., pointer) =
        TEMPLATES.iter().find(|(group, kind, _)| *kind == reference.kind && *group == reference.group())?;
    manifest.pointer(pointer).filter(|template| template["spec"].is_object())
}

/// The workloads that the plan makes or changes. One that stays as it is makes no new pods.
pub(super) fn changed<'a>(context: &Context<'a>) -> Vec<Pods<'a>> {
    let moves = |reference: &ObjectRef| {
        context
            .objects
            .iter()
            .any(|o| o.reference == *reference && matches!(o.op, Op::Create | Op::Update | Op::Adopt))
    };
    context
        .wanted
        .iter()
        .filter_map(|(_, reference, workload)| {
            Some(Pods { reference, workload, template: template(reference, workload)? })
        })
        .filter(|pods| moves(pods.reference))
        .collect()
}

/// How many pods a workload keeps running at once, as far as its manifest tells.
pub(super) fn replicas(reference: &ObjectRef, workload: &Value) -> u64 {
    let number = |pointer: &str| workload.pointer(pointer).and_then(Value::as_u64);
    match reference.kind.as_str() {
        "Job" => number("/spec/parallelism").unwrap_or(1),
        // one on every node, of which nobody knows the number
        "DaemonSet" | "Pod" => 1,
        // none until its time comes
        "CronJob" => 0,
        _ => number("/spec/replicas").unwrap_or(1),
    }
}

/// Pods that a Deployment runs beside the old ones while it rolls out.
pub(super) fn surge(workload: &Value, replicas: u64) -> u64 {
    if text(workload, "/spec/strategy/type") == "Recreate" {
        return 0;
    }
    let surge = workload.pointer("/spec/strategy/rollingUpdate/maxSurge");
    let percent = |text: &str| text.strip_suffix('%')?.parse::<u64>().ok();
    match surge {
        Some(Value::Number(number)) => number.as_u64().unwrap_or(1),
        Some(Value::String(text)) => percent(text).map_or(1, |p| (replicas.saturating_mul(p)).div_ceil(100)),
        // Kubernetes' default is 25%, rounded up
        _ => replicas.div_ceil(4),
    }
}

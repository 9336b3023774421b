//! Pod templates of objects.

use serde_json::Value;

use super::Context;
use crate::json::{list, text};
use crate::object::ObjectRef;
use crate::plan::Op;

/// Pods of the plan: the template of a workload.
pub(super) struct Pods<'a> {
    pub(super) reference: &'a ObjectRef,
    pub(super) workload: &'a Value,
    /// `metadata` and `spec` of its pods.
    pub(super) template: &'a Value,
}

impl<'a> Pods<'a> {
    pub(super) fn spec(&self) -> &'a Value {
        &self.template["spec"]
    }

    /// Every container, init containers included.
    pub(super) fn containers(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        let spec = self.spec();
        ["/initContainers", "/containers", "/ephemeralContainers"]
            .into_iter()
            .flat_map(move |p| list(spec, p))
    }
}

/// The kinds with a pod template, and its pointer.
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

/// The pod template of an object.
pub(super) fn template<'a>(reference: &ObjectRef, manifest: &'a Value) -> Option<&'a Value> {
    let (.., pointer) =
        TEMPLATES.iter().find(|(group, kind, _)| *kind == reference.kind && *group == reference.group())?;
    manifest.pointer(pointer).filter(|template| template["spec"].is_object())
}

/// The workloads that the plan creates or changes. An unchanged one creates no pods.
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

/// Number of pods of a workload at once, as far as its manifest specifies it.
pub(super) fn replicas(reference: &ObjectRef, workload: &Value) -> u64 {
    let number = |pointer: &str| workload.pointer(pointer).and_then(Value::as_u64);
    match reference.kind.as_str() {
        "Job" => number("/spec/parallelism").unwrap_or(1),
        // one on every node; their number is unknown
        "DaemonSet" | "Pod" => 1,
        // none until its time comes
        "CronJob" => 0,
        _ => number("/spec/replicas").unwrap_or(1),
    }
}

/// Additional pods of a Deployment during a rollout.
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

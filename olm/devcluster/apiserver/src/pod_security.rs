//! Pod Security admission, configured by the labels of a namespace.
//!
//! As in Kubernetes: `enforce` refuses pods, `warn` warns about pods and workloads, `audit` is validated and
//! has no effect, because there is no audit log. The texts of single violations are our own.

use olm_devcluster_machinery::{KUBERNETES_MINOR, field_error::FieldError};
use olm_kube_schema::pod_security::{LABEL, Level, pinned_minor, violations};
use serde_json::Value;

use super::{
    call::Call,
    meta,
    status::{ApiError, ApiResult},
    store::Key,
};

const MODES: [&str; 3] = ["enforce", "warn", "audit"];
/// Kubernetes' limit of existing pods that a warning names.
const MOST_NAMED: usize = 10;

/// The kinds with a pod template, and its path.
const TEMPLATES: [(&str, &str, &str); 7] = [
    ("", "replicationcontrollers", "/spec/template"),
    ("apps", "deployments", "/spec/template"),
    ("apps", "daemonsets", "/spec/template"),
    ("apps", "statefulsets", "/spec/template"),
    ("apps", "replicasets", "/spec/template"),
    ("batch", "jobs", "/spec/template"),
    ("batch", "cronjobs", "/spec/jobTemplate/spec/template"),
];

/// A level, and the version of the rules.
#[derive(Clone, PartialEq)]
struct Policy {
    level: Level,
    version: String,
}

impl Policy {
    const fn privileged() -> Self {
        Self { level: Level::Privileged, version: String::new() }
    }

    /// The labels of a namespace for a mode; an invalid level counts as `otherwise`.
    fn of(namespace: &Value, mode: &str, otherwise: Level) -> Option<Self> {
        let label = |suffix: &str| {
            let labels = namespace.pointer("/metadata/labels")?;
            labels.get(format!("{LABEL}{mode}{suffix}"))?.as_str()
        };
        let level = Level::parse(label("")?).unwrap_or(otherwise);
        let version = label("-version").filter(|v| pinned_minor(v).is_some()).unwrap_or("latest");
        Some(Self { level, version: version.to_owned() })
    }

    fn enforced(namespace: &Value) -> Self {
        Self::of(namespace, "enforce", Level::Restricted).unwrap_or(Self::privileged())
    }

    /// Since 1.26 the enforced level also warns.
    fn warned(namespace: &Value) -> Self {
        Self::of(namespace, "warn", Level::Privileged).unwrap_or_else(|| Self::enforced(namespace))
    }

    fn violations(&self, pod: &Value) -> Vec<String> {
        let minor = pinned_minor(&self.version).unwrap_or(KUBERNETES_MINOR).min(KUBERNETES_MINOR);
        violations(pod, self.level, minor)
    }
}

impl std::fmt::Display for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.level.as_str(), self.version)
    }
}

/// Checks a created or changed object.
pub(crate) fn admit(call: &Call<'_>, object: &Value, live: Option<&Value>) -> ApiResult<()> {
    let resource = call.resource;
    if !call.info.subresource.is_empty() {
        return Ok(());
    }
    if resource.is("", "namespaces") {
        return namespace(call, object, live);
    }
    let is_pod = resource.is("", "pods");
    let template = TEMPLATES.iter().find(|(group, plural, _)| resource.is(group, plural));
    let pointer = match template {
        Some((.., pointer)) => *pointer,
        None if is_pod => "",
        None => return Ok(()),
    };
    let pod_of = |object: &Value| object.pointer(pointer).cloned().unwrap_or_default();
    let pod = pod_of(object);
    let before = live.map(pod_of);
    if before.as_ref().is_some_and(|before| before["spec"] == pod["spec"]) {
        return Ok(());
    }
    let Some(namespace) = call.server.store.get(&Key::new("/namespaces", "", &call.info.namespace)) else {
        return Ok(());
    };
    let enforced = Policy::enforced(&namespace);
    if is_pod {
        let broken = enforced.violations(&pod);
        // A pod from before the label may still get another image.
        let is_new = before.is_none_or(|before| enforced.violations(&before) != broken);
        if !broken.is_empty() && is_new {
            let why = format!("violates PodSecurity \"{enforced}\": {}", broken.join(", "));
            return Err(ApiError::forbidden("pods", "", meta::name(object), &why));
        }
    }
    let warned = Policy::warned(&namespace);
    let broken = warned.violations(&pod);
    if !broken.is_empty() {
        call.warn(format!("would violate PodSecurity \"{warned}\": {}", broken.join(", ")));
    }
    Ok(())
}

/// Validates a namespace's labels; warns about existing pods that violate a new level.
fn namespace(call: &Call<'_>, object: &Value, live: Option<&Value>) -> ApiResult<()> {
    let errors = label_errors(object, live);
    if !errors.is_empty() {
        return Err(ApiError::invalid("", "Namespace", meta::name(object), &errors));
    }
    let Some(live) = live else { return Ok(()) };
    let (old, new) = (Policy::enforced(live), Policy::enforced(object));
    if old == new || new.level < old.level || new.level == Level::Privileged {
        return Ok(());
    }
    let pods = call.server.store.list("/pods", meta::name(object)).items;
    let broken: Vec<(&str, Vec<String>)> = pods
        .iter()
        .map(|pod| (meta::name(pod), new.violations(pod)))
        .filter(|(_, broken)| !broken.is_empty())
        .collect();
    if broken.is_empty() {
        return Ok(());
    }
    let name = meta::name(object);
    call.warn(format!(
        "existing pods in namespace \"{name}\" violate the new PodSecurity enforce level \"{new}\""
    ));
    for (pod, broken) in broken.iter().take(MOST_NAMED) {
        call.warn(format!("{pod}: {}", broken.join(", ")));
    }
    Ok(())
}

fn label_errors(object: &Value, live: Option<&Value>) -> Vec<FieldError> {
    let label = |object: &Value, key: &str| {
        object.pointer("/metadata/labels").and_then(|labels| labels.get(key)?.as_str().map(str::to_owned))
    };
    let mut errors = Vec::new();
    for mode in MODES {
        for suffix in ["", "-version"] {
            let key = format!("{LABEL}{mode}{suffix}");
            let Some(value) = label(object, &key) else { continue };
            if live.and_then(|live| label(live, &key)).as_ref() == Some(&value) {
                continue;
            }
            let (good, expected) = if suffix.is_empty() {
                (Level::parse(&value).is_some(), "must be one of privileged, baseline, restricted")
            } else {
                (value == "latest" || pinned_minor(&value).is_some(), "must be \"latest\" or \"v1.x\"")
            };
            if !good {
                errors.push(FieldError::invalid(format!("metadata.labels[{key}]"), value, expected));
            }
        }
    }
    errors
}

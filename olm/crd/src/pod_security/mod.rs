//! The Pod Security Standards: what a pod may ask for at each level.
//!
//! The preflight checks of a plan and the admission of the dev cluster use these rules.

mod baseline;
mod restricted;
#[cfg(test)]
mod tests;

use serde_json::Value;

/// Begin of the labels of a namespace: `enforce`, `warn`, `audit`, and each with `-version`.
pub const LABEL: &str = "pod-security.kubernetes.io/";

/// How much a pod may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Anything.
    Privileged,
    /// Nothing that is known to lead out of the sandbox.
    Baseline,
    /// What hardened pods keep to.
    Restricted,
}

impl Level {
    /// The value of a label; `None` for what the API server refuses.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "privileged" => Some(Self::Privileged),
            "baseline" => Some(Self::Baseline),
            "restricted" => Some(Self::Restricted),
            _ => None,
        }
    }

    /// The level as a label has it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }
}

/// The minor version of Kubernetes that a `-version` label pins; `None` for `latest` and for what is no version.
#[must_use]
pub fn pinned_minor(version: &str) -> Option<u64> {
    version.strip_prefix("v1.")?.parse().ok()
}

/// How a pod, or the template of pods, breaks a level by the rules of a minor version of Kubernetes.
#[must_use]
pub fn violations(pod: &Value, level: Level, minor: u64) -> Vec<String> {
    let pod = Pod { spec: &pod["spec"], annotations: pod.pointer("/metadata/annotations"), minor };
    let mut list = Vec::new();
    if level >= Level::Baseline {
        list.extend(baseline::violations(&pod));
    }
    if level >= Level::Restricted {
        list.extend(restricted::violations(&pod));
    }
    list
}

/// A pod as the rules look at it.
struct Pod<'a> {
    spec: &'a Value,
    annotations: Option<&'a Value>,
    /// Minor version of the rules.
    minor: u64,
}

impl<'a> Pod<'a> {
    fn containers(&self) -> impl Iterator<Item = (&'a str, &'a Value)> + use<'a> {
        let spec = self.spec;
        ["/initContainers", "/containers", "/ephemeralContainers"]
            .into_iter()
            .flat_map(move |pointer| list(spec, pointer))
            .map(|container| (text(container, "/name"), container))
    }

    /// Names of the containers that break a rule.
    fn containers_that(&self, breaks: impl Fn(&Value) -> bool) -> Vec<&'a str> {
        self.containers().filter(|(_, c)| breaks(c)).map(|(name, _)| name).collect()
    }

    /// The pod's own setting and each container's, with who sets it.
    fn settings(&self, pointer: &str) -> Vec<(String, &'a Value)> {
        let pod = self.spec.pointer(&format!("/securityContext{pointer}"));
        let mut list: Vec<(String, &Value)> = pod.map(|v| ("the pod".to_owned(), v)).into_iter().collect();
        list.extend(self.containers().filter_map(|(name, container)| {
            Some((format!("container {name}"), container.pointer(&format!("/securityContext{pointer}"))?))
        }));
        list.retain(|(_, value)| !value.is_null());
        list
    }

    fn is_windows(&self) -> bool {
        text(self.spec, "/os/name") == "windows"
    }

    /// Since 1.34 a user namespace of its own makes some rules superfluous.
    fn has_own_users(&self) -> bool {
        self.minor >= 34 && self.spec["hostUsers"] == false
    }
}

/// `containers a, b`, or nothing.
fn named(what: &str, names: &[&str]) -> Option<String> {
    match names {
        [] => None,
        [one] => Some(format!("{what} (container {one})")),
        many => Some(format!("{what} (containers {})", many.join(", "))),
    }
}

/// The text at a pointer; empty when there is none.
fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The list at a pointer; empty when there is none.
fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

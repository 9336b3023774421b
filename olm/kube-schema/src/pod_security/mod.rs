//! The Pod Security Standards: allowed pod settings by level.
//!
//! The preflight checks of a plan and the admission of the dev cluster use these rules.

mod baseline;
mod restricted;
#[cfg(test)]
mod tests;

use serde_json::Value;

/// Prefix of the labels of a namespace: `enforce`, `warn`, `audit`, and each with `-version`.
pub const LABEL: &str = "pod-security.kubernetes.io/";

/// Policy level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Unrestricted.
    Privileged,
    /// Prevents known privilege escalations.
    Baseline,
    /// Pod hardening practices.
    Restricted,
}

impl Level {
    /// Parses the value of a label; `None` for a value that the API server refuses.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "privileged" => Some(Self::Privileged),
            "baseline" => Some(Self::Baseline),
            "restricted" => Some(Self::Restricted),
            _ => None,
        }
    }

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }
}

/// The minor version of Kubernetes that a `-version` label pins; `None` for `latest` and for an invalid
/// version.
#[must_use]
pub fn pinned_minor(version: &str) -> Option<u64> {
    version.strip_prefix("v1.")?.parse().ok()
}

/// Violations of a level by a pod, or a pod template, under the rules of a minor version of Kubernetes.
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

/// The pod fields that the rules read.
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

    /// Names of the containers that violate a rule.
    fn containers_that(&self, breaks: impl Fn(&Value) -> bool) -> Vec<&'a str> {
        self.containers().filter(|(_, c)| breaks(c)).map(|(name, _)| name).collect()
    }

    /// The pod's own setting and each container's, with the name of the object that sets it.
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

    /// Since 1.34 a user namespace of the pod makes some rules superfluous.
    fn has_own_users(&self) -> bool {
        self.minor >= 34 && self.spec["hostUsers"] == false
    }
}

/// `containers a, b`, or `None`.
fn named(what: &str, names: &[&str]) -> Option<String> {
    match names {
        [] => None,
        [one] => Some(format!("{what} (container {one})")),
        many => Some(format!("{what} (containers {})", many.join(", "))),
    }
}

/// The text at a pointer; empty when absent.
fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The list at a pointer; empty when absent.
fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

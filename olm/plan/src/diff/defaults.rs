//! Server-side defaults and normalization, which are not differences.

use serde_json::{Number, Value};

use crate::quantity;

/// Fields written by servers and controllers: never compared.
const NOISE: &[&str] = &[
    "/status",
    "/metadata/creationTimestamp",
    "/metadata/resourceVersion",
    "/metadata/uid",
    "/metadata/generation",
    "/metadata/managedFields",
    "/metadata/ownerReferences",
    "/metadata/selfLink",
    "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration",
    "/metadata/annotations/deployment.kubernetes.io~1revision",
];

/// Defaults of the API server for unset fields.
const DEFAULTS: &[(&str, &str)] = &[
    ("protocol", "TCP"),
    ("imagePullPolicy", "IfNotPresent"),
    ("imagePullPolicy", "Always"),
    ("terminationMessagePath", "/dev/termination-log"),
    ("terminationMessagePolicy", "File"),
    ("restartPolicy", "Always"),
    ("dnsPolicy", "ClusterFirst"),
    ("schedulerName", "default-scheduler"),
    ("sessionAffinity", "None"),
    ("internalTrafficPolicy", "Cluster"),
    ("ipFamilyPolicy", "SingleStack"),
    ("scheme", "HTTP"),
    ("maxSurge", "25%"),
    ("maxUnavailable", "25%"),
    ("pathType", "ImplementationSpecific"),
    ("preemptionPolicy", "PreemptLowerPriority"),
    ("failurePolicy", "Fail"),
    ("matchPolicy", "Equivalent"),
    ("scope", "*"),
    ("apiGroup", "rbac.authorization.k8s.io"),
    ("apiVersion", "v1"),
];
const NUMBERS: &[(&str, u64)] = &[
    ("terminationGracePeriodSeconds", 30),
    ("progressDeadlineSeconds", 600),
    ("revisionHistoryLimit", 10),
    ("replicas", 1),
    ("timeoutSeconds", 1),
    ("timeoutSeconds", 10),
    ("periodSeconds", 10),
    ("successThreshold", 1),
    ("failureThreshold", 3),
    ("defaultMode", 420),
    ("expirationSeconds", 3600),
];

/// Maps with free keys: every value in them counts.
const FREE: &[&str] = &[
    "labels",
    "annotations",
    "data",
    "binaryData",
    "matchLabels",
    "nodeSelector",
    "parameters",
    "limits",
    "requests",
    "hard",
];

/// Normalization of an object's fields by the API server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Server {
    /// Whether the object has a built-in type: false, 0 and empty fields then equal absent ones. Custom
    /// resources keep them.
    typed: bool,
    crd: bool,
}

impl Server {
    pub(super) fn of(manifest: &Value) -> Self {
        let version = manifest.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        let group = version.split_once('/').map_or("", |(group, _)| group);
        Self {
            typed: !group.contains('.') || group.ends_with(".k8s.io"),
            crd: group == "apiextensions.k8s.io",
        }
    }

    pub(super) fn ignores(self, path: &str) -> bool {
        NOISE.contains(&path)
    }

    /// Whether the server drops this value.
    pub(super) fn drops(self, path: &str, value: &Value) -> bool {
        if let Some(schema) = self.schema(path) {
            return schema.drops(path, value);
        }
        let in_free_map = parent(path).is_some_and(|parent| FREE.contains(&parent));
        match value {
            Value::Null => true,
            Value::Array(list) => list.is_empty(),
            Value::Object(map) => map.values().all(|value| self.drops("", value)),
            Value::Bool(value) => self.typed && !in_free_map && !value && !path.is_empty(),
            Value::Number(number) => {
                self.typed && !in_free_map && number.as_f64() == Some(0.0) && !path.is_empty()
            }
            Value::String(text) => self.typed && !in_free_map && text.is_empty() && !path.is_empty(),
        }
    }

    /// Whether a value is a default of an unset field.
    pub(super) fn fills_in(self, path: &str, value: &Value) -> bool {
        if self.schema(path).is_some() {
            return false;
        }
        let field = leaf(path);
        match value {
            Value::String(text) => DEFAULTS.iter().any(|(name, default)| *name == field && default == text),
            Value::Number(number) => {
                NUMBERS.iter().any(|(name, default)| *name == field && number.as_u64() == Some(*default))
            }
            Value::Object(map) => {
                // such as `strategy` and its content, or `conversion: {strategy: None}`
                map.iter().all(|(key, value)| {
                    let text = value.as_str().unwrap_or_default();
                    let strategy = field == "strategy" && key == "type" && text == "RollingUpdate";
                    let conversion = field == "conversion" && key == "strategy" && text == "None";
                    strategy || conversion || self.fills_in(&format!("{path}/{key}"), value)
                })
            }
            _ => false,
        }
    }

    /// Whether two scalars are equal for the server.
    pub(super) fn same(self, path: &str, a: &Value, b: &Value) -> bool {
        if a == b {
            return true;
        }
        if let (Value::Number(a), Value::Number(b)) = (a, b) {
            return a.as_f64().is_some() && a.as_f64() == b.as_f64();
        }
        let (Some(a), Some(b)) = (scalar(a), scalar(b)) else { return false };
        self.is_quantity(path) && quantity::parse(&a).is_some_and(|a| quantity::parse(&b) == Some(a))
    }

    /// `1` and `1000m` are equal as quantities, and different as annotations.
    fn is_quantity(self, path: &str) -> bool {
        let by_parent = parent(path).is_some_and(|p| ["limits", "requests", "hard"].contains(&p));
        by_parent || ["sizeLimit", "divisor"].contains(&leaf(path))
    }

    fn schema(self, path: &str) -> Option<Schema> {
        (self.crd && path.contains("/openAPIV3Schema/")).then_some(Schema)
    }
}

/// The schema of a CRD: an empty schema is significant.
struct Schema;

impl Schema {
    fn drops(&self, path: &str, value: &Value) -> bool {
        let field = leaf(path);
        let raw = ["default", "example", "enum"].contains(&field);
        let kept = ["additionalProperties", "x-kubernetes-preserve-unknown-fields"].contains(&field);
        match value {
            Value::Null => true,
            Value::Array(list) => list.is_empty() && !raw,
            Value::Bool(value) => !value && !raw && !kept,
            Value::String(text) => text.is_empty() && !raw,
            Value::Object(map) => {
                map.is_empty()
                    && ["properties", "patternProperties", "definitions", "dependencies"].contains(&field)
            }
            Value::Number(_) => false,
        }
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(Number::to_string(number)),
        _ => None,
    }
}

/// The last segment of a path.
fn leaf(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, leaf)| leaf)
}

/// The segment before the last.
fn parent(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(rest, _)| leaf(rest))
}

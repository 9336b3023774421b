//! One compiled webhook of a configuration.

use std::time::Duration;

use serde_json::Value;

use super::conditions::{Conditions, VARIABLES};
use crate::{
    meta::{self, list, text},
    outbound::Endpoint,
    selector::Selector,
};

/// Supported versions of AdmissionReview.
pub(super) const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];
/// Kubernetes' default; configurations get it when they are stored.
const TIMEOUT: u64 = 10;

/// A compiled webhook.
pub(crate) struct Hook {
    pub name: String,
    pub matching: Matching,
    pub conditions: Conditions,
    /// `failurePolicy: Ignore`.
    pub ignores_failures: bool,
    pub timeout: Duration,
    /// Whether dry-run requests may call it.
    pub dry_run: bool,
    pub review: Option<&'static str>,
    /// `reinvocationPolicy: IfNeeded`.
    pub reinvocable: bool,
    pub endpoint: Result<Endpoint, String>,
}

/// Match constraints of a webhook or a policy.
pub(crate) struct Matching {
    pub rules: Vec<Rule>,
    /// Whether empty rules match everything.
    pub all: bool,
    /// Excluded requests.
    pub excluded: Vec<Rule>,
    /// `matchPolicy: Exact`: other versions of the same resource do not match.
    pub exact: bool,
    pub namespaces: Selector,
    pub objects: Selector,
}

impl Matching {
    /// From a webhook or a policy; `rules` is the field of the rules.
    pub(crate) fn new(of: &Value, rules: &str) -> Self {
        let all = |pointer: &str| list(of, pointer).iter().map(Rule::new).collect();
        let selector = |key: &str| Selector::from_object(&of[key]);
        Self {
            rules: all(rules),
            all: false,
            excluded: all("/excludeResourceRules"),
            exact: text(of, "/matchPolicy") == "Exact",
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
        }
    }
}

/// A match rule for requests.
pub(crate) struct Rule {
    pub operations: Vec<String>,
    pub groups: Vec<String>,
    pub versions: Vec<String>,
    /// Resource and subresource; the latter is empty for the resource itself.
    pub resources: Vec<(String, String)>,
    pub scope: Scope,
    /// Only for policies; empty matches any name.
    pub names: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    All,
    Cluster,
    Namespaced,
}

impl Hook {
    /// The webhooks of a stored configuration, in its order.
    pub(super) fn all_of(configuration: &Value) -> Vec<Self> {
        if meta::is_deleting(configuration) && meta::finalizers(configuration).is_empty() {
            return Vec::new();
        }
        list(configuration, "/webhooks").iter().map(Self::new).collect()
    }

    fn new(hook: &Value) -> Self {
        let spoken = list(hook, "/admissionReviewVersions").iter().filter_map(Value::as_str);
        Self {
            name: text(hook, "/name").to_owned(),
            matching: Matching::new(hook, "/rules"),
            conditions: Conditions::of(list(hook, "/matchConditions"), &VARIABLES),
            ignores_failures: text(hook, "/failurePolicy") == "Ignore",
            timeout: Duration::from_secs(hook["timeoutSeconds"].as_u64().unwrap_or(TIMEOUT)),
            dry_run: matches!(text(hook, "/sideEffects"), "None" | "NoneOnDryRun"),
            review: spoken.filter_map(|v| REVIEW_VERSIONS.into_iter().find(|known| *known == v)).next(),
            reinvocable: text(hook, "/reinvocationPolicy") == "IfNeeded",
            endpoint: Endpoint::of_client_config(&hook["clientConfig"]),
        }
    }
}

impl Rule {
    fn new(rule: &Value) -> Self {
        let texts = |pointer: &str| -> Vec<String> {
            list(rule, pointer).iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let split = |text: String| match text.split_once('/') {
            Some((resource, subresource)) => (resource.to_owned(), subresource.to_owned()),
            None => (text, String::new()),
        };
        Self {
            operations: texts("/operations"),
            groups: texts("/apiGroups"),
            versions: texts("/apiVersions"),
            resources: texts("/resources").into_iter().map(split).collect(),
            scope: match text(rule, "/scope") {
                "Cluster" => Scope::Cluster,
                "Namespaced" => Scope::Namespaced,
                _ => Scope::All,
            },
            names: texts("/resourceNames"),
        }
    }
}

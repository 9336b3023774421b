//! What could stand in the way of an install or an upgrade.

use olm_bundle::RenderError;
use olm_resolver::{Gvk, Need, SatisfiedBy};
use olm_version::{parse_lenient, precedence};
use serde_json::Value;

use crate::desired::namespace_ref;
use crate::finding::{Finding, FindingCode, Severity};
use crate::input::{Live, PlanInput};
use crate::object::ObjectRef;
use crate::owner::{Owner, owner_of};

/// All findings, the worst first.
pub(crate) fn findings(input: &PlanInput<'_>, live: &Live, crds: &[(ObjectRef, &Value)]) -> Vec<Finding> {
    let mut list = Vec::new();
    list.extend(not_renderable(input));
    list.extend(kubernetes_too_old(input));
    list.extend(operator_groups(input));
    list.extend(namespace_missing(input, live));
    for (reference, crd) in crds {
        if let Some(there) = live.get(reference) {
            list.extend(crd_owned_by_other(input, reference, there));
            list.extend(crd_stored_version_removed(reference, there, crd));
        }
    }
    list.extend(required_apis(input));
    list.extend(input.resolved.deprecations.iter().map(|text| Finding {
        code: FindingCode::DeprecatedBundle,
        severity: Severity::Warn,
        subject: input.resolved.chosen.name.clone(),
        text: format!("the catalog says: {text}"),
        fix: Some(format!("olm show {}", input.resolved.chosen.package)),
    }));
    list.sort_by(|a, b| (a.severity, a.code, &a.subject).cmp(&(b.severity, b.code, &b.subject)));
    list
}

/// Names of the bundle's versions whose objects count as the package's own.
pub(crate) fn bundle_names<'a>(input: &PlanInput<'a>) -> Vec<&'a str> {
    let mut names = vec![input.resolved.chosen.name.as_str()];
    names.extend(input.resolved.from.as_ref().map(|from| from.name.as_str()));
    names
}

fn not_renderable(input: &PlanInput<'_>) -> Option<Finding> {
    let error = input.rendered.err()?;
    let webhooks = input.bundle.csv_raw.pointer("/spec/webhookdefinitions").and_then(Value::as_array);
    let (code, fix) = match error {
        RenderError::InstallMode { .. } => (
            FindingCode::UnsupportedInstallMode,
            format!("kubectl edit operatorgroup -n {}  # spec.targetNamespaces", input.namespace),
        ),
        RenderError::Unsupported { .. } if webhooks.is_some_and(|w| !w.is_empty()) => (
            FindingCode::WebhooksUnsupported,
            format!("olm show {}  # look for a version without webhooks", input.resolved.chosen.package),
        ),
        _ => (
            FindingCode::BundleNotRenderable,
            format!("olm show {}  # choose another version", input.resolved.chosen.package),
        ),
    };
    Some(Finding {
        code,
        severity: Severity::Block,
        subject: input.resolved.chosen.name.clone(),
        text: error.to_string(),
        fix: Some(fix),
    })
}

fn kubernetes_too_old(input: &PlanInput<'_>) -> Option<Finding> {
    let text = input.bundle.csv_raw.pointer("/spec/minKubeVersion")?.as_str().filter(|t| !t.is_empty())?;
    let needed = parse_lenient(text).ok()?;
    let have = input.facts.kubernetes.as_ref()?;
    let plain = olm_version::Version::new(have.major, have.minor, have.patch);
    precedence(&plain, &needed).is_lt().then(|| Finding {
        code: FindingCode::KubernetesTooOld,
        severity: Severity::Block,
        subject: input.resolved.chosen.name.clone(),
        text: format!("it needs Kubernetes {needed} or newer (spec.minKubeVersion), this cluster has {have}"),
        fix: Some(format!("olm show {}  # choose an older version", input.resolved.chosen.package)),
    })
}

fn operator_groups(input: &PlanInput<'_>) -> Option<Finding> {
    let namespace = input.namespace;
    match input.operator_groups.len() {
        0 => Some(Finding {
            code: FindingCode::NoOperatorGroup,
            severity: Severity::Info,
            subject: format!("Namespace {namespace}"),
            text: format!(
                "the namespace has no OperatorGroup; {} will be created, watching {}",
                crate::desired::OPERATOR_GROUP_NAME,
                watching(input.target_namespaces)
            ),
            fix: None,
        }),
        1 => None,
        count => {
            let names: Vec<&str> =
                input.operator_groups.iter().filter_map(|g| g.pointer("/metadata/name")?.as_str()).collect();
            Some(Finding {
                code: FindingCode::TooManyOperatorGroups,
                severity: Severity::Block,
                subject: format!("Namespace {namespace}"),
                text: format!(
                    "the namespace has {count} OperatorGroups ({}), so nobody can say what its operators watch",
                    names.join(", ")
                ),
                fix: Some(format!(
                    "kubectl delete operatorgroup {} -n {namespace}",
                    names.last().unwrap_or(&"NAME")
                )),
            })
        }
    }
}

fn watching(targets: &[String]) -> String {
    if targets.is_empty() || targets.iter().any(String::is_empty) {
        "all namespaces".to_owned()
    } else {
        targets.join(", ")
    }
}

fn namespace_missing(input: &PlanInput<'_>, live: &Live) -> Option<Finding> {
    let reference = namespace_ref(input.namespace);
    (!live.contains_key(&reference)).then(|| Finding {
        code: FindingCode::NamespaceMissing,
        severity: Severity::Info,
        subject: reference.to_string(),
        text: "the namespace does not exist and will be created".to_owned(),
        fix: None,
    })
}

fn crd_owned_by_other(input: &PlanInput<'_>, reference: &ObjectRef, live: &Value) -> Option<Finding> {
    let package = &input.resolved.chosen.package;
    let Owner::Other(other) = owner_of(live, package, input.namespace, &bundle_names(input)) else {
        return None;
    };
    Some(Finding {
        code: FindingCode::CrdOwnedByOther,
        severity: Severity::Block,
        subject: reference.to_string(),
        text: format!("{other} owns this CRD; two owners would overwrite each other"),
        fix: Some(format!("kubectl describe crd {}", reference.name)),
    })
}

/// The versions that a live CRD has objects stored in, and the new one does not know.
pub(crate) fn removed_stored_versions(live: &Value, new: &Value) -> Vec<String> {
    let known: Vec<&str> = new
        .pointer("/spec/versions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|v| v["name"].as_str())
        .collect();
    let stored = live.pointer("/status/storedVersions").and_then(Value::as_array).into_iter().flatten();
    stored.filter_map(Value::as_str).filter(|v| !known.contains(v)).map(str::to_owned).collect()
}

fn crd_stored_version_removed(reference: &ObjectRef, live: &Value, new: &Value) -> Option<Finding> {
    let gone = removed_stored_versions(live, new);
    (!gone.is_empty()).then(|| Finding {
        code: FindingCode::CrdStoredVersionRemoved,
        severity: Severity::Block,
        subject: reference.to_string(),
        text: format!(
            "objects may be stored in version {} (status.storedVersions), which the new CRD does not have",
            gone.join(", ")
        ),
        fix: Some(format!("kubectl get crd {} -o jsonpath='{{.status.storedVersions}}'", reference.name)),
    })
}

fn required_apis(input: &PlanInput<'_>) -> Vec<Finding> {
    let csv = &input.bundle.csv_raw;
    let text = |v: &Value, key: &str| v[key].as_str().unwrap_or_default().to_owned();
    let gvk = |v: &Value| {
        let group = text(v, "name").split_once('.').map_or(String::new(), |(_, group)| group.to_owned());
        Gvk { group, version: text(v, "version"), kind: text(v, "kind") }
    };
    let crds = |key: &str| -> Vec<Gvk> {
        let list = csv.pointer(&format!("/spec/customresourcedefinitions/{key}")).and_then(Value::as_array);
        list.into_iter().flatten().map(gvk).collect()
    };
    let owned = crds("owned");
    let resolved = |wanted: &Gvk| {
        input.resolved.dependencies.iter().any(|d| {
            let by_need = d.need == Need::Api(wanted.clone());
            // a package that is installed along may be what brings the API
            by_need || matches!(d.satisfied_by, SatisfiedBy::Install(_))
        })
    };
    crds("required")
        .into_iter()
        .filter(|g| !owned.contains(g) && !input.facts.apis.contains(g) && !resolved(g))
        .map(|g| Finding {
            code: FindingCode::RequiredApiMissing,
            severity: Severity::Warn,
            subject: g.to_string(),
            text: format!("{} needs this API, and nothing serves it", input.resolved.chosen.name),
            fix: Some(format!("olm search {}", g.kind)),
        })
        .collect()
}

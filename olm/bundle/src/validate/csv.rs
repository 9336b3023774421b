//! The ClusterServiceVersion's own fields.

use std::collections::BTreeSet;

use olm_version::{Range, Version, parse_lenient};
use serde_json::Value;

use super::{Findings, is_dns_subdomain};
use crate::csv::InstallMode;
use crate::model::Bundle;

pub(super) fn check(bundle: &Bundle, findings: &mut Findings) {
    names(bundle, findings);
    versions(bundle, findings);
    install_modes(bundle, findings);
    deployments(bundle, findings);
}

fn names(bundle: &Bundle, findings: &mut Findings) {
    for (field, name) in [("metadata.name", Some(bundle.name())), ("spec.replaces", bundle.replaces())] {
        if let Some(name) = name
            && (!is_dns_subdomain(name) || name.len() > 63)
        {
            let text = format!("{name:?} must be at most 63 lower-case letters, digits, \"-\" and \".\"");
            findings.error("csv-name-invalid", field, text);
        }
    }
    if bundle.replaces() == Some(bundle.name()) {
        findings.error(
            "csv-replaces-itself",
            "spec.replaces",
            "a bundle cannot replace itself; name its predecessor",
        );
    }
    if bundle.csv.spec.display_name.is_empty() {
        findings.warn(
            "csv-display-name-missing",
            "spec.displayName",
            "people see the technical name instead",
        );
    }
}

fn versions(bundle: &Bundle, findings: &mut Findings) {
    match bundle.version_text() {
        None => findings.error(
            "csv-version-missing",
            "spec.version",
            "catalogs need a semantic version such as 1.2.3",
        ),
        Some(text) => {
            if let Err(error) = Version::parse(text) {
                let text = format!("{text:?} is not a semantic version: {error}");
                findings.error("csv-version-invalid", "spec.version", text);
            }
        }
    }
    if let Some(text) = bundle.csv.spec.min_kube_version.as_deref()
        && let Err(error) = parse_lenient(text)
    {
        let text = format!("{text:?} is not a version: {error}");
        findings.error("csv-min-kube-version-invalid", "spec.minKubeVersion", text);
    }
    if let Some(source) = bundle.skip_range() {
        let field = "metadata.annotations[olm.skipRange]";
        match Range::parse(source) {
            Err(error) => findings.error("csv-skip-range-invalid", field, format!("{source:?}: {error}")),
            Ok(range) => {
                if let Some(remark) = range.remark() {
                    findings.warn("csv-skip-range-remark", field, format!("{source:?}: {remark}"));
                }
            }
        }
    }
    let annotations = bundle.csv_raw.pointer("/metadata/annotations").and_then(Value::as_object);
    for key in annotations.into_iter().flat_map(|map| map.keys()) {
        if key.eq_ignore_ascii_case("olm.skipRange") && key != "olm.skipRange" {
            let field = format!("metadata.annotations[{key}]");
            findings.error("csv-annotation-case", field, "it has no effect; the annotation is olm.skipRange");
        }
    }
}

fn install_modes(bundle: &Bundle, findings: &mut Findings) {
    let mut seen = BTreeSet::new();
    for (index, mode) in bundle.list("/spec/installModes").iter().enumerate() {
        let field = format!("spec.installModes[{index}].type");
        let name = mode.get("type").and_then(Value::as_str).unwrap_or_default();
        if !InstallMode::ALL.iter().any(|known| known.as_str() == name) {
            let known = InstallMode::ALL.map(InstallMode::as_str);
            let nearest = olm_version::suggest(name, known, 1);
            let hint = nearest.first().map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            findings.error(
                "install-mode-unknown",
                field,
                format!("{name:?} is not one of {}{hint}", known.join(", ")),
            );
        } else if !seen.insert(name) {
            findings.error("install-mode-duplicate", field, format!("{name} is listed twice"));
        }
    }
    if bundle.install_modes().is_empty() {
        let text = "no install mode is supported, so that the operator cannot be installed anywhere";
        findings.error("install-modes-none", "spec.installModes", text);
    }
}

fn deployments(bundle: &Bundle, findings: &mut Findings) {
    let strategy =
        bundle.csv_raw.pointer("/spec/install/strategy").and_then(Value::as_str).unwrap_or_default();
    if strategy != "deployment" {
        let text = format!("{strategy:?} is not a strategy; \"deployment\" is the only one");
        findings.error("install-strategy", "spec.install.strategy", text);
    }
    if bundle.deployments().is_empty() {
        let text = "there is no deployment: nothing will run";
        findings.warn("deployment-missing", "spec.install.spec.deployments", text);
    }
    let mut seen = BTreeSet::new();
    for (index, deployment) in bundle.deployments().iter().enumerate() {
        let field = format!("spec.install.spec.deployments[{index}]");
        let name = deployment.get("name").and_then(Value::as_str).unwrap_or_default();
        if !is_dns_subdomain(name) {
            let text = format!("{name:?} must be made of lower-case letters, digits, \"-\" and \".\"");
            findings.error("deployment-name-invalid", format!("{field}.name"), text);
        } else if !seen.insert(name) {
            findings.error(
                "deployment-name-duplicate",
                format!("{field}.name"),
                format!("{name} is used twice"),
            );
        }
        let containers = deployment.pointer("/spec/template/spec/containers").and_then(Value::as_array);
        if containers.is_none_or(Vec::is_empty) {
            let text = "there are no containers";
            findings.error(
                "deployment-no-containers",
                format!("{field}.spec.template.spec.containers"),
                text,
            );
        }
        let selector = deployment.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
        let labels = deployment.pointer("/spec/template/metadata/labels").and_then(Value::as_object);
        if let Some(selector) = selector
            && selector.iter().any(|(key, value)| labels.and_then(|labels| labels.get(key)) != Some(value))
        {
            let text = "it does not match the labels of the pod template, which the API server refuses";
            findings.error("deployment-selector", format!("{field}.spec.selector"), text);
        }
    }
}

//! Installation of the operator: modes, strategy, deployments, permissions.

use std::collections::BTreeSet;

use olm_kube_schema::names::is_dns_subdomain;
use serde_json::Value;

use super::finding::{PartFindings, quote};
use super::{Findings, Severity};
use crate::csv::InstallMode;
use crate::model::Bundle;
use crate::provenance::Origin;

pub(super) fn check(bundle: &Bundle, findings: &mut Findings) {
    let mut csv = findings.of(Origin::Csv);
    modes(bundle, &mut csv);
    strategy(bundle, &mut csv);
    deployments(bundle, &mut csv);
    permissions(bundle, &mut csv);
}

fn modes(bundle: &Bundle, findings: &mut PartFindings<'_>) {
    let modes = bundle.list("/spec/installModes");
    if modes.is_empty() {
        let text = "no install mode is listed";
        return findings.error("install-modes-missing", "spec.installModes", text, "list the install modes");
    }
    let mut seen = BTreeSet::new();
    for (index, mode) in modes.iter().enumerate() {
        let field = format!("spec.installModes[{index}].type");
        let name = mode.get("type").and_then(Value::as_str).unwrap_or_default();
        let known = InstallMode::ALL.map(InstallMode::as_str);
        if !known.contains(&name) {
            let nearest = findings.near(name, known);
            let fix = match nearest {
                Some(near) => format!("did you mean {near}?"),
                None => format!("write one of {}", known.join(", ")),
            };
            findings.error(
                "install-mode-unknown",
                field,
                format!("unknown install mode {}", quote(name)),
                fix,
            );
        } else if !seen.insert(name) {
            findings.error(
                "install-mode-duplicate",
                field,
                format!("{name} is listed twice"),
                "remove one of the two",
            );
        }
    }
    if bundle.install_modes().is_empty() {
        let text = "no install mode is supported, so that the operator cannot be installed anywhere";
        findings.error("install-modes-none", "spec.installModes", text, "support at least one");
    }
}

fn strategy(bundle: &Bundle, findings: &mut PartFindings<'_>) {
    let strategy =
        bundle.csv_raw.pointer("/spec/install/strategy").and_then(Value::as_str).unwrap_or_default();
    if strategy != "deployment" {
        let text = format!("{} is not a strategy", quote(strategy));
        findings.error("install-strategy", "spec.install.strategy", text, "write deployment, the only one");
    }
}

fn deployments(bundle: &Bundle, findings: &mut PartFindings<'_>) {
    if bundle.deployments().is_empty() {
        // Upstream accepts a ClusterServiceVersion without installation, but not one without deployments in
        // it.
        let spec = bundle.csv_raw.pointer("/spec/install/spec").and_then(Value::as_object);
        let forgotten =
            spec.is_some_and(|spec| !spec.is_empty() && spec.get("deployments").is_none_or(Value::is_null));
        let severity = if forgotten { Severity::Error } else { Severity::Warning };
        let (field, text) =
            ("spec.install.spec.deployments", "there is no deployment, so the operator does not run");
        let fix = "list the operator's deployment";
        findings.add(severity, "deployment-missing", field.to_owned(), text.to_owned(), fix.to_owned());
    }
    let mut seen = BTreeSet::new();
    for (index, deployment) in bundle.deployments().iter().enumerate() {
        let field = format!("spec.install.spec.deployments[{index}]");
        let name = deployment.get("name").and_then(Value::as_str).unwrap_or_default();
        if !is_dns_subdomain(name) {
            let text = format!("{} is not a valid name of a Deployment", quote(name));
            let fix = "write lower-case letters, digits, \"-\" and \".\"";
            findings.error("deployment-name-invalid", format!("{field}.name"), text, fix);
        } else if !seen.insert(name) {
            let text = format!("{name} is used twice");
            findings.error(
                "deployment-name-duplicate",
                format!("{field}.name"),
                text,
                "rename one of the two",
            );
        }
        let containers = deployment.pointer("/spec/template/spec/containers").and_then(Value::as_array);
        if containers.is_none_or(Vec::is_empty) {
            let field = format!("{field}.spec.template.spec.containers");
            findings.error("deployment-no-containers", field, "there are no containers", "list them");
        }
        let selector = deployment.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
        let labels = deployment.pointer("/spec/template/metadata/labels").and_then(Value::as_object);
        if let Some(selector) = selector
            && selector.iter().any(|(key, value)| labels.and_then(|labels| labels.get(key)) != Some(value))
        {
            let text = "it does not match the labels of the pod template, which the API server refuses";
            findings.error(
                "deployment-selector",
                format!("{field}.spec.selector"),
                text,
                "give both the same labels",
            );
        } else if deployment.get("spec").is_some_and(Value::is_object)
            && deployment.pointer("/spec/selector").is_none_or(Value::is_null)
        {
            let text = "apps/v1 requires a selector";
            findings.error(
                "deployment-selector",
                format!("{field}.spec.selector"),
                text,
                "repeat the pod template's labels",
            );
        }
    }
}

fn permissions(bundle: &Bundle, findings: &mut PartFindings<'_>) {
    for (key, list) in
        [("permissions", bundle.permissions()), ("clusterPermissions", bundle.cluster_permissions())]
    {
        for (index, permission) in list.iter().enumerate() {
            let field = format!("spec.install.spec.{key}[{index}]");
            let account = permission.get("serviceAccountName").and_then(Value::as_str).unwrap_or_default();
            if account.is_empty() || !is_dns_subdomain(account) {
                let text = format!("{} is not a valid name of a ServiceAccount", quote(account));
                let fix = "write the name that the deployment's pods use";
                findings.error("permission-account", format!("{field}.serviceAccountName"), text, fix);
            }
        }
    }
}

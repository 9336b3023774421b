//! The ClusterServiceVersion's own fields.

use std::collections::BTreeSet;

use olm_kube_schema::names::{is_dns_subdomain, is_label_value};
use olm_version::{Range, Version, parse_lenient};
use serde_json::Value;

use super::Findings;
use super::finding::{PartFindings, quote};
use crate::model::Bundle;
use crate::provenance::Origin;

/// The fields of `spec`.
const SPEC_FIELDS: [&str; 24] = [
    "annotations",
    "apiservicedefinitions",
    "cleanup",
    "customresourcedefinitions",
    "description",
    "displayName",
    "icon",
    "install",
    "installModes",
    "keywords",
    "labels",
    "links",
    "maintainers",
    "maturity",
    "minKubeVersion",
    "nativeAPIs",
    "provider",
    "relatedImages",
    "release",
    "replaces",
    "selector",
    "skips",
    "version",
    "webhookdefinitions",
];

pub(super) fn check(bundle: &Bundle, findings: &mut Findings) {
    let mut csv = findings.of(Origin::Csv);
    if bundle.csv_raw.get("apiVersion").and_then(Value::as_str) != Some("operators.coreos.com/v1alpha1") {
        // Upstream sets its own value, so that such bundles install.
        let text = "API servers serve ClusterServiceVersions in operators.coreos.com/v1alpha1 only";
        csv.warn("csv-api-version", "apiVersion", text, "write operators.coreos.com/v1alpha1");
    }
    names(bundle, &mut csv);
    versions(bundle, &mut csv);
    fields(bundle, &mut csv);
    release(bundle, &mut csv);
}

fn names(bundle: &Bundle, findings: &mut PartFindings<'_>) {
    for (field, name) in [("metadata.name", Some(bundle.name())), ("spec.replaces", bundle.replaces())] {
        if let Some(name) = name
            && (!is_dns_subdomain(name) || !is_label_value(name))
        {
            let text = format!("{} is not a valid label value", quote(name));
            let fix = "write at most 63 lower-case letters, digits, \"-\" and \".\", with a letter or digit at both ends";
            findings.error("csv-name-invalid", field, text, fix);
        }
    }
    if bundle.replaces() == Some(bundle.name()) {
        findings.error(
            "csv-replaces-itself",
            "spec.replaces",
            "a bundle cannot replace itself",
            "name its predecessor",
        );
    }
    let mut seen = BTreeSet::new();
    for (index, skip) in bundle.skips().into_iter().enumerate() {
        let field = format!("spec.skips[{index}]");
        if skip.is_empty() {
            findings.error("csv-skip-empty", field, "it is empty", "name a bundle or remove the entry");
        } else if skip == bundle.name() {
            let text = "a bundle that skips itself can never be installed";
            findings.error("csv-skips-itself", field, text, "remove the entry");
        } else if !seen.insert(skip) {
            let text = format!("{} is listed twice", quote(skip));
            findings.warn("csv-skip-duplicate", field, text, "remove one of the two");
        }
    }
}

fn versions(bundle: &Bundle, findings: &mut PartFindings<'_>) {
    match bundle.version_text() {
        None => findings.error(
            "csv-version-missing",
            "spec.version",
            "it is required: catalogs order bundles by version",
            "write a semantic version such as 1.2.3",
        ),
        Some(text) => {
            if let Err(error) = Version::parse(text) {
                let text = format!("{} is not a semantic version: {error}", quote(text));
                findings.error(
                    "csv-version-invalid",
                    "spec.version",
                    text,
                    "write MAJOR.MINOR.PATCH, without \"v\"",
                );
            }
        }
    }
    let field = "spec.minKubeVersion";
    let least = match bundle.csv_raw.pointer("/spec/minKubeVersion") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.trim().to_owned(),
        Some(other) => other.to_string(),
    };
    match least.as_str() {
        "" => {
            let text = "no minimum version of Kubernetes is set, so it is offered on every version";
            findings.warn(
                "csv-min-kube-version-missing",
                field,
                text,
                "write the oldest version, such as 1.25.0",
            );
        }
        text if Version::parse(text).is_ok() => {}
        text => {
            let why = match parse_lenient(text) {
                Ok(_) => "a part is missing or superfluous".to_owned(),
                Err(error) => error.to_string(),
            };
            let text = format!("{} is not a semantic version: {why}", quote(text));
            findings.error(
                "csv-min-kube-version-invalid",
                field,
                text,
                "write MAJOR.MINOR.PATCH, such as 1.25.0",
            );
        }
    }
    if let Some(source) = bundle.skip_range() {
        let field = "metadata.annotations[olm.skipRange]";
        match Range::parse(source) {
            Err(error) => {
                let text = format!("{}: {error}", quote(source));
                findings.error("csv-skip-range-invalid", field, text, "write a range such as >=1.0.0 <1.2.3");
            }
            Ok(range) => {
                if let Some(warning) = range.warning() {
                    let text = format!("{}: {warning}", quote(source));
                    findings.warn("csv-skip-range-remark", field, text, "write it with < and >=");
                }
                if let Some(version) = bundle.version().filter(|version| range.contains(version)) {
                    let text = format!("the range contains the bundle's own version {version}");
                    findings.warn("csv-skip-range-self", field, text, format!("end it with <{version}"));
                }
            }
        }
    }
}

fn fields(bundle: &Bundle, findings: &mut PartFindings<'_>) {
    let Some(spec) = bundle.csv_raw.get("spec").and_then(Value::as_object) else {
        return findings.error("csv-spec-missing", "spec", "there is no spec", "describe the operator in it");
    };
    if spec.get("displayName").and_then(Value::as_str).is_none_or(str::is_empty) {
        let text = "catalogs show metadata.name instead";
        findings.error("csv-display-name-missing", "spec.displayName", text, "write a display name");
    }
    for key in spec.keys().filter(|key| !SPEC_FIELDS.contains(&key.as_str())) {
        let same = SPEC_FIELDS.iter().find(|known| known.eq_ignore_ascii_case(key));
        let field = crate::yaml::join("spec", key);
        match same {
            Some(known) => {
                let text = "opm reads it, because Go ignores case; the API server drops it";
                findings.warn("csv-field-case", field, text, format!("write {known}"));
            }
            None => {
                let nearest = findings.near(key, SPEC_FIELDS);
                let fix = nearest.map(|near| format!("did you mean {near}? "));
                let fix = fix.unwrap_or_default() + "remove fields that ClusterServiceVersions do not have";
                findings.warn("csv-field-unknown", field, "the API server drops it", fix);
            }
        }
    }
}

/// A bundle with a release has it in its name.
fn release(bundle: &Bundle, findings: &mut PartFindings<'_>) {
    let (Some(release), Some(package)) = (bundle.release(), bundle.package()) else { return };
    let version = bundle.version_text().unwrap_or_default();
    let expected = format!("{package}-v{version}-{release}");
    if bundle.name() != expected {
        let text = format!(
            "with spec.release, the name of a bundle follows from package, version and release; it is {}",
            quote(bundle.name())
        );
        findings.error("csv-name-release", "metadata.name", text, format!("write {expected}"));
    }
    if bundle.version().is_some_and(|version| !version.build.is_empty()) {
        let text = "build metadata (+...) duplicates the release";
        findings.error("csv-version-release", "spec.version", text, "leave one of the two out");
    }
    if Version::parse(&format!("0.0.0-{release}")).is_err() {
        let text = format!("{} is not a valid release", quote(release));
        let fix = "write numbers and words separated by dots, without leading zeros";
        findings.error("csv-release-invalid", "spec.release", text, fix);
    }
}

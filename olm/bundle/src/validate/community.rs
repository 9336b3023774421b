//! Rules of the community catalog for bundles with APIs of before Kubernetes 1.22 (upstream's `community`,
//! which upstream calls outdated). Upstream reads the label of OpenShift versions from a Dockerfile; the
//! annotation in `metadata/`, the source of that label, is equivalent.

use olm_version::{Version, parse_lenient};
use serde_json::Value;

use super::Findings;
use super::finding::quote;
use super::removed_apis::removed_in;
use crate::model::{Bundle, Property, kind};
use crate::provenance::Origin;

const OPENSHIFT_VERSIONS: &str = "com.redhat.openshift.versions";
/// OpenShift 4.9 has Kubernetes 1.22.
const FIRST_WITHOUT: (u64, u64) = (4, 9);

pub(super) fn check(bundle: &Bundle, findings: &mut Findings) {
    let old: Vec<&str> = bundle
        .objects
        .iter()
        .filter(|object| {
            let api_version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
            removed_in(api_version, kind(object)) == Some(22)
        })
        .map(kind)
        .collect();
    if old.is_empty() {
        return;
    }
    let why = "the bundle uses APIs that OpenShift 4.9 does not serve";
    let most = max_openshift(bundle);
    let field = "metadata.annotations[olm.properties]";
    let mut csv = findings.of(Origin::Csv);
    match most.as_deref().map(parse_lenient) {
        None => {
            let text = format!("{why}, and the property olm.maxOpenShiftVersion is missing");
            csv.error("community-max-openshift", field, text, "write 4.8 or older, or use the newer APIs");
        }
        Some(Err(error)) => {
            let text = format!(
                "olm.maxOpenShiftVersion {} is not a version: {error}",
                quote(&most.unwrap_or_default())
            );
            csv.error("community-max-openshift", field, text, "write 4.8 or older");
        }
        Some(Ok(version)) if is_too_new(&version) => {
            let text = format!("{why}, and olm.maxOpenShiftVersion is {version}");
            csv.error("community-max-openshift", field, text, "write 4.8 or older, or use the newer APIs");
        }
        Some(Ok(_)) => {}
    }
    let field = format!("annotations[{OPENSHIFT_VERSIONS}]");
    let mut annotations = findings.of(Origin::Annotations);
    match bundle.annotations.get(OPENSHIFT_VERSIONS).map(|range| last(range)) {
        None => {
            let text = format!("{why}, and the annotation is missing");
            annotations.warn("community-openshift-versions", field, text, "write v4.6-v4.8");
        }
        Some(Some(Ok(version))) if !is_too_new(&version) => {}
        Some(Some(Err(error))) => {
            let text = format!("the version cannot be read: {error}");
            annotations.error("community-openshift-versions", field, text, "write v4.6-v4.8");
        }
        Some(_) => {
            let text = format!("{why}, and the range includes it");
            annotations.error(
                "community-openshift-versions",
                field,
                text,
                "write v4.6-v4.8, or use the newer APIs",
            );
        }
    }
}

fn is_too_new(version: &Version) -> bool {
    (version.major, version.minor) >= FIRST_WITHOUT
}

/// The last version of `v4.5-v4.8` or `=v4.6`; `None` for an unbounded range.
fn last(range: &str) -> Option<Result<Version, String>> {
    let range: String = range.chars().filter(|c| !matches!(c, '"' | '\'' | ' ')).collect();
    let text = match range.strip_prefix('=') {
        Some(only) => only.to_owned(),
        None => range.split_once('-')?.1.to_owned(),
    };
    Some(parse_lenient(&text).map_err(|error| error.to_string()))
}

fn max_openshift(bundle: &Bundle) -> Option<String> {
    let annotated: Vec<Property> = bundle
        .csv_annotation("olm.properties")
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let property =
        annotated.iter().chain(&bundle.properties).find(|p| p.type_ == "olm.maxOpenShiftVersion")?;
    Some(property.value.as_str().map_or_else(|| property.value.to_string(), str::to_owned))
}

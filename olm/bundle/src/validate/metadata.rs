//! `metadata/`: annotations, dependencies and properties.

use std::collections::BTreeSet;

use olm_version::{Range, parse_lenient};
use serde_json::Value;

use super::finding::{PartFindings, quote};
use super::{Findings, constraint};
use crate::model::{Bundle, CHANNELS, DEFAULT_CHANNEL, MANIFESTS, MEDIA_TYPE, METADATA, PACKAGE, Property};
use crate::provenance::Origin;

pub(super) fn check(bundle: &Bundle, findings: &mut Findings) {
    // A bundle from a catalog has no annotations.yaml.
    if !bundle.annotations.is_empty() {
        annotations(bundle, &mut findings.of(Origin::Annotations));
    }
    for (index, dependency) in bundle.dependencies.iter().enumerate() {
        check_dependency(dependency, &mut findings.of(Origin::Dependency(index)));
    }
    for (index, property) in bundle.properties.iter().enumerate() {
        check_property(bundle, property, &mut findings.of(Origin::Property(index)));
    }
    if let Some(text) = bundle.csv_annotation("olm.properties")
        && let Err(error) = serde_json::from_str::<Vec<Property>>(text)
    {
        let text = format!("it is not a JSON list of type and value: {error}; its properties are ignored");
        let fix = "correct the JSON, or use metadata/properties.yaml";
        findings.of(Origin::Csv).error(
            "properties-invalid",
            "metadata.annotations[olm.properties]",
            text,
            fix,
        );
    }
    let packages: Vec<&Property> = bundle.properties.iter().filter(|p| p.type_ == "olm.package").collect();
    if packages.len() > 1 {
        let text = format!("there are {} properties olm.package", packages.len());
        findings.of(Origin::Bundle).error(
            "property-package-repeated",
            "",
            text,
            "keep one, or none: it is derived",
        );
    }
}

fn annotations(bundle: &Bundle, findings: &mut PartFindings<'_>) {
    let value = |key: &str| bundle.annotations.get(key).map(String::as_str).unwrap_or_default();
    for key in [PACKAGE, CHANNELS] {
        if value(key).trim().is_empty() {
            let text = "it is required and must not be empty";
            let fix =
                if key == PACKAGE { "name the package" } else { "list the channels, separated by commas" };
            findings.error("annotation-missing", format!("annotations[{key}]"), text, fix);
        }
    }
    if value(PACKAGE) != value(PACKAGE).trim() {
        findings.error(
            "annotation-value",
            format!("annotations[{PACKAGE}]"),
            "it has leading or trailing spaces",
            "remove them",
        );
    }
    for (key, expected) in [(MEDIA_TYPE, "registry+v1"), (METADATA, "metadata/"), (MANIFESTS, "manifests/")] {
        let field = format!("annotations[{key}]");
        if !bundle.annotations.contains_key(key) {
            findings.error("annotation-missing", field, "it is required", format!("write {expected:?}"));
        } else if value(key).trim_matches('/') != expected.trim_matches('/') {
            let text = format!("it is {} and must be {expected:?}", quote(value(key)));
            findings.error("annotation-value", field, text, format!("write {expected:?}"));
        }
    }
    let field = format!("annotations[{DEFAULT_CHANNEL}]");
    if bundle.annotations.contains_key(DEFAULT_CHANNEL) && value(DEFAULT_CHANNEL).trim().is_empty() {
        findings.error("annotation-value", field, "it is empty", "name a channel, or remove the annotation");
    } else if let Some(default) = bundle.default_channel()
        && !bundle.channels().contains(&default)
    {
        let text = format!("the bundle is not in its own default channel {}", quote(default));
        findings.warn("default-channel-elsewhere", field, text, "make sure that another bundle is in it");
    }
    let mut seen = BTreeSet::new();
    for channel in bundle.channels().into_iter().filter(|channel| !seen.insert(*channel)) {
        let text = format!("channel {} is listed twice", quote(channel));
        findings.warn("channel-repeated", format!("annotations[{CHANNELS}]"), text, "remove one of the two");
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn need(value: &Value, key: &str, field: &str, findings: &mut PartFindings<'_>) -> bool {
    let missing = text(value, key).is_empty();
    if missing {
        let field = format!("{field}.{key}");
        findings.error("dependency-incomplete", field, "it is required, expected a string", "fill it in");
    }
    !missing
}

/// A range in blang's grammar; `field` is the path of its value.
fn range(value: &Value, key: &str, field: &str, findings: &mut PartFindings<'_>) {
    if need(value, key, field, findings)
        && let Err(error) = Range::parse(text(value, key))
    {
        let field = format!("{field}.{key}");
        let message = format!("{}: {error}", quote(text(value, key)));
        findings.error("dependency-range-invalid", field, message, "write a range such as >=1.0.0 <2.0.0");
    }
}

fn check_dependency(dependency: &Property, findings: &mut PartFindings<'_>) {
    let value = &dependency.value;
    match dependency.type_.as_str() {
        "olm.package" => {
            need(value, "packageName", "value", findings);
            range(value, "version", "value", findings);
        }
        "olm.gvk" => {
            for key in ["group", "version", "kind"] {
                need(value, key, "value", findings);
            }
        }
        "olm.label" => {
            need(value, "label", "value", findings);
        }
        "olm.constraint" => constraint::check(value, findings),
        other => {
            let known = ["olm.package", "olm.gvk", "olm.label", "olm.constraint"];
            let nearest = findings.near(other, known);
            let fix = match nearest {
                Some(near) => format!("did you mean {near}?"),
                None => format!("write one of {}", known.join(", ")),
            };
            let text = format!("unknown dependency type {}; the dependency would be ignored", quote(other));
            findings.error("dependency-type-unknown", "type", text, fix);
        }
    }
}

fn check_property(bundle: &Bundle, property: &Property, findings: &mut PartFindings<'_>) {
    let value = &property.value;
    match property.type_.as_str() {
        "" => findings.error("property-type-missing", "type", "it is empty", "name the property"),
        "olm.package" => {
            need(value, "packageName", "value", findings);
            need(value, "version", "value", findings);
            let annotated = bundle.annotations.get(PACKAGE).map(String::as_str).unwrap_or_default();
            let named = text(value, "packageName");
            if !annotated.is_empty() && !named.is_empty() && named != annotated {
                let message = format!("it is {}, but the annotation is {}", quote(named), quote(annotated));
                findings.error(
                    "property-package-mismatch",
                    "value.packageName",
                    message,
                    "remove it: it is derived",
                );
            }
        }
        "olm.gvk" | "olm.gvk.required" => {
            for key in ["group", "version", "kind"] {
                need(value, key, "value", findings);
            }
        }
        "olm.package.required" => {
            need(value, "packageName", "value", findings);
            range(value, "versionRange", "value", findings);
        }
        "olm.constraint" => constraint::check(value, findings),
        "olm.maxOpenShiftVersion" => max_openshift(value, findings),
        _ => {}
    }
}

fn max_openshift(value: &Value, findings: &mut PartFindings<'_>) {
    let Some(text) = value.as_str() else {
        let text = format!("{value} is not a string; 4.10 and 4.1 would be the same");
        return findings.error("max-openshift-version", "value", text, "put it in quotes");
    };
    let minor = text.trim_start_matches('v').split('.').count() == 2;
    match parse_lenient(text) {
        Err(error) => {
            let text = format!("{} is not a version: {error}", quote(text));
            findings.error("max-openshift-version", "value", text, "write MAJOR.MINOR, such as \"4.12\"");
        }
        Ok(_) if !minor => {
            let text = format!("{} is cut to major and minor", quote(text));
            findings.warn("max-openshift-version", "value", text, "write MAJOR.MINOR, such as \"4.12\"");
        }
        Ok(_) => {}
    }
}

//! `metadata/`: annotations, dependencies and properties.

use olm_version::Range;
use serde_json::Value;

use super::Findings;
use crate::model::{Bundle, CHANNELS, DEFAULT_CHANNEL, MEDIA_TYPE, METADATA, PACKAGE, Property};

pub(super) fn check(bundle: &Bundle, findings: &mut Findings) {
    // A bundle out of a catalog has no annotations.yaml.
    if !bundle.annotations.is_empty() {
        annotations(bundle, findings);
    }
    for (index, dependency) in bundle.dependencies.iter().enumerate() {
        check_dependency(dependency, &format!("dependencies[{index}]"), findings);
    }
    if let Some(text) = bundle.csv_annotation("olm.properties")
        && let Err(error) = serde_json::from_str::<Vec<Property>>(text)
    {
        let text = format!("it is not a JSON list of type and value: {error}; its properties are ignored");
        findings.error("properties-invalid", "metadata.annotations[olm.properties]", text);
    }
}

fn annotations(bundle: &Bundle, findings: &mut Findings) {
    let value = |key: &str| bundle.annotations.get(key).map(String::as_str).unwrap_or_default();
    for key in [PACKAGE, CHANNELS] {
        if value(key).trim().is_empty() {
            findings.error(
                "annotation-missing",
                format!("annotations[{key}]"),
                "it is required and must not be empty",
            );
        }
    }
    for (key, expected) in [(MEDIA_TYPE, "registry+v1"), (METADATA, "metadata/")] {
        if value(key) != expected {
            let text = format!("it is {:?} and must be {expected:?}", value(key));
            findings.error("annotation-value", format!("annotations[{key}]"), text);
        }
    }
    if let Some(default) = bundle.default_channel()
        && !bundle.channels().contains(&default)
    {
        let text = format!("the bundle is not in its own default channel {default:?}");
        findings.warn("default-channel-elsewhere", format!("annotations[{DEFAULT_CHANNEL}]"), text);
    }
}

fn check_dependency(dependency: &Property, field: &str, findings: &mut Findings) {
    let text = |key: &str| dependency.value.get(key).and_then(Value::as_str).unwrap_or_default();
    let mut need = |key: &str| {
        if text(key).is_empty() {
            findings.error(
                "dependency-incomplete",
                format!("{field}.value.{key}"),
                "it is required and must be a text",
            );
        }
    };
    match dependency.type_.as_str() {
        "olm.package" => {
            need("packageName");
            need("version");
            if !text("version").is_empty()
                && let Err(error) = Range::parse(text("version"))
            {
                let text = format!("{:?}: {error}", text("version"));
                findings.error("dependency-range-invalid", format!("{field}.value.version"), text);
            }
        }
        "olm.gvk" => ["group", "version", "kind"].into_iter().for_each(need),
        "olm.label" => need("label"),
        "olm.constraint" => {}
        other => {
            let text = format!(
                "{other:?} is not one of olm.package, olm.gvk, olm.label, olm.constraint and is ignored"
            );
            findings.warn("dependency-type-unknown", format!("{field}.type"), text);
        }
    }
}

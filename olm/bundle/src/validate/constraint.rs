//! `olm.constraint`: conditions that a bundle's dependencies must meet.

use olm_version::Range;
use serde_json::{Map, Value};

use super::finding::{Of, quote};

/// Upstream refuses larger ones; its resolver has no other limit on nesting.
const LARGEST: usize = 128 << 10;
/// Deeper ones are not written by people.
const MOST_LEVELS: usize = 32;
/// Exactly one of these.
const KINDS: [&str; 6] = ["gvk", "package", "all", "any", "not", "cel"];

pub(super) fn check(value: &Value, findings: &mut Of<'_>) {
    let size = value.to_string().len();
    if size > LARGEST {
        let text = format!("it has {size} bytes; upstream refuses more than {LARGEST}");
        return findings.error("constraint-too-large", "value", text, "split it");
    }
    constraint(value, "value", 0, findings);
}

fn constraint(value: &Value, field: &str, level: usize, findings: &mut Of<'_>) {
    let Some(map) = value.as_object() else {
        return findings.error("constraint-shape", field, "a constraint is a map", "see the documentation");
    };
    if level > MOST_LEVELS {
        let text = format!("constraints are nested more than {MOST_LEVELS} levels deep");
        return findings.error("constraint-too-deep", field, text, "simplify it");
    }
    known(map, &["failureMessage", "gvk", "package", "all", "any", "not", "cel"], field, findings);
    if map.get("failureMessage").is_some_and(|message| !message.is_string()) {
        findings.error(
            "constraint-shape",
            format!("{field}.failureMessage"),
            "it is no text",
            "put it in quotes",
        );
    }
    let kinds: Vec<&str> =
        KINDS.into_iter().filter(|kind| map.get(*kind).is_some_and(|v| !v.is_null())).collect();
    match kinds.as_slice() {
        [] => {
            let fix = format!("add one of {}", KINDS.join(", "));
            return findings.error("constraint-empty", field, "it constrains nothing", fix);
        }
        [_] => {}
        several => {
            let text = format!("it has {} at once", several.join(" and "));
            findings.error("constraint-ambiguous", field, text, "put them into an `all` or an `any`");
        }
    }
    for kind in kinds {
        inner(kind, &map[kind], &format!("{field}.{kind}"), level, findings);
    }
}

fn inner(kind: &str, value: &Value, field: &str, level: usize, findings: &mut Of<'_>) {
    let Some(map) = value.as_object() else {
        return findings.error("constraint-shape", field, "it is no map", "see the documentation");
    };
    match kind {
        "gvk" => {
            known(map, &["group", "version", "kind"], field, findings);
            for key in ["group", "version", "kind"] {
                need(map, key, field, findings);
            }
        }
        "package" => {
            known(map, &["packageName", "versionRange"], field, findings);
            need(map, "packageName", field, findings);
            if need(map, "versionRange", field, findings) {
                let range = map["versionRange"].as_str().unwrap_or_default();
                if let Err(error) = Range::parse(range) {
                    let text = format!("{}: {error}", quote(range));
                    let fix = "write a range such as >=1.0.0 <2.0.0";
                    findings.error("dependency-range-invalid", format!("{field}.versionRange"), text, fix);
                }
            }
        }
        "cel" => {
            known(map, &["rule"], field, findings);
            need(map, "rule", field, findings);
        }
        _ => {
            known(map, &["constraints"], field, findings);
            let list =
                map.get("constraints").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            if list.is_empty() {
                let field = format!("{field}.constraints");
                findings.error("constraint-empty", field, "it is no list, or empty", "list constraints");
            }
            for (index, value) in list.iter().enumerate() {
                constraint(value, &format!("{field}.constraints[{index}]"), level + 1, findings);
            }
        }
    }
}

fn need(map: &Map<String, Value>, key: &str, field: &str, findings: &mut Of<'_>) -> bool {
    let good = map.get(key).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    if !good {
        let field = format!("{field}.{key}");
        findings.error("constraint-incomplete", field, "it is required and must be a text", "fill it in");
    }
    good
}

/// An unknown key is an error: a condition that is overlooked is a bundle installed where it must not be.
fn known(map: &Map<String, Value>, keys: &[&str], field: &str, findings: &mut Of<'_>) {
    for key in map.keys().filter(|key| !keys.contains(&key.as_str())) {
        let nearest = findings.near(key, keys.iter().copied());
        let fix = match nearest {
            Some(near) => format!("did you mean {near}?"),
            None => format!("there are {}", keys.join(", ")),
        };
        let field = crate::yaml::join(field, key);
        findings.error("constraint-key-unknown", field, "no constraint has this key", fix);
    }
}

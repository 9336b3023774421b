//! The images that a plan will run.

use std::collections::BTreeMap;

use olm_bundle::{Bundle, Rendered, pulled_images};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An image that a plan runs, or that the operator may run later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanImage {
    /// The image reference, as pulled.
    pub image: String,
    /// Whether the plan runs it. The other images are listed in the bundle for use by the operator.
    pub runs: bool,
    /// Where it is referenced: `Deployment etcd-operator, container manager`, `relatedImages etcd`.
    pub named_by: Vec<String>,
    /// A note, such as that its tag is mutable.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub note: Option<String>,
}

/// Prefix of the variables with the images of operands.
const RELATED: &str = "RELATED_IMAGE_";

/// The images that its pods pull.
pub(crate) fn run_by(rendered: &Rendered) -> impl Iterator<Item = &str> {
    rendered.objects().filter_map(|(_, object)| object.pointer("/spec/template/spec")).flat_map(pulled_images)
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers"].into_iter().filter_map(|list| pod.get(list)?.as_array()).flatten()
}

/// The images of a bundle by name, those that run first.
pub(crate) fn images(bundle: &Bundle, rendered: &Rendered) -> Vec<PlanImage> {
    let mut found: BTreeMap<&str, (bool, Vec<String>)> = BTreeMap::new();
    for (_, object) in rendered.objects() {
        let Some(pod) = object.pointer("/spec/template/spec") else { continue };
        let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
        for container in containers(pod) {
            let here = format!("{kind} {name}, container {}", text(container, "/name"));
            add_image(&mut found, text(container, "/image"), true, here.clone());
            for variable in container.get("env").and_then(Value::as_array).into_iter().flatten() {
                let variable_name = text(variable, "/name");
                if variable_name.starts_with(RELATED) {
                    let named_by = format!("{here}, variable {variable_name}");
                    add_image(&mut found, text(variable, "/value"), false, named_by);
                }
            }
        }
        for volume in pod.get("volumes").and_then(Value::as_array).into_iter().flatten() {
            let here = format!("{kind} {name}, volume {}", text(volume, "/name"));
            add_image(&mut found, text(volume, "/image/reference"), true, here);
        }
    }
    for related in
        bundle.csv_raw.pointer("/spec/relatedImages").and_then(Value::as_array).into_iter().flatten()
    {
        let named_by = format!("relatedImages {}", text(related, "/name"));
        add_image(&mut found, text(related, "/image"), false, named_by);
    }
    let mut list: Vec<PlanImage> = found
        .into_iter()
        .map(|(image, (runs, named_by))| PlanImage {
            image: image.to_owned(),
            runs,
            named_by,
            note: note(image),
        })
        .collect();
    list.sort_by_key(|image| !image.runs);
    list
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn add_image<'a>(
    found: &mut BTreeMap<&'a str, (bool, Vec<String>)>,
    image: &'a str,
    runs: bool,
    named_by: String,
) {
    if image.is_empty() {
        return;
    }
    let entry = found.entry(image).or_default();
    entry.0 |= runs;
    if !entry.1.contains(&named_by) {
        entry.1.push(named_by);
    }
}

/// Only a digest identifies an image.
fn note(image: &str) -> Option<String> {
    if image.split_once('@').is_some_and(|(_, digest)| digest.contains(':')) {
        return None;
    }
    // a colon before the last slash belongs to a port
    let tag = image.rsplit('/').next().and_then(|last| last.split_once(':')).map(|(_, tag)| tag);
    Some(match tag {
        None | Some("" | "latest") => "mutable tag latest: a re-push changes what runs".to_owned(),
        Some(tag) => format!("mutable tag {tag}: a re-push changes what runs"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_no_promise() {
        assert_eq!(note("localhost/a@sha256:00"), None);
        assert_eq!(note("localhost/a:v1@sha256:00"), None);
        assert!(note("localhost:5000/a:v1").unwrap().contains("tag v1"));
        assert!(note("localhost:5000/a").unwrap().contains("a re-push changes what runs"));
        assert!(note("localhost/a:latest").unwrap().contains("a re-push changes what runs"));
        // a truncated digest is not a digest
        assert!(note("localhost/a@").is_some());
    }
}

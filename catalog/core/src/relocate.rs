//! Changes the images that operators of a catalog run, for example to those of a site's registry.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

/// Other images for operators, and the Secrets to pull them with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Relocation {
    /// The new image by the old one, as written in the catalog.
    pub images: BTreeMap<String, String>,
    /// Names of pull secrets for the pods of operators, in the namespace of each operator. A Secret that does
    /// not exist is ignored by the kubelet.
    pub pull_secrets: Vec<String>,
}

impl Relocation {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.images.is_empty() && self.pull_secrets.is_empty()
    }

    /// Changes a document of a catalog, with the manifests in it.
    pub(crate) fn document(&self, document: &mut Value) {
        self.names(document);
        let properties = document.get_mut("properties").and_then(Value::as_array_mut);
        for property in properties.into_iter().flatten() {
            if property["type"] != "olm.bundle.object" {
                continue;
            }
            let Some(mut object) = decoded(&property["value"]["data"]) else { continue };
            self.names(&mut object);
            self.secrets(&mut object);
            property["value"]["data"] = STANDARD.encode(object.to_string()).into();
        }
    }

    /// Replaces the images at any depth: fields, annotations and environment variables name them alike.
    fn names(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(image) = self.images.get(text.as_str()) {
                    text.clone_from(image);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.names(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.names(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Adds the pull secrets to the pods of a ClusterServiceVersion.
    fn secrets(&self, object: &mut Value) {
        if self.pull_secrets.is_empty() || object["kind"] != "ClusterServiceVersion" {
            return;
        }
        let deployments = object.pointer_mut("/spec/install/spec/deployments").and_then(Value::as_array_mut);
        for deployment in deployments.into_iter().flatten() {
            let Some(pod) = deployment.pointer_mut("/spec/template/spec").and_then(Value::as_object_mut)
            else {
                continue;
            };
            let Some(secrets) = pod.entry("imagePullSecrets").or_insert_with(|| json!([])).as_array_mut()
            else {
                continue;
            };
            for name in &self.pull_secrets {
                if secrets.iter().all(|secret| secret["name"] != name.as_str()) {
                    secrets.push(json!({ "name": name }));
                }
            }
        }
    }
}

fn decoded(data: &Value) -> Option<Value> {
    serde_json::from_slice(&STANDARD.decode(data.as_str()?.trim()).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{relocated, shipped, shipped_images};

    const OLD: &str = "localhost/olm/etcd-operator:0.11.0";
    const NEW: &str = "registry.example/etcd-operator@sha256:0000000000000000000000000000000000000000000000000000000000000000";

    fn relocation() -> Relocation {
        Relocation {
            images: [(OLD.to_owned(), NEW.to_owned())].into(),
            pull_secrets: vec!["pull".to_owned()],
        }
    }

    #[test]
    fn the_image_is_another_everywhere_and_the_rest_is_the_same() {
        // when
        let (before, after) = (shipped(), relocated(&relocation()));
        // then it is the same catalog
        assert_eq!(format!("{:?}", after.problems), format!("{:?}", before.problems));
        let (before, after) =
            (before.package("etcd").unwrap().unwrap(), after.package("etcd").unwrap().unwrap());
        let entries = |package: &crate::Package| -> Vec<crate::ChannelEntry> {
            package.channels.values().flat_map(|channel| channel.entries.clone()).collect()
        };
        assert_eq!(entries(&after), entries(&before));
        let (name, other) = ("etcdoperator.v0.11.0", "etcdoperator.v0.10.1");
        assert_eq!(after.bundles[name].related_images[0].image, NEW);
        // and the manifests of the bundle differ by the image and the pull secret alone
        let csv = |package: &crate::Package, name: &str| package.bundles[name].inline_csv().unwrap();
        let new = csv(&after, name);
        let pod = &new["spec"]["install"]["spec"]["deployments"][0]["spec"]["template"]["spec"];
        assert_eq!(pod["containers"][0]["image"], NEW);
        assert_eq!(pod["imagePullSecrets"], json!([{ "name": "pull" }]));
        assert_eq!(new["metadata"]["annotations"]["containerImage"], NEW);
        let mut wanted = csv(&before, name);
        relocation().names(&mut wanted);
        relocation().secrets(&mut wanted);
        assert_eq!(new, wanted);
        assert!(!new.to_string().contains(OLD));
        // and another image is left
        assert_eq!(after.bundles[other].related_images, before.bundles[other].related_images);
    }

    #[test]
    fn without_a_relocation_it_is_the_shipped_catalog() {
        assert!(std::sync::Arc::ptr_eq(&relocated(&Relocation::default()), &shipped()));
        assert!(shipped_images().contains(&OLD.to_owned()));
    }

    #[test]
    fn secrets_are_added_once_and_odd_documents_are_left() {
        let mut csv = json!({ "kind": "ClusterServiceVersion", "spec": { "install": { "spec": { "deployments": [
            { "spec": { "template": { "spec": { "imagePullSecrets": [{ "name": "pull" }] } } } },
            { "spec": null },
        ] } } } });
        let before = csv.clone();
        relocation().secrets(&mut csv);
        assert_eq!(csv, before);
        let mut odd = json!({ "properties": [{ "type": "olm.bundle.object", "value": { "data": "%" } }, 7] });
        let before = odd.clone();
        relocation().document(&mut odd);
        assert_eq!(odd, before);
    }
}

//! Annotations on a CRD that name the versions installed with it, as OLM sets them. Pure.

use std::sync::Arc;

use kube::ResourceExt;
use olm_api::names;
use olm_engine::{Change, Snapshot, catalogs::hex};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Digits that distinguish the annotations of one CRD.
const DIGITS: usize = 16;

/// Annotates a CRD with the version that installs it now, and with those of the namespace that own it too.
pub(super) fn annotate(crd: &mut Value, change: &Change, snapshot: &Snapshot) {
    let name = crd["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let owns = |csv: &&Arc<olm_api::ClusterServiceVersion>| {
        csv.metadata.deletion_timestamp.is_none()
            && !csv.labels().contains_key(names::LABEL_COPIED_FROM)
            && csv.spec.owned_crds().iter().any(|crd| crd.name == name)
    };
    let mut versions: Vec<String> = snapshot.csvs.iter().filter(owns).map(|csv| csv.name_any()).collect();
    versions.push(change.resolved.chosen.name.clone());
    for version in versions {
        let (key, value) = annotation(&change.plan.namespace, &version);
        crd["metadata"]["annotations"][key] = json!(value);
    }
}

fn annotation(namespace: &str, csv: &str) -> (String, String) {
    let value = format!("{namespace}/{csv}");
    let digest = hex(&Sha256::digest(value.as_bytes()));
    (format!("{}-{}", names::ANNOTATION_INSTALLED_ALONGSIDE, digest.get(..DIGITS).unwrap_or_default()), value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_has_an_annotation_of_its_own() {
        let ((one, what), (two, _)) = (annotation("ns", "a.v1"), annotation("ns", "a.v2"));
        assert!(one.starts_with("operatorframework.io/installed-alongside-") && one != two);
        assert!(one.split_once('/').is_some_and(|(_, name)| name.len() <= 63), "{one}");
        assert_eq!(what, "ns/a.v1");
    }
}

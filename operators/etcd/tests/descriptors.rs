//! The descriptors in the bundles are complete: each field of a spec and of a status has a descriptor, or an
//! entry here with the reason.

// Test helpers fail like tests.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::PathBuf;

use serde_json::Value;

const BUNDLES: [&str; 2] = ["0.11.0", "0.11.0-clusterwide"];

/// Kind, part, path, why it has no descriptor.
const UNSHOWN: [(&str, &str, &str, &str); 15] = [
    ("EtcdCluster", "status", "observedGeneration", "for programs that wait for a change to be seen"),
    ("EtcdCluster", "status", "selector", "for the scale subresource"),
    ("EtcdCluster", "status", "corruption.clusterID", "identifies the etcd cluster before a restore"),
    ("EtcdCluster", "status", "learnerFailure.generation", "shows whether the spec changed since"),
    ("EtcdCluster", "status", "maintenance.compacted", "where a run goes on after a restart"),
    ("EtcdCluster", "status", "maintenance.done", "where a run goes on after a restart"),
    ("EtcdBackup", "status", "Reason", "the same as reason, under upstream's name"),
    ("EtcdBackup", "status", "observedGeneration", "for programs that wait for a change to be seen"),
    ("EtcdBackup", "status", "upload.id", "what a restarted operator takes back"),
    ("EtcdBackup", "status", "upload.key", "what a restarted operator takes back"),
    ("EtcdRestore", "status", "observedGeneration", "for programs that wait for a change to be seen"),
    ("EtcdRestore", "status", "clusterUID", "distinguishes a cluster from a later one of its name"),
    ("EtcdRestore", "status", "claim.uid", "distinguishes a claim from a later one of its name"),
    ("EtcdRestore", "status", "upload.id", "what a restarted operator takes back"),
    ("EtcdRestore", "status", "upload.key", "what a restarted operator takes back"),
];

/// Nested Kubernetes objects, each described as one field.
const WHOLE: [&str; 7] = [
    "pod.affinity",
    "pod.securityContext",
    "pod.resources",
    "pod.persistentVolumeClaimSpec",
    "pod.nodeSelector",
    "pod.labels",
    "pod.annotations",
];

fn yaml(path: PathBuf) -> Value {
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_yaml::from_str(&text).unwrap()
}

fn leaves(schema: &Value, path: &str, out: &mut Vec<String>) {
    match schema["properties"].as_object() {
        Some(properties) if !WHOLE.contains(&path) => {
            for (name, schema) in properties {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                leaves(schema, &path, out);
            }
        }
        _ => out.push(path.to_owned()),
    }
}

#[test]
fn every_field_is_described_or_left_out_for_a_reason() {
    for bundle in BUNDLES {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../bundles/etcd").join(bundle);
        let csv = yaml(folder.join(format!("manifests/etcdoperator.v{bundle}.clusterserviceversion.yaml")));
        let mut unshown = Vec::new();
        for owned in csv["spec"]["customresourcedefinitions"]["owned"].as_array().unwrap() {
            let (name, kind) = (owned["name"].as_str().unwrap(), owned["kind"].as_str().unwrap());
            let crd = yaml(folder.join(format!("manifests/{name}.crd.yaml")));
            let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
            for part in ["spec", "status"] {
                let mut fields = Vec::new();
                leaves(&schema[part], "", &mut fields);
                let described: Vec<&str> = owned[format!("{part}Descriptors")]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|descriptor| descriptor["path"].as_str().unwrap())
                    .collect();
                // every descriptor has a field
                for path in &described {
                    let below = format!("{path}.");
                    assert!(
                        fields.iter().any(|field| field == path || field.starts_with(&below)),
                        "{bundle}: {kind} {part} has no field {path}"
                    );
                }
                // every field has a descriptor
                for field in fields {
                    let with = |path: &&str| field == **path || field.starts_with(&format!("{path}."));
                    if !described.iter().any(with) {
                        unshown.push((kind.to_owned(), part, field));
                    }
                }
            }
        }
        let mut known: Vec<_> =
            UNSHOWN.iter().map(|(k, p, f, _)| ((*k).to_owned(), *p, (*f).to_owned())).collect();
        known.sort();
        unshown.sort();
        assert_eq!(unshown, known, "{bundle}: fields without a descriptor");
    }
}

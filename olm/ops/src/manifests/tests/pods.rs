//! What a cluster may require of pods.

use std::collections::BTreeSet;

use olm_kube_schema::pod_security::{Level, violations};

use super::*;

/// The minor version of Kubernetes that changed the rules last.
const MINOR: u64 = 34;

#[test]
fn pods_of_the_installation_and_of_shipped_operators_meet_the_restricted_pod_security_level() {
    let own = manifests(&ManifestOptions::default());
    let own = own.iter().filter(|object| object["kind"] == "Deployment");
    let mut templates: Vec<(Value, Value)> =
        own.map(|object| (object["metadata"]["name"].clone(), object["spec"]["template"].clone())).collect();
    let catalog = olm_catalog::shipped();
    let packages = ["etcd", "myapp"].map(|name| catalog.package(name).unwrap().unwrap());
    for bundle in packages.iter().flat_map(|package| package.bundles.values()) {
        let csv = bundle.bundle().unwrap().csv_raw;
        let deployments = csv["spec"]["install"]["spec"]["deployments"].as_array().unwrap().clone();
        let named =
            |deployment: Value| (Value::from(bundle.name.clone()), deployment["spec"]["template"].clone());
        templates.extend(deployments.into_iter().map(named));
    }
    assert!(templates.iter().any(|(name, _)| name == "myapp.v0.2.0"), "{templates:?}");
    for (name, template) in &templates {
        let violated = violations(template, Level::Restricted, MINOR);
        assert!(violated.is_empty(), "{name}: {violated:?}");
    }
}

#[test]
fn pods_write_to_no_root_file_system() {
    for object in manifests(&ManifestOptions::default()) {
        for container in object["spec"]["template"]["spec"]["containers"].as_array().into_iter().flatten() {
            assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true, "{container}");
        }
    }
}

/// The kubelet probes the address of a pod, which is one of IPv6 alone in such a cluster.
#[test]
fn pods_listen_on_all_addresses_of_both_families() {
    let mut listening = 0;
    for object in manifests(&ManifestOptions::default()) {
        let args = object.pointer("/spec/template/spec/containers/0/args").and_then(Value::as_array);
        for arg in args.into_iter().flatten().filter_map(Value::as_str) {
            let Some((flag, address)) = arg.split_once('=').filter(|(flag, _)| flag.ends_with("listen"))
            else {
                continue;
            };
            assert!(address.starts_with("[::]:"), "{flag}={address}");
            listening += 1;
        }
    }
    assert_eq!(listening, 3, "two addresses of the manager, one of the console");
}

#[test]
fn variables_of_the_deployments_are_reserved() {
    let mut found = BTreeSet::new();
    for object in manifests(&ManifestOptions::default()) {
        let env = object.pointer("/spec/template/spec/containers/0/env").and_then(Value::as_array);
        found.extend(
            env.into_iter().flatten().filter_map(|variable| variable["name"].as_str().map(String::from)),
        );
    }
    assert_eq!(found, BTreeSet::from(OWN_VARIABLES.map(String::from)));
}

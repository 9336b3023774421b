//! `olm catalog add` without a cluster.

use crate::{CATALOG, folder, olm};

const OPERATORHUB: &str = "\
apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata:
  name: operatorhub
  namespace: olm
spec:
  sourceType: grpc
  image: quay.io/operatorhubio/catalog:latest
  updateStrategy:
    registryPoll:
      interval: 60m
  displayName: OperatorHub.io
  publisher: OperatorHub.io
";

#[test]
fn a_catalog_source_is_printed_without_a_cluster() {
    let ran = olm(&["catalog", "add", "operatorhub", "--dry-run", "-n", "olm"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), OPERATORHUB), "{}", ran.err);
    // and with every option
    let flags = ["--name", "acme", "--priority", "-10", "--pull-secret", "a", "--pull-secret", "b"];
    let line = ["catalog", "add", "https://example.com/all", "-n", "team", "--dry-run", "-o", "json"];
    let ran = olm(&[&line[..], &flags].concat());
    let source: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(source["metadata"], serde_json::json!({"name": "acme", "namespace": "team"}));
    let spec = serde_json::json!({
        "sourceType": "http", "url": "https://example.com/all", "priority": -10, "secrets": ["a", "b"],
    });
    assert_eq!(source["spec"], spec);
}

#[test]
fn sources_that_no_manager_reads_are_refused_without_a_cluster() {
    let dir = folder(&[("catalog.yaml", CATALOG)]);
    let ran = olm(&["catalog", "add", dir.path().to_str().unwrap()]);
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    assert!(ran.err.contains("hint: serve it with `olm catalog serve`"), "{}", ran.err);
    let ran = olm(&["catalog", "add", "operatorhb"]);
    assert_eq!(ran.code, Some(3), "{}", ran.err);
    assert!(ran.err.contains("hint: did you mean operatorhub?"), "{}", ran.err);
    let ran = olm(&["catalog", "add", "http://[::1]/all"]);
    assert!(ran.code == Some(2) && ran.err.contains("hint: set the name"), "{}", ran.err);
    let ran = olm(&["catalog", "add", "operatorhub", "--name", "No Name"]);
    assert!(ran.code == Some(2) && ran.err.contains("lower-case letters"), "{}", ran.err);
}

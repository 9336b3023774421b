use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-01-01T00:00:00Z";

fn crontab() -> Value {
    let mut crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "crontabs.stable.example.com"},
        "spec": {
            "group": "stable.example.com",
            "scope": "Namespaced",
            "names": {"plural": "crontabs", "singular": "crontab", "kind": "CronTab", "shortNames": ["ct"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    });
    set_defaults(&mut crd);
    crd
}

#[test]
fn a_conversion_webhook_listens_at_443() {
    let mut crd = crontab();
    let service = json!({"namespace": "a", "name": "b", "path": "/convert"});
    crd["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": {"service": service},
    }});
    set_defaults(&mut crd);
    assert_eq!(crd["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["port"], 443);
    assert!(parse(&crd).is_ok());
}

#[test]
fn status_accepts_names_and_establishes() {
    let mut crd = crontab();
    assert!(compute_status(&mut crd, &|_| None, NOW));
    assert!(is_established(&crd));
    assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(crd["status"]["acceptedNames"]["shortNames"], json!(["ct"]));
    assert!(!compute_status(&mut crd, &|_| None, "2027-01-01T00:00:00Z"), "nothing changes the second time");
    // When the storage version changes, both stay recorded.
    crd["spec"]["versions"][0]["name"] = json!("v2");
    assert!(compute_status(&mut crd, &|_| None, NOW));
    assert_eq!(crd["status"]["storedVersions"], json!(["v1", "v2"]));
}

#[test]
fn taken_names_are_not_accepted() {
    let mut crd = crontab();
    let taken = |name: &str| (name == "ct").then(|| "cats.stable.example.com".to_owned());
    assert!(compute_status(&mut crd, &taken, NOW));
    assert!(!is_established(&crd));
    let condition = &crd["status"]["conditions"][0];
    assert_eq!(condition["reason"], "ShortNamesConflict");
    assert_eq!(condition["message"], "\"ct\" is already in use");
    assert_eq!(crd["status"]["acceptedNames"]["plural"], "crontabs");
    assert!(compute_status(&mut crd, &|_| None, NOW), "accepted as soon as the other is gone");
    assert!(is_established(&crd));
}

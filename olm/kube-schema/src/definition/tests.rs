use serde_json::{Value, json};

use super::*;

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
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"cronSpec": {"type": "string"}}}}}},
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
                "additionalPrinterColumns": [{"name": "Spec", "type": "string", "jsonPath": ".spec.cronSpec"}],
            }],
        },
    });
    set_defaults(&mut crd);
    crd
}

fn errors(edit: impl Fn(&mut Value)) -> Vec<String> {
    let mut crd = crontab();
    edit(&mut crd);
    match parse(&crd) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn reads_a_crd() {
    let crd = parse(&crontab()).unwrap();
    assert_eq!((crd.kind.as_str(), crd.list_kind.as_str(), crd.namespaced), ("CronTab", "CronTabList", true));
    let version = crd.storage();
    assert_eq!(version.name, "v1");
    assert!(version.status);
    assert_eq!(version.scale.as_ref().map(|s| s.spec_replicas_path.as_str()), Some(".spec.replicas"));
    assert_eq!(version.columns[0].json_path, ".spec.cronSpec");
}

#[test]
fn defaults_names_and_conversion() {
    let mut crd = json!({"spec": {"names": {"plural": "crontabs", "kind": "CronTab"}}});
    set_defaults(&mut crd);
    assert_eq!(crd["spec"]["names"]["singular"], "crontab");
    assert_eq!(crd["spec"]["names"]["listKind"], "CronTabList");
    assert_eq!(crd["spec"]["conversion"]["strategy"], "None");
}

#[test]
fn refuses_the_same_definitions_as_kubernetes() {
    type Edit = fn(&mut Value);
    let cases: [(Edit, &str); 11] = [
        (
            |c| c["metadata"]["name"] = json!("x.stable.example.com"),
            "metadata.name: Invalid value: \"x.stable.example.com\": must be spec.names.plural+\".\"+spec.group",
        ),
        (
            |c| c["spec"]["scope"] = json!("Galaxy"),
            "spec.scope: Unsupported value: \"Galaxy\": supported values: \"Cluster\", \"Namespaced\"",
        ),
        (|c| c["spec"]["versions"] = json!([]), "spec.versions: Required value"),
        (
            |c| c["spec"]["versions"][0]["storage"] = json!(false),
            "spec.versions: Invalid value: [\"v1\"]: must have exactly one version marked as storage version",
        ),
        (
            |c| c["spec"]["versions"][0]["schema"] = json!({}),
            "spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required",
        ),
        (
            |c| {
                c["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["type"] =
                    json!("")
            },
            "spec.versions[0].schema.openAPIV3Schema.properties[spec].type: Required value: must not be empty for specified object fields",
        ),
        (
            |c| c["spec"]["versions"][0]["additionalPrinterColumns"][0]["jsonPath"] = json!("spec.x"),
            "spec.versions[0].additionalPrinterColumns[0].jsonPath: Invalid value: \"spec.x\": is not a JSON path",
        ),
        (
            |c| c["spec"]["names"]["shortNames"] = json!(["CT"]),
            "spec.names.shortNames[0]: Invalid value: \"CT\"",
        ),
        (|c| c["spec"]["names"]["kind"] = json!(""), "spec.names.kind: Required value"),
        (
            |c| c["spec"]["versions"][0]["subresources"]["scale"]["specReplicasPath"] = json!(".status.x"),
            "spec.versions[0].subresources.scale.specReplicasPath: Invalid value: \".status.x\": should be a json path under .spec.",
        ),
        (|c| c["spec"] = json!(null), "spec.group: Required value"),
    ];
    for (edit, expected) in cases {
        let errors = errors(edit);
        assert!(errors.iter().any(|e| e.starts_with(expected)), "{errors:#?}\nwanted {expected}");
    }
    assert!(parse(&json!(null)).is_err());
}

#[test]
fn updates_do_not_change_immutable_fields() {
    let mut old = crontab();
    old["status"] =
        json!({"storedVersions": ["v1"], "conditions": [{"type": "Established", "status": "True"}]});
    let mut new = old.clone();
    assert!(validate_update(&new, &old).is_empty());
    new["spec"]["scope"] = json!("Cluster");
    new["spec"]["versions"][0]["name"] = json!("v2");
    let errors: Vec<String> = validate_update(&new, &old).iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "spec.scope: Invalid value: \"Cluster\": field is immutable",
            "status.storedVersions[0]: Invalid value: \"v1\": must appear in spec.versions",
        ]
    );
}

/// Every CRD in the bundles of real catalogs must be accepted.
#[test]
fn accepts_real_crds() {
    let root = std::env::var("OLM_SHARED_DATA")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data").to_owned())
        + "/bundles";
    let mut files = Vec::new();
    collect(std::path::Path::new(&root), &mut files);
    if files.is_empty() {
        println!("skipped: accepts_real_crds: no data at {root}");
        return;
    }
    let (mut seen, mut refused) = (0, Vec::new());
    for file in files {
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        if text.len() > 4_000_000 || !text.contains("kind: CustomResourceDefinition") {
            continue;
        }
        for document in serde_yaml::Deserializer::from_str(&text) {
            use serde::Deserialize;
            let Ok(mut crd) = Value::deserialize(document) else { break };
            if crd["kind"] != "CustomResourceDefinition" || crd["apiVersion"] != "apiextensions.k8s.io/v1" {
                continue;
            }
            set_defaults(&mut crd);
            seen += 1;
            if let Err(errors) = parse(&crd) {
                refused.push(format!("{}: {}", file.display(), errors[0]));
            }
        }
    }
    eprintln!("read {seen} CRDs");
    assert!(refused.is_empty(), "{refused:#?}");
}

fn collect(dir: &std::path::Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|e| e == "yaml" || e == "yml") {
            files.push(path);
        }
    }
}

fn checked(edit: impl Fn(&mut Value)) -> Vec<String> {
    let mut crd = crontab();
    edit(&mut crd);
    check(&crd).iter().map(|error| format!("{}: {}", error.path, error.body())).collect()
}

#[test]
fn names_may_be_left_to_the_api_server() {
    let none = checked(|c| {
        c["spec"]["names"]
            .as_object_mut()
            .unwrap()
            .retain(|key, _| matches!(key.as_str(), "plural" | "kind"));
        c["spec"].as_object_mut().unwrap().shift_remove("conversion");
    });
    assert_eq!(none, Vec::<String>::new());
    // A path that API servers accept and this crate does not support is not an error.
    let none = checked(|c| {
        c["spec"]["versions"][0]["additionalPrinterColumns"][0]["jsonPath"] = json!(".spec.list[0:2]");
    });
    assert_eq!(none, Vec::<String>::new());
}

#[test]
fn conversion_is_checked() {
    let service = json!({"service": {"namespace": "a", "name": "b", "path": "/c", "port": 443}});
    let webhook = |client: Value, versions: Value| json!({"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": versions}});
    let cases = [
        (webhook(service.clone(), json!(["v1"])), vec![]),
        (webhook(json!({"url": "https://example.com"}), json!(["v2", "v1beta1"])), vec![]),
        (
            json!({"strategy": "Magic"}),
            vec![
                "spec.conversion.strategy: Unsupported value: \"Magic\": supported values: \"None\", \"Webhook\"",
            ],
        ),
        (json!({}), vec!["spec.conversion.strategy: Required value"]),
        (
            json!({"strategy": "Webhook"}),
            vec!["spec.conversion.webhook: Required value: required when strategy is set to Webhook"],
        ),
        (
            json!({"strategy": "None", "webhook": {}}),
            vec!["spec.conversion.webhook: Forbidden: should not be set when strategy is not set to Webhook"],
        ),
        (
            json!({"strategy": "Webhook", "webhook": {}}),
            vec![
                "spec.conversion.webhook.conversionReviewVersions: Required value: must have at least one version",
                "spec.conversion.webhook.clientConfig: Required value: required when strategy is set to Webhook",
            ],
        ),
        (
            webhook(json!({}), json!(["v2"])),
            vec![
                "spec.conversion.webhook.conversionReviewVersions: Invalid value: [\"v2\"]: must include at least one of v1, v1beta1",
                "spec.conversion.webhook.clientConfig: Required value: exactly one of url or service is required",
            ],
        ),
        (
            webhook(json!({"url": "http://example.com"}), json!(["v1"])),
            vec![
                "spec.conversion.webhook.clientConfig.url: Invalid value: \"http://example.com\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
            ],
        ),
        (
            webhook(json!({"service": {"path": "c", "port": 0}}), json!(["v1"])),
            vec![
                "spec.conversion.webhook.clientConfig.service.name: Required value: service name is required",
                "spec.conversion.webhook.clientConfig.service.namespace: Required value: service namespace is required",
                "spec.conversion.webhook.clientConfig.service.path: Invalid value: \"c\": must start with a '/'",
                "spec.conversion.webhook.clientConfig.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
            ],
        ),
    ];
    for (conversion, expected) in cases {
        assert_eq!(checked(|c| c["spec"]["conversion"] = conversion.clone()), expected, "{conversion}");
    }
}

#[test]
fn protected_groups_need_an_approval() {
    let with = |approval: Option<&str>| {
        checked(|c| {
            c["metadata"]["name"] = json!("crontabs.x.k8s.io");
            c["spec"]["group"] = json!("x.k8s.io");
            if let Some(approval) = approval {
                c["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": approval});
            }
        })
    };
    assert_eq!(with(Some("unapproved, for trying")), Vec::<String>::new());
    assert_eq!(with(Some("https://example.com/1")), Vec::<String>::new());
    assert!(with(None)[0].starts_with("metadata.annotations[api-approved.kubernetes.io]: Required value: "));
    assert!(
        with(Some("yes"))[0].starts_with("metadata.annotations[api-approved.kubernetes.io]: Invalid value: ")
    );
}

#[test]
fn the_old_api_is_checked_with_its_own_paths() {
    /// Errors of a definition written for the old API.
    fn old(edit: impl Fn(&mut Value)) -> Vec<String> {
        checked(|c| {
            c["apiVersion"] = json!("apiextensions.k8s.io/v1beta1");
            let mut version = c["spec"]["versions"][0].take();
            let spec = c["spec"].as_object_mut().unwrap();
            spec.shift_remove("versions");
            spec.insert("version".into(), json!("v1"));
            spec.insert("validation".into(), version["schema"].take());
            spec.insert("subresources".into(), version["subresources"].take());
            let columns = json!([{"name": "Spec", "type": "string", "JSONPath": ".spec.cronSpec"}]);
            spec.insert("additionalPrinterColumns".into(), columns);
            edit(c);
        })
    }
    assert_eq!(old(|_| ()), Vec::<String>::new());
    // Schemas must be structural only where unknown fields are dropped.
    assert_eq!(
        old(|c| c["spec"]["validation"]["openAPIV3Schema"] = json!({"properties": {}})),
        Vec::<String>::new()
    );
    assert_eq!(
        old(|c| {
            c["spec"]["validation"]["openAPIV3Schema"] = json!({"properties": {}});
            c["spec"]["preserveUnknownFields"] = json!(false);
            // both versions share it, and it is reported once
            c["spec"]["versions"] = json!([
                {"name": "v1", "served": true, "storage": true}, {"name": "v2", "served": true, "storage": false}]);
        }),
        ["spec.validation.openAPIV3Schema.type: Required value: must not be empty at the root"]
    );
    assert_eq!(
        old(|c| {
            c["spec"]["additionalPrinterColumns"][0]["JSONPath"] = json!("x");
            c["spec"]["subresources"]["scale"]["specReplicasPath"] = json!("x");
            c["spec"]["conversion"] = json!({"strategy": "Webhook"});
            c["spec"]["scope"] = json!(null);
        }),
        [
            "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook",
            "spec.subresources.scale.specReplicasPath: Invalid value: \"x\": should be a json path under .spec.",
            "spec.additionalPrinterColumns[0].JSONPath: Invalid value: \"x\": is not a JSON path: must start with `.`",
        ]
    );
    assert_eq!(
        old(|c| c["spec"]["version"] = json!(null)),
        ["spec.versions: Required value: must have at least one version"]
    );
}

#[test]
fn rules_with_functions_that_a_cluster_does_not_have_are_found() {
    let found = |rule: &str, minor: u64| -> Vec<String> {
        let mut crd = crontab();
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = json!({
            "type": "object", "x-kubernetes-validations": [{"rule": rule}],
            "properties": {"list": {"type": "array", "items": {"type": "string"}}},
        });
        assert!(parse(&crd).is_ok(), "{rule}");
        newer_rules(&crd, minor).iter().map(ToString::to_string).collect()
    };
    // A function can be used in new rules one version after the one that introduced it.
    for (rule, needed, name) in [
        ("self.list.sort() == self.list", 35, "sort"),
        ("isSemver('1.0.0')", 34, "isSemver"),
        ("self.list.all(i, v, v != 'a')", 33, "a macro with two variables"),
        ("!format.uuid().validate('a').hasValue()", 32, "format.uuid"),
        ("isIP('::1') && sets.contains(self.list, ['a'])", 31, "isIP"),
        ("sets.contains(self.list, ['a'])", 30, "sets.contains"),
    ] {
        assert_eq!(found(rule, needed), Vec::<String>::new(), "{rule}");
        let path =
            "spec.versions[0].schema.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule";
        let text = format!("{path}: Invalid value: {rule:?}: {name} needs Kubernetes 1.{needed}");
        assert_eq!(found(rule, needed - 1), [text], "{rule}");
    }
    assert_eq!(found("self.list.size() > 0", 20), Vec::<String>::new());
}

//! Changes of the definition as a whole, and of its versions.

use serde_json::{Value, json};

pub(super) type Edit = fn(&mut Value);

/// Edits of the live and of the new definition, and the expected findings.
pub(super) fn definitions() -> Vec<(&'static str, Edit, Edit, Vec<&'static str>)> {
    fn nothing(_: &mut Value) {}
    fn schema(fields: Value) -> Value {
        json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}})
    }
    fn version(name: &str, served: bool, storage: bool) -> Value {
        json!({"name": name, "served": served, "storage": storage, "schema": schema(json!({}))})
    }
    vec![
        (
            "group",
            nothing,
            |c| c["spec"]["group"] = json!("other.com"),
            vec!["breaking group-changed - .spec.group"],
        ),
        (
            "scope",
            nothing,
            |c| c["spec"]["scope"] = json!("Cluster"),
            vec!["breaking scope-changed - .spec.scope"],
        ),
        (
            "kind",
            nothing,
            |c| c["spec"]["names"]["kind"] = json!("Store"),
            vec!["breaking kind-changed - .spec.names.kind"],
        ),
        (
            "plural",
            nothing,
            |c| c["spec"]["names"]["plural"] = json!("stores"),
            vec!["breaking plural-changed - .spec.names.plural"],
        ),
        (
            "singular",
            nothing,
            |c| c["spec"]["names"]["singular"] = json!("store"),
            vec!["careful singular-changed - .spec.names.singular"],
        ),
        (
            "listKind",
            nothing,
            |c| c["spec"]["names"]["listKind"] = json!("Caches"),
            vec!["careful list-kind-changed - .spec.names.listKind"],
        ),
        (
            "implied names",
            nothing,
            |c| {
                let names = c["spec"]["names"].as_object_mut().unwrap();
                names.retain(|key, _| key == "plural" || key == "kind");
            },
            vec![],
        ),
        (
            "short name",
            |c| c["spec"]["names"]["shortNames"] = json!(["ca", "cc"]),
            |c| c["spec"]["names"]["shortNames"] = json!(["cc", "x"]),
            vec!["careful short-name-removed - .spec.names.shortNames"],
        ),
        (
            "version removed, stored",
            nothing,
            |c| c["spec"]["versions"] = json!([version("v2", true, true)]),
            vec![
                "breaking stored-version-removed - .spec.versions",
                "breaking version-removed - .spec.versions",
                "careful storage-version-changed - .spec.versions",
                "safe version-added - .spec.versions",
            ],
        ),
        (
            "version stored long ago, removed",
            |c| c["status"]["storedVersions"] = json!(["v0", "v1"]),
            nothing,
            vec!["breaking stored-version-removed - .spec.versions"],
        ),
        (
            "unusable version removed",
            |c| c["spec"]["versions"] = json!([version("v0", false, false), version("v1", true, true)]),
            nothing,
            vec![],
        ),
        (
            "version removed after a warning",
            |c| {
                let mut old = version("v0", true, false);
                old["deprecated"] = json!(true);
                c["spec"]["versions"] = json!([old, version("v1", true, true)]);
            },
            nothing,
            vec!["careful version-removed - .spec.versions"],
        ),
        (
            "version not served",
            |c| c["spec"]["versions"] = json!([version("v0", true, false), version("v1", true, true)]),
            |c| c["spec"]["versions"] = json!([version("v0", false, false), version("v1", true, true)]),
            vec!["breaking version-not-served - .spec.versions"],
        ),
        (
            "version deprecated",
            nothing,
            |c| c["spec"]["versions"][0]["deprecated"] = json!(true),
            vec!["safe version-deprecated - .spec.versions"],
        ),
        (
            "version added",
            nothing,
            |c| c["spec"]["versions"].as_array_mut().unwrap().push(version("v2", true, false)),
            vec!["safe version-added - .spec.versions"],
        ),
        (
            "version added that does not fit",
            |c| c["spec"]["versions"][0]["schema"] = schema(json!({"x": {"type": "string"}})),
            |c| {
                c["spec"]["versions"][0]["schema"] = schema(json!({"x": {"type": "string"}}));
                c["spec"]["versions"].as_array_mut().unwrap().push(version("v2", true, false));
            },
            vec!["breaking property-removed v1 -> v2 .spec.x", "safe version-added - .spec.versions"],
        ),
        (
            "versions that did not fit before",
            |c| {
                c["spec"]["versions"] = json!([version("v2", true, false), version("v1", true, true)]);
                c["spec"]["versions"][1]["schema"] = schema(json!({"x": {"type": "string"}}));
            },
            |c| {
                c["spec"]["versions"] = json!([version("v2", true, false), version("v1", true, true)]);
                c["spec"]["versions"][1]["schema"] =
                    schema(json!({"x": {"type": "string"}, "y": {"type": "string"}}));
            },
            vec!["breaking property-removed v1 -> v2 .spec.y"],
        ),
        (
            "version added that a webhook converts",
            |c| {
                c["spec"]["versions"][0]["schema"] = schema(json!({"x": {"type": "string"}}));
                c["spec"]["conversion"] = json!({"strategy": "Webhook"});
            },
            |c| {
                c["spec"]["versions"][0]["schema"] = schema(json!({"x": {"type": "string"}}));
                c["spec"]["versions"].as_array_mut().unwrap().push(version("v2", true, false));
                c["spec"]["conversion"] = json!({"strategy": "Webhook"});
            },
            vec!["safe version-added - .spec.versions"],
        ),
        (
            "too many versions",
            |c| c["spec"]["versions"] = (1..20).map(|n| version(&format!("v{n}"), true, n == 1)).collect(),
            |c| c["spec"]["versions"] = (1..20).map(|n| version(&format!("v{n}"), true, n == 1)).collect(),
            vec!["breaking not-compared - .spec.versions"],
        ),
        (
            "storage version",
            |c| c["spec"]["versions"] = json!([version("v1", true, true), version("v2", true, false)]),
            |c| c["spec"]["versions"] = json!([version("v1", true, false), version("v2", true, true)]),
            vec!["careful storage-version-changed - .spec.versions"],
        ),
        (
            "webhook",
            nothing,
            |c| c["spec"]["conversion"] = json!({"strategy": "Webhook"}),
            vec!["careful conversion-webhook-added - .spec.conversion.strategy"],
        ),
        (
            "webhook removed with one version left",
            |c| c["spec"]["conversion"] = json!({"strategy": "Webhook"}),
            |c| c["spec"]["conversion"] = json!({"strategy": "None"}),
            vec!["careful conversion-webhook-removed - .spec.conversion.strategy"],
        ),
        (
            "webhook removed with two versions",
            |c| {
                c["spec"]["versions"] = json!([version("v1", true, true), version("v2", true, false)]);
                c["spec"]["versions"][0]["schema"] = schema(json!({"x": {"type": "string"}}));
                c["spec"]["conversion"] = json!({"strategy": "Webhook"});
            },
            |c| {
                c["spec"]["versions"] = json!([version("v1", true, true), version("v2", true, false)]);
                c["spec"]["versions"][0]["schema"] = schema(json!({"x": {"type": "string"}}));
            },
            vec![
                "breaking conversion-webhook-removed - .spec.conversion.strategy",
                "breaking property-removed v1 -> v2 .spec.x",
            ],
        ),
        (
            "another webhook",
            |c| {
                c["spec"]["conversion"] =
                    json!({"strategy": "Webhook", "webhook": {"clientConfig": {"caBundle": "x"}}})
            },
            |c| {
                c["spec"]["conversion"] =
                    json!({"strategy": "Webhook", "webhook": {"clientConfig": {"caBundle": "y"}}})
            },
            vec![],
        ),
        (
            "status subresource removed",
            |c| c["spec"]["versions"][0]["subresources"] = json!({"status": {}}),
            nothing,
            vec!["breaking status-subresource-removed v1 .status"],
        ),
        (
            "status subresource added",
            nothing,
            |c| c["spec"]["versions"][0]["subresources"] = json!({"status": {}}),
            vec!["careful status-subresource-added v1 .status"],
        ),
        (
            "scale removed",
            |c| c["spec"]["versions"][0]["subresources"] = json!({"scale": {"specReplicasPath": ".spec.n"}}),
            nothing,
            vec!["breaking scale-subresource-removed v1 "],
        ),
        (
            "scale changed",
            |c| c["spec"]["versions"][0]["subresources"] = json!({"scale": {"specReplicasPath": ".spec.n"}}),
            |c| c["spec"]["versions"][0]["subresources"] = json!({"scale": {"specReplicasPath": ".spec.m"}}),
            vec!["careful scale-subresource-changed v1 .spec.n"],
        ),
        (
            "selectable field removed",
            |c| {
                c["spec"]["versions"][0]["selectableFields"] =
                    json!([{"jsonPath": ".spec.x"}, {"jsonPath": ".spec.y"}])
            },
            |c| c["spec"]["versions"][0]["selectableFields"] = json!([{"jsonPath": ".spec.y"}]),
            vec!["breaking selectable-field-removed v1 .spec.x"],
        ),
        (
            "required at the top",
            nothing,
            |c| {
                c["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["required"] =
                    json!(["spec", "metadata", "kind"])
            },
            vec!["breaking required-added v1 .spec"],
        ),
        (
            "old API to new API",
            |c| {
                c["apiVersion"] = json!("apiextensions.k8s.io/v1beta1");
                let schema = c["spec"]["versions"][0]["schema"].take();
                c["spec"]["validation"] = schema;
                c["spec"]["version"] = json!("v1");
                c["spec"].as_object_mut().unwrap().shift_remove("versions");
                c["spec"]["preserveUnknownFields"] = json!(false);
            },
            nothing,
            vec![],
        ),
        (
            "old API that keeps everything to new API",
            |c| c["apiVersion"] = json!("apiextensions.k8s.io/v1beta1"),
            |c| c["spec"]["versions"][0]["schema"] = schema(json!({"x": {"type": "string"}})),
            vec![
                "breaking unknown-fields-pruned - .spec.preserveUnknownFields",
                "careful fields-validated v1 ",
            ],
        ),
        (
            "old API without a schema",
            |c| {
                c["apiVersion"] = json!("apiextensions.k8s.io/v1beta1");
                c["spec"]["versions"][0].as_object_mut().unwrap().shift_remove("schema");
            },
            nothing,
            vec![
                "breaking unknown-fields-pruned - .spec.preserveUnknownFields",
                "careful fields-validated v1 ",
            ],
        ),
        ("no definition", |c| *c = json!({}), nothing, vec!["breaking unreadable - "]),
    ]
}

//! The CRD schemas of the shipped operators, validated with `olm-kube-schema`. They are tested here because `operators/*`
//! use nothing of this workspace that other operator authors could not use.
#![allow(clippy::unwrap_used, clippy::panic)]

use croner::parser::{CronParser, Seconds, Year};
use olm_kube_schema::{definition::newer_rules, schema::Schema};
use serde_json::{Value, json};

use etcd_operator::crd::{backup, crd, restore};
use kube::CustomResourceExt as _;
use myapp_operator::myapp::MyApp;

fn schema(definition: impl serde::Serialize) -> Schema {
    let crd = serde_json::to_value(definition).unwrap();
    Schema::compile(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"], "").unwrap()
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": kind,
            "metadata": { "name": name, "namespace": "shop" }, "spec": spec })
}

fn errors(schema: &Schema, object: &Value) -> String {
    let all: Vec<String> = schema.validate(object).iter().map(ToString::to_string).collect();
    all.join("\n")
}

#[test]
fn names_that_are_not_dns_labels_are_refused_for_all_kinds() {
    let cluster = (schema(crd()), "EtcdCluster", json!({ "size": 1 }));
    let local = json!({ "path": "a/b" });
    let spec = json!({ "clusterName": "orders", "storageType": "Local", "local": local });
    let backup = (schema(backup::crd()), "EtcdBackup", spec);
    let spec = json!({ "etcdCluster": { "name": "orders" }, "backupStorageType": "Local", "local": local });
    let restore = (schema(restore::crd()), "EtcdRestore", spec);
    for (schema, kind, spec) in [&cluster, &backup, &restore] {
        for good in ["orders", "a", "orders-2", &"a".repeat(52)] {
            assert_eq!(errors(schema, &object(kind, good, spec)), "", "{kind} {good}");
        }
        for bad in ["dot.name", "-a", "a-", "Orders", "a_b", "", &"a".repeat(64)] {
            let found = errors(schema, &object(kind, bad, spec));
            assert!(found.contains("metadata.name: expected a DNS label"), "{kind} {bad}: {found}");
            // An object stored before still gets its status.
            let mut stored = object(kind, bad, spec);
            stored["status"] = json!({ "reason": "metadata.name" });
            assert_eq!(errors(schema, &stored), "", "{kind} {bad}");
        }
    }
    // A cluster's name is used for Services; a backup and a restore may start with a digit.
    let digit = |(schema, kind, spec): &(Schema, &str, Value)| errors(schema, &object(kind, "1digit", spec));
    assert!(digit(&cluster).contains("metadata.name"), "{}", digit(&cluster));
    assert_eq!((digit(&backup), digit(&restore)), (String::new(), String::new()));
    assert!(errors(&cluster.0, &object("EtcdCluster", &"a".repeat(53), &cluster.2)).contains("at most 52"));
}

#[test]
fn values_that_kubernetes_refuses_later_are_refused_at_once_with_their_field() {
    let schema = schema(crd());
    let found = |spec: &Value| errors(&schema, &object("EtcdCluster", "orders", spec));
    let pod = |field: &str, value: Value| json!({ "size": 1, "pod": { field: value } });
    let affinity = |operator: &str| {
        json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
            { "matchExpressions": [{ "key": "zone", "operator": operator, "values": ["1"] }] }] } } })
    };
    let spread = |skew: i64, when: &str| json!([{ "maxSkew": skew, "topologyKey": "zone", "whenUnsatisfiable": when }]);
    let schedule =
        |text: &str| json!({ "size": 1, "maintenance": { "defragmentation": { "schedule": text } } });
    for (spec, field) in [
        (json!({ "size": 1, "storage": { "size": "-1Gi" } }), "spec.storage.size"),
        (json!({ "size": 1, "storage": { "size": -1 } }), "spec.storage.size"),
        (json!({ "size": 1, "storage": { "size": 0 } }), "spec.storage.size"),
        (json!({ "size": 1, "repository": "quay.io/coreos/etcd:v3.4" }), "spec.repository"),
        (json!({ "size": 1, "repository": "https://quay.io/coreos/etcd" }), "spec.repository"),
        (pod("resources", json!({ "limits": { "cpu": "-1" } })), "spec.pod.resources.limits"),
        (pod("resources", json!({ "requests": { "cpu": -1 } })), "spec.pod.resources.requests"),
        (pod("securityContext", json!({ "runAsUser": -5 })), "spec.pod.securityContext.runAsUser"),
        (pod("securityContext", json!({ "fsGroup": 2_147_483_648_i64 })), "spec.pod.securityContext.fsGroup"),
        (
            pod("securityContext", json!({ "supplementalGroups": [-1] })),
            "spec.pod.securityContext.supplementalGroups",
        ),
        (
            pod("securityContext", json!({ "fsGroupChangePolicy": "x" })),
            "spec.pod.securityContext.fsGroupChangePolicy",
        ),
        (
            pod("securityContext", json!({ "seccompProfile": { "type": "x" } })),
            "spec.pod.securityContext.seccompProfile",
        ),
        (pod("tolerations", json!([{ "operator": "exists" }])), "spec.pod.tolerations"),
        (pod("tolerations", json!([{ "effect": "Never" }])), "spec.pod.tolerations"),
        (pod("labels", json!({ "team": "a b" })), "spec.pod.labels"),
        (pod("labels", json!({ "team": "a".repeat(64) })), "spec.pod.labels"),
        (pod("nodeSelector", json!({ "zone": "a/b" })), "spec.pod.nodeSelector"),
        (pod("affinity", affinity("Is")), "spec.pod.affinity"),
        (pod("topologySpreadConstraints", spread(0, "DoNotSchedule")), "maxSkew"),
        (pod("topologySpreadConstraints", spread(1, "Never")), "whenUnsatisfiable"),
        (pod("etcdEnv", json!([{ "name": "ETCD_NAME", "value": "x" }])), "spec.pod.etcdEnv"),
        (
            pod("etcdEnv", json!([{ "name": "ETCD_INITIAL_CLUSTER_STATE", "value": "new" }])),
            "spec.pod.etcdEnv",
        ),
        (pod("etcdEnv", json!([{ "name": "A=B", "value": "x" }])), "spec.pod.etcdEnv"),
        (schedule("61 * * * *"), "spec.maintenance.defragmentation.schedule"),
        (schedule("0 24 * * *"), "spec.maintenance.defragmentation.schedule"),
        (schedule("every day"), "spec.maintenance.defragmentation.schedule"),
        (schedule("* * * *"), "spec.maintenance.defragmentation.schedule"),
        (schedule(""), "spec.maintenance.defragmentation.schedule"),
    ] {
        let message = found(&spec);
        assert!(message.contains(field), "{field} of {spec}: {message:?}");
    }
    for spec in [
        json!({ "size": 1, "storage": { "size": "1Gi" }, "repository": "[::1]:5000/a/etcd" }),
        json!({ "size": 1, "storage": { "size": 1 }, "repository": "localhost/olm/etcd-operator" }),
        pod("resources", json!({ "limits": { "cpu": 1, "memory": "1.5Gi" }, "requests": { "cpu": "100m" } })),
        pod("securityContext", json!({ "runAsUser": 0, "fsGroup": 1000, "supplementalGroups": [1] })),
        pod(
            "tolerations",
            json!([{ "operator": "Exists" }, { "key": "a", "value": "b", "effect": "NoSchedule" }]),
        ),
        pod("labels", json!({ "team": "", "app.kubernetes.io/part-of": "shop_1.b" })),
        pod("affinity", affinity("Gt")),
        pod("topologySpreadConstraints", spread(1, "ScheduleAnyway")),
        pod(
            "etcdEnv",
            json!([{ "name": "ETCD_QUOTA_BACKEND_BYTES", "value": "1" }, { "name": "GODEBUG", "value": "a=b" }]),
        ),
    ] {
        assert_eq!(found(&spec), "", "{spec}");
    }
}

#[test]
fn a_restore_has_exactly_one_source() {
    let schema = schema(restore::crd());
    let found = |more: Value| {
        let mut spec = json!({ "etcdCluster": { "name": "orders" } });
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        errors(&schema, &object("EtcdRestore", "back", &spec))
    };
    let local = json!({ "path": "a/b" });
    assert_eq!(found(json!({ "backupStorageType": "Local", "local": local })), "");
    assert_eq!(found(json!({ "fromClaim": "orders-bcdfghjklm" })), "");
    let none = found(json!({}));
    assert!(none.contains("expected exactly one source, backupStorageType or fromClaim"), "{none}");
    let two = found(json!({ "fromClaim": "orders-b", "backupStorageType": "Local", "local": local }));
    assert!(two.contains("expected exactly one source"), "{two}");
    let store = found(json!({ "backupStorageType": "S3" }));
    assert!(store.contains("spec.s3: missing, required when spec.backupStorageType is S3"), "{store}");
    for (field, value) in [
        ("local", local),
        ("clusterTemplate", json!({ "size": 1 })),
        ("encryption", json!({ "secret": "keys" })),
        ("allowOtherCluster", json!(true)),
        ("skipSafetyBackup", json!(true)),
    ] {
        let message = found(json!({ "fromClaim": "orders-b", field: value }));
        assert!(
            message.contains("spec.fromClaim: conflicts with the fields of a restore from a backup"),
            "{field}: {message}"
        );
    }
    assert!(found(json!({ "fromClaim": "Not/Valid" })).contains("spec.fromClaim"));
}

#[test]
fn schedules_that_the_operator_reads_pass_the_schema() {
    let cluster = schema(crd());
    let backup = schema(backup::crd());
    let five = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
    let parts = [
        ["*", "0", "59", "00", "1,2", "0-30/5", "*/15", "60", "?"],
        ["*", "3", "23", "1-5", "*/6", "24", "00", "1,2-3", "9"],
        ["*", "1", "31", "L", "15W", "?", "1,15", "32", "*/2"],
        ["*", "1", "12", "JAN", "jan-mar", "13", "*/3", "1,2", "0"],
        ["*", "0", "7", "MON-FRI", "5L", "1#2", "?", "sun", "8"],
    ];
    // Every pair of two fields with all their values, the others free.
    for (a, b) in (0..5).flat_map(|a| (a + 1..5).map(move |b| (a, b))) {
        for (x, y) in parts[a].iter().flat_map(|x| parts[b].iter().map(move |y| (x, y))) {
            let mut fields = ["*"; 5];
            (fields[a], fields[b]) = (x, y);
            let text = fields.join(" ");
            let spec = json!({ "size": 1, "maintenance": { "defragmentation": { "schedule": text } } });
            let message = errors(&cluster, &object("EtcdCluster", "orders", &spec));
            assert!(message.is_empty() || five.parse(&text).is_err(), "{text}: {message}");
        }
    }
    for text in [
        "0 3 * * *",
        "@daily",
        "@hourly",
        "*/5 * * * * *",
        "0 0 3 * * MON",
        "0 0 0 1 1 * 2030",
        " 0  3 * * * ",
    ] {
        assert!(text.parse::<croner::Cron>().is_ok(), "{text}");
        let spec = json!({ "clusterName": "orders", "storageType": "Local", "local": { "path": "a/b" },
                           "backupPolicy": { "schedule": text } });
        assert_eq!(errors(&backup, &object("EtcdBackup", "nightly", &spec)), "", "{text}");
    }
    for text in ["tomorrow", "99 * * * *", "* * *"] {
        let spec = json!({ "clusterName": "orders", "storageType": "Local", "local": { "path": "a/b" },
                           "backupPolicy": { "schedule": text } });
        let message = errors(&backup, &object("EtcdBackup", "nightly", &spec));
        assert!(message.contains("spec.backupPolicy.schedule"), "{text}: {message}");
    }
}

#[test]
fn bad_values_of_a_myapp_are_refused_with_their_field() {
    let schema = schema(MyApp::crd());
    let found = |name: &str, spec: Value| {
        let object = json!({ "apiVersion": "example.com/v1alpha1", "kind": "MyApp",
                             "metadata": { "name": name, "namespace": "shop" }, "spec": spec });
        errors(&schema, &object)
    };
    assert_eq!(found("shop", json!({ "image": "myapp:latest", "replicas": 0, "port": 65535 })), "");
    for (spec, field) in [
        (json!({ "replicas": 1 }), "spec.image"),
        (json!({ "image": "" }), "spec.image"),
        (json!({ "image": "a", "replicas": -1 }), "spec.replicas"),
        (json!({ "image": "a", "replicas": 101 }), "spec.replicas"),
        (json!({ "image": "a", "replicas": "three" }), "spec.replicas"),
        (json!({ "image": "a", "port": 0 }), "spec.port"),
        (json!({ "image": "a", "port": 65536 }), "spec.port"),
    ] {
        let message = found("shop", spec.clone());
        assert!(message.contains(field), "{field} of {spec}: {message:?}");
    }
    let long = found(&"a".repeat(64), json!({ "image": "a" }));
    assert!(long.contains("metadata.name"), "{long}");
}

#[test]
fn definitions_are_accepted_by_an_api_server() {
    for definition in [crd(), backup::crd(), restore::crd(), MyApp::crd()] {
        let mut value = serde_json::to_value(definition).unwrap();
        olm_kube_schema::definition::set_defaults(&mut value);
        assert_eq!(olm_kube_schema::definition::check(&value), []);
    }
}

/// API servers multiply the cost of a rule by the maximum number of values that it visits: an unbounded text
/// or list would make the definition invalid there.
#[test]
fn rules_visit_bounded_lists_alone() {
    fn walk(schema: &Value, path: &str, bounded: bool) {
        assert!(bounded || schema.get("x-kubernetes-validations").is_none(), "{path}");
        for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
            walk(inner, &format!("{path}.{name}"), bounded);
        }
        if let Some(items) = schema.get("items") {
            walk(items, &format!("{path}[]"), bounded && schema["maxItems"].is_u64());
        }
        if let Some(values) = schema.get("additionalProperties") {
            walk(values, &format!("{path}{{}}"), bounded && schema["maxProperties"].is_u64());
        }
    }
    for definition in [crd(), backup::crd(), restore::crd(), MyApp::crd()] {
        let value = serde_json::to_value(definition).unwrap();
        walk(&value["spec"]["versions"][0]["schema"]["openAPIV3Schema"], "", true);
    }
}

/// The oldest Kubernetes of docs/compatibility.md.
#[test]
fn rules_use_functions_of_kubernetes_1_28_alone() {
    let operators = [crd(), backup::crd(), restore::crd(), MyApp::crd()];
    for definition in olm_api::crds().into_iter().chain(operators) {
        let definition = serde_json::to_value(definition).unwrap();
        let newer = newer_rules(&definition, 28);
        assert!(newer.is_empty(), "{}: {newer:?}", definition["metadata"]["name"]);
    }
}

//! Bounds that API servers check on a custom resource, for values that Kubernetes itself checks only when a pod, a claim or a
//! Service is created from them.

use serde_json::{Value, json};

use super::schema::{quantity, rule, words};
use crate::build::pod::RESERVED_VARIABLES;
use crate::names;

/// A DNS label as Services need it (RFC 1035).
const CLUSTER_NAME: &str = "^[a-z]([-a-z0-9]*[a-z0-9])?$";
/// A DNS label (RFC 1123).
const LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// The longest DNS label.
const MAX_LABEL: usize = 63;
/// A value of a label.
const LABEL_VALUE: &str = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
/// An image without tag and digest.
const REPOSITORY: &str = r"^((\[[0-9a-fA-F:]+\]|[A-Za-z0-9][A-Za-z0-9.-]*)(:[0-9]+)?/)?[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)*$";
/// Entries of a list or map that a rule in CEL visits.
const MAX_ENTRIES: u32 = 64;
/// The largest id of a user or group.
const MAX_ID: i64 = 2_147_483_647;

/// The rule for the name of a cluster. API servers without ratcheting apply all rules to every update: an object that was stored
/// before the rule existed must still get a status, so an object with a status passes.
pub(super) fn cluster_name() -> (String, String) {
    let max = super::MAX_NAME_LENGTH;
    let message = format!(
        "metadata.name: expected a DNS label of at most {max} characters: lower-case letters, digits and hyphens, starting with a \
         letter and ending with a letter or digit; Services and pods are named after it"
    );
    (name(CLUSTER_NAME, max), message)
}

/// The same for backups and restores.
pub(super) fn object_name() -> (String, String) {
    let message = format!(
        "metadata.name: expected a DNS label of at most {MAX_LABEL} characters: lower-case letters, digits and hyphens, starting \
         and ending with a letter or digit"
    );
    (name(LABEL, MAX_LABEL), message)
}

fn name(pattern: &str, max: usize) -> String {
    format!(
        "has(self.status) || (self.metadata.name.size() <= {max} && self.metadata.name.matches('{pattern}'))"
    )
}

/// A field that names a cluster.
pub(super) fn cluster_reference(field: &mut Value) {
    field["minLength"] = json!(1);
    field["maxLength"] = json!(super::MAX_NAME_LENGTH);
    field["pattern"] = json!(CLUSTER_NAME);
}

/// `spec.repository`.
pub(super) fn repository(field: &mut Value) {
    field["pattern"] = json!(REPOSITORY);
}

/// The properties of `spec.pod`.
pub(super) fn pod(pod: &mut Value) {
    for amounts in ["limits", "requests"] {
        let mut amount = quantity("", 0);
        amount.as_object_mut().map(|object| object.remove("description"));
        pod["resources"]["properties"][amounts]["additionalProperties"] = amount;
    }
    environment(&mut pod["etcdEnv"]);
    for map in ["labels", "nodeSelector"] {
        let value = &mut pod[map]["additionalProperties"];
        value["maxLength"] = json!(MAX_LABEL);
        value["pattern"] = json!(LABEL_VALUE);
    }
    pod["labels"]["maxProperties"] = json!(MAX_ENTRIES);
    pod["labels"]["x-kubernetes-validations"] = rule(&[(
        format!(
            "self.all(key, key != '{}' && !key.startsWith('{}'))",
            names::LABEL_APP,
            names::RESERVED_LABEL_PREFIX
        ),
        "spec.pod.labels: `app` and names that begin with `etcd_` are the operator's own".into(),
    )]);
    pod["annotations"]["maxProperties"] = json!(MAX_ENTRIES);
    pod["annotations"]["x-kubernetes-validations"] = rule(&[(
        format!("!('{}' in self)", names::ANNOTATION_VERSION),
        format!("spec.pod.annotations: `{}` is the operator's own", names::ANNOTATION_VERSION),
    )]);
    scheduling(pod);
    security(&mut pod["securityContext"]["properties"]);
}

fn environment(variables: &mut Value) {
    variables["maxItems"] = json!(MAX_ENTRIES);
    let item = &mut variables["items"];
    item["required"] = json!(["name"]);
    item["properties"]["name"]["minLength"] = json!(1);
    item["properties"]["name"]["maxLength"] = json!(253);
    item["properties"]["name"]["pattern"] = json!("^[^=]+$");
    let reserved: Vec<String> = RESERVED_VARIABLES.iter().map(|name| format!("'{name}'")).collect();
    item["x-kubernetes-validations"] = rule(&[(
        format!("!(self.name in [{}])", reserved.join(", ")),
        "spec.pod.etcdEnv: the operator sets this variable, or the flag that it stands for; remove it".into(),
    )]);
}

fn scheduling(pod: &mut Value) {
    let toleration = &mut pod["tolerations"]["items"]["properties"];
    // Lt and Gt compare numbers, from Kubernetes 1.35 on.
    words(&mut toleration["operator"], &["", "Equal", "Exists", "Lt", "Gt"]);
    words(&mut toleration["effect"], &["", "NoSchedule", "PreferNoSchedule", "NoExecute"]);
    let spread = &mut pod["topologySpreadConstraints"]["items"];
    spread["required"] = json!(["maxSkew", "topologyKey", "whenUnsatisfiable"]);
    spread["properties"]["maxSkew"]["minimum"] = json!(1);
    spread["properties"]["topologyKey"]["minLength"] = json!(1);
    words(&mut spread["properties"]["whenUnsatisfiable"], &["DoNotSchedule", "ScheduleAnyway"]);
    selectors(&mut pod["topologySpreadConstraints"], &["In", "NotIn", "Exists", "DoesNotExist"]);
    let affinity = &mut pod["affinity"]["properties"];
    selectors(&mut affinity["nodeAffinity"], &["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]);
    for kind in ["podAffinity", "podAntiAffinity"] {
        selectors(&mut affinity[kind], &["In", "NotIn", "Exists", "DoesNotExist"]);
    }
}

/// The operators of all selector terms below a schema, and the weights of preferences.
fn selectors(schema: &mut Value, operators: &[&str]) {
    let Some(object) = schema.as_object_mut() else { return };
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        if properties.contains_key("key") && properties.contains_key("values") {
            words(&mut properties["operator"], operators);
        }
        if let Some(weight) = properties.get_mut("weight") {
            (weight["minimum"], weight["maximum"]) = (json!(1), json!(100));
        }
        properties.values_mut().for_each(|inner| selectors(inner, operators));
    }
    if let Some(items) = object.get_mut("items") {
        selectors(items, operators);
    }
}

fn security(context: &mut Value) {
    let id = |field: &mut Value| (field["minimum"], field["maximum"]) = (json!(0), json!(MAX_ID));
    for field in ["runAsUser", "runAsGroup", "fsGroup"] {
        id(&mut context[field]);
    }
    id(&mut context["supplementalGroups"]["items"]);
    words(&mut context["fsGroupChangePolicy"], &["Always", "OnRootMismatch"]);
    words(&mut context["supplementalGroupsPolicy"], &["Merge", "Strict"]);
    for profile in ["seccompProfile", "appArmorProfile"] {
        words(&mut context[profile]["properties"]["type"], &["RuntimeDefault", "Localhost", "Unconfined"]);
    }
}

/// A schedule of cron: five fields; with `seconds` also six or seven, or a nickname such as `@daily`. A pattern checks the
/// form and the numbers of minutes and hours; the operator reads the rest and reports it in the status.
pub(super) fn schedule(field: &mut Value, seconds: bool) {
    let list = |number: &str| {
        let element = format!(r"(\*|\?|{number}(-{number})?)(/[0-9]+)?");
        format!("{element}(,{element})*")
    };
    let (minute, hour) = (list("[0-5]?[0-9]"), list("([01]?[0-9]|2[0-3])"));
    let other = r"[0-9A-Za-z*?,/#+-]+";
    let five = format!(r"{minute}\s+{hour}(\s+{other}){{3}}");
    let pattern = if seconds {
        // In front of the five, seconds have the form of minutes; a year may follow.
        format!(r"^\s*(@[A-Za-z]+|{five}|{minute}\s+{five}(\s+{other})?)?\s*$")
    } else {
        format!(r"^\s*{five}\s*$")
    };
    field["pattern"] = json!(pattern);
    field["maxLength"] = json!(256);
}

#[cfg(test)]
mod tests {
    use croner::parser::{CronParser, Seconds, Year};
    use olm_crd::schema::Schema;
    use serde_json::{Value, json};

    use super::super::{backup, crd, restore};

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
        let spec =
            json!({ "etcdCluster": { "name": "orders" }, "backupStorageType": "Local", "local": local });
        let restore = (schema(restore::crd()), "EtcdRestore", spec);
        for (schema, kind, spec) in [&cluster, &backup, &restore] {
            for good in ["orders", "a", "orders-2", &"a".repeat(52)] {
                assert_eq!(errors(schema, &object(kind, good, spec)), "", "{kind} {good}");
            }
            for bad in ["dot.name", "-a", "a-", "Orders", "a_b", "", &"a".repeat(64)] {
                let found = errors(schema, &object(kind, bad, spec));
                assert!(found.contains("metadata.name: expected a DNS label"), "{kind} {bad}: {found}");
                // One that was stored before gets its status all the same.
                let mut stored = object(kind, bad, spec);
                stored["status"] = json!({ "reason": "metadata.name" });
                assert_eq!(errors(schema, &stored), "", "{kind} {bad}");
            }
        }
        // A cluster gives its name to Services; a backup and a restore may start with a digit.
        let digit =
            |(schema, kind, spec): &(Schema, &str, Value)| errors(schema, &object(kind, "1digit", spec));
        assert!(digit(&cluster).contains("metadata.name"), "{}", digit(&cluster));
        assert_eq!((digit(&backup), digit(&restore)), (String::new(), String::new()));
        assert!(
            errors(&cluster.0, &object("EtcdCluster", &"a".repeat(53), &cluster.2)).contains("at most 52")
        );
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
            (
                pod("securityContext", json!({ "fsGroup": 2_147_483_648_i64 })),
                "spec.pod.securityContext.fsGroup",
            ),
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
            let said = found(&spec);
            assert!(said.contains(field), "{field} of {spec}: {said:?}");
        }
        for spec in [
            json!({ "size": 1, "storage": { "size": "1Gi" }, "repository": "[::1]:5000/a/etcd" }),
            json!({ "size": 1, "storage": { "size": 1 }, "repository": "localhost/olm/etcd-operator" }),
            pod(
                "resources",
                json!({ "limits": { "cpu": 1, "memory": "1.5Gi" }, "requests": { "cpu": "100m" } }),
            ),
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
                let said = errors(&cluster, &object("EtcdCluster", "orders", &spec));
                assert!(said.is_empty() || five.parse(&text).is_err(), "{text}: {said}");
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
            let said = errors(&backup, &object("EtcdBackup", "nightly", &spec));
            assert!(said.contains("spec.backupPolicy.schedule"), "{text}: {said}");
        }
    }

    #[test]
    fn definitions_are_accepted_by_an_api_server() {
        for definition in [crd(), backup::crd(), restore::crd()] {
            let mut value = serde_json::to_value(definition).unwrap();
            olm_crd::definition::set_defaults(&mut value);
            assert_eq!(olm_crd::definition::check(&value), []);
        }
    }

    /// API servers multiply the cost of a rule by the number of values that it visits at the most: a text or list without
    /// a bound in front of a rule would make the definition invalid there.
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
        for definition in [crd(), backup::crd(), restore::crd()] {
            let value = serde_json::to_value(definition).unwrap();
            walk(&value["spec"]["versions"][0]["schema"]["openAPIV3Schema"], "", true);
        }
    }
}

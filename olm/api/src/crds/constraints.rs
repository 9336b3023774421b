//! Constraints that the types cannot express: upstream's, and a few on fields that upstream does not have.
//!
//! In a path, `N` stands for the elements of a list.

mod policy;

use serde_json::{Value, json};

/// Required fields of user-written parts. Status is written by controllers with typed clients. The inside of
/// a ClusterServiceVersion comes from bundles, and real ones omit what Go's types write as empty text.
const REQUIRED: &[(&str, &str, &[&str])] = &[
    ("CatalogSource", "", &["spec"]),
    ("CatalogSource", "/spec", &["sourceType"]),
    ("CatalogSource", "/spec/icon", &["base64data", "mediatype"]),
    ("CatalogSource", "/status/conditions/N", &["type"]),
    ("Subscription", "", &["spec"]),
    ("Subscription", "/spec", &["name", "source", "sourceNamespace"]),
    ("Subscription", "/spec/config/env/N", &["name"]),
    ("Subscription", "/spec/config/volumes/N", &["name"]),
    ("Subscription", "/spec/config/volumeMounts/N", &["mountPath", "name"]),
    ("Subscription", "/spec/config/selector/matchExpressions/N", &["key", "operator"]),
    ("InstallPlan", "", &["spec"]),
    ("InstallPlan", "/spec", &["approval", "approved", "clusterServiceVersionNames"]),
    ("ClusterServiceVersion", "", &["spec"]),
    ("ClusterServiceVersion", "/spec", &["displayName", "install"]),
    ("OperatorGroup", "/spec/selector/matchExpressions/N", &["key", "operator"]),
    ("OperatorCondition", "/spec/overrides/N", &["message", "reason", "status", "type"]),
    (
        "OperatorCondition",
        "/spec/conditions/N",
        &["lastTransitionTime", "message", "reason", "status", "type"],
    ),
    ("InstallPolicy", "", &["spec"]),
    ("InstallPolicy", "/spec/namespaceSelector/matchExpressions/N", &["key", "operator"]),
    ("InstallPolicy", "/spec/allow/N/catalogs/N", &["namespace", "name"]),
    ("InstallPolicy", "/spec/deny", &["rights"]),
    ("InstallPolicy", "/spec/deny/rights/N", &["verbs"]),
    ("InstallPolicy", "/spec/signatures/N", &["images", "anyOf"]),
    ("InstallPolicy", "/spec/approvals", &["high"]),
];

/// Applies the tables to the schema of a kind.
pub(super) fn apply(kind: &str, schema: &mut Value) {
    // kube's derive makes spec required; upstream allows some kinds without it
    if let Some(object) = schema.as_object_mut() {
        object.remove("required");
    }
    for (_, path, names) in REQUIRED.iter().filter(|(of, ..)| *of == kind) {
        set(schema, path, &json!({ "required": names }));
    }
    for (path, keywords) in keywords(kind) {
        set(schema, &path, &keywords);
    }
}

/// Other keywords: enumerations, limits, defaults, CEL rules.
fn keywords(kind: &str) -> Vec<(String, Value)> {
    let list = match kind {
        "CatalogSource" => vec![(
            "/status/conditions",
            json!({ "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"] }),
        )],
        "InstallPlan" => vec![("/spec/approval", json!({ "enum": ["Automatic", "Manual", ""] }))],
        "Subscription" => vec![
            // templates write an empty text for an absent value
            ("/spec/installPlanApproval", json!({ "enum": ["Automatic", "Manual", ""] })),
            (
                "/spec/deletionPolicy",
                json!({ "x-kubernetes-validations": [{
                "rule": "!(has(self.crds) && self.crds == 'Delete' && has(self.operands) && self.operands == 'Orphan')",
                "message": "operands: Orphan keeps custom resources, crds: Delete deletes them; choose one",
            }] }),
            ),
        ],
        "ClusterServiceVersion" => vec![
            ("/spec/release", release()),
            (
                "/spec/webhookdefinitions/N/containerPort",
                json!({ "default": 443, "minimum": 1, "maximum": 65535 }),
            ),
            (
                "/spec/webhookdefinitions/N/type",
                json!({ "enum": ["ValidatingAdmissionWebhook", "MutatingAdmissionWebhook", "ConversionWebhook"] }),
            ),
        ],
        "OperatorGroup" => vec![
            ("/spec", json!({ "default": { "upgradeStrategy": "Default" } })),
            ("/spec/upgradeStrategy", json!({ "default": "Default" })),
            ("/spec/targetNamespaces", json!({ "x-kubernetes-list-type": "set" })),
            ("/status/namespaces", json!({ "x-kubernetes-list-type": "set" })),
        ],
        "OperatorCondition" => {
            return ["/spec/overrides/N", "/spec/conditions/N"].into_iter().flat_map(condition).collect();
        }
        "OLMConfig" => vec![(
            "/spec/features/packageServerSyncInterval",
            json!({ "pattern": r"^([0-9]+(\.[0-9]+)?(s|m|h))+$" }),
        )],
        "InstallPolicy" => return policy::keywords(),
        _ => Vec::new(),
    };
    list.into_iter().map(|(path, keywords)| (path.to_owned(), keywords)).collect()
}

/// The packaging revision is the pre-release part of a semantic version.
fn release() -> Value {
    json!({
        "maxLength": 20,
        "x-kubernetes-validations": [
            {
                "rule": r"self.matches('^[0-9A-Za-z-]+(\\.[0-9A-Za-z-]+)*$')",
                "message": "release is made of letters, digits and hyphens, in parts separated by dots",
            },
            {
                "rule": "!self.split('.').exists(part, part.matches('^0[0-9]+$'))",
                "message": "a part of release that is a number has no zero in front",
            },
        ],
    })
}

/// The limits of the condition type of Kubernetes.
fn condition(at: &str) -> Vec<(String, Value)> {
    let name = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
    vec![
        (format!("{at}/type"), json!({ "maxLength": 316, "pattern": name })),
        (format!("{at}/status"), json!({ "enum": ["True", "False", "Unknown"] })),
        (
            format!("{at}/reason"),
            json!({ "minLength": 1, "maxLength": 1024, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$" }),
        ),
        (format!("{at}/message"), json!({ "maxLength": 32768 })),
        (format!("{at}/observedGeneration"), json!({ "minimum": 0 })),
    ]
}

/// The schema of a field.
pub(super) fn at<'a>(schema: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    path.split('/').filter(|part| !part.is_empty()).try_fold(schema, |schema, part| match part {
        "N" => schema.get_mut("items"),
        field => schema.get_mut("properties")?.get_mut(field),
    })
}

/// Ignores a field of the tables that the types do not have; a test reports it.
fn set(schema: &mut Value, path: &str, keywords: &Value) {
    let (Some(Value::Object(schema)), Some(keywords)) = (at(schema, path), keywords.as_object()) else {
        return;
    };
    for (key, value) in keywords {
        schema.insert(key.clone(), value.clone());
    }
}

/// Paths of the tables without a field; a test requires an empty list.
#[cfg(test)]
pub(super) fn dangling(kind: &str, schema: &mut Value) -> Vec<String> {
    let required = REQUIRED.iter().filter(|(of, ..)| *of == kind).map(|(_, path, _)| (*path).to_owned());
    let paths: Vec<String> = required.chain(keywords(kind).into_iter().map(|(path, _)| path)).collect();
    paths.into_iter().filter(|path| at(schema, path).is_none()).collect()
}

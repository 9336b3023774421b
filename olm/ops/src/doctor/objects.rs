//! Compares roles, policies and the other objects of the installation with those that `olm self install`
//! applies.

use std::collections::BTreeSet;

use futures::{StreamExt as _, stream};
use kube::Client;
use olm_engine::{
    resources::{Id, ResourceError, Resources},
    site::MANAGER,
};
use olm_plan::{Access, Rule};
use serde_json::Value;

use super::problem::{Code, Problem};
use crate::manifests::{ManifestOptions, for_server, installation::Installation, manifests, surplus};

/// Kinds of the installation that are compared. CustomResourceDefinitions and workloads have checks of their
/// own; catalogs are the user's.
const KINDS: &[&str] = &[
    "ServiceAccount",
    "Service",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "APIService",
];
const AT_ONCE: usize = 8;

/// An object as it is applied, and the live one.
#[derive(Debug, Clone)]
pub(super) struct Compared {
    pub(super) wanted: Value,
    pub(super) live: Option<Value>,
}

/// The objects of an installation. Those of another version are unknown. Without the options of the
/// installation (a Helm release has them in its values), only objects that do not depend on them are known.
fn expected_objects(found: &Installation) -> Vec<Value> {
    if found.version.as_deref() != Some(env!("CARGO_PKG_VERSION")) {
        return Vec::new();
    }
    let options = found.options.clone().unwrap_or_else(|| ManifestOptions {
        namespace: found.namespace.clone(),
        console_image: None,
        network_policy: false,
        ..ManifestOptions::default()
    });
    manifests(&options)
        .into_iter()
        .filter(|o| o["kind"].as_str().is_some_and(|k| KINDS.contains(&k)))
        .collect()
}

/// Reads the objects of an installation. The second part lists what was unreadable.
pub(super) async fn read(client: &Client, found: &Installation) -> (Vec<Compared>, Vec<String>) {
    let resources = Resources::new(client.clone());
    let (mut out, mut unread) = (Vec::new(), BTreeSet::new());
    let wanted = match for_server(client, expected_objects(found)).await {
        Ok(wanted) => wanted,
        Err(error) => return (out, vec![format!("API discovery: {error}")]),
    };
    // Collected first: a lazy closure over references would make the caller's future not Send.
    let reads: Vec<_> = wanted.into_iter().map(|wanted| live(&resources, wanted)).collect();
    for result in stream::iter(reads).buffered(AT_ONCE).collect::<Vec<_>>().await {
        match result {
            Ok(compared) => out.push(compared),
            Err(why) => drop(unread.insert(why)),
        }
    }
    (out, unread.into_iter().collect())
}

async fn live(resources: &Resources, wanted: Value) -> Result<Compared, String> {
    let kind = wanted["kind"].as_str().unwrap_or_default().to_owned();
    let place = wanted["metadata"]["namespace"].as_str();
    let place = place.map_or(String::new(), |namespace| format!(" in namespace {namespace}"));
    let failed = |error: ResourceError| {
        let cause = if error.is_forbidden() { "forbidden".to_owned() } else { error.to_string() };
        format!("{kind} objects of the installation{place}: {cause}")
    };
    let id = Id::of(&wanted).map_err(failed)?;
    let live = resources.get(&id).await.map_err(failed)?;
    Ok(Compared { wanted, live })
}

pub(super) fn check(compared: &[Compared]) -> Vec<Problem> {
    compared.iter().filter_map(one).collect()
}

fn one(compared: &Compared) -> Option<Problem> {
    let wanted = &compared.wanted;
    let text = |pointer: &str| wanted.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let kind = text("/kind");
    let name = match text("/metadata/namespace") {
        "" => format!("{kind} {}", text("/metadata/name")),
        namespace => format!("{kind} {namespace}/{}", text("/metadata/name")),
    };
    let why = match &compared.live {
        None => "missing from the cluster".to_owned(),
        Some(live) => match surplus(wanted, live).first() {
            Some(field) => format!("field {} is not part of what `olm self install` applies", dotted(field)),
            // Its rights have a check of their own, which names the missing ones.
            None if kind == "ClusterRole" && text("/metadata/name") == MANAGER => {
                let more = more_rights(wanted, live)?;
                format!("it grants more than `olm self install` applies: {more}")
            }
            None => {
                let field = difference(&spec(wanted), live, "")?;
                format!("field {field} is not what `olm self install` applies")
            }
        },
    };
    let fix = "olm self upgrade  # applies the objects of this version";
    Some(Problem::new(Code::InstallationDiffers, Some(name), why).fix(fix))
}

/// A field as messages show it: keys with dots in brackets.
fn dotted(field: &[String]) -> String {
    let key = |key: &String| if key.contains('.') { format!("[{key}]") } else { format!(".{key}") };
    field.iter().map(key).collect::<String>().trim_start_matches('.').to_owned()
}

/// The rights of a live role that the wanted one does not grant.
fn more_rights(wanted: &Value, live: &Value) -> Option<String> {
    let rules = |role: &Value| -> Vec<Rule> {
        role["rules"].as_array().into_iter().flatten().map(Rule::of).collect()
    };
    let more = Access::unknown().with_cluster(rules(wanted)).lacks(&rules(live), None)?;
    (!more.is_empty()).then(|| more.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

/// An object without the fields that do not affect its function.
fn spec(wanted: &Value) -> Value {
    let mut out = wanted.clone();
    if let Some(object) = out.as_object_mut() {
        object.remove("metadata");
    }
    out
}

/// The first field of `wanted` that differs in `live`. Fields that only `live` has are defaults of the API
/// server; lists are compared whole.
fn difference(wanted: &Value, live: &Value, path: &str) -> Option<String> {
    let here = || Some(path.trim_start_matches('.').to_owned());
    match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => wanted.iter().find_map(|(key, value)| {
            let path = format!("{path}.{key}");
            match live.get(key) {
                Some(live) => difference(value, live, &path),
                None if is_empty(value) => None,
                None => Some(path.trim_start_matches('.').to_owned()),
            }
        }),
        (Value::Array(wanted), Value::Array(live)) if wanted.len() == live.len() => {
            let mut pairs = wanted.iter().zip(live).enumerate();
            pairs.find_map(|(n, (wanted, live))| difference(wanted, live, &format!("{path}[{n}]")))
        }
        (Value::Number(wanted), Value::Number(live)) if wanted.as_f64() == live.as_f64() => None,
        (wanted, live) if wanted == live || is_empty(wanted) && is_empty(live) => None,
        _ => here(),
    }
}

/// Whether the API server may omit a value.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn installed(options: Option<ManifestOptions>) -> Installation {
        let version = Some(env!("CARGO_PKG_VERSION").to_owned());
        Installation { namespace: "olm".into(), version, options, unknown_options: Vec::new() }
    }

    fn role_binding(compared: &mut [Compared]) -> &mut Compared {
        compared.iter_mut().find(|c| c.wanted["kind"] == "ClusterRoleBinding").unwrap()
    }

    fn as_applied() -> Vec<Compared> {
        let objects = expected_objects(&installed(Some(ManifestOptions::default())));
        objects.into_iter().map(|wanted| Compared { live: Some(wanted.clone()), wanted }).collect()
    }

    #[test]
    fn what_was_applied_and_defaulted_does_not_differ() {
        let mut compared = as_applied();
        for one in &mut compared {
            let live = one.live.as_mut().unwrap();
            live["metadata"]["uid"] = json!("u");
            live["metadata"]["labels"]["argocd.argoproj.io/instance"] = json!("site");
            live["status"] = json!({ "observed": 1 });
            if live["kind"] == "ValidatingAdmissionPolicy" {
                live["spec"]["matchConstraints"]["matchPolicy"] = json!("Equivalent");
            }
        }
        assert_eq!(check(&compared), []);
        for kind in
            KINDS.iter().filter(|kind| !["PodDisruptionBudget", "APIService", "Service"].contains(kind))
        {
            assert!(compared.iter().any(|c| c.wanted["kind"] == **kind), "{kind} is not compared");
        }
    }

    #[test]
    fn what_is_missing_or_changed_is_reported_with_the_field() {
        let mut compared = as_applied();
        role_binding(&mut compared).live = None;
        let found = check(&compared);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].why, "missing from the cluster");

        let mut compared = as_applied();
        role_binding(&mut compared).live.as_mut().unwrap()["subjects"][0]["name"] = json!("other");
        let found = check(&compared);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].object.as_deref(), Some("ClusterRoleBinding olm-manager"));
        assert_eq!(found[0].why, "field subjects[0].name is not what `olm self install` applies");

        let mut compared = as_applied();
        let policy =
            compared.iter_mut().find(|c| c.wanted["kind"] == "ValidatingAdmissionPolicyBinding").unwrap();
        policy.live.as_mut().unwrap()["spec"]["validationActions"] = json!(["Warn"]);
        assert_eq!(
            check(&compared)[0].why,
            "field spec.validationActions[0] is not what `olm self install` applies"
        );
    }

    #[test]
    fn t07_labels_and_rights_of_others_are_reported() {
        let role = |compared: &mut [Compared]| -> usize {
            let is =
                |c: &Compared| c.wanted["kind"] == "ClusterRole" && c.wanted["metadata"]["name"] == MANAGER;
            compared.iter().position(is).unwrap()
        };
        let mut compared = as_applied();
        let at = role(&mut compared);
        let live = compared[at].live.as_mut().unwrap();
        live["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] = json!("true");
        assert_eq!(
            check(&compared)[0].why,
            "field metadata.labels[rbac.authorization.k8s.io/aggregate-to-view] is not part of what `olm \
                self install` applies"
        );
        let mut compared = as_applied();
        let rule = json!({ "apiGroups": [""], "resources": ["secrets"], "verbs": ["list"] });
        compared[at].live.as_mut().unwrap()["rules"].as_array_mut().unwrap().push(rule);
        let found = check(&compared);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].why, "it grants more than `olm self install` applies: list secrets");
    }

    #[test]
    fn an_installation_of_another_version_or_without_options_is_compared_as_far_as_it_is_known() {
        let other = Installation { version: Some("9.9.9".into()), ..installed(None) };
        assert!(expected_objects(&other).is_empty());
        let helm = expected_objects(&installed(None));
        assert!(helm.iter().any(|o| o["kind"] == "ClusterRole"));
        assert!(helm.iter().all(|o| o["kind"] != "NetworkPolicy"));
    }
}

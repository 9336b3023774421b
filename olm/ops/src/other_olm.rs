//! Detects another OLM on the cluster.

use std::fmt;

use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams},
    core::GroupVersionKind,
};
use serde::Serialize;
use serde_json::Value;

use crate::Error;

/// The label of OLM v0's Deployments that change operators.
pub const OTHER_OLM_SELECTOR: &str = "app in (olm-operator,catalog-operator)";
/// OLM v0's aggregated API, and its Service. Ours has the same name and another Service.
const API_SERVICE: &str = "v1.packages.operators.coreos.com";
const API_SERVER: &str = "packageserver-service";

/// Another running OLM: two managers of the same objects revert each other's changes endlessly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OtherOlm {
    /// Its Deployments that have pods, as `namespace/name`.
    pub deployments: Vec<String>,
    /// Its aggregated API, where that answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_service: Option<String>,
}

impl OtherOlm {
    /// Identifies the other OLM. Pure.
    fn of(deployments: &[Deployment], api_service: Option<&Value>) -> Option<Self> {
        let mut running: Vec<String> = deployments
            .iter()
            .filter(|d| has_pods(d))
            .map(|d| format!("{}/{}", d.namespace().unwrap_or_default(), d.name_any()))
            .collect();
        running.sort();
        let api_service = api_service.filter(|object| answers(object)).map(|_| API_SERVICE.to_owned());
        let found = Self { deployments: running, api_service };
        (!found.deployments.is_empty() || found.api_service.is_some()).then_some(found)
    }

    /// The commands that stop it and leave everything that it installed.
    #[must_use]
    pub fn fix(&self) -> String {
        let scale = |deployment: &String| {
            let (namespace, name) = deployment.split_once('/').unwrap_or(("", deployment));
            format!("kubectl scale deployment -n {namespace} {name} --replicas=0")
        };
        let mut commands: Vec<String> = self.deployments.iter().map(scale).collect();
        if let Some(name) = &self.api_service {
            commands.push("kubectl scale deployment -n NAMESPACE packageserver --replicas=0".to_owned());
            commands.push(format!("kubectl delete apiservice {name}"));
        }
        commands.join("; ")
    }
}

impl fmt::Display for OtherOlm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "another OLM is running on this cluster:")?;
        if !self.deployments.is_empty() {
            write!(f, " Deployments {} have pods", self.deployments.join(", "))?;
        }
        if let Some(name) = &self.api_service {
            let and = if self.deployments.is_empty() { "" } else { " and" };
            write!(f, "{and} APIService {name} is served by its packageserver")?;
        }
        Ok(())
    }
}

/// A crash-looping one acts between crashes.
fn has_pods(deployment: &Deployment) -> bool {
    let wanted = deployment.spec.replicas.unwrap_or(1);
    let status = deployment.status.as_ref();
    wanted > 0 && status.is_some_and(|s| s.replicas.unwrap_or(0) > 0 || s.available_replicas.unwrap_or(0) > 0)
}

fn answers(api_service: &Value) -> bool {
    let text = |pointer: &str| api_service.pointer(pointer).and_then(Value::as_str);
    let conditions = api_service.pointer("/status/conditions").and_then(Value::as_array);
    let available =
        conditions.into_iter().flatten().any(|c| c["type"] == "Available" && c["status"] == "True");
    text("/spec/service/name") == Some(API_SERVER) && available
}

/// Looks for another running OLM: `olm` is not installed next to it, and the manager is idle while it runs.
///
/// # Errors
/// [`Error::Forbidden`] when Deployments may not be listed in all namespaces.
pub async fn find_other_olm(client: &Client) -> Result<Option<OtherOlm>, Error> {
    let list =
        Api::<Deployment>::all(client.clone()).list(&ListParams::default().labels(OTHER_OLM_SELECTOR)).await;
    let list = list.map_err(Error::kube("list the Deployments of another OLM"))?;
    let gvk = GroupVersionKind::gvk("apiregistration.k8s.io", "v1", "APIService");
    let resource = ApiResource::from_gvk_with_plural(&gvk, "apiservices");
    let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
    let found = match api.get_opt(API_SERVICE).await {
        Ok(found) => found.and_then(|object| serde_json::to_value(object).ok()),
        // Without the right, or without aggregation, the Deployments alone decide.
        Err(kube::Error::Api(status)) if status.is_forbidden() || status.is_not_found() => None,
        Err(error) => return Err(Error::kube(format!("get APIService {API_SERVICE}"))(error)),
    };
    Ok(OtherOlm::of(&list.items, found.as_ref()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(name: &str, wanted: i32, pods: i32, available: i32) -> Deployment {
        serde_json::from_value(json!({
            "metadata": { "name": name, "namespace": "olm-v0" },
            "spec": { "replicas": wanted, "selector": {}, "template": {} },
            "status": { "replicas": pods, "availableReplicas": available },
        }))
        .unwrap()
    }

    fn api_service(service: &str, available: &str) -> Value {
        json!({ "spec": { "service": { "name": service, "namespace": "olm-v0" } },
                "status": { "conditions": [{ "type": "Available", "status": available }] } })
    }

    #[test]
    fn an_olm_that_has_pods_is_one_that_runs() {
        let (ours, theirs) = (api_service("olm-packages", "True"), api_service(API_SERVER, "True"));
        let dead = api_service(API_SERVER, "False");
        let cases: [(&str, Vec<Deployment>, Option<&Value>, bool); 7] = [
            ("nothing", vec![], None, false),
            ("available", vec![deployment("olm-operator", 1, 1, 1)], None, true),
            ("crashing", vec![deployment("catalog-operator", 1, 1, 0)], None, true),
            ("scaled down", vec![deployment("olm-operator", 0, 0, 0)], None, false),
            ("still stopping", vec![deployment("olm-operator", 0, 1, 1)], None, false),
            ("its API answers", vec![], Some(&theirs), true),
            ("its API is dead", vec![], Some(&dead), false),
        ];
        for (name, deployments, api, expected) in cases {
            assert_eq!(OtherOlm::of(&deployments, api).is_some(), expected, "{name}");
        }
        assert_eq!(OtherOlm::of(&[], Some(&ours)), None, "our own shim of that API");
    }

    #[test]
    fn it_is_named_with_the_commands_that_stop_it() {
        let other = OtherOlm::of(&[deployment("olm-operator", 1, 1, 1)], None).unwrap();
        assert_eq!(
            other.to_string(),
            "another OLM is running on this cluster: Deployments olm-v0/olm-operator have pods"
        );
        assert_eq!(other.fix(), "kubectl scale deployment -n olm-v0 olm-operator --replicas=0");
    }
}

//! Aggregated APIs.

use std::collections::BTreeSet;

use olm_api::csv::ApiServiceDescription;
use serde_json::{Value, json};

use super::Served;
use super::endpoint::{CaPlace, port, service_name};

/// Order of groups and versions for clients that name none; upstream's numbers.
const GROUP_PRIORITY: i32 = 2000;
const VERSION_PRIORITY: i32 = 20;

fn api_service_name(api: &ApiServiceDescription) -> String {
    format!("{}.{}", api.version, api.group)
}

/// The field for its CA bundle.
pub(super) fn place(api: &ApiServiceDescription) -> CaPlace {
    CaPlace {
        api_version: "apiregistration.k8s.io/v1",
        kind: "APIService",
        name: api_service_name(api),
        pointer: "/spec/caBundle",
    }
}

/// One APIService for each version of a group, whatever the number of its kinds.
pub(super) fn objects(served: &Served<'_>) -> Vec<Value> {
    let mut seen = BTreeSet::new();
    let apis = served.apis.iter().filter(|api| seen.insert((&api.group, &api.version)));
    let object = |api: &ApiServiceDescription| {
        json!({
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": api_service_name(api), "labels": served.target.owner_labels()},
            "spec": {
                "group": api.group,
                "version": api.version,
                "groupPriorityMinimum": GROUP_PRIORITY,
                "versionPriority": VERSION_PRIORITY,
                "service": {
                    "name": service_name(api.deployment_name.as_deref().unwrap_or_default()),
                    "namespace": served.target.options.install_namespace,
                    "port": port(api.container_port),
                },
            },
        })
    };
    apis.map(object).collect()
}

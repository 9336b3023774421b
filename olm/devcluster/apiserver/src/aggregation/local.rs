//! APIServices for the resources of this server: one for each group and version, managed by the server.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use super::{
    registered::{GROUP, STORED},
    rules::condition,
};
use crate::{
    meta,
    resource::Body,
    state::Server,
    store::{Key, WriteError},
};

/// Marks an APIService as created by the server, and whether it is deleted with its CRD.
const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
const OF_CRD: &str = "true";
const BUILT_IN: &str = "onstart";
/// Kubernetes' priority of CRDs.
const CRD_PRIORITY: (i64, i64) = (1000, 100);
/// Priority of built-in groups outside of the table.
const OTHER_PRIORITY: (i64, i64) = (15_000, 15);
/// Kubernetes' priorities: they order groups in discovery.
const PRIORITIES: &[(&str, (i64, i64))] = &[
    ("", (18_000, 1)),
    ("apps", (17_800, 15)),
    ("events.k8s.io", (17_750, 5)),
    ("authentication.k8s.io", (17_700, 15)),
    ("authorization.k8s.io", (17_600, 15)),
    ("autoscaling", (17_500, 15)),
    ("batch", (17_400, 15)),
    ("certificates.k8s.io", (17_300, 15)),
    ("networking.k8s.io", (17_200, 15)),
    ("policy", (17_100, 15)),
    ("rbac.authorization.k8s.io", (17_000, 15)),
    ("storage.k8s.io", (16_800, 15)),
    ("apiextensions.k8s.io", (16_700, 15)),
    ("admissionregistration.k8s.io", (16_700, 15)),
    ("scheduling.k8s.io", (16_600, 15)),
    ("coordination.k8s.io", (16_500, 15)),
    ("node.k8s.io", (16_300, 15)),
    ("discovery.k8s.io", (16_200, 12)),
];

/// Updates the local APIServices to the served groups.
pub(crate) async fn sync(server: &Arc<Server>) {
    if let Err(error) = try_sync(server).await {
        tracing::warn!(%error, "failed to update the APIServices of this server");
    }
}

async fn try_sync(server: &Arc<Server>) -> Result<(), WriteError> {
    // Serialized: a concurrent update would write an outdated list.
    let _turn = server.aggregation.sync_lock.lock().await;
    let wanted = desired(server);
    for object in server.store.list(STORED, "").items {
        let of_crd = object.pointer("/metadata/labels").is_some_and(|labels| labels[MANAGED] == OF_CRD);
        if of_crd && !wanted.contains_key(meta::name(&object)) {
            let key = Key::new(STORED, "", meta::name(&object));
            match server.store.write(&key, Some(&object), None).await {
                Ok(_) | Err(WriteError::Raced) => {}
                Err(error) => return Err(error),
            }
        }
    }
    for (name, object) in wanted {
        let key = Key::new(STORED, "", &name);
        if server.store.get(&key).is_none() {
            match server.store.write(&key, None, Some(object)).await {
                Ok(_) | Err(WriteError::Raced) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

fn desired(server: &Server) -> BTreeMap<String, Value> {
    let served = server.registry.served();
    let custom = |group: &str, version: &str| {
        served
            .resources
            .iter()
            .filter(|r| r.group == group && r.version == version)
            .all(|r| matches!(r.body, Body::Custom { .. }))
            && served.resources.iter().any(|r| r.group == group && r.version == version)
    };
    let core = std::iter::once((String::new(), vec!["v1".to_owned()]));
    let groups = core.chain(served.groups());
    let all = groups.flat_map(|(group, versions)| versions.into_iter().map(move |v| (group.clone(), v)));
    // As in Kubernetes, the group of APIServices itself has none.
    all.filter(|(group, _)| group != GROUP)
        .map(|(group, version)| {
            let managed = if custom(&group, &version) { OF_CRD } else { BUILT_IN };
            let name = format!("{version}.{group}");
            let object = object(&name, &group, &version, managed);
            (name, object)
        })
        .collect()
}

fn object(name: &str, group: &str, version: &str, managed: &str) -> Value {
    let listed = PRIORITIES.iter().find(|(known, _)| *known == group).map(|(_, priority)| *priority);
    let (group_priority, version_priority) =
        if managed == OF_CRD { CRD_PRIORITY } else { listed.unwrap_or(OTHER_PRIORITY) };
    json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {
            "name": name, "labels": { (MANAGED): managed },
            "uid": meta::new_uid(), "creationTimestamp": meta::now(),
        },
        "spec": {
            "group": group, "version": version,
            "groupPriorityMinimum": group_priority, "versionPriority": version_priority,
        },
        "status": { "conditions": [condition()] },
    })
}

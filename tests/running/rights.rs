//! The manager has exactly the permissions that it needs: every call of a complete run is allowed, and unused
//! permissions are listed here with the reason.

use std::collections::BTreeSet;

use anyhow::ensure;
use olm_ops::manifests::{ManifestOptions, manifests};
use olm_tests::inprocess::{Call, Catalog, Operator, World, crd};
use serde_json::{Value, json};

use super::run;

/// Group, resource.
type GroupResource = (String, String);

/// Not used in this run.
const NOT_HERE: &[(&str, &[&str], &str)] = &[
    ("policy", &["poddisruptionbudgets"], "bundles may bring them"),
    ("networking.k8s.io", &["networkpolicies"], "bundles may bring them"),
    ("scheduling.k8s.io", &["priorityclasses"], "bundles may bring them"),
    (
        "monitoring.coreos.com",
        &["prometheusrules", "servicemonitors", "podmonitors"],
        "bundles may bring them",
    ),
    (
        "",
        &["configmaps", "secrets", "services", "pods"],
        "bundles may bring them; pods of a rollout that does not finish",
    ),
    ("discovery.k8s.io", &["endpointslices"], "webhooks that stand in the way"),
    ("authentication.k8s.io", &["tokenreviews"], "readers of its port"),
    ("authorization.k8s.io", &["subjectaccessreviews"], "users who are not cluster administrators"),
    (
        "admissionregistration.k8s.io",
        &["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"],
        "Subscriptions without a recorded author",
    ),
    (
        "admissionregistration.k8s.io",
        &["validatingwebhookconfigurations", "mutatingwebhookconfigurations"],
        "operators with webhooks",
    ),
    ("apiregistration.k8s.io", &["apiservices"], "operators with aggregated APIs"),
    (
        "operators.coreos.com",
        &[
            "operators/status",
            "olmconfigs",
            "olmconfigs/status",
            "operatorgroups/status",
            "operatorconditions/status",
            "installplans/status",
        ],
        "written when there is something to report",
    ),
];

fn resource_of(call: &Call) -> Option<(GroupResource, &'static str)> {
    let mut parts = call.path.trim_start_matches('/').split('/');
    let group = match parts.next()? {
        "api" => {
            parts.next()?;
            ""
        }
        "apis" => {
            let group = parts.next()?;
            parts.next()?;
            group
        }
        _ => return None,
    };
    let mut rest: Vec<&str> = parts.collect();
    if rest.first() == Some(&"namespaces") && rest.len() > 2 && !matches!(rest[2], "status" | "finalize") {
        rest.drain(..2);
    }
    let name = rest.get(1);
    let resource = match (rest.first()?, rest.get(2)) {
        (resource, Some(sub)) => format!("{resource}/{sub}"),
        (resource, None) => (*resource).to_owned(),
    };
    let verb = match call.method.as_str() {
        "GET" if call.is_watch() => "watch",
        "GET" if name.is_none() => "list",
        "GET" => "get",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        _ => "delete",
    };
    Some(((group.to_owned(), resource), verb))
}

#[test]
fn every_call_of_a_whole_life_is_allowed_and_nothing_is_allowed_for_nothing() {
    run(async {
        // given a manager with the permissions of its manifests and no others
        let (world, manager) = World::start().await?;
        let rule = json!({ "apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"] });
        let operator = |version: &str| {
            // an image without a registry: whether a node has it is looked up
            Operator::new("a", version)
                .image("localhost/a:1.0.0")
                .owns(crd("as", "a.example.com", "A", &["v1"]))
                .permission("a", rule.clone())
                .cluster_permission(
                    "a",
                    json!({ "apiGroups": [""], "resources": ["nodes"], "verbs": ["list"] }),
                )
        };
        let (old, new) = (operator("1.0.0"), operator("1.1.0"));

        // when an operator is installed, upgraded and removed
        world.publish("catalog", &Catalog::chain(&[&old])).await?;
        world.home("a").await?;
        world.subscribe("a", "a").await?;
        world.installed("a", "a", &old.name).await?;
        world.publish("catalog", &Catalog::chain(&[&old, &new])).await?;
        world.installed("a", "a", &new.name).await?;
        world.delete("Subscription", "a", "a").await?;
        world.gone("Subscription", "a", "a").await?;
        world.quiet().await?;
        manager.stop().await?;

        // then no call was forbidden
        let calls = world.faults.calls();
        let refused: Vec<String> =
            calls.iter().filter(|c| c.status == Some(403)).map(ToString::to_string).collect();
        ensure!(refused.is_empty(), "{refused:#?}");

        // and the unused permissions are listed
        let used: BTreeSet<GroupResource> =
            calls.iter().filter_map(resource_of).map(|(thing, _)| thing).collect();
        let role = manifests(&ManifestOptions::default())
            .into_iter()
            .find(|o| o["kind"] == "ClusterRole" && o["metadata"]["name"] == "olm-manager")
            .unwrap_or_default();
        let words = |value: &Value| -> Vec<String> {
            value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let mut unused = Vec::new();
        for rule in role["rules"].as_array().into_iter().flatten() {
            for group in words(&rule["apiGroups"]) {
                for resource in words(&rule["resources"]) {
                    // No call names finalizers or impersonated accounts: the API server checks these
                    // permissions implicitly.
                    let hidden = resource.ends_with("/finalizers") || rule["verbs"] == json!(["impersonate"]);
                    let excused = NOT_HERE
                        .iter()
                        .any(|(g, resources, _)| *g == group && resources.contains(&resource.as_str()));
                    let thing = (group.clone(), resource);
                    if !hidden && !excused && !used.contains(&thing) {
                        unused.push(thing);
                    }
                }
            }
        }
        ensure!(unused.is_empty(), "rights that were not used: {unused:?}");
        Ok(())
    });
}

//! The cost of checking that the author of a request has the rights of its plan.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use kube::Client;
use olm_devcluster::api::Identity;
use olm_tests::inprocess::{Catalog, Operator, World, crd};
use serde_json::{Value, json};

use super::{lifecycle::succeeded, table::Row};

/// Pairs of installs, one by an administrator and one by a user with exactly the required rights.
const PAIRS: usize = 7;
/// ConfigMaps of each operator: with its definition, account, role, binding, Deployment, version and the roles for its kind 20 objects.
const CONFIG_MAPS: usize = 10;

fn operator(number: usize) -> Operator {
    let package = format!("by-{number}");
    let rule = json!({ "apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list", "watch", "create", "update"] });
    let operator = Operator::new(&package, "1.0.0")
        .owns(crd("bys", &format!("by{number}.example.com"), "By", &["v1"]))
        .permission(&package, rule);
    (0..CONFIG_MAPS).fold(operator, |operator, n| {
        operator.object(json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": format!("{package}-{n}") } }))
    })
}

fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Value {
    json!({ "apiGroups": groups, "resources": resources, "verbs": verbs })
}

pub(super) async fn row() -> Result<Row> {
    let world = World::bare().await?;
    let manager = world.manager("bench")?;
    let operators: Vec<Operator> = (0..=PAIRS * 2).map(operator).collect();
    let catalog = operators.iter().fold(Catalog::new(), |catalog, one| catalog.and_chain(&[one]));
    world.publish("catalog", &catalog).await?;
    let write = ["get", "list", "watch", "create", "update", "patch", "delete"];
    let groups: Vec<String> = (0..operators.len()).map(|n| format!("by{n}.example.com")).collect();
    let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
    let rules = [
        rule(&["operators.coreos.com"], &["*"], &write),
        rule(&["apiextensions.k8s.io"], &["customresourcedefinitions"], &write),
        rule(&["rbac.authorization.k8s.io"], &["clusterroles", "roles", "rolebindings"], &write),
        rule(&["apps"], &["deployments"], &write),
        rule(&[""], &["serviceaccounts", "configmaps", "pods"], &write),
        rule(&groups, &["*"], &["*"]),
    ];
    world.allow("jane", "", &rules).await?;
    let jane = world.client_of(Identity::user("jane", ["dev"]));
    let (warm, operators) = operators.split_first().context("an operator")?;
    install(&world, &jane, warm).await?;
    let (mut extra, mut reviews) = (Vec::new(), 0);
    for pair in operators.chunks_exact(2) {
        let (by_admin, _) = install(&world, &world.client, &pair[0]).await?;
        let (by_jane, asked) = install(&world, &jane, &pair[1]).await?;
        extra.push(by_jane.as_secs_f64() - by_admin.as_secs_f64());
        reviews = asked;
    }
    manager.stop().await?;
    extra.sort_by(f64::total_cmp);
    Ok(Row {
        what: "install of 20 objects by a user with just these rights: more time than by an administrator",
        measured: extra[PAIRS / 2] * 1000.0,
        limit: 10.0,
        unit: "ms",
        note: format!(
            "{reviews} SubjectAccessReviews; median of {PAIRS} pairs, from the Subscription to Succeeded"
        ),
    })
}

/// Its duration, and the number of reviews.
async fn install(world: &World, client: &Client, operator: &Operator) -> Result<(Duration, usize)> {
    let package = operator.package.as_str();
    world.home(package).await?;
    world.quiet().await?;
    let (from, start) = (world.faults.count(), Instant::now());
    world.create_as(client, &World::subscription(package, package)).await?;
    succeeded(world, package, &operator.name).await?;
    let took = start.elapsed();
    let calls = world.faults.calls();
    let reviews = calls.iter().skip(from).filter(|call| call.to_string().contains("subjectaccessreviews"));
    Ok((took, reviews.count()))
}

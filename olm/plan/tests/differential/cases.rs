//! Cases 49 and 51 of reference/olm.md 9.5: steps after the choice.

use std::collections::BTreeSet;

use olm_bundle::{Bundle, RenderOptions, render};
use olm_resolver::Action;
use serde_json::{Value, json};

use crate::{ask, catalog_of, id};

/// A bundle that is only an image in the catalog can be chosen: the catalog has everything needed to download
/// it (its image, its name, its edges, its properties, its catalog). OLM adds a `BundleLookup` with
/// conditions to the plan and unpacks with a Job; here the process downloads and unpacks it before there is a
/// plan (tested by `a_bundle_that_is_an_image_is_handed_out_with_its_manifests` in olm/manager/src/http.rs).
#[test]
fn case_49_bundle_by_image() {
    let documents = [
        json!({ "schema": "olm.package", "name": "a", "defaultChannel": "alpha" }),
        json!({ "schema": "olm.channel", "package": "a", "name": "alpha",
                "entries": [{ "name": "a.v1" }, { "name": "a.v2", "replaces": "a.v1" }] }),
        json!({ "schema": "olm.bundle", "package": "a", "name": "a.v1", "image": "quay.io/example/a:v1",
                "properties": [{ "type": "olm.package", "value": { "packageName": "a", "version": "1.0.0" } }] }),
        json!({ "schema": "olm.bundle", "package": "a", "name": "a.v2", "image": "quay.io/example/a:v2",
                "properties": [
                    { "type": "olm.package", "value": { "packageName": "a", "version": "2.0.0" } },
                    { "type": "olm.gvk.required", "value": { "group": "g", "version": "v", "kind": "k" } }] }),
        json!({ "schema": "olm.package", "name": "b", "defaultChannel": "beta" }),
        json!({ "schema": "olm.channel", "package": "b", "name": "beta", "entries": [{ "name": "b.v1" }] }),
        json!({ "schema": "olm.bundle", "package": "b", "name": "b.v1", "image": "quay.io/example/b:v1",
                "properties": [
                    { "type": "olm.package", "value": { "packageName": "b", "version": "1.0.0" } },
                    { "type": "olm.gvk", "value": { "group": "g", "version": "v", "kind": "k" } }] }),
    ];
    let text: String = documents.iter().map(|d| format!("{d}\n")).collect();
    let catalog = olm_catalog::Catalog::from_bytes("cat", text.as_bytes());
    let universe = catalog_of("cat", text.as_bytes());
    // when it is chosen
    let item = ask(&universe, "a", Some("alpha"), Some("a.v1")).unwrap();
    assert_eq!(
        (item.action, item.chosen.name.as_str(), &item.chosen.catalog),
        (Action::Upgrade, "a.v2", &id())
    );
    assert_eq!(item.from.unwrap().name, "a.v1");
    // then the catalog has its image
    let package = catalog.package("a").unwrap().unwrap();
    assert_eq!(package.bundles["a.v2"].image.as_deref(), Some("quay.io/example/a:v2"));
    assert_eq!(package.bundles["a.v2"].properties.len(), 2);
    // and the dependency, for which a Subscription is created, names its channel and catalog
    let [dependency] = item.dependencies.as_slice() else { panic!("{:?}", item.dependencies) };
    let olm_resolver::SatisfiedBy::Install(along) = &dependency.satisfied_by else {
        panic!("{dependency:?}")
    };
    assert_eq!((along.name.as_str(), along.channel.as_str(), &along.catalog), ("b.v1", "beta", &id()));
}

fn kinds(account: &str) -> BTreeSet<String> {
    let rules = json!([{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }]);
    let permissions = json!([{ "serviceAccountName": account, "rules": rules }]);
    let deployment = json!({ "name": "a", "spec": {
        "replicas": 1, "selector": { "matchLabels": { "app": "a" } },
        "template": { "metadata": { "labels": { "app": "a" } }, "spec": {
            "serviceAccountName": account, "containers": [{ "name": "a", "image": "localhost/a:1" }] } } } });
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": { "name": "a.v1" },
        "spec": { "displayName": "A", "version": "1.0.0",
            "installModes": [{ "type": "OwnNamespace", "supported": true }],
            "install": { "strategy": "deployment", "spec": {
                "permissions": permissions, "clusterPermissions": permissions, "deployments": [deployment] } } }
    });
    let options = RenderOptions {
        install_namespace: "ns".into(),
        target_namespaces: vec!["ns".into()],
        operator_group: Some("og".into()),
        subscription_config: None,
    };
    let rendered = render(&Bundle::from_objects(vec![csv]).unwrap(), &options).unwrap();
    let kind = |object: &Value| object["kind"].as_str().unwrap_or_default().to_owned();
    rendered.objects().map(|(_, object)| kind(object)).filter(|kind| kind != "Deployment").collect()
}

/// The permissions of a bundle become a Role and a ClusterRole with their bindings, and a ServiceAccount,
/// unless that is the default one of every namespace.
#[test]
fn case_51_rbac_steps() {
    let named = ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount"];
    assert_eq!(kinds("test-sa"), named.map(str::to_owned).into());
    let default = ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];
    assert_eq!(kinds("default"), default.map(str::to_owned).into());
}

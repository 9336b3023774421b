//! PackageManifests, as tools of OLM v0 request them: through the API server, with the manager's own
//! certificate.

use anyhow::{Context as _, Result, ensure};
use kube::Client;
use olm_devcluster::api::Identity;
use olm_ops::manifests::{ManifestOptions, manifests};
use olm_tests::inprocess::{Catalog, Manager, OLM, World, local_address, text};
use serde_json::{Value, json};

use crate::{op, run};

const IN_NS: &str = "/apis/packages.operators.coreos.com/v1/namespaces/ns/packagemanifests";
const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// A cluster whose installation has the API, and a manager that serves it.
async fn world() -> Result<(World, Manager)> {
    let world = World::bare().await?;
    let address = std::net::TcpListener::bind((local_address(), 0))?.local_addr()?;
    let options = |package_manifests| ManifestOptions {
        package_manifests,
        console_image: None,
        shipped_catalog: false,
        ..ManifestOptions::default()
    };
    let without = manifests(&options(false));
    let named = |object: &Value| {
        (object["kind"].as_str().map(str::to_owned), object["metadata"]["name"].as_str().map(str::to_owned))
    };
    let mut more = 0;
    for object in manifests(&options(true)) {
        if without.iter().any(|other| named(other) == named(&object)) {
            continue;
        }
        match object["kind"] == "Service" {
            true => world.route(&object, address).await?,
            false => world.apply(&object).await.map(drop)?,
        }
        more += 1;
    }
    ensure!(more >= 3, "only {more} objects are there for the API alone");
    let manager = world
        .manager_with(olm_manager::Options { secure_listen: Some(address), ..world.options("manager-0") })?;
    Ok((world, manager))
}

async fn ask(client: &Client, path: &str, accept: &str) -> Result<Value> {
    let request = http::Request::get(path).header("accept", accept).body(Vec::new())?;
    Ok(serde_json::from_str(&client.request_text(request).await?)?)
}

/// PM-1: fields, list, table and icon of packages; changes of a CatalogSource are visible; unauthorized users
/// see nothing.
#[test]
fn packages_are_listed_through_the_api_server() {
    run(async {
        let (world, _manager) = world().await?;
        world.home("ns").await?;
        // given a catalog
        let catalog = Catalog::chain(&[&op("1.0.0"), &op("2.0.0")]);
        let shown = |name: &'static str| {
            move |source: &mut Value| {
                source["spec"]["displayName"] = name.into();
                source["spec"]["publisher"] = "us".into();
                source["metadata"]["labels"] = json!({ "tier": "gold" });
            }
        };
        world.publish_with("catalog", &catalog, shown("Our operators")).await?;
        // then the API is available with the manager's certificate, and kubectl prints its table
        let available = |api: &Value| {
            let conditions = api["status"]["conditions"].as_array();
            conditions.into_iter().flatten().any(|c| c["type"] == "Available" && c["status"] == "True")
        };
        world.until("APIService", "", "v1.packages.operators.coreos.com", available).await?;
        // and it is discovered: kubectl knows the kind, and a namespace can be deleted, which needs all kinds
        world
            .eventually("the API to be discovered", async || {
                let groups = ask(&world.client, "/apis", DISCOVERY).await?;
                let ours = |group: &&Value| group["metadata"]["name"] == "packages.operators.coreos.com";
                let group = groups["items"].as_array().and_then(|all| all.iter().find(ours));
                let version = &group.context("the group is not there")?["versions"][0];
                ensure!(version["freshness"] == "Current", "{version}");
                ensure!(version["resources"][0]["resource"] == "packagemanifests", "{version}");
                Ok(())
            })
            .await?;
        world.namespace("goes").await?;
        world.delete("Namespace", "", "goes").await?;
        world.gone("Namespace", "", "goes").await?;
        let table = world
            .eventually("the package to be listed", async || {
                let table = ask(&world.client, IN_NS, TABLE).await?;
                ensure!(table["rows"][0]["cells"][0] == "a", "{table}");
                Ok(table)
            })
            .await?;
        ensure!(table["rows"][0]["cells"][1] == "Our operators", "{table}");
        let found = ask(&world.client, &format!("{IN_NS}/a"), "application/json").await?;
        ensure!(
            text(&found, "/status/packageName") == "a" && text(&found, "/status/catalogSource") == "catalog"
        );
        ensure!(text(&found, "/status/catalogSourceNamespace") == OLM, "{found}");
        ensure!(text(&found, "/metadata/namespace") == "ns", "{found}");
        ensure!(found["metadata"]["labels"]["catalog"] == "catalog", "{found}");
        ensure!(found["metadata"]["labels"]["tier"] == "gold", "{found}");
        let channel = found["status"]["channels"].as_array().and_then(|c| c.first()).context("a channel")?;
        ensure!(channel["name"] == found["status"]["defaultChannel"], "{found}");
        ensure!(channel["currentCSV"] == "a.v2.0.0", "{channel}");
        ensure!(channel["currentCSVDesc"]["version"] == "2.0.0", "{channel}");
        ensure!(channel["entries"].as_array().is_some_and(|e| e.len() == 2), "{channel}");
        let icon = http::Request::get(format!("{IN_NS}/a/icon")).body(Vec::new())?;
        ensure!(world.client.request_text(icon).await?.starts_with("<svg"), "no icon");
        // and what is selected
        for (selector, count) in [("catalog%3Dcatalog", 1), ("catalog%3Dother", 0)] {
            let path = format!("{IN_NS}?labelSelector={selector}");
            let list = ask(&world.client, &path, "application/json").await?;
            ensure!(list["items"].as_array().is_some_and(|items| items.len() == count), "{selector}: {list}");
        }
        // when the catalog changes its display name, then so do its packages
        world.publish_with("catalog", &catalog, shown("Other name")).await?;
        world
            .eventually("the new name", async || {
                let table = ask(&world.client, IN_NS, TABLE).await?;
                ensure!(table["rows"][0]["cells"][1] == "Other name", "{table}");
                Ok(())
            })
            .await?;
        // and a user without access to the namespace sees none of it, until it is granted
        let ann = world.client_of(Identity::user("ann", []));
        let refused = ask(&ann, IN_NS, "application/json").await;
        ensure!(refused.as_ref().is_err_and(|error| error.to_string().contains("forbidden")), "{refused:?}");
        let binding = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": { "name": "ann", "namespace": "ns" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view" },
            "subjects": [{ "kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io" }] });
        world.apply(&binding).await?;
        world
            .eventually("ann to see packages", async || {
                let list = ask(&ann, IN_NS, "application/json").await?;
                ensure!(list["items"].as_array().is_some_and(|items| items.len() == 1), "{list}");
                Ok(())
            })
            .await
    });
}

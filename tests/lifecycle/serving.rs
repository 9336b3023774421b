//! Webhooks and APIServices of operators: their certificates, when they are enabled, and their removal.

use anyhow::{Context as _, Result, ensure};
use olm_tests::inprocess::{Catalog, Endpoint, Operator, World, crd, text};
use serde_json::{Value, json};

use crate::{a_crd, op, scenario};

fn rules(group: &str, resource: &str) -> Value {
    json!([{ "apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource] }])
}

fn hooked(version: &str) -> Operator {
    op(version).owns(a_crd(&["v1"])).webhook(
        "ValidatingAdmissionWebhook",
        "check.a.example.com",
        rules("a.example.com", "as"),
    )
}

async fn configurations(world: &World, kind: &str) -> Result<Vec<Value>> {
    world.list(kind, "").await
}

async fn the_one(world: &World, kind: &str, csv: &str) -> Result<Value> {
    world
        .eventually(&format!("the {kind} of {csv}"), async || {
            let all = configurations(world, kind).await?;
            ensure!(all.len() == 1, "there are {}", all.len());
            ensure!(text(&all[0], "/metadata/labels/olm.owner") == csv, "{}", all[0]["metadata"]["labels"]);
            Ok(all[0].clone())
        })
        .await
}

async fn install(world: &World, group: &[&str], operators: &[&Operator]) -> Result<()> {
    world.publish("catalog", &Catalog::chain(operators)).await?;
    world.namespace("ns").await?;
    world.group("ns", group).await?;
    world.subscribe("ns", "a").await?;
    let last = operators.last().map(|o| o.name.clone()).unwrap_or_default();
    world.installed("ns", "a", &last).await
}

/// WH-1, WH-9: a webhook is called for the namespaces that its operator watches, and trusts the CA of its
/// certificate.
#[test]
fn a_webhook_is_for_the_namespaces_of_its_group() {
    scenario(async |world, _manager| {
        install(&world, &["ns"], &[&hooked("1.0.0")]).await?;
        let found = the_one(&world, "ValidatingWebhookConfiguration", "a.v1.0.0").await?;
        let hook = &found["webhooks"][0];
        ensure!(!text(hook, "/clientConfig/caBundle").is_empty(), "{hook}");
        ensure!(
            text(hook, "/clientConfig/service/name") == "a-service"
                && text(hook, "/clientConfig/service/namespace") == "ns",
            "{hook}"
        );
        let own = json!({ "matchExpressions": [
            { "key": "kubernetes.io/metadata.name", "operator": "In", "values": ["ns"] }
        ] });
        ensure!(hook["namespaceSelector"] == own, "{}", hook["namespaceSelector"]);
        // The certificate is mounted where operators expect it.
        let deployment = world.get("Deployment", "ns", "a").await?;
        let mounts = deployment["spec"]["template"]["spec"]["containers"][0]["volumeMounts"].to_string();
        ensure!(mounts.contains("/tmp/k8s-webhook-server/serving-certs"), "{mounts}");
        let secret = world.get("Secret", "ns", "a-service-cert").await?;
        for key in ["tls.crt", "tls.key", "olmCAKey"] {
            ensure!(secret["data"][key].is_string(), "no {key}");
        }
        // for all namespaces there is no selector
        world.patch("OperatorGroup", "ns", "own", &json!({ "spec": { "targetNamespaces": null } })).await?;
        world
            .eventually("the webhook to be for all namespaces", async || {
                let found = the_one(&world, "ValidatingWebhookConfiguration", "a.v1.0.0").await?;
                let selector = &found["webhooks"][0]["namespaceSelector"];
                ensure!(selector.as_object().is_none_or(serde_json::Map::is_empty), "{selector}");
                Ok(())
            })
            .await
    });
}

/// WH-1, WH-9: the webhook applies to objects in the namespaces of its group, and nowhere else.
#[test]
fn webhooks_are_asked() {
    scenario(async |world, _manager| {
        let port = Endpoint::start(world.client.clone(), "ns", "a-service-cert").await?.port;
        let a = hooked("1.0.0")
            .image("example.invalid/local:1")
            .webhook("MutatingAdmissionWebhook", "change.a.example.com", rules("a.example.com", "as"))
            .csv(|csv| {
                for hook in csv["spec"]["webhookdefinitions"].as_array_mut().into_iter().flatten() {
                    hook["targetPort"] = port.into();
                    if hook["type"] == "MutatingAdmissionWebhook" {
                        hook["webhookPath"] = "/mutate".into();
                    }
                }
            });
        install(&world, &["ns"], &[&a]).await?;
        let object = |namespace: &str, name: &str| {
            json!({ "apiVersion": "a.example.com/v1", "kind": "A",
                "metadata": { "name": name, "namespace": namespace } })
        };
        let error = world.apply(&object("ns", "forbidden")).await.err().context("it was let in")?;
        ensure!(format!("{error:#}").contains("the operator forbids it"), "{error:#}");
        let changed = world.apply(&object("ns", "change-me")).await?;
        ensure!(changed["metadata"]["annotations"]["changed"] == "yes", "{changed}");
        // A namespace outside of the group must not be affected: a call would deny or change the object.
        world.namespace("elsewhere").await?;
        world
            .apply(&object("elsewhere", "forbidden"))
            .await
            .context("it was asked about another namespace")?;
        let left = world.apply(&object("elsewhere", "change-me")).await?;
        ensure!(left["metadata"]["annotations"]["changed"].is_null(), "{left}");
        Ok(())
    });
}

/// WH-2: a reconciled version keeps its authority.
#[test]
fn the_authority_stays_the_same() {
    scenario(async |world, _manager| {
        install(&world, &["ns"], &[&hooked("1.0.0")]).await?;
        let before = world.get("Secret", "ns", "a-service-cert").await?;
        world
            .patch_status(
                "ClusterServiceVersion",
                "ns",
                "a.v1.0.0",
                &json!({ "status": { "phase": "Pending" } }),
            )
            .await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await?;
        world.quiet().await?;
        let after = world.get("Secret", "ns", "a-service-cert").await?;
        ensure!(before["data"] == after["data"], "the certificate is another one");
        Ok(())
    });
}

/// Changes of a webhook's Service are reverted, without any other event.
#[test]
fn the_service_of_a_webhook_is_corrected() {
    scenario(async |world, _manager| {
        install(&world, &["ns"], &[&hooked("1.0.0")]).await?;
        world.quiet().await?;
        let before = world.get("Service", "ns", "a-service").await?;
        // when its selector changes
        let elsewhere = json!({ "spec": { "selector": { "app": "another" } } });
        world.patch("Service", "ns", "a-service", &elsewhere).await?;
        world
            .until("Service", "ns", "a-service", |s| s["spec"]["selector"] == before["spec"]["selector"])
            .await?;
        // when it is gone
        world.quiet().await?;
        world.delete("Service", "ns", "a-service").await?;
        let uid = |service: &Value| text(service, "/metadata/uid").to_owned();
        let after = world.until("Service", "ns", "a-service", |s| uid(s) != uid(&before)).await?;
        for field in ["/spec/selector", "/spec/ports", "/metadata/labels"] {
            ensure!(after.pointer(field) == before.pointer(field), "{after}");
        }
        world.csv("ns", "a.v1.0.0", "Succeeded").await.map(drop)
    });
}

/// WH-3: two webhooks of one name.
#[test]
fn two_webhooks_of_one_name_are_refused() {
    refused(
        hooked("1.0.0").webhook(
            "ValidatingAdmissionWebhook",
            "check.a.example.com",
            rules("a.example.com", "as"),
        ),
        "check.a.example.com",
    );
}

/// WH-4: no webhook may intercept the manager's own objects, or admission itself.
#[test]
fn a_webhook_on_everything_is_refused() {
    for (group, resource) in [
        ("*", "*"),
        ("operators.coreos.com", "*"),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ] {
        let a =
            op("1.0.0").webhook("ValidatingAdmissionWebhook", "all.a.example.com", rules(group, resource));
        refused(a, "webhookdefinitions[0]");
    }
}

/// Refused with the webhook's name, and nothing half done; the next version fixes it.
fn refused(broken: Operator, names: &'static str) {
    scenario(async move |world, _manager| {
        world.publish("catalog", &Catalog::chain(&[&broken])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world
            .eventually("the webhook to be named", async || {
                let mut objects = world.list("ClusterServiceVersion", "ns").await?;
                objects.push(world.get("Subscription", "ns", "a").await?);
                let all: Vec<String> = objects.iter().map(|o| o["status"].to_string()).collect();
                ensure!(all.iter().any(|s| s.contains(names)), "{all:?}");
                Ok(())
            })
            .await?;
        ensure!(
            configurations(&world, "ValidatingWebhookConfiguration").await?.is_empty(),
            "switched on all the same"
        );
        world.publish("catalog", &Catalog::chain(&[&op("1.0.1")])).await?;
        world.installed("ns", "a", "a.v1.0.1").await
    });
}

/// WH-5: other objects of that group are harmless.
#[test]
fn a_webhook_on_a_harmless_resource_of_that_group_is_accepted() {
    scenario(async |world, _manager| {
        let a = op("1.0.0").webhook(
            "ValidatingAdmissionWebhook",
            "some.a.example.com",
            rules("admissionregistration.k8s.io", "somethings"),
        );
        install(&world, &["ns"], &[&a]).await?;
        the_one(&world, "ValidatingWebhookConfiguration", "a.v1.0.0").await.map(drop)
    });
}

/// WH-6: an upgrade replaces the webhook, as does an edit of the version.
#[test]
fn an_upgrade_swaps_the_webhook() {
    scenario(async |world, _manager| {
        let (one, two) = (
            hooked("1.0.0"),
            hooked("2.0.0").deployment_name("a-two").csv(|csv| {
                csv["spec"]["webhookdefinitions"][0]["deploymentName"] = "a-two".into();
            }),
        );
        install(&world, &["ns"], &[&one]).await?;
        the_one(&world, "ValidatingWebhookConfiguration", "a.v1.0.0").await?;
        world.publish("catalog", &Catalog::chain(&[&one, &two])).await?;
        world.installed("ns", "a", "a.v2.0.0").await?;
        let found = the_one(&world, "ValidatingWebhookConfiguration", "a.v2.0.0").await?;
        ensure!(
            text(&found, "/webhooks/0/clientConfig/service/name") == "a-two-service",
            "{}",
            found["webhooks"]
        );
        world.gone("Deployment", "ns", "a").await?;
        world.gone("Service", "ns", "a-service").await?;
        let mut definitions =
            world.get("ClusterServiceVersion", "ns", "a.v2.0.0").await?["spec"]["webhookdefinitions"].clone();
        definitions[0]["generateName"] = "other.a.example.com".into();
        world
            .patch(
                "ClusterServiceVersion",
                "ns",
                "a.v2.0.0",
                &json!({ "spec": { "webhookdefinitions": definitions } }),
            )
            .await?;
        world
            .eventually("the edit to be carried out", async || {
                let found = the_one(&world, "ValidatingWebhookConfiguration", "a.v2.0.0").await?;
                ensure!(text(&found, "/webhooks/0/name") == "other.a.example.com", "{}", found["webhooks"]);
                Ok(())
            })
            .await
    });
}

/// WH-7: an invalid certificate is replaced, and the webhook updated.
#[test]
fn a_bad_certificate_is_replaced() {
    scenario(async |world, _manager| {
        install(&world, &["ns"], &[&hooked("1.0.0")]).await?;
        let before = the_one(&world, "ValidatingWebhookConfiguration", "a.v1.0.0").await?;
        let bad = json!({ "data": { "tls.crt": "bm9uZQ==", "tls.key": "bm9uZQ==", "olmCAKey": "bm9uZQ==" } });
        world.patch("Secret", "ns", "a-service-cert", &bad).await?;
        world.touch("ClusterServiceVersion", "ns", "a.v1.0.0").await?;
        world.until("Secret", "ns", "a-service-cert", |s| s["data"]["tls.crt"] != "bm9uZQ==").await?;
        world
            .eventually("the new authority in the webhook", async || {
                let now = the_one(&world, "ValidatingWebhookConfiguration", "a.v1.0.0").await?;
                let bundle = |c: &Value| text(c, "/webhooks/0/clientConfig/caBundle").to_owned();
                ensure!(bundle(&now) != bundle(&before), "the old one");
                Ok(())
            })
            .await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await.map(drop)
    });
}

/// WH-8: two installs of one operator, in namespaces of their own, have a webhook each.
#[test]
fn two_installs_of_one_operator_have_a_webhook_each() {
    scenario(async |world, _manager| {
        world.publish("catalog", &Catalog::chain(&[&hooked("1.0.0")])).await?;
        for namespace in ["one", "two"] {
            world.home(namespace).await?;
            world.subscribe(namespace, "a").await?;
            world.installed(namespace, "a", "a.v1.0.0").await?;
        }
        let of = |hooks: &[Value]| {
            let mut places: Vec<String> = hooks
                .iter()
                .map(|h| text(h, "/webhooks/0/clientConfig/service/namespace").to_owned())
                .collect();
            places.sort();
            places
        };
        world
            .eventually("two webhooks", async || {
                let found = of(&configurations(&world, "ValidatingWebhookConfiguration").await?);
                ensure!(found == ["one", "two"], "{found:?}");
                Ok(())
            })
            .await?;
        // one is deleted with its operator, the other stays
        world.delete("Subscription", "one", "a").await?;
        world.delete("ClusterServiceVersion", "one", "a.v1.0.0").await?;
        world
            .eventually("one webhook", async || {
                let found = of(&configurations(&world, "ValidatingWebhookConfiguration").await?);
                ensure!(found == ["two"], "{found:?}");
                Ok(())
            })
            .await
    });
}

fn converting(crds: &[&str]) -> Operator {
    let crds = json!(crds);
    let mut a = a_crd(&["v1", "v2"]);
    a["spec"]["preserveUnknownFields"] = false.into();
    op("1.0.0").owns(a).csv(|csv| {
        csv["spec"]["webhookdefinitions"] = json!([{
            "type": "ConversionWebhook", "generateName": "convert.a.example.com", "deploymentName": "a", "containerPort": 443,
            "targetPort": 9443, "sideEffects": "None", "admissionReviewVersions": ["v1"], "webhookPath": "/convert", "conversionCRDs": crds,
        }]);
    })
}

/// WH-9: conversion is set up in the operator's own CRD.
#[test]
fn a_conversion_webhook_is_set_up_in_its_crd() {
    scenario(async |world, _manager| {
        install(&world, &[], &[&converting(&["as.a.example.com"]).modes(&["AllNamespaces"])]).await?;
        let crd = world
            .until("CustomResourceDefinition", "", "as.a.example.com", |c| {
                text(c, "/spec/conversion/strategy") == "Webhook"
            })
            .await?;
        let config = &crd["spec"]["conversion"]["webhook"]["clientConfig"];
        ensure!(
            text(config, "/service/namespace") == "ns" && text(config, "/service/path") == "/convert",
            "{config}"
        );
        ensure!(!text(config, "/caBundle").is_empty(), "{config}");
        Ok(())
    });
}

/// Objects of package `a` in a version.
fn objects(world: &World, version: &str) -> kube::Api<kube::api::DynamicObject> {
    let gvk = kube::core::GroupVersionKind::gvk("a.example.com", version, "A");
    let resource = kube::api::ApiResource::from_gvk_with_plural(&gvk, "as");
    kube::Api::namespaced_with(world.client.clone(), "ns", &resource)
}

/// WH-9: and the operator converts: an object stored in one version is read in the other as it converts it.
#[test]
fn objects_are_converted_by_the_operator() {
    scenario(async |world, _manager| {
        // given a serving operator
        let port = Endpoint::start(world.client.clone(), "ns", "a-service-cert").await?.port;
        let a = converting(&["as.a.example.com"])
            .modes(&["AllNamespaces"])
            .image("example.invalid/local:1")
            .csv(|csv| csv["spec"]["webhookdefinitions"][0]["targetPort"] = port.into());
        install(&world, &[], &[&a]).await?;
        world
            .until("CustomResourceDefinition", "", "as.a.example.com", |c| {
                text(c, "/spec/conversion/strategy") == "Webhook"
            })
            .await?;
        // when an object is written in the version that is stored
        let one = json!({ "apiVersion": "a.example.com/v1", "kind": "A",
            "metadata": { "name": "one", "namespace": "ns" }, "spec": { "size": 3 } });
        world.apply(&one).await?;
        // then it is read in the other as converted by the operator; the API server alone would change
        // nothing in `spec`
        let converted = json!({ "size": 3, "convertedTo": "a.example.com/v2" });
        world
            .eventually("the object, converted", async || {
                let read = objects(&world, "v2").get("one").await?;
                ensure!(read.data["spec"] == converted, "{}", read.data);
                Ok(())
            })
            .await?;
        // and in its own version no webhook is called
        let read = objects(&world, "v1").get("one").await?;
        ensure!(read.data["spec"] == json!({ "size": 3 }), "{}", read.data);
        // and a list is converted as well
        let list = objects(&world, "v2").list(&kube::api::ListParams::default()).await?;
        let specs: Vec<&Value> = list.items.iter().map(|object| &object.data["spec"]).collect();
        ensure!(specs == [&converted], "{specs:?}");
        Ok(())
    });
}

/// WH-10: a foreign CRD is not touched.
#[test]
fn a_conversion_of_a_foreign_crd_is_refused() {
    scenario(async |world, _manager| {
        let foreign = crd("others", "other.example.com", "Other", &["v1"]);
        world.apply(&foreign).await?;
        world.namespace("ns").await?;
        world.group("ns", &[]).await?;
        world
            .publish(
                "catalog",
                &Catalog::chain(&[&converting(&["others.other.example.com"]).modes(&["AllNamespaces"])]),
            )
            .await?;
        world.subscribe("ns", "a").await?;
        world
            .eventually("the CRD to be named", async || {
                let mut objects = world.list("ClusterServiceVersion", "ns").await?;
                objects.push(world.get("Subscription", "ns", "a").await?);
                let all: Vec<String> = objects.iter().map(|o| o["status"].to_string()).collect();
                ensure!(all.iter().any(|s| s.contains("others.other.example.com")), "{all:?}");
                Ok(())
            })
            .await?;
        let crd = world.get("CustomResourceDefinition", "", "others.other.example.com").await?;
        ensure!(text(&crd, "/spec/conversion/strategy") != "Webhook", "{}", crd["spec"]["conversion"]);
        Ok(())
    });
}

/// WH-11: a conversion is cluster-wide, so an operator that can watch less than that may not have one.
#[test]
fn a_conversion_by_an_operator_of_some_namespaces_is_refused() {
    scenario(async |world, _manager| {
        world.namespace("ns").await?;
        world.group("ns", &[]).await?;
        world.publish("catalog", &Catalog::chain(&[&converting(&["as.a.example.com"])])).await?;
        world.subscribe("ns", "a").await?;
        world
            .eventually("the webhook to be named", async || {
                let mut objects = world.list("ClusterServiceVersion", "ns").await?;
                objects.push(world.get("Subscription", "ns", "a").await?);
                let all: Vec<String> = objects.iter().map(|o| o["status"].to_string()).collect();
                ensure!(all.iter().any(|s| s.to_lowercase().contains("conversion")), "{all:?}");
                Ok(())
            })
            .await
    });
}

fn aggregated(version: &str, port: u16) -> Operator {
    op(version).image("example.invalid/local:1").csv(|csv| {
        csv["spec"]["apiservicedefinitions"] = json!({ "owned": [{
            "group": "packages.a.example.com", "version": "v1", "kind": "Thing", "name": "things", "deploymentName": "a", "containerPort": port,
        }] });
    })
}

/// CSV-6: an APIService has its Service, certificate and rights, passes to the next version, and is deleted
/// with the last.
#[test]
fn an_api_service_comes_and_goes_with_its_operator() {
    scenario(async |world, _manager| {
        let port = Endpoint::start(world.client.clone(), "ns", "a-service-cert").await?.port;
        install(&world, &["ns"], &[&aggregated("1.0.0", port)]).await?;
        let name = "v1.packages.a.example.com";
        let api = world.eventually(name, async || world.get("APIService", "", name).await).await?;
        ensure!(
            text(&api, "/spec/service/name") == "a-service" && !text(&api, "/spec/caBundle").is_empty(),
            "{}",
            api["spec"]
        );
        ensure!(text(&api, "/metadata/labels/olm.owner") == "a.v1.0.0", "{}", api["metadata"]["labels"]);
        let uid = api["metadata"]["uid"].clone();
        let names = world.names("RoleBinding", "kube-system").await?;
        let reader = names.into_iter().find(|name| name.starts_with("a-service-auth-reader-"));
        let reader = reader.context("the right to read how callers authenticate")?;
        let binding = world.get("RoleBinding", "kube-system", &reader).await?;
        ensure!(text(&binding, "/subjects/0/namespace") == "ns", "{binding}");
        let delegator = reader.replace("-auth-reader-", "-system:auth-delegator-");
        world.get("ClusterRoleBinding", "", &delegator).await?;
        let mounts = world.get("Deployment", "ns", "a").await?["spec"]["template"]["spec"]["containers"][0]["volumeMounts"].to_string();
        ensure!(mounts.contains("/apiserver.local.config/certificates"), "{mounts}");
        // CSV-12: the next version adopts it
        world
            .publish("catalog", &Catalog::chain(&[&aggregated("1.0.0", port), &aggregated("2.0.0", port)]))
            .await?;
        world.installed("ns", "a", "a.v2.0.0").await?;
        let api = world
            .until("APIService", "", name, |a| text(a, "/metadata/labels/olm.owner") == "a.v2.0.0")
            .await?;
        ensure!(api["metadata"]["uid"] == uid, "it was made anew");
        world.delete("Subscription", "ns", "a").await?;
        world.delete("ClusterServiceVersion", "ns", "a.v2.0.0").await?;
        world.gone("APIService", "", name).await?;
        world.gone("RoleBinding", "kube-system", &reader).await?;
        world.gone("ClusterRoleBinding", "", &delegator).await?;
        world.gone("Secret", "ns", "a-service-cert").await
    });
}

/// CSV-12: a foreign APIService is not adopted.
#[test]
fn a_foreign_api_service_is_not_taken_over() {
    scenario(async |world, _manager| {
        let port = Endpoint::start(world.client.clone(), "one", "a-service-cert").await?.port;
        world.publish("catalog", &Catalog::chain(&[&aggregated("1.0.0", port)])).await?;
        for namespace in ["one", "two"] {
            world.home(namespace).await?;
        }
        world.subscribe("one", "a").await?;
        world.installed("one", "a", "a.v1.0.0").await?;
        world.subscribe("two", "a").await?;
        world
            .eventually("the APIService to be named", async || {
                let mut objects = world.list("ClusterServiceVersion", "two").await?;
                objects.push(world.get("Subscription", "two", "a").await?);
                let all: Vec<String> = objects.iter().map(|o| o["status"].to_string()).collect();
                ensure!(
                    all.iter()
                        .any(|s| s.contains("v1.packages.a.example.com") || s.contains("OwnerConflict")),
                    "{all:?}"
                );
                Ok(())
            })
            .await?;
        let api = world.get("APIService", "", "v1.packages.a.example.com").await?;
        ensure!(text(&api, "/spec/service/namespace") == "one", "{}", api["spec"]);
        world.csv("one", "a.v1.0.0", "Succeeded").await.map(drop)
    });
}

/// CSV-13: several APIs of one Deployment share its Service and certificate.
#[test]
fn several_api_services_share_a_service() {
    scenario(async |world, _manager| {
        let port = Endpoint::start(world.client.clone(), "ns", "a-service-cert").await?.port;
        let a = aggregated("1.0.0", port).csv(|csv| {
            let owned = csv["spec"]["apiservicedefinitions"]["owned"].as_array_mut();
            let mut second = owned.as_ref().and_then(|o| o.first().cloned()).unwrap_or_default();
            second["group"] = "other.a.example.com".into();
            if let Some(owned) = owned {
                owned.push(second);
            }
        });
        install(&world, &["ns"], &[&a]).await?;
        for name in ["v1.packages.a.example.com", "v1.other.a.example.com"] {
            let api = world.eventually(name, async || world.get("APIService", "", name).await).await?;
            ensure!(text(&api, "/spec/service/name") == "a-service", "{}", api["spec"]);
        }
        let services = world.names("Service", "ns").await?;
        ensure!(services == ["a-service"], "{services:?}");
        Ok(())
    });
}

/// CSV-5: an APIService that another operator must provide.
#[test]
fn a_required_api_service_is_waited_for() {
    scenario(async |world, _manager| {
        world.home("ns").await?;
        let a = crate::without_rights("1.0.0").csv(|csv| {
            csv["spec"]["apiservicedefinitions"] = json!({ "required": [{ "group": "metrics.example.com", "version": "v1", "kind": "Metric", "name": "metrics" }] });
        });
        world.apply(&a.manifest("ns")).await?;
        let csv = world.csv("ns", "a.v1.0.0", "Pending").await?;
        let all = csv["status"]["requirementStatus"].as_array().context("requirements")?;
        ensure!(
            all.iter().any(|r| r["kind"] == "APIService"
                && r["name"] == "v1.metrics.example.com"
                && r["status"] == "NotPresent"),
            "{all:?}"
        );
        Ok(())
    });
}

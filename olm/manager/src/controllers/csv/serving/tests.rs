use jiff::SignedDuration;
use olm_api::ClusterServiceVersion;
use olm_bundle::{Bundle, RenderOptions, Rendered, render};
use olm_engine::ownership::Owner;
use serde_json::json;

use super::*;
use crate::certs::issue;

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn csv(change: impl FnOnce(&mut Value)) -> (ClusterServiceVersion, Rendered) {
    let mut csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": { "name": "thing.v1", "namespace": "ns", "uid": "u" },
        "spec": {
            "version": "1.0.0",
            "installModes": [{ "type": "AllNamespaces", "supported": true }],
            "customresourcedefinitions": { "owned": [{ "name": "things.example.com", "version": "v1", "kind": "Thing" }] },
            "webhookdefinitions": [{
                "type": "ValidatingAdmissionWebhook", "generateName": "v.example.com", "deploymentName": "op",
                "sideEffects": "None", "admissionReviewVersions": ["v1"]
            }],
            "install": { "strategy": "deployment", "spec": { "deployments": [{ "name": "op", "spec": {
                "selector": { "matchLabels": { "app": "op" } },
                "template": { "metadata": { "labels": { "app": "op" } }, "spec": { "containers": [{ "name": "c" }] } }
            } }] } },
        },
    });
    change(&mut csv);
    let crd = json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "things.example.com" } });
    let bundle = Bundle::from_objects(vec![crd, csv]).unwrap();
    let options = RenderOptions { install_namespace: "ns".into(), ..RenderOptions::default() };
    let rendered = render(&bundle, &options).unwrap();
    (bundle.csv, rendered)
}

fn conversion(csv: &mut Value) {
    csv["spec"]["webhookdefinitions"] = json!([{
        "type": "ConversionWebhook", "generateName": "c.example.com", "deploymentName": "op",
        "admissionReviewVersions": ["v1"], "conversionCRDs": ["things.example.com"]
    }]);
}

fn api(csv: &mut Value) {
    csv["spec"]["webhookdefinitions"] = json!([]);
    csv["spec"]["apiservicedefinitions"] = json!({ "owned": [
        { "name": "things", "group": "api.example.com", "version": "v1", "kind": "Thing", "deploymentName": "op" }] });
}

/// No object exists, except a CRD with the given conversion.
fn absent(change: impl FnOnce(&mut Value)) -> Serving {
    let (csv, rendered) = csv(change);
    let owner = Owner::of(&csv, Some("thing"));
    let mut serving = Serving { now: now(), ..Serving::default() };
    for (phase, object) in rendered.objects() {
        let mut manifest = object.clone();
        olm_engine::ownership::own(&mut manifest, &owner);
        let desired = DesiredObject { manifest: manifest.clone(), live: None };
        match phase {
            olm_bundle::Phase::Endpoints if object["kind"] == "Secret" => serving.endpoints.push(Served {
                endpoint: rendered.endpoints[0].clone(),
                secret: manifest,
                live: None,
                held: Held::default(),
            }),
            olm_bundle::Phase::Endpoints => serving.prerequisites.push(desired),
            olm_bundle::Phase::Serving if olm_bundle::crd_of_role(object).is_none() => {
                serving.registrations.push(desired)
            }
            olm_bundle::Phase::Crds if object.pointer("/spec/conversion").is_some() => {
                serving.conversions.push(Conversion {
                    crd: "things.example.com".into(),
                    conversion: object["spec"]["conversion"].clone(),
                    live: json!({ "spec": { "conversion": { "strategy": "None" } } }),
                });
            }
            _ => {}
        }
    }
    serving
}

/// All objects that precede the Deployments exist.
fn prepared(change: impl FnOnce(&mut Value)) -> Serving {
    let mut serving = absent(change);
    for object in &mut serving.prerequisites {
        object.live = Some(object.manifest.clone());
    }
    for served in &mut serving.endpoints {
        let issued = issue(&served.endpoint.names(), now()).unwrap();
        served.held = Held::default().replaced(issued, &[], now());
        served.live = Some(secret::Live::of(served.secret.clone()));
    }
    serving
}

/// All objects exist.
fn complete(change: impl FnOnce(&mut Value)) -> Serving {
    let mut serving = prepared(change);
    let live: Vec<Value> = serving.registrations.iter().map(|desired| serving.complete(desired)).collect();
    for (desired, live) in serving.registrations.iter_mut().zip(live) {
        desired.live = Some(live);
    }
    let live: Vec<Value> = serving.conversions.iter().map(|c| serving.converted(c)).collect();
    for (conversion, live) in serving.conversions.iter_mut().zip(live) {
        conversion.live = live;
    }
    serving
}

/// The live APIService.
fn service(serving: &mut Serving) -> &mut Value {
    let service =
        serving.registrations.iter_mut().find(|desired| desired.manifest["kind"] == "APIService").unwrap();
    service.live.as_mut().unwrap()
}

#[test]
fn what_comes_before_the_deployments_is_missing_first() {
    let facts = absent(|_| ()).facts();
    assert_eq!(facts.endpoints_missing.as_deref(), Some("the certificate of deployment op to be created"));
    assert!(
        facts
            .registration_missing
            .is_some_and(|what| what.starts_with("ValidatingWebhookConfiguration v.example.com-"))
    );
    assert_eq!((facts.broken, facts.rotate, facts.dates), (None, None, None));
}

#[test]
fn with_a_certificate_only_the_registration_is_missing() {
    let serving = prepared(|_| ());
    let facts = serving.facts();
    assert_eq!((&facts.endpoints_missing, &facts.broken, &facts.rotate), (&None, &None, &None));
    assert!(facts.registration_missing.is_some());
    let (made, again) = facts.dates.unwrap();
    assert_eq!((made.0, again.0), (now(), now() + SignedDuration::from_hours(24 * 670)));
    // the configuration gets the authority when it is applied
    let manifest = serving.complete(&serving.registrations[0]);
    assert_eq!(manifest["webhooks"][0]["clientConfig"]["caBundle"], serving.endpoints[0].held.ca_bundle());
    assert_eq!(
        complete(|_| ()).facts(),
        ServingFacts { dates: Some((made, again)), ..ServingFacts::default() }
    );
}

#[test]
fn manual_changes_are_detected() {
    // a Service with another target
    let mut serving = complete(|_| ());
    let service =
        serving.prerequisites.iter_mut().find(|object| object.manifest["kind"] == "Service").unwrap();
    service.live.as_mut().unwrap()["spec"]["ports"][0]["targetPort"] = json!(1);
    assert_eq!(serving.facts().endpoints_missing.as_deref(), Some("Service op-service to match its spec"));
    // a webhook that calls another Service: it gets no certificate, and is restored
    let mut serving = complete(|_| ());
    let hook = serving.registrations[0].live.as_mut().unwrap();
    hook["webhooks"][0]["clientConfig"]["service"]["name"] = json!("other");
    let facts = serving.facts();
    assert!(facts.registration_missing.is_some() && facts.rotate.is_none());
    // an unknown authority
    let mut serving = complete(|_| ());
    serving.registrations[0].live.as_mut().unwrap()["webhooks"][0]["clientConfig"]["caBundle"] =
        json!("Q0E=");
    assert!(serving.facts().rotate.is_some());
    // a Secret without a certificate
    let mut serving = complete(|_| ());
    serving.endpoints[0].held =
        Held::read(&Default::default(), &serving.endpoints[0].endpoint.names(), now());
    let broken = serving.facts().broken.unwrap();
    assert!(broken.contains("Secret op-service-cert is replaced: tls.crt is missing"), "{broken}");
    // a Secret that belongs to the previous version
    let mut serving = complete(|_| ());
    serving.endpoints[0].live.as_mut().unwrap().metadata["labels"]["olm.owner"] = json!("thing.v0");
    assert!(serving.facts().endpoints_missing.is_some());
}

#[test]
fn additions_of_the_api_server_and_of_others_are_left_alone() {
    let mut serving = complete(|_| ());
    let hook = serving.registrations[0].live.as_mut().unwrap();
    hook["webhooks"][0]["matchPolicy"] = json!("Equivalent");
    hook["metadata"]["labels"]["other"] = json!("x");
    let owners = serving.endpoints[0].live.as_mut().unwrap();
    owners.metadata["ownerReferences"].as_array_mut().unwrap().insert(0, json!({ "uid": "another" }));
    let facts = serving.facts();
    assert_eq!((facts.registration_missing, facts.endpoints_missing, facts.rotate), (None, None, None));
}

#[test]
fn a_conversion_is_applied_after_the_deployments() {
    let serving = prepared(conversion);
    let missing = serving.facts().registration_missing;
    assert_eq!(missing.as_deref(), Some("CustomResourceDefinition things.example.com to be converted"));
    let client = &serving.converted(&serving.conversions[0])["spec"]["conversion"]["webhook"]["clientConfig"];
    assert_eq!(client["service"]["name"], "op-service");
    assert_eq!(client["caBundle"], serving.endpoints[0].held.ca_bundle());
    assert_eq!(complete(conversion).facts().registration_missing, None);
    // a CRD that another operator converts gets no certificate
    assert!(serving.published(&serving.endpoints[0]).is_empty());
}

#[test]
fn an_api_service_is_waited_for_until_it_answers() {
    let mut serving = complete(api);
    let waiting = |serving: &Serving| serving.facts().waiting;
    let text = waiting(&serving).unwrap();
    assert!(text.contains("APIService v1.api.example.com to be available"), "{text}");
    let condition = |status: &str| json!({ "conditions": [{ "type": "Available", "status": status, "message": "no endpoints" }] });
    service(&mut serving)["status"] = condition("False");
    assert!(waiting(&serving).unwrap().ends_with("no endpoints"));
    service(&mut serving)["status"] = condition("True");
    assert_eq!(waiting(&serving), None);
}

#[test]
fn only_servers_of_aggregated_apis_are_rolled_over() {
    let deployment = || json!({ "metadata": { "name": "op", "labels": {} }, "spec": { "template": { "metadata": { "annotations": {} } } } });
    let stamped = |serving: &Serving| {
        let mut deployments = [deployment()];
        serving.stamp(&mut deployments, |spec| spec.to_string().len().to_string());
        deployments[0].clone()
    };
    assert_eq!(stamped(&complete(|_| ())), deployment());
    let serving = complete(api);
    let stamp = stamped(&serving)["spec"]["template"]["metadata"]["annotations"]["olmcahash"].clone();
    assert_eq!(stamp.as_str(), serving.endpoints[0].held.ca_hash().as_deref());
    // another certificate, another annotation
    assert_ne!(stamp, stamped(&complete(api))["spec"]["template"]["metadata"]["annotations"]["olmcahash"]);
}

#[test]
fn fields_are_set_where_their_pointer_leads() {
    let mut object = json!({ "webhooks": [{}] });
    live::set(&mut object, "/webhooks/0/clientConfig/caBundle", json!("x"));
    live::set(&mut object, "/spec/caBundle", json!("y"));
    live::set(&mut object, "/webhooks/7/clientConfig/caBundle", json!("nowhere"));
    assert_eq!(
        object,
        json!({ "webhooks": [{ "clientConfig": { "caBundle": "x" } }], "spec": { "caBundle": "y" } })
    );
}

#[test]
fn an_api_service_of_another_owner_is_a_conflict() {
    let (version, _) = csv(api);
    let conflict = |labels: Value| {
        let mut serving = complete(api);
        service(&mut serving)["metadata"]["labels"] = labels;
        observe::conflict(&version, &[] as &[olm_api::ClusterServiceVersion], &serving.registrations)
    };
    let owned = |csv: &str, namespace: &str| json!({ "olm.owner": csv, "olm.owner.namespace": namespace });
    assert_eq!(conflict(owned("thing.v1", "ns")), None);
    let text = conflict(owned("thing.v1", "other")).unwrap();
    assert!(text.contains("belongs to ClusterServiceVersion other/thing.v1"), "{text}");
    assert!(conflict(owned("rival.v1", "ns")).is_some());
    assert!(conflict(json!({})).unwrap().contains("an owner outside of olm"));
}

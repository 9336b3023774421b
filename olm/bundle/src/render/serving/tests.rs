use serde_json::{Value, json};

use super::*;
use crate::render::tests::{bundle, options};
use crate::render::{Phase, Rendered, render};
use crate::{Bundle, RenderOptions};

fn webhook(type_: &str, name: &str) -> Value {
    json!({
        "type": type_, "generateName": name, "deploymentName": "op", "containerPort": 443, "targetPort": 9443,
        "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Fail", "webhookPath": "/validate",
        "rules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["things"]}],
    })
}

fn api() -> Value {
    json!({"name": "things", "group": "api.example.com", "version": "v1", "kind": "Thing", "deploymentName": "op"})
}

/// A bundle with endpoints on its Deployment `op`.
fn called(change: impl FnOnce(&mut Value)) -> Bundle {
    bundle(|csv, _| {
        let deployment = &mut csv["spec"]["install"]["spec"]["deployments"][0];
        deployment["spec"]["selector"] = json!({"matchLabels": {"app": "op"}});
        change(csv);
    })
}

fn converting(change: impl FnOnce(&mut Value)) -> Bundle {
    called(|csv| {
        csv["spec"]["installModes"] = json!([{"type": "AllNamespaces", "supported": true}]);
        csv["spec"]["customresourcedefinitions"] =
            json!({"owned": [{"name": "things.example.com", "version": "v1", "kind": "Thing"}]});
        let mut hook = webhook("ConversionWebhook", "c.example.com");
        hook["conversionCRDs"] = json!(["things.example.com"]);
        hook["webhookPath"] = Value::Null;
        csv["spec"]["webhookdefinitions"] = json!([hook]);
        change(csv);
    })
}

fn shown(bundle: &Bundle, options: &RenderOptions) -> Rendered {
    render(bundle, options).unwrap()
}

fn find<'a>(rendered: &'a Rendered, kind: &str) -> Vec<&'a Value> {
    rendered.objects().map(|(_, object)| object).filter(|object| object["kind"] == kind).collect()
}

fn phase_of(rendered: &Rendered, kind: &str) -> Vec<Phase> {
    rendered.objects().filter(|(_, object)| object["kind"] == kind).map(|(phase, _)| phase).collect()
}

#[test]
fn a_webhook_has_its_service_before_the_deployment_and_is_registered_after_it() {
    // given a validating webhook
    let bundle = called(|csv| {
        csv["spec"]["webhookdefinitions"] = json!([webhook("ValidatingAdmissionWebhook", "v.example.com")])
    });
    // when it is rendered
    let rendered = shown(&bundle, &options(&["b", "a"]));
    // then there is a Service that selects the pods
    let service =
        find(&rendered, "Service").into_iter().find(|s| s["metadata"]["name"] == "op-service").unwrap();
    assert_eq!(
        service["spec"],
        json!({
            "ports": [{"name": "443", "port": 443, "protocol": "TCP", "targetPort": 9443}],
            "selector": {"app": "op"},
        })
    );
    // and a Secret without content, readable by the operator
    let secret = find(&rendered, "Secret")[0];
    assert_eq!((&secret["metadata"]["name"], secret.get("data")), (&json!("op-service-cert"), None));
    let role =
        find(&rendered, "Role").into_iter().find(|r| r["metadata"]["name"] == "op-service-cert").unwrap();
    assert_eq!(role["rules"][0]["resourceNames"], json!(["op-service-cert"]));
    assert_eq!(phase_of(&rendered, "Secret"), [Phase::Endpoints]);
    assert_eq!(phase_of(&rendered, "ValidatingWebhookConfiguration"), [Phase::Serving]);
    // and the configuration is for the watched namespaces, without a CA bundle
    let configuration = find(&rendered, "ValidatingWebhookConfiguration")[0];
    let labels = &configuration["metadata"]["labels"];
    assert_eq!(labels["olm.webhook-description-generate-name"], "v.example.com");
    assert_eq!(labels["olm.owner"], "p.v1.0.0");
    assert_eq!(
        configuration["webhooks"],
        json!([{
            "name": "v.example.com",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {"name": "op-service", "namespace": "ns", "path": "/validate", "port": 443}},
            "failurePolicy": "Fail",
            "namespaceSelector": {"matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]}
            ]},
            "rules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["things"]}],
            "sideEffects": "None",
        }])
    );
    // and the model has the field for it
    let [endpoint] = rendered.endpoints.as_slice() else { unreachable!("one deployment serves") };
    assert_eq!(endpoint.names(), ["op-service.ns", "op-service.ns.svc", "op-service.ns.svc.cluster.local"]);
    assert_eq!(endpoint.trust[0].name, configuration["metadata"]["name"]);
    assert_eq!(configuration.pointer(endpoint.trust[0].pointer), None);
    assert!(!endpoint.aggregated && find(&rendered, "ClusterRoleBinding").len() == 1);
}

#[test]
fn a_webhook_is_the_same_object_in_every_version_and_another_in_every_namespace() {
    let of = |version: &str, namespace: &str, type_: &str| {
        let bundle = called(|csv| {
            csv["metadata"]["name"] = format!("p.v{version}").into();
            csv["spec"]["webhookdefinitions"] = json!([webhook(type_, "v.example.com")]);
        });
        let options = RenderOptions { install_namespace: namespace.to_owned(), ..options(&[]) };
        let rendered = shown(&bundle, &options);
        rendered.endpoints[0].trust[0].name.clone()
    };
    let name = of("1.0.0", "ns", "ValidatingAdmissionWebhook");
    assert!(name.starts_with("v.example.com-") && name.len() == "v.example.com-".len() + 5, "{name}");
    assert_eq!(name, of("2.0.0", "ns", "ValidatingAdmissionWebhook"));
    assert_ne!(name, of("1.0.0", "other", "ValidatingAdmissionWebhook"));
    assert_ne!(name, of("1.0.0", "ns", "MutatingAdmissionWebhook"));
}

#[test]
fn certificates_replace_other_mounts_at_the_paths_that_operators_read() {
    let bundle = called(|csv| {
        csv["spec"]["webhookdefinitions"] = json!([webhook("MutatingAdmissionWebhook", "m.example.com")]);
        let pod = &mut csv["spec"]["install"]["spec"]["deployments"][0]["spec"]["template"]["spec"];
        pod["volumes"] = json!([
            {"name": "cert", "secret": {"secretName": "of-a-scaffold"}}, {"name": "data", "emptyDir": {}}
        ]);
        pod["containers"] = json!([
            {"name": "a", "volumeMounts": [
                {"name": "cert", "mountPath": "/tmp/k8s-webhook-server/serving-certs"}, {"name": "data", "mountPath": "/data"}
            ]},
            {"name": "b"},
        ]);
    });
    let rendered = shown(&bundle, &options(&[]));
    let pod = &find(&rendered, "Deployment")[0]["spec"]["template"]["spec"];
    let own = json!([
        {"name": "webhook-cert", "mountPath": "/tmp/k8s-webhook-server/serving-certs"},
        {"name": "apiservice-cert", "mountPath": "/apiserver.local.config/certificates"},
    ]);
    assert_eq!(pod["containers"][0]["volumeMounts"][0], json!({"name": "data", "mountPath": "/data"}));
    assert_eq!(pod["containers"][0]["volumeMounts"].as_array().unwrap()[1..], own.as_array().unwrap()[..]);
    assert_eq!(pod["containers"][1]["volumeMounts"], own);
    assert_eq!(
        pod["volumes"],
        json!([
            {"name": "data", "emptyDir": {}},
            {"name": "webhook-cert", "secret": {"secretName": "op-service-cert", "items": [
                {"key": "tls.crt", "path": "tls.crt"}, {"key": "tls.key", "path": "tls.key"}]}},
            {"name": "apiservice-cert", "secret": {"secretName": "op-service-cert", "items": [
                {"key": "tls.crt", "path": "apiserver.crt"}, {"key": "tls.key", "path": "apiserver.key"}]}},
        ])
    );
}

#[test]
fn an_aggregated_api_may_ask_the_api_server_who_calls() {
    // given two kinds of one version
    let bundle = called(|csv| {
        let mut other = api();
        other["name"] = "others".into();
        csv["spec"]["apiservicedefinitions"] = json!({"owned": [api(), other]});
    });
    let rendered = shown(&bundle, &options(&["ns"]));
    // then there is one APIService, applied last
    let [service] = find(&rendered, "APIService")[..] else { unreachable!("one APIService") };
    assert_eq!(service["metadata"]["name"], "v1.api.example.com");
    assert_eq!(
        service["spec"],
        json!({
            "group": "api.example.com", "version": "v1", "groupPriorityMinimum": 2000, "versionPriority": 20,
            "service": {"name": "op-service", "namespace": "ns", "port": 443},
        })
    );
    assert_eq!(phase_of(&rendered, "APIService"), [Phase::Serving]);
    // and the bindings that an aggregated API server needs to authenticate callers
    let names: Vec<String> = rendered
        .objects()
        .filter(|(phase, _)| *phase == Phase::Endpoints)
        .map(|(_, o)| {
            format!("{} {} {}", o["kind"], o["metadata"]["namespace"], o["metadata"]["name"]).replace('"', "")
        })
        .collect();
    assert_eq!(
        names,
        [
            "Role ns op-service-cert",
            "RoleBinding ns op-service-cert",
            "ClusterRoleBinding null op-service-system:auth-delegator-bpuu2",
            "RoleBinding kube-system op-service-auth-reader-bpuu2",
            "Service ns op-service",
            "Secret ns op-service-cert",
        ]
    );
    assert!(rendered.endpoints[0].aggregated);
}

#[test]
fn a_conversion_is_in_the_definition_and_can_be_held_back() {
    let bundle = converting(|_| ());
    let rendered = shown(&bundle, &options(&[]));
    let mut crd = find(&rendered, "CustomResourceDefinition")[0].clone();
    assert_eq!(
        crd["spec"]["conversion"],
        json!({
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": {"service": {"namespace": "ns", "name": "op-service", "path": "/", "port": 443}},
                "conversionReviewVersions": ["v1"],
            },
        })
    );
    assert_eq!(rendered.endpoints[0].trust[0].kind, "CustomResourceDefinition");
    hold_conversion_back(&bundle, &mut crd);
    assert_eq!(crd["spec"].get("conversion"), None);
    // a foreign conversion stays unchanged
    let mut foreign =
        json!({"metadata": {"name": "others.example.com"}, "spec": {"conversion": {"strategy": "Webhook"}}});
    hold_conversion_back(&bundle, &mut foreign);
    assert_eq!(foreign["spec"]["conversion"]["strategy"], "Webhook");
}

#[test]
fn all_errors_are_reported_at_once() {
    let bundle = called(|csv| {
        csv["spec"]["webhookdefinitions"] =
            json!([webhook("ValidatingAdmissionWebhook", "v"), {"type": "Webhook"}]);
        csv["spec"]["apiservicedefinitions"] = json!({"owned": [{"name": "x", "deploymentName": "op"}]});
    });
    let error = render(&bundle, &options(&["ns"])).unwrap_err();
    let RenderError::Serving { faults, .. } = &error else { unreachable!("{error}") };
    let fields: Vec<&str> = faults.iter().map(|fault| fault.field.as_str()).collect();
    assert_eq!(
        fields,
        [
            "spec.webhookdefinitions[0].generateName",
            "spec.webhookdefinitions[1].type",
            "spec.webhookdefinitions[1].generateName",
            "spec.webhookdefinitions[1].deploymentName",
            "spec.webhookdefinitions[1].admissionReviewVersions",
            "spec.webhookdefinitions[1].sideEffects",
            "spec.apiservicedefinitions.owned[0].group",
            "spec.apiservicedefinitions.owned[0].version",
            "spec.apiservicedefinitions.owned[0].kind",
            // 443 of the same Service is forwarded to 9443 for the webhook
            "spec.apiservicedefinitions.owned[0].containerPort",
        ]
    );
    assert_eq!(error.reason(), "InvalidWebhookDescription");
}

#[test]
fn each_fault_has_its_problem() {
    type Change = fn(&mut Value);
    fn rule(groups: &[&str], resources: &[&str]) -> Value {
        json!([{"apiGroups": groups, "apiVersions": ["v1"], "operations": ["*"], "resources": resources}])
    }
    let cases: &[(Change, Problem)] = &[
        (|h| h["timeoutSeconds"] = 31.into(), Problem::Timeout(31)),
        (|h| h["containerPort"] = 70_000.into(), Problem::BadPort(70_000)),
        (|h| h["targetPort"] = 70_000.into(), Problem::BadPort(70_000)),
        (|h| h["sideEffects"] = "Some".into(), Problem::SideEffects("Some".into())),
        (|h| h["admissionReviewVersions"] = json!([]), Problem::NoReviewVersions),
        (|h| h["deploymentName"] = "other".into(), Problem::NoDeployment("other".into())),
        (|h| h["generateName"] = "a.b".into(), Problem::BadName("a.b".into())),
        (|h| h["rules"] = rule(&["*"], &["pods"]), Problem::RulesForAll),
        (|h| h["rules"] = rule(&["operators.coreos.com"], &["subscriptions"]), Problem::RulesForOlm),
        (|h| h["rules"] = rule(&["admissionregistration.k8s.io"], &["*"]), Problem::RulesForWebhooks),
        (
            |h| h["rules"] = rule(&["admissionregistration.k8s.io"], &["validatingwebhookconfigurations"]),
            Problem::RulesForWebhooks,
        ),
        (|h| h["type"] = "Admission".into(), Problem::UnknownType("Admission".into())),
    ];
    for (change, problem) in cases {
        let bundle = called(|csv| {
            let mut hook = webhook("ValidatingAdmissionWebhook", "v.example.com");
            change(&mut hook);
            csv["spec"]["webhookdefinitions"] = json!([hook]);
        });
        assert_eq!(problems(&bundle, &["ns"]), std::slice::from_ref(problem));
    }
    // rules for other objects of the group are allowed
    let harmless = called(|csv| {
        let mut hook = webhook("ValidatingAdmissionWebhook", "v.example.com");
        hook["rules"] = rule(&["admissionregistration.k8s.io"], &["validatingadmissionpolicies"]);
        csv["spec"]["webhookdefinitions"] = json!([hook]);
    });
    assert_eq!(problems(&harmless, &["ns"]), []);
}

#[test]
fn descriptions_must_fit_each_other() {
    let twice = called(|csv| {
        let hook = webhook("ValidatingAdmissionWebhook", "v.example.com");
        csv["spec"]["webhookdefinitions"] = json!([hook, hook]);
    });
    assert_eq!(problems(&twice, &[]), [Problem::DuplicateName("v.example.com".into())]);
    let ports = called(|csv| {
        let mut other = webhook("MutatingAdmissionWebhook", "v.example.com");
        other["targetPort"] = 8443.into();
        csv["spec"]["webhookdefinitions"] =
            json!([webhook("ValidatingAdmissionWebhook", "v.example.com"), other]);
    });
    assert_eq!(problems(&ports, &[]), [Problem::PortTaken(443)]);
    let served = called(|csv| {
        let mut other = api();
        other["containerPort"] = 8443.into();
        csv["spec"]["apiservicedefinitions"] = json!({"owned": [api(), other]});
    });
    assert_eq!(problems(&served, &[]), [Problem::ServedTwice("v1.api.example.com".into())]);
    let selector = bundle(|csv, _| {
        csv["spec"]["webhookdefinitions"] = json!([webhook("ValidatingAdmissionWebhook", "v.example.com")]);
    });
    assert_eq!(problems(&selector, &[]), [Problem::NoSelector]);
    let long = called(|csv| {
        csv["spec"]["install"]["spec"]["deployments"][0]["name"] = "1".into();
        csv["spec"]["webhookdefinitions"] = json!([webhook("ValidatingAdmissionWebhook", "v.example.com")]);
        csv["spec"]["webhookdefinitions"][0]["deploymentName"] = "1".into();
    });
    assert_eq!(problems(&long, &[]), [Problem::BadServiceName("1-service".into())]);
}

#[test]
fn conversions_are_for_the_whole_cluster_and_the_bundles_own_definitions() {
    let modes = converting(|csv| {
        csv["spec"]["installModes"] = json!([
            {"type": "AllNamespaces", "supported": true}, {"type": "OwnNamespace", "supported": true}
        ])
    });
    assert_eq!(problems(&modes, &[]), [Problem::ConversionInstallModes]);
    let foreign = converting(|csv| {
        csv["spec"]["webhookdefinitions"][0]["conversionCRDs"] = json!(["others.example.com"]);
    });
    assert_eq!(problems(&foreign, &[]), [Problem::ConvertsForeign("others.example.com".into())]);
    let nothing = converting(|csv| csv["spec"]["webhookdefinitions"][0]["conversionCRDs"] = json!([]));
    assert_eq!(problems(&nothing, &[]), [Problem::ConvertsNothing]);
    let twice = converting(|csv| {
        let mut other = csv["spec"]["webhookdefinitions"][0].clone();
        other["generateName"] = "d.example.com".into();
        csv["spec"]["webhookdefinitions"].as_array_mut().unwrap().push(other);
    });
    assert_eq!(problems(&twice, &[]), [Problem::ConvertedTwice("things.example.com".into())]);
    let mut unknown = converting(|_| ());
    unknown.objects.iter_mut().find(|o| o["kind"] == "CustomResourceDefinition").unwrap()["spec"] =
        json!({"preserveUnknownFields": true});
    assert_eq!(problems(&unknown, &[]), [Problem::PreservesUnknownFields("things.example.com".into())]);
}

fn problems(bundle: &Bundle, targets: &[&str]) -> Vec<Problem> {
    match render(bundle, &options(targets)) {
        Ok(_) => Vec::new(),
        Err(RenderError::Serving { faults, .. }) => faults.into_iter().map(|fault| fault.problem).collect(),
        Err(other) => unreachable!("{other}"),
    }
}

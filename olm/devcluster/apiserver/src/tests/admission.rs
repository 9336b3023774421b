//! Webhooks: which requests they are called for, and the effects of their responses.

use base64::{Engine, engine::general_purpose::STANDARD};

use super::{
    outside::{Outside, Seen},
    *,
};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A review that allows the request, or denies it with `status`.
fn review(seen: &Seen, allowed: bool, more: Value) -> Option<(u16, Value)> {
    let mut response = json!({"uid": seen.body["request"]["uid"], "allowed": allowed});
    for (key, value) in more.as_object().expect("an object") {
        response[key] = value.clone();
    }
    let answer =
        json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response});
    Some((200, answer))
}

fn patched(seen: &Seen, patch: &Value) -> Option<(u16, Value)> {
    review(seen, true, json!({"patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string())}))
}

fn rule(operations: &[&str], group: &str, version: &str, resource: &str) -> Value {
    json!([{"operations": operations, "apiGroups": [group], "apiVersions": [version], "resources": [resource]}])
}

/// One webhook about ConfigMaps; `more` replaces fields.
fn hook(name: &str, client: Value, more: Value) -> Value {
    let mut hook = json!({
        "name": format!("{name}.example.com"), "clientConfig": client, "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "rules": rule(&["CREATE", "UPDATE", "DELETE"], "", "v1", "configmaps"),
    });
    for (key, value) in more.as_object().expect("an object") {
        hook[key] = value.clone();
    }
    hook
}

async fn configure(server: &ApiServer, kind: &str, name: &str, hooks: Vec<Value>) {
    let plural = format!("{kind}webhookconfigurations");
    let object = json!({"metadata": {"name": name}, "webhooks": hooks});
    let (code, body) = post(server, &format!("{GROUP}/{plural}"), object).await;
    assert_eq!(code, 201, "{body}");
}

fn message(body: &Value) -> &str {
    body["message"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn a_validating_webhook_allows_warns_and_denies() {
    let (server, _client) = server();
    let outside = Outside::start("hook", |seen| {
        let name = seen.body["request"]["name"].as_str().unwrap_or_default();
        match name {
            "bad" => review(
                seen,
                false,
                json!({"status": {"message": "no bad maps", "code": 422, "reason": "Invalid"}}),
            ),
            "mute" => review(seen, false, json!({})),
            _ => review(seen, true, json!({"warnings": ["think twice"]})),
        }
    })
    .await;
    outside.behind(&server, "hook").await;
    configure(
        &server,
        "validating",
        "v",
        vec![hook("v", outside.client_config("hook", "/check"), json!({}))],
    )
    .await;

    let caller = Identity::user("ann", ["system:masters"]);
    let (code, warnings, body) = send_full(&server, caller, "POST", MAPS, &[], config_map("good")).await;
    assert_eq!((code, warnings.as_slice()), (201, ["299 - \"think twice\"".to_owned()].as_slice()), "{body}");
    let seen = outside.take();
    assert_eq!((seen.len(), seen[0].path.as_str()), (1, "/check?timeout=10s"));
    let request = &seen[0].body["request"];
    assert_eq!((&request["operation"], &request["namespace"]), (&json!("CREATE"), &json!("default")));
    assert_eq!(request["kind"], json!({"group": "", "version": "v1", "kind": "ConfigMap"}));
    assert_eq!(request["resource"], json!({"group": "", "version": "v1", "resource": "configmaps"}));
    assert_eq!(request["userInfo"]["username"], "ann");
    assert_eq!((&request["oldObject"], &request["object"]["data"]["a"]), (&Value::Null, &json!("1")));
    assert_eq!((&request["options"]["kind"], &request["dryRun"]), (&json!("CreateOptions"), &json!(false)));
    assert!(request["object"]["metadata"]["uid"].is_string(), "validating webhooks see what will be stored");

    let (code, body) = post(&server, MAPS, config_map("bad")).await;
    assert_eq!((code, &body["reason"]), (422, &json!("Invalid")));
    assert_eq!(message(&body), "admission webhook \"v.example.com\" denied the request: no bad maps");
    let (code, body) = post(&server, MAPS, config_map("mute")).await;
    assert_eq!(
        (code, message(&body)),
        (400, "admission webhook \"v.example.com\" denied the request without explanation")
    );
    assert_eq!(get(&server, &format!("{MAPS}/bad")).await.0, 404);
    outside.take();

    assert_eq!(
        patch(&server, "merge-patch+json", &format!("{MAPS}/good"), json!({"data": {"a": "2"}})).await.0,
        200
    );
    assert_eq!(delete(&server, &format!("{MAPS}/good")).await.0, 200);
    let seen = outside.take();
    let asked: Vec<_> = seen.iter().map(|s| s.body["request"]["operation"].as_str().expect("text")).collect();
    assert_eq!(asked, ["UPDATE", "DELETE"]);
    assert_eq!(seen[0].body["request"]["oldObject"]["data"]["a"], "1");
    assert_eq!(
        (&seen[1].body["request"]["object"], &seen[1].body["request"]["oldObject"]["data"]["a"]),
        (&Value::Null, &json!("2"))
    );
}

#[tokio::test]
async fn mutating_webhooks_are_called_in_order_and_reinvoked() {
    let (server, _client) = server();
    let outside = Outside::start("hook", |seen| {
        let (path, data) = (seen.path.as_str(), &seen.body["request"]["object"]["data"]);
        let add =
            |key: &str| patched(seen, &json!([{"op": "add", "path": format!("/data/{key}"), "value": "x"}]));
        match path.split('?').next().unwrap_or_default() {
            "/first" if data["second"].is_string() => add("again"),
            "/first" => add("first"),
            "/second" if data["first"].is_string() => add("second"),
            _ => review(seen, false, json!({"status": {"message": "out of order"}})),
        }
    })
    .await;
    outside.behind(&server, "hook").await;
    // given configurations whose names are in the reverse order of their creation
    configure(&server, "mutating", "b", vec![hook("b", outside.client_config("hook", "/second"), json!({}))])
        .await;
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    configure(&server, "mutating", "a", vec![hook("a", outside.client_config("hook", "/first"), again)])
        .await;
    // when an object is created
    let (code, body) = post(&server, MAPS, config_map("m")).await;
    // then both changed it, and the first was called once more because the second changed it
    assert_eq!(code, 201, "{body}");
    assert_eq!(body["data"], json!({"a": "1", "first": "x", "second": "x", "again": "x"}));
    let seen = outside.take();
    let paths: Vec<&str> = seen.iter().filter_map(|s| s.path.split('?').next()).collect();
    assert_eq!(paths, ["/first", "/second", "/first"]);
    assert!(
        seen[0].body["request"]["object"]["metadata"]["uid"].is_null(),
        "mutating webhooks come before the server"
    );
    // changes by webhooks belong to no field manager
    assert!(!body["metadata"]["managedFields"].to_string().contains("f:first"), "{body}");
}

#[tokio::test]
async fn patches_that_cannot_be_applied_refuse_the_request() {
    let (server, _client) = server();
    let outside = Outside::start("hook", |seen| {
        let name = seen.body["request"]["name"].as_str().unwrap_or_default();
        match name {
            "type" => patched(seen, &json!([{"op": "replace", "path": "/data", "value": "text"}])),
            "path" => patched(seen, &json!([{"op": "remove", "path": "/nowhere/at/all"}])),
            "kind" => patched(seen, &json!([{"op": "replace", "path": "/kind", "value": "Secret"}])),
            "untyped" => review(seen, true, json!({"patch": STANDARD.encode("[]")})),
            "system" => patched(seen, &json!([{"op": "add", "path": "/metadata/uid", "value": "mine"}, {"op": "add", "path": "/unknown", "value": 1}])),
            _ => patched(seen, &json!([])),
        }
    })
    .await;
    outside.behind(&server, "hook").await;
    configure(
        &server,
        "mutating",
        "m",
        vec![hook("m", outside.client_config("hook", "/"), json!({"rules": rule(&["*"], "*", "*", "*/*")}))],
    )
    .await;
    for name in ["type", "path", "kind"] {
        let (code, body) = post(&server, MAPS, config_map(name)).await;
        assert_eq!((code, &body["reason"]), (500, &json!("InternalError")), "{name}: {body}");
        assert!(message(&body).starts_with("Internal error occurred: "), "{body}");
    }
    let (code, body) = post(&server, MAPS, config_map("untyped")).await;
    assert_eq!(code, 500);
    assert_eq!(
        message(&body),
        "Internal error occurred: failed calling webhook \"m.example.com\": received invalid webhook response: webhook returned response.patch but not response.patchType"
    );
    let (code, body) = post(&server, MAPS, config_map("system")).await;
    assert_eq!(code, 201, "{body}");
    assert!(body["metadata"]["uid"] != "mine" && body["unknown"].is_null(), "{body}");
    let (code, body) = post(&server, MAPS, config_map("empty")).await;
    assert_eq!(code, 201, "{body}");
    // a delete has no object to mutate
    outside.take();
    let (code, body) = delete(&server, &format!("{MAPS}/system")).await;
    assert_eq!(code, 500, "{body}");
    assert!(
        message(&body).contains("attempted to modify the object, which is not supported for this operation"),
        "{body}"
    );
}

#[tokio::test]
async fn failures_are_ignored_or_not() {
    let (server, _client) = server();
    let outside = Outside::start("hook", |seen| match seen.path.split('?').next() {
        Some("/hang") => None,
        Some("/broken") => Some((500, json!("out of order"))),
        Some("/gone") => Some((404, json!("nothing"))),
        Some("/uid") => Some((200, json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": {"uid": "x", "allowed": true}}))),
        _ => Some((200, json!("no JSON"))),
    })
    .await;
    outside.behind(&server, "hook").await;
    let client = |path: &str| outside.client_config("hook", path);
    let mut elsewhere = client("/");
    elsewhere["service"]["name"] = json!("none");
    let mut unknown = client("/");
    unknown["caBundle"] = Outside::start("hook", |_| None).await.ca_bundle.into();
    let by_url = |host: &str| json!({"url": format!("https://{host}:{}/x", outside.port), "caBundle": outside.ca_bundle});
    let mut other_name = client("/");
    other_name["service"]["name"] = json!("other");
    outside.behind(&server, "other").await;
    let closed = json!({"url": "https://127.0.0.1:1/x", "caBundle": outside.ca_bundle});
    let cases = [
        (client("/hang"), "Post \"https://hook.default.svc:443/hang?timeout=1s\": context deadline exceeded"),
        (
            client("/broken"),
            "an error on the server (\"out of order\") has prevented the request from succeeding",
        ),
        (client("/gone"), "the server could not find the requested resource"),
        (client("/text"), "couldn't get version/kind; json parse error: "),
        (elsewhere, "Post \"https://none.default.svc:443/?timeout=1s\": service \"none\" not found"),
        (unknown, "tls: failed to verify certificate: x509: certificate signed by unknown authority"),
        (
            by_url("127.0.0.1"),
            "tls: failed to verify certificate: x509: cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs",
        ),
        (
            other_name,
            "tls: failed to verify certificate: x509: certificate is valid for hook.default.svc, localhost, not other.default.svc",
        ),
        (closed, "127.0.0.1:1: connect: connection refused"),
    ];
    for (place, (client, expected)) in cases.into_iter().enumerate() {
        for policy in ["Fail", "Ignore"] {
            let name = format!("case-{place}-{}", policy.to_lowercase());
            let more = json!({"timeoutSeconds": 1, "failurePolicy": policy});
            configure(&server, "validating", &name, vec![hook("v", client.clone(), more)]).await;
            let (code, body) = post(&server, MAPS, config_map(&name)).await;
            if policy == "Ignore" {
                assert_eq!(code, 201, "{expected}: {body}");
            } else {
                assert_eq!((code, &body["reason"]), (500, &json!("InternalError")), "{expected}: {body}");
                let start = "Internal error occurred: failed calling webhook \"v.example.com\": failed to call webhook: ";
                assert!(
                    message(&body).starts_with(start) && message(&body).contains(expected),
                    "{expected}: {body}"
                );
            }
            // the webhook does not block its own removal
            assert_eq!(
                delete(&server, &format!("{GROUP}/validatingwebhookconfigurations/{name}")).await.0,
                200
            );
        }
    }
    configure(&server, "validating", "uid", vec![hook("v", client("/uid"), json!({}))]).await;
    let (_, body) = post(&server, MAPS, config_map("uid")).await;
    assert!(message(&body).contains("received invalid webhook response: expected response.uid="), "{body}");
}

#[tokio::test]
async fn only_matching_webhooks_are_called() {
    let (server, _client) = server();
    let outside = Outside::start("hook", |seen| review(seen, true, json!({}))).await;
    outside.behind(&server, "hook").await;
    let at = |path: &str| outside.client_config("hook", path);
    configure(
        &server,
        "validating",
        "v",
        vec![
            hook("ns", at("/ns"), json!({"namespaceSelector": {"matchLabels": {"watched": "yes"}}, "rules": rule(&["CREATE"], "", "*", "*")})),
            hook("ob", at("/ob"), json!({"objectSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["picked"]}]}})),
            hook("no", at("/no"), json!({"rules": rule(&["CONNECT"], "", "v1", "configmaps")})),
            hook("st", at("/st"), json!({"rules": rule(&["UPDATE"], "apps", "v1", "deployments/*")})),
            hook("cl", at("/cl"), json!({"rules": [{"operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "scope": "Cluster"}]})),
        ],
    )
    .await;
    let paths = || -> Vec<String> {
        let mut paths: Vec<_> =
            outside.take().iter().filter_map(|s| Some(s.path.split('?').next()?.to_owned())).collect();
        paths.sort();
        paths
    };
    assert_eq!(post(&server, MAPS, config_map("x")).await.0, 201);
    assert_eq!(paths(), Vec::<String>::new());
    assert_eq!(post(&server, MAPS, config_map("picked")).await.0, 201);
    assert_eq!(paths(), ["/ob"]);
    let namespace = json!({"metadata": {"name": "seen", "labels": {"watched": "yes"}}});
    assert_eq!(post(&server, "/api/v1/namespaces", namespace).await.0, 201);
    assert_eq!(paths(), ["/cl", "/ns"]);
    assert_eq!(post(&server, "/api/v1/namespaces/seen/configmaps", config_map("x")).await.0, 201);
    assert_eq!(paths(), ["/ns"]);
    post(&server, "/apis/apps/v1/namespaces/default/deployments", deployment("d")).await;
    assert_eq!(paths(), Vec::<String>::new());
    let scale = "/apis/apps/v1/namespaces/default/deployments/d/scale";
    assert_eq!(patch(&server, "merge-patch+json", scale, json!({"spec": {"replicas": 3}})).await.0, 200);
    let seen = outside.take();
    let request = &seen[0].body["request"];
    assert_eq!((&request["kind"]["kind"], &request["subResource"]), (&json!("Scale"), &json!("scale")));
    assert_eq!(
        (&request["oldObject"]["spec"]["replicas"], &request["object"]["spec"]["replicas"]),
        (&json!(1), &json!(3))
    );
    // a deleted configuration calls no webhook
    assert_eq!(delete(&server, &format!("{GROUP}/validatingwebhookconfigurations/v")).await.0, 200);
    assert_eq!(post(&server, "/api/v1/namespaces/seen/configmaps", config_map("picked")).await.0, 201);
    assert_eq!(paths(), Vec::<String>::new());
}

#[tokio::test]
async fn a_dry_run_only_calls_webhooks_without_side_effects() {
    let (server, _client) = server();
    let outside = Outside::start("hook", |seen| review(seen, true, json!({}))).await;
    outside.behind(&server, "hook").await;
    configure(
        &server,
        "validating",
        "v",
        vec![hook("v", outside.client_config("hook", "/"), json!({"sideEffects": "NoneOnDryRun"}))],
    )
    .await;
    assert_eq!(post(&server, &format!("{MAPS}?dryRun=All"), config_map("x")).await.0, 201);
    assert_eq!(outside.take()[0].body["request"]["dryRun"], true);
    assert_eq!(get(&server, &format!("{MAPS}/x")).await.0, 404);
    // v1 accepts no configuration with other side effects: this one must be an old one
    let configurations = format!("{GROUP}/validatingwebhookconfigurations/v");
    let (code, body) = patch(
        &server,
        "json-patch+json",
        &configurations,
        json!([{"op": "replace", "path": "/webhooks/0/sideEffects", "value": "Some"}]),
    )
    .await;
    assert_eq!(code, 422, "{body}");
    assert!(message(&body).contains("webhooks[0].sideEffects: Unsupported value: \"Some\": supported values: \"None\", \"NoneOnDryRun\""), "{body}");
}

#[tokio::test]
async fn generated_names_are_made_after_mutation() {
    let (server, _client) = server();
    let outside = Outside::start("hook", |seen| review(seen, true, json!({}))).await;
    outside.behind(&server, "hook").await;
    let at = outside.client_config("hook", "/");
    configure(&server, "mutating", "m", vec![hook("m", at.clone(), json!({}))]).await;
    configure(&server, "validating", "v", vec![hook("v", at, json!({}))]).await;
    let (code, body) = post(&server, MAPS, json!({"metadata": {"generateName": "gen-"}})).await;
    assert_eq!(code, 201, "{body}");
    let names: Vec<Value> = outside.take().iter().map(|s| s.body["request"]["name"].clone()).collect();
    assert_eq!(names, [Value::Null, body["metadata"]["name"].clone()]);
}

#[tokio::test]
async fn bad_configurations_are_refused_in_kubernetes_words() {
    let (server, _client) = server();
    let good = json!({"service": {"namespace": "default", "name": "x"}});
    let cases = [
        (
            json!({"name": "short"}),
            "webhooks[0].name: Invalid value: \"short\": should be a domain with at least three segments separated by dots",
        ),
        (
            json!({"sideEffects": null}),
            "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun",
        ),
        (
            json!({"admissionReviewVersions": []}),
            "webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1",
        ),
        (
            json!({"admissionReviewVersions": ["v2"]}),
            "webhooks[0].admissionReviewVersions: Invalid value: [\"v2\"]: must include at least one of v1, v1beta1",
        ),
        (
            json!({"timeoutSeconds": 31}),
            "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
        ),
        (
            json!({"failurePolicy": "Maybe"}),
            "webhooks[0].failurePolicy: Unsupported value: \"Maybe\": supported values: \"Fail\", \"Ignore\"",
        ),
        (
            json!({"clientConfig": {}}),
            "webhooks[0].clientConfig: Required value: exactly one of url or service is required",
        ),
        (
            json!({"clientConfig": {"url": "http://a/b"}}),
            "webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
        ),
        (
            json!({"clientConfig": {"service": {"name": "a", "namespace": "b", "path": "c"}}}),
            "webhooks[0].clientConfig.service.path: Invalid value: \"c\": must start with a '/'",
        ),
        (
            json!({"rules": rule(&["CREATE", "*"], "", "v1", "pods")}),
            "webhooks[0].rules[0].operations: Invalid value: [\"CREATE\",\"*\"]: if '*' is present, must not specify other operations",
        ),
        (
            json!({"rules": rule(&["GET"], "", "v1", "pods")}),
            "webhooks[0].rules[0].operations[0]: Unsupported value: \"GET\"",
        ),
        (
            json!({"rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": [""], "resources": ["*/*", "pods"]}]}),
            "if '*/*' is present, must not specify other resources",
        ),
        (
            json!({"objectSelector": {"matchExpressions": [{"key": "a", "operator": "Has"}]}}),
            "webhooks[0].objectSelector.matchExpressions[0].operator: Invalid value: \"Has\": not a valid selector operator",
        ),
    ];
    for (more, expected) in cases {
        let object = json!({"metadata": {"name": "x"}, "webhooks": [hook("h", good.clone(), more)]});
        let (code, body) = post(&server, &format!("{GROUP}/validatingwebhookconfigurations"), object).await;
        assert_eq!(code, 422, "{expected}: {body}");
        assert!(message(&body).contains(expected), "{expected}: {body}");
    }
    let twice = json!({"metadata": {"name": "x"}, "webhooks": [hook("h", good.clone(), json!({})), hook("h", good, json!({}))]});
    let (_, body) = post(&server, &format!("{GROUP}/mutatingwebhookconfigurations"), twice).await;
    assert!(message(&body).contains("webhooks[1].name: Duplicate value: \"h.example.com\""), "{body}");
}

#[tokio::test]
async fn configurations_get_defaults() {
    let (server, _client) = server();
    let client = json!({"service": {"namespace": "default", "name": "x"}});
    let object = json!({"metadata": {"name": "x"}, "webhooks": [hook("h", client, json!({}))]});
    let (code, body) = post(&server, &format!("{GROUP}/mutatingwebhookconfigurations"), object).await;
    assert_eq!(code, 201, "{body}");
    let hook = &body["webhooks"][0];
    assert_eq!(
        (&hook["failurePolicy"], &hook["matchPolicy"], &hook["timeoutSeconds"]),
        (&json!("Fail"), &json!("Equivalent"), &json!(10))
    );
    assert_eq!(
        (&hook["reinvocationPolicy"], &hook["rules"][0]["scope"], &hook["clientConfig"]["service"]["port"]),
        (&json!("Never"), &json!("*"), &json!(443))
    );
    assert_eq!((&hook["namespaceSelector"], &hook["objectSelector"]), (&json!({}), &json!({})));
}

#[tokio::test]
async fn match_conditions_decide_which_webhooks_are_called() {
    let (server, _client) = server();
    let outside = Outside::start("hook", |seen| review(seen, true, json!({}))).await;
    outside.behind(&server, "hook").await;
    let conditions = json!({"matchConditions": [
        {"name": "not-the-system", "expression": "!request.userInfo.username.startsWith('system:')"},
        {"name": "a-changed", "expression": "oldObject == null || object == null || object.data['a'] != oldObject.data['a']"},
    ]});
    configure(&server, "validating", "v", vec![hook("v", outside.client_config("hook", "/"), conditions)])
        .await;
    let asked = || outside.take().len();
    assert_eq!((post(&server, MAPS, config_map("x")).await.0, asked()), (201, 1));
    let one = format!("{MAPS}/x");
    let change = |data: Value| json!({"data": data});
    assert_eq!(
        (patch(&server, "merge-patch+json", &one, change(json!({"b": "2"}))).await.0, asked()),
        (200, 0)
    );
    assert_eq!(
        (patch(&server, "merge-patch+json", &one, change(json!({"a": "2"}))).await.0, asked()),
        (200, 1)
    );
    let system = Identity::system("system:robot");
    assert_eq!(send(&server, system, "DELETE", &one, &[], Value::Null).await.0, 200);
    assert_eq!(asked(), 0);
    // a failed evaluation refuses the request, like a failed webhook
    for (name, policy, code) in [("fails", "Fail", 403), ("ignored", "Ignore", 201)] {
        let more = json!({"failurePolicy": policy, "matchConditions": [{"name": "odd", "expression": "object.data.none == 'x'"}]});
        configure(&server, "validating", name, vec![hook(name, outside.client_config("hook", "/"), more)])
            .await;
        let (got, body) = post(&server, MAPS, config_map(name)).await;
        assert_eq!(got, code, "{body}");
        delete(&server, &format!("{GROUP}/validatingwebhookconfigurations/{name}")).await;
    }
    let bad = json!({"matchConditions": [{"name": "x", "expression": "object.("}, {"name": "x", "expression": "nobody"}, {"name": "", "expression": ""}]});
    let object = json!({"metadata": {"name": "bad"}, "webhooks": [hook("h", outside.client_config("hook", "/"), bad)]});
    let (code, body) = post(&server, &format!("{GROUP}/validatingwebhookconfigurations"), object).await;
    assert_eq!(code, 422, "{body}");
    for expected in [
        "webhooks[0].matchConditions[0].expression: Invalid value: \"object.(\": compilation failed: ",
        "webhooks[0].matchConditions[1].name: Duplicate value: \"x\"",
        "webhooks[0].matchConditions[1].expression: Invalid value: \"nobody\": compilation failed: ",
        "webhooks[0].matchConditions[2].name: Required value",
        "webhooks[0].matchConditions[2].expression: Required value",
    ] {
        assert!(message(&body).contains(expected), "{expected}: {body}");
    }
}

#[tokio::test]
async fn webhooks_are_called_for_connections() {
    let (server, _client) = server();
    let outside =
        Outside::start("hook", |seen| review(seen, false, json!({"status": {"message": "no shells"}}))).await;
    outside.behind(&server, "hook").await;
    let more = json!({"rules": rule(&["CONNECT"], "", "v1", "pods/exec")});
    configure(&server, "validating", "v", vec![hook("v", outside.client_config("hook", "/"), more)]).await;
    let exec = "/api/v1/namespaces/default/pods/x/exec?command=sh&command=-c&stdin=true&container=c";
    let (code, body) = post(&server, exec, Value::Null).await;
    assert_eq!(
        (code, message(&body)),
        (400, "admission webhook \"v.example.com\" denied the request: no shells")
    );
    let seen = outside.take();
    let request = &seen[0].body["request"];
    assert_eq!(
        (&request["operation"], &request["subResource"], &request["name"]),
        (&json!("CONNECT"), &json!("exec"), &json!("x"))
    );
    assert_eq!(
        request["object"],
        json!({"kind": "PodExecOptions", "apiVersion": "v1", "stdin": true, "container": "c", "command": ["sh", "-c"]})
    );
}

#[tokio::test]
async fn a_collection_is_deleted_only_where_webhooks_allow() {
    let (server, _client) = server();
    let outside = Outside::start("hook", |seen| {
        let name = seen.body["request"]["name"].as_str().unwrap_or_default();
        review(seen, name != "b", json!({}))
    })
    .await;
    outside.behind(&server, "hook").await;
    for name in ["a", "b"] {
        post(&server, MAPS, config_map(name)).await;
    }
    configure(
        &server,
        "validating",
        "v",
        vec![hook(
            "v",
            outside.client_config("hook", "/"),
            json!({"rules": rule(&["DELETE"], "", "v1", "configmaps")}),
        )],
    )
    .await;
    let (code, body) = delete(&server, MAPS).await;
    assert_eq!(code, 400, "{body}");
    assert_eq!(
        (get(&server, &format!("{MAPS}/a")).await.0, get(&server, &format!("{MAPS}/b")).await.0),
        (404, 200)
    );
    let options = &outside.take()[0].body["request"]["options"];
    assert_eq!(options, &json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}));
}

#[tokio::test]
async fn old_review_versions_are_supported() {
    let (server, _client) = server();
    // given a webhook of v1beta1: no uid, no patchType
    let outside = Outside::start("hook", |seen| {
        assert_eq!(seen.body["apiVersion"], "admission.k8s.io/v1beta1");
        let patch = STANDARD.encode(json!([{"op": "add", "path": "/data/old", "value": "x"}]).to_string());
        Some((200, json!({"response": {"allowed": true, "patch": patch}})))
    })
    .await;
    outside.behind(&server, "hook").await;
    let more = json!({"admissionReviewVersions": ["v9", "v1beta1", "v1"]});
    configure(&server, "mutating", "m", vec![hook("m", outside.client_config("hook", "/"), more)]).await;
    let (code, body) = post(&server, MAPS, config_map("x")).await;
    assert_eq!((code, &body["data"]["old"]), (201, &json!("x")), "{body}");
}

#[tokio::test]
async fn events_are_equivalent_in_both_groups() {
    let (server, _client) = server();
    let outside = Outside::start("hook", |seen| review(seen, true, json!({}))).await;
    outside.behind(&server, "hook").await;
    let more = json!({"rules": rule(&["CREATE"], "events.k8s.io", "v1", "events")});
    configure(&server, "validating", "v", vec![hook("v", outside.client_config("hook", "/"), more)]).await;
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}, "reason": "R", "type": "Normal", "message": "hello"});
    let (code, body) = post(&server, "/api/v1/namespaces/default/events", event).await;
    assert_eq!(code, 201, "{body}");
    let seen = outside.take();
    let request = &seen[0].body["request"];
    assert_eq!(request["kind"]["group"], "events.k8s.io");
    assert_eq!(request["requestKind"]["group"], "");
    assert_eq!(request["object"]["note"], "hello");
}

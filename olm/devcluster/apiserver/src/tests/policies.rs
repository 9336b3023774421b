//! Admission policies: denials, warnings and changes.

use super::*;

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn constraints(operations: &[&str]) -> Value {
    json!({ "resourceRules": [{
        "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": operations,
    }] })
}

async fn make(server: &ApiServer, plural: &str, name: &str, spec: Value) -> (u16, Value) {
    post(server, &format!("{GROUP}/{plural}"), json!({ "metadata": { "name": name }, "spec": spec })).await
}

/// A validating policy with its binding.
async fn validating(server: &ApiServer, name: &str, more: Value, actions: &[&str]) {
    let mut spec = json!({ "matchConstraints": constraints(&["CREATE", "UPDATE", "DELETE"]) });
    for (key, value) in more.as_object().expect("an object") {
        spec[key] = value.clone();
    }
    let (code, body) = make(server, "validatingadmissionpolicies", name, spec).await;
    assert_eq!(code, 201, "{body}");
    let binding = json!({ "policyName": name, "validationActions": actions });
    let (code, body) = make(server, "validatingadmissionpolicybindings", name, binding).await;
    assert_eq!(code, 201, "{body}");
}

async fn mutating(server: &ApiServer, name: &str, more: Value, bound: Value) {
    let mut spec = json!({
        "matchConstraints": constraints(&["CREATE", "UPDATE"]), "reinvocationPolicy": "Never",
    });
    for (key, value) in more.as_object().expect("an object") {
        spec[key] = value.clone();
    }
    let (code, body) = make(server, "mutatingadmissionpolicies", name, spec).await;
    assert_eq!(code, 201, "{body}");
    let mut binding = json!({ "policyName": name });
    for (key, value) in bound.as_object().expect("an object") {
        binding[key] = value.clone();
    }
    let (code, body) = make(server, "mutatingadmissionpolicybindings", name, binding).await;
    assert_eq!(code, 201, "{body}");
}

fn fields(expression: &str) -> Value {
    json!([{ "patchType": "ApplyConfiguration", "applyConfiguration": { "expression": expression } }])
}

fn operations(expression: &str) -> Value {
    json!([{ "patchType": "JSONPatch", "jsonPatch": { "expression": expression } }])
}

#[tokio::test]
async fn a_policy_refuses_with_its_message() {
    // given
    let (server, _client) = server();
    let spec = json!({
        "variables": [{ "name": "who", "expression": "request.userInfo.username" }],
        "matchConditions": [{ "name": "labelled", "expression": "object != null && has(object.metadata.labels)" }],
        "validations": [
            {
                "expression": "object.data.a != 'bad'", "reason": "Forbidden",
                "messageExpression": "variables.who + ' may not say ' + object.data.a",
            },
            { "expression": "object.data.a != 'odd'", "message": "nothing odd" },
            { "expression": "object.data.a != 'mute'" },
        ],
    });
    validating(&server, "p", spec, &["Deny"]).await;
    let create_with = async |word: &str| {
        let mut map = config_map("m");
        map["data"]["a"] = word.into();
        send(&server, Identity::user("ann", ["system:masters"]), "POST", MAPS, &[], map).await
    };

    // then each denial has the code, the reason and the wording of Kubernetes
    let (code, body) = create_with("bad").await;
    let text = "ValidatingAdmissionPolicy 'p' with binding 'p' denied request: ann may not say bad";
    assert_eq!((code, &body["reason"]), (403, &json!("Forbidden")));
    assert_eq!(body["message"], format!("configmaps \"m\" is forbidden: {text}"));
    assert_eq!(
        body["details"],
        json!({ "name": "m", "kind": "configmaps", "causes": [{ "message": text }] })
    );
    let (code, body) = create_with("odd").await;
    assert_eq!((code, &body["reason"]), (422, &json!("Invalid")));
    assert!(body["message"].as_str().unwrap_or_default().ends_with("denied request: nothing odd"), "{body}");
    let (_, body) = create_with("mute").await;
    let text = body["message"].as_str().unwrap_or_default();
    assert!(text.ends_with("denied request: failed expression: object.data.a != 'mute'"), "{body}");

    // and requests that do not match pass: another word, an object without labels
    assert_eq!(create_with("good").await.0, 201);
    let mut bare = config_map("bare");
    bare["data"]["a"] = "bad".into();
    bare["metadata"]["labels"] = Value::Null;
    assert_eq!(post(&server, MAPS, bare).await.0, 201);
    assert_eq!(
        get(&server, &format!("{GROUP}/validatingadmissionpolicies/p")).await.1["spec"]["failurePolicy"],
        "Fail"
    );

    // and without its binding it has no effect
    assert_eq!(delete(&server, &format!("{GROUP}/validatingadmissionpolicybindings/p")).await.0, 200);
    let bad =
        patch(&server, "merge-patch+json", &format!("{MAPS}/m"), json!({ "data": { "a": "bad" } })).await;
    assert_eq!(bad.0, 200, "{}", bad.1);
}

#[tokio::test]
async fn a_failing_policy_refuses_unless_failures_are_ignored() {
    for (policy, expected) in [("Fail", 422), ("Ignore", 201)] {
        let (server, _client) = server();
        let spec = json!({
            "failurePolicy": policy, "validations": [{ "expression": "object.data.missing == 'x'" }],
        });
        validating(&server, "p", spec, &["Deny"]).await;
        let (code, body) = post(&server, MAPS, config_map("m")).await;
        assert_eq!(code, expected, "{body}");
        if code == 422 {
            let text = "expression 'object.data.missing == 'x'' resulted in error: no such key: missing";
            assert!(body["message"].as_str().unwrap_or_default().ends_with(text), "{body}");
        }
    }
}

#[tokio::test]
async fn a_policy_may_only_warn_and_see_deletions_and_namespaces() {
    // given
    let (server, _client) = server();
    let spec = json!({
        "validations": [{ "expression": "request.operation != 'DELETE' || oldObject.metadata.name != 'kept'", "message": "is kept" }],
    });
    validating(&server, "warns", spec.clone(), &["Warn", "Audit"]).await;
    assert_eq!(post(&server, MAPS, config_map("kept")).await.0, 201);

    // when
    let caller = Identity::admin;
    let (code, warnings, _) =
        send_full(&server, caller(), "DELETE", &format!("{MAPS}/kept"), &[], Value::Null).await;

    // then
    let text = "Validation failed for ValidatingAdmissionPolicy 'warns' with binding 'warns': is kept";
    assert_eq!((code, warnings.as_slice()), (200, [format!("299 - \"{text}\"")].as_slice()));

    // and one that denies, based on the namespace
    let spec = json!({
        "validations": [{ "expression": "namespaceObject.metadata.name == 'default'", "message": "elsewhere" }],
    });
    validating(&server, "denies", spec, &["Deny"]).await;
    assert_eq!(post(&server, "/api/v1/namespaces", json!({ "metadata": { "name": "other" } })).await.0, 201);
    assert_eq!(post(&server, MAPS, config_map("here")).await.0, 201);
    assert_eq!(post(&server, "/api/v1/namespaces/other/configmaps", config_map("there")).await.0, 422);
}

#[tokio::test]
async fn a_binding_brings_parameters_and_narrows() {
    // given a limit per namespace, which objects with a label do not have
    let (server, _client) = server();
    let mut constraints = constraints(&["CREATE"]);
    constraints["excludeResourceRules"] = json!([{
        "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"],
        "resourceNames": ["limits"],
    }]);
    let spec = json!({
        "paramKind": { "apiVersion": "v1", "kind": "ConfigMap" }, "matchConstraints": constraints,
        "validations": [{ "expression": "size(object.data.a) <= int(params.data.most)", "message": "too long" }],
    });
    assert_eq!(make(&server, "validatingadmissionpolicies", "p", spec).await.0, 201);
    let binding = json!({
        "policyName": "p", "validationActions": ["Deny"],
        "paramRef": { "name": "limits", "parameterNotFoundAction": "Deny" },
        "matchResources": { "objectSelector": { "matchExpressions": [{ "key": "free", "operator": "DoesNotExist" }] } },
    });
    let (code, body) = make(&server, "validatingadmissionpolicybindings", "p", binding).await;
    assert_eq!(code, 201, "{body}");

    // then without the limit the evaluation fails
    let (_, body) = post(&server, MAPS, config_map("early")).await;
    let text = "no params found for policy binding with `Deny` parameterNotFoundAction";
    assert!(body["message"].as_str().unwrap_or_default().ends_with(text), "{body}");

    // and with it short ones pass, and those with the label
    let limits = json!({ "metadata": { "name": "limits" }, "data": { "most": "3" } });
    let (code, body) = post(&server, MAPS, limits).await;
    assert_eq!(code, 201, "{body}");
    let mut long = config_map("long");
    long["data"]["a"] = "long".into();
    assert_eq!(post(&server, MAPS, config_map("short")).await.0, 201);
    assert_eq!(post(&server, MAPS, long.clone()).await.0, 422);
    long["metadata"]["labels"]["free"] = "yes".into();
    assert_eq!(post(&server, MAPS, long).await.0, 201);
}

#[tokio::test]
async fn mutating_policies_run_in_order_and_are_reinvoked() {
    // given a reinvocable policy before another one
    let (server, _client) = server();
    let counted = "[JSONPatch{op: 'add', path: '/data/seen', value: string(size(object.data))}]";
    mutating(
        &server,
        "a",
        json!({ "mutations": operations(counted), "reinvocationPolicy": "IfNeeded" }),
        json!({}),
    )
    .await;
    let stamp =
        "Object{metadata: Object.metadata{annotations: {'by': request.userInfo.username}}, data: {'b': '2'}}";
    mutating(&server, "b", json!({ "mutations": fields(stamp) }), json!({})).await;
    let only = json!({
        "matchConditions": [{ "name": "asks", "expression": "'c' in object.data" }],
        "mutations": operations(
            "[JSONPatch{op: 'test', path: '/data/c', value: 'yes'}, JSONPatch{op: 'replace', path: '/data/c', value: 'done'}]",
        ),
    });
    mutating(&server, "c", only, json!({})).await;

    // when
    let caller = Identity::user("ann", ["system:masters"]);
    let (code, body) = send(&server, caller, "POST", MAPS, &[], config_map("m")).await;

    // then the first ran again, and existing values stay
    assert_eq!((code, &body["data"]), (201, &json!({ "a": "1", "b": "2", "seen": "3" })), "{body}");
    assert_eq!(body["metadata"]["annotations"]["by"], "ann");
    assert_eq!(body["metadata"]["labels"]["app"], "m");
    // and a failed test of a patch is not a failure
    for (word, result) in [("yes", "done"), ("no", "no")] {
        let path = format!("{MAPS}/m");
        let (code, body) = patch(&server, "merge-patch+json", &path, json!({ "data": { "c": word } })).await;
        assert_eq!((code, &body["data"]["c"]), (200, &json!(result)), "{body}");
    }
}

#[tokio::test]
async fn a_failed_mutation_refuses_with_all_causes() {
    // given a policy that sets an atomic list, and one whose patch does not apply
    let (server, _client) = server();
    service_account(&server, "default", "default").await;
    let rules = |expression: &str, name: &str| {
        let mut spec = json!({ "reinvocationPolicy": "Never", "mutations": fields(expression) });
        spec["matchConstraints"] = json!({ "resourceRules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"],
        }] });
        (name.to_owned(), spec)
    };
    let (name, spec) =
        rules("Object{spec: Object.spec{tolerations: [Object.spec.tolerations{key: 'a'}]}}", "atomic");
    assert_eq!(make(&server, "mutatingadmissionpolicies", &name, spec).await.0, 201);
    let (name, mut spec) = rules("Object{}", "unfit");
    spec["mutations"] = operations("[JSONPatch{op: 'remove', path: '/spec/nothing'}]");
    assert_eq!(make(&server, "mutatingadmissionpolicies", &name, spec).await.0, 201);
    for name in ["atomic", "unfit"] {
        let binding = json!({ "policyName": name });
        assert_eq!(make(&server, "mutatingadmissionpolicybindings", name, binding).await.0, 201);
    }

    // when
    let (code, body) = post(&server, "/api/v1/namespaces/default/pods", pod("p")).await;

    // then
    let text = "policy 'atomic' with binding 'atomic' denied request: error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.tolerations";
    assert_eq!((code, &body["reason"], &body["message"]), (403, &json!("Invalid"), &json!(text)));
    assert_eq!(body["details"]["causes"].as_array().map(Vec::len), Some(2), "{body}");
}

#[tokio::test]
async fn invalid_policies_are_refused_on_write() {
    let (server, _client) = server();
    let good =
        || json!({ "matchConstraints": constraints(&["CREATE"]), "validations": [{ "expression": "true" }] });
    let with = |change: fn(&mut Value)| {
        let mut spec = good();
        change(&mut spec);
        spec
    };
    let cases = [
        (
            with(|s| s["validations"] = json!([])),
            "spec.validations: Required value: validations or auditAnnotations",
        ),
        (with(|s| s["validations"] = json!([{ "expression": "1" }])), "must evaluate to bool but got int"),
        (
            with(|s| s["validations"] = json!([{ "expression": "nobody == 1" }])),
            "undeclared reference to 'nobody'",
        ),
        (
            with(|s| s["validations"] = json!([{ "expression": "params.a == 1" }])),
            "undeclared reference to 'params'",
        ),
        (
            with(|s| s["validations"] = json!([{ "expression": "true", "message": "a\nb" }])),
            "spec.validations[0].message: Invalid value: \"a\\nb\": must not contain line breaks",
        ),
        (
            with(|s| s["validations"] = json!([{ "expression": "true", "reason": "Because" }])),
            "spec.validations[0].reason: Unsupported value: \"Because\"",
        ),
        (
            with(|s| s["variables"] = json!([{ "name": "a-b", "expression": "1" }])),
            "spec.variables[0].name: Invalid value: \"a-b\": must be a valid CEL identifier",
        ),
        (with(|s| s["matchConstraints"] = Value::Null), "spec.matchConstraints: Required value"),
        (
            with(|s| s["matchConstraints"]["resourceRules"] = json!([])),
            "spec.matchConstraints.resourceRules: Required value",
        ),
    ];
    for (spec, expected) in cases {
        let (code, body) = make(&server, "validatingadmissionpolicies", "p", spec).await;
        let text = body["message"].as_str().unwrap_or_default();
        assert!(code == 422 && text.contains(expected), "{code} {text} is not about {expected}");
    }
    let binding = json!({ "policyName": "p", "validationActions": ["Deny", "Warn"] });
    let (code, body) = make(&server, "validatingadmissionpolicybindings", "p", binding).await;
    assert!(
        code == 422 && body["message"].as_str().unwrap_or_default().contains("both Deny and Warn"),
        "{body}"
    );
    let mutation = json!({
        "matchConstraints": constraints(&["DELETE"]), "mutations": fields("{'a': 'b'}"), "reinvocationPolicy": "Never",
    });
    let (code, body) = make(&server, "mutatingadmissionpolicies", "p", mutation).await;
    let text = body["message"].as_str().unwrap_or_default();
    assert!(code == 422 && text.contains("must evaluate to Object but got map(string, string)"), "{text}");
    assert!(
        text.contains("spec.matchConstraints.resourceRules.operations: Unsupported value: \"DELETE\""),
        "{text}"
    );
}

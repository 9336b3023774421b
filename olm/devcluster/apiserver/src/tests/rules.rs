use super::*;

/// The definition with rules: `replicas` may not decrease, `image` may not be `bad`.
fn ruled() -> Value {
    let mut crd = cron_tab_crd();
    let spec = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    spec["x-kubernetes-validations"] = json!([
        {"rule": "!has(self.replicas) || self.replicas <= 5", "message": "at most 5"},
        {"rule": "!has(oldSelf.replicas) || has(self.replicas) && self.replicas >= oldSelf.replicas", "message": "never fewer"},
    ]);
    spec["properties"]["image"]["x-kubernetes-validations"] =
        json!([{"rule": "self != 'bad'", "messageExpression": "'not ' + self"}]);
    crd
}

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const TABS: &str = "/apis/stable.example.com/v1/namespaces/default/crontabs";

fn tab(spec: Value) -> Value {
    json!({"apiVersion": "stable.example.com/v1", "kind": "CronTab", "metadata": {"name": "t"}, "spec": spec})
}

#[tokio::test]
async fn rules_are_enforced_on_writes() {
    let (server, _client) = server();
    let (code, body) = post(&server, CRDS, ruled()).await;
    assert_eq!(code, 201, "{body}");
    let (code, body) =
        post(&server, TABS, tab(json!({"cronSpec": "* *", "replicas": 6, "image": "bad"}))).await;
    assert_eq!(
        (code, body["message"].as_str()),
        (
            422,
            Some(
                "CronTab.stable.example.com \"t\" is invalid: [spec: Invalid value: at most 5, spec.image: Invalid value: \"bad\": not bad]"
            )
        )
    );
    assert_eq!(
        body["details"]["causes"][1],
        json!({
            "reason": "FieldValueInvalid", "message": "Invalid value: \"bad\": not bad", "field": "spec.image",
        })
    );
    assert_eq!(post(&server, TABS, tab(json!({"cronSpec": "* *", "replicas": 3}))).await.0, 201);
    let one = format!("{TABS}/t");
    let scale = |replicas: u64| json!({"spec": {"replicas": replicas}});
    let (code, body) = patch(&server, "merge-patch+json", &one, scale(2)).await;
    assert_eq!(
        (code, body["details"]["causes"][0]["message"].as_str()),
        (422, Some("Invalid value: never fewer"))
    );
    assert_eq!(patch(&server, "merge-patch+json", &one, scale(4)).await.0, 200);
    // the subresources enforce them too
    let (code, _) = patch(&server, "merge-patch+json", &format!("{one}/scale"), scale(1)).await;
    assert_eq!(code, 422);
    assert_eq!(
        patch(&server, "merge-patch+json", &format!("{one}/status"), json!({"status": {"replicas": 1}}))
            .await
            .0,
        200
    );
}

#[tokio::test]
async fn a_definition_with_an_ill_typed_rule_is_refused() {
    let (server, _client) = server();
    let mut crd = ruled();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"]
        [0]["rule"] = "self.nope == 1".into();
    let (code, body) = post(&server, CRDS, crd).await;
    assert_eq!(code, 422);
    assert_eq!(
        body["details"]["causes"][0]["field"],
        "spec.versions[0].schema.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule"
    );
    assert!(body["message"].as_str().is_some_and(|text| text.contains("undefined field 'nope'")), "{body}");
}

#[tokio::test]
async fn stored_violations_may_stay() {
    let (server, _client) = server();
    post(&server, CRDS, cron_tab_crd()).await;
    assert_eq!(post(&server, TABS, tab(json!({"cronSpec": "* *", "image": "bad"}))).await.0, 201);
    // given a definition that has become stricter
    let rules = ruled()["spec"].clone();
    let path = format!("{CRDS}/crontabs.stable.example.com");
    let (code, body) = patch(&server, "merge-patch+json", &path, json!({"spec": rules})).await;
    assert_eq!(code, 200, "{body}");
    // when another field is changed, then there is a warning
    let one = format!("{TABS}/t");
    let media = [("content-type", "application/merge-patch+json")];
    let change = json!({"spec": {"cronSpec": "5 5"}});
    let (code, warnings, _) = send_full(&server, Identity::admin(), "PATCH", &one, &media, change).await;
    assert_eq!(code, 200);
    assert!(warnings.iter().any(|warning| warning.contains("spec.image: Invalid value:")), "{warnings:?}");
    // when it is changed, then it must be valid
    let change = json!({"spec": {"image": "good"}});
    assert_eq!(patch(&server, "merge-patch+json", &one, change).await.0, 200);
    assert_eq!(patch(&server, "merge-patch+json", &one, json!({"spec": {"image": "bad"}})).await.0, 422);
}

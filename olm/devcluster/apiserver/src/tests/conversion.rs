//! CRDs with a conversion webhook: `v1` has `spec.cronSpec`, `v2` has `spec.schedule`.

use http_body_util::BodyExt;
use tower::ServiceExt;

use super::{
    outside::{Outside, Seen},
    *,
};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const V1: &str = "/apis/stable.example.com/v1/namespaces/default/crontabs";
const V2: &str = "/apis/stable.example.com/v2/namespaces/default/crontabs";

fn crd(client: &Value) -> Value {
    let mut crd = cron_tab_crd();
    let mut second = crd["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    second["storage"] = json!(false);
    second["schema"]["openAPIV3Schema"]["properties"]["spec"] = json!({
        "type": "object", "required": ["schedule"],
        "properties": {"schedule": {"type": "string"}, "image": {"type": "string"}, "mood": {"type": "string", "default": "good"},
            "replicas": {"type": "integer"}},
    });
    crd["spec"]["versions"].as_array_mut().expect("a list").push(second);
    crd["spec"]["conversion"] = json!({
        "strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client},
    });
    crd
}

/// Renames the field, in both directions; refuses objects named `stubborn`, and returns invalid results for
/// others.
fn convert(seen: &Seen) -> Option<(u16, Value)> {
    let request = &seen.body["request"];
    let desired = request["desiredAPIVersion"].as_str().expect("a version");
    let (from, to) =
        if desired.ends_with("v2") { ("cronSpec", "schedule") } else { ("schedule", "cronSpec") };
    let mut result = json!({"status": "Success"});
    let mut objects = request["objects"].as_array().expect("objects").clone();
    for object in &mut objects {
        object["apiVersion"] = desired.into();
        let spec = object["spec"].as_object_mut().expect("a spec");
        if let Some(value) = spec.shift_remove(from) {
            spec.insert(to.to_owned(), value);
        }
        object["metadata"]["labels"]["converted"] = json!("yes");
        match object["metadata"]["name"].as_str() {
            Some("stubborn") => result = json!({"status": "Failure", "message": "will not"}),
            Some("renamed") => object["metadata"]["name"] = json!("other"),
            _ => object["metadata"]["finalizers"] = json!(["example.com/mine"]),
        }
    }
    let response = json!({"uid": request["uid"], "convertedObjects": objects, "result": result});
    Some((
        200,
        json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "response": response}),
    ))
}

async fn with_webhook() -> (ApiServer, Outside) {
    let (server, _client) = server();
    let outside = Outside::start("convert", convert).await;
    outside.behind(&server, "convert").await;
    let (code, body) = post(&server, CRDS, crd(&outside.client_config("convert", "/convert"))).await;
    assert_eq!(code, 201, "{body}");
    (server, outside)
}

fn old(name: &str) -> Value {
    json!({"apiVersion": "stable.example.com/v1", "kind": "CronTab", "metadata": {"name": name}, "spec": {"cronSpec": "* *"}})
}

fn new(name: &str) -> Value {
    json!({"apiVersion": "stable.example.com/v2", "kind": "CronTab", "metadata": {"name": name}, "spec": {"schedule": "5 *"}})
}

#[tokio::test]
async fn objects_are_converted_both_ways() {
    let (server, outside) = with_webhook().await;
    // given an object of the storage version: the webhook is not called
    let (code, body) = post(&server, V1, old("a")).await;
    assert_eq!((code, outside.take().len()), (201, 0), "{body}");
    // when it is read in the other version
    let (code, body) = get(&server, &format!("{V2}/a")).await;
    // then it has that version's fields and defaults, and only labels and annotations of the webhook are
    // adopted
    assert_eq!(
        (code, &body["apiVersion"], &body["spec"]["schedule"]),
        (200, &json!("stable.example.com/v2"), &json!("* *"))
    );
    assert_eq!((&body["spec"]["mood"], &body["spec"]["cronSpec"]), (&json!("good"), &Value::Null));
    assert_eq!(
        (&body["metadata"]["labels"]["converted"], &body["metadata"]["finalizers"]),
        (&json!("yes"), &Value::Null)
    );
    let seen = outside.take();
    assert_eq!((seen.len(), seen[0].path.as_str()), (1, "/convert?timeout=30s"));
    // and an object written in the other version is stored in the storage version
    let (code, body) = post(&server, V2, new("b")).await;
    assert_eq!((code, &body["spec"]["schedule"]), (201, &json!("5 *")), "{body}");
    let (_, body) = get(&server, &format!("{V1}/b")).await;
    assert_eq!((&body["spec"]["cronSpec"], &body["spec"]["image"]), (&json!("5 *"), &json!("img")));
    let (code, body) =
        patch(&server, "merge-patch+json", &format!("{V2}/a"), json!({"spec": {"schedule": "9 9"}})).await;
    assert_eq!((code, &body["spec"]["schedule"]), (200, &json!("9 9")), "{body}");
    assert_eq!(get(&server, &format!("{V1}/a")).await.1["spec"]["cronSpec"], "9 9");
    let apply = json!({"apiVersion": "stable.example.com/v2", "kind": "CronTab", "metadata": {"name": "a"}, "spec": {"schedule": "7 7"}});
    let (code, body) =
        patch(&server, "apply-patch+yaml", &format!("{V2}/a?fieldManager=me&force=true"), apply).await;
    assert_eq!((code, &body["spec"]["schedule"]), (200, &json!("7 7")), "{body}");
    let (code, scale) = get(&server, &format!("{V2}/a/scale")).await;
    assert_eq!((code, &scale["kind"]), (200, &json!("Scale")));
    // and lists are converted in one call
    outside.take();
    let (_, list) = get(&server, V2).await;
    let schedules: Vec<_> =
        list["items"].as_array().expect("items").iter().map(|i| i["spec"]["schedule"].clone()).collect();
    assert_eq!(schedules, ["7 7", "5 *"]);
    assert_eq!(outside.take().len(), 1);
    let (_, list) = get(&server, &format!("{V2}?labelSelector=converted%3Dno")).await;
    assert_eq!(list["items"], json!([]));
    assert_eq!(delete(&server, &format!("{V2}/b")).await.0, 200);
}

#[tokio::test]
async fn watches_see_their_own_version() {
    let (server, _outside) = with_webhook().await;
    post(&server, V1, old("before")).await;
    let request = http::Request::builder()
        .uri(format!("{V2}?watch=true"))
        .extension(Identity::admin())
        .body(axum::body::Body::empty())
        .expect("a valid request");
    let mut body = server.router().oneshot(request).await.expect("the router cannot fail").into_body();
    let mut text = String::new();
    let mut next = async || loop {
        if let Some((line, rest)) = text.split_once('\n') {
            let event: Value = serde_json::from_str(line).expect("JSON");
            text = rest.to_owned();
            return event;
        }
        let frame = body.frame().await.expect("an open watch").expect("a frame");
        text.push_str(std::str::from_utf8(frame.data_ref().expect("data")).expect("text"));
    };
    let event = next().await;
    assert_eq!((&event["type"], &event["object"]["spec"]["schedule"]), (&json!("ADDED"), &json!("* *")));
    post(&server, V1, old("after")).await;
    let event = next().await;
    assert_eq!(
        (&event["object"]["metadata"]["name"], &event["object"]["spec"]["schedule"]),
        (&json!("after"), &json!("* *"))
    );
    delete(&server, &format!("{V1}/after")).await;
    let event = next().await;
    assert_eq!(
        (&event["type"], &event["object"]["apiVersion"]),
        (&json!("DELETED"), &json!("stable.example.com/v2"))
    );
    // an object that cannot be converted ends the watch with the webhook's error
    post(&server, V1, old("stubborn")).await;
    let event = next().await;
    assert_eq!(event["type"], "ERROR");
    assert_eq!(
        event["object"]["message"],
        "conversion webhook for stable.example.com/v1, Kind=CronTab failed: will not"
    );
}

#[tokio::test]
async fn a_conversion_that_fails_fails_the_request() {
    let (server, outside) = with_webhook().await;
    post(&server, V1, old("stubborn")).await;
    let (code, body) = get(&server, &format!("{V2}/stubborn")).await;
    assert_eq!(
        (code, &body["message"]),
        (500, &json!("conversion webhook for stable.example.com/v1, Kind=CronTab failed: will not"))
    );
    let (code, body) = post(&server, V2, new("renamed")).await;
    assert_eq!(code, 500);
    assert_eq!(
        body["message"],
        "conversion webhook for stable.example.com/v2, Kind=CronTab returned invalid converted object at index 0: must have the same name: renamed != other"
    );
    // the object was not stored, and the storage version needs no webhook
    assert_eq!(get(&server, &format!("{V1}/renamed")).await.0, 404);
    assert_eq!(get(&server, &format!("{V1}/stubborn")).await.0, 200);
    // a webhook without a server
    let mut gone = crd(&outside.client_config("nobody", "/convert"));
    gone["metadata"]["resourceVersion"] =
        get(&server, &format!("{CRDS}/crontabs.stable.example.com")).await.1["metadata"]["resourceVersion"]
            .clone();
    let (code, body) =
        send(&server, Identity::admin(), "PUT", &format!("{CRDS}/crontabs.stable.example.com"), &[], gone)
            .await;
    assert_eq!(code, 200, "{body}");
    let (code, body) = get(&server, V2).await;
    assert_eq!(
        (code, &body["message"]),
        (
            500,
            &json!(
                "conversion webhook for stable.example.com/v1, Kind=CronTab failed: Post \"https://nobody.default.svc:443/convert?timeout=30s\": service \"nobody\" not found"
            )
        )
    );
}

#[tokio::test]
async fn objects_migrate_to_a_new_storage_version_on_update() {
    let (server, outside) = with_webhook().await;
    post(&server, V1, old("a")).await;
    // when the other version becomes the storage version
    let swap = json!([
        {"op": "replace", "path": "/spec/versions/0/storage", "value": false},
        {"op": "replace", "path": "/spec/versions/1/storage", "value": true},
    ]);
    let (code, body) =
        patch(&server, "json-patch+json", &format!("{CRDS}/crontabs.stable.example.com"), swap).await;
    assert_eq!((code, &body["status"]["storedVersions"]), (200, &json!(["v1", "v2"])), "{body}");
    // then an update without a change rewrites the object (as storage migration does) and a second one does
    // not
    outside.take();
    let (_, before) = get(&server, &format!("{V2}/a")).await;
    let (code, after) =
        send(&server, Identity::admin(), "PUT", &format!("{V2}/a"), &[], before.clone()).await;
    assert_eq!(code, 200, "{after}");
    assert_ne!(before["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"]);
    outside.take();
    let (_, same) = get(&server, &format!("{V2}/a")).await;
    assert_eq!(
        (same["metadata"]["resourceVersion"].clone(), outside.take().len()),
        (after["metadata"]["resourceVersion"].clone(), 0)
    );
}

#[tokio::test]
async fn a_webhook_gets_the_version_that_its_rule_names() {
    let (server, _outside) = with_webhook().await;
    // given a webhook for v2 only, which also matches equivalent requests
    let admission = Outside::start("admit", |seen| {
        let request = &seen.body["request"];
        let patch = json!([{"op": "replace", "path": "/spec/schedule", "value": "admitted"}]);
        let patch = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, patch.to_string());
        let response =
            json!({"uid": request["uid"], "allowed": true, "patchType": "JSONPatch", "patch": patch});
        Some((
            200,
            json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}),
        ))
    })
    .await;
    admission.behind(&server, "admit").await;
    for (name, policy) in [("equivalent", "Equivalent"), ("exact", "Exact")] {
        let hooks = json!([{
            "name": "a.example.com", "clientConfig": admission.client_config("admit", &format!("/{name}")), "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "matchPolicy": policy,
            "rules": [{"operations": ["CREATE"], "apiGroups": ["stable.example.com"], "apiVersions": ["v2"], "resources": ["crontabs"]}],
        }]);
        let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
        assert_eq!(post(&server, path, json!({"metadata": {"name": name}, "webhooks": hooks})).await.0, 201);
    }
    // when an object of v1 is created
    let (code, body) = post(&server, V1, old("a")).await;
    // then it was converted for the webhook and back
    assert_eq!((code, &body["spec"]["cronSpec"]), (201, &json!("admitted")), "{body}");
    let seen = admission.take();
    assert_eq!(seen.len(), 1, "the exact one is not asked");
    let request = &seen[0].body["request"];
    assert_eq!(
        (&request["kind"]["version"], &request["requestKind"]["version"]),
        (&json!("v2"), &json!("v1"))
    );
    assert_eq!(request["object"]["spec"]["schedule"], "* *");
}

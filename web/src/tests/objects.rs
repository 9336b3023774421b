//! Editing and deleting objects.

use http::{Request, StatusCode, header};
use serde_json::{Value, json};

use super::{Answer, Browser, fake::Fake, hidden, post, send};

const AT: &str =
    "/apis/etcd.database.coreos.com/v1beta2/namespaces/default/etcdclusters/example-etcd-cluster";
const PAGE: &str = "/instances/etcdclusters.etcd.database.coreos.com/default/example-etcd-cluster";

/// The cluster with an object as an API server stores it.
async fn browser() -> (Browser, Fake) {
    let (browser, fake) = Browser::etcd().await;
    fake.change(AT, |object| {
        object["metadata"]["uid"] = "c1".into();
        object["metadata"]["resourceVersion"] = "7".into();
        object["spec"]["unknown"] = json!({"kept": [1, 2]});
        object["spec"]["pod"] = json!({"etcdEnv": [{"name": "DB_PASSWORD", "value": "hunter2"}]});
        object["metadata"]["annotations"] =
            json!({"kubectl.kubernetes.io/last-applied-configuration": "{\"v\":\"hunter2\"}"});
    });
    (browser, fake)
}

fn unescaped(text: &str) -> String {
    text.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

/// The hidden fields of the page that a later step needs.
fn fields(page: &Answer) -> Vec<(&'static str, String)> {
    let known = ["base", "view", "back", "document"];
    let of = |name: &&'static str| page.text.contains(&format!("name=\"{name}\" value=\""));
    known.into_iter().filter(of).map(|name| (name, unescaped(hidden(&page.text, name)))).collect()
}

impl Browser {
    async fn edit(&self, page: &Answer, changes: &[(&str, &str)]) -> Answer {
        let all = fields(page);
        let mut all: Vec<(&str, &str)> = all.iter().map(|(name, value)| (*name, value.as_str())).collect();
        all.extend(changes);
        self.post(&format!("{PAGE}/edit"), &all).await
    }
}

#[tokio::test]
async fn an_edit_is_reviewed_and_keeps_what_the_form_does_not_contain() {
    let (browser, fake) = browser().await;
    assert!(browser.get(PAGE).await.text.contains(&format!("href=\"{PAGE}/edit\"")));
    let page = browser.get(&format!("{PAGE}/edit")).await;
    assert!(page.text.contains("name=\"/spec/size\" value=\"3\""), "{}", page.text);
    // when a value is invalid, then the error is at its field with the input kept
    let wrong = browser.edit(&page, &[("/spec/size", "8"), ("action", "review")]).await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", wrong.text);
    assert!(wrong.text.contains("id=\"f-spec-size-problem\"") && wrong.text.contains("value=\"8\""));
    // when it is valid, then the review shows the difference and changes nothing
    let review = browser.edit(&page, &[("/spec/size", "5"), ("action", "review")]).await;
    assert_eq!(review.status, StatusCode::OK, "{}", review.text);
    assert!(review.text.contains("<code>/spec/size</code>"), "{}", review.text);
    assert!(review.text.contains("<del>3</del><ins>5</ins>"), "{}", review.text);
    let before = fake.get(AT).unwrap();
    assert_eq!(before["spec"]["size"], 3);
    // and the input can be continued
    let back = browser.edit(&review, &[("action", "edit")]).await;
    assert!(back.text.contains("name=\"/spec/size\" value=\"5\""), "{}", back.text);
    // when it is saved
    let done = browser.edit(&review, &[("action", "save")]).await;
    assert_eq!((done.status, done.location()), (StatusCode::SEE_OTHER, PAGE), "{}", done.text);
    // then only the changed field differs
    let mut expected = before;
    expected["spec"]["size"] = 5.into();
    expected["metadata"]["resourceVersion"] = "8".into();
    let saved = fake.get(AT).unwrap();
    for part in ["spec", "status"] {
        assert_eq!(saved[part], expected[part]);
    }
    assert_eq!(saved["metadata"]["annotations"], expected["metadata"]["annotations"]);
    assert_eq!(fake.writer(AT).as_deref(), Some("olm.console"));
}

#[tokio::test]
async fn a_hidden_value_is_not_shown_and_not_written_back() {
    let (browser, fake) = browser().await;
    for path in [PAGE.to_owned(), format!("{PAGE}/edit"), format!("{PAGE}/edit?view=yaml")] {
        let page = browser.get(&path).await;
        assert_eq!(page.status, StatusCode::OK);
        assert!(!page.text.contains("hunter2"), "{path}: {}", page.text);
        assert!(!browser.json(&path).await.to_string().contains("hunter2"), "{path}");
    }
    let value = |object: &Value| object["spec"]["pod"]["etcdEnv"][0]["value"].clone();
    // given the YAML, when another field is changed
    let page = browser.get(&format!("{PAGE}/edit?view=yaml")).await;
    let yaml = |size: u8, secret: &str| {
        format!(
            "apiVersion: etcd.database.coreos.com/v1beta2\nkind: EtcdCluster\n\
             metadata: {{name: example-etcd-cluster, namespace: default}}\n\
             spec: {{size: {size}, version: 3.4.23, pod: {{etcdEnv: [{{name: DB_PASSWORD, value: {secret}}}]}}}}\n"
        )
    };
    let save = [("document", &*yaml(4, "••••••1")), ("action", "save")];
    let done = browser.edit(&page, &save).await;
    assert_eq!(done.status, StatusCode::SEE_OTHER, "{}", done.text);
    // then the value is unchanged
    let saved = fake.get(AT).unwrap();
    assert_eq!((value(&saved), &saved["spec"]["size"]), (json!("hunter2"), &json!(4)));
    // and a placeholder without a value is refused at its place
    let page = browser.get(&format!("{PAGE}/edit?view=yaml")).await;
    let refused = browser.edit(&page, &[("document", &yaml(5, "••••••7")), ("action", "save")]).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(refused.text.contains("placeholder of a hidden value"), "{}", refused.text);
    // and a new value is written, and is not printed by the difference
    let review = browser.edit(&page, &[("document", &yaml(4, "correct")), ("action", "review")]).await;
    let panel = &review.text[review.text.find("id=\"changes-h\"").unwrap()..];
    assert!(panel.contains("••••••") && !panel.contains("correct") && !panel.contains("hunter2"), "{panel}");
    browser.edit(&review, &[("action", "save")]).await;
    assert_eq!(value(&fake.get(AT).unwrap()), "correct");
}

#[tokio::test]
async fn a_concurrent_change_is_shown_and_the_input_is_kept() {
    let (browser, fake) = browser().await;
    let page = browser.get(&format!("{PAGE}/edit")).await;
    // given a report of the operator, then the edit still applies
    fake.change(AT, |object| {
        object["metadata"]["resourceVersion"] = "8".into();
        object["status"]["readyMembers"] = 3.into();
    });
    let review = browser.edit(&page, &[("/spec/size", "5"), ("action", "review")]).await;
    assert_eq!(review.status, StatusCode::OK, "{}", review.text);
    // given a change by kubectl
    fake.change(AT, |object| {
        object["metadata"]["resourceVersion"] = "9".into();
        object["metadata"]["managedFields"] = json!([
            {"manager": "kubectl-edit", "operation": "Update", "time": "2026-11-21T10:00:00Z",
                "fieldsV1": {"f:spec": {"f:size": {}, "f:version": {}}}},
            {"manager": "etcd-operator", "operation": "Update", "time": "2026-11-21T11:00:00Z", "subresource": "status"}]);
        object["spec"]["size"] = 1.into();
        object["spec"]["version"] = "3.5.0".into();
    });
    // when the edit is saved, then nothing is written and the page names the change and its author
    let conflict = browser.edit(&review, &[("action", "save")]).await;
    assert_eq!(conflict.status, StatusCode::CONFLICT, "{}", conflict.text);
    assert_eq!(fake.get(AT).unwrap()["spec"]["size"], 1);
    for text in ["/spec/version", "by kubectl-edit", "Last change by <strong>kubectl-edit</strong>"] {
        assert!(conflict.text.contains(text), "{text}: {}", conflict.text);
    }
    // when the user continues, then the form has the input on top of the change
    let again = browser.edit(&conflict, &[("action", "merge")]).await;
    assert_eq!(again.status, StatusCode::OK, "{}", again.text);
    assert!(again.text.contains("name=\"/spec/size\" value=\"5\""), "{}", again.text);
    assert!(again.text.contains("Changed by others too") && again.text.contains("<del>1</del><ins>5</ins>"));
    let review =
        browser.edit(&again, &[("/spec/size", "5"), ("/spec/version", "3.5.0"), ("action", "review")]).await;
    let done = browser.edit(&review, &[("action", "save")]).await;
    assert_eq!(done.status, StatusCode::SEE_OTHER, "{}", done.text);
    let saved = fake.get(AT).unwrap();
    assert_eq!((&saved["spec"]["size"], &saved["spec"]["version"]), (&json!(5), &json!("3.5.0")));
    // given another object with the same name
    fake.change(AT, |object| {
        object["metadata"]["uid"] = "c2".into();
        object["metadata"]["resourceVersion"] = "20".into();
    });
    let conflict = browser.edit(&page, &[("/spec/size", "6"), ("action", "review")]).await;
    assert!(conflict.text.contains("deleted and created again"), "{}", conflict.text);
}

#[tokio::test]
async fn programs_edit_with_the_resource_version_that_they_read() {
    let (browser, fake) = browser().await;
    let model = browser.json(&format!("{PAGE}/edit")).await;
    assert_eq!(model["resourceVersion"], "7");
    let mut document = model["document"].clone();
    document["spec"]["size"] = 5.into();
    let save = |version: &str| {
        let body = json!({"action": "save", "resourceVersion": version, "document": document});
        let request = Request::post(format!("{PAGE}/edit"))
            .header(header::HOST, "127.0.0.1:8080")
            .header(header::AUTHORIZATION, format!("Bearer {}", super::TOKEN))
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, "application/json");
        send(&browser.router, request.body(body.to_string().into()).unwrap())
    };
    assert_eq!(save("6").await.status, StatusCode::CONFLICT);
    assert_eq!(fake.get(AT).unwrap()["spec"]["size"], 3);
    let done = save("7").await;
    assert_eq!(done.status, StatusCode::OK, "{}", done.text);
    let saved = fake.get(AT).unwrap();
    assert_eq!((&saved["spec"]["size"], &saved["spec"]["unknown"]), (&json!(5), &json!({"kept": [1, 2]})));
}

#[tokio::test]
async fn without_the_right_the_buttons_are_disabled() {
    let (browser, fake) = browser().await;
    fake.deny("etcdclusters");
    let page = browser.get(&format!("{PAGE}/edit")).await.text;
    assert!(page.contains("Missing permission: update etcdclusters in namespace default."), "{page}");
    assert!(page.contains("id=\"review\" name=\"action\" value=\"review\" disabled"), "{page}");
    let page = browser.get(&format!("{PAGE}/delete")).await.text;
    assert!(page.contains("Missing permission: delete etcdclusters in namespace default."), "{page}");
    assert!(page.contains("id=\"delete\" disabled"), "{page}");
}

#[tokio::test]
async fn only_this_site_edits_and_deletes() {
    let (browser, fake) = browser().await;
    for page in ["edit", "delete"] {
        let request = post(&format!("{PAGE}/{page}")).header(header::COOKIE, &browser.cookie);
        let answer = send(&browser.router, request.body("uid=c1".into()).unwrap()).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN);
    }
    assert!(fake.get(AT).is_some());
}

#[tokio::test]
async fn a_deletion_lists_its_dependents_and_requires_a_confirmation_if_data_may_be_lost() {
    let (browser, fake) = browser().await;
    let owned = |kind: &str, api: &str, name: &str, uid: &str, owner: &str| {
        json!({"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "default", "uid": uid,
            "ownerReferences": [{"apiVersion": "x/v1", "kind": "X", "name": "x", "uid": owner}]}})
    };
    let mut pod = owned("Pod", "v1", "example-0", "p1", "c1");
    pod["spec"] = json!({"containers": [], "volumes": [
        {"name": "a", "persistentVolumeClaim": {"claimName": "data-0"}},
        {"name": "b", "persistentVolumeClaim": {"claimName": "backup"}}]});
    let of = |path: &str| format!("/api/v1/namespaces/default/{path}");
    fake.insert(&of("pods/example-0"), pod);
    fake.insert(
        &of("persistentvolumeclaims/data-0"),
        owned("PersistentVolumeClaim", "v1", "data-0", "v1", "p1"),
    );
    fake.insert(&of("services/example"), owned("Service", "v1", "example", "s1", "c1"));
    fake.insert(&of("services/other"), owned("Service", "v1", "other", "s2", "c9"));
    // then the page lists what goes and what stays
    let model = browser.json(&format!("{PAGE}/delete")).await;
    let names = |list: &str| -> Vec<String> {
        model[list].as_array().unwrap().iter().map(|o| o["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("deleted"), ["data-0", "example-0", "example"]);
    assert_eq!(names("retainedClaims"), ["backup"]);
    let page = browser.get(&format!("{PAGE}/delete")).await;
    assert!(page.text.contains("Deletes 1 claim with the data"), "{}", page.text);
    assert_eq!(hidden(&page.text, "uid"), "c1");
    // when the name is not entered, then nothing is deleted
    let path = format!("{PAGE}/delete");
    let refused = browser.post(&path, &[("uid", "c1"), ("confirm", "example")]).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(refused.text.contains("id=\"confirm-problem\"") && refused.text.contains("value=\"example\""));
    // and neither is another object with the name
    let other = browser.post(&path, &[("uid", "c0"), ("confirm", "example-etcd-cluster")]).await;
    assert_eq!(other.status, StatusCode::CONFLICT);
    assert!(fake.get(AT).is_some());
    // when it is confirmed
    let done = browser.post(&path, &[("uid", "c1"), ("confirm", "example-etcd-cluster")]).await;
    let list = "/instances/etcdclusters.etcd.database.coreos.com/default?deleted=example-etcd-cluster";
    assert_eq!((done.status, done.location()), (StatusCode::SEE_OTHER, list), "{}", done.text);
    assert!(fake.get(AT).is_none());
    assert!(browser.get(list).await.text.contains("example-etcd-cluster is deleted."));
}

#[tokio::test]
async fn finalizers_hold_a_deletion() {
    let (browser, fake) = browser().await;
    fake.change(AT, |object| object["metadata"]["finalizers"] = json!(["etcd.example/backup"]));
    let page = browser.get(&format!("{PAGE}/delete")).await;
    assert!(
        page.text.contains("etcd.example/backup") && page.text.contains("id=\"confirm\""),
        "{}",
        page.text
    );
    let fields = [("uid", "c1"), ("confirm", "example-etcd-cluster")];
    let done = browser.post(&format!("{PAGE}/delete"), &fields).await;
    let list = browser.get(done.location()).await;
    assert!(list.text.contains("is being deleted.") && list.text.contains("Finalizers: etcd.example/backup"));
    assert!(list.text.contains("http-equiv=\"refresh\""), "{}", list.text);
}

#[tokio::test]
async fn an_object_without_data_is_deleted_without_its_name() {
    let (browser, fake) = browser().await;
    let page = browser.get(&format!("{PAGE}/delete")).await;
    assert!(
        !page.text.contains("id=\"confirm\"") && page.text.contains("owns no other objects"),
        "{}",
        page.text
    );
    let done = browser.post(&format!("{PAGE}/delete"), &[("uid", "c1")]).await;
    assert_eq!(done.status, StatusCode::SEE_OTHER, "{}", done.text);
    assert!(fake.get(AT).is_none());
}

#[tokio::test]
async fn a_refused_creation_does_not_repeat_a_hidden_value() {
    let (browser, fake) = browser().await;
    let page = "/instances/new/etcdclusters.etcd.database.coreos.com";
    let yaml = "apiVersion: etcd.database.coreos.com/v1beta2\nkind: EtcdCluster\n\
        metadata: {name: new, namespace: default}\n\
        spec: {size: 3, pod: {etcdEnv: [{name: DB_PASSWORD, value: invalid-hunter3}]}}\n";
    for action in ["create", "check"] {
        let fields = [("view", "yaml"), ("document", yaml), ("action", action)];
        let refused = browser.post(page, &fields).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", refused.text);
        // then only the input contains the value
        assert!(refused.text.contains("must not be &quot;••••••&quot;"), "{}", refused.text);
        assert_eq!(refused.text.matches("invalid-hunter3").count(), 1, "{}", refused.text);
    }
    assert!(!fake.paths().iter().any(|path| path.ends_with("/etcdclusters/new")));
}

use axum::body::Body;
use http::{Request, StatusCode, header};

use super::{
    Browser, TOKEN, console, fake::Fake, follow_link, get, hidden, new_code, paste_token, post, send,
};
use crate::security::CSP;

#[tokio::test]
async fn a_login_code_works_once() {
    // given
    let router = console(&Fake::default(), vec![]);
    let code = new_code(&router).await;
    // when it is redeemed
    let first = follow_link(&router, &format!("/login?code={code}")).await;
    // then a session starts
    assert_eq!((first.status, first.location()), (StatusCode::SEE_OTHER, "/catalog"));
    let cookie = first.headers[header::SET_COOKIE].to_str().unwrap();
    assert!(
        cookie.starts_with("olm_session=") && cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"),
        "{cookie}"
    );
    // and when it is redeemed again, then it is rejected
    let second = send(&router, get(&format!("/login?code={code}")).body(Body::empty()).unwrap()).await;
    assert_eq!(second.status, StatusCode::FORBIDDEN);
    assert!(second.text.contains("olm token") && !second.headers.contains_key(header::SET_COOKIE));
}

#[tokio::test]
async fn without_a_valid_token_there_is_no_code() {
    let router = console(&Fake::default(), vec![]);
    for authorization in [None, Some("Bearer wrong"), Some("Basic x"), Some("Bearer ")] {
        let mut request = post("/api/v1/login-codes");
        if let Some(value) = authorization {
            request = request.header(header::AUTHORIZATION, value);
        }
        let answer = send(&router, request.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{authorization:?}");
        assert!(answer.text.starts_with('{'));
    }
}

#[tokio::test]
async fn login_codes_are_limited() {
    let router = console(&Fake::default(), vec![]);
    let mut last = StatusCode::OK;
    for _ in 0..30 {
        let request = post("/api/v1/login-codes").header(header::AUTHORIZATION, format!("Bearer {TOKEN}"));
        last = send(&router, request.body(Body::empty()).unwrap()).await.status;
    }
    assert_eq!(last, StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn a_pasted_token_signs_in_and_a_wrong_one_is_explained() {
    let router = console(&Fake::default(), vec![]);
    assert_eq!(paste_token(&router, TOKEN, "/installed").await.location(), "/installed");
    let bad = paste_token(&router, "wrong", "").await;
    assert_eq!(bad.status, StatusCode::UNAUTHORIZED);
    assert!(
        bad.text.contains("API server rejected the token")
            && bad.text.contains("expired")
            && !bad.text.contains("wrong")
    );
    assert_eq!(paste_token(&router, TOKEN, "//evil.example").await.location(), "/catalog");
}

#[tokio::test]
async fn who_is_not_signed_in_is_sent_to_the_login_page_and_back() {
    let router = console(&Fake::default(), vec![]);
    let page = send(&router, get("/installed/a/b?x=1").body(Body::empty()).unwrap()).await;
    assert_eq!(
        (page.status, page.location()),
        (StatusCode::SEE_OTHER, "/login?next=%2Finstalled%2Fa%2Fb%3Fx%3D1")
    );
    let json = get("/installed").header(header::ACCEPT, "application/json").body(Body::empty()).unwrap();
    assert_eq!(send(&router, json).await.status, StatusCode::UNAUTHORIZED);
    for path in ["/icons/abc", "/api/v1/events?installed", "/me"] {
        let answer =
            send(&router, get(path).header(header::ACCEPT, "application/json").body(Body::empty()).unwrap())
                .await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{path}");
    }
}

#[tokio::test]
async fn every_answer_carries_the_security_headers() {
    let (browser, _) = Browser::etcd().await;
    for path in [
        "/catalog",
        "/installed",
        "/nowhere",
        "/healthz",
        &crate::assets::CSS.url,
        &crate::assets::SCRIPT.url,
        &crate::assets::FONT.url,
        "/login",
    ] {
        let answer = browser.get(path).await;
        let header = |name: &str| answer.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default();
        assert_eq!(header("content-security-policy"), CSP, "{path}");
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert_eq!(header("referrer-policy"), "no-referrer");
        assert_eq!(header("cross-origin-opener-policy"), "same-origin");
        assert_eq!(header("cross-origin-resource-policy"), "same-origin");
        assert_eq!(header("x-request-id").len(), 12);
    }
    insta::assert_snapshot!(CSP);
}

#[tokio::test]
async fn requests_from_elsewhere_change_nothing() {
    let (browser, fake) = Browser::etcd().await;
    let before = fake.paths();
    let body = format!("_csrf={}&digest=sha256:0123456789abcdef&plan=install-abc", browser.csrf);
    let path = "/installed/etcd/etcd/approve";
    let form = || {
        Request::post(path)
            .header(header::HOST, "127.0.0.1:8080")
            .header(header::COOKIE, &browser.cookie)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
    };
    let refused = [
        ("cross-site request", form().header("sec-fetch-site", "cross-site").body(body.clone())),
        ("another port of this host", form().header("sec-fetch-site", "same-site").body(body.clone())),
        ("another origin", form().header(header::ORIGIN, "http://evil.example").body(body.clone())),
        ("a page without origin", form().header(header::ORIGIN, "null").body(body.clone())),
        ("no origin", form().body(body.clone())),
        (
            "our page, without the token",
            form().header("sec-fetch-site", "same-origin").body("digest=x".to_owned()),
        ),
        (
            "our page, with another token",
            form().header("sec-fetch-site", "same-origin").body(body.replace("_csrf=", "_csrf=0")),
        ),
        (
            "another host name",
            Request::post(path)
                .header(header::HOST, "evil.example")
                .header(header::COOKIE, &browser.cookie)
                .header("sec-fetch-site", "same-origin")
                .body(body.clone()),
        ),
    ];
    for (what, request) in refused {
        let answer = send(&browser.router, request.unwrap().map(Body::from)).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{what}");
    }
    let plan =
        fake.get("/apis/operators.coreos.com/v1alpha1/namespaces/etcd/installplans/install-abc").unwrap();
    assert_eq!(plan["spec"]["approved"], false);
    assert_eq!(fake.paths(), before);
    let rebind = Request::get("/catalog").header(header::HOST, "evil.example").body(Body::empty()).unwrap();
    assert_eq!(send(&browser.router, rebind).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_plan_is_approved_by_its_digest_and_no_other() {
    let (browser, fake) = Browser::etcd().await;
    let plan =
        || fake.get("/apis/operators.coreos.com/v1alpha1/namespaces/etcd/installplans/install-abc").unwrap();
    let other = browser
        .post(
            "/installed/etcd/etcd/approve",
            &[("plan", "install-abc"), ("digest", "sha256:ffffffffffffffff")],
        )
        .await;
    assert_eq!(other.status, StatusCode::CONFLICT, "{}", other.text);
    assert!(other.text.contains("The plan changed"));
    assert_eq!(plan()["spec"]["approved"], false);
    let none = browser.post("/installed/etcd/etcd/approve", &[("plan", "install-abc")]).await;
    assert_eq!(none.status, StatusCode::BAD_REQUEST);

    let page = browser.get("/installed").await;
    let digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    assert!(page.text.contains(digest), "the list has the button: {}", page.text);
    let done =
        browser.post("/installed/etcd/etcd/approve", &[("plan", "install-abc"), ("digest", digest)]).await;
    assert_eq!(
        (done.status, done.location()),
        (StatusCode::SEE_OTHER, "/installed/etcd/etcd"),
        "{}",
        done.text
    );
    assert_eq!(plan()["spec"]["approved"], true);
    // and the record names the console
    let path = "/apis/operators.coreos.com/v1alpha1/namespaces/etcd/installplans/install-abc";
    assert_eq!(fake.writer(path).as_deref(), Some("olm.console"));
}

#[tokio::test]
async fn every_page_has_a_json_twin() {
    let (browser, _) = Browser::etcd().await;
    let crd = "etcdclusters.etcd.database.coreos.com";
    assert_eq!(browser.json("/catalog").await["packages"][0]["package"], "etcd");
    assert_eq!(browser.json("/catalog?q=EtcdCluster").await["packages"][0]["package"], "etcd");
    assert_eq!(browser.json("/catalog?q=zzzzzz").await["packages"].as_array().unwrap().len(), 0);
    assert_eq!(browser.json("/catalog/olm.community/etcd").await["version"], "0.11.0");
    assert_eq!(
        browser.json("/catalog/olm.community/etcd/versions").await["versions"][0]["version"],
        "0.11.0"
    );
    assert_eq!(browser.json("/catalog/olm.community/etcd/graph").await["package"], "etcd");
    assert_eq!(
        browser.json("/install/olm.community/etcd?namespace=fresh").await["request"]["createNamespace"],
        true
    );
    assert_eq!(browser.json("/installed").await["installed"][0]["package"], "etcd");
    assert!(browser.json("/installed/etcd/etcd").await["steps"].is_array());
    assert_eq!(
        browser.json("/installed/etcd/etcd/uninstall").await["instances"][0]["name"],
        "example-etcd-cluster"
    );
    assert_eq!(browser.json("/instances").await["kinds"][0]["crd"], crd);
    assert_eq!(browser.json(&format!("/instances/{crd}")).await["objects"][0]["state"], "Running");
    let object = browser.json(&format!("/instances/{crd}/default/example-etcd-cluster")).await;
    assert_eq!(object["object"]["spec"]["size"], 3);
    assert_eq!(browser.json("/me").await["name"], "ada");
    assert_eq!(browser.json("/nowhere").await["code"], "not-found");
}

#[tokio::test]
async fn one_click_installs_with_the_right_defaults() {
    let (browser, fake) = Browser::etcd().await;
    let page = browser.get("/install/olm.community/etcd?namespace=fresh").await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(
        page.text.contains("<h2 id=\"plan-h\">Plan</h2>") && !page.text.contains("No plan."),
        "{}",
        page.text
    );
    // a preview is a POST request: no URL contains the configuration or the token
    let form = &page.text[page.text.find("data-preview").unwrap()..];
    let form = &form[..form.find("</form>").unwrap()];
    let preview = "formaction=\"/install/olm.community/etcd/preview\"";
    assert!(form.contains(preview) && !form.contains("formmethod"), "{form}");
    assert_eq!(hidden(form, "_csrf"), browser.csrf);
    assert!(form.find("id=\"install\"").unwrap() < form.find(preview).unwrap(), "Enter installs: {form}");
    let done = browser
        .post("/install/olm.community/etcd", &[("namespace", "fresh"), ("updates", "automatic")])
        .await;
    assert_eq!(
        (done.status, done.location()),
        (StatusCode::SEE_OTHER, "/installed/fresh/etcd"),
        "{}",
        done.text
    );
    let made = fake.get("/apis/operators.coreos.com/v1alpha1/namespaces/fresh/subscriptions/etcd").unwrap();
    assert_eq!(made["spec"]["source"], "community");
    let path = "/apis/operators.coreos.com/v1alpha1/namespaces/fresh/subscriptions";
    assert_eq!(fake.writer(path).as_deref(), Some("olm.console"));
    assert_ne!(made["spec"]["installPlanApproval"], "Manual");
    assert!(fake.get("/api/v1/namespaces/fresh").is_some());
}

#[tokio::test]
async fn an_older_version_is_a_start_that_asks_before_it_updates() {
    let (browser, fake) = Browser::etcd().await;
    let done = browser
        .post(
            "/install/olm.community/etcd",
            &[("namespace", "old"), ("version", "0.10.1"), ("updates", "automatic")],
        )
        .await;
    assert_eq!(done.status, StatusCode::SEE_OTHER, "{}", done.text);
    let made = fake.get("/apis/operators.coreos.com/v1alpha1/namespaces/old/subscriptions/etcd").unwrap();
    assert_eq!(made["spec"]["installPlanApproval"], "Manual");
    assert_eq!(made["spec"]["startingCSV"], "etcdoperator.v0.10.1");
}

#[tokio::test]
async fn a_refused_install_keeps_what_was_typed() {
    let (browser, _) = Browser::etcd().await;
    let page = browser
        .post("/install/olm.community/etcd", &[("namespace", "Not A Name"), ("updates", "manual")])
        .await;
    assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(page.text.contains("value=\"Not A Name\"") && page.text.contains("role=\"alert\""));
    let unknown = browser.get("/install/olm.community/etdc").await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn an_object_is_created_from_the_form() {
    let (browser, fake) = Browser::etcd().await;
    let path = "/instances/new/etcdclusters.etcd.database.coreos.com";
    let page = browser.get(&format!("{path}?ns=default")).await;
    assert!(page.text.contains("name=\"/spec/size\""), "{}", page.text);
    assert!(page.text.contains("value=\"default\""), "{}", page.text);
    // without an explicit namespace, it is one that the operator watches
    let csv = fake.paths().into_iter().find(|path| path.contains("/clusterserviceversions/")).unwrap();
    let mut watching = fake.get(&csv).unwrap();
    watching["metadata"]["annotations"]["olm.targetNamespaces"] = "etcd".into();
    fake.insert(&csv, watching);
    let page = browser.get(path).await;
    assert!(page.text.contains("value=\"etcd\""), "{}", page.text);
    // when a value is invalid, then the error is at the field and the typed values are retained
    let wrong = [
        ("view", "form"),
        ("/metadata/name", "mine"),
        ("/metadata/namespace", "default"),
        ("/spec/size", "8"),
    ];
    let answer = browser.post(path, &wrong).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(
        answer.text.contains("id=\"f-spec-size-problem\"")
            && answer.text.contains("value=\"8\"")
            && answer.text.contains("value=\"mine\"")
    );
    // when the form is validated, then nothing is created
    let right = [
        ("view", "form"),
        ("/metadata/name", "mine"),
        ("/metadata/namespace", "default"),
        ("/spec/size", "5"),
    ];
    let mut check = right.to_vec();
    check.push(("action", "check"));
    assert!(browser.post(path, &check).await.text.contains("Validated by the API server"));
    let at = "/apis/etcd.database.coreos.com/v1beta2/namespaces/default/etcdclusters/mine";
    assert!(fake.get(at).is_none());
    // when it is submitted, then the object is created
    let done = browser.post(path, &right).await;
    assert_eq!(
        (done.status, done.location()),
        (StatusCode::SEE_OTHER, "/instances/etcdclusters.etcd.database.coreos.com/default/mine"),
        "{}",
        done.text
    );
    assert_eq!(fake.get(at).unwrap()["spec"]["size"], 5);
    // and a second object of that name is refused
    assert_eq!(browser.post(path, &right).await.status, StatusCode::CONFLICT);
}

#[tokio::test]
async fn form_and_yaml_are_one_document() {
    let (browser, fake) = Browser::etcd().await;
    let path = "/instances/new/etcdclusters.etcd.database.coreos.com";
    let yaml = browser
        .post(
            path,
            &[
                ("view", "form"),
                ("action", "to-yaml"),
                ("/metadata/name", "mine"),
                ("/metadata/namespace", "default"),
                ("/spec/size", "5"),
            ],
        )
        .await;
    assert!(yaml.text.contains("size: 5") && yaml.text.contains("name: mine"), "{}", yaml.text);
    let document = "apiVersion: etcd.database.coreos.com/v1beta2\nkind: EtcdCluster\nmetadata: {name: y, namespace: default, labels: {a: b}}\nspec: {size: 1}\n";
    let form = browser.post(path, &[("view", "yaml"), ("action", "to-form"), ("document", document)]).await;
    assert!(
        form.text.contains("name=\"/spec/size\" value=\"1\"") && form.text.contains("&quot;labels&quot;"),
        "{}",
        form.text
    );
    let broken = browser.post(path, &[("view", "yaml"), ("document", "a: [")]).await;
    assert_eq!(broken.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(broken.text.contains("failed to parse YAML") && broken.text.contains("a: ["));
    let done = browser.post(path, &[("view", "yaml"), ("document", document)]).await;
    assert_eq!(done.status, StatusCode::SEE_OTHER, "{}", done.text);
    assert_eq!(
        fake.get("/apis/etcd.database.coreos.com/v1beta2/namespaces/default/etcdclusters/y").unwrap()["metadata"]
            ["labels"]["a"],
        "b"
    );
}

#[tokio::test]
async fn objects_are_deleted_only_by_the_typed_name() {
    let (browser, fake) = Browser::etcd().await;
    let path = "/installed/etcd/etcd/uninstall";
    let page = browser.get(path).await;
    assert!(page.text.contains("example-etcd-cluster"));
    for fields in
        [vec![("what", "instances")], vec![("what", "crds"), ("confirm", "etc")], vec![("what", "all")]]
    {
        let answer = browser.post(path, &fields).await;
        assert!(answer.status.is_client_error(), "{fields:?}");
    }
    assert!(
        fake.get(
            "/apis/etcd.database.coreos.com/v1beta2/namespaces/default/etcdclusters/example-etcd-cluster"
        )
        .is_some()
    );
    assert!(fake.get("/apis/operators.coreos.com/v1alpha1/namespaces/etcd/subscriptions/etcd").is_some());
}

#[tokio::test]
async fn an_uninstall_shows_its_plan_and_carries_out_no_other() {
    let (browser, fake) = Browser::etcd().await;
    let path = "/installed/etcd/etcd/uninstall";
    // given the page with the plan of each choice
    let plans = browser.json(path).await["plans"].clone();
    let deleted = |choice: &str| -> Vec<String> {
        let objects = plans[choice]["objects"].as_array().unwrap();
        let gone = objects.iter().filter(|o| o["op"] == "delete");
        gone.map(|o| {
            format!(
                "{} {}",
                o["gvk"].as_str().unwrap().split('.').next().unwrap(),
                o["name"].as_str().unwrap()
            )
        })
        .collect()
    };
    let operator = ["Subscription etcd".to_owned(), "ClusterServiceVersion etcdoperator.v0.10.1".to_owned()];
    assert_eq!(deleted("operator")[..2], operator);
    assert_eq!(deleted("instances")[0], "EtcdCluster example-etcd-cluster");
    assert!(deleted("crds").iter().any(|o| o.starts_with("CustomResourceDefinition ")));
    let page = browser.get(path).await;
    let digest = plans["instances"]["digest"].as_str().unwrap();
    assert!(
        page.text.contains(digest) && page.text.contains("The operator and its objects"),
        "{}",
        page.text
    );
    // when an object is created before the button is pressed
    let clusters = "/apis/etcd.database.coreos.com/v1beta2/namespaces/default/etcdclusters";
    let mut other = fake.get(&format!("{clusters}/example-etcd-cluster")).unwrap();
    other["metadata"]["name"] = "other".into();
    fake.insert(&format!("{clusters}/other"), other);
    let fields = [("what", "instances"), ("confirm", "etcd"), ("digest-instances", digest)];
    let answer = browser.post(path, &fields).await;
    // then nothing is deleted, and the page shows the current plan
    assert_eq!(answer.status, StatusCode::CONFLICT, "{}", answer.text);
    assert!(answer.text.contains("The plan changed") && answer.text.contains("other"), "{}", answer.text);
    assert!(fake.get(&format!("{clusters}/example-etcd-cluster")).is_some());
    // and the current plan can be applied
    let digest = browser.json(path).await["plans"]["instances"]["digest"].as_str().unwrap().to_owned();
    let fields = [("what", "instances"), ("confirm", "etcd"), ("digest-instances", digest.as_str())];
    let done = browser.post(path, &fields).await;
    assert_eq!(done.status, StatusCode::OK, "{}", done.text);
    let left = fake.paths();
    assert!(!left.iter().any(|p| p.contains("/etcdclusters/") || p.contains("/subscriptions/")), "{left:?}");
    assert!(left.iter().any(|p| p.contains("/customresourcedefinitions/")), "{left:?}");
}

#[tokio::test]
async fn an_instance_shows_its_members_and_conditions() {
    let (browser, _) = Browser::etcd().await;
    let page =
        browser.get("/instances/etcdclusters.etcd.database.coreos.com/default/example-etcd-cluster").await;
    for text in
        ["example-etcd-cluster-4xk2l", "2 ready, 1 unready", "QuorumHealthy", "NewMemberAdded", "data-live="]
    {
        assert!(page.text.contains(text), "{text} in {}", page.text);
    }
    assert!(!page.text.contains("DeletedSince"), "an event of another object of that name: {}", page.text);
}

#[tokio::test]
async fn an_instance_without_quorum_is_not_running() {
    let (browser, fake) = Browser::etcd().await;
    let kind = "/instances/etcdclusters.etcd.database.coreos.com";
    let page = format!("{kind}/default/example-etcd-cluster");
    let chip = |tone: &str| format!("class=\"chip {tone}\"");
    let head = |text: &str| {
        text[text.find("id=\"instance-head\"").unwrap()..text.find("id=\"status\"").unwrap()].to_owned()
    };
    let before = head(&browser.get(&page).await.text);
    assert!(before.contains("Running") && before.contains(&chip("good")), "{before}");
    // when the cluster loses its quorum, while its phase stays
    let at = "/apis/etcd.database.coreos.com/v1beta2/namespaces/default/etcdclusters/example-etcd-cluster";
    let mut object = fake.get(at).unwrap();
    object["status"]["conditions"] = serde_json::json!([
        {"type": "Available", "status": "False", "reason": "QuorumLost", "message": "0 of 3 members are healthy",
            "lastTransitionTime": "2026-11-21T09:45:00Z"}]);
    fake.insert(at, object);
    // then neither its page nor the list calls it running
    let after = head(&browser.get(&page).await.text);
    assert!(after.contains("QuorumLost") && after.contains(&chip("bad")), "{after}");
    assert!(!after.contains("Running"), "{after}");
    let row = browser.json(kind).await["objects"][0].clone();
    assert_eq!((&row["state"], &row["health"]), (&"QuorumLost".into(), &"bad".into()));
}

#[tokio::test]
async fn a_theme_is_remembered() {
    let (browser, _) = Browser::etcd().await;
    let answer = browser.post("/theme", &[("theme", "dark"), ("next", "/installed")]).await;
    assert_eq!(answer.location(), "/installed");
    let cookie = answer.headers[header::SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned();
    let page =
        send(&browser.router, get("/login").header(header::COOKIE, cookie).body(Body::empty()).unwrap())
            .await;
    assert!(page.text.contains("data-theme=\"dark\""));
}

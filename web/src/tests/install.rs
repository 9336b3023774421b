//! The form of an installation.

use http::StatusCode;
use olm_catalog::Catalog;
use serde_json::json;

use super::{Browser, cluster, console, fake::Fake, lifecycle, loaded};

const PAGE: &str = "/install/olm.community/etcd";
const RANGE: (&str, &str) = ("range", ">=0.10.0 <0.11.0");

fn made(fake: &Fake, namespace: &str) -> serde_json::Value {
    let path = format!("/apis/operators.coreos.com/v1alpha1/namespaces/{namespace}/subscriptions/etcd");
    fake.get(&path).unwrap()["spec"].clone()
}

#[tokio::test]
async fn a_range_and_a_pin_limit_the_versions() {
    let (browser, fake) = Browser::etcd().await;
    let done = browser.post(PAGE, &[("namespace", "ranged"), ("policy", "range"), RANGE]).await;
    assert_eq!(done.status, StatusCode::SEE_OTHER, "{}", done.text);
    let spec = made(&fake, "ranged");
    assert_eq!((&spec["version"], &spec["startingCSV"]), (&json!(RANGE.1), &json!(null)));
    assert_ne!(spec["installPlanApproval"], "Manual");
    let pin = [("namespace", "pinned"), ("policy", "pin"), ("version", "0.10.1"), ("range", "unused")];
    let done = browser.post(PAGE, &pin).await;
    assert_eq!(done.status, StatusCode::SEE_OTHER, "{}", done.text);
    let spec = made(&fake, "pinned");
    assert_eq!((&spec["version"], &spec["startingCSV"]), (&json!("0.10.1"), &json!(null)));
    // and without either the channel is followed
    browser.post(PAGE, &[("namespace", "followed"), RANGE]).await;
    assert_eq!(made(&fake, "followed")["version"], json!(null));
}

#[tokio::test]
async fn an_invalid_range_is_reported_at_its_field() {
    let (browser, fake) = Browser::etcd().await;
    for range in ["", "newest", ">=0.10.0 <<1"] {
        let fields = [("namespace", "ranged"), ("policy", "range"), ("range", range)];
        let page = browser.post(PAGE, &fields).await;
        assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY, "{range}: {}", page.text);
        assert!(page.text.contains("id=\"range-problem\""), "{range}: {}", page.text);
        assert!(page.text.contains("name=\"policy\" value=\"range\" checked"), "{}", page.text);
    }
    let fields = [("namespace", "ranged"), ("policy", "range"), ("range", "newest")];
    assert!(browser.post(PAGE, &fields).await.text.contains("name=\"range\" value=\"newest\""));
    assert!(!fake.paths().iter().any(|path| path.contains("ranged")));
    // and a range without a version has no plan, and the page shows the reason
    let page = browser.get(&format!("{PAGE}?namespace=ranged&policy=range&range=%3E%3D7.0.0")).await;
    assert!(page.text.contains("No plan.") && page.text.contains("id=\"install\" disabled"), "{}", page.text);
    let wrong = browser.post(PAGE, &[("namespace", "Not A Name")]).await;
    assert!(wrong.text.contains("id=\"namespace-problem\""), "{}", wrong.text);
}

#[tokio::test]
async fn the_form_shows_whether_the_namespace_is_created() {
    let (browser, _) = Browser::etcd().await;
    let help = "Does not exist, and will be created.";
    assert!(browser.get(&format!("{PAGE}?namespace=fresh")).await.text.contains(help));
    assert!(!browser.get(&format!("{PAGE}?namespace=default")).await.text.contains(help));
}

#[tokio::test]
async fn deprecations_are_beside_the_channel_and_the_version() {
    let entry = |schema: &str, name: &str, message: &str| {
        let mut reference = json!({"schema": schema});
        if schema != "olm.package" {
            reference["name"] = name.into();
        }
        json!({"reference": reference, "message": message})
    };
    let mut documents = vec![json!({"schema": "olm.package", "name": "old", "defaultChannel": "new"})];
    for (channel, version) in [("new", "2.0.0"), ("past", "1.0.0")] {
        let name = format!("old.v{version}");
        documents.push(
            json!({"schema": "olm.channel", "package": "old", "name": channel, "entries": [{"name": name}]}),
        );
        documents
            .push(json!({"schema": "olm.bundle", "package": "old", "name": name, "image": "localhost/old:1",
            "properties": [{"type": "olm.package", "value": {"packageName": "old", "version": version}}]}));
    }
    documents.push(json!({"schema": "olm.deprecations", "package": "old", "entries": [
        entry("olm.package", "", "Use another package."), entry("olm.channel", "past", "Use channel new."),
        entry("olm.bundle", "old.v1.0.0", "Version 1 has <b>no</b> fixes.")]}));
    let lines: Vec<String> = documents.iter().map(ToString::to_string).collect();
    let catalog = Catalog::from_bytes("old", lines.join("\n").as_bytes());
    let browser = Browser::new(console(&cluster(), vec![loaded("community", catalog)])).await;
    let note = |text: &str, id: &str| -> String {
        let at = text.find(&format!("<div id=\"{id}\">")).unwrap_or_else(|| panic!("no {id}: {text}"));
        text[at..].split("</div>").next().unwrap().to_owned()
    };
    let page = browser.get("/install/olm.community/old").await.text;
    assert!(note(&page, "package-note").contains("Use another package."), "{page}");
    assert!(!note(&page, "channel-note").contains("Deprecated"), "{page}");
    let page = browser.get("/install/olm.community/old?channel=past").await.text;
    assert!(note(&page, "channel-note").contains("Use channel new."), "{page}");
    assert!(note(&page, "version-note").contains("Version 1 has &lt;b&gt;no&lt;/b&gt; fixes."), "{page}");
    let model = browser.json("/install/olm.community/old?channel=past").await;
    assert_eq!(model["deprecated"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn the_command_names_the_catalog_where_several_have_the_package() {
    let catalogs = ["community", "other"].map(|name| loaded(name, olm_catalog::shipped()));
    let browser = Browser::new(console(&cluster(), catalogs.into())).await;
    let command = browser.json("/install/olm.other/etcd?namespace=fresh").await["command"].clone();
    assert_eq!(command, "olm install etcd -n fresh --catalog olm/other");
}

#[tokio::test]
async fn settings_become_the_config_of_the_subscription() {
    let (browser, fake) = Browser::etcd().await;
    let fields = [
        ("namespace", "set"),
        ("env", "LOG_LEVEL=debug\r\n\r\nOPTIONS=a=b"),
        ("node-selector", "kubernetes.io/os=linux"),
        ("toleration", "spot"),
        ("resources.limits.memory", "64Mi"),
    ];
    let done = browser.post(PAGE, &fields).await;
    assert_eq!(done.status, StatusCode::SEE_OTHER, "{}", done.text);
    assert_eq!(
        made(&fake, "set")["config"],
        json!({
            "env": [{"name": "LOG_LEVEL", "value": "debug"}, {"name": "OPTIONS", "value": "a=b"}],
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "tolerations": [{"key": "spot", "operator": "Exists"}],
            "resources": {"limits": {"memory": "64Mi"}},
        })
    );
    // and an invalid setting is reported at its field, with the input kept
    let wrong = [("namespace", "wrong"), ("env", "LOG_LEVEL"), ("resources.limits.memory", "much")];
    let page = browser.post(PAGE, &wrong).await;
    assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", page.text);
    for text in [
        "id=\"env-problem\"",
        "id=\"resources-limits-memory-problem\"",
        ">LOG_LEVEL</textarea>",
        "value=\"much\"",
    ] {
        assert!(page.text.replace(">\n", ">").contains(text), "{text}: {}", page.text);
    }
    assert!(page.text.contains("id=\"config\" open"), "{}", page.text);
    assert!(!fake.paths().iter().any(|path| path.contains("/wrong/")));
}

#[tokio::test]
async fn a_preview_with_configuration_is_in_no_url() {
    let (browser, fake) = Browser::etcd().await;
    let preview = format!("{PAGE}/preview");
    let page = browser.post(&preview, &[("namespace", "fresh"), ("env", "DB=hunter2")]).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.text);
    assert!(page.text.contains("env.DB=hunter2") && !page.text.contains("No plan."), "{}", page.text);
    assert_eq!(browser.get(&preview).await.status, StatusCode::OK, "the page after a sign-in");
    assert!(!fake.paths().iter().any(|path| path.contains("/fresh/")), "nothing is installed");
    // and a URL does not fill in the configuration
    let model = browser.json(&format!("{PAGE}?namespace=fresh&env=DB%3Dhunter2")).await;
    assert!(model["request"]["namespace"] == "fresh" && !model.to_string().contains("hunter2"), "{model}");
    // and only this site requests a preview
    let request = super::post(&preview).header(http::header::COOKIE, &browser.cookie);
    let answer = super::send(&browser.router, request.body("env=A%3Db".into()).unwrap()).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn the_default_is_the_head_of_the_channel_not_the_highest_version() {
    let (package, channel) = ("withdrawn", "stable; rm -rf ~");
    let bundle = |version: &str| {
        json!({"schema": "olm.bundle", "package": package, "name": format!("{package}.v{version}"), "image": "localhost/x:1",
            "properties": [{"type": "olm.package", "value": {"packageName": package, "version": version}}]})
    };
    // 1.0.1 withdraws 2.0.0
    let entries =
        json!([{"name": "withdrawn.v2.0.0"}, {"name": "withdrawn.v1.0.1", "replaces": "withdrawn.v2.0.0"}]);
    let documents = [
        json!({"schema": "olm.package", "name": package, "defaultChannel": "other"}),
        json!({"schema": "olm.channel", "package": package, "name": "other", "entries": [{"name": "withdrawn.v2.0.0"}]}),
        json!({"schema": "olm.channel", "package": package, "name": channel, "entries": entries}),
        bundle("1.0.1"),
        bundle("2.0.0"),
    ];
    let lines: Vec<String> = documents.iter().map(ToString::to_string).collect();
    let catalog = Catalog::from_bytes("withdrawn", lines.join("\n").as_bytes());
    let browser = Browser::new(console(&cluster(), vec![loaded("community", catalog)])).await;
    let path = "/install/olm.community/withdrawn?namespace=fresh&channel=stable%3B+rm+-rf+~";
    let page = browser.get(path).await;
    assert!(page.text.contains("<option value=\"\" selected>1.0.1 (channel head)"), "{}", page.text);
    assert!(page.text.contains("<option value=\"2.0.0\">2.0.0"), "{}", page.text);
    let model = browser.json(path).await;
    assert_eq!(model["request"]["startingCsv"], json!(null));
    // and the name of the channel does not run when the command is pasted
    assert_eq!(model["command"], "olm install withdrawn -n fresh --channel 'stable; rm -rf ~'");
}

#[tokio::test]
async fn a_repeated_installation_shows_and_keeps_the_settings_of_the_subscription() {
    let (browser, fake) = Browser::etcd().await;
    let at = "/apis/operators.coreos.com/v1alpha1/namespaces/etcd/subscriptions/etcd";
    fake.change(at, |object| {
        object["spec"]["version"] = "<0.11.0".into();
        object["spec"]["config"] =
            json!({"env": [{"name": "DB_PASSWORD", "value": "hunter2"}], "nodeSelector": {"zone": "a"}});
    });
    lifecycle::watch_one_namespace(&fake);
    // given no choice of the approval, then that of the Subscription is selected
    let path = format!("{PAGE}?namespace=etcd");
    let page = browser.get(&path).await;
    assert!(page.text.contains("name=\"updates\" value=\"manual\" checked"), "{}", page.text);
    assert!(page.text.contains("spec.version &lt;0.11.0; spec.config"), "{}", page.text);
    let model = browser.json(&path).await;
    let spec = &model["subscription"]["spec"];
    assert_eq!((&spec["version"], &spec["installPlanApproval"]), (&json!("<0.11.0"), &json!("Manual")));
    assert_eq!(spec["config"]["nodeSelector"], json!({"zone": "a"}));
    assert!(!page.text.contains("hunter2") && !model.to_string().contains("hunter2"), "{model}");
    assert_ne!(model["plan"]["to"], "0.11.0", "the range excludes it: {model}");
    // when it is installed with a node selector, then the result is what the preview showed
    let fields = [("namespace", "etcd"), ("updates", "automatic"), ("node-selector", "zone=b")];
    let preview = browser.post(&format!("{PAGE}/preview"), &fields).await;
    assert!(preview.text.contains("--approval automatic"), "{}", preview.text);
    let done = browser.post(PAGE, &fields).await;
    assert_eq!(done.status, StatusCode::SEE_OTHER, "{}", done.text);
    let spec = made(&fake, "etcd");
    assert_eq!((&spec["version"], &spec["installPlanApproval"]), (&json!("<0.11.0"), &json!("Automatic")));
    assert_eq!(spec["config"]["env"][0]["value"], "hunter2");
    assert_eq!(spec["config"]["nodeSelector"], json!({"zone": "b"}));
}

fn group(fake: &Fake, namespace: &str, name: &str) -> Option<serde_json::Value> {
    let path = format!("/apis/operators.coreos.com/v1/namespaces/{namespace}/operatorgroups/{name}");
    Some(fake.get(&path)?["spec"].clone())
}

#[tokio::test]
async fn the_selected_namespaces_become_an_operator_group() {
    let (browser, fake) = Browser::etcd().await;
    let cases = [
        ("own-ns", "own", "", json!({"targetNamespaces": ["own-ns"]}), "--mode own"),
        ("one-ns", "single", "default", json!({"targetNamespaces": ["default"]}), "--watch default"),
    ];
    for (namespace, mode, names, spec, flags) in cases {
        let fields = [("namespace", namespace), ("watch", mode), ("watch-namespaces", names)];
        // the review shows the scope and the group
        let page = browser.post(&format!("{PAGE}/preview"), &fields).await.text;
        assert!(page.contains("olm-operators will be created, watching"), "{page}");
        assert!(page.contains(flags) && page.contains("kind: OperatorGroup"), "{page}");
        assert!(page.contains(&format!("name=\"watch\" value=\"{mode}\" checked")), "{page}");
        assert_eq!(group(&fake, namespace, "olm-operators"), None, "a preview creates nothing");
        let done = browser.post(PAGE, &fields).await;
        assert_eq!(done.status, StatusCode::SEE_OTHER, "{}", done.text);
        assert_eq!(group(&fake, namespace, "olm-operators"), Some(spec));
        assert_eq!(made(&fake, namespace)["name"], "etcd");
    }
    // and without a selection the plan makes the group
    browser.post(PAGE, &[("namespace", "default-ns"), ("watch", ""), ("watch-namespaces", "default")]).await;
    assert_eq!(group(&fake, "default-ns", "olm-operators"), None);
    assert_eq!(made(&fake, "default-ns")["name"], "etcd");
}

#[tokio::test]
async fn namespaces_that_cannot_be_watched_are_reported_at_their_field() {
    let (browser, fake) = Browser::etcd().await;
    for (mode, names, why) in [
        ("single", "Not_A_Name", "is not a valid namespace name"),
        ("single", "", "expected one"),
        ("single", "a<b>", "a&lt;b&gt;"),
        ("single", "absent", "watched namespaces do not exist: absent"),
        ("multi", "default, olm", "the bundle does not support install mode MultiNamespace"),
        ("all", "", "the bundle does not support install mode AllNamespaces"),
    ] {
        let fields = [("namespace", "fresh"), ("watch", mode), ("watch-namespaces", names)];
        let page = browser.post(PAGE, &fields).await;
        assert!(page.status.is_client_error(), "{mode} {names}: {}", page.text);
        let at = page.text.find("id=\"watch-namespaces-problem\"").unwrap_or_else(|| panic!("{}", page.text));
        assert!(page.text[at..].contains(why), "{why}: {}", page.text);
        assert!(page.text.contains(&format!("name=\"watch\" value=\"{mode}\" checked>")), "{}", page.text);
        if mode == "multi" {
            assert!(page.text.contains("value=\"default, olm\""), "{}", page.text);
        }
    }
    assert!(!fake.paths().iter().any(|path| path.contains("/fresh")), "{:?}", fake.paths());
    // modes that the version does not support are disabled, with the reason
    let page = browser.get(&format!("{PAGE}?namespace=fresh")).await.text;
    assert_eq!(page.matches("Not supported by this version.").count(), 2, "{page}");
    assert!(page.contains("name=\"watch\" value=\"all\" disabled"), "{page}");
    assert!(page.contains("name=\"watch\" value=\"own\">"), "{page}");
}

#[tokio::test]
async fn an_existing_operator_group_is_the_default_and_is_not_changed() {
    let (browser, fake) = Browser::etcd().await;
    fake.insert("/api/v1/namespaces/team", json!({"metadata": {"name": "team"}}));
    let spec = json!({"targetNamespaces": ["default"]});
    fake.insert(
        "/apis/operators.coreos.com/v1/namespaces/team/operatorgroups/mine",
        json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": {"name": "mine", "namespace": "team"}, "spec": spec}),
    );
    let page = browser.get(&format!("{PAGE}?namespace=team")).await.text;
    assert!(page.contains("OperatorGroup mine watches default."), "{page}");
    assert!(page.contains("name=\"watch\" value=\"own\" disabled"), "{page}");
    assert!(page.contains("name=\"watch\" value=\"single\">"), "{page}");
    assert!(page.contains("name=\"watch-namespaces\" value=\"default\""), "{page}");
    // another scope is refused
    let page = browser.post(PAGE, &[("namespace", "team"), ("watch", "own")]).await;
    assert_eq!(page.status, StatusCode::CONFLICT, "{}", page.text);
    assert!(page.text.contains("OperatorGroup team/mine watches default, expected team"), "{}", page.text);
    assert!(!fake.paths().iter().any(|path| path.contains("/team/subscriptions/")));
    // and the same one is kept
    let same = [("namespace", "team"), ("watch", "single"), ("watch-namespaces", "default")];
    let done = browser.post(PAGE, &same).await;
    assert_eq!(done.status, StatusCode::SEE_OTHER, "{}", done.text);
    assert_eq!((group(&fake, "team", "mine"), group(&fake, "team", "olm-operators")), (Some(spec), None));
}

#[tokio::test]
async fn the_preview_names_the_missing_right_to_create_the_group() {
    let (browser, fake) = Browser::etcd().await;
    fake.deny("operatorgroups");
    let page = browser.get(&format!("{PAGE}?namespace=fresh&watch=own")).await.text;
    let why = "you may not create operatorgroups.operators.coreos.com in namespace fresh";
    assert!(page.contains(why) && page.contains("id=\"install\" disabled"), "{page}");
    let done = browser.post(PAGE, &[("namespace", "fresh"), ("watch", "own")]).await;
    assert_eq!(done.status, StatusCode::FORBIDDEN, "{}", done.text);
    assert!(!fake.paths().iter().any(|path| path.contains("/fresh")));
}

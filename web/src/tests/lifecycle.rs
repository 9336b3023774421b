//! Pages and actions of an installed operator.

use http::{Request, StatusCode, header};
use serde_json::{Value, json};

use super::{Browser, console, etcd, fake::Fake, loaded, send};

pub(super) const BASE: &str = "/apis/operators.coreos.com/v1alpha1/namespaces/etcd";
pub(super) const HOME: &str = "/installed/etcd/etcd";

impl Browser {
    /// The cluster with etcd, after a change.
    pub(super) async fn at(change: impl FnOnce(&Fake)) -> (Self, Fake) {
        let fake = scene();
        change(&fake);
        let router = console(&fake, vec![loaded("community", olm_catalog::shipped())]);
        (Self::new(router).await, fake)
    }
}

impl Fake {
    fn subscription(&self) -> Value {
        self.get(&format!("{BASE}/subscriptions/etcd")).unwrap()
    }

    pub(super) fn change(&self, path: &str, change: impl FnOnce(&mut Value)) {
        let mut object = self.get(path).unwrap();
        change(&mut object);
        self.insert(path, object);
    }
}

/// The cluster with etcd and two revisions, the newer of which is installed.
pub(super) fn scene() -> Fake {
    let fake = super::cluster();
    for (name, version, generation, approved_by) in
        [("install-one", "0.9.4", 1, Some("ada")), ("install-two", "0.10.1", 2, None)]
    {
        let mut plan = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
            "metadata": {"name": name, "namespace": "etcd", "resourceVersion": "5", "creationTimestamp": "2026-11-20T09:30:00Z",
                "annotations": {"olm.planSummary": format!("install etcd {version}: 9 to create, 0 to change, 0 to delete")},
                "ownerReferences": [{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "name": "etcd", "uid": "u1"}],
                "managedFields": [{"manager": "olm.console", "operation": "Update", "time": "2026-11-20T09:31:00Z", "fieldsV1": {"f:spec": {"f:approved": {}}}}]},
            "spec": {"approval": if approved_by.is_some() { "Manual" } else { "Automatic" }, "approved": true, "generation": generation,
                "source": "community", "sourceNamespace": "olm", "clusterServiceVersionNames": [format!("etcdoperator.v{version}")]},
            "status": {"phase": "Complete", "conditions": [{"type": "Installed", "status": "True", "lastTransitionTime": "2026-11-20T09:32:00Z"}]},
        });
        match approved_by {
            Some(user) => plan["metadata"]["annotations"]["olm.approvedBy"] = user.into(),
            None => plan["metadata"]["annotations"]["olm.requestedBy"] = "ada".into(),
        }
        fake.insert(&format!("{BASE}/installplans/{name}"), plan);
    }
    fake
}

/// An operator that was installed as a dependency of etcd, and that no other operator requires.
pub(super) fn installed_along(fake: &Fake) {
    fake.insert(&format!("{BASE}/subscriptions/helper"), json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": {"name": "helper", "namespace": "etcd", "uid": "u8", "annotations": {"olm.requiredBy": "etcd"}},
        "spec": {"name": "helper", "source": "community", "sourceNamespace": "olm"},
        "status": {"installedCSV": "helper.v1.0.0", "currentCSV": "helper.v1.0.0", "state": "AtLatestKnown"},
    }));
    fake.insert(&format!("{BASE}/clusterserviceversions/helper.v1.0.0"), json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": "helper.v1.0.0", "namespace": "etcd", "uid": "u9"},
        "spec": {"displayName": "Helper", "version": "1.0.0", "install": {"strategy": "deployment", "spec": {"deployments": []}},
            "installModes": [{"type": "AllNamespaces", "supported": true}]},
        "status": {"phase": "Succeeded", "reason": "InstallSucceeded"},
    }));
}

/// The OperatorGroup has its own namespace as target, as both versions require.
pub(super) fn watch_one_namespace(fake: &Fake) {
    fake.change("/apis/operators.coreos.com/v1/namespaces/etcd/operatorgroups/all", |group| {
        group["spec"] = json!({"targetNamespaces": ["etcd"]});
        group["status"] = json!({"namespaces": ["etcd"]});
    });
}

/// 0.11.0 is installed, after 0.10.1, which is still in the catalog.
pub(super) fn upgraded(fake: &Fake) {
    // the older version watches a single namespace
    watch_one_namespace(fake);
    let mut csv = etcd().bundles["etcdoperator.v0.11.0"].bundle().unwrap().csv_raw.clone();
    let old = fake.remove(&format!("{BASE}/clusterserviceversions/etcdoperator.v0.10.1"));
    csv["metadata"] = old["metadata"].clone();
    csv["metadata"]["name"] = "etcdoperator.v0.11.0".into();
    csv["status"] = old["status"].clone();
    fake.insert(&format!("{BASE}/clusterserviceversions/etcdoperator.v0.11.0"), csv);
    fake.change(&format!("{BASE}/subscriptions/etcd"), |s| {
        s["status"] = json!({"installedCSV": "etcdoperator.v0.11.0", "currentCSV": "etcdoperator.v0.11.0", "state": "AtLatestKnown"});
    });
    fake.change(&format!("{BASE}/installplans/install-abc"), |plan| {
        plan["spec"]["approved"] = true.into();
        plan["spec"]["generation"] = 3.into();
        plan["status"]["phase"] = "Complete".into();
    });
}

/// The text of a part of a page, one line per fragment.
fn part(html: &str, id: &str) -> String {
    let at = html.find(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("no {id} in {html}"));
    let html = &html[html[..at].rfind('<').unwrap()..];
    let end = html.find("</section>").unwrap_or(html.len());
    let mut out = Vec::new();
    for piece in html[..end].split('<').skip(1) {
        let (tag, text) = piece.split_once('>').unwrap();
        let disabled =
            if tag.starts_with("button") && tag.contains(" disabled") { "(disabled) " } else { "" };
        let link = tag.split_once("href=\"").map(|(_, rest)| rest.split('"').next().unwrap());
        let link = link.map(|link| format!(" -> {}", link.replace("&amp;", "&"))).unwrap_or_default();
        let text = if tag.starts_with("time") { "(time)" } else { text.trim() };
        if !text.is_empty() {
            out.push(format!("{disabled}{text}{link}"));
        }
    }
    out.join("\n")
}

#[tokio::test]
async fn the_page_shows_update_settings_and_the_revision_history() {
    let (browser, _) = Browser::at(|_| {}).await;
    let text = async |tab: &str| browser.get(&format!("{HOME}/{tab}")).await.text;
    insta::assert_snapshot!("updates", part(&text("updates").await, "updates"));
    insta::assert_snapshot!("history", part(&text("history").await, "history"));
    let settings = browser.json(&format!("{HOME}/updates")).await["settings"].clone();
    assert_eq!((&settings["paused"], &settings["channel"]), (&json!(false), &json!(etcd().default_channel)));
    let json = browser.json(HOME).await;
    assert_eq!(json["history"][1]["approval"]["by"], "ada");
    assert!(json["steps"].is_array() && json["installed"]["package"] == "etcd");
}

#[tokio::test]
async fn existing_settings_are_offered_in_reverse() {
    let (browser, _) = Browser::at(|fake| {
        fake.change(&format!("{BASE}/subscriptions/etcd"), |s| {
            s["spec"]["paused"] = true.into();
            s["spec"]["version"] = "=0.10.1".into();
            s["spec"]["skipVersions"] = json!(["0.9.9"]);
            s["spec"]["snooze"] = json!({"newest": "etcdoperator.v0.11.0"});
            s["status"]["state"] = "AtLatestKnown".into();
        });
        fake.change(&format!("{BASE}/installplans/install-abc"), |plan| {
            plan["status"]["phase"] = "Failed".into()
        });
    })
    .await;
    let page = browser.get(&format!("{HOME}/updates")).await.text;
    insta::assert_snapshot!("updates_said", part(&page, "updates"));
    // and one banner reports the pause
    let expected = "Paused at 0.10.1\n, and pinned to this version. Nothing is changed until you resume.";
    assert_eq!(part(&page, "banner"), expected);
    assert_eq!(page.matches("change?what=resume").count(), 2, "the header and the setting: {page}");
}

/// The change and its fields; the text of the page; the spec of the Subscription before; the changed field
/// and its value after.
type Case = (&'static str, &'static [(&'static str, &'static str)], &'static str, Value, &'static str, Value);

#[tokio::test]
async fn each_wish_is_shown_before_it_is_written_and_then_written() {
    let cases: [Case; 6] = [
        ("pause", &[], "is paused; resume it", json!(null), "/spec/paused", json!(true)),
        (
            "skip",
            &[("version", "0.11.0")],
            "skips 0.11.0",
            json!(null),
            "/spec/skipVersions",
            json!(["0.11.0"]),
        ),
        (
            "unskip",
            &[("version", "0.9.9")],
            "no longer skips 0.9.9",
            json!({"skipVersions": ["0.9.9"]}),
            "/spec/skipVersions",
            json!([]),
        ),
        ("unpin", &[], "follows its channel", json!({"version": "=0.10.1"}), "/spec/version", json!(null)),
        ("resume", &[], "is resumed", json!({"paused": true}), "/spec/paused", json!(null)),
        (
            "channel",
            &[("channel", "alpha")],
            "follows channel alpha",
            json!(null),
            "/spec/channel",
            json!("alpha"),
        ),
    ];
    for (what, more, text, before, pointer, after) in cases {
        // given
        let (browser, fake) = Browser::at(|fake| {
            fake.change(&format!("{BASE}/subscriptions/etcd"), |s| {
                for (key, value) in before.as_object().into_iter().flatten() {
                    s["spec"][key] = value.clone();
                }
            });
        })
        .await;
        let was = fake.subscription();
        let mut fields = vec![("what", what)];
        fields.extend(more);
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(&fields).finish();
        // when it is previewed, then nothing changes
        let page = browser.get(&format!("{HOME}/change?{query}")).await;
        assert_eq!(page.status, StatusCode::OK, "{what}: {}", page.text);
        assert!(page.text.contains(text) && !page.text.contains(" disabled"), "{what}: {}", page.text);
        assert_eq!(fake.subscription(), was, "{what}");
        // when it is submitted, then the Subscription changes
        let done = browser.post(&format!("{HOME}/change"), &fields).await;
        assert_eq!(done.status, StatusCode::SEE_OTHER, "{what}: {}", done.text);
        assert_eq!(done.location(), HOME);
        assert_eq!(fake.subscription().pointer(pointer).cloned().unwrap_or_default(), after, "{what}");
        // and afterwards the button is disabled
        let again = browser.get(&format!("{HOME}/change?{query}")).await;
        assert!(
            again.text.contains("No change: this setting is already in effect")
                && again.text.contains(" disabled"),
            "{what}"
        );
    }
}

#[tokio::test]
async fn what_follows_from_a_wish_is_the_plan_of_the_command_line() {
    let (browser, _) = Browser::at(|_| {}).await;
    // a pause stops everything, so no plan results
    let pause = browser.json(&format!("{HOME}/change?what=pause")).await;
    assert!(pause["plan"].is_null() && pause["problem"].is_null() && pause["changed"] == true);
    // without 0.11.0 the installed version is the newest
    let skip = browser.json(&format!("{HOME}/change?what=skip&version=0.11.0")).await;
    assert_eq!(skip["plan"]["action"], "none", "{skip}");
    let resume = browser.json(&format!("{HOME}/change?what=resume")).await;
    assert_eq!((&resume["plan"]["to"], &resume["changed"]), (&json!("0.11.0"), &json!(false)), "{resume}");
    // a channel that does not exist
    let none = browser.get(&format!("{HOME}/change?what=channel&channel=nowhere")).await;
    assert_eq!(none.status, StatusCode::NOT_FOUND);
    assert!(none.text.contains("which has channels alpha, clusterwide-alpha"), "{}", none.text);
    for path in ["change?what=explode", "change", "change?what=channel"] {
        assert_eq!(browser.get(&format!("{HOME}/{path}")).await.status, StatusCode::BAD_REQUEST, "{path}");
    }
    let missing = browser.get("/installed/etcd/nothing/change?what=pause").await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_snooze_names_what_is_newest_and_needs_something_to_snooze() {
    let (browser, fake) = Browser::at(|_| {}).await;
    let done = browser.post(&format!("{HOME}/change"), &[("what", "snooze")]).await;
    assert_eq!(done.status, StatusCode::SEE_OTHER, "{}", done.text);
    assert_eq!(fake.subscription()["spec"]["snooze"]["newest"], "etcdoperator.v0.11.0");
    fake.change(&format!("{BASE}/subscriptions/etcd"), |s| s["spec"]["skipVersions"] = json!(["0.11.0"]));
    let refused = browser.get(&format!("{HOME}/change?what=snooze")).await;
    assert_eq!(refused.status, StatusCode::CONFLICT);
    assert!(refused.text.contains("has no available upgrade"), "{}", refused.text);
}

#[tokio::test]
async fn a_rollback_is_the_plan_that_was_looked_at_or_none() {
    let (browser, fake) = Browser::at(upgraded).await;
    let path = format!("{HOME}/rollback");
    let to = "etcdoperator.v0.10.1";
    let was = fake.subscription();
    // given its page
    let page = browser.get(&format!("{path}?to={to}")).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.text);
    let digest =
        browser.json(&format!("{path}?to={to}")).await["plan"]["digest"].as_str().unwrap().to_owned();
    assert!(
        page.text.contains(&digest) && page.text.contains("<h2 id=\"plan-h\">Plan</h2>"),
        "{}",
        page.text
    );
    assert_eq!(fake.subscription(), was);
    // when the digest of another plan is sent, then nothing changes
    let other = browser.post(&path, &[("to", to), ("digest", "sha256:ffffffffffffffff")]).await;
    assert_eq!(other.status, StatusCode::CONFLICT, "{}", other.text);
    assert!(other.text.contains("The plan changed") && other.text.contains(&digest), "{}", other.text);
    assert_eq!(browser.post(&path, &[("to", to)]).await.status, StatusCode::BAD_REQUEST);
    assert_eq!(fake.subscription(), was);
    // when it is the digest of that plan, then the rollback is requested, and the plan of the manager approved
    let pending = format!("{BASE}/installplans/install-back");
    let mut plan = fake.get(&format!("{BASE}/installplans/install-abc")).unwrap();
    plan["metadata"]["name"] = "install-back".into();
    plan["spec"]["approved"] = false.into();
    plan["spec"]["planDigest"] = digest.as_str().into();
    plan["status"]["phase"] = "RequiresApproval".into();
    fake.insert(&pending, plan);
    assert!(page.text.contains("rolling back approves this plan"), "{}", page.text);
    let done = browser.post(&path, &[("to", to), ("digest", &digest)]).await;
    assert_eq!((done.status, done.location()), (StatusCode::SEE_OTHER, HOME), "{}", done.text);
    let spec = &fake.subscription()["spec"];
    assert_eq!((&spec["version"], &spec["paused"]), (&json!("=0.10.1"), &json!(true)));
    assert_eq!(fake.get(&pending).unwrap()["spec"]["approved"], true);
    fake.remove(&pending);
    let unknown = browser.get(&format!("{path}?to=7.7.7")).await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    // a revision that is no longer in the catalog
    let gone = browser.get(&format!("{path}?to=0.9.4")).await;
    assert_eq!(gone.status, StatusCode::CONFLICT);
    assert!(
        gone.text.contains("Rollback not possible") && gone.text.contains("is no longer in catalog"),
        "{}",
        gone.text
    );
}

#[tokio::test]
async fn a_rollback_that_would_lose_data_is_disabled_with_an_explanation() {
    let (browser, fake) = Browser::at(|fake| {
        upgraded(fake);
        // objects are stored in a version that the older CRD does not have
        let crd =
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/etcdclusters.etcd.database.coreos.com";
        fake.change(crd, |crd| {
            let mut newer = crd["spec"]["versions"][0].clone();
            newer["name"] = "v1".into();
            newer["storage"] = true.into();
            crd["spec"]["versions"][0]["storage"] = false.into();
            crd["spec"]["versions"].as_array_mut().unwrap().push(newer);
            crd["status"] = json!({"storedVersions": ["v1"]});
        });
    })
    .await;
    let path = format!("{HOME}/rollback");
    let page = browser.get(&format!("{path}?to=0.10.1")).await;
    assert!(page.text.contains("Blocks the plan") && page.text.contains(" disabled"), "{}", page.text);
    let digest =
        browser.json(&format!("{path}?to=0.10.1")).await["plan"]["digest"].as_str().unwrap().to_owned();
    let was = fake.subscription();
    let refused = browser.post(&path, &[("to", "0.10.1"), ("digest", &digest)]).await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.text);
    assert!(refused.text.contains("ailed to roll back to etcdoperator.v0.10.1"), "{}", refused.text);
    assert_eq!(fake.subscription(), was);
}

#[tokio::test]
async fn missing_rights_are_shown_before_pressing() {
    let (browser, _) = Browser::at(|fake| {
        upgraded(fake);
        for plural in ["subscriptions", "clusterserviceversions", "installplans"] {
            fake.deny(plural);
        }
    })
    .await;
    for (path, why) in [
        ("change?what=pause", "Missing permission: patch subscriptions in namespace etcd"),
        ("rollback?to=0.10.1", "Missing permission: patch subscriptions in namespace etcd"),
        ("uninstall", "Missing permission: delete clusterserviceversions in namespace etcd"),
    ] {
        let page = browser.get(&format!("{HOME}/{path}")).await;
        assert!(page.text.contains(why), "{path}: {}", page.text);
        assert!(page.text.contains(" disabled"), "{path}");
    }
}

#[tokio::test]
async fn the_whole_plan_is_there_to_be_read_before_it_is_approved() {
    let (browser, fake) = Browser::at(|_| {}).await;
    let path = format!("{HOME}/plan");
    // a plan other than the pending one cannot be approved here
    let other = browser.get(&path).await;
    assert!(
        other.text.contains("The pending plan is out of date") && !other.text.contains("/approve\""),
        "{}",
        other.text
    );
    // nor by a user without the permission
    fake.deny("installplans");
    assert!(
        browser.get(&path).await.text.contains("Missing permission: patch installplans in namespace etcd")
    );
    fake.allow();
    // and the pending one can
    let digest = browser.json(&path).await["plan"]["digest"].as_str().unwrap().to_owned();
    fake.change(&format!("{BASE}/installplans/install-abc"), |plan| {
        plan["spec"]["planDigest"] = digest.clone().into()
    });
    let page = browser.get(&path).await;
    for text in ["<h2 id=\"plan-h\">Plan</h2>", "Added permissions", "/approve\"", &digest] {
        assert!(page.text.contains(text), "{text}: {}", page.text);
    }
}

#[tokio::test]
async fn what_comes_along_is_named_where_a_plan_is_approved() {
    let (browser, _) = Browser::at(|fake| {
        let along = json!([{"subscription": "helper-stable-community-olm", "digest": "sha256:1", "requiredBy": ["etcd"],
            "bundle": {"catalog": {"namespace": "olm", "name": "community"}, "package": "helper", "channel": "stable",
                "name": "helper.v1.0.0", "version": "1.0.0"}}]);
        fake.change(&format!("{BASE}/installplans/install-abc"), |plan| {
            plan["metadata"]["annotations"]["olm.planAlong"] = along.to_string().into();
        });
    })
    .await;
    insta::assert_snapshot!("banner", part(&browser.get(HOME).await.text, "banner"));
    insta::assert_snapshot!("pending", part(&browser.get(&format!("{HOME}/updates")).await.text, "pending"));
}

#[tokio::test]
async fn the_page_shows_blockers_and_fixes() {
    let (browser, _) = Browser::at(failing).await;
    insta::assert_snapshot!("waits", part(&browser.get(HOME).await.text, "waits"));
    let page = browser.get(HOME).await;
    assert!(part(&page.text, "banner").starts_with("InstallComponentFailed"), "{}", page.text);
    // the abnormal conditions are shown
    assert!(part(&page.text, "conditions").contains("Stalled"), "{}", page.text);
    assert!(page.text.contains("no: Stalled (InstallPlanFailed)"), "{}", page.text);
}

/// A plan without progress, and a version that lacks a CRD.
pub(super) fn failing(fake: &Fake) {
    fake.change(&format!("{BASE}/subscriptions/etcd"), |s| {
        s["status"]["conditions"] = json!([
            {"type": "Ready", "status": "False", "reason": "InstallPlanFailed"},
            {"type": "Stalled", "status": "True", "reason": "InstallPlanFailed", "message": "no"}]);
    });
    fake.change(&format!("{BASE}/installplans/install-abc"), |plan| {
        plan["spec"]["approved"] = true.into();
        plan["status"]["phase"] = "Installing".into();
        plan["status"]["conditions"] = json!([{"type": "Installed", "status": "False", "reason": "InstallComponentFailed",
            "message": "failed to apply Deployment etcd/etcd-operator: exceeded quota: pods"}]);
    });
    fake.change(&format!("{BASE}/clusterserviceversions/etcdoperator.v0.10.1"), |csv| {
        csv["status"] = json!({"phase": "Pending", "reason": "RequirementsNotMet", "message": "one or more requirements couldn't be found",
            "requirementStatus": [{"group": "apiextensions.k8s.io", "version": "v1", "kind": "CustomResourceDefinition",
                "name": "issuers.cert-manager.io", "status": "NotPresent", "message": "CRD is not present"}]});
    });
}

#[tokio::test]
async fn what_was_installed_along_goes_only_when_that_is_chosen() {
    let helper = format!("{BASE}/subscriptions/helper");
    for (choice, stays) in [("keep", true), ("delete", false)] {
        // given an operator that was installed as a dependency
        let (browser, fake) = Browser::at(installed_along).await;
        let path = format!("{HOME}/uninstall");
        let model = browser.json(&path).await;
        let plan = |key: &str| model[key]["operator"]["digest"].as_str().unwrap().to_owned();
        assert_ne!(plan("plans"), plan("withDependencies"));
        let page = browser.get(&path).await;
        assert!(
            page.text.contains("<legend>Dependencies</legend>") && page.text.contains("package helper"),
            "{}",
            page.text
        );
        // when it is uninstalled
        let (keep, all) = (plan("plans"), plan("withDependencies"));
        let fields = [
            ("what", "operator"),
            ("dependencies", choice),
            ("digest-operator", &keep),
            ("digest-operator-all", &all),
        ];
        let done = browser.post(&path, &fields).await;
        assert_eq!(done.status, StatusCode::OK, "{}", done.text);
        // then the dependency is deleted or retained, as selected
        assert_eq!(fake.get(&helper).is_some(), stays, "{choice}");
        assert!(fake.get(&format!("{BASE}/subscriptions/etcd")).is_none());
    }
}

#[tokio::test]
async fn without_anything_along_there_is_no_such_choice() {
    let (browser, _) = Browser::at(|_| {}).await;
    assert!(browser.json(&format!("{HOME}/uninstall")).await["withDependencies"].is_null());
    assert!(!browser.get(&format!("{HOME}/uninstall")).await.text.contains("<legend>Dependencies</legend>"));
}

#[tokio::test]
async fn the_doctor_finds_and_removes_only_what_it_finds() {
    let copy =
        "/apis/operators.coreos.com/v1alpha1/namespaces/default/clusterserviceversions/etcdoperator.v0.10.1";
    let (browser, fake) = Browser::at(|fake| {
        let mut csv = fake.get(&format!("{BASE}/clusterserviceversions/etcdoperator.v0.10.1")).unwrap();
        csv["metadata"]["namespace"] = "default".into();
        csv["metadata"]["uid"] = "copy".into();
        csv["metadata"]["labels"] = json!({"olm.copiedFrom": "etcd"});
        fake.insert(copy, csv);
    })
    .await;
    let page = browser.get("/doctor").await;
    assert!(page.text.contains("CopiedCsv") && page.text.contains("ManagerMissing"), "{}", page.text);
    assert!(browser.json("/doctor").await["ailments"].as_array().is_some_and(|list| !list.is_empty()));
    // only objects that the checks find can be removed
    let other = browser.post("/doctor", &[("uid", "u1")]).await;
    assert_eq!(other.status, StatusCode::CONFLICT);
    assert!(fake.get(&format!("{BASE}/subscriptions/etcd")).is_some());
    let done = browser.post("/doctor", &[("uid", "copy")]).await;
    assert_eq!((done.status, done.location()), (StatusCode::SEE_OTHER, "/doctor"), "{}", done.text);
    assert!(fake.get(copy).is_none());
}

#[tokio::test]
async fn nothing_of_this_can_be_sent_from_elsewhere() {
    let (browser, fake) = Browser::at(|_| {}).await;
    let was = fake.subscription();
    for (path, fields) in [
        (format!("{HOME}/change"), "what=pause"),
        (format!("{HOME}/rollback"), "to=0.10.1&digest=sha256:0123456789abcdef"),
        (format!("{HOME}/uninstall"), "what=operator"),
        ("/doctor".to_owned(), "uid=u1"),
        ("/catalogs/new".to_owned(), "source=operatorhub"),
        ("/catalogs/olm/community/refresh".to_owned(), ""),
        ("/catalogs/olm/community/interval".to_owned(), "interval=1m"),
        ("/catalogs/olm/community/remove".to_owned(), ""),
    ] {
        let form = |site: &str, body: String| {
            Request::post(&path)
                .header(header::HOST, "127.0.0.1:8080")
                .header(header::COOKIE, &browser.cookie)
                .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
                .header("sec-fetch-site", site)
                .body(body.into())
                .unwrap()
        };
        let elsewhere = form("cross-site", format!("_csrf={}&{fields}", browser.csrf));
        assert_eq!(send(&browser.router, elsewhere).await.status, StatusCode::FORBIDDEN, "{path}");
        let no_token = form("same-origin", fields.to_owned());
        assert_eq!(send(&browser.router, no_token).await.status, StatusCode::FORBIDDEN, "{path}");
    }
    assert_eq!(fake.subscription(), was);
}

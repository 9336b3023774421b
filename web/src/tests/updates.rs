//! The inbox of updates, and the access reviews of lists with pending plans.

use http::StatusCode;
use serde_json::json;

use super::{
    Browser, TOKEN, console,
    fake::Fake,
    lifecycle::{BASE, scene},
    loaded,
};
use crate::{api_server::Token, rights::ReviewedRights};

const PLAN: &str = "/apis/operators.coreos.com/v1alpha1/namespaces/etcd/installplans/install-abc";

/// The objects of the operator with the pending plan, in other namespaces too.
fn spread(fake: &Fake, namespaces: &[&str]) {
    let objects =
        ["subscriptions/etcd", "clusterserviceversions/etcdoperator.v0.10.1", "installplans/install-abc"];
    for namespace in namespaces {
        for object in objects {
            let mut copy = fake.get(&format!("{BASE}/{object}")).unwrap();
            copy["metadata"]["namespace"] = (*namespace).into();
            if object.starts_with("cluster") {
                copy["metadata"]["uid"] = format!("csv-{namespace}").into();
            }
            if object.starts_with("subscriptions") {
                copy["metadata"]["uid"] = format!("sub-{namespace}").into();
            }
            if object.starts_with("installplans") {
                copy["metadata"]["ownerReferences"][0]["uid"] = format!("sub-{namespace}").into();
            }
            let path = BASE.replace("/etcd", &format!("/{namespace}"));
            fake.insert(&format!("{path}/{object}"), copy);
        }
    }
}

#[tokio::test]
async fn the_inbox_offers_approval_only_for_plans_without_points_to_review() {
    let (browser, fake) = Browser::etcd().await;
    let page = browser.get("/updates").await;
    assert_eq!(page.status, StatusCode::OK);
    for text in [
        "id=\"update-etcd/etcd\"",
        "id=\"approve-install-abc\"",
        "href=\"/installed/etcd/etcd/plan\"",
        "href=\"/installed/etcd/etcd/change?what=skip&amp;version=0.11.0\"",
        "action=\"/updates\"",
        "datetime=\"2026-11-21T09:30:00Z\"",
        "<td>Manual</td>",
        "id=\"nav-updates\">1</span>",
    ] {
        assert!(page.text.contains(text), "{text}: {}", page.text);
    }
    let model = browser.json("/updates").await;
    assert_eq!(
        (&model["updates"][0]["version"], &model["updates"][0]["next"]),
        (&"0.10.1".into(), &"0.11.0".into())
    );

    // when the plan adds permissions and deletes an object, then each is a chip and a review comes first
    fake.change(PLAN, |plan| {
        plan["metadata"]["annotations"]["olm.planReview"] =
            "new permissions of level HIGH, 1 object deleted <b>".into();
    });
    let page = browser.get("/updates").await;
    assert!(
        !page.text.contains("id=\"approve-install-abc\"") && !page.text.contains("action=\"/updates\""),
        "{}",
        page.text
    );
    assert!(page.text.contains("new permissions of level HIGH</span>"), "{}", page.text);
    assert!(page.text.contains("1 object deleted &lt;b&gt;</span>"), "{}", page.text);
    assert_eq!(page.text.matches("href=\"/installed/etcd/etcd/plan\"").count(), 1, "{}", page.text);

    // when the operator is paused with a pending rollback, then its version is not skipped
    fake.change(&format!("{BASE}/subscriptions/etcd"), |subscription| {
        subscription["spec"]["paused"] = true.into();
        subscription["metadata"]["annotations"]["olm.rollbackTo"] = "etcdoperator.v0.11.0".into();
    });
    let page = browser.get("/updates").await;
    assert!(
        page.text.contains("id=\"update-etcd/etcd\"") && !page.text.contains("what=skip"),
        "{}",
        page.text
    );
}

#[tokio::test]
async fn an_available_upgrade_without_a_plan_is_in_the_inbox() {
    let (browser, fake) = Browser::etcd().await;
    fake.remove(PLAN);
    let page = browser.get("/updates").await;
    assert!(page.text.contains("<strong>0.11.0</strong>"), "{}", page.text);
    assert!(
        page.text.contains("what=skip&amp;version=0.11.0") && !page.text.contains("id=\"approve-"),
        "{}",
        page.text
    );
    assert_eq!(browser.json("/updates").await["updates"][0]["available"], "0.11.0");
    // and without any the page says so
    fake.change(&format!("{BASE}/subscriptions/etcd"), |subscription| {
        subscription["status"]["state"] = "AtLatestKnown".into();
    });
    let page = browser.get("/updates").await;
    assert!(page.text.contains("No updates"), "{}", page.text);
    assert!(page.text.contains("id=\"nav-updates\" hidden"), "{}", page.text);
}

#[tokio::test]
async fn after_an_approval_the_pages_do_not_request_it() {
    // given a plan whose status is older than its approval
    let (browser, fake) = Browser::etcd().await;
    fake.change(PLAN, |plan| {
        plan["spec"]["approved"] = true.into();
        plan["status"]["phase"] = "RequiresApproval".into();
        plan["status"]["message"] = "approve with `olm approve install-abc -n etcd`".into();
    });
    for path in ["/installed/etcd/etcd", "/installed", "/updates"] {
        // when
        let page = browser.get(path).await;
        // then
        assert_eq!(page.status, StatusCode::OK, "{path}: {}", page.text);
        assert!(!page.text.contains("olm approve"), "{path}: {}", page.text);
    }
    assert_eq!(browser.json("/installed/etcd/etcd").await["installed"]["status"], "Updating");
}

#[tokio::test]
async fn all_safe_plans_are_approved_by_the_rule_of_the_command_line() {
    let (browser, fake) = Browser::etcd().await;
    // the plan is not the one that the catalog leads to now: it is not approved unseen
    let answer = browser.post("/updates", &[]).await;
    assert_eq!(answer.status, StatusCode::ACCEPTED, "{}", answer.text);
    assert!(answer.text.contains("Needs review"), "{}", answer.text);
    assert!(answer.text.contains("changed since the plan was made"), "{}", answer.text);
    assert_eq!(fake.get(PLAN).unwrap()["spec"]["approved"], false);
    // given the current plan
    let digest = browser.json("/installed/etcd/etcd/plan").await["plan"]["digest"].clone();
    fake.change(PLAN, |plan| plan["spec"]["planDigest"] = digest);
    let answer = browser.post("/updates", &[]).await;
    // a plan with a warning is left for a review, although its page offers the approval
    assert!(answer.text.contains("1 finding"), "{}", answer.text);
    assert_eq!(fake.get(PLAN).unwrap()["spec"]["approved"], false);
    fake.change(PLAN, |plan| plan["spec"]["approved"] = true.into());
    let answer = browser.post("/updates", &[]).await;
    assert!(answer.text.contains("No plan is waiting for approval"), "{}", answer.text);
    // a request of another site, and one without the token of the session
    let foreign = super::send(
        &browser.router,
        http::Request::post("/updates")
            .header(http::header::HOST, "127.0.0.1:8080")
            .header("sec-fetch-site", "cross-site")
            .body(axum::body::Body::empty())
            .unwrap(),
    )
    .await;
    assert_eq!(foreign.status, StatusCode::FORBIDDEN);
    let forged = Browser { csrf: "x".into(), ..browser };
    assert_eq!(forged.post("/updates", &[]).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn pending_plans_in_many_namespaces_need_one_access_review() {
    let fake = scene();
    spread(&fake, &["a", "b", "c", "d"]);
    let router = console(&fake, vec![loaded("community", olm_catalog::shipped())]);
    let browser = Browser::new(router).await;
    for path in ["/installed", "/updates"] {
        let before = fake.access_reviews();
        let page = browser.get(path).await;
        assert_eq!(page.text.matches("Approve 0.11.0").count(), 5, "{path}: {}", page.text);
        assert_eq!(fake.access_reviews() - before, 1, "{path}");
    }
    // without the right in all namespaces each is reviewed, with its reason
    fake.deny("installplans");
    let before = fake.access_reviews();
    let page = browser.get("/updates").await;
    assert_eq!(
        page.text.matches("Missing permission: patch installplans in namespace").count(),
        5,
        "{}",
        page.text
    );
    assert!(!page.text.contains("action=\"/updates\""), "{}", page.text);
    assert_eq!(fake.access_reviews() - before, 6);
}

#[tokio::test]
async fn redraws_of_a_live_page_keep_the_reviewed_rights() {
    let fake = scene();
    spread(&fake, &["a", "b"]);
    fake.deny("installplans");
    let client = fake.api_server().client(&Token::new(TOKEN)).unwrap();
    let mut rights = ReviewedRights::default();
    let installed = olm_ops::list_installed(&client, None).await.unwrap();
    let first = rights.cannot_approve(&client, &installed).await;
    assert_eq!((first.len(), fake.access_reviews()), (3, 4));
    for _ in 0..5 {
        assert_eq!(rights.cannot_approve(&client, &installed).await, first);
    }
    assert_eq!(fake.access_reviews(), 4);
    // only a namespace that is new to the page is reviewed
    spread(&fake, &["c"]);
    let installed = olm_ops::list_installed(&client, None).await.unwrap();
    assert_eq!(rights.cannot_approve(&client, &installed).await.len(), 4);
    assert_eq!(fake.access_reviews(), 5);
}

#[tokio::test]
async fn deprecations_of_an_installed_operator_have_a_badge_with_the_message() {
    let (browser, _) = Browser::at(|fake| {
        let at = "/apis/operators.coreos.com/v1alpha1/namespaces/etcd/subscriptions/etcd";
        fake.change(at, |object| {
            let condition = |type_: &str, message: &str| {
                json!({"type": type_, "status": "True", "reason": "Deprecated", "message": message})
            };
            object["status"]["conditions"] = json!([
                condition("PackageDeprecated", "olm.package/etcd: use <b>another</b>"),
                condition("BundleDeprecated", "olm.bundle/etcdoperator.v0.10.1: it has a hole"),
            ]);
        });
    })
    .await;
    for path in ["/installed", "/installed/etcd/etcd"] {
        let page = browser.get(path).await.text;
        assert!(page.contains("Deprecated"), "{path}: {page}");
        assert!(
            page.contains("package etcd: use &lt;b&gt;another&lt;/b&gt;")
                || page.contains("Package etcd: use &lt;b&gt;another&lt;/b&gt;"),
            "{path}: {page}"
        );
        assert!(page.contains("it has a hole"), "{path}: {page}");
    }
    let model = browser.json("/installed").await;
    assert_eq!(model["installed"][0]["deprecations"].as_array().unwrap().len(), 2, "{model}");
    // and without deprecations there is no badge
    let (browser, _) = Browser::etcd().await;
    assert!(!browser.get("/installed/etcd/etcd").await.text.contains("id=\"deprecations\""));
}

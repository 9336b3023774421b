//! Uninstallations that are incomplete: objects that may not be listed, and deletions that fail.

use http::StatusCode;

use super::Browser;

const PAGE: &str = "/installed/etcd/etcd/uninstall";
const CLUSTERS: &str = "/apis/etcd.database.coreos.com/v1beta2";

#[tokio::test]
async fn objects_that_may_not_be_listed_are_not_deleted_and_the_page_names_the_permission() {
    // given a user who may not list the objects of a kind
    let (browser, fake) = Browser::etcd().await;
    fake.refuse(&format!("{CLUSTERS}/etcdclusters"));
    // when the page is opened, then it names the permission, and only the operator can be removed
    let page = browser.get(PAGE).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.text);
    for text in [
        "only the operator can be removed",
        "Missing permission: list etcdclusters.etcd.database.coreos.com in all namespaces",
        "value=\"operator\"",
        ">Cancel</a>",
    ] {
        assert!(page.text.contains(text), "{text}: {}", page.text);
    }
    assert!(
        !page.text.contains("value=\"instances\"") && !page.text.contains("value=\"crds\""),
        "{}",
        page.text
    );
    // and a request to delete them changes nothing
    let before = fake.paths();
    for what in ["instances", "crds"] {
        let answer = browser.post(PAGE, &[("what", what), ("confirm", "etcd")]).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{what}: {}", answer.text);
        assert!(answer.text.contains("Missing permission to list the objects to delete"), "{}", answer.text);
    }
    assert_eq!(fake.paths(), before);
}

#[tokio::test]
async fn a_deletion_that_fails_is_on_the_page_and_the_operator_remains() {
    // given an object that may be listed and not deleted
    let (browser, fake) = Browser::etcd().await;
    let path = format!("{CLUSTERS}/namespaces/default/etcdclusters/example-etcd-cluster");
    fake.refuse(&format!("DELETE {path}"));
    let digest = browser.json(PAGE).await["plans"]["instances"]["digest"].as_str().unwrap().to_owned();
    // when the operator is uninstalled with its objects
    let fields = [("what", "instances"), ("confirm", "etcd"), ("digest-instances", digest.as_str())];
    let answer = browser.post(PAGE, &fields).await;
    // then the page names the object and the cause, and can be sent again
    assert_eq!(answer.status, StatusCode::FORBIDDEN, "{}", answer.text);
    let cause = "delete EtcdCluster default/example-etcd-cluster";
    assert!(answer.text.contains(cause) && answer.text.contains("is forbidden"), "{}", answer.text);
    assert!(answer.text.contains(&digest), "{}", answer.text);
    // and the operator, which the object needs to be removed, is there
    let left = fake.paths();
    for kind in ["/etcdclusters/", "/subscriptions/etcd", "/clusterserviceversions/etcdoperator.v0.10.1"] {
        assert!(left.iter().any(|path| path.contains(kind)), "{kind}: {left:?}");
    }
}

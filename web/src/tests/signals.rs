//! What the pages state about risks, rights and commands.

use std::collections::BTreeSet;

use http::StatusCode;

use super::{
    Browser, catalogs,
    lifecycle::{BASE, HOME, upgraded},
};

#[tokio::test]
async fn a_plan_with_high_rights_or_deletions_is_reviewed_before_it_is_approved() {
    let approve = "action=\"/installed/etcd/etcd/approve\"";
    let (browser, fake) = Browser::at(|_| {}).await;
    for path in ["/installed", HOME] {
        assert!(browser.get(path).await.text.contains(approve), "{path}");
    }
    // given a plan with risks, or one that does not record them
    for review in [Some("new permissions of level HIGH, 2 objects deleted"), None] {
        fake.change(&format!("{BASE}/installplans/install-abc"), |plan| {
            let record = review.map(|points| ("olm.planReview", points));
            plan["metadata"]["annotations"] = record.into_iter().collect();
        });
        // then no page approves it unseen
        for path in ["/installed", HOME] {
            let page = browser.get(path).await.text;
            assert!(!page.contains(approve) && page.contains("Review 0.11.0"), "{path}: {page}");
            assert!(page.contains(review.unwrap_or("does not record its risks")), "{path}: {page}");
        }
    }
}

#[tokio::test]
async fn a_button_that_would_be_refused_is_disabled_with_all_missing_rights() {
    let (browser, fake) = Browser::at(|_| {}).await;
    let install = "/install/olm.community/etcd?namespace=fresh";
    assert!(!browser.get(install).await.text.contains("id=\"install\" disabled"));
    assert!(!browser.get("/installed").await.text.contains(" disabled"));
    for plural in ["subscriptions", "namespaces", "installplans"] {
        fake.deny(plural);
    }
    // the installation
    let page = browser.get(install).await.text;
    let all = "Missing permissions: list and create subscriptions in namespace fresh; create namespaces.";
    assert!(page.contains(all) && page.contains("id=\"install\" disabled"), "{page}");
    // the approval, in the list and on the page of the operator
    for path in ["/installed", HOME] {
        let page = browser.get(path).await.text;
        let form = &page[page.find("action=\"/installed/etcd/etcd/approve\"").unwrap()..];
        let form = &form[..form.find("</form>").unwrap()];
        let why = "Missing permission: patch installplans in namespace etcd.";
        assert!(page.contains(why) && form.contains(" disabled"), "{path}: {page}");
    }
    fake.allow();
    // and an installation without a plan
    let page = browser.get("/install/olm.community/etcd?namespace=Not+A+Name").await.text;
    assert!(page.contains("id=\"install\" disabled") && page.contains("There is no plan"), "{page}");
    // a user who may list objects of a kind and not create them
    fake.deny("etcdclusters");
    let page = browser.get("/instances/new/etcdclusters.etcd.database.coreos.com?ns=default").await.text;
    assert!(page.contains("Missing permission: create etcdclusters in namespace default."), "{page}");
    assert!(page.contains("id=\"create\" name=\"action\" value=\"create\" disabled"), "{page}");
}

/// The commands of olm on a page.
fn commands(page: &str) -> BTreeSet<String> {
    let parts = page.split("<code").chain(page.split("<pre")).filter_map(|rest| rest.split_once('>'));
    let texts = parts.filter_map(|(_, rest)| rest.split('<').next()).map(str::trim);
    let commands = texts.filter(|text| text.starts_with("olm "));
    commands.map(|text| text.replace("&lt;", "<").replace("&gt;", ">")).collect()
}

/// `commands.txt` lists the commands that pages print. A test of the command line parses them, and
/// `console::printed_commands_do_what_the_pages_do` runs them.
#[tokio::test]
async fn printed_commands_are_listed() {
    let mut found = BTreeSet::new();
    let (browser, _) = Browser::at(|fake| catalogs::insert(fake, "olm", "community")).await;
    let install = "/install/olm.community/etcd";
    for path in [
        "/catalogs/new?source=operatorhub".to_owned(),
        "/catalogs/new?source=quay.io/acme/catalog:v1&name=acme&namespace=etcd&priority=-5&secrets=pull"
            .to_owned(),
        "/catalogs/olm/community".to_owned(),
        "/catalogs/olm/community/remove".to_owned(),
        format!("{install}?namespace=fresh"),
        format!("{install}?namespace=fresh&watch=own"),
        format!("{install}?namespace=fresh&watch=single&watch-namespaces=default"),
        format!("{install}?namespace=fresh&version=0.10.1"),
        format!("{install}?namespace=default&channel=alpha&updates=manual"),
        format!("{install}?namespace=fresh&policy=pin&version=0.10.1"),
        format!("{install}?namespace=fresh&policy=range&range=%3E%3D0.10.0+%3C0.12.0"),
        HOME.to_owned(),
        format!("{HOME}/workloads"),
        format!("{HOME}/events"),
        format!("{HOME}/change?what=pause"),
        format!("{HOME}/change?what=resume"),
        format!("{HOME}/change?what=skip&version=0.11.0"),
        format!("{HOME}/change?what=unskip&version=0.11.0"),
        format!("{HOME}/change?what=snooze"),
        format!("{HOME}/change?what=unsnooze"),
        format!("{HOME}/change?what=unpin"),
        format!("{HOME}/change?what=channel&channel=alpha"),
    ] {
        let page = browser.get(&path).await;
        assert_eq!(page.status, StatusCode::OK, "{path}: {}", page.text);
        let printed = commands(&page.text);
        assert!(!printed.is_empty(), "{path} prints no command: {}", page.text);
        found.extend(printed);
    }
    let configured = [
        ("namespace", "fresh"),
        ("env", "LOG_LEVEL=debug\nOPTIONS=a b"),
        ("toleration", "dedicated=db:NoSchedule"),
    ];
    found.extend(commands(&browser.post(&format!("{install}/preview"), &configured).await.text));
    let (browser, _) = Browser::at(upgraded).await;
    found.extend(commands(&browser.get(&format!("{HOME}/rollback?to=etcdoperator.v0.10.1")).await.text));
    let listed: BTreeSet<String> = include_str!("commands.txt").lines().map(str::to_owned).collect();
    assert_eq!(found, listed);
}

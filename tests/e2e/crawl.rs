//! Every page of the console by its links and forms, without a browser and without scripts.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use olm_tests::{
    Cluster,
    crawl::{crawl, routes},
    eventually,
    html::{Form, Page},
    visitor::Visitor,
};
use serde_json::Value;

use crate::{
    operator::{LIMIT, csv_succeeded, delete_namespace, get, namespace, subscription},
    scenario,
};

/// Where the visit starts; no link leads to the last one.
const STARTS: [&str; 4] =
    ["/", "/login", "/catalog", "/instances/etcdbackups.etcd.database.coreos.com/crawl"];
/// Routes that are not visited, and why.
const UNLINKED: [&str; 7] = [
    // of kubelets
    "/healthz",
    "/readyz",
    // for clients that ask for JSON
    "/me",
    // of the script
    "/api/v1/events",
    // the target of a POST, for a browser that signs in again
    "/install/{source}/{package}/preview",
    // of the provider
    "/oidc/callback",
    // of the development of the console
    "/dev/components",
];
const NS: &str = "crawl";
const WAITING: &str = "crawl-waiting";

/// A backup of a cluster that does not exist: an object with a page, for which nothing is started.
fn backup(ns: &str) -> String {
    format!(
        "apiVersion: etcd.database.coreos.com/v1beta2\nkind: EtcdBackup\nmetadata: {{name: save, namespace: {ns}}}\n\
         spec: {{clusterName: none, storageType: Local, local: {{path: etcd/save.db}}}}\n"
    )
}

#[test]
fn every_page_is_reached_by_links_and_no_form_works_without_its_token() {
    const NAME: &str = "every_page_is_reached_by_links_and_no_form_works_without_its_token";
    scenario(NAME, async |cluster| {
        let Some(link) = cluster.login_link().await? else {
            olm_tests::skipped(NAME, "there is no console on this cluster");
            return Ok(());
        };
        let all = Operators { installed: NS, waiting: WAITING };
        all.install(&cluster).await?;
        let mut visitor = Visitor::sign_in(&link).await?;
        current(&cluster, &mut visitor).await?;
        let before = specs(&cluster)?;
        // when every link is followed and every form sent
        let report = crawl(visitor, &STARTS).await?;
        // then
        println!("{} pages, {} forms refused", report.pages, report.refused);
        ensure!(report.faults.is_empty(), "{} faults:\n{}", report.faults.len(), report.faults.join("\n"));
        ensure!(report.refused > 3, "few forms: {}", report.refused);
        let known = routes()?;
        let missed: Vec<&str> = known
            .iter()
            .filter(|route| route.has_get)
            .map(|route| route.path.as_str())
            .filter(|path| !report.reached.contains(*path) && !UNLINKED.contains(path))
            .collect();
        ensure!(missed.is_empty(), "no page leads to {missed:?}");
        let after = specs(&cluster)?;
        ensure!(before == after, "changed without a token: {:?}", after.symmetric_difference(&before));
        all.uninstall(&cluster)
    });
}

/// An operator with a history and an object, and another operator whose plan requires approval: with them each
/// page of the console has something to show.
pub(crate) struct Operators {
    /// Namespace of the first.
    pub(crate) installed: &'static str,
    /// Namespace of the other.
    pub(crate) waiting: &'static str,
}

impl Operators {
    pub(crate) async fn install(&self, cluster: &Cluster) -> Result<()> {
        let ns = self.installed;
        for ns in [ns, self.waiting] {
            namespace(cluster, ns)?;
            let manual = subscription(ns, "Manual", Some("etcdoperator.v0.10.1"));
            cluster.kubectl_in(&["apply", "-f", "-"], Some(&manual))?;
            waits(cluster, ns).await?;
        }
        for version in ["etcdoperator.v0.10.1", "etcdoperator.v0.11.0"] {
            waits(cluster, ns).await?;
            cluster.olm_ok(&["approve", "etcd", "-n", ns, "--wait", "--timeout", "3m"])?;
            csv_succeeded(cluster, ns, version).await?;
        }
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&backup(ns)))?;
        Ok(())
    }

    pub(crate) fn uninstall(&self, cluster: &Cluster) -> Result<()> {
        cluster.kubectl(&["delete", "etcdbackup", "save", "-n", self.installed])?;
        for ns in [self.installed, self.waiting] {
            cluster.olm_ok(&["uninstall", "etcd", "-n", ns, "--yes"])?;
            delete_namespace(cluster, ns)?;
        }
        Ok(())
    }
}

async fn waits(cluster: &Cluster, ns: &str) -> Result<()> {
    eventually("a plan that requires approval", LIMIT, async || {
        let listed = cluster.olm_ok(&["list", "-n", ns])?;
        Ok(listed.contains("Needs approval").then_some(()))
    })
    .await
}

/// Waits until the console lists the catalogs of the cluster: it reads them every two seconds, and a previous
/// scenario may have deleted one.
pub(crate) async fn current(cluster: &Cluster, visitor: &mut Visitor) -> Result<()> {
    eventually("the console to list the catalogs of the cluster", LIMIT, async || {
        let page = visitor.get("/catalog", &[("accept", "application/json")]).await?;
        let model: Value = serde_json::from_slice(&page.body)?;
        let list = get(cluster, &["catalogsources", "-A"])?;
        let items = list["items"].as_array().context("items")?;
        let name = |one: &Value| {
            format!("{}/{}", text(&one["metadata"]["namespace"]), text(&one["metadata"]["name"]))
        };
        let known: BTreeSet<String> = items.iter().map(name).collect();
        let sources = model["sources"].as_array().context("sources")?;
        let all = !sources.is_empty() && sources.iter().all(|source| known.contains(&text(&source["name"])));
        Ok(all.then_some(()))
    })
    .await
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The objects that forms change, with their specs.
fn specs(cluster: &Cluster) -> Result<BTreeSet<String>> {
    let kinds = "subscriptions,installplans,csv,catalogsources,etcdbackups,crd";
    let list = get(cluster, &[kinds, "-A"])?;
    let items = list["items"].as_array().context("items")?;
    let one = |item: &Value| {
        let metadata = &item["metadata"];
        format!(
            "{} {}/{} {} {} {}",
            text(&item["kind"]),
            text(&metadata["namespace"]),
            text(&metadata["name"]),
            text(&metadata["uid"]),
            metadata["deletionTimestamp"],
            item["spec"]
        )
    };
    Ok(items.iter().map(one).collect())
}

#[test]
fn faults_of_a_page_are_found() {
    let page = |body: &str| {
        let text = format!(
            "<!DOCTYPE html><html lang=\"en\"><head><title>A page</title></head><body><h1>A</h1>{body}</body></html>"
        );
        Page::parse(&text)
    };
    let sound = "<p>a &lt; b<br></p><svg><title>drawing</title><path d=\"M0\"/></svg><label for=\"q\">Text</label>\
        <input id=\"q\" name=\"q\"><a href=\"#q\"><img src=\"/x\" alt=\"x\"></a>";
    assert_eq!(page(sound).faults(), Vec::<String>::new());
    for (body, fault) in [
        ("<div>", "</body> closes <div>"),
        ("<p><div></div></p>", "<div> in <p>"),
        ("<a href=\"/\">x<button>y</button></a>", "<button> in <a>"),
        ("<form><form></form></form>", "<form> in <form>"),
        ("<i id=\"a\"></i><i id=\"a\"></i>", "id `a` is not unique"),
        ("<h1>B</h1>", "2 headings"),
        ("<input name=\"x\">", "<input name=\"x\"> has no label"),
        ("<label for=\"none\">x</label>", "names `none`"),
        ("<b style=\"color: red\"></b>", "inline style"),
        ("<b onclick=\"x\"></b>", "inline onclick"),
        ("<script>x</script>", "inline <script>"),
        ("<img src=\"/x\">", "has no alt"),
        ("<b id=\"x\" id=\"y\"></b>", "attribute id twice"),
        ("<b id=x></b>", "is not quoted"),
        ("<a href=\"/\"></a>", "<a> has no text"),
    ] {
        let faults = page(body).faults();
        assert!(faults.iter().any(|one| one.contains(fault)), "{body}: {faults:?}");
    }
    let faults = Page::parse("<html><head></head><body></body></html>").faults();
    for fault in ["no doctype", "no language", "no title", "0 headings"] {
        assert!(faults.iter().any(|one| one.contains(fault)), "{fault}: {faults:?}");
    }
}

#[test]
fn a_form_is_submitted_with_its_defaults() {
    let text = "<form method=\"post\" action=\"/x\"><input type=\"hidden\" name=\"_csrf\" value=\"a&amp;b\">\
        <input type=\"checkbox\" name=\"on\" checked><input type=\"checkbox\" name=\"off\">\
        <input type=\"radio\" name=\"r\" value=\"1\"><input type=\"radio\" name=\"r\" value=\"2\" checked>\
        <select name=\"s\"><option>first</option><option selected value=\"2\">second</option></select>\
        <textarea name=\"t\">\na &lt; b</textarea><input name=\"gone\" disabled>\
        <button name=\"b\" value=\"1\">One</button><button name=\"b\" value=\"2\" formmethod=\"get\">Two</button>\
        <button name=\"b\" value=\"3\" formaction=\"/y\">Three</button></form>\
        <input name=\"outside\">";
    let form = |action: &str, is_post, button| {
        let fields = [("_csrf", "a&b"), ("on", "on"), ("r", "2"), ("s", "2"), ("t", "a < b"), ("b", button)];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        Form { action: action.into(), is_post, fields }
    };
    assert_eq!(
        Page::parse(text).forms(),
        [form("/x", true, "1"), form("/x", false, "2"), form("/y", true, "3")]
    );
}

#[test]
fn the_routes_of_the_console_are_read() {
    let routes = routes().unwrap();
    let find =
        |path: &str| routes.iter().find(|route| route.path == path).unwrap_or_else(|| panic!("no {path}"));
    assert!(find("/doctor").has_get && find("/doctor").has_post);
    assert!(!find("/logout").has_get && !find("/catalog").has_post);
    assert!(routes.len() > 30);
}

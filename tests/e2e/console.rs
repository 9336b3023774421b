//! The console in a browser: catalog → etcd → Install → Succeeded → create an EtcdCluster from the form → its
//! members appear.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use olm_tests::{Cluster, browser::Page, etcd, eventually};
use serde_json::Value;

use crate::{
    operator::{LIMIT, csv_succeeded, delete_namespace, get, namespace, subscription},
    scenario,
};

/// Timeout of a step in the browser: as long as an etcd takes to return on a busy machine. The bench asserts
/// speed.
const PATIENCE: Duration = Duration::from_secs(180);

/// Directory for screenshots, if configured.
fn shots() -> Option<PathBuf> {
    let dir = PathBuf::from(std::env::var_os("OLM_SCREENSHOTS")?);
    std::fs::create_dir_all(&dir).ok()?;
    Some(dir)
}

/// Screenshots in both themes and two widths.
pub(crate) async fn shot(page: &mut Page, name: &str) -> Result<()> {
    let Some(dir) = shots() else { return Ok(()) };
    for (theme, width) in [("light", 1440), ("dark", 1440), ("light", 390), ("dark", 390)] {
        page.theme(theme).await?;
        page.resize(width, 900).await?;
        tokio::time::sleep(Duration::from_millis(150)).await;
        page.screenshot(&dir.join(format!("{name}-{theme}-{width}.png"))).await?;
    }
    page.theme("light").await?;
    page.resize(1280, 900).await
}

/// A signed-in browser, and the console's address; `None` (and a printed reason) where that is impossible.
async fn signed_in(test: &str, cluster: &Cluster, scripts: bool) -> Result<Option<(Page, String)>> {
    let Some(link) = cluster.login_link().await? else {
        olm_tests::skipped(test, "there is no console on this cluster");
        return Ok(None);
    };
    let Some(mut page) = Page::open(1280, 900).await? else {
        olm_tests::skipped(test, "chromium is not installed");
        return Ok(None);
    };
    page.scripts(scripts).await?;
    catalog(cluster, &mut page, &link).await?;
    let base = base(&link).to_owned();
    Ok(Some((page, base)))
}

/// The console's address from a sign-in link.
pub(crate) fn base(link: &str) -> &str {
    link.split("/login").next().unwrap_or_default()
}

/// Signs in, and waits until no catalog of the previous scenario is on the page: the console polls them every
/// two seconds, and the card of a deleted one leads nowhere.
pub(crate) async fn catalog(cluster: &Cluster, page: &mut Page, link: &str) -> Result<()> {
    page.goto(link).await?;
    page.click("Sign in as").await?;
    let cards = "[...document.querySelectorAll('a[href^=\"/catalog/\"][href$=\"/etcd\"]')].map(a => a.pathname.split('/')[2])";
    let start = Instant::now();
    loop {
        at(page, "/catalog").await?;
        let there = names(cluster, "catalogsources")?;
        let shown = page.eval(cards).await?;
        let of_one = |id: &Value| {
            let id = id.as_str().and_then(|id| id.split_once('.'));
            id.is_some_and(|(ns, name)| there.contains(&(ns.to_owned(), name.to_owned())))
        };
        if shown.as_array().is_some_and(|ids| !ids.is_empty() && ids.iter().all(of_one)) {
            return Ok(());
        }
        ensure!(start.elapsed() < PATIENCE, "etcd is in {shown}, and the catalogs are {there:?}");
        tokio::time::sleep(Duration::from_millis(500)).await;
        page.goto(&format!("{}/catalog", base(link))).await?;
    }
}

/// Waits for a page whose path has this prefix.
async fn at(page: &mut Page, path: &str) -> Result<()> {
    let there = format!("location.pathname.startsWith({path:?}) && document.readyState === 'complete'");
    page.wait_for(&there, PATIENCE).await.map(drop)
}

/// Waits until the page contains a text.
pub(crate) async fn shows(page: &mut Page, text: &str) -> Result<()> {
    page.wait_for(&format!("document.body.innerText.includes({text:?})"), PATIENCE).await.map(drop)
}

/// Namespace and name of every object of a kind.
fn names(cluster: &Cluster, kind: &str) -> Result<BTreeSet<(String, String)>> {
    let list = get(cluster, &[kind, "-A"])?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let items = list["items"].as_array().cloned().unwrap_or_default();
    Ok(items.iter().map(|s| (text(&s["metadata"]["namespace"]), text(&s["metadata"]["name"]))).collect())
}

#[test]
fn one_click_installs_and_a_form_creates_a_cluster() {
    const NAME: &str = "one_click_installs_and_a_form_creates_a_cluster";
    scenario(NAME, async |cluster| {
        let Some(version) = etcd::version() else {
            olm_tests::skipped(NAME, "etcd is not installed");
            return Ok(());
        };
        let Some(link) = cluster.login_link().await? else {
            olm_tests::skipped(NAME, "there is no console on this cluster");
            return Ok(());
        };
        let Some(mut page) = Page::open(1280, 900).await? else {
            olm_tests::skipped(NAME, "chromium is not installed");
            return Ok(());
        };
        match one_click(&cluster, &mut page, &link, &version).await {
            Ok(()) => Ok(()),
            Err(error) => Err(error.context(format!("the page: {}", page.seen().await))),
        }
    });
}

async fn one_click(cluster: &Cluster, page: &mut Page, link: &str, version: &str) -> Result<()> {
    catalog(cluster, page, link).await?;
    shot(page, "1-catalog").await?;
    page.click("etcd").await?;
    at(page, "/catalog/").await?;
    shot(page, "2-package").await?;
    page.click("Install").await?;
    at(page, "/install/").await?;
    shot(page, "3-install").await?;
    let command = page.eval("document.querySelector('#copy-command').textContent").await?;
    // Exactly one click: no field is filled in here.
    page.click("Install").await?;
    at(page, "/installed/").await?;
    // Progress is shown without a reload: this mark stays.
    page.eval("document.body.dataset.mark = 'same page'").await?;
    page.wait_for("/Healthy/.test(document.querySelector('h1 + .row').innerText)", PATIENCE).await?;
    page.wait_for("/Create EtcdCluster/.test(document.body.innerText)", PATIENCE).await?;
    ensure!(page.eval("document.body.dataset.mark").await? == "same page", "the page was loaded again");
    shot(page, "4-installed").await?;
    let path = page.eval("location.pathname").await?;
    let path = path.as_str().context("path")?.to_string();
    let ns = path.split('/').nth(2).context("namespace in the address")?.to_string();
    csv_succeeded(cluster, &ns, "etcdoperator.v0.11.0").await?;

    page.click("Create EtcdCluster").await?;
    page.wait_for("document.querySelector('form input[name*=\"size\"]')", PATIENCE).await?;
    // The example uses the etcd of Debian 12; this machine may have another.
    page.eval(&format!(
        "(() => {{ const v = document.querySelector('form input[name*=\"version\"]'); if (v) v.value = {version:?}; return 1 }})()"
    ))
    .await?;
    shot(page, "5-create").await?;
    page.click("Create").await?;
    at(page, &format!("/instances/etcdclusters.etcd.database.coreos.com/{ns}/")).await?;
    page.eval("document.body.dataset.mark = 'same page'").await?;
    let members = cluster.wait_members(&ns, "example-etcd-cluster", 3, PATIENCE).await?;
    for member in &members {
        shows(page, member).await?;
    }
    shows(page, "3 members: 3 ready").await?;
    ensure!(page.eval("document.body.dataset.mark").await? == "same page", "the page was loaded again");
    shot(page, "6-instance").await?;
    page.goto(&format!("{}/installed", link.split("/login").next().unwrap_or_default())).await?;
    shot(page, "7-installed-list").await?;
    backups_and_restores(cluster, page, link, &ns).await?;

    // The link works once.
    page.goto(link).await?;
    let text = page.eval("document.body.innerText").await?;
    ensure!(text.as_str().is_some_and(|t| t.contains("used") || t.contains("expired")), "{text}");

    cluster.kubectl(&["delete", "etcdcluster", "--all", "-n", &ns])?;
    cluster.olm_ok(&["uninstall", "etcd", "-n", &ns, "--instances", "delete", "--yes"])?;

    // The command that the page showed does what the click did.
    let command = command.as_str().context("a command")?;
    let words = command.strip_prefix("olm ").with_context(|| format!("a command of olm: {command}"))?;
    let words = words.split_whitespace();
    cluster.olm_ok(&words.collect::<Vec<_>>())?;
    csv_succeeded(cluster, &ns, "etcdoperator.v0.11.0").await?;
    cluster.olm_ok(&["uninstall", "etcd", "-n", &ns, "--yes"])?;
    delete_namespace(cluster, &ns)
}

/// The forms of the other kinds have exactly the author's fields; the status of a request is on its page.
async fn backups_and_restores(cluster: &Cluster, page: &mut Page, link: &str, ns: &str) -> Result<()> {
    let base = link.split("/login").next().unwrap_or_default();
    for (kind, field) in [("etcdbackups", "storageType"), ("etcdrestores", "backupStorageType")] {
        page.goto(&format!("{base}/instances/new/{kind}.etcd.database.coreos.com?ns={ns}")).await?;
        let options = format!("[...document.querySelectorAll('select[name=\"/spec/{field}\"] option')]");
        page.wait_for(&format!("{options}.length > 0"), PATIENCE).await?;
        let offered = page.eval(&format!("{options}.map(o => o.value).filter(v => v).join(' ')")).await?;
        ensure!(offered == "S3 GCS ABS Local", "{kind}: {offered}");
        shot(page, &format!("7-{kind}-form")).await?;
    }
    let backup = format!(
        "apiVersion: etcd.database.coreos.com/v1beta2\nkind: EtcdBackup\nmetadata: {{name: save, namespace: {ns}}}\nspec: {{clusterName: example-etcd-cluster, storageType: Local, local: {{path: etcd/save.db}}}}\n"
    );
    cluster.kubectl_in(&["apply", "-f", "-"], Some(&backup))?;
    page.goto(&format!("{base}/instances/etcdbackups.etcd.database.coreos.com/{ns}/save")).await?;
    shows(page, "this operator has no backup directory").await?;
    shot(page, "7-etcdbackups-page").await
}

/// A Manual subscription stops at its plan; the button approves that plan; the next version waits again;
/// uninstalling an operator with data requires a typed name.
#[test]
fn the_approve_button_approves_and_uninstall_asks_for_the_name() {
    const NAME: &str = "the_approve_button_approves_and_uninstall_asks_for_the_name";
    scenario(NAME, async |cluster| {
        let Some(version) = etcd::version() else {
            olm_tests::skipped(NAME, "etcd is not installed");
            return Ok(());
        };
        let Some((mut page, base)) = signed_in(NAME, &cluster, true).await? else { return Ok(()) };
        let ns = "button";
        namespace(&cluster, ns)?;
        cluster.kubectl_in(
            &["apply", "-f", "-"],
            Some(&subscription(ns, "Manual", Some("etcdoperator.v0.10.1"))),
        )?;
        page.goto(&format!("{base}/installed/{ns}/etcd")).await?;
        shows(&mut page, "Plan requires approval").await?;
        ensure!(
            get(&cluster, &["csv", "-n", ns])?["items"].as_array().is_some_and(Vec::is_empty),
            "installed unasked"
        );
        shot(&mut page, "8-needs-approval").await?;
        page.click("Approve 0.10.1").await?;
        csv_succeeded(&cluster, ns, "etcdoperator.v0.10.1").await?;

        shows(&mut page, "Approve 0.11.0").await?;
        shot(&mut page, "9-upgrade-waits").await?;
        page.click("Approve 0.11.0").await?;
        csv_succeeded(&cluster, ns, "etcdoperator.v0.11.0").await?;
        page.wait_for("/Healthy\\s+0\\.11\\.0/.test(document.querySelector('h1 + .row').innerText)", LIMIT)
            .await?;

        cluster.kubectl_in(&["apply", "-f", "-"], Some(&etcd::manifest(ns, "data", 1, &version)))?;
        cluster.wait_members(ns, "data", 1, LIMIT).await?;
        page.click("More actions").await?;
        page.click("Uninstall").await?;
        at(&mut page, &format!("/installed/{ns}/etcd/uninstall")).await?;
        page.click("The operator and its 1 object").await?;
        shot(&mut page, "10-uninstall").await?;
        page.click("Uninstall").await?;
        shows(&mut page, "The name does not match").await?;
        cluster.kubectl(&["get", "etcdcluster", "data", "-n", ns])?;
        page.eval("document.getElementById('confirm').value = 'etcd'").await?;
        page.click("Uninstall").await?;
        shows(&mut page, "etcd uninstalled").await?;
        shot(&mut page, "11-uninstalled").await?;
        let left = cluster.kubectl(&["get", "subscriptions,csv,etcdclusters", "-n", ns, "-o", "name"])?;
        ensure!(left.trim().is_empty(), "left over: {left}");
        // Pods take their grace period.
        eventually("the pods to go", LIMIT, async || {
            let left = cluster.kubectl(&["get", "pods", "-n", ns, "-o", "name"])?;
            ensure!(left.trim().is_empty(), "left over: {left}");
            Ok(Some(()))
        })
        .await?;
        delete_namespace(&cluster, ns)
    });
}

/// The command of a page that starts like this.
async fn printed(page: &mut Page, starts: &str) -> Result<String> {
    let find = format!(
        "[...document.querySelectorAll('code, pre')].map(e => e.textContent.trim()).find(t => t.startsWith({starts:?}))"
    );
    page.wait_for(&format!("!!{find}"), PATIENCE).await?;
    let command = page.eval(&find).await?;
    command.as_str().map(str::to_owned).with_context(|| format!("no command {starts}"))
}

/// Each page prints a command that does what its button does.
#[test]
fn printed_commands_do_what_the_pages_do() {
    const NAME: &str = "printed_commands_do_what_the_pages_do";
    scenario(NAME, async |cluster| {
        let Some((mut page, base)) = signed_in(NAME, &cluster, true).await? else { return Ok(()) };
        let ns = "printed";
        let home = format!("{base}/installed/{ns}/etcd");
        let catalog = page
            .eval("document.querySelector('a[href^=\"/catalog/\"][href$=\"/etcd\"]').getAttribute('href')");
        let catalog = catalog.await?;
        let install = catalog.as_str().context("the package")?.replace("/catalog/", "/install/");
        let mut run = async |path: &str, starts: &str| -> Result<()> {
            page.goto(path).await?;
            let command = printed(&mut page, starts).await?;
            let words: Vec<&str> = command.split_whitespace().skip(1).collect();
            cluster.olm_ok(&words).with_context(|| command.clone()).map(drop)
        };
        run(&format!("{base}{install}?namespace={ns}&version=0.10.1&watch=own"), "olm install").await?;
        run(&home, "olm approve").await?;
        csv_succeeded(&cluster, ns, "etcdoperator.v0.10.1").await?;
        for (change, starts) in [
            ("pause", "olm pause"),
            ("resume", "olm resume"),
            ("unpin", "olm unpin"),
            ("skip&version=0.11.0", "olm skip"),
            ("unskip&version=0.11.0", "olm skip"),
            ("snooze", "olm snooze"),
            ("unsnooze", "olm snooze"),
            ("channel&channel=singlenamespace-alpha", "olm set-channel"),
        ] {
            run(&format!("{home}/change?what={change}"), starts).await?;
        }
        run(&home, "olm approve").await?;
        csv_succeeded(&cluster, ns, "etcdoperator.v0.11.0").await?;
        run(&format!("{home}/rollback?to=etcdoperator.v0.10.1"), "olm rollback").await?;
        csv_succeeded(&cluster, ns, "etcdoperator.v0.10.1").await?;
        cluster.olm_ok(&["uninstall", "etcd", "-n", ns, "--yes"])?;
        delete_namespace(&cluster, ns)
    });
}

/// Install, progress and uninstall with plain links and forms.
#[test]
fn the_console_works_without_scripts() {
    const NAME: &str = "the_console_works_without_scripts";
    scenario(NAME, async |cluster| {
        let Some((mut page, base)) = signed_in(NAME, &cluster, false).await? else { return Ok(()) };
        page.click("etcd").await?;
        at(&mut page, "/catalog/").await?;
        page.click("Install").await?;
        at(&mut page, "/install/").await?;
        page.click("Install").await?;
        at(&mut page, "/installed/").await?;
        // The page reloads until nothing is pending.
        let start = Instant::now();
        shows(&mut page, "Create EtcdCluster").await?;
        println!("healthy after {:.1}s", start.elapsed().as_secs_f64());
        let path = page.eval("location.pathname").await?;
        let ns =
            path.as_str().and_then(|p| p.split('/').nth(2)).context("namespace in the address")?.to_string();

        page.click("Create EtcdCluster").await?;
        at(&mut page, "/instances/new/").await?;
        page.click("YAML").await?;
        page.wait_for("document.querySelector('textarea.yaml')", Duration::from_secs(60)).await?;
        page.click("Form").await?;
        page.wait_for("document.querySelector('input[name=\"/spec/size\"]')", Duration::from_secs(60))
            .await?;
        page.eval("document.querySelector('input[name=\"/metadata/name\"]').value = 'No Name'").await?;
        page.click("Check").await?;
        shows(&mut page, "Not created: ").await?;

        page.goto(&format!("{base}{}", path.as_str().unwrap_or_default())).await?;
        page.click("More actions").await?;
        page.click("Uninstall").await?;
        at(&mut page, &format!("/installed/{ns}/etcd/uninstall")).await?;
        page.click("Uninstall").await?;
        shows(&mut page, "etcd uninstalled").await?;
        delete_namespace(&cluster, &ns)
    });
}

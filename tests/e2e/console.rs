//! The browser's way: catalog → etcd → Install → Succeeded → create an EtcdCluster from the form → its members appear.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, ensure};
use olm_tests::{Cluster, browser::Page, etcd};

use crate::{
    operator::{csv_succeeded, delete_namespace},
    scenario,
};

/// A login link for the console of the cluster, as a user gets it.
fn login_link(cluster: &Cluster) -> Result<Option<String>> {
    let Some(data_dir) = &cluster.data_dir else { return Ok(None) };
    let out = cluster.olm_ok(&["token", "--data-dir", &data_dir.display().to_string()])?;
    Ok(out.lines().find_map(|l| l.split_whitespace().find(|w| w.starts_with("http"))).map(str::to_string))
}

/// Screenshots go here when a person wants to look at them.
fn shots() -> Option<PathBuf> {
    let dir = PathBuf::from(std::env::var_os("OLM_SCREENSHOTS")?);
    std::fs::create_dir_all(&dir).ok()?;
    Some(dir)
}

async fn shot(page: &mut Page, name: &str) -> Result<()> {
    let Some(dir) = shots() else { return Ok(()) };
    for (theme, width) in [("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)] {
        page.theme(theme).await?;
        page.resize(width, 900).await?;
        tokio::time::sleep(Duration::from_millis(150)).await;
        page.screenshot(&dir.join(format!("{name}-{theme}-{width}.png"))).await?;
    }
    page.theme("light").await?;
    page.resize(1280, 900).await
}

#[test]
fn one_click_installs_and_a_form_creates_a_cluster() {
    const NAME: &str = "one_click_installs_and_a_form_creates_a_cluster";
    scenario(NAME, async |cluster| {
        let Some(link) = login_link(&cluster)? else {
            olm_tests::skipped(NAME, "the console's address is not known on this cluster");
            return Ok(());
        };
        let Some(version) = etcd::version() else {
            olm_tests::skipped(NAME, "etcd is not installed");
            return Ok(());
        };
        let Some(mut page) = Page::open(1280, 900).await? else {
            olm_tests::skipped(NAME, "chromium is not installed");
            return Ok(());
        };
        page.goto(&link).await?;
        page.wait_for("location.pathname === '/catalog'", Duration::from_secs(10)).await?;
        shot(&mut page, "1-catalog").await?;
        page.click("etcd").await?;
        page.wait_for(
            "location.pathname.includes('/catalog/') && document.readyState === 'complete'",
            Duration::from_secs(10),
        )
        .await?;
        shot(&mut page, "2-package").await?;
        page.click("Install").await?;
        page.wait_for(
            "location.pathname.startsWith('/install/') && document.readyState === 'complete'",
            Duration::from_secs(10),
        )
        .await?;
        shot(&mut page, "3-install").await?;
        // One click means one: nothing is filled in here.
        page.click("Install").await?;
        page.wait_for("location.pathname.startsWith('/installed/')", Duration::from_secs(20)).await?;
        page.wait_for("/Healthy/.test(document.body.innerText)", Duration::from_secs(60)).await?;
        shot(&mut page, "4-installed").await?;
        let path = page.eval("location.pathname").await?;
        let path = path.as_str().context("path")?.to_string();
        let ns = path.split('/').nth(2).context("namespace in the address")?.to_string();
        csv_succeeded(&cluster, &ns, "etcdoperator.v0.10.1").await?;

        page.click("Create EtcdCluster").await?;
        page.wait_for("document.querySelector('form input[name*=\"size\"]')", Duration::from_secs(10))
            .await?;
        // The example asks for the etcd that Debian 12 has; this machine may have another.
        page.eval(&format!(
            "(() => {{ const v = document.querySelector('form input[name*=\"version\"]'); if (v) v.value = {version:?}; return 1 }})()"
        ))
        .await?;
        shot(&mut page, "5-create").await?;
        page.click("Create").await?;
        page.wait_for(
            "location.pathname.startsWith('/instances/') && !location.pathname.includes('/new/')",
            Duration::from_secs(20),
        )
        .await?;
        let members = cluster.wait_members(&ns, "example-etcd-cluster", 3, Duration::from_secs(90)).await?;
        page.wait_for(
            &format!("document.body.innerText.includes({:?})", members[2]),
            Duration::from_secs(20),
        )
        .await?;
        shot(&mut page, "6-instance").await?;
        page.goto(&format!("{}/installed", link.split("/login").next().unwrap_or_default())).await?;
        shot(&mut page, "7-installed-list").await?;

        // The link works once.
        page.goto(&link).await?;
        let text = page.eval("document.body.innerText").await?;
        ensure!(text.as_str().is_some_and(|t| t.contains("used") || t.contains("expired")), "{text}");

        cluster.kubectl(&["delete", "etcdcluster", "--all", "-n", &ns])?;
        cluster.olm_ok(&["uninstall", "etcd", "-n", &ns, "--instances", "delete", "--yes"])?;
        delete_namespace(&cluster, &ns)
    });
}

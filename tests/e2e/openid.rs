//! Sign-in to the console with OpenID Connect: a browser, a certified provider (npm's `oidc-provider`), the
//! real `olm console`, and an API server that only accepts the provider's ID tokens from the user.

use std::{
    io::{BufRead as _, BufReader},
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use olm_tests::{browser::Page, cluster::DevCluster, eventually};
use serde_json::Value;

use crate::{
    block_on,
    console::{shot, shows},
    turn,
};

const NAME: &str = "a_browser_signs_in_with_openid_connect";
const PATIENCE: Duration = Duration::from_secs(120);

/// The provider's process, and the number of renewed ID tokens.
struct Provider(Child, Arc<AtomicUsize>);

impl Provider {
    fn start(folder: &PathBuf, port: u16, console: &str) -> Result<Self> {
        let script = olm_tests::root().join("tests/e2e/oidc-provider.mjs");
        let mut child = Command::new("node")
            .arg(script)
            .arg(folder)
            .args([&port.to_string(), console])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A separate pipe: node would make the pipe of the tests' output non-blocking, and their output
            // would be lost.
            .stderr(Stdio::piped())
            .spawn()
            .context("failed to start node")?;
        let mut lines = BufReader::new(child.stdout.take().context("stdout")?).lines();
        let first = lines.next().transpose()?;
        ensure!(first.as_deref() == Some("listens"), "the provider did not start: {first:?}");
        let errors = BufReader::new(child.stderr.take().context("stderr")?).lines();
        std::thread::spawn(move || errors.map_while(Result::ok).for_each(|line| eprintln!("{line}")));
        let renewals = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&renewals);
        std::thread::spawn(move || {
            for _ in lines.map_while(Result::ok).filter(|line| line == "renewed") {
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Ok(Self(child, renewals))
    }

    fn renewals(&self) -> usize {
        self.1.load(Ordering::Relaxed)
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Install directory of the provider.
fn provider_folder() -> Option<PathBuf> {
    olm_tests::program("node")?;
    olm_tests::npm_package("oidc-provider")
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

#[test]
fn a_browser_signs_in_with_openid_connect() {
    let _turn = turn();
    let Some(folder) = provider_folder() else {
        olm_tests::skipped(NAME, "npm's oidc-provider is not installed");
        return;
    };
    block_on(async {
        if let Err(error) = walk(&folder).await {
            panic!("{error:#}");
        }
    });
}

async fn walk(folder: &PathBuf) -> Result<()> {
    let Some(mut page) = Page::open(1440, 900).await? else {
        olm_tests::skipped(NAME, "chromium is not installed");
        return Ok(());
    };
    let temp = tempfile::tempdir()?;
    let secret = temp.path().join("client-secret");
    std::fs::write(&secret, "only for this test\n")?;
    let port = free_port()?;
    let issuer = format!("http://127.0.0.1:{port}");
    let cluster = DevCluster::start_in_temp(&[
        "--no-pods",
        &format!("--oidc-issuer={issuer}"),
        "--oidc-client-id=olm-console",
        &format!("--oidc-client-secret-file={}", secret.display()),
        "--oidc-scopes=email,groups",
        "--oidc-username-claim=email",
        "--oidc-groups-claim=groups",
        "--oidc-groups-prefix=id:",
    ])?;
    let cluster = cluster.cluster();
    let link = cluster.login_link().await?.context("a console")?;
    let base = link.split("/login").next().unwrap_or_default().to_owned();

    // when the provider is down
    page.goto(&format!("{base}/installed")).await?;
    shot(&mut page, "sign-in").await?;
    page.click("Sign in with 127.0.0.1").await?;
    shows(&mut page, "Provider unreachable").await?;
    shot(&mut page, "sign-in-provider-away").await?;
    // when the provider is back
    let provider = Provider::start(folder, port, &base)?;
    eventually("the console to ask the provider again", PATIENCE, async || {
        // The interval of the poll: the console limits sign-ins to 30 for each address, and then one in two seconds.
        tokio::time::sleep(Duration::from_secs(1)).await;
        page.goto(&format!("{base}/installed")).await?;
        page.click("Sign in with 127.0.0.1").await?;
        let either = "['[ Cancel ]', 'Provider unreachable'].some(t => document.body.innerText.includes(t))";
        page.wait_for(either, PATIENCE).await?;
        Ok((page.eval("document.body.innerText.includes('[ Cancel ]')").await? == true).then_some(()))
    })
    .await?;

    // when the user cancels
    page.click("[ Cancel ]").await?;
    shows(&mut page, "The provider rejected the sign-in").await?;
    shows(&mut page, "access_denied").await?;
    shot(&mut page, "sign-in-refused").await?;

    // when the user signs in
    page.goto(&format!("{base}/installed")).await?;
    sign_in(&mut page, "grace").await?;
    at(&mut page, &format!("{base}/installed")).await?;
    // then the console acts as that user, with groups
    let me = me(&mut page).await?;
    ensure!(me["name"] == "grace@example.org", "{me}");
    ensure!(me["groups"].as_array().is_some_and(|groups| groups.contains(&"id:dev".into())), "{me}");
    // and no script can read a cookie, and no URL contains a code or a token
    ensure!(page.eval("document.cookie").await? == "", "cookies are for the server alone");
    let address = page.eval("location.href").await?;
    ensure!(address == format!("{base}/installed"), "{address}");
    // and the manager serves the catalogs to that user
    let catalogs = "fetch('/catalog', {headers: {accept: 'application/json'}}).then(r => r.text())";
    ensure!(page.eval(catalogs).await?.to_string().contains("etcd"), "the manager accepts the token");

    // and the session outlives its ID token, which is valid for 10 seconds: the console renews it
    eventually("the ID token to be renewed", PATIENCE, async || {
        ensure!(self::me(&mut page).await?["name"] == "grace@example.org");
        Ok((provider.renewals() > 1).then_some(()))
    })
    .await?;

    // when the user signs out, then also at the provider
    page.goto(&format!("{base}/installed")).await?;
    page.eval("document.querySelector('#menu').open = true").await?;
    page.click("Sign out").await?;
    shows(&mut page, "sign-out").await?;
    page.click("Yes, sign me out").await?;
    at(&mut page, &format!("{base}/login")).await?;
    ensure!(
        page.eval("fetch('/me', {headers: {accept: 'application/json'}}).then(r => r.status)").await? == 401
    );

    // and sign-in needs no scripts
    page.scripts(false).await?;
    page.goto(&format!("{base}/login?next=/catalog")).await?;
    page.click("Sign in with 127.0.0.1").await?;
    page.wait_for("!!document.querySelector('[name=login]')", PATIENCE).await?;
    drop(provider);
    Ok(())
}

/// From the sign-in page of the console through the pages of the provider.
async fn sign_in(page: &mut Page, user: &str) -> Result<()> {
    page.click("Sign in with 127.0.0.1").await?;
    page.wait_for("!!document.querySelector('[name=login]')", PATIENCE).await?;
    let fill = format!(
        "document.querySelector('[name=login]').value = {user:?}; document.querySelector('[name=password]').value = 'any'"
    );
    page.eval(&fill).await?;
    page.click("Sign-in").await?;
    page.click("Continue").await
}

async fn me(page: &mut Page) -> Result<Value> {
    page.eval("fetch('/me', {headers: {accept: 'application/json'}}).then(r => r.json())").await
}

async fn at(page: &mut Page, address: &str) -> Result<()> {
    let there = format!("location.href === {address:?} && document.readyState === 'complete'");
    page.wait_for(&there, PATIENCE).await.map(drop)
}

//! `olm console` on a user's machine: the console with the identity of a kubeconfig.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};
use olm_tests::{Cluster, browser::Page};

use crate::{console, scenario};

/// A running `olm console`, killed on drop.
struct LocalConsole {
    child: Child,
    link: String,
}

impl LocalConsole {
    fn start(cluster: &Cluster) -> Result<Self> {
        let mut child = olm_tests::cluster::olm()
            .env("KUBECONFIG", &cluster.kubeconfig)
            .args(["console", "--port", "0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("failed to start olm console (are the binaries built?)")?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("stdout")?).read_line(&mut line)?;
        let link = line.split_whitespace().find(|word| word.starts_with("http://127.0.0.1:"));
        let Some(link) = link.map(str::to_owned) else {
            let mut error = String::new();
            child.stderr.take().context("stderr")?.read_to_string(&mut error)?;
            bail!("olm console ended with {}: {line}{error}", child.wait()?);
        };
        Ok(Self { child, link })
    }

    /// Ctrl-C.
    fn stop(mut self) -> Result<()> {
        let sent = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status()?;
        ensure!(sent.success(), "failed to send the signal");
        let status = self.child.wait()?;
        ensure!(status.success(), "olm console ended with {status}");
        Ok(())
    }
}

impl Drop for LocalConsole {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_console_opens_with_a_kubeconfig() {
    const NAME: &str = "the_console_opens_with_a_kubeconfig";
    scenario(NAME, async |cluster| {
        let Some(mut page) = Page::open(1280, 900).await? else {
            olm_tests::skipped(NAME, "chromium is not installed");
            return Ok(());
        };
        // when the link of the command is opened, then the catalog is there
        let local = LocalConsole::start(&cluster)?;
        console::catalog(&cluster, &mut page, &local.link).await?;
        // and the user is that of the kubeconfig
        let user = cluster.kubectl(&["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"])?;
        let me = "fetch('/me', {headers: {accept: 'application/json'}}).then(r => r.json())";
        let me = page.eval(me).await?;
        ensure!(me["name"] == user.trim(), "{me}, and kubectl is {user}");
        // and the page of a package is read from the manager
        page.click("etcd").await?;
        console::shows(&mut page, "Install").await?;
        // and the link works once
        page.goto(&local.link).await?;
        console::shows(&mut page, "Sign-in link expired").await?;
        // and Ctrl-C ends it, with a page open
        local.stop()
    });
}

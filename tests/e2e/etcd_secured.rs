//! Scenarios of etcd clusters with TLS and users, on the dev cluster's own node. They share a namespace and run
//! concurrently, like those of [`crate::etcd_scenarios`].

#[path = "../etcd/certificates.rs"]
mod certificates;

use anyhow::{Context as _, Result, ensure};
use futures::FutureExt as _;
use olm_tests::eventually;
use serde_json::json;

use self::certificates::{Authority, GOOD};
use crate::{
    etcd_fixture::{LIMIT, members, pods, succeeded, without_volumes},
    etcd_handle::{Handle, concurrently, under_one_operator},
    etcd_whole::secure,
    operator::get,
};

const PASSWORD: &str = "s3cret";

impl Handle<'_> {
    fn secure(&self, pod: &str, host: &str, args: &[&str]) -> Result<String> {
        secure(self.cluster, self.ns, pod, host, args)
    }

    /// etcdctl in a member as user root.
    fn as_root(&self, pod: &str, args: &[&str]) -> Result<String> {
        let user = format!("--user=root:{PASSWORD}");
        let all: Vec<&str> = std::iter::once(user.as_str()).chain(args.iter().copied()).collect();
        self.secure(pod, "localhost", &all)
    }

    /// Name of the only member.
    async fn only_member(&self) -> Result<String> {
        let list = members(self.cluster, self.ns, self.name, 1).await?;
        Ok(list.first().context("a member")?.0.clone())
    }

    async fn requires_logins(&self, member: &str) -> Result<()> {
        eventually("authentication to be enabled", LIMIT, async || {
            Ok((self.object()?["status"]["authEnabled"] == true).then_some(()))
        })
        .await?;
        let refused = self.secure(member, "localhost", &["get", "before"]);
        let text = refused.err().map(|error| error.to_string()).unwrap_or_default();
        let asked = ["permission denied", "user name is empty", "user name not found"];
        ensure!(asked.iter().any(|word| text.contains(word)), "a read without a login: {text:?}");
        Ok(())
    }
}

/// Writes the Secret with the password of user root.
fn set_password(at: &Handle<'_>, password: &str) -> Result<()> {
    let metadata = json!({ "name": "root", "namespace": at.ns });
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": { "password": password } });
    at.cluster.kubectl_in(&["apply", "-f", "-"], Some(&secret.to_string())).map(drop)
}

/// S20 static: a user renews all certificates, and that of the servers gets one more address. Members present
/// it without a restart, and another member joins.
async fn renewed_certificates_of_a_user_are_presented(at: Handle<'_>, version: &str) -> Result<()> {
    const ADDED: &str = "127.0.0.1";
    let (peers, clients) = (Authority::new("peers")?, Authority::new("clients")?);
    let service = format!("{}.{}.svc", at.name, at.ns);
    let mut names =
        vec![format!("*.{service}"), format!("*.{service}.cluster.local"), "localhost".to_owned()];
    let renew = |names: &[String]| -> Result<()> {
        for (authority, secret, part, names) in [
            (&peers, "peer", "peer", names),
            (&clients, "server", "server", names),
            // A client has no name.
            (&clients, "operator", "etcd-client", &names[..0]),
        ] {
            let leaf = authority.leaf(names, GOOD)?;
            let secret = authority.secret(at.ns, secret, part, &leaf).to_string();
            at.cluster.kubectl_in(&["apply", "-f", "-"], Some(&secret))?;
        }
        Ok(())
    };
    renew(&names)?;
    let manifest = without_volumes(at.ns, at.name, 2, version)
        + "  TLS: {static: {member: {peerSecret: peer, serverSecret: server}, operatorSecret: operator}}\n";
    at.cluster.kubectl_in(&["apply", "--validate=strict", "-f", "-"], Some(&manifest))?;
    let before = members(at.cluster, at.ns, at.name, 2).await?;
    let running = pods(at.cluster, at.ns, at.name)?;
    at.secure(&before[0].0, "localhost", &["put", "before", "kept"])?;
    for (member, _) in &before {
        let answer = at.secure(member, ADDED, &["get", "before"]);
        ensure!(answer.is_err(), "the certificate of {member} is already valid for {ADDED}");
    }

    names.push(ADDED.to_owned());
    renew(&names)?;
    eventually("all members to present the renewed certificate", LIMIT, async || {
        for (member, _) in &before {
            at.secure(member, ADDED, &["get", "before"])?;
        }
        Ok(Some(()))
    })
    .await?;
    let now = pods(at.cluster, at.ns, at.name)?;
    ensure!(now == running, "a member was restarted for a certificate: {running:?} became {now:?}");
    at.patch(&json!({ "size": 3 }))?;
    let grown = members(at.cluster, at.ns, at.name, 3).await?;
    ensure!(before.iter().all(|member| grown.contains(member)), "{before:?} became {grown:?}");
    at.reports("TLSReady", "True", "", "").await.map(drop)
}

/// S20 auto; S23 users; S23 passwords; S23 users of another: a deleted Secret is issued again, with another
/// address, and presented without a restart. A backup has the users, in its own cluster and in another one,
/// and a password that etcd rejects is reported.
async fn users_are_restored_with_their_cluster(at: Handle<'_>, version: &str) -> Result<()> {
    set_password(&at, PASSWORD)?;
    let manifest =
        without_volumes(at.ns, at.name, 1, version) + "  TLS: {auto: {}}\n  auth: {rootSecret: root}\n";
    at.cluster.kubectl_in(&["apply", "--validate=strict", "-f", "-"], Some(&manifest))?;
    let member = at.only_member().await?;
    at.requires_logins(&member).await?;
    at.as_root(&member, &["put", "before", "kept"])?;

    let running = pods(at.cluster, at.ns, at.name)?;
    let pod = get(at.cluster, &["pod", &member, "-n", at.ns])?;
    let address = pod["status"]["podIP"].as_str().context("an address")?.to_owned();
    let user = format!("--user=root:{PASSWORD}");
    let by_address = || at.secure(&member, &address, &[&user, "get", "before", "--print-value-only"]);
    ensure!(by_address().is_err(), "the certificate is already valid for {address}");
    let secret = format!("{}-server-tls", at.name);
    at.cluster.kubectl(&["delete", "secret", &secret, "-n", at.ns])?;
    at.patch(&json!({ "TLS": { "auto": { "serverNames": [address] } } }))?;
    eventually("the member to present the new certificate", LIMIT, async || {
        ensure!(by_address()?.trim() == "kept", "other data");
        Ok(Some(()))
    })
    .await?;
    let now = pods(at.cluster, at.ns, at.name)?;
    ensure!(now == running, "the member was restarted for a certificate: {running:?} became {now:?}");

    at.back_up(at.name, "")?;
    succeeded(at.cluster, at.ns, "etcdbackup", at.name).await?;
    at.as_root(&member, &["put", "after", "lost"])?;
    at.restore_file(at.name, at.name, "")?;
    succeeded(at.cluster, at.ns, "etcdrestore", at.name).await?;
    let restored = at.only_member().await?;
    ensure!(restored != member, "{member} is still the member");
    at.requires_logins(&restored).await?;
    let kept = at.as_root(&restored, &["get", "before", "--print-value-only"])?;
    let after = at.as_root(&restored, &["get", "after"])?;
    ensure!(kept.trim() == "kept" && after.is_empty(), "{kept:?} {after:?}");

    set_password(&at, "changed")?;
    at.reports("TLSReady", "False", "PasswordRefused", "etcd rejects this password for user root").await?;
    set_password(&at, PASSWORD)?;
    at.reports("TLSReady", "True", "", "").await?;
    ensure!(at.only_member().await? == restored, "another member after a password that etcd rejects");

    // The spec of the other cluster has no password.
    let other = Handle { name: "other", ..at };
    let template = format!("{{size: 2, version: {version:?}, storage: {{mode: Pod}}, TLS: {{auto: {{}}}}}}");
    other.restore_file("other", at.name, &format!(", clusterTemplate: {template}"))?;
    eventually("the password to be asked for", LIMIT, async || {
        let text = other.object()?["status"]["conditions"].to_string();
        ensure!(
            text.contains("set spec.auth.rootSecret to the Secret with the password of user root"),
            "{text}"
        );
        Ok(Some(()))
    })
    .await?;
    other.patch(&json!({ "auth": { "rootSecret": "root" } }))?;
    succeeded(at.cluster, at.ns, "etcdrestore", "other").await?;
    let list = members(at.cluster, at.ns, "other", 2).await?;
    other.requires_logins(&list.first().context("a member")?.0).await
}

#[test]
fn etcd_scenarios_with_certificates_and_users() {
    let ns = "secured";
    under_one_operator("etcd_scenarios_with_certificates_and_users", ns, async |cluster, version| {
        let at = |name| Handle { cluster, ns, name };
        concurrently(&[
            &|| renewed_certificates_of_a_user_are_presented(at("given"), version).boxed_local(),
            &|| users_are_restored_with_their_cluster(at("users"), version).boxed_local(),
        ])
    });
}

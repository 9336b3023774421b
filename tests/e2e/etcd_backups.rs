//! Scenarios of EtcdBackups and EtcdRestores in a directory of the operator, on the dev cluster's own node.
//! They share a namespace and run concurrently, like those of [`crate::etcd_scenarios`].

use std::{collections::BTreeSet, path::PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use futures::FutureExt as _;
use olm_tests::{etcd, eventually};
use serde_json::Value;

use crate::{
    etcd_fixture::{LIMIT, holds_all, order, pods, succeeded, without_volumes},
    etcd_handle::{Handle, concurrently, under_one_operator},
    operator::get,
};

impl Handle<'_> {
    fn apply(&self, manifest: &str) -> Result<()> {
        self.cluster.kubectl_in(&["apply", "--validate=strict", "-f", "-"], Some(manifest)).map(drop)
    }

    /// Creates an EtcdBackup with the name of its file; `more` continues its spec.
    pub(crate) fn back_up(&self, file: &str, more: &str) -> Result<()> {
        let local = format!("storageType: Local, local: {{path: etcd/{file}}}");
        let spec = format!("{{clusterName: {}, {local}{more}}}", self.name);
        self.apply(&order("EtcdBackup", self.ns, file, &spec))
    }

    /// Creates an EtcdRestore from a file; `more` continues its spec.
    pub(crate) fn restore_file(&self, name: &str, file: &str, more: &str) -> Result<()> {
        let local = format!("backupStorageType: Local, local: {{path: etcd/{file}}}");
        let spec = format!("{{etcdCluster: {{name: {}}}, {local}{more}}}", self.name);
        self.apply(&order("EtcdRestore", self.ns, name, &spec))
    }

    /// Waits until an EtcdBackup or EtcdRestore is in a phase with a word in its reason.
    async fn is_in(&self, kind: &str, name: &str, phase: &str, word: &str) -> Result<()> {
        eventually(&format!("{kind} {name} to be {phase}: {word}"), LIMIT, async || {
            let status = get(self.cluster, &[kind, name, "-n", self.ns])?["status"].clone();
            let found = status["phase"] == phase;
            if !found || !status["reason"].as_str().is_some_and(|reason| reason.contains(word)) {
                bail!("{status}");
            }
            Ok(Some(()))
        })
        .await
    }

    /// The directory of this machine with the backups of the namespace.
    fn folder(&self) -> Result<PathBuf> {
        let claim = get(self.cluster, &["pvc", "backups", "-n", self.ns])?;
        let volume = claim["spec"]["volumeName"].as_str().context("a volume")?;
        let volume = get(self.cluster, &["pv", volume])?;
        let path = volume["spec"]["hostPath"]["path"].as_str().context("a directory")?;
        Ok(PathBuf::from(path).join(self.ns).join("etcd"))
    }

    /// Writes a key that a restore of an earlier backup takes away.
    fn put_later(&self, member: &str) -> Result<()> {
        self.cluster.etcdctl(self.ns, member, &["put", "after", "lost"]).map(drop)
    }

    /// The member of a cluster of one that was restored has the keys of the backup, and no later one.
    async fn is_restored(&self) -> Result<()> {
        let members = self.members(1).await?;
        let (member, _) = members.first().context("a member")?;
        holds_all(self.cluster, self.ns, member, 0)?;
        let after = self.cluster.etcdctl(self.ns, member, &["get", "after"])?;
        ensure!(after.is_empty(), "{member} holds a key that is newer than the backup: {after}");
        Ok(())
    }
}

/// S21 members: a backup is read from a follower that answers. Without a quorum it fails, and it is repeated
/// when there is one.
async fn a_backup_is_read_from_a_member_that_answers(at: Handle<'_>, version: &str) -> Result<()> {
    let ids = at.create(&without_volumes(at.ns, at.name, 3, version), 3).await?;
    let leader = at.leader()?;
    let followers: Vec<&String> = ids.iter().map(|(name, _)| name).filter(|name| **name != leader).collect();
    let address = |pod: &str| -> Result<String> {
        let pod = get(at.cluster, &["pod", pod, "-n", at.ns])?;
        Ok(pod["status"]["podIP"].as_str().context("an address")?.to_owned())
    };
    at.fault(&["pause"], &followers[..1])?;
    at.back_up("one-away", "")?;
    let status = succeeded(at.cluster, at.ns, "etcdbackup", "one-away").await?["status"].clone();
    let from = status["endpoint"].as_str().unwrap_or_default();
    ensure!(from.starts_with(&format!("{}:", address(followers[1])?)), "{status}");

    at.fault(&["pause"], &followers[1..])?;
    at.back_up("two-away", "")?;
    at.is_in("etcdbackup", "two-away", "Retrying", "no member is suitable for a backup").await?;
    at.fault(&["undo"], &followers)?;
    succeeded(at.cluster, at.ns, "etcdbackup", "two-away").await?;
    ensure!(at.members(3).await? == ids, "other members after two stood still");
    Ok(())
}

/// S22: the newest two periodic backups are retained, and the file of a user beside them is left unchanged.
async fn the_newest_periodic_backups_are_retained(at: Handle<'_>, version: &str) -> Result<()> {
    let ids = at.create(&without_volumes(at.ns, at.name, 1, version), 1).await?;
    let (member, _) = ids.first().context("a member")?;
    let name = at.name;
    at.back_up(name, ", backupPolicy: {backupIntervalInSecond: 2, maxBackups: 2}")?;
    succeeded(at.cluster, at.ns, "etcdbackup", name).await?;
    let folder = at.folder()?;
    let foreign = format!("{name}_v1_2020-01-01-00:00:00");
    std::fs::write(folder.join(&foreign), "a user's")?;

    let (mut seen, mut last) = (BTreeSet::new(), 0);
    for turn in 0..4 {
        at.cluster.etcdctl(at.ns, member, &["put", "turn", &turn.to_string()])?;
        eventually("another periodic backup", LIMIT, async || {
            let status = get(at.cluster, &["etcdbackup", name, "-n", at.ns])?["status"].clone();
            let object = status["object"].as_str().context("an object")?.to_owned();
            let revision = status["etcdRevision"].as_i64().context("a revision")?;
            if status["phase"] != "Succeeded" || revision <= last || !seen.insert(object) {
                bail!("{status}");
            }
            last = revision;
            Ok(Some(()))
        })
        .await?;
    }
    at.cluster.kubectl(&["delete", "etcdbackup", name, "-n", at.ns])?;
    let mut own = Vec::new();
    for entry in std::fs::read_dir(&folder)? {
        let file = entry?.file_name().to_string_lossy().into_owned();
        if file.starts_with(&format!("{name}_v")) && !file.ends_with(".meta") && file != foreign {
            own.push(file);
        }
    }
    // One in progress when the EtcdBackup was deleted may have completed.
    ensure!((2..=3).contains(&own.len()), "{own:?} of {seen:?}");
    ensure!(std::fs::read_to_string(folder.join(&foreign))? == "a user's", "{foreign} was overwritten");
    Ok(())
}

/// S21 stores; S23 encrypted; S23 refused: a backup without its key is reported, and repeated when the key
/// exists. It is unreadable, and is restored only with its key; a file that is not a snapshot is refused.
async fn an_encrypted_backup_is_restored_with_its_key(at: Handle<'_>, version: &str) -> Result<()> {
    let ids = at.create(&without_volumes(at.ns, at.name, 1, version), 1).await?;
    let (member, _) = ids.first().context("a member")?;
    let encryption = ", encryption: {secret: keys}";
    at.back_up("sealed", encryption)?;
    at.is_in("etcdbackup", "sealed", "Retrying", "spec.encryption: Secret keys does not exist").await?;
    let key = "--from-literal=key=0123456789abcdef0123456789abcdef";
    at.cluster.kubectl(&["create", "secret", "generic", "keys", "-n", at.ns, key])?;
    succeeded(at.cluster, at.ns, "etcdbackup", "sealed").await?;
    let folder = at.folder()?;
    let stored = std::fs::read(folder.join("sealed"))?;
    ensure!(stored.starts_with(b"OLMETCD"), "the backup is readable");
    ensure!(!stored.windows(6).any(|bytes| bytes == b"before"), "the backup has a readable key");
    at.put_later(member)?;

    std::fs::write(folder.join("page"), "<html>Not found</html>")?;
    at.restore_file("page", "page", "")?;
    at.is_in("etcdrestore", "page", "Failed", "not an etcd snapshot").await?;
    at.restore_file("without-key", "sealed", "")?;
    at.is_in("etcdrestore", "without-key", "Downloading", "set spec.encryption.secret").await?;
    at.cluster.kubectl(&["delete", "etcdrestore", "without-key", "-n", at.ns])?;
    ensure!(at.members(1).await? == ids, "other members after restores that were refused");

    at.restore_file("with-key", "sealed", encryption)?;
    succeeded(at.cluster, at.ns, "etcdrestore", "with-key").await?;
    at.is_restored().await
}

/// S23 etcdutl: the backup of the next minor version is restored with its own tool, and a cluster of the
/// previous one refuses it.
async fn a_backup_of_the_next_minor_version_is_restored(at: Handle<'_>, version: &str) -> Result<()> {
    let next = match etcd::next_version() {
        Ok(next) => next,
        Err(why) => {
            olm_tests::skipped("a_backup_of_the_next_minor_version_is_restored", &why);
            return Ok(());
        }
    };
    let ids = at.create(&without_volumes(at.ns, at.name, 1, &next), 1).await?;
    let (member, _) = ids.first().context("a member")?;
    at.back_up("newer", "")?;
    succeeded(at.cluster, at.ns, "etcdbackup", "newer").await?;
    at.put_later(member)?;
    if version.starts_with("3.4.") {
        let older = Handle { name: "older", ..at };
        let template = format!(", clusterTemplate: {{size: 1, version: {version:?}}}");
        older.restore_file("older", "newer", &template)?;
        let word = "etcd does not read data of a newer minor version";
        older.is_in("etcdrestore", "older", "Failed", word).await?;
        ensure!(pods(at.cluster, at.ns, "older")?.is_empty(), "the refused cluster has pods");
    }
    at.restore_file("newer", "newer", "")?;
    let restored: Value = succeeded(at.cluster, at.ns, "etcdrestore", "newer").await?;
    ensure!(restored["status"]["snapshot"]["etcdVersion"] == next.as_str(), "{}", restored["status"]);
    at.is_restored().await
}

#[test]
fn etcd_scenarios_of_backups() {
    let ns = "stored";
    under_one_operator("etcd_scenarios_of_backups", ns, async |cluster, version| {
        let at = |name| Handle { cluster, ns, name };
        concurrently(&[
            &|| a_backup_is_read_from_a_member_that_answers(at("read"), version).boxed_local(),
            &|| the_newest_periodic_backups_are_retained(at("periodic"), version).boxed_local(),
            &|| an_encrypted_backup_is_restored_with_its_key(at("sealed"), version).boxed_local(),
            &|| a_backup_of_the_next_minor_version_is_restored(at("newer"), version).boxed_local(),
        ])
    });
}

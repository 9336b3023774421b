//! Access to an etcd cluster from inside: `kubectl exec` of etcdctl in a member, and a client pod that keeps
//! writing.

use std::{path::PathBuf, process::Output, time::Duration};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::{
    Cluster,
    etcd_stage::{Etcds, newer, version_of},
    wait::eventually,
};

/// The etcd version to use: `OLM_TEST_ETCD_VERSION`, otherwise that of the machine's `etcd --version`.
pub fn version() -> Option<String> {
    if let Ok(version) = std::env::var("OLM_TEST_ETCD_VERSION") {
        return Some(version);
    }
    version_of(&crate::program("etcd")?)
}

/// A program of that etcd: `etcd`, `etcdctl`, and since 3.5 `etcdutl`. The one on the `PATH` may have another
/// version.
pub fn tool(name: &str) -> Option<PathBuf> {
    let path = Etcds::find().directory(&version()?)?.join(name);
    path.is_file().then_some(path)
}

/// The target version of upgrades: the newest 3.5 available on this machine.
/// # Errors
/// Why there is none. If members run it from the start there is nothing to upgrade.
pub fn next_version() -> Result<String, String> {
    let next = newer()?;
    let parts = |text: &str| text.split('.').filter_map(|part| part.parse().ok()).collect::<Vec<u64>>();
    match version() {
        Some(own) if parts(&own) >= parts(&next) => {
            Err(format!("members run etcd {own} from the start, and there is none that is newer"))
        }
        _ => Ok(next),
    }
}

/// An EtcdCluster manifest.
pub fn manifest(namespace: &str, name: &str, size: i64, version: &str) -> String {
    format!(
        "apiVersion: etcd.database.coreos.com/v1beta2\nkind: EtcdCluster\nmetadata:\n  name: {name}\n  namespace: {namespace}\nspec:\n  size: {size}\n  version: \"{version}\"\n"
    )
}

impl Cluster {
    /// Names of the ready members, by the object's status.
    pub fn ready_members(&self, namespace: &str, name: &str) -> Result<Vec<String>> {
        let text = self.kubectl(&["get", "etcdcluster", name, "-n", namespace, "-o", "json"])?;
        let object: Value = serde_json::from_str(&text)?;
        Ok(object["status"]["members"]["ready"]
            .as_array()
            .map(|list| list.iter().filter_map(|v| v.as_str().map(str::to_string)).collect())
            .unwrap_or_default())
    }

    /// Waits until exactly `size` members are ready and etcd itself lists as many voters.
    pub async fn wait_members(
        &self,
        namespace: &str,
        name: &str,
        size: usize,
        limit: Duration,
    ) -> Result<Vec<String>> {
        eventually(&format!("{size} members of {name}"), limit, async || {
            let ready = self.ready_members(namespace, name)?;
            if ready.len() != size {
                bail!("ready: {ready:?}");
            }
            let listed = self.member_list(namespace, &ready[0])?;
            let voters: Vec<_> =
                listed.iter().filter(|(_, learner)| !learner).map(|(n, _)| n.clone()).collect();
            if listed.len() != size || voters.len() != size {
                bail!("etcd lists {listed:?}");
            }
            Ok(Some(ready))
        })
        .await
    }

    /// etcd's own member list: name and whether it is a learner.
    pub fn member_list(&self, namespace: &str, pod: &str) -> Result<Vec<(String, bool)>> {
        let text = self.etcdctl(namespace, pod, &["member", "list", "-w", "json"])?;
        let value: Value = serde_json::from_str(text.trim())?;
        let members = value["members"].as_array().context("members")?;
        Ok(members
            .iter()
            .map(|m| {
                (m["name"].as_str().unwrap_or("").to_string(), m["isLearner"].as_bool().unwrap_or(false))
            })
            .collect())
    }

    /// etcdctl in a member's container, for its own client port.
    pub fn etcdctl(&self, namespace: &str, pod: &str, args: &[&str]) -> Result<String> {
        let out = self.try_etcdctl(namespace, pod, "http://127.0.0.1:2379", args)?;
        if !out.status.success() {
            bail!("etcdctl {} in {pod}: {}", args.join(" "), String::from_utf8_lossy(&out.stderr).trim());
        }
        Ok(String::from_utf8(out.stdout)?)
    }

    /// etcdctl in a pod, for any endpoint.
    pub fn try_etcdctl(&self, namespace: &str, pod: &str, endpoint: &str, args: &[&str]) -> Result<Output> {
        let endpoints = format!("--endpoints={endpoint}");
        let mut all = vec!["exec", "-n", namespace, pod, "--", "etcdctl", &endpoints, "--command-timeout=5s"];
        all.extend(args);
        self.try_kubectl(&all, None)
    }
}

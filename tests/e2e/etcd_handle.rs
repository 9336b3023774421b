//! A handle of an EtcdCluster, and the namespace with one operator for several concurrent scenarios.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use futures::future::LocalBoxFuture;
use olm_tests::{Cluster, etcd, eventually};
use serde_json::{Value, json};

use crate::{
    etcd_fixture::{
        BACKUP_VOLUME, LIMIT, Writer, backup_claim, holds_all, members, operator_and_client, pods, succeeded,
    },
    operator::{delete_namespace, get, namespace},
    scenario,
};

/// Several clients write concurrently.
const PAUSE: Duration = Duration::from_millis(250);

/// An EtcdCluster.
#[derive(Clone, Copy)]
pub(crate) struct Handle<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) ns: &'a str,
    pub(crate) name: &'a str,
}

impl Handle<'_> {
    /// Creates it, waits for its members, and writes the key that [`holds_all`] reads.
    pub(crate) async fn create(&self, manifest: &str, size: usize) -> Result<BTreeSet<(String, String)>> {
        self.cluster.kubectl_in(&["apply", "--validate=strict", "-f", "-"], Some(manifest))?;
        let members = self.members(size).await?;
        let (first, _) = members.first().context("a member")?;
        self.cluster.etcdctl(self.ns, first, &["put", "before", "kept"])?;
        Ok(members)
    }

    pub(crate) fn object(&self) -> Result<Value> {
        get(self.cluster, &["etcdcluster", self.name, "-n", self.ns])
    }

    /// Names and ids of the members, when there are `size` of them, the cluster is settled, and etcd lists the same.
    pub(crate) async fn members(&self, size: usize) -> Result<BTreeSet<(String, String)>> {
        members(self.cluster, self.ns, self.name, size).await?;
        self.cluster.wait_members(self.ns, self.name, size, LIMIT).await?;
        Ok(members(self.cluster, self.ns, self.name, size).await?.into_iter().collect())
    }

    pub(crate) fn patch(&self, spec: &Value) -> Result<()> {
        let patch = json!({ "spec": spec }).to_string();
        self.cluster
            .kubectl(&["patch", "etcdcluster", self.name, "-n", self.ns, "--type=merge", "-p", &patch])
            .map(drop)
    }

    /// Waits until deleted pods are no longer listed: they are until their processes have stopped.
    pub(crate) async fn gone(&self, names: &[&String]) -> Result<()> {
        eventually(&format!("the end of {names:?}"), LIMIT, async || {
            let left = pods(self.cluster, self.ns, self.name)?;
            Ok(names.iter().all(|name| !left.contains_key(*name)).then_some(()))
        })
        .await
    }

    /// Changes the spec and waits until the operator has observed the change. The operator reconciles a cluster
    /// sequentially, so actions that it decided before the change are complete then.
    pub(crate) async fn observed(&self, spec: &Value) -> Result<()> {
        self.patch(spec)?;
        eventually(&format!("the change of {} to be observed", self.name), LIMIT, async || {
            let object = self.object()?;
            let seen = object["status"]["observedGeneration"] == object["metadata"]["generation"];
            Ok(seen.then_some(()))
        })
        .await
    }

    /// Waits for a condition with a reason (any when empty) and a word in its message, which it returns.
    pub(crate) async fn reports(
        &self,
        type_: &str,
        status: &str,
        reason: &str,
        word: &str,
    ) -> Result<String> {
        eventually(&format!("{} to report {type_}={status} {reason} {word}", self.name), LIMIT, async || {
            let object = self.object()?;
            let list = object["status"]["conditions"].as_array().context("conditions")?;
            let found = list.iter().find(|c| c["type"] == type_).context("no such condition")?;
            let message = found["message"].as_str().unwrap_or_default();
            if found["status"] != status
                || !(reason.is_empty() || found["reason"] == reason)
                || !message.contains(word)
            {
                bail!("{found}");
            }
            Ok(Some(message.to_owned()))
        })
        .await
    }

    /// Messages of the events with a reason that were recorded for it.
    pub(crate) fn events(&self, reason: &str) -> Result<Vec<String>> {
        let selector = format!("involvedObject.kind=EtcdCluster,involvedObject.name={}", self.name);
        let list = get(self.cluster, &["events", "-n", self.ns, "--field-selector", &selector])?;
        let list = list["items"].as_array().context("items")?.iter();
        let list = list.filter(|event| event["reason"] == reason);
        Ok(list.map(|event| event["message"].as_str().unwrap_or_default().to_owned()).collect())
    }

    pub(crate) fn leader(&self) -> Result<String> {
        let object = self.object()?;
        let list = object["status"]["memberList"].as_array().context("members")?;
        let leader = list.iter().find(|m| m["role"] == "Leader").context("no leader")?;
        Ok(leader["name"].as_str().unwrap_or_default().to_owned())
    }

    pub(crate) fn writer(&self) -> Writer {
        Writer::with_pauses(self.cluster, self.ns, &format!("{}-client", self.name), PAUSE)
    }

    /// Stops a writer; all members hold the acknowledged keys.
    pub(crate) fn keeps(&self, writer: Writer) -> Result<()> {
        let (written, _, failures) = writer.finish();
        ensure!(written > 3, "{}: {written} keys written: {failures:?}", self.name);
        for name in pods(self.cluster, self.ns, self.name)?.keys() {
            holds_all(self.cluster, self.ns, name, written)?;
        }
        Ok(())
    }

    pub(crate) fn delete(&self, kind: &str, names: &[&String]) -> Result<()> {
        let names = names.iter().map(|name| name.as_str());
        let args: Vec<&str> =
            ["delete", kind, "-n", self.ns, "--wait=false"].into_iter().chain(names).collect();
        self.cluster.kubectl(&args).map(drop)
    }

    pub(crate) fn fault(&self, what: &[&str], names: &[&String]) -> Result<()> {
        let names = names.iter().map(|name| name.as_str());
        let args: Vec<&str> =
            ["dev", "fault", "-n", self.ns].into_iter().chain(what.iter().copied()).chain(names).collect();
        self.cluster.olm_ok(&args).map(drop)
    }

    /// Runs the command of a message: the EtcdRestore with a key in its spec is created, and succeeds.
    pub(crate) async fn restore(&self, message: &str, key: &str) -> Result<Value> {
        let mut manifests = message.split("<<<'").skip(1).filter_map(|rest| rest.split_once('\''));
        let has_key = |manifest: &str| {
            serde_json::from_str::<Value>(manifest).is_ok_and(|value| value["spec"][key].is_string())
        };
        let (manifest, _) = manifests
            .find(|(manifest, _)| has_key(manifest))
            .with_context(|| format!("no command with {key}: {message}"))?;
        let created =
            self.cluster.kubectl_in(&["create", "-n", self.ns, "-o", "name", "-f", "-"], Some(manifest))?;
        let name = created.trim().rsplit('/').next().unwrap_or_default();
        succeeded(self.cluster, self.ns, "etcdrestore", name).await
    }
}

/// A scenario of [`concurrently`].
pub(crate) type Scenario<'a> = &'a (dyn Fn() -> LocalBoxFuture<'a, Result<()>> + Sync);

/// Runs scenarios concurrently, each on its own thread: kubectl and etcdctl block the thread, and a scenario
/// that polls for a transient state must not wait for the commands of another one. Reports all that failed.
pub(crate) fn concurrently(scenarios: &[Scenario<'_>]) -> Result<()> {
    let runtime = tokio::runtime::Handle::current();
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            scenarios.iter().map(|scenario| scope.spawn(|| runtime.block_on(scenario()))).collect();
        let results = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        let errors: Vec<String> = results.filter_map(Result::err).map(|error| format!("{error:#}")).collect();
        ensure!(errors.is_empty(), "{}", errors.join("\n"));
        Ok(())
    })
}

/// Runs scenarios in a namespace with an operator that stores backups; skipped on clusters other than the dev
/// cluster.
pub(crate) fn under_one_operator(test: &str, ns: &str, body: impl AsyncFnOnce(&Cluster, &str) -> Result<()>) {
    let Some(version) = etcd::version() else {
        return olm_tests::skipped(test, "etcd is not installed");
    };
    scenario(test, async |cluster| {
        if cluster.data_dir.is_none() {
            olm_tests::skipped(test, "faults are the dev cluster's");
            return Ok(());
        }
        namespace(&cluster, ns)?;
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&backup_claim(ns)))?;
        operator_and_client(&cluster, ns, &version, BACKUP_VOLUME).await?;
        body(&cluster, &version).await?;
        delete_namespace(&cluster, ns)
    });
}

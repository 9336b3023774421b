//! One EtcdCluster of a stage.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicUsize, Ordering},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::{facts::Facts, stage::Stage};

#[must_use]
pub fn condition<'a>(object: &'a Value, type_: &str) -> &'a Value {
    let all = object["status"]["conditions"].as_array();
    all.and_then(|all| all.iter().find(|c| c["type"] == type_)).unwrap_or(&Value::Null)
}

/// One EtcdCluster of a stage, in namespace `ns`.
#[derive(Clone)]
pub struct Handle<'a> {
    pub stage: &'a Stage,
    pub name: String,
}

impl Handle<'_> {
    /// The object.
    ///
    /// # Errors
    /// When it is not there.
    pub async fn object(&self) -> Result<Value> {
        self.stage.get("EtcdCluster", "ns", &self.name).await
    }

    /// Triggers a reconciliation now.
    /// # Errors
    /// The API's rejection.
    pub async fn reconcile_now(&self) -> Result<()> {
        static REQUESTS: AtomicUsize = AtomicUsize::new(0);
        let count = REQUESTS.fetch_add(1, Ordering::Relaxed).to_string();
        let patch = json!({ "metadata": { "annotations": { "test/pokes": count } } });
        self.stage.patch("EtcdCluster", "ns", &self.name, &patch).await
    }

    /// Changes its spec.
    /// # Errors
    /// The API's rejection.
    pub async fn spec(&self, spec: Value) -> Result<()> {
        self.stage.patch("EtcdCluster", "ns", &self.name, &json!({ "spec": spec })).await
    }

    /// Waits until the object is as `wanted`; its error is the last difference.
    /// # Errors
    /// On time-out.
    pub async fn until(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        self.stage
            .eventually(what, async || {
                let object = self.object().await?;
                ensure!(wanted(&object), "its status is {}", object["status"]);
                Ok(object)
            })
            .await
    }

    /// Waits for a condition to have a status and, where one is given, a reason.
    /// # Errors
    /// On time-out.
    pub async fn condition(&self, type_: &str, status: &str, reason: &str) -> Result<Value> {
        let wanted = |object: &Value| {
            let found = condition(object, type_);
            found["status"] == status && (reason.is_empty() || found["reason"] == reason)
        };
        let object = self.until(&format!("{type_}={status} {reason}"), wanted).await?;
        Ok(condition(&object, type_).clone())
    }

    /// Its pods, terminating ones too.
    /// # Errors
    /// The API's rejection.
    pub async fn pods(&self) -> Result<Vec<Value>> {
        let pods = self.stage.list("Pod", "ns").await?;
        Ok(pods.into_iter().filter(|pod| pod["metadata"]["labels"]["etcd_cluster"] == *self.name).collect())
    }

    /// Their names.
    /// # Errors
    /// The API's rejection.
    pub async fn names(&self) -> Result<BTreeSet<String>> {
        let pods = self.pods().await?;
        Ok(pods.iter().filter_map(|pod| pod["metadata"]["name"].as_str().map(str::to_owned)).collect())
    }

    /// Deletes pods that hold the only copy of their data. Their processes are stopped first, all at once:
    /// the operator never observes a quorum with some of them lost, which it would rightly begin to heal.
    ///
    /// # Errors
    /// When one of them does not run, or the API server refuses.
    pub async fn lose(&self, names: impl IntoIterator<Item = &String> + Clone) -> Result<()> {
        for name in names.clone() {
            self.stage.kubelet.down(name)?;
        }
        for name in names {
            self.stage.delete("Pod", "ns", name).await?;
        }
        Ok(())
    }

    /// The answers of its members, including former ones.
    pub async fn facts(&self) -> Facts {
        let of = |name: &String| name.rsplit_once('-').is_some_and(|(cluster, _)| cluster == self.name);
        let names = self.stage.net.names().into_iter().filter(of);
        Facts::of(&self.stage.entry, names.map(|name| (name.clone(), self.stage.net.inside(&name)))).await
    }

    /// The leader, by its name; waits for one.
    /// # Errors
    /// When there is none.
    pub async fn leader(&self) -> Result<String> {
        self.stage.eventually("a leader", async || self.leads().await).await
    }

    /// The leader at this moment.
    /// # Errors
    /// When there is none, or no answer.
    pub async fn leads(&self) -> Result<String> {
        let facts = self.facts().await;
        let id = facts.leader().context("no leader")?;
        let found = facts.0.iter().find(|(_, report)| report.id == id);
        found.map(|(name, _)| name.clone()).context("the leader does not answer")
    }

    /// The members other than the leader.
    /// # Errors
    /// When there is no leader.
    pub async fn followers(&self) -> Result<Vec<String>> {
        let leader = self.leader().await?;
        Ok(self.names().await?.into_iter().filter(|name| *name != leader).collect())
    }

    /// Names and ids of the members, from etcd; waits for an answer.
    /// # Errors
    /// When no member answers.
    pub async fn ids(&self) -> Result<BTreeMap<String, u64>> {
        self.stage
            .eventually("a list of members", async || {
                let members = self.facts().await.members();
                ensure!(!members.is_empty(), "no member answers");
                Ok(members.into_iter().map(|m| (m.name, m.id)).collect())
            })
            .await
    }

    /// Waits until the object reports the desired state with this many members, and etcd confirms it.
    /// # Errors
    /// On time-out.
    pub async fn steady(&self, size: usize) -> Result<()> {
        self.stage
            .eventually(&format!("{size} healthy members of {}", self.name), async || {
                let object = self.object().await?;
                settled(&object, size)?;
                let facts = self.facts().await;
                let (voters, learners) = (facts.voters(), facts.learners());
                ensure!(voters.len() == size && learners.is_empty(), "{}", facts.brief());
                ensure!(voters.iter().all(|m| facts.healthy(m.id)), "not healthy: {}", facts.brief());
                ensure!(self.stage.kubelet.ready(&self.name).len() == size, "not all pods are ready");
                Ok(())
            })
            .await
    }
}

/// Whether an object reports the desired state, with this many members.
/// # Errors
/// The reported state.
pub fn settled(object: &Value, size: usize) -> Result<()> {
    let status = &object["status"];
    ensure!(
        status["observedGeneration"] == object["metadata"]["generation"],
        "its generation was not observed: {status}"
    );
    ensure!(status["size"] == size && status["readyMembers"] == size, "its size is {status}");
    let expected = [
        ("Available", "True"),
        ("Progressing", "False"),
        ("Degraded", "False"),
        ("Scaling", "False"),
        ("Recovering", "False"),
        ("Upgrading", "False"),
    ];
    for (type_, expected) in expected {
        let found = condition(object, type_);
        ensure!(found["status"] == expected, "{type_} is {found}");
    }
    Ok(())
}

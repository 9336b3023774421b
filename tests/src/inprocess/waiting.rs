//! Waits of scenarios, and their messages on time-out.

use std::{future::Future, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::{server::assets, world::World};

/// Timeout of a scenario's waits. Far longer than needed: only a failure reaches it.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Polling interval.
const LOOK: Duration = Duration::from_millis(10);
/// The garbage collector of Kubernetes discovers new kinds every 30 seconds, and all of it is slower.
const REAL_PATIENCE: Duration = Duration::from_secs(120);
/// A manager without calls for this long is idle: its own pauses between two calls are far shorter.
const QUIET: Duration = Duration::from_millis(300);

impl World {
    /// Polls until `probe` succeeds. The error has its last result.
    /// # Errors
    /// On time-out.
    pub async fn eventually<T, F, Fut>(&self, what: &str, mut probe: F) -> Result<T>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T>>,
    {
        let start = tokio::time::Instant::now();
        loop {
            match probe().await {
                Ok(found) => return Ok(found),
                Err(error) if start.elapsed() > patience() => {
                    bail!("waited for {what}; last: {error:#}\n{}", self.report().await)
                }
                Err(_) => tokio::time::sleep(LOOK).await,
            }
        }
    }

    /// Waits until an object is as `wanted`; its error is the last difference.
    /// # Errors
    /// On time-out.
    pub async fn until(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        self.eventually(&format!("{kind} {namespace}/{name}"), async || {
            let object = self.get(kind, namespace, name).await?;
            ensure!(wanted(&object), "it is {}", brief(&object));
            Ok(object)
        })
        .await
    }

    /// Waits until an object is gone.
    /// # Errors
    /// On time-out.
    pub async fn gone(&self, kind: &str, namespace: &str, name: &str) -> Result<()> {
        self.eventually(&format!("{kind} {namespace}/{name} to be gone"), async || {
            match self.find(kind, namespace, name).await? {
                None => Ok(()),
                Some(object) => bail!("it is there: {}", brief(&object)),
            }
        })
        .await
    }

    /// Waits until no orphaned object is left: Kubernetes collects them, and the manager does not wait for
    /// that.
    /// # Errors
    /// On time-out.
    pub async fn collected(&self) -> Result<()> {
        self.eventually("the garbage to be collected", async || {
            let now = self.snapshot().await?;
            ensure!(now.orphans().is_empty(), "{:?}", now.orphans());
            Ok(())
        })
        .await
    }

    /// Waits for a phase of a ClusterServiceVersion.
    /// # Errors
    /// On time-out.
    pub async fn csv(&self, namespace: &str, name: &str, phase: &str) -> Result<Value> {
        self.until("ClusterServiceVersion", namespace, name, |csv| text(csv, "/status/phase") == phase).await
    }

    /// Waits for an operator to run, and for its Subscription to report it.
    /// # Errors
    /// On time-out.
    pub async fn installed(&self, namespace: &str, subscription: &str, csv: &str) -> Result<()> {
        self.csv(namespace, csv, "Succeeded").await?;
        let reported =
            |s: &Value| text(s, "/status/installedCSV") == csv && text(s, "/status/state") == "AtLatestKnown";
        self.until("Subscription", namespace, subscription, reported).await.map(drop)
    }

    /// Waits for a condition of an object to be true, with this reason where one is given.
    /// # Errors
    /// On time-out.
    pub async fn condition(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        type_: &str,
        reason: &str,
    ) -> Result<Value> {
        let wanted = |object: &Value| {
            condition(object, type_)
                .is_some_and(|c| c["status"] == "True" && (reason.is_empty() || c["reason"] == reason))
        };
        let object = self.until(kind, namespace, name, wanted).await?;
        Ok(condition(&object, type_).cloned().unwrap_or_default())
    }

    /// Waits for a plan of the namespace that waits for approval and is not among these.
    /// # Errors
    /// On time-out.
    pub async fn waiting_plan(&self, namespace: &str, but: &[&str]) -> Result<Value> {
        self.eventually(&format!("a plan that waits in {namespace}"), async || {
            let plans = self.list("InstallPlan", namespace).await?;
            let waits = |plan: &&Value| {
                plan["status"]["phase"] == "RequiresApproval" && !but.contains(&text(plan, "/metadata/name"))
            };
            let found = plans.iter().find(waits).cloned();
            found.with_context(|| {
                format!("{} plans: {}", plans.len(), plans.iter().map(brief).collect::<Vec<_>>().join("; "))
            })
        })
        .await
    }

    /// Waits for an event about an object, with a reason.
    /// # Errors
    /// On time-out.
    pub async fn event(&self, namespace: &str, about: &str, reason: &str) -> Result<Value> {
        self.eventually(&format!("an event {reason} about {about}"), async || {
            let events = self.list("Event", namespace).await?;
            let fits = |e: &&Value| text(e, "/regarding/name") == about && text(e, "/reason") == reason;
            let seen = || {
                let of = events.iter().filter(|e| text(e, "/regarding/name") == about);
                of.map(|e| text(e, "/reason").to_owned()).collect::<Vec<_>>().join(", ")
            };
            events.iter().find(fits).cloned().with_context(|| format!("events about it: {}", seen()))
        })
        .await
    }

    /// Waits until the managers make no calls any more.
    /// # Errors
    /// When they never become idle.
    pub async fn quiet(&self) -> Result<()> {
        let mut moved = self.faults.moved();
        let start = tokio::time::Instant::now();
        loop {
            moved.mark_unchanged();
            let nothing = tokio::time::timeout(QUIET, moved.changed()).await.is_err();
            if nothing && self.faults.in_flight() == 0 {
                return Ok(());
            }
            if start.elapsed() > patience() {
                let calls: Vec<String> =
                    self.faults.calls().iter().rev().take(10).map(ToString::to_string).collect();
                bail!("the manager does not rest; last calls:\n{}", calls.join("\n"));
            }
        }
    }

    /// The state of the cluster's operators, for a failed scenario.
    pub async fn report(&self) -> String {
        let mut out = String::new();
        for kind in [
            "CatalogSource",
            "OperatorGroup",
            "Subscription",
            "InstallPlan",
            "ClusterServiceVersion",
            "Deployment",
        ] {
            for object in self.list(kind, "").await.unwrap_or_default() {
                out.push_str(&format!("  {kind} {}\n", brief(&object)));
            }
        }
        let calls = self.faults.calls();
        out.push_str(&format!("  {} calls, the last:\n", calls.len()));
        let skip = calls.len().saturating_sub(15);
        for call in calls.iter().skip(skip) {
            out.push_str(&format!("    {call}\n"));
        }
        out
    }
}

fn patience() -> Duration {
    if assets().is_some() { REAL_PATIENCE } else { PATIENCE }
}

/// A text in an object, `""` where there is none.
#[must_use]
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A condition of an object's status.
#[must_use]
pub fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == type_)
}

/// Name and status in a line.
fn brief(object: &Value) -> String {
    let mut status = object["status"].clone();
    if let Some(fields) = status.as_object_mut() {
        for long in ["plan", "requirementStatus", "catalogHealth", "installPlanRef", "installplan"] {
            fields.remove(long);
        }
    }
    let deleting = if object["metadata"]["deletionTimestamp"].is_null() { "" } else { " (is being deleted)" };
    let status: String = status.to_string().chars().take(1500).collect();
    format!("{}/{}{deleting}: {status}", text(object, "/metadata/namespace"), text(object, "/metadata/name"))
}

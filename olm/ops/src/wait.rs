//! Waits for an installation, with a diagnosis at the timeout.

use std::{
    fmt,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream};
use kube::{
    Api, Client,
    runtime::{WatchStreamExt, watcher},
};
use olm_api::{ClusterServiceVersion, InstallPlan, Subscription};
use olm_client::patient;
use olm_plan::shell_word;
use serde::Serialize;

use crate::{
    error::Error,
    events::EventLine,
    list::Installed,
    status::Status,
    timeline::{Step, StepState, Timeline, timeline},
};

#[derive(Debug, Clone)]
pub struct WaitOptions {
    pub timeout: Duration,
    /// The ClusterServiceVersion to wait for; any running one when absent.
    pub csv: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// The step, as in [`super::Step::id`].
    pub step: &'static str,
    pub state: StepState,
    /// What is pending.
    pub text: String,
    /// Since the start of the wait.
    #[serde(skip)]
    pub elapsed: Duration,
}

/// Why it is not ready in time.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnosis {
    /// The package that was waited for.
    pub package: String,
    pub namespace: String,
    /// The elapsed time, in words.
    pub after: String,
    /// The step that is not done.
    pub step: String,
    pub text: String,
    /// The blocking object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    pub warnings: Vec<EventLine>,
    /// Whether an older version still serves.
    pub old_serves: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not ready after {} at step \"{}\"", self.package, self.after, self.step)?;
        match &self.object {
            Some(object) => write!(f, "\n  {object}: {}", self.text)?,
            None if !self.text.is_empty() => write!(f, "\n  {}", self.text)?,
            None => {}
        }
        for event in &self.warnings {
            write!(f, "\n  {} {}: {}", event.object, event.reason, event.message)?;
        }
        if self.old_serves {
            write!(f, "\n  the old version is still running")?;
        }
        Ok(())
    }
}

/// Waits until an installation runs, and calls `progress` at every change.
///
/// # Errors
/// [`Error::Timeout`] with a diagnosis; [`Error::AwaitingApproval`] when an approval is required first;
/// [`Error::NotFound`] when there is no such installation; [`Error::Refused`] when no version can be chosen.
pub async fn wait_installed(
    client: &Client,
    namespace: &str,
    target: &str,
    options: &WaitOptions,
    mut progress: impl FnMut(&Progress),
) -> Result<Installed, Error> {
    let started = Instant::now();
    let deadline = tokio::time::Instant::now() + options.timeout;
    let mut changes = std::pin::pin!(changes(client, namespace));
    let mut last: Option<(&'static str, StepState, String)> = None;
    loop {
        let now = timeline(client, namespace, target).await?;
        if let Some(step) = now.current().or_else(|| now.steps.last()) {
            let news = (step.id, step.state, step.text.clone());
            if last.as_ref() != Some(&news) {
                progress(&Progress {
                    step: step.id,
                    state: step.state,
                    text: step.text.clone(),
                    elapsed: started.elapsed(),
                });
                last = Some(news);
            }
        }
        if let Some(result) = verdict(&now, options.csv.as_deref()) {
            return result.map(|()| now.installed);
        }
        // Pods and events are only displayed, so they are polled every second instead of watched.
        let next = async {
            tokio::select! {
                _ = changes.next() => {}
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
            }
        };
        if tokio::time::timeout_at(deadline, next).await.is_err() {
            return Err(Error::Timeout(Box::new(diagnose(&now, options.timeout))));
        }
    }
}

fn changes(client: &Client, namespace: &str) -> impl futures::Stream<Item = ()> + use<> {
    let config = watcher::Config::default;
    let subscriptions = Api::<Subscription>::namespaced(client.clone(), namespace);
    let plans = Api::<InstallPlan>::namespaced(client.clone(), namespace);
    let csvs = Api::<ClusterServiceVersion>::namespaced(client.clone(), namespace);
    let streams = vec![
        patient(watcher(subscriptions, config())).touched_objects().map(|_| ()).boxed(),
        patient(watcher(plans, config())).touched_objects().map(|_| ()).boxed(),
        patient(watcher(csvs, config())).touched_objects().map(|_| ()).boxed(),
    ];
    stream::select_all(streams)
}

/// The result, once the wait is over. Pure.
fn verdict(now: &Timeline, csv: Option<&str>) -> Option<Result<(), Error>> {
    let installed = &now.installed;
    let arrived = csv.is_none_or(|csv| installed.csv.as_deref() == Some(csv));
    match installed.status {
        Status::Healthy | Status::UpdateAvailable | Status::CannotUpdate | Status::Unmanaged if arrived => {
            Some(Ok(()))
        }
        Status::Paused if arrived && installed.csv.is_some() => Some(Ok(())),
        // The pending plan is the next version's: it is planned once the one before runs.
        Status::NeedsApproval if csv.is_some() && arrived && !is_for(&now.steps, csv) => Some(Ok(())),
        Status::NeedsApproval => Some(Err(Error::AwaitingApproval {
            namespace: installed.namespace.clone(),
            plan: installed.plan.clone().unwrap_or_default(),
            package: installed.package.clone(),
            summary: installed.reason.clone(),
        })),
        // A failure that does not resolve with time.
        Status::Failed if installed.csv.is_none() && installed.plan.is_none() => Some(Err(Error::Refused {
            code: "ResolutionFailed".into(),
            text: format!("failed to install {}: {}", installed.package, installed.reason),
            fix: Some(format!(
                "run `olm status {} -n {}`",
                shell_word(&installed.package),
                installed.namespace
            )),
        })),
        _ => None,
    }
}

/// Whether these steps belong to the plan of this version.
fn is_for(steps: &[Step], csv: Option<&str>) -> bool {
    steps.iter().any(|step| step.id == "resolved" && Some(step.text.as_str()) == csv)
}

fn diagnose(now: &Timeline, timeout: Duration) -> Diagnosis {
    let installed = &now.installed;
    let step = now.current();
    let warnings: Vec<EventLine> = now.events.iter().filter(|e| e.type_ == "Warning").cloned().collect();
    let skip = warnings.len().saturating_sub(5);
    Diagnosis {
        package: installed.package.clone(),
        namespace: installed.namespace.clone(),
        after: format!("{timeout:?}"),
        step: step.map(|s| s.id).unwrap_or("healthy").to_owned(),
        text: step
            .map(|s| s.text.clone())
            .filter(|t| !t.is_empty())
            .unwrap_or_else(|| installed.reason.clone()),
        object: step.and_then(|s| s.object.clone()),
        warnings: warnings.into_iter().skip(skip).collect(),
        old_serves: installed.status == Status::Updating,
        next: Some(format!("run `olm status {} -n {}`", shell_word(&installed.package), installed.namespace)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits_with(csv: Option<&str>, next: &str) -> Timeline {
        let installed = Installed {
            namespace: "db".into(),
            name: "etcd".into(),
            package: "etcd".into(),
            display_name: "etcd".into(),
            status: Status::NeedsApproval,
            reason: "upgrade".into(),
            version: None,
            csv: csv.map(str::to_owned),
            next: None,
            available: None,
            channel: None,
            catalog: None,
            approval: "Manual".into(),
            plan: Some("install-1".into()),
            plan_digest: None,
            paused: false,
            planned: None,
            review: None,
            watches: Vec::new(),
            skip_versions: Vec::new(),
            deprecations: Vec::new(),
            created: None,
        };
        let resolved = Step {
            id: "resolved",
            title: "Resolved",
            state: StepState::Done,
            at: None,
            text: next.into(),
            object: None,
        };
        Timeline { installed, steps: vec![resolved], blockers: Vec::new(), events: Vec::new() }
    }

    #[test]
    fn an_upgrade_that_waits_for_approval_does_not_hide_that_the_version_before_it_runs() {
        // given the awaited version, and the next one planned at the same moment
        assert!(matches!(verdict(&waits_with(Some("etcd.v1"), "etcd.v2"), Some("etcd.v1")), Some(Ok(()))));
        // but a required approval is reported
        for (csv, next, wanted) in [
            (None, "etcd.v1", Some("etcd.v1")),
            (Some("etcd.v1"), "etcd.v2", Some("etcd.v2")),
            (Some("etcd.v2"), "etcd.v2", Some("etcd.v2")),
            (Some("etcd.v1"), "etcd.v2", None),
        ] {
            let result = verdict(&waits_with(csv, next), wanted);
            assert!(matches!(result, Some(Err(Error::AwaitingApproval { .. }))), "{csv:?} {next} {wanted:?}");
        }
    }
}

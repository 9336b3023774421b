//! `olm why`: explains the selected version, the rejected ones, and a blocked upgrade.

mod text;

use kube::{Api, ResourceExt as _};
use olm_api::InstallPlan;
use olm_engine::Refusal;
use olm_ops::Installed;
use olm_resolver::{Explanation, Resolved};
use serde::Serialize;

use super::subject::{Query, StateSource, Subject};
use crate::{
    args::{Global, WhyArgs},
    exit::{Code, Failure},
};

/// The answer, as data.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    api_version: &'static str,
    package: String,
    namespace: String,
    /// The catalog as `namespace/name`, with the digest of its content.
    catalog: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    catalog_digest: Option<String>,
    /// The installed ClusterServiceVersion, or the assumed one.
    #[serde(skip_serializing_if = "Option::is_none")]
    installed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// Whether it is only assumed, without a cluster.
    supposed: bool,
    /// Whether the catalog no longer contains the assumed version.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    not_in_catalog: bool,
    constraints: Constraints,
    /// The catalog as named on the command line.
    #[serde(skip)]
    source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<State>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resolved: Option<Resolved>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<Box<Explanation>>,
}

/// The fields of the Subscription that limit the selection.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Constraints {
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(rename = "startingCSV", skip_serializing_if = "Option::is_none")]
    starting_csv: Option<String>,
    skip_versions: Vec<String>,
    upgrade_constraint_policy: String,
    dependencies: String,
    approval: String,
    paused: bool,
}

/// The state on the cluster.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct State {
    status: String,
    reason: String,
    /// The pending or running InstallPlan.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
    /// Whether it requires approval.
    waiting: bool,
    /// Creation time of the plan, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
}

pub async fn run(global: &Global, args: WhyArgs) -> Result<(), Failure> {
    let query = Query {
        package: &args.package,
        channel: args.channel.as_deref(),
        version: args.version.as_deref(),
        ..Query::default()
    };
    let subject = Subject::find(global, &args.offline, query).await?;
    let mut refused = None;
    let (resolved, explanation) = match subject.resolve().await {
        Ok(resolved) => (Some(resolved), None),
        Err(Refusal::Unresolvable(explanation)) => (None, Some(explanation)),
        Err(refusal) => {
            let text = refusal.to_string();
            let mut failure = Failure::from(olm_ops::Error::from(refusal));
            // The Subscription already contains the same text.
            if subject.installed.as_ref().is_some_and(|installed| installed.reason.contains(&text)) {
                failure = Failure::new(failure.code, "");
            }
            refused = Some(failure);
            (None, None)
        }
    };
    // The reason of an existing Subscription has more detail than the failure.
    let reported = subject.installed.as_ref().is_some_and(|installed| !installed.reason.is_empty());
    if let Some(failure) = refused.take_if(|_| !reported) {
        return Err(failure);
    }
    let answer = answer(&subject, resolved, explanation).await;
    args.output.print(&answer, || text::text(&answer))?;
    match (&answer.explanation, refused) {
        (_, Some(failure)) => Err(failure),
        (Some(explanation), None) if explanation.code.is_not_found() => Err(Failure::new(Code::NotFound, "")),
        (Some(_), None) => Err(Failure::new(Code::Unresolvable, "")),
        (None, None) => Ok(()),
    }
}

async fn answer(
    subject: &Subject,
    resolved: Option<Resolved>,
    explanation: Option<Box<Explanation>>,
) -> Answer {
    let spec = &subject.subscription.spec;
    let state = match &subject.installed {
        Some(installed) => Some(state(subject, installed).await),
        None => None,
    };
    let version = match &subject.source {
        StateSource::Cluster { .. } => {
            subject.installed.as_ref().and_then(|installed| installed.version.clone())
        }
        StateSource::Offline(offline) => {
            let version = offline.assumed.of_package(&spec.name).and_then(|entry| entry.version.as_ref());
            version.map(ToString::to_string)
        }
    };
    Answer {
        api_version: "cli.olm/v1",
        package: spec.name.clone(),
        namespace: subject.subscription.metadata.namespace.clone().unwrap_or_default(),
        catalog: format!("{}/{}", spec.source_namespace, spec.source),
        catalog_digest: subject.catalog().map(|catalog| catalog.catalog.digest.clone()),
        installed: subject.installed_csv().map(str::to_owned),
        version,
        supposed: matches!(subject.source, StateSource::Offline(_)),
        not_in_catalog: match &subject.source {
            StateSource::Cluster { .. } => false,
            StateSource::Offline(offline) => offline.removed(&spec.name).is_some(),
        },
        constraints: Constraints {
            channel: spec.channel.clone(),
            version: spec.version.clone(),
            starting_csv: spec.starting_csv.clone(),
            skip_versions: spec.skip_versions.clone(),
            upgrade_constraint_policy: spec.upgrade_constraint_policy.unwrap_or_default().to_string(),
            dependencies: spec.dependencies.unwrap_or_default().to_string(),
            approval: spec.install_plan_approval.to_string(),
            paused: spec.paused,
        },
        source: match &subject.source {
            StateSource::Cluster { .. } => None,
            StateSource::Offline(offline) => Some(offline.source.clone()),
        },
        state,
        resolved,
        explanation,
    }
}

async fn state(subject: &Subject, installed: &Installed) -> State {
    let mut since = None;
    if let (Some(plan), StateSource::Cluster { client, .. }) = (&installed.plan, &subject.source) {
        // The time is optional, so an error is ignored.
        let plan = Api::<InstallPlan>::namespaced(client.clone(), &installed.namespace).get(plan).await;
        since = plan.ok().and_then(|plan| plan.creation_timestamp()).map(|time| time.0.to_string());
    }
    State {
        status: installed.status.to_string(),
        reason: installed.reason.clone(),
        plan: installed.plan.clone(),
        waiting: installed.status == olm_ops::Status::NeedsApproval,
        since,
    }
}

//! ClusterServiceVersion: from requirements to running Deployments, and the hand-over from version to version.
//!
//! [`observe`] reads what matters → [`decide`] says phase and actions (pure) → apply → [`status`] records it.

mod cleanup;
mod decide;
mod install;
mod observe;
mod status;

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{
    api::apps::v1::Deployment,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt,
    api::DeleteParams,
    core::PartialObjectMeta,
    runtime::{
        Controller,
        controller::Action,
        reflector::{ObjectRef, Store},
        watcher,
    },
};
use olm_api::{
    ClusterServiceVersion, InstallPlan, OperatorCondition, OperatorGroup, Subscription, csv::CsvPhase, names,
};
use tokio_util::sync::CancellationToken;

use crate::context::{Ctx, Error, SAFETY_NET, drive};
use decide::Act;
pub(crate) use decide::replicas;

type Csvs = Store<ClusterServiceVersion>;

/// Generation that a Deployment had right after it was applied, by UID: as long as it stands there, nobody else
/// changed it. Forgotten on restart, which costs one idempotent apply per Deployment.
static APPLIED: LazyLock<Mutex<HashMap<String, i64>>> = LazyLock::new(Mutex::default);

pub(crate) async fn run(ctx: Arc<Ctx>, shutdown: CancellationToken) {
    let client = ctx.client.clone();
    let any = watcher::Config::default;
    let managed = any().labels(&format!("{}=true,{}", names::LABEL_MANAGED, names::LABEL_OWNER));
    let controller = Controller::new(Api::<ClusterServiceVersion>::all(client.clone()), any());
    let store = controller.store();
    let (chain, crds, groups, conditions) = (store.clone(), store.clone(), store.clone(), store);
    let controller = controller
        .watches(Api::<Deployment>::all(client.clone()), managed, |deployment| {
            let label = |key: &str| deployment.labels().get(key).cloned();
            let name = label(names::LABEL_OWNER)?;
            let namespace = label(names::LABEL_OWNER_NAMESPACE)?;
            Some(ObjectRef::new(&name).within(&namespace))
        })
        // Versions before and after.
        .watches(Api::<ClusterServiceVersion>::all(client.clone()), any(), move |csv| {
            neighbours(&chain, &csv)
        })
        .watches(Api::<InstallPlan>::all(client.clone()), any(), |plan| {
            let namespace = plan.namespace().unwrap_or_default();
            let reference = move |name: &String| ObjectRef::new(name).within(&namespace);
            plan.spec.cluster_service_version_names.iter().map(reference).collect::<Vec<_>>()
        })
        .watches(Api::<Subscription>::all(client.clone()), any(), |subscription| {
            // Its configuration goes into the Deployments of what it has installed.
            let namespace = subscription.namespace().unwrap_or_default();
            let installed = subscription.status.as_ref().and_then(|s| s.installed_csv.clone());
            installed.map(|name| ObjectRef::new(&name).within(&namespace))
        })
        .watches(Api::<OperatorGroup>::all(client.clone()), any(), move |group| {
            let namespace = group.namespace();
            select(&groups, |csv| csv.namespace() == namespace)
        })
        .watches(Api::<OperatorCondition>::all(client.clone()), any(), move |condition| {
            let (namespace, name) = (condition.namespace(), condition.name_any());
            select(&conditions, |csv| {
                csv.namespace() == namespace
                    && (csv.name_any() == name || csv.spec.replaces.as_deref() == Some(&name))
            })
        })
        // Only that something happened to a CRD; the few that matter are read by name.
        .watches(Api::<PartialObjectMeta<CustomResourceDefinition>>::all(client), any(), move |crd| {
            let name = crd.name_any();
            select(&crds, |csv| {
                csv.spec.owned_crds().iter().chain(csv.spec.required_crds()).any(|c| c.name == name)
            })
        });
    drive("csv", controller, ctx, shutdown, reconcile).await;
}

fn select(
    store: &Csvs,
    matches: impl Fn(&ClusterServiceVersion) -> bool,
) -> Vec<ObjectRef<ClusterServiceVersion>> {
    store.state().iter().filter(|csv| matches(csv)).map(|csv| ObjectRef::from_obj(csv.as_ref())).collect()
}

fn neighbours(store: &Csvs, csv: &ClusterServiceVersion) -> Vec<ObjectRef<ClusterServiceVersion>> {
    let (namespace, name) = (csv.namespace(), csv.name_any());
    let mut out = select(store, |other| {
        other.namespace() == namespace && other.spec.replaces.as_deref() == Some(&name)
    });
    // The predecessor by name: the store may not have this one's news yet, but the name is in the event.
    if let (Some(replaces), Some(namespace)) = (&csv.spec.replaces, &namespace) {
        out.push(ObjectRef::new(replaces).within(namespace));
    }
    out
}

async fn reconcile(csv: Arc<ClusterServiceVersion>, ctx: Arc<Ctx>) -> Result<Action, Error> {
    if csv.metadata.deletion_timestamp.is_some() {
        return cleanup::on_deletion(&csv, &ctx).await;
    }
    let observed = observe::observe(&csv, &ctx).await?;
    if let Some(targets) = observed.targets() {
        install::ensure_metadata(&csv, targets, &ctx).await?;
    }
    let decision = decide::decide(&observed);
    match &decision.act {
        Act::Nothing => {}
        Act::Install => {
            // The phase is on record before the first change, like every promise to others.
            let installing = status::status(&csv, &decision, Timestamp::now());
            record(&csv, &installing, &ctx).await?;
            let fresh = install::apply(&observed, &ctx).await?;
            let mut csv = (*csv).clone();
            csv.status = Some(installing);
            // Applying may be all there was to do; then it is known right away.
            let after = decide::decide(&observed.with_deployments(fresh));
            let status = status::status(&csv, &after, Timestamp::now());
            record(&csv, &status, &ctx).await?;
            return Ok(Action::requeue(SAFETY_NET));
        }
        Act::Delete => {
            let status = status::status(&csv, &decision, Timestamp::now());
            record(&csv, &status, &ctx).await?;
            let name = csv.name_any();
            let api = Api::<ClusterServiceVersion>::namespaced(
                ctx.client.clone(),
                &csv.namespace().unwrap_or_default(),
            );
            return match api.delete(&name, &DeleteParams::default()).await {
                Ok(_) => Ok(Action::await_change()),
                Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Action::await_change()),
                Err(error) => Err(Error::kube(format!("delete ClusterServiceVersion {name}"))(error)),
            };
        }
    }
    let status = status::status(&csv, &decision, Timestamp::now());
    record(&csv, &status, &ctx).await?;
    Ok(match decision.phase {
        // Whatever is missing is watched; ServiceAccounts and roles made by hand are not.
        CsvPhase::Pending => Action::requeue(Duration::from_secs(10)),
        _ => Action::requeue(SAFETY_NET),
    })
}

/// Writes the status when it is news, and tells it.
async fn record(
    csv: &ClusterServiceVersion,
    new: &olm_api::ClusterServiceVersionStatus,
    ctx: &Ctx,
) -> Result<(), Error> {
    let old = csv.status.as_ref();
    if !ctx.write_status(csv, old, new).await? {
        return Ok(());
    }
    if old.map(|s| (s.phase, &s.reason)) != Some((new.phase, &new.reason)) {
        let warning = new.phase == CsvPhase::Failed;
        ctx.event(csv, warning, event_reason(new), new.message.as_deref().unwrap_or_default()).await;
    }
    Ok(())
}

/// Upstream has the reason `InstallSucceeded` twice: for objects that were applied and for an operator that runs. Events of
/// one reason are counted together under the text of the first, so the first gets a reason of its own there.
fn event_reason(status: &olm_api::ClusterServiceVersionStatus) -> &str {
    match (status.phase, status.reason.as_deref()) {
        (CsvPhase::Installing, Some("InstallSucceeded")) => "InstallWaiting",
        (_, reason) => reason.unwrap_or("PhaseChanged"),
    }
}

#[cfg(test)]
mod tests {
    use olm_api::ClusterServiceVersionStatus;

    use super::*;

    #[test]
    fn an_event_that_says_succeeded_is_of_an_operator_that_runs() {
        let status = |phase| ClusterServiceVersionStatus {
            phase,
            reason: Some("InstallSucceeded".into()),
            ..ClusterServiceVersionStatus::default()
        };
        assert_eq!(event_reason(&status(CsvPhase::Succeeded)), "InstallSucceeded");
        assert_eq!(event_reason(&status(CsvPhase::Installing)), "InstallWaiting");
        assert_eq!(event_reason(&ClusterServiceVersionStatus::default()), "PhaseChanged");
    }
}

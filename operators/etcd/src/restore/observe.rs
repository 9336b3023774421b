//! Observes the EtcdCluster, its pods and their etcd members.

use k8s_openapi::api::core::v1::{ContainerStatus, PersistentVolumeClaim, Pod};
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use super::claim::{self, ObservedClaim};
use super::controller::Context;
use super::plan::{ObservedCluster, ObservedPod, RestoreState};
use super::{ANNOTATION_FORMER, FINALIZER, LABEL_RESTORED_BY, seed};
use crate::apply::why;
use crate::backup::source::{Entry, MemberClients};
use crate::crd::restore::EtcdRestore;
use crate::crd::{EtcdCluster, EtcdClusterStatus};
use crate::etcd::Etcd;
use crate::names;
use crate::observe::Environment;
use crate::observed::{LOG_IN, Observed, PodView};
use crate::plan::prove;
use crate::validate::{Validated, validate};

/// The observed state, and the inputs of its steps.
pub(crate) struct ObservedRestore {
    pub(crate) state: RestoreState,
    pub(crate) cluster: Option<EtcdCluster>,
    /// Absent for an invalid spec.
    pub(crate) valid: Option<Validated>,
    pub(crate) observed: Option<Observed>,
    pub(crate) etcd: Etcd,
}

pub(crate) async fn observe(context: &Context, restore: &EtcdRestore) -> Result<ObservedRestore, String> {
    let base = &context.base;
    let namespace = restore.namespace().unwrap_or_default();
    let name = restore.spec.etcd_cluster.name.clone();
    let api: Api<EtcdCluster> = Api::namespaced(base.client.clone(), &namespace);
    let cluster = api
        .get_opt(&name)
        .await
        .map_err(|error| format!("failed to read EtcdCluster {name}: {}", why(&error)))?;
    let source = restore.spec.source_claim();
    let mut observation = ObservedRestore {
        state: RestoreState {
            invalid: source.clone().err(),
            claim: source
                .ok()
                .flatten()
                .map(|claim| ObservedClaim { name: claim.to_owned(), ..ObservedClaim::default() }),
            status: restore.status.clone().unwrap_or_default(),
            uid: restore.uid().unwrap_or_default(),
            allow_other_cluster: restore.spec.allow_other_cluster.unwrap_or_default(),
            skip_safety_backup: restore.spec.skip_safety_backup.unwrap_or_default(),
            template: template_version(restore),
            has_finalizer: restore.finalizers().iter().any(|finalizer| finalizer == FINALIZER),
            fresh_name: names::fresh_member(&name),
            name,
            cluster: None,
        },
        cluster: cluster.clone(),
        valid: None,
        observed: None,
        etcd: base.etcd.clone(),
    };
    let Some(cluster) = cluster else { return Ok(observation) };
    let mut found = of_object(&cluster);
    match validate(&cluster) {
        Err(error) => found.invalid = Some(error.to_string()),
        Ok(valid) => {
            found.version.clone_from(&valid.goal.version);
            found.size = valid.goal.size;
            found.paused = valid.goal.paused;
            // Before the snapshot is verified, and after completion, members are not queried.
            if (observation.state.status.snapshot.is_some() || observation.state.claim.is_some())
                && !matches!(observation.state.status.phase.as_str(), "Succeeded" | "Failed")
            {
                let secured =
                    base.tls.secure(&base.client, &valid).await.map_err(|error| error.to_string())?;
                observation.etcd = base.etcd.with(secured.access.clone());
                let addressing = &*base.addressing;
                let environment =
                    Environment { now: base.now(), classes: base.classes().await, ..Environment::default() };
                let observed = crate::observe::observe(
                    &base.client,
                    &observation.etcd,
                    addressing,
                    &valid,
                    &environment,
                )
                .await;
                let observed = observed.map_err(|error| error.to_string())?;
                found.pods = pods(context, &valid, &observed, restore).await?;
                found.claims = observed
                    .claims
                    .iter()
                    .filter(|c| !c.deleting)
                    .map(|c| (c.name.clone(), c.uid.clone()))
                    .collect();
                found.serves = prove(&observed).is_some();
                found.silent = observed.silent.iter().any(|name| observed.serves_silently(name));
                found.revision = revision(context, &observation, &observed).await;
                inspect_claim(context, &mut observation.state, &cluster).await?;
                found.pods.extend(on_copy(context, &observation, &valid).await?);
                observation.observed = Some(observed);
            }
            observation.valid = Some(valid);
        }
    }
    observation.state.cluster = Some(found);
    Ok(observation)
}

/// The etcd version of the template, if any; none for an invalid template, which the API server rejects on
/// creation.
fn template_version(restore: &EtcdRestore) -> Option<String> {
    let template = restore.spec.cluster_template.clone()?;
    let spec = serde_json::from_value(template).ok();
    let valid = spec.and_then(|spec| {
        let mut cluster = EtcdCluster::new(&restore.spec.etcd_cluster.name, spec);
        cluster.metadata.namespace.clone_from(&restore.metadata.namespace);
        // A placeholder: it gets its own uid on creation.
        cluster.metadata.uid.clone_from(&restore.metadata.uid);
        validate(&cluster).ok()
    });
    Some(valid.map(|valid| valid.goal.version).unwrap_or_default())
}

fn of_object(cluster: &EtcdCluster) -> ObservedCluster {
    let status = cluster.status.clone().unwrap_or_default();
    let former = cluster.annotations().get(ANNOTATION_FORMER).cloned().unwrap_or_default();
    ObservedCluster {
        uid: cluster.uid().unwrap_or_default(),
        deleting: cluster.metadata.deletion_timestamp.is_some(),
        holder: cluster.annotations().get(names::ANNOTATION_RESTORE).cloned().filter(|uid| !uid.is_empty()),
        available: status.condition("Available").is_some_and(|c| c.status == "True"),
        lost: status.phase == "Failed",
        problem: problem(&status),
        voters: usize::try_from(status.size).unwrap_or_default(),
        ready: usize::try_from(status.ready_members).unwrap_or_default(),
        cluster_id: status.cluster_id.filter(|id| !id.is_empty()),
        former_ids: former.split(',').filter(|id| !id.is_empty()).map(str::to_owned).collect(),
        ..ObservedCluster::default()
    }
}

/// A problem that the cluster controller reports.
fn problem(status: &EtcdClusterStatus) -> Option<String> {
    let conditions = [("TLSReady", "False"), ("Degraded", "True")];
    let found =
        conditions.iter().find_map(|(type_, bad)| status.condition(type_).filter(|c| c.status == *bad));
    found.map(|condition| condition.message.clone())
}

/// The claim of `spec.fromClaim`, until its data is copied.
async fn inspect_claim(
    context: &Context,
    state: &mut RestoreState,
    cluster: &EtcdCluster,
) -> Result<(), String> {
    let copied = state.status.claim.as_ref().is_some_and(|claim| claim.revision.is_some());
    let Some(name) = state.claim.as_ref().filter(|_| !copied).map(|claim| claim.name.clone()) else {
        return Ok(());
    };
    let (client, namespace) = (&context.base.client, cluster.namespace().unwrap_or_default());
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), &namespace);
    let claims = claims.list(&ListParams::default().fields(&format!("metadata.name={name}"))).await;
    let claims = claims.map_err(|error| format!("failed to read claim {name}: {}", why(&error)))?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let pods = pods.list(&ListParams::default()).await;
    let pods = pods.map_err(|error| format!("failed to list pods: {}", why(&error)))?;
    let found = claims.items.iter().find(|claim| claim.name_any() == name);
    state.claim = Some(claim::inspect(&name, found, &pods.items, cluster, &state.uid));
    Ok(())
}

/// The pod in which etcd runs on a copy of the claim's data, and the answer of that etcd.
async fn on_copy(
    context: &Context,
    observation: &ObservedRestore,
    valid: &Validated,
) -> Result<Vec<ObservedPod>, String> {
    if observation.state.claim.is_none() {
        return Ok(Vec::new());
    }
    let api: Api<Pod> = Api::namespaced(context.base.client.clone(), &valid.namespace);
    let params = ListParams::default().labels(&format!("{LABEL_RESTORED_BY}={}", observation.state.uid));
    let list = api.list(&params).await.map_err(|error| format!("failed to list pods: {}", why(&error)))?;
    let views: Vec<PodView> = list.items.iter().map(crate::observe::view).collect();
    let answers = observation.etcd.observe(valid, &views, &*context.base.addressing).await;
    let observed = Observed {
        endpoints: answers.endpoints,
        silent: answers.silent,
        refused: answers.refused,
        ..Observed::default()
    };
    Ok(list.items.iter().map(|pod| of_pod(pod, &observed, None)).collect())
}

async fn pods(
    context: &Context,
    valid: &Validated,
    observed: &Observed,
    restore: &EtcdRestore,
) -> Result<Vec<ObservedPod>, String> {
    let api: Api<Pod> = Api::namespaced(context.base.client.clone(), &valid.namespace);
    let params = ListParams::default().labels(&names::cluster_selector(&valid.name));
    let list = api.list(&params).await.map_err(|error| format!("failed to list pods: {}", why(&error)))?;
    let own = list.items.iter().filter(|pod| pod.owner_references().iter().any(|o| o.uid == valid.uid));
    let path = super::serve::path(&valid.namespace, &restore.name_any());
    let here = match context.place.find(&context.base.client).await {
        Ok(place) => Some(format!("{}{path}", place.url)),
        Err(_) => None,
    };
    Ok(own.map(|pod| of_pod(pod, observed, here.as_deref())).collect())
}

fn of_pod(pod: &Pod, observed: &Observed, here: Option<&str>) -> ObservedPod {
    let name = pod.name_any();
    let view = crate::observe::view(pod);
    let status = pod.status.clone().unwrap_or_default();
    let init: Vec<_> = status.init_container_statuses.into_iter().flatten().collect();
    let fetch = pod
        .spec
        .iter()
        .flat_map(|spec| spec.init_containers.iter().flatten())
        .find(|c| c.name == seed::FETCH);
    // A member restored from a claim downloads nothing.
    let reaches_us =
        here.zip(fetch).is_none_or(|(url, fetch)| fetch.command.iter().flatten().any(|word| word == url));
    let recovers = pod.labels().contains_key(LABEL_RESTORED_BY);
    let ended = |status: &ContainerStatus| {
        let ends = [&status.state, &status.last_state].into_iter().flatten();
        ends.filter_map(|state| state.terminated.clone()).find(|end| end.exit_code != 0)
    };
    // Temporary: the operator does not know either how long its store stays unreachable.
    let passes = |status: &&ContainerStatus| {
        ended(status).is_some_and(|end| end.exit_code == i32::from(super::fetch::NOT_NOW))
    };
    let words = |status: &ContainerStatus| {
        let ended = ended(status)?;
        let message = ended.message.unwrap_or_default();
        let message =
            message.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no output").to_owned();
        Some(format!("container {} exited with code {}: {message}", status.name, ended.exit_code))
    };
    let problem = init.iter().find_map(words).or_else(|| view.waiting.clone());
    let problem = if observed.refused.contains(&name) {
        Some("etcd, with the users of the backup, rejects the password in spec.auth.rootSecret".to_owned())
    } else {
        observed.silent.contains(&name).then(|| LOG_IN.to_owned()).or(problem)
    };
    let endpoint = observed.endpoints.get(&name).filter(|e| e.linearizable && e.leader != 0);
    ObservedPod {
        uid: view.uid,
        deleting: view.deleting,
        ended: view.ended,
        ever_started: view.ever_started,
        reaches_us,
        failures: if init.iter().any(|status| passes(&status)) {
            0
        } else {
            let own = if recovers { view.restarts } else { 0 };
            init.iter().map(|status| status.restart_count).sum::<i32>() + own
        },
        problem: problem.map(|text| crate::storage::shorten(&text)),
        serves: endpoint.map(|e| format!("{:x}", e.cluster_id)),
        revision: endpoint.map(|e| e.revision),
        recovers,
        name,
    }
}

/// Revision of a linearizable read, where the plan needs it.
async fn revision(context: &Context, observation: &ObservedRestore, observed: &Observed) -> Option<i64> {
    if observation.state.status.cluster_id.is_empty() {
        return None;
    }
    let access = observation.etcd.access().clone();
    let members_client = MemberClients { etcd: &context.base.etcd, entry: Entry::Known(&access) };
    for (pod, _) in observed.endpoints.iter().filter(|(_, e)| !e.is_learner) {
        let Some(endpoint) = observed.pod(pod).and_then(|pod| context.base.addressing.endpoint(pod)) else {
            continue;
        };
        if let Ok(revision) = members_client.fresh(&endpoint).await {
            return Some(revision);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_a_template_is_known_before_it_is_made() {
        let restore = |template: serde_json::Value| -> EtcdRestore {
            serde_json::from_value(serde_json::json!({
                "metadata": { "name": "a", "namespace": "shop", "uid": "u" },
                "spec": {
                    "etcdCluster": { "name": "orders" }, "backupStorageType": "Local", "local": { "path": "a/b" },
                    "clusterTemplate": template,
                },
            }))
            .unwrap()
        };
        let version = |template| template_version(&restore(template));
        assert_eq!(version(serde_json::json!({ "size": 1, "version": "3.4.23" })), Some("3.4.23".into()));
        assert_eq!(version(serde_json::json!({ "size": 99, "version": "3.4.23" })), Some(String::new()));
        assert_eq!(version(serde_json::Value::Null), None);
    }
}

//! Observes a cluster: its pods and the answers of their etcd members.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ContainerStateWaiting, ContainerStatus, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::addressing::Addressing;
use crate::etcd::Etcd;
use crate::maintenance;
use crate::names;
use crate::observed::{Answers, BackupView, ClaimView, End, Observed, PodView, Serving, Start};
use crate::validate::{Validated, Volumes};

#[derive(Debug, thiserror::Error)]
#[error("failed to list the {what} of {namespace}/{name}: {}", crate::apply::why(source))]
pub struct ObserveError {
    what: &'static str,
    namespace: String,
    name: String,
    source: Box<kube::Error>,
}

impl ObserveError {
    pub(crate) fn is_refusal(&self) -> bool {
        crate::apply::is_refusal(&self.source)
    }
}

/// The StorageClasses of a Kubernetes cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Classes {
    pub(crate) names: BTreeSet<String>,
    /// A default class serves claims without a class.
    pub(crate) default: bool,
}

/// Inputs of an observation besides the members.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment {
    pub(crate) now: Timestamp,
    /// None without the permission to list them.
    pub(crate) classes: Option<Classes>,
    pub(crate) backup: Option<BackupView>,
    /// The EtcdBackups are not listed.
    pub(crate) backups_unknown: bool,
}

/// One observation. Pods and claims are listed from the server and not read from a cache: a decision about a
/// member must not rest on stale state. Pods are listed first: a member's claim is created before its pod.
pub(crate) async fn observe(
    client: &Client,
    etcd: &Etcd,
    addressing: &dyn Addressing,
    cluster: &Validated,
    environment: &Environment,
) -> Result<Observed, ObserveError> {
    let pods: Vec<PodView> = list::<Pod>(client, cluster, "pods")
        .await?
        .iter()
        // A pod of an earlier object of the same name, or a foreign pod with our labels, is not ours.
        .filter(|pod| {
            pod.owner_references().iter().any(|o| o.uid == cluster.uid && o.controller == Some(true))
        })
        .map(view)
        .collect();
    let claims = list::<PersistentVolumeClaim>(client, cluster, "persistentvolumeclaims").await?;
    let claims = claims.iter().filter_map(|claim| claim_view(claim, &cluster.uid)).collect();
    let Answers { endpoints, silent, refused } = etcd.observe(cluster, &pods, addressing).await;
    Ok(Observed {
        now: environment.now,
        pods,
        claims,
        endpoints,
        silent,
        refused,
        // Comparison is separate: it takes time.
        hashes: BTreeMap::new(),
        compared_now: false,
        uncompared: Vec::new(),
        fresh_name: names::fresh_member(&cluster.name),
        volumes: volumes(cluster, environment),
        storage_classes: environment.classes.as_ref().map(|classes| classes.names.clone()),
        backup: environment.backup.clone(),
        backups_unknown: environment.backups_unknown,
    })
}

/// Whether new members get volumes.
pub(crate) fn volumes(cluster: &Validated, environment: &Environment) -> bool {
    match cluster.storage.when {
        Volumes::Always => true,
        Volumes::Never => false,
        Volumes::WithDefaultClass => environment.classes.as_ref().is_some_and(|classes| classes.default),
    }
}

async fn list<K>(client: &Client, cluster: &Validated, what: &'static str) -> Result<Vec<K>, ObserveError>
where
    K: Resource<Scope = NamespaceResourceScope> + Clone + DeserializeOwned + std::fmt::Debug,
    K::DynamicType: Default,
{
    let api: Api<K> = Api::namespaced(client.clone(), &cluster.namespace);
    let params = ListParams::default().labels(&names::cluster_selector(&cluster.name));
    let list = api.list(&params).await.map_err(|source| ObserveError {
        what,
        namespace: cluster.namespace.clone(),
        name: cluster.name.clone(),
        source: Box::new(source),
    })?;
    let mut items = list.items;
    items.sort_by_key(ResourceExt::name_any);
    Ok(items)
}

/// The StorageClasses of Kubernetes; none without the permission to list them.
pub(crate) async fn classes(client: &Client) -> Option<Classes> {
    const DEFAULT: [&str; 2] =
        ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
    let api: Api<StorageClass> = Api::all(client.clone());
    match api.list_metadata(&ListParams::default()).await {
        Ok(list) => {
            let is_default = |class: &PartialObjectMeta<StorageClass>| {
                DEFAULT.iter().any(|key| class.annotations().get(*key).is_some_and(|value| value == "true"))
            };
            Some(Classes {
                default: list.items.iter().any(is_default),
                names: list.items.iter().map(ResourceExt::name_any).collect(),
            })
        }
        Err(error) => {
            tracing::debug!(%error, "failed to list StorageClasses; members get volumes only if the spec \
             requests them");
            None
        }
    }
}

/// The relevant state of a claim; none for a foreign one, a retained one, or one set aside by a restore.
pub(crate) fn claim_view(claim: &PersistentVolumeClaim, uid: &str) -> Option<ClaimView> {
    let label = |key: &str| claim.labels().get(key);
    let owned = claim.owner_references().iter().any(|owner| owner.uid == uid);
    let ours = owned || label(names::LABEL_CLUSTER_UID).is_some_and(|of| of == uid);
    let aside = label(names::LABEL_RETAINED).is_some() || label(names::LABEL_REPLACED_BY).is_some();
    (ours && !aside).then(|| ClaimView {
        name: claim.name_any(),
        uid: claim.uid().unwrap_or_default(),
        deleting: claim.metadata.deletion_timestamp.is_some(),
        version: claim.annotations().get(names::ANNOTATION_VERSION).cloned().unwrap_or_default(),
        owned,
        pending_class: pending_class(claim),
        capacity: capacity(claim),
    })
}

fn capacity(claim: &PersistentVolumeClaim) -> Option<u64> {
    let amount = claim.status.as_ref()?.capacity.as_ref()?.get("storage")?;
    maintenance::bytes(&amount.0)
}

fn pending_class(claim: &PersistentVolumeClaim) -> Option<String> {
    let pending = claim.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Pending"));
    let class = claim.spec.as_ref()?.storage_class_name.clone();
    pending.then(|| class.unwrap_or_default())
}

/// The relevant state of a pod.
pub(crate) fn view(pod: &Pod) -> PodView {
    let status = pod.status.clone().unwrap_or_default();
    let ready = status.conditions.iter().flatten().find(|c| c.type_ == "Ready");
    let container = status.container_statuses.iter().flatten().find(|c| c.name == "etcd");
    let state = container.and_then(|c| c.state.clone()).unwrap_or_default();
    let phase = status.phase.clone().unwrap_or_default();
    let words =
        |w: ContainerStateWaiting| [w.reason, w.message].into_iter().flatten().collect::<Vec<_>>().join(": ");
    // Init containers, in the first member of a restored cluster.
    let before = status.init_container_statuses.iter().flatten().find_map(|status| {
        let text = status.state.as_ref()?.waiting.clone().map(words)?;
        (!text.is_empty() && !text.starts_with("PodInitializing"))
            .then(|| format!("container {}: {text}", status.name))
    });
    let waiting = before
        .or_else(|| state.waiting.map(words))
        .or_else(|| {
            let scheduled = status.conditions.iter().flatten().find(|c| c.type_ == "PodScheduled")?;
            (scheduled.status == "False").then(|| scheduled.message.clone().unwrap_or_default())
        })
        .filter(|text| !text.is_empty());
    let restarts_before = pod.annotations().get(names::ANNOTATION_RESTARTS);
    let restarts_before = restarts_before.and_then(|count| count.parse::<i32>().ok()).unwrap_or_default();
    PodView {
        name: pod.name_any(),
        uid: pod.uid().unwrap_or_default(),
        ip: status.pod_ip.clone().filter(|ip| !ip.is_empty()),
        deleting: pod.metadata.deletion_timestamp.is_some(),
        ends_by: pod.metadata.deletion_timestamp.as_ref().map(|t| t.0),
        ended: matches!(phase.as_str(), "Failed" | "Succeeded"),
        ready: ready.is_some_and(|c| c.status == "True"),
        ready_since: ready.and_then(|c| c.last_transition_time.as_ref()).map(|t| t.0),
        created: pod.creation_timestamp().map(|t| t.0),
        started: state.running.and_then(|r| r.started_at).map(|t| t.0),
        ever_started: container.is_some_and(ever_started),
        restarts: container.map_or(0, |c| c.restart_count).saturating_sub(restarts_before),
        restarts_before,
        last_end: container.and_then(|container| last_end(container, start(pod))),
        waiting,
        version: pod.annotations().get(names::ANNOTATION_VERSION).cloned().unwrap_or_default(),
        volume: pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()).any(|volume| {
            volume.persistent_volume_claim.as_ref().is_some_and(|claim| claim.claim_name == pod.name_any())
        }),
        start: start(pod),
        serving: serving(pod),
        serving_since: serving_since(pod),
    }
}

fn serving(pod: &Pod) -> Serving {
    match pod.labels().get(names::LABEL_SERVING).map(String::as_str) {
        Some(names::SERVING) => Serving::In,
        Some(_) => Serving::Out,
        None => Serving::Unlabelled,
    }
}

/// A pod that left without a readable time has none.
fn serving_since(pod: &Pod) -> Option<Timestamp> {
    let changed = pod.annotations().get(names::ANNOTATION_SERVING_SINCE).and_then(|at| at.parse().ok());
    let created = || pod.creation_timestamp().map(|at| at.0).filter(|_| serving(pod) == Serving::In);
    changed.or_else(created)
}

/// Two annotations mark a pod that can start without data; they change once its member is up.
fn start(pod: &Pod) -> Start {
    let annotation = |key: &str| pod.annotations().get(key).map(String::as_str);
    match (annotation(names::ANNOTATION_INITIAL_STATE), annotation(names::ANNOTATION_INITIAL_CLUSTER)) {
        (None, _) | (_, None) => Start::Fixed,
        (Some("existing"), Some(alone)) if !alone.contains(',') => Start::Refused,
        _ => Start::Empty,
    }
}

fn ever_started(container: &ContainerStatus) -> bool {
    let ran = |state: &Option<k8s_openapi::api::core::v1::ContainerState>| {
        state.as_ref().is_some_and(|s| s.running.is_some() || s.terminated.is_some())
    };
    container.restart_count > 0 || ran(&container.state) || ran(&container.last_state)
}

/// Last log line of etcd 3.4 to 3.6 when started without data as a member of an existing cluster.
const NO_DATA: &str = "cannot fetch cluster info from peer urls";
/// Messages of Linux for a full disk and for a full quota.
const DISK_FULL: [&str; 2] = ["no space left on device", "disk quota exceeded"];

/// Cause of the last termination: its exit reason, or the end of its log, which is the termination message.
fn last_end(container: &ContainerStatus, start: Start) -> Option<End> {
    let last = container.last_state.as_ref().and_then(|s| s.terminated.as_ref());
    let end = container.state.as_ref().and_then(|s| s.terminated.as_ref()).or(last)?;
    let log = end.message.as_deref().unwrap_or_default();
    if end.reason.as_deref() == Some("OOMKilled") {
        return Some(End::OutOfMemory);
    }
    if DISK_FULL.iter().any(|text| log.contains(text)) {
        return Some(End::DiskFull);
    }
    (start == Start::Refused && log.contains(NO_DATA)).then_some(End::NoData)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::ready;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;
    use crate::validate::{tests::cluster, validate};

    /// An API that gives the same answer to every request.
    fn api(code: u16, answer: &Value) -> Client {
        let answer = answer.to_string().into_bytes();
        let service = tower::service_fn(move |_: Request<Body>| {
            let answer = Response::builder().status(code).body(Body::from(answer.clone())).unwrap();
            ready(Ok::<_, Infallible>(answer))
        });
        Client::new(service, "shop")
    }

    /// StorageClasses with these annotations.
    fn classes(annotations: &[Value]) -> Value {
        let class = |annotations: &Value| {
            json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
                    "metadata": { "name": "class", "annotations": annotations } })
        };
        let items: Vec<Value> = annotations.iter().map(class).collect();
        json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
                "metadata": { "resourceVersion": "1" }, "items": items })
    }

    #[tokio::test]
    async fn a_default_class_is_one_that_is_called_so_by_its_new_name_or_its_old_one() {
        let plain = json!({});
        let stable = |value: &str| json!({ "storageclass.kubernetes.io/is-default-class": value });
        let beta = |value: &str| json!({ "storageclass.beta.kubernetes.io/is-default-class": value });
        for (annotations, expected) in [
            (vec![], false),
            (vec![plain.clone()], false),
            (vec![stable("false"), beta("false")], false),
            (vec![stable("true")], true),
            (vec![beta("true")], true),
            (vec![plain, stable("false"), beta("true")], true),
        ] {
            let found = super::classes(&api(200, &classes(&annotations))).await.unwrap();
            assert_eq!(found.default, expected, "{annotations:?}");
            assert_eq!(found.names.is_empty(), annotations.is_empty());
        }
    }

    #[tokio::test]
    async fn without_the_right_to_list_there_is_no_default_class_and_data_is_in_pods() {
        // given an operator that may not list StorageClasses
        let refused = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403,
                              "message": "storageclasses.storage.k8s.io is forbidden" });
        // when the default is determined
        let environment =
            Environment { classes: super::classes(&api(403, &refused)).await, ..Environment::default() };
        // then members get volumes only where a cluster requests them
        let valid = |spec: Value| validate(&cluster(spec)).unwrap();
        assert!(!volumes(&valid(json!({ "size": 3 })), &environment));
        assert!(volumes(&valid(json!({ "size": 3, "storage": { "mode": "Volume" } })), &environment));
    }

    #[test]
    fn without_storage_settings_members_get_volumes_when_there_is_a_default_class() {
        let claim = json!({ "resources": { "requests": { "storage": "1Gi" } } });
        // spec, and whether members get volumes: without a default class, with one
        for (spec, expected) in [
            (json!({ "size": 3 }), [false, true]),
            (json!({ "size": 3, "storage": { "retentionPolicy": "Retain" } }), [false, true]),
            (json!({ "size": 3, "storage": { "mode": "Pod" } }), [false, false]),
            (json!({ "size": 3, "storage": { "mode": "Volume" } }), [true, true]),
            (json!({ "size": 3, "storage": { "size": "1Gi" } }), [true, true]),
            (json!({ "size": 3, "storage": { "storageClassName": "fast" } }), [true, true]),
            (json!({ "size": 3, "pod": { "persistentVolumeClaimSpec": claim } }), [true, true]),
        ] {
            let cluster = validate(&cluster(spec.clone())).unwrap();
            let found = [false, true].map(|default| {
                let classes = Some(Classes { default, ..Classes::default() });
                volumes(&cluster, &Environment { classes, ..Environment::default() })
            });
            assert_eq!(found, expected, "{spec}");
        }
    }

    fn observed(status: serde_json::Value) -> PodView {
        view(
            &serde_json::from_value(serde_json::json!({ "metadata": { "name": "p" }, "status": status }))
                .unwrap(),
        )
    }

    #[test]
    fn a_container_before_etcd_that_cannot_start_is_what_the_pod_waits_for() {
        let fetch = |reason: &str| {
            serde_json::json!({ "name": "fetch-snapshot", "ready": false, "restartCount": 0, "image": "i", "imageID": "",
            "state": { "waiting": { "reason": reason, "message": "no secret" } } })
        };
        let etcd = serde_json::json!({ "name": "etcd", "ready": false, "restartCount": 0, "image": "i", "imageID": "",
            "state": { "waiting": { "reason": "PodInitializing" } } });
        let pod = |reason| {
            observed(
                serde_json::json!({ "initContainerStatuses": [fetch(reason)], "containerStatuses": [etcd] }),
            )
        };
        let expected = "container fetch-snapshot: CreateContainerConfigError: no secret";
        assert_eq!(pod("CreateContainerConfigError").waiting.as_deref(), Some(expected));
        assert_eq!(
            observed(serde_json::json!({ "containerStatuses": [etcd] })).waiting.as_deref(),
            Some("PodInitializing")
        );
    }

    #[test]
    fn a_pod_with_a_missing_image_reports_it_and_never_held_data() {
        let pod = observed(serde_json::json!({ "phase": "Pending", "containerStatuses": [{
            "name": "etcd", "ready": false, "restartCount": 0, "image": "i", "imageID": "",
            "state": { "waiting": { "reason": "ErrImagePull", "message": "no etcd 3.9.9" } } }] }));
        assert_eq!(pod.waiting.as_deref(), Some("ErrImagePull: no etcd 3.9.9"));
        assert!(!pod.ever_started && !pod.ended);
    }

    #[test]
    fn a_restarted_pod_holds_data_and_reports_why_it_ended() {
        let pod =
            observed(serde_json::json!({ "phase": "Running", "podIP": "10.0.0.9", "containerStatuses": [{
            "name": "etcd", "ready": true, "restartCount": 5, "image": "i", "imageID": "",
            "state": { "running": { "startedAt": "2026-01-01T00:00:00Z" } },
            "lastState": { "terminated": { "exitCode": 137, "reason": "OOMKilled" } } }] }));
        assert!(pod.ever_started && pod.restarts == 5 && pod.started.is_some());
        assert_eq!(pod.last_end, Some(End::OutOfMemory));
        assert_eq!(pod.ip.as_deref(), Some("10.0.0.9"));
    }

    #[test]
    fn restarts_count_from_the_time_when_the_version_was_set() {
        let pod = |before: &str| {
            let pod = serde_json::json!({
                "metadata": { "name": "p", "annotations": { names::ANNOTATION_RESTARTS: before } },
                "status": { "containerStatuses": [{
                    "name": "etcd", "ready": false, "restartCount": 7, "image": "i", "imageID": "" }] } });
            let pod = view(&serde_json::from_value(pod).unwrap());
            (pod.restarts, pod.restarts_before)
        };
        assert_eq!([pod("6"), pod("x")], [(1, 6), (7, 0)]);
    }

    #[test]
    fn the_end_of_its_log_contains_why_a_member_ended() {
        let no_data = "C | etcdmain: cannot fetch cluster info from peer urls: could not retrieve cluster information from the given URLs";
        let no_data_3_5 = r#"{"level":"fatal","ts":"2026-11-26T19:16:01.527330Z","caller":"etcdmain/etcd.go:204","msg":"discovery failed","error":"cannot fetch cluster info from peer urls: could not retrieve cluster information from the given URLs","stacktrace":"go.etcd.io/etcd/server/etcdmain.startEtcdOrProxyV2\n\tgo.etcd.io/etcd/server/etcdmain/etcd.go:204\nruntime.main\n\truntime/proc.go:290"}"#;
        let full = r#"{"level":"fatal","msg":"failed to commit tx","error":"write /var/etcd/data/member/snap/db: no space left on device"}"#;
        let view = |message: &str, state: &str| {
            let pod = serde_json::json!({
                "metadata": { "name": "p" },
                "status": { "containerStatuses": [{
                    "name": "etcd", "ready": false, "restartCount": 1, "image": "i", "imageID": "",
                    "state": { "waiting": { "reason": "CrashLoopBackOff" } },
                    "lastState": { "terminated": { "exitCode": 1, "reason": "Error", "message": message } } }] }
            });
            let mut pod: Pod = serde_json::from_value(pod).unwrap();
            pod.metadata.annotations = Some(BTreeMap::from([
                (names::ANNOTATION_INITIAL_STATE.into(), state.into()),
                (names::ANNOTATION_INITIAL_CLUSTER.into(), "p=http://p:2380".into()),
            ]));
            view(&pod)
        };
        assert_eq!(view(full, "existing").last_end, Some(End::DiskFull));
        for log in [no_data, no_data_3_5] {
            assert_eq!(view(log, "existing").last_end, Some(End::NoData));
            assert!(view(log, "existing").has_lost_data());
        }
        // The end of a member that may start without data, or any other end, proves nothing about its data.
        assert_eq!(view(no_data, "new").last_end, None);
        assert_eq!(view("panic: something else", "existing").last_end, None);
    }

    #[test]
    fn a_claim_without_a_volume_names_its_class() {
        let claim = |phase: &str, class: serde_json::Value| {
            let claim = serde_json::json!({
                "metadata": { "name": "a", "labels": { names::LABEL_CLUSTER_UID: "u" } },
                "spec": { "storageClassName": class }, "status": { "phase": phase, "capacity": { "storage": "1Gi" } } });
            claim_view(&serde_json::from_value(claim).unwrap(), "u").unwrap()
        };
        assert_eq!(claim("Pending", "fast".into()).pending_class.as_deref(), Some("fast"));
        for none in [serde_json::Value::Null, "".into()] {
            assert_eq!(claim("Pending", none).pending_class.as_deref(), Some(""));
        }
        let bound = claim("Bound", "fast".into());
        assert_eq!((bound.pending_class, bound.capacity), (None, Some(1 << 30)));
    }

    #[test]
    fn an_evicted_pod_has_ended() {
        assert!(observed(serde_json::json!({ "phase": "Failed" })).ended);
    }
}

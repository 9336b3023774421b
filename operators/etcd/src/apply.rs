//! Applies a decision: the Services and the one chosen action.

use std::collections::BTreeMap;

use etcd_client::AlarmType;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Service};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::addressing::Addressing;
use crate::build;
use crate::build::pod::Member;
use crate::crd::RetentionPolicy;
use crate::etcd::{ChangeError, Changed, Etcd};
use crate::maintenance::Step;
use crate::names;
use crate::observed::Observed;
use crate::plan::Action;
use crate::validate::Validated;

#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("failed to {verb} {what}: {}", why(source))]
    Kubernetes { verb: &'static str, what: String, source: Box<kube::Error> },
    /// A Service of that name without the labels of the cluster.
    #[error("Service {0} exists and is not owned by this cluster; rename the cluster or delete the Service")]
    ForeignService(String),
    #[error(transparent)]
    Etcd(#[from] ChangeError),
    /// The member that should receive the request has no address any more.
    #[error("member {0} has no address")]
    NoEndpoint(String),
}

impl ApplyError {
    /// Whether retries fail until a user fixes the cause.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::Kubernetes { source, .. } => is_refusal(source),
            Self::ForeignService(_) => true,
            Self::Etcd(_) | Self::NoEndpoint(_) => false,
        }
    }

    /// Label value of metrics.
    #[must_use]
    pub const fn category(&self) -> &'static str {
        match self {
            Self::Kubernetes { .. } => "Kubernetes",
            Self::ForeignService(_) => "ForeignService",
            Self::Etcd(_) => "Etcd",
            Self::NoEndpoint(_) => "NoEndpoint",
        }
    }
}

/// Whether Kubernetes rejects a request permanently: not because of a missing object, a conflict or overload.
pub(crate) fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if (400..500).contains(&status.code) && ![404, 409, 410, 429].contains(&status.code))
}

/// The fix of a member that Pod Security rejects.
const UNCONFINED: &str = "hint: etcd's image runs as root; set spec.pod.securityContext of the EtcdCluster to \
                          { runAsNonRoot: true, runAsUser: 1000, fsGroup: 1000 }";

/// The message of Kubernetes without the object it quotes, for conditions and events.
pub(crate) fn why(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.message.contains("violates PodSecurity") => {
            format!("{}. {UNCONFINED}", status.message)
        }
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => other.to_string(),
    }
}

/// Grace period of pods that the operator deletes: no clients use them, so their etcd is not kept serving.
pub(crate) const DELETE_GRACE_SECONDS: u32 = 2;

/// Result of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) changed: Changed,
    /// Id of the affected member, where the action lacks it and this observation has it.
    pub(crate) member: Option<u64>,
}

pub(crate) struct Applier<'a> {
    pub(crate) client: &'a Client,
    pub(crate) etcd: &'a Etcd,
    pub(crate) addressing: &'a dyn Addressing,
    pub(crate) cluster: &'a Validated,
}

impl Applier<'_> {
    /// Creates or updates both Services. Before any action of the same observation: a pod whose label takes it
    /// out of the Service for clients must be selected by it.
    pub(crate) async fn services(&self, observed: &Observed) -> Result<(), ApplyError> {
        let api: Api<Service> = Api::namespaced(self.client.clone(), &self.cluster.namespace);
        let params = ListParams::default().labels(&names::cluster_selector(&self.cluster.name));
        let failed = |verb, what: &str| {
            let what = what.to_owned();
            move |source| ApplyError::Kubernetes { verb, what, source: Box::new(source) }
        };
        let found = api.list(&params).await.map_err(failed("list", "the Services"))?;
        let clients = names::client_service(&self.cluster.name);
        let clients = found.items.iter().find(|service| service.name_any() == clients);
        let by_label = build::service::by_label(clients, observed);
        for wanted in build::service::services(self.cluster, by_label) {
            let name = wanted.name_any();
            let existing = found.items.iter().find(|service| service.name_any() == name);
            let foreign =
                existing.is_some_and(|s| s.owner_references().iter().all(|o| o.uid != self.cluster.uid));
            match existing {
                Some(_) if foreign => return Err(ApplyError::ForeignService(name)),
                Some(service) if build::service::serves(service, &wanted) => {}
                Some(_) => {
                    let params = PatchParams::apply(names::MANAGER).force();
                    api.patch(&name, &params, &Patch::Apply(&wanted))
                        .await
                        .map_err(failed("apply Service", &name))?;
                }
                // Created, not applied: a Service of this name without our labels must not be adopted
                // silently.
                None => match api.create(&PostParams::default(), &wanted).await {
                    Ok(_) => {}
                    Err(kube::Error::Api(status)) if status.is_already_exists() => {
                        return Err(ApplyError::ForeignService(name));
                    }
                    Err(error) => return Err(failed("create Service", &name)(error)),
                },
            }
        }
        Ok(())
    }

    pub(crate) async fn act(&self, action: &Action, observed: &Observed) -> Result<Done, ApplyError> {
        let changed = self.change(action, observed).await?;
        Ok(Done { changed, member: action.member().and_then(|name| id_of(observed, name)) })
    }

    /// `Remember` has no effect here: it is written with the status.
    async fn change(&self, action: &Action, observed: &Observed) -> Result<Changed, ApplyError> {
        match action {
            Action::Remember(_) => Ok(Changed::Before),
            Action::CreateSeed { name, version, volume } => {
                let alone = self.alone(name);
                self.create(
                    &Member { name, seed: true, initial_cluster: &alone, version, volume: *volume },
                    observed,
                )
                .await
            }
            Action::CreateMember { name, version, volume, initial_cluster, .. } => {
                let alone = self.alone(name);
                let initial_cluster =
                    if initial_cluster.is_empty() { alone.as_slice() } else { initial_cluster };
                self.create(
                    &Member { name, seed: false, initial_cluster, version, volume: *volume },
                    observed,
                )
                .await
            }
            Action::Seal { name, uid } => self.seal(name, uid).await,
            Action::SetVersion { name, uid, to, volume, .. } => {
                self.set_version(name, uid, to, *volume, observed).await
            }
            Action::DeletePod { name, uid } | Action::Restart { name, uid, .. } => {
                self.delete::<Pod>("pod", name, uid, Some(DELETE_GRACE_SECONDS)).await
            }
            Action::LeaveService { name, uid } => self.label(name, uid, names::NOT_SERVING, observed).await,
            Action::JoinService { name, uid } => self.label(name, uid, names::SERVING, observed).await,
            Action::ReleaseClaim { name, uid } => self.release(name, uid).await,
            Action::AddLearner { name, via } => {
                let url = self.addressing.peer_url(self.cluster, name);
                Ok(self.etcd.add_learner(&self.endpoint(via, observed)?, &url).await?)
            }
            Action::Promote { id, via, .. } => {
                Ok(self.etcd.promote(&self.endpoint(via, observed)?, *id).await?)
            }
            Action::MoveLeader { id, via, .. } => {
                Ok(self.etcd.move_leader(&self.endpoint(via, observed)?, *id).await?)
            }
            Action::RemoveMember { id, via, .. } => {
                Ok(self.etcd.remove(&self.endpoint(via, observed)?, *id).await?)
            }
            Action::Maintain(step) => self.maintain(step, observed).await,
        }
    }

    async fn maintain(&self, step: &Step, observed: &Observed) -> Result<Changed, ApplyError> {
        Ok(match step {
            Step::Compact { revision, via } => {
                self.etcd.compact(&self.endpoint(via, observed)?, *revision).await?
            }
            Step::Defragment { name } => self.etcd.defragment(&self.endpoint(name, observed)?).await?,
            Step::Disarm { via } => {
                self.etcd.disarm(&self.endpoint(via, observed)?, AlarmType::Nospace, None).await?
            }
            Step::DisarmCorrupt { member, via } => {
                self.etcd.disarm(&self.endpoint(via, observed)?, AlarmType::Corrupt, Some(*member)).await?
            }
            Step::EnableAuth { via } => self.etcd.enable_auth(&self.endpoint(via, observed)?).await?,
        })
    }

    fn endpoint(&self, via: &str, observed: &Observed) -> Result<String, ApplyError> {
        observed
            .pod(via)
            .and_then(|pod| self.addressing.endpoint(pod))
            .ok_or_else(|| ApplyError::NoEndpoint(via.to_owned()))
    }

    /// Initial cluster of a member that has data: only itself.
    fn alone(&self, name: &str) -> Vec<(String, String)> {
        vec![(name.to_owned(), self.addressing.peer_url(self.cluster, name))]
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.cluster.namespace)
    }

    /// The claim is written before the pod: a pod without its claim waits, a claim without its pod is found
    /// by the next observation. An existing claim gets the version that is about to write to it.
    async fn create(&self, member: &Member<'_>, observed: &Observed) -> Result<Changed, ApplyError> {
        if member.volume {
            let claim = build::claim::claim(self.cluster, member.name, member.version);
            let known = observed.claim(member.name).is_some_and(|claim| claim.version == member.version);
            if self.make("claim", &claim).await? == Changed::Before && !known {
                let annotations = json!({ names::ANNOTATION_VERSION: member.version });
                let patch = json!({ "metadata": { "annotations": annotations } });
                self.patch::<PersistentVolumeClaim>("claim", member.name, patch).await?;
            }
        }
        let pod = build::pod::pod(self.cluster, member, self.addressing);
        created(create_pod(&self.api(), pod).await, "pod", member.name)
    }

    async fn make<K>(&self, kind: &'static str, object: &K) -> Result<Changed, ApplyError>
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + Serialize + DeserializeOwned + std::fmt::Debug,
        K::DynamicType: Default,
    {
        let made = self.api::<K>().create(&PostParams::default(), object).await;
        created(made.map(drop), kind, &object.name_any())
    }

    async fn delete<K>(
        &self,
        kind: &'static str,
        name: &str,
        uid: &str,
        grace: Option<u32>,
    ) -> Result<Changed, ApplyError>
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + DeserializeOwned + std::fmt::Debug,
        K::DynamicType: Default,
    {
        // Never a later object of the same name.
        let params = DeleteParams { grace_period_seconds: grace, ..DeleteParams::default() }
            .preconditions(Preconditions { uid: Some(uid.to_owned()), resource_version: None });
        match self.api::<K>().delete(name, &params).await {
            Ok(_) => Ok(Changed::Now),
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {
                Ok(Changed::Before)
            }
            Err(source) => Err(failed("delete", kind, name)(source)),
        }
    }

    /// The uid in the patch makes the server reject it for a later object of the same name.
    async fn patch<K>(
        &self,
        kind: &'static str,
        name: &str,
        patch: serde_json::Value,
    ) -> Result<Changed, ApplyError>
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + DeserializeOwned + std::fmt::Debug,
        K::DynamicType: Default,
    {
        let patch = Patch::Strategic(&patch);
        match self.api::<K>().patch(name, &PatchParams::default(), &patch).await {
            Ok(_) => Ok(Changed::Now),
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {
                Ok(Changed::Before)
            }
            Err(source) => Err(failed("patch", kind, name)(source)),
        }
    }

    async fn seal(&self, name: &str, uid: &str) -> Result<Changed, ApplyError> {
        let annotations = BTreeMap::from([
            (names::ANNOTATION_INITIAL_STATE, "existing".to_owned()),
            (names::ANNOTATION_INITIAL_CLUSTER, build::pod::initial_cluster(&self.alone(name))),
        ]);
        self.patch::<Pod>("pod", name, json!({ "metadata": { "uid": uid, "annotations": annotations } }))
            .await
    }

    /// Label and time change together, so that a pod that left is never without its time.
    async fn label(
        &self,
        name: &str,
        uid: &str,
        serving: &str,
        observed: &Observed,
    ) -> Result<Changed, ApplyError> {
        let labels = json!({ names::LABEL_SERVING: serving });
        let annotations = json!({ names::ANNOTATION_SERVING_SINCE: observed.now.to_string() });
        let metadata = json!({ "uid": uid, "labels": labels, "annotations": annotations });
        self.patch::<Pod>("pod", name, json!({ "metadata": metadata })).await
    }

    /// The claim is annotated first: if the pod is lost meanwhile, it is recreated with a version that can
    /// read the data.
    async fn set_version(
        &self,
        name: &str,
        uid: &str,
        version: &str,
        volume: bool,
        observed: &Observed,
    ) -> Result<Changed, ApplyError> {
        if volume {
            let patch = json!({ "metadata": { "annotations": { names::ANNOTATION_VERSION: version } } });
            self.patch::<PersistentVolumeClaim>("claim", name, patch).await?;
        }
        let restarts = observed.pod(name).map_or(0, |pod| pod.restarts + pod.restarts_before).to_string();
        let annotations = json!({ names::ANNOTATION_VERSION: version, names::ANNOTATION_RESTARTS: restarts });
        let image = build::pod::image(self.cluster, version);
        let patch = json!({
            "metadata": { "uid": uid, "annotations": annotations },
            "spec": { "containers": [{ "name": build::pod::CONTAINER, "image": image }] },
        });
        self.patch::<Pod>("pod", name, patch).await
    }

    async fn release(&self, name: &str, uid: &str) -> Result<Changed, ApplyError> {
        match self.cluster.storage.retention {
            RetentionPolicy::Delete => self.delete::<PersistentVolumeClaim>("claim", name, uid, None).await,
            RetentionPolicy::Retain => {
                let labels = json!({ names::LABEL_RETAINED: "true" });
                // Without an owner, the garbage collector keeps it.
                let owners = json!([{ "$patch": "delete", "uid": self.cluster.uid }]);
                let patch =
                    json!({ "metadata": { "uid": uid, "labels": labels, "ownerReferences": owners } });
                self.patch::<PersistentVolumeClaim>("claim", name, patch).await
            }
        }
    }

    /// Sets or removes the owner of claims by the retention policy.
    pub(crate) async fn claims(&self, observed: &Observed) -> Result<(), ApplyError> {
        let owned = self.cluster.storage.retention == RetentionPolicy::Delete;
        for claim in observed.claims.iter().filter(|claim| claim.owned != owned && !claim.deleting) {
            let owner = if owned {
                json!([self.cluster.owner])
            } else {
                json!([{ "$patch": "delete", "uid": self.cluster.uid }])
            };
            // The label marks it as ours when it has no owner.
            let labels = json!({ names::LABEL_CLUSTER_UID: self.cluster.uid });
            let patch =
                json!({ "metadata": { "uid": claim.uid, "labels": labels, "ownerReferences": owner } });
            self.patch::<PersistentVolumeClaim>("claim", &claim.name, patch).await?;
        }
        Ok(())
    }
}

fn created(made: Result<(), kube::Error>, kind: &str, name: &str) -> Result<Changed, ApplyError> {
    match made {
        Ok(()) => Ok(Changed::Now),
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(Changed::Before),
        Err(source) => Err(failed("create", kind, name)(source)),
    }
}

/// Creates the pod of a member, without its hook where the API server does not support that.
pub(crate) async fn create_pod(api: &Api<Pod>, pod: Pod) -> Result<(), kube::Error> {
    match api.create(&PostParams::default(), &pod).await {
        Err(error) if lacks_hook(&error) => {
            api.create(&PostParams::default(), &build::pod::without_hook(pod)).await.map(drop)
        }
        made => made.map(drop),
    }
}

/// Whether the API server is older than the hook of a pod: it drops the unknown action and then misses one.
fn lacks_hook(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 422 && status.message.contains("lifecycle.preStop"))
}

fn failed(verb: &'static str, kind: &str, name: &str) -> impl FnOnce(kube::Error) -> ApplyError + use<> {
    let what = format!("{kind} {name}");
    move |source| ApplyError::Kubernetes { verb, what, source: Box::new(source) }
}

/// Id of a member, from its own answer or from that of another member.
fn id_of(observed: &Observed, name: &str) -> Option<u64> {
    let reported = observed.endpoints.get(name).map(|endpoint| endpoint.member_id);
    let known = || {
        let mut all = observed.endpoints.values().flat_map(|endpoint| &endpoint.members);
        all.find(|member| member.pod.as_deref() == Some(name)).map(|member| member.id)
    };
    reported.or_else(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::{Endpoint, Member as Known};

    #[test]
    fn only_a_rejected_hook_is_a_reason_to_create_a_pod_without_it() {
        let rejected = |code: u16, message: &str| {
            let status =
                kube::core::Status { code, message: message.into(), ..kube::core::Status::default() };
            lacks_hook(&kube::Error::Api(Box::new(status)))
        };
        let of_1_28 = "Pod \"orders-a\" is invalid: spec.containers[0].lifecycle.preStop: Required value: must \
                       specify a handler type";
        assert!(rejected(422, of_1_28));
        assert!(!rejected(422, "Pod \"orders-a\" is invalid: spec.nodeName: Invalid value"));
        assert!(!rejected(403, "denied by policy: lifecycle.preStop"));
    }

    #[test]
    fn a_member_that_pod_security_rejects_has_the_fix() {
        let message = "pods \"orders-a\" is forbidden: violates PodSecurity \"restricted:latest\": runAsNonRoot != true";
        let status =
            kube::core::Status { code: 403, message: message.into(), ..kube::core::Status::default() };
        let text = why(&kube::Error::Api(Box::new(status)));
        assert!(text.starts_with(message), "{text}");
        assert!(text.ends_with("{ runAsNonRoot: true, runAsUser: 1000, fsGroup: 1000 }"), "{text}");
    }

    #[test]
    fn the_id_of_a_member_is_reported_by_itself_or_by_the_others() {
        // given two members, one of which does not answer
        let known = |id, pod: &str| Known { id, pod: Some(pod.into()), ..Known::default() };
        let members = vec![known(7, "orders-a"), known(255, "orders-b")];
        let endpoint = Endpoint { member_id: 7, members, ..Endpoint::default() };
        let observed =
            Observed { endpoints: [("orders-a".to_owned(), endpoint)].into(), ..Observed::default() };
        // then both have an id, and a name that is not a member has none
        assert_eq!(id_of(&observed, "orders-a"), Some(7));
        assert_eq!(id_of(&observed, "orders-b"), Some(255));
        assert_eq!(id_of(&observed, "orders-c"), None);
        assert_eq!(id_of(&Observed::default(), "orders-a"), None);
    }
}

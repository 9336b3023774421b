//! Applies the steps of a restore with the Kubernetes API. Each step is idempotent.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret};
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Resource, ResourceExt};
use ring::rand::SecureRandom;
use serde_json::{Value, json};

use super::controller::Context;
use super::observe::ObservedRestore;
use super::seed::{Seed, Source};
use super::{ANNOTATION_FORMER, FINALIZER, LABEL_RESTORED_BY};
use crate::apply::{DELETE_GRACE_SECONDS, create_pod, why};
use crate::crd::restore::EtcdRestore;
use crate::crd::{EtcdCluster, EtcdClusterSpec};
use crate::{build, names};

/// Key of the token in its Secret.
pub(crate) const TOKEN_KEY: &str = "token";

pub(crate) fn token_secret(restore: &str) -> String {
    format!("{restore}-restore-token")
}

/// Status of a cluster handed over with a new etcd cluster: the memory of the previous one is cleared.
fn status_after_restore(cluster_id: &str, version: Option<String>) -> Value {
    let mut new = json!({
        "clusterID": cluster_id, "size": 1, "phase": "Running", "reason": null, "pendingMember": null,
        "memberList": null, "learnerFailure": null, "authEnabled": null, "corruption": null,
    });
    if let Some(version) = version {
        new["currentVersion"] = Value::String(version);
    }
    new
}

pub(crate) struct Applier<'a> {
    pub(crate) context: &'a Context,
    pub(crate) restore: &'a EtcdRestore,
    pub(crate) observation: &'a ObservedRestore,
}

impl Applier<'_> {
    fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.context.base.client.clone(), &self.restore.namespace().unwrap_or_default())
    }

    fn cluster(&self) -> &str {
        &self.restore.spec.etcd_cluster.name
    }

    fn uid(&self) -> String {
        self.restore.uid().unwrap_or_default()
    }

    /// Creates the EtcdCluster of the template, held by this restore from the start.
    pub(crate) async fn create_cluster(&self) -> Result<(), String> {
        let template = self.restore.spec.cluster_template.clone().unwrap_or_default();
        let spec: EtcdClusterSpec =
            serde_json::from_value(template).map_err(|error| format!("spec.clusterTemplate: {error}"))?;
        let mut cluster = EtcdCluster::new(self.cluster(), spec);
        cluster.annotations_mut().insert(names::ANNOTATION_RESTORE.into(), self.uid());
        // The new cluster is managed by the operator that manages its restore.
        if let Some(scope) = self.restore.annotations().get(names::ANNOTATION_SCOPE) {
            cluster.annotations_mut().insert(names::ANNOTATION_SCOPE.into(), scope.clone());
        }
        match self.api::<EtcdCluster>().create(&PostParams::default(), &cluster).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            Err(error) => Err(format!("failed to create EtcdCluster {}: {}", self.cluster(), why(&error))),
        }
    }

    /// Takes ownership of the members. The finalizer is set first, so that a deleted restore releases them.
    pub(crate) async fn hold(&self) -> Result<(), String> {
        self.finalizer(true).await?;
        self.annotate(json!({ names::ANNOTATION_RESTORE: self.uid() }), true).await
    }

    /// Releases the members. The pod that runs on a copy of the claim's data is deleted: it mounts the claim.
    pub(crate) async fn release(&self) -> Result<(), String> {
        let params = ListParams::default().labels(&format!("{LABEL_RESTORED_BY}={}", self.uid()));
        let pods = self.api::<Pod>().list(&params).await;
        for pod in pods.map_err(|error| format!("failed to list pods: {}", why(&error)))? {
            self.delete_pod(&pod.name_any(), &pod.uid().unwrap_or_default()).await?;
        }
        self.annotate(json!({ names::ANNOTATION_RESTORE: null }), false).await
    }

    /// Records the new etcd cluster in the EtcdCluster; then its controller owns the members again.
    pub(crate) async fn hand_over(&self) -> Result<(), String> {
        let status = self.restore.status.clone().unwrap_or_default();
        let version = self
            .observation
            .observed
            .as_ref()
            .and_then(|observed| observed.endpoints.get(&status.seed_member));
        let version = version
            .map(|endpoint| endpoint.version.clone())
            .or_else(|| Some(self.observation.valid.as_ref()?.goal.version.clone()));
        let new = status_after_restore(&status.cluster_id, version);
        let patch = json!({ "metadata": { "uid": self.cluster_uid() }, "status": new });
        let api = self.api::<EtcdCluster>();
        api.patch_status(self.cluster(), &PatchParams::default(), &Patch::Merge(&patch)).await.map_err(
            |error| format!("failed to write the status of EtcdCluster {}: {}", self.cluster(), why(&error)),
        )?;
        let annotations =
            self.observation.cluster.as_ref().map(|c| c.annotations().clone()).unwrap_or_default();
        let mut former: Vec<String> = annotations
            .get(ANNOTATION_FORMER)
            .into_iter()
            .flat_map(|ids| ids.split(','))
            .map(str::to_owned)
            .collect();
        former.push(status.former_cluster_id);
        former.retain(|id| !id.is_empty());
        former.dedup();
        // At most 32 former ids are kept.
        let former = former.split_off(former.len().saturating_sub(32)).join(",");
        self.annotate(json!({ names::ANNOTATION_RESTORE: null, ANNOTATION_FORMER: former }), false).await
    }

    fn cluster_uid(&self) -> Option<String> {
        self.observation.cluster.as_ref().and_then(ResourceExt::uid)
    }

    async fn annotate(&self, annotations: Value, exactly: bool) -> Result<(), String> {
        let version =
            self.observation.cluster.as_ref().and_then(ResourceExt::resource_version).filter(|_| exactly);
        let patch = json!({ "metadata": {
            "uid": self.cluster_uid(), "annotations": annotations,
        } });
        let mut patch = patch;
        if let Some(version) = version {
            // Only one of two restores may hold the cluster.
            patch["metadata"]["resourceVersion"] = Value::String(version);
        }
        match self
            .api::<EtcdCluster>()
            .patch(self.cluster(), &PatchParams::default(), &Patch::Merge(&patch))
            .await
        {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() || (exactly && status.is_conflict()) => {
                Ok(())
            }
            Err(error) => Err(format!("failed to annotate EtcdCluster {}: {}", self.cluster(), why(&error))),
        }
    }

    /// Adds or removes the finalizer.
    pub(crate) async fn finalizer(&self, wanted: bool) -> Result<(), String> {
        let present = self.restore.finalizers().iter().any(|f| f == FINALIZER);
        if present == wanted {
            return Ok(());
        }
        let mut list: Vec<&str> =
            self.restore.finalizers().iter().map(String::as_str).filter(|f| *f != FINALIZER).collect();
        if wanted {
            list.push(FINALIZER);
        }
        let patch = json!({ "metadata": {
            "uid": self.restore.uid(), "resourceVersion": self.restore.resource_version(), "finalizers": list,
        } });
        let name = self.restore.name_any();
        match self.api::<EtcdRestore>().patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(error) => {
                Err(format!("failed to change the finalizers of EtcdRestore {name}: {}", why(&error)))
            }
        }
    }

    pub(crate) async fn delete_pod(&self, name: &str, uid: &str) -> Result<(), String> {
        // Never a later pod of the same name.
        let params = DeleteParams::default()
            .grace_period(DELETE_GRACE_SECONDS)
            .preconditions(Preconditions { uid: Some(uid.to_owned()), resource_version: None });
        match self.api::<Pod>().delete(name, &params).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
            Err(error) => Err(format!("failed to delete pod {name}: {}", why(&error))),
        }
    }

    /// Retains the data of a former member: without an owner, under a label with the reason.
    pub(crate) async fn retain_claim(&self, name: &str, uid: &str) -> Result<(), String> {
        let owner = json!([{ "$patch": "delete", "uid": self.cluster_uid() }]);
        let labels = json!({ names::LABEL_REPLACED_BY: self.uid() });
        let patch = json!({ "metadata": { "uid": uid, "labels": labels, "ownerReferences": owner } });
        let api = self.api::<PersistentVolumeClaim>();
        match api.patch(name, &PatchParams::default(), &Patch::Strategic(&patch)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
            Err(error) => Err(format!("failed to set claim {name} aside: {}", why(&error))),
        }
    }

    /// Runs etcd on a copy of the data of `spec.fromClaim`.
    pub(crate) async fn recover(&self, name: &str) -> Result<(), String> {
        let claim = self.observation.state.claim.as_ref().ok_or("the claim was not read")?;
        let owner = self.restore.controller_owner_ref(&()).ok_or("the EtcdRestore has no uid")?;
        let source = Source::Claim { name: &claim.name, version: &claim.version, owner: &owner };
        self.create_first(name, source).await
    }

    /// Creates the first member, with the snapshot or with the data of the copy.
    pub(crate) async fn create_seed(&self, name: &str) -> Result<(), String> {
        let snapshot = self.restore.status.as_ref().and_then(|status| status.snapshot.as_ref());
        self.create_first(name, snapshot.map_or(Source::Copy, Source::Snapshot)).await
    }

    /// Creates token, claim and pod, in the order of their dependencies.
    async fn create_first(&self, name: &str, source: Source<'_>) -> Result<(), String> {
        let (Some(valid), Some(observed)) = (&self.observation.valid, &self.observation.observed) else {
            return Err("the EtcdCluster was not read".into());
        };
        let place = self.context.place.find(&self.context.base.client).await?;
        let fetches = matches!(source, Source::Snapshot(_));
        if fetches {
            self.token().await?;
        }
        // Two consecutive pods share a copy.
        let volume = observed.volumes || !fetches;
        if volume {
            let claim = build::claim::claim(valid, name, &valid.goal.version);
            self.make("claim", &claim).await?;
        }
        let (restore, uid) = (self.restore.name_any(), self.uid());
        let seed = Seed { cluster: valid, name, restore: &restore, uid: &uid, source, place: &place, volume };
        let made = create_pod(&self.api(), seed.pod(&*self.context.base.addressing)).await;
        created(made, "pod", name)
    }

    async fn token(&self) -> Result<(), String> {
        let name = token_secret(&self.restore.name_any());
        let api = self.api::<Secret>();
        let found = api
            .get_opt(&name)
            .await
            .map_err(|error| format!("failed to read Secret {name}: {}", why(&error)))?;
        if let Some(secret) = found {
            let ours = secret
                .owner_references()
                .iter()
                .any(|owner| Some(&owner.uid) == self.restore.metadata.uid.as_ref());
            return if ours {
                Ok(())
            } else {
                Err(format!("Secret {name} is not owned by this EtcdRestore; delete or rename it"))
            };
        }
        let mut bytes = [0; 32];
        ring::rand::SystemRandom::new()
            .fill(&mut bytes)
            .map_err(|_| "failed to generate random bytes".to_owned())?;
        let token = ByteString(crate::storage::hex(&bytes).into_bytes());
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: self.restore.namespace(),
                owner_references: self.restore.controller_owner_ref(&()).map(|owner| vec![owner]),
                ..ObjectMeta::default()
            },
            data: Some([(TOKEN_KEY.to_owned(), token)].into()),
            ..Secret::default()
        };
        self.make("Secret", &secret).await
    }

    async fn make<K>(&self, kind: &str, object: &K) -> Result<(), String>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + serde::Serialize
            + serde::de::DeserializeOwned
            + std::fmt::Debug,
        K::DynamicType: Default,
    {
        let made = self.api::<K>().create(&PostParams::default(), object).await;
        created(made.map(drop), kind, &object.name_any())
    }
}

fn created(made: Result<(), kube::Error>, kind: &str, name: &str) -> Result<(), String> {
    match made {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        made => made.map_err(|error| format!("failed to create {kind} {name}: {}", why(&error))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crd::{CorruptionStatus, EtcdClusterStatus, LearnerFailure, MemberStatus};
    use crate::observed::Memory;

    #[test]
    fn of_the_etcd_cluster_before_a_restore_nothing_is_remembered() {
        // given a status with a complete memory
        let old = EtcdClusterStatus {
            cluster_id: Some("aa".into()),
            size: 3,
            current_version: "3.4.23".into(),
            pending_member: Some("orders-a".into()),
            member_list: vec![MemberStatus { name: "orders-b".into(), ..MemberStatus::default() }],
            learner_failure: Some(LearnerFailure::default()),
            auth_enabled: true,
            corruption: Some(CorruptionStatus { cluster_id: "aa".into(), members: vec!["orders-b".into()] }),
            ..EtcdClusterStatus::default()
        };
        // when it is handed over
        let mut status = serde_json::to_value(&old).unwrap();
        for (key, value) in status_after_restore("bb", Some("3.5.30".into())).as_object().unwrap() {
            match value {
                Value::Null => drop(status.as_object_mut().unwrap().remove(key)),
                value => status[key] = value.clone(),
            }
        }
        // then it equals that of a new cluster of one
        let memory = crate::status::memory(&serde_json::from_value(status).unwrap());
        let expected = Memory {
            cluster_id: Some("bb".into()),
            version: "3.5.30".into(),
            voters: 1,
            ..Memory::default()
        };
        assert_eq!(memory, expected);
    }
}

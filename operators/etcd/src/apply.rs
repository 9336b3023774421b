//! Doing: the Services, and the one action that was decided on. The only part that changes the world, besides the status.

use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt};

use crate::addressing::Addressing;
use crate::build;
use crate::etcd::{ChangeError, Changed, Etcd};
use crate::names;
use crate::observed::Observed;
use crate::plan::Action;
use crate::validate::Validated;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Kubernetes refused.
    #[error("failed to {verb} {what}: {}", why(source))]
    Kubernetes {
        /// What was tried.
        verb: &'static str,
        /// On what.
        what: String,
        /// Why it failed.
        source: Box<kube::Error>,
    },
    /// A Service of that name belongs to somebody else.
    #[error("Service {0} exists and belongs to somebody else; rename the cluster or delete that Service")]
    ForeignService(String),
    /// etcd refused.
    #[error(transparent)]
    Etcd(#[from] ChangeError),
    /// The member to ask has no address any more.
    #[error("member {0} has no address")]
    NoEndpoint(String),
}

impl ApplyError {
    /// A word for metrics.
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

/// What Kubernetes said, without the object it said it in: this is read in conditions and events.
pub(crate) fn why(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => other.to_string(),
    }
}

/// The hands: what they need.
pub(crate) struct Hands<'a> {
    pub(crate) client: &'a Client,
    pub(crate) etcd: &'a Etcd,
    pub(crate) addressing: &'a dyn Addressing,
    pub(crate) cluster: &'a Validated,
}

impl Hands<'_> {
    /// Makes both Services as they should be.
    pub(crate) async fn services(&self) -> Result<(), ApplyError> {
        let api: Api<Service> = Api::namespaced(self.client.clone(), &self.cluster.namespace);
        let params = ListParams::default().labels(&names::cluster_selector(&self.cluster.name));
        let failed = |verb, what: &str| {
            let what = what.to_owned();
            move |source| ApplyError::Kubernetes { verb, what, source: Box::new(source) }
        };
        let found = api.list(&params).await.map_err(failed("list", "the Services"))?;
        for wanted in build::service::services(self.cluster) {
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
                // Made, not applied: a Service of this name without our labels must not be taken over unseen.
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

    /// Does one action. `Remember` is not for hands: the status is written by `update_status`.
    pub(crate) async fn act(
        &self,
        action: &Action,
        version: &str,
        seen: &Observed,
    ) -> Result<Changed, ApplyError> {
        match action {
            Action::Remember(_) => Ok(Changed::Before),
            Action::CreateSeed { name } => {
                let initial = [(name.clone(), self.addressing.peer_url(self.cluster, name))];
                self.create(name, true, &initial, version).await
            }
            Action::CreateMember { name, initial_cluster } => {
                self.create(name, false, initial_cluster, version).await
            }
            Action::DeletePod { name, uid } => self.delete(name, uid).await,
            Action::AddLearner { name, via } => {
                let url = self.addressing.peer_url(self.cluster, name);
                Ok(self.etcd.add_learner(&self.endpoint(via, seen)?, &url).await?)
            }
            Action::Promote { id, via, .. } => Ok(self.etcd.promote(&self.endpoint(via, seen)?, *id).await?),
            Action::MoveLeader { id, via, .. } => {
                Ok(self.etcd.move_leader(&self.endpoint(via, seen)?, *id).await?)
            }
            Action::RemoveMember { id, via, .. } => {
                Ok(self.etcd.remove(&self.endpoint(via, seen)?, *id).await?)
            }
        }
    }

    fn endpoint(&self, via: &str, seen: &Observed) -> Result<String, ApplyError> {
        seen.pod(via)
            .and_then(|pod| self.addressing.endpoint(pod))
            .ok_or_else(|| ApplyError::NoEndpoint(via.to_owned()))
    }

    async fn create(
        &self,
        name: &str,
        seed: bool,
        initial_cluster: &[(String, String)],
        version: &str,
    ) -> Result<Changed, ApplyError> {
        let member = build::pod::Member { name, seed, initial_cluster, version };
        let pod = build::pod::pod(self.cluster, &member, self.addressing);
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.cluster.namespace);
        match api.create(&PostParams::default(), &pod).await {
            Ok(_) => Ok(Changed::Now),
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(Changed::Before),
            Err(source) => Err(ApplyError::Kubernetes {
                verb: "create",
                what: format!("pod {name}"),
                source: Box::new(source),
            }),
        }
    }

    async fn delete(&self, name: &str, uid: &str) -> Result<Changed, ApplyError> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.cluster.namespace);
        // Not a later pod that happens to have the name.
        let params = DeleteParams::default()
            .preconditions(Preconditions { uid: Some(uid.to_owned()), resource_version: None });
        match api.delete(name, &params).await {
            Ok(_) => Ok(Changed::Now),
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {
                Ok(Changed::Before)
            }
            Err(source) => Err(ApplyError::Kubernetes {
                verb: "delete",
                what: format!("pod {name}"),
                source: Box::new(source),
            }),
        }
    }
}

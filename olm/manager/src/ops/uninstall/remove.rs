//! Carrying out a plan for an uninstall.

use std::time::Duration;

use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject},
    core::GroupVersionKind,
};
use olm_plan::{ObjectRef, Op, Plan};

use super::{Leaving, UninstallReport, described, leaving};
use crate::{
    engine::Refusal,
    ops::error::Error,
    resources::{Id, Resources},
};

/// How long an object may take to go.
const GONE: Duration = Duration::from_secs(60);
/// How long what goes with a ClusterServiceVersion is waited for, all of it together: whatever takes longer is named and
/// goes when its time comes.
const FOLLOW: Duration = Duration::from_secs(5);
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Deletes what the plan deletes, in its order, each object when the one before is gone. Objects that go with another
/// are waited for at the end.
pub(super) async fn carry_out(
    client: &Client,
    leaving: &Leaving,
    plan: &Plan,
) -> Result<UninstallReport, Error> {
    let mut report = UninstallReport {
        namespace: plan.namespace.clone(),
        package: plan.package.clone(),
        digest: plan.digest.clone(),
        ..UninstallReport::default()
    };
    let doing = Doing { client, resources: Resources::new(client.clone()), leaving };
    let mut following = Vec::new();
    for object in &plan.objects {
        match object.op {
            Op::Delete if object.goes_with.is_some() => following.push(&object.reference),
            Op::Delete => {
                if doing.delete_and_wait(&object.reference).await? {
                    report.removed.push(object.reference.to_string());
                }
            }
            _ => report.kept.push(described(object)),
        }
    }
    let deadline = tokio::time::Instant::now() + FOLLOW;
    for reference in following {
        let name = reference.to_string();
        match doing.follow(reference, deadline).await {
            true => report.removed.push(name),
            false => report.leftovers.push(name),
        }
    }
    Ok(report)
}

struct Doing<'a> {
    client: &'a Client,
    resources: Resources,
    leaving: &'a Leaving,
}

impl Doing<'_> {
    /// The endpoint of an object. Those of instances are known from the list that they are on.
    async fn api(&self, object: &ObjectRef) -> Result<Api<DynamicObject>, Error> {
        let gvk = GroupVersionKind::gvk(object.group(), object.version(), &object.kind);
        let listed = self.leaving.known_instances(true);
        let instance = listed.into_iter().find(|instance| leaving::reference(instance) == *object);
        let resource = match instance {
            Some(instance) => ApiResource::from_gvk_with_plural(&gvk, &instance.plural),
            None => self.resources.lookup(&gvk).await.map_err(Refusal::from)?.0,
        };
        Ok(match &object.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        })
    }

    /// Deletes an object and waits until it is gone, finalizers included; `false` when there was none.
    async fn delete_and_wait(&self, object: &ObjectRef) -> Result<bool, Error> {
        let api = self.api(object).await?;
        match api.delete(&object.name, &DeleteParams::default()).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(false),
            Err(error) => return Err(Error::kube(format!("delete {object}"))(error)),
        }
        let deadline = tokio::time::Instant::now() + GONE;
        let mut pause = SHORTEST_PAUSE;
        loop {
            let left = api.get_opt(&object.name).await;
            let Some(left) = left.map_err(Error::kube(format!("wait for {object} to go")))? else {
                return Ok(true);
            };
            if left.metadata.deletion_timestamp.is_none() {
                // Somebody made it anew: a GitOps pipeline, perhaps.
                return Err(Error::Refused {
                    code: "Recreated".into(),
                    text: format!("{object} was deleted and somebody created it again"),
                    fix: Some("take it out of what creates it, then uninstall again".into()),
                });
            }
            if tokio::time::Instant::now() > deadline {
                let finalizers = left.finalizers().join(", ");
                return Err(Error::Refused {
                    code: "StuckFinalizer".into(),
                    text: format!(
                        "{object} is not gone after {GONE:?}: it waits for finalizer(s) {finalizers}"
                    ),
                    fix: Some(
                        "see why the operator does not finish it: `kubectl describe` and its logs".into(),
                    ),
                });
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Whether an object that goes with another is gone in time. Not to be allowed to look is no failure: everything
    /// that was for the caller to do is done.
    async fn follow(&self, object: &ObjectRef, deadline: tokio::time::Instant) -> bool {
        let id = Id::new(&object.api_version, &object.kind, object.namespace.as_deref(), &object.name);
        let mut pause = SHORTEST_PAUSE;
        loop {
            match self.resources.get(&id).await {
                Ok(None) => return true,
                Ok(Some(_)) => {}
                Err(error) => {
                    tracing::debug!(%object, %error, "cannot see whether it is gone");
                    return false;
                }
            }
            if tokio::time::Instant::now() > deadline {
                return false;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

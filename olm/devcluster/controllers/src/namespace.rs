//! Deletion of a namespace: deletes its content, then removes the namespace's finalizer.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Namespace, NamespaceCondition},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
    discovery::verbs,
};
use serde_json::json;

use super::{
    cache::{Cache, Key},
    error::{During, Error, unless_gone},
    inventory::{Inventory, Kind},
};

const FINALIZER: &str = "kubernetes";
/// Concurrent requests.
const PARALLEL: usize = 8;
/// Bounds of the interval between two checks of the remaining objects. Deletions are watched; this covers
/// kinds without a watch, and kinds so new that theirs has not started.
const RECHECK_BOUNDS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// A quarter of the time since the deletion.
fn retry_after(waited: Duration) -> Duration {
    (waited / 4).clamp(RECHECK_BOUNDS.0, RECHECK_BOUNDS.1)
}

pub(crate) struct Controller {
    pub(crate) client: Client,
    pub(crate) namespaces: Arc<Cache<Namespace>>,
    pub(crate) inventory: Arc<Inventory>,
}

/// The remaining objects of a namespace.
#[derive(Debug, Default, PartialEq, Eq)]
struct Leftovers {
    /// Resource (`pods.`, `crontabs.stable.example.com`) to number of objects.
    resources: BTreeMap<String, usize>,
    finalizers: BTreeMap<String, usize>,
    failures: Vec<String>,
}

impl Leftovers {
    fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.failures.is_empty()
    }
}

impl Controller {
    pub(crate) async fn reconcile(&self, key: Key) -> Result<Option<Duration>, Error> {
        let Some(cached) = self.namespaces.get(&key) else { return Ok(None) };
        if cached.metadata.deletion_timestamp.is_none() {
            return Ok(None);
        }
        // The cached namespace may have been replaced by another one of its name, whose content must stay.
        let name = cached.name_any();
        let api: Api<Namespace> = Api::all(self.client.clone());
        let found = api.get_opt(&name).await.during(|| format!("get namespace {name}"))?;
        let Some(namespace) = found.filter(|found| found.uid() == cached.uid()) else { return Ok(None) };
        let finalizers = namespace.spec.as_ref().and_then(|spec| spec.finalizers.clone()).unwrap_or_default();
        if !finalizers.iter().any(|name| name == FINALIZER) {
            return Ok(None);
        }
        let (kinds, discovery) = match self.inventory.discover().await {
            Ok(kinds) => (kinds, None),
            Err(error) => (self.inventory.kinds(), Some(error.to_string())),
        };
        let kinds = kinds.into_iter().filter(|kind| kind.namespaced);
        let results: Vec<_> = stream::iter(kinds)
            .map(|kind| {
                let name = &name;
                async move {
                    let result = self.empty(&kind, name).await;
                    (kind, result)
                }
            })
            .buffer_unordered(PARALLEL)
            .collect()
            .await;
        let mut left = Leftovers::default();
        for (kind, result) in results {
            match result {
                Ok(objects) if objects.is_empty() => {}
                Ok(objects) => {
                    let resource = format!("{}.{}", kind.resource.plural, kind.resource.group);
                    left.resources.insert(resource, objects.len());
                    for finalizer in objects.into_iter().flatten() {
                        *left.finalizers.entry(finalizer).or_default() += 1;
                    }
                }
                Err(error) => left.failures.push(error.to_string()),
            }
        }
        if left.is_empty() && discovery.is_none() {
            self.finalize(&namespace, &finalizers).await?;
            return Ok(None);
        }
        self.report(&namespace, &left, discovery).await?;
        let since =
            namespace.metadata.deletion_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        let waited = Duration::try_from(Timestamp::now().duration_since(since)).unwrap_or_default();
        Ok(Some(retry_after(waited)))
    }

    /// Deletes all objects of a kind; returns the finalizers of each remaining one.
    async fn empty(&self, kind: &Kind, namespace: &str) -> Result<Vec<Vec<String>>, Error> {
        let api = kind.api(&self.client, namespace);
        let list = || async {
            let list = api.list(&ListParams::default()).await;
            list.during(|| format!("list {} in namespace {namespace}", kind.resource.plural))
        };
        let found = list().await?;
        if found.items.is_empty() {
            return Ok(Vec::new());
        }
        let params = DeleteParams::background();
        let going = |object: &&kube::core::PartialObjectMeta| object.metadata.deletion_timestamp.is_some();
        if !found.items.iter().all(|object| going(&object)) {
            if kind.supports(verbs::DELETE_COLLECTION) {
                // The response may be a list of full objects, which is not used.
                let url = format!("{}?propagationPolicy=Background", api.resource_url());
                let request = http::Request::delete(url)
                    .body(Vec::new())
                    .map_err(|error| Error::Invalid(format!("failed to build a request: {error}")))?;
                self.client
                    .request_text(request)
                    .await
                    .during(|| format!("delete all {} in namespace {namespace}", kind.resource.plural))?;
            } else {
                for object in found.items.iter().filter(|object| !going(object)) {
                    let result = api.delete(&object.name_any(), &params).await;
                    unless_gone(
                        result.during(|| format!("delete {} {}", kind.resource.kind, object.name_any())),
                    )?;
                }
            }
        }
        let left = list().await?;
        Ok(left.items.into_iter().map(|object| object.metadata.finalizers.unwrap_or_default()).collect())
    }

    /// Removes the finalizer of the namespace.
    async fn finalize(&self, namespace: &Namespace, finalizers: &[String]) -> Result<(), Error> {
        let name = namespace.name_any();
        let mut body = namespace.clone();
        let left: Vec<String> = finalizers.iter().filter(|name| *name != FINALIZER).cloned().collect();
        body.spec.get_or_insert_default().finalizers = Some(left);
        let body = serde_json::to_vec(&body).unwrap_or_default();
        let request = http::Request::put(format!("/api/v1/namespaces/{name}/finalize"))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(|error| Error::Invalid(format!("failed to build a request: {error}")))?;
        let result = self.client.request_text(request).await;
        unless_gone(result.during(|| format!("finalize namespace {name}"))).map(|_| ())
    }

    async fn report(
        &self,
        namespace: &Namespace,
        left: &Leftovers,
        discovery: Option<String>,
    ) -> Result<(), Error> {
        let old = namespace.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
        let new = conditions(&old, left, discovery, Timestamp::now());
        if new == old {
            return Ok(());
        }
        let name = namespace.name_any();
        let api: Api<Namespace> = Api::all(self.client.clone());
        let patch = Patch::Merge(json!({ "status": { "conditions": new } }));
        let result = api.patch_status(&name, &PatchParams::default(), &patch).await;
        if let Some(patched) = unless_gone(result.during(|| format!("update status of namespace {name}")))? {
            self.namespaces.assume(patched);
        }
        Ok(())
    }
}

/// The five conditions that report the progress of the deletion.
fn conditions(
    old: &[NamespaceCondition],
    left: &Leftovers,
    discovery: Option<String>,
    now: Timestamp,
) -> Vec<NamespaceCondition> {
    let now = Time(Timestamp::from_second(now.as_second()).unwrap_or(now));
    let remaining: Vec<String> =
        left.resources.iter().map(|(name, count)| format!("{name} has {count} resource instances")).collect();
    let finalizers: Vec<String> =
        left.finalizers.iter().map(|(name, count)| format!("{name} in {count} resource instances")).collect();
    let texts = [
        (
            "NamespaceDeletionDiscoveryFailure",
            discovery.map(|text| ("DiscoveryFailed", format!("Discovery failed for some groups: {text}"))),
            ("ResourcesDiscovered", "All resources successfully discovered"),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            None,
            ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
        ),
        (
            "NamespaceDeletionContentFailure",
            (!left.failures.is_empty()).then(|| {
                let text = left.failures.join(", ");
                (
                    "ContentDeletionFailed",
                    format!("Failed to delete all resource types, {} remaining: {text}", left.failures.len()),
                )
            }),
            ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
        ),
        (
            "NamespaceContentRemaining",
            (!remaining.is_empty()).then(|| {
                ("SomeResourcesRemain", format!("Some resources are remaining: {}", remaining.join(", ")))
            }),
            ("ContentRemoved", "All content successfully removed"),
        ),
        (
            "NamespaceFinalizersRemaining",
            (!finalizers.is_empty()).then(|| {
                let list = finalizers.join(", ");
                (
                    "SomeFinalizersRemain",
                    format!("Some content in the namespace has finalizers remaining: {list}"),
                )
            }),
            ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
        ),
    ];
    let mut conditions: Vec<NamespaceCondition> = Vec::new();
    for (ty, bad, (good_reason, good_message)) in texts {
        let (status, reason, message) = match bad {
            Some((reason, message)) => ("True", reason, message),
            None => ("False", good_reason, good_message.to_owned()),
        };
        let known = old.iter().find(|condition| condition.type_ == ty && condition.status == status);
        conditions.push(NamespaceCondition {
            type_: ty.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_transition_time: known.and_then(|c| c.last_transition_time.clone()).or(Some(now.clone())),
        });
    }
    conditions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deletion_takes_at_most_a_quarter_longer_than_its_blockers() {
        let pauses = [0, 400, 4_000, 600_000].map(|waited| retry_after(Duration::from_millis(waited)));
        assert_eq!(pauses.map(|pause| pause.as_millis()), [100, 100, 1_000, 5_000]);
    }

    #[test]
    fn conditions_report_remaining_objects() {
        let left = Leftovers {
            resources: BTreeMap::from([
                ("crontabs.stable.example.com".to_owned(), 1),
                ("pods.".to_owned(), 2),
            ]),
            finalizers: BTreeMap::from([("example.com/x".to_owned(), 1)]),
            failures: Vec::new(),
        };
        let first = conditions(&[], &left, None, Timestamp::UNIX_EPOCH);
        let text = |ty: &str| {
            let condition = first.iter().find(|c| c.type_ == ty).unwrap();
            (condition.status.clone(), condition.message.clone().unwrap())
        };
        assert_eq!(
            text("NamespaceContentRemaining"),
            (
                "True".to_owned(),
                "Some resources are remaining: crontabs.stable.example.com has 1 resource instances, pods. has 2 \
                 resource instances"
                    .to_owned()
            )
        );
        assert_eq!(
            text("NamespaceFinalizersRemaining").1,
            "Some content in the namespace has finalizers remaining: example.com/x in 1 resource instances"
        );
        assert_eq!(text("NamespaceDeletionContentFailure").0, "False");
        assert_eq!(
            conditions(&first, &left, None, Timestamp::now()),
            first,
            "times stay while nothing changes"
        );
    }
}

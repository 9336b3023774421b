//! Other users of a cluster-wide object.
//!
//! A CRD keeps the label of every namespace that its package was installed in, so that it is found when
//! nothing else is left of an operator. Such a label alone is only a trace: the object is needed where the
//! package is still installed.

use std::collections::BTreeSet;

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::NamespaceResourceScope;
use kube::{Api, Client, Resource, api::ListParams};
use olm_api::{ClusterServiceVersion, Subscription, names};
use olm_plan::Live;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::Error;

/// Namespaces that are checked concurrently.
const READS: usize = 8;

/// Removes the labels from cluster-wide objects that only record where a package was once installed.
///
/// The namespaces are checked in order until one has the package installed: that one is enough for the object
/// to stay, and a thousand more need no check.
pub(super) async fn forget_traces(
    client: &Client,
    live: &mut Live,
    packages: &BTreeSet<&str>,
    own: &str,
) -> Result<(), Error> {
    let mut traces = BTreeSet::new();
    for package in packages.iter().filter(|package| !package.is_empty()) {
        let of_the_cluster = live.iter().filter(|(reference, _)| reference.namespace.is_none());
        let labels: BTreeSet<String> =
            of_the_cluster.flat_map(|(_, object)| others(object, package, own)).collect();
        let mut asked = stream::iter(labels)
            .map(|label| async move { Ok::<_, Error>((is_used(client, &label).await?, label)) })
            .buffered(READS);
        while let Some((used, label)) = asked.try_next().await? {
            if used {
                break;
            }
            traces.insert(label);
        }
    }
    for object in live.values_mut() {
        if let Some(labels) = object.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
            labels.retain(|key, _| !traces.contains(key));
        }
    }
    Ok(())
}

/// The labels of a package's other namespaces.
fn others(object: &Value, package: &str, own: &str) -> Vec<String> {
    let prefix = format!("{}{package}.", names::LABEL_COMPONENT_PREFIX);
    let own = names::component_label(package, own);
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    let keys = labels.into_iter().flat_map(|labels| labels.keys());
    keys.filter(|key| key.starts_with(&prefix) && **key != own).cloned().collect()
}

/// Whether a Subscription or a version has the label, in any namespace: a long label does not contain the
/// whole name of its namespace.
async fn is_used(client: &Client, label: &str) -> Result<bool, Error> {
    let (subscribed, installed) =
        tokio::try_join!(any::<Subscription>(client, label), any::<ClusterServiceVersion>(client, label))?;
    Ok(subscribed || installed)
}

async fn any<K>(client: &Client, label: &str) -> Result<bool, Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let params = ListParams::default().labels(&format!("{label},!{}", names::LABEL_COPIED_FROM)).limit(1);
    match Api::<K>::all(client.clone()).list_metadata(&params).await {
        Ok(found) => Ok(!found.items.is_empty()),
        // Without the right to list, the object counts as needed.
        Err(kube::Error::Api(status)) if status.is_forbidden() => Ok(true),
        Err(error) => Err(Error::kube(format!("list {} with label {label}", K::plural(&())))(error)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn other_namespaces_are_those_of_the_very_package() {
        let prefix = "operators.coreos.com/";
        let labels = ["my.thing.db", "my.thing.web", "thing.web", "my.thing-2.web"]
            .map(|label| (format!("{prefix}{label}"), Value::from("")));
        let object = json!({ "metadata": { "labels": Value::Object(labels.into_iter().collect()) } });
        assert_eq!(others(&object, "my.thing", "db"), [format!("{prefix}my.thing.web")]);
        assert_eq!(others(&json!({}), "thing", "db"), Vec::<String>::new());
    }
}

//! Removes objects of a ClusterServiceVersion out of reach of garbage collection.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use olm_api::{ClusterServiceVersion, names::FINALIZER_CSV_CLEANUP};
use olm_engine::ownership::{OwnerKey, Released, labelled, leave, out_of_reach, release, selector};
use serde_json::json;

use crate::{
    context::{Ctx, Error},
    runner::Action,
};

pub(super) async fn on_deletion(csv: &ClusterServiceVersion, ctx: &Ctx) -> Result<Action, Error> {
    if !csv.finalizers().iter().any(|f| f == FINALIZER_CSV_CLEANUP) {
        return Ok(Action::await_change());
    }
    let name = csv.name_any();
    let namespace = csv.namespace().unwrap_or_default();
    let owner = OwnerKey::new("ClusterServiceVersion", &namespace, &name);
    stop_converting(csv, ctx).await?;
    let found = labelled(&ctx.client, &selector(&name, &namespace)).await;
    for object in found.map_err(Error::kube(format!("list the objects of ClusterServiceVersion {name}")))? {
        if !out_of_reach(&object.metadata, &owner) {
            continue;
        }
        let released =
            release(&object, &ctx.client).await.map_err(Error::kube(format!("delete {object}")))?;
        if let Released::Passed(owner) = released {
            tracing::info!(%object, from = %name, to = %owner.name, namespace = %owner.namespace, "handed over");
        }
    }
    let left = leave(csv, &ctx.client).await;
    left.map_err(Error::kube(format!(
        "remove the labels of ClusterServiceVersion {name} from shared objects"
    )))?;
    ctx.parts.cleaned(csv.metadata.uid.as_deref().unwrap_or_default());
    let finalizers: Vec<&String> = csv.finalizers().iter().filter(|f| *f != FINALIZER_CSV_CLEANUP).collect();
    let patch =
        json!({ "metadata": { "finalizers": finalizers, "resourceVersion": csv.resource_version() } });
    let api = Api::<ClusterServiceVersion>::namespaced(ctx.client.clone(), &namespace);
    match api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(_) => Ok(Action::await_change()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Action::await_change()),
        Err(error) => {
            Err(Error::kube(format!("remove the finalizer of ClusterServiceVersion {name}"))(error))
        }
    }
}

/// Objects of a CRD whose conversion webhook is gone can be neither read nor deleted. So the conversion of
/// its CRDs is disabled, unless another version takes it over.
async fn stop_converting(csv: &ClusterServiceVersion, ctx: &Ctx) -> Result<(), Error> {
    let mine = converted(csv);
    if mine.is_empty() {
        return Ok(());
    }
    let namespace = csv.namespace().unwrap_or_default();
    let all = Api::<ClusterServiceVersion>::namespaced(ctx.client.clone(), &namespace)
        .list(&ListParams::default())
        .await
        .map_err(Error::kube(format!("list ClusterServiceVersions in {namespace}")))?;
    let api = Api::<CustomResourceDefinition>::all(ctx.client.clone());
    for crd in mine {
        let others = all.items.iter().filter(|other| {
            other.metadata.deletion_timestamp.is_none() && other.metadata.name != csv.metadata.name
        });
        if others.flat_map(converted).any(|other| other == crd) {
            continue;
        }
        let live =
            api.get_opt(crd).await.map_err(Error::kube(format!("get CustomResourceDefinition {crd}")))?;
        if !live.is_some_and(|live| converts_in(&live, &namespace)) {
            continue;
        }
        let patch = json!({ "spec": { "conversion": { "strategy": "None", "webhook": null } } });
        match api.patch(crd, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(error) => {
                let what = format!("remove the conversion webhook of CustomResourceDefinition {crd}");
                return Err(Error::kube(what)(error));
            }
        }
    }
    Ok(())
}

/// The CRDs that a version converts.
fn converted(csv: &ClusterServiceVersion) -> Vec<&str> {
    let webhooks = csv.spec.webhook_definitions.iter().filter(|w| w.type_ == "ConversionWebhook");
    webhooks.flat_map(|w| w.conversion_crds.iter().map(String::as_str)).collect()
}

/// Whether a CRD is converted by a Service of a namespace.
fn converts_in(crd: &CustomResourceDefinition, namespace: &str) -> bool {
    let webhook = crd.spec.conversion.as_ref().and_then(|c| c.webhook.as_ref());
    let service = webhook.and_then(|w| w.client_config.as_ref()).and_then(|c| c.service.as_ref());
    service.is_some_and(|service| service.namespace == namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crd_converted_by_another_service_is_left_unchanged() {
        let crd = |conversion: serde_json::Value| -> CustomResourceDefinition {
            serde_json::from_value(json!({ "metadata": { "name": "things.example.com" }, "spec": {
                "group": "example.com", "names": { "kind": "Thing", "plural": "things" }, "scope": "Namespaced",
                "versions": [], "conversion": conversion } }))
            .unwrap()
        };
        let by = |namespace: &str| {
            crd(json!({ "strategy": "Webhook", "webhook": { "conversionReviewVersions": ["v1"],
                "clientConfig": { "service": { "namespace": namespace, "name": "thing-service" } } } }))
        };
        assert!(converts_in(&by("ns"), "ns"));
        assert!(!converts_in(&by("other"), "ns"));
        assert!(!converts_in(&crd(json!({ "strategy": "None" })), "ns"));
    }
}

//! YAML of the operator's Subscription, ClusterServiceVersion and current InstallPlan.

use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject},
};
use maud::{Markup, html};
use olm_api::{ClusterServiceVersion, InstallPlan, Subscription, names};
use olm_ops::Overview;
use olm_plan::without_secrets;
use serde_json::{Value, json};

use crate::{dynamic, error::WebError, links::clean, view::parts};

/// The objects as the API server returns them, without what [`shown`] removes.
pub(super) async fn read(client: &Client, namespace: &str, view: &Overview) -> Result<Vec<Value>, WebError> {
    let wanted = [
        (ApiResource::erase::<Subscription>(&()), view.subscription.as_ref().map(ResourceExt::name_any)),
        (ApiResource::erase::<ClusterServiceVersion>(&()), view.csv.as_ref().map(ResourceExt::name_any)),
        (ApiResource::erase::<InstallPlan>(&()), view.plan.as_ref().map(ResourceExt::name_any)),
    ];
    let mut out = Vec::new();
    for (resource, name) in wanted {
        let Some(name) = name else { continue };
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        // An object that was deleted in the meantime is left out.
        if let Some(object) = api.get_opt(&name).await? {
            out.push(shown(serde_json::to_value(object).unwrap_or_default()));
        }
    }
    Ok(out)
}

/// An object without managed fields, labels of olm, secret values and the data of icons.
fn shown(object: Value) -> Value {
    let mut object = without_secrets(&dynamic::tidy(object));
    if let Some(labels) = object.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.retain(|key, _| !names::is_own_label(key));
    }
    for icon in object.pointer_mut("/spec/icon").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(data) = icon.get_mut("base64data") {
            *data = json!(format!("({} characters)", data.as_str().unwrap_or_default().len()));
        }
    }
    for step in object.pointer_mut("/status/plan").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(manifest) = step.pointer_mut("/resource/manifest")
            && let Some(text) = manifest.as_str().filter(|text| !text.is_empty())
        {
            *manifest = json!(manifest_shown(text));
        }
    }
    object
}

/// A manifest inside of an InstallPlan. Text that is not an object is hidden: its secrets are unknown.
fn manifest_shown(text: &str) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(object) if object.is_object() => without_secrets(&object).to_string(),
        _ => format!("({} characters)", text.len()),
    }
}

pub(super) fn show(list: &[Value]) -> Markup {
    html! {
        div.stack-s {
            p.small.muted { "Without managed fields, labels of olm, the data of icons and secret values." }
            @for (i, object) in list.iter().enumerate() {
                @let text = |pointer: &str| clean(object.pointer(pointer).and_then(Value::as_str).unwrap_or_default());
                @let kind = text("/kind");
                details.fold id={ "yaml-" (kind) } open[i == 0] {
                    summary { (kind) " " span.muted { (text("/metadata/name")) } }
                    div.body { (parts::copyable(&format!("yaml-text-{kind}"), "YAML", &clean(&dynamic::yaml(object)))) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_bookkeeping_are_hidden() {
        let manifest = json!({ "kind": "Secret", "data": { "key": "c2VjcmV0" } }).to_string();
        let plan = json!({
            "kind": "InstallPlan",
            "metadata": { "name": "a", "managedFields": [{}],
                "labels": { "olm.managed": "true", "operators.coreos.com/etcd.etcd": "", "team": "db" },
                "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "c2VjcmV0", "note": "x" } },
            "status": { "plan": [{ "resource": { "manifest": manifest } }, { "resource": { "manifest": "c2VjcmV0" } }] },
        });
        let out = shown(plan);
        assert!(!out.to_string().contains("c2VjcmV0"), "{out}");
        assert_eq!(out["metadata"]["labels"], json!({ "team": "db" }));
        assert_eq!(out["metadata"]["annotations"], json!({ "note": "x" }));
        assert!(out["metadata"].get("managedFields").is_none());
        assert!(out["status"]["plan"][0]["resource"]["manifest"].as_str().unwrap().contains("***"));
    }
}

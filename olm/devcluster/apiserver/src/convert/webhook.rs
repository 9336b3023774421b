//! CRDs with a conversion webhook (`spec.conversion.strategy: Webhook`).

use std::{sync::Arc, time::Duration};

use olm_devcluster_machinery::crd::Crd;
use serde_json::{Map, Value, json};

use crate::{
    meta::{self, list, text},
    outbound::{Endpoint, Network, decode_bundle},
    status::{ApiError, ApiResult},
};

/// Kubernetes' fixed timeout.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Page size of API clients; more objects are sent in several calls.
const MOST_OBJECTS: usize = 500;

/// The webhook of a CRD.
pub(crate) struct ConversionWebhook {
    endpoint: Result<Endpoint, String>,
    /// The highest version of ConversionReview that both it and the API server support.
    review: Option<&'static str>,
}

impl ConversionWebhook {
    /// The webhook of a CRD, if any.
    pub(crate) fn of_crd(crd: &Value) -> Option<Self> {
        let conversion = crd.pointer("/spec/conversion")?;
        if text(conversion, "/strategy") != "Webhook" {
            return None;
        }
        let webhook = conversion.get("webhook")?;
        let spoken = list(webhook, "/conversionReviewVersions").iter().filter_map(Value::as_str);
        let mut client = webhook["clientConfig"].clone();
        // Manifest generators leave whitespace as a placeholder for injected bundles; as in Kubernetes, that
        // counts as no bundle.
        let blank = |bundle: Vec<u8>| bundle.trim_ascii().is_empty();
        if decode_bundle(text(&client, "/caBundle")).is_ok_and(blank) {
            meta::as_map(&mut client).shift_remove("caBundle");
        }
        Some(Self {
            endpoint: Endpoint::of_client_config(&client),
            review: spoken.filter_map(|v| ["v1", "v1beta1"].into_iter().find(|known| *known == v)).next(),
        })
    }

    /// Converts objects of a CRD to a version; those that are in it already are not sent.
    pub(crate) async fn convert(
        &self,
        network: &Network<'_>,
        crd: &Crd,
        api_version: &str,
        mut objects: Vec<Arc<Value>>,
    ) -> ApiResult<Vec<Arc<Value>>> {
        let places: Vec<usize> = objects
            .iter()
            .enumerate()
            .filter(|(_, object)| text(object, "/apiVersion") != api_version)
            .map(|(place, _)| place)
            .collect();
        for places in places.chunks(MOST_OBJECTS) {
            let sent: Vec<Arc<Value>> = places.iter().map(|place| objects[*place].clone()).collect();
            let converted = self.call(network, api_version, &sent).await.map_err(|why| {
                let from = sent.first().map(|o| text(o, "/apiVersion")).unwrap_or_default();
                let message = format!("conversion webhook for {from}, Kind={} {why}", crd.kind);
                ApiError::new(500, "", message)
            })?;
            let version = api_version.rsplit('/').next().and_then(|name| crd.version(name));
            for (place, mut object) in places.iter().zip(converted) {
                if let Some(version) = version {
                    version.schema.prune(&mut object);
                    version.schema.default(&mut object);
                }
                objects[*place] = Arc::new(object);
            }
        }
        Ok(objects)
    }

    async fn call(
        &self,
        network: &Network<'_>,
        api_version: &str,
        objects: &[Arc<Value>],
    ) -> Result<Vec<Value>, String> {
        let endpoint = self.endpoint.as_ref().map_err(|why| format!("failed: {why}"))?;
        let version = self.review.ok_or("failed: no supported conversion review versions")?;
        let uid = meta::new_uid();
        let sent: Vec<&Value> = objects.iter().map(AsRef::as_ref).collect();
        let review = json!({
            "kind": "ConversionReview", "apiVersion": format!("apiextensions.k8s.io/{version}"),
            "request": { "uid": uid, "desiredAPIVersion": api_version, "objects": sent },
        });
        let answer =
            endpoint.post(network, TIMEOUT, &review).await.map_err(|why| format!("failed: {why}"))?;
        let mut converted =
            converted_objects(answer, version, &uid).map_err(|why| format!("failed: {why}"))?;
        if converted.len() != objects.len() {
            return Err(format!("returned {} objects, expected {}", converted.len(), objects.len()));
        }
        for (index, (original, object)) in objects.iter().zip(&mut converted).enumerate() {
            check(original, object, api_version)
                .map_err(|why| format!("returned invalid converted object at index {index}: {why}"))?;
            restore_metadata(original, object)
                .map_err(|why| format!("returned invalid metadata in object at index {index}: {why}"))?;
        }
        Ok(converted)
    }
}

fn converted_objects(mut answer: Value, version: &str, uid: &str) -> Result<Vec<Value>, String> {
    // v1beta1 does not require type and uid.
    if version == "v1" {
        let (api, kind) = (text(&answer, "/apiVersion"), text(&answer, "/kind"));
        if (api, kind) != ("apiextensions.k8s.io/v1", "ConversionReview") {
            return Err(format!(
                "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got {api}, Kind={kind}"
            ));
        }
    }
    let Some(response) = answer.get_mut("response").filter(|r| r.is_object()) else {
        return Err("no response provided".to_owned());
    };
    if version == "v1" && text(response, "/uid") != uid {
        return Err(format!("expected response.uid={uid:?}, got {:?}", text(response, "/uid")));
    }
    let status = text(response, "/result/status");
    if status != "Success" {
        return Err(match text(response, "/result/message") {
            "" => format!("response.result.status was '{status}', not 'Success'"),
            message => message.to_owned(),
        });
    }
    match response["convertedObjects"].take() {
        Value::Array(objects) => Ok(objects),
        _ => Ok(Vec::new()),
    }
}

fn check(original: &Value, converted: &Value, api_version: &str) -> Result<(), String> {
    let got = text(converted, "/apiVersion");
    if got != api_version {
        return Err(format!("invalid groupVersion (expected {api_version}, received {got})"));
    }
    let (expected, got) = (text(original, "/kind"), text(converted, "/kind"));
    if expected != got {
        return Err(format!("invalid kind (expected {expected}, received {got})"));
    }
    for (what, pointer) in
        [("name", "/metadata/name"), ("namespace", "/metadata/namespace"), ("UID", "/metadata/uid")]
    {
        let (expected, got) = (text(original, pointer), text(converted, pointer));
        if expected != got {
            return Err(format!("must have the same {what}: {expected} != {got}"));
        }
    }
    Ok(())
}

/// A webhook may change labels and annotations, but no other metadata.
fn restore_metadata(original: &Value, converted: &mut Value) -> Result<(), String> {
    let Some(given) = converted.get("metadata") else {
        return Err("missing metadata in converted object".to_owned());
    };
    let Some(given) = given.as_object() else {
        return Err("invalid metadata in converted object: it is not an object".to_owned());
    };
    let mut metadata: Map<String, Value> =
        original.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    for field in ["labels", "annotations"] {
        let value = given.get(field).filter(|v| !v.is_null());
        for (key, value) in value.and_then(Value::as_object).into_iter().flatten() {
            if !value.is_string() {
                return Err(format!("metadata.{field}[{key}] must be a string in the converted object"));
            }
        }
        if value.is_some_and(|v| !v.is_object()) {
            return Err(format!("invalid metadata.{field} in converted object: it is not an object"));
        }
        meta::set_or_remove(&mut metadata, field, value.cloned());
    }
    meta::as_map(converted).insert("metadata".to_owned(), metadata.into());
    Ok(())
}

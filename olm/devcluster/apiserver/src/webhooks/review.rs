//! Requests to and responses from webhooks.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use olm_kube_schema::Named;
use serde_json::{Value, json};

use super::{hook::Hook, matching::Kind, request::AdmissionRequest};
use crate::{
    meta::{self, list, text},
    resource::Resource,
    status::{ApiError, ApiResult},
};

/// A webhook that did not allow the request.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The call failed or the response is invalid; `failurePolicy` decides.
    Failed(ApiError),
    /// It denied the request, or its patch failed.
    Denied(ApiError),
}

/// The response of a webhook that allowed the request.
#[derive(Debug, Default)]
pub(super) struct ReviewResponse {
    /// The JSON patch, empty without changes.
    pub patch: Value,
}

/// The subject of the review: the resource in the webhook's version, and the objects in it.
pub(crate) struct ReviewSubject<'a> {
    pub resource: &'a Resource,
    pub kind: &'a Kind,
    pub request_kind: &'a Kind,
    pub object: Option<&'a Value>,
    pub old: Option<&'a Arc<Value>>,
    pub mutating: bool,
}

/// Whether the match conditions of a webhook hold. A failed evaluation counts as a failure of the webhook.
pub(super) fn applies(
    hook: &Hook,
    admission: &AdmissionRequest<'_>,
    subject: &ReviewSubject<'_>,
) -> ApiResult<bool> {
    if hook.conditions.is_empty() {
        return Ok(true);
    }
    let request = request(admission, subject, "");
    let old: Option<&Arc<Value>> = subject.old;
    let values = [
        ("object", subject.object.unwrap_or(&Value::Null)),
        ("oldObject", old.map_or(&Value::Null, AsRef::as_ref)),
        ("request", &request),
    ];
    match hook.conditions.decide(&Named::default().bind(&values)) {
        Ok(holds) => Ok(holds),
        Err(_) if hook.ignores_failures => Ok(false),
        Err(why) => {
            let resource = admission.resource;
            Err(ApiError::forbidden(&resource.plural, &resource.group, admission.name, &why))
        }
    }
}

pub(super) async fn call(
    hook: &Hook,
    admission: &AdmissionRequest<'_>,
    subject: &ReviewSubject<'_>,
) -> Result<ReviewResponse, Refusal> {
    if admission.dry_run && !hook.dry_run {
        let message = format!("admission webhook \"{}\" does not support dry run", hook.name);
        return Err(Refusal::Denied(ApiError::bad_request(message)));
    }
    let failed = |why: String| {
        Refusal::Failed(ApiError::internal(format!("failed calling webhook \"{}\": {why}", hook.name)))
    };
    let version = hook.review.ok_or_else(|| {
        failed("could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)".into())
    })?;
    let endpoint =
        hook.endpoint.as_ref().map_err(|why| failed(format!("could not get REST client: {why}")))?;
    let uid = meta::new_uid();
    let review = review(admission, subject, version, &uid);
    let answer = endpoint
        .post(&admission.server.network(), hook.timeout, &review)
        .await
        .map_err(|why| failed(format!("failed to call webhook: {why}")))?;
    let response = verify(&answer, version, &uid, subject.mutating)
        .map_err(|why| failed(format!("received invalid webhook response: {why}")))?;
    for warning in list(response, "/warnings").iter().filter_map(Value::as_str) {
        admission.warn(warning);
    }
    if response["allowed"] != true {
        return Err(Refusal::Denied(denial(&hook.name, &response["status"])));
    }
    let undecodable = |why: String| failed(format!("received undecodable patch in webhook response: {why}"));
    let bytes = match subject.mutating {
        true => bytes(&response["patch"]).map_err(undecodable)?,
        false => Vec::new(),
    };
    if bytes.is_empty() {
        return Ok(ReviewResponse::default());
    }
    let patch: Value = serde_json::from_slice(&bytes).map_err(|error| undecodable(error.to_string()))?;
    if !patch.is_array() {
        return Err(undecodable("it is not a list of operations".to_owned()));
    }
    // v1beta1 has no patch type.
    if version == "v1" && text(response, "/patchType") != "JSONPatch" {
        return Err(failed(format!("unsupported patch type {:?}", text(response, "/patchType"))));
    }
    Ok(ReviewResponse { patch })
}

/// Bytes in the forms that Go reads from JSON: base64, or a list of numbers, which kube-rs writes.
fn bytes(value: &Value) -> Result<Vec<u8>, String> {
    let byte = |value: &Value| value.as_u64().and_then(|number| u8::try_from(number).ok());
    match value {
        Value::Array(list) => {
            list.iter().map(byte).collect::<Option<_>>().ok_or("not a list of bytes".to_owned())
        }
        value => STANDARD.decode(value.as_str().unwrap_or_default()).map_err(|error| error.to_string()),
    }
}

fn review(admission: &AdmissionRequest<'_>, subject: &ReviewSubject<'_>, version: &str, uid: &str) -> Value {
    let mut request = request(admission, subject, uid);
    request["object"] = subject.object.cloned().unwrap_or_default();
    request["oldObject"] = subject.old.map(|old| Value::clone(old)).unwrap_or_default();
    json!({ "kind": "AdmissionReview", "apiVersion": format!("admission.k8s.io/{version}"), "request": request })
}

/// The request without its objects.
pub(crate) fn request(admission: &AdmissionRequest<'_>, subject: &ReviewSubject<'_>, uid: &str) -> Value {
    let kind = |k: &Kind| json!({ "group": k.group, "version": k.version, "kind": k.kind });
    let resource = |r: &Resource| json!({ "group": r.group, "version": r.version, "resource": r.plural });
    let mut request = json!({
        "uid": uid,
        "kind": kind(subject.kind),
        "resource": resource(subject.resource),
        "requestKind": kind(subject.request_kind),
        "requestResource": resource(admission.resource),
        "operation": admission.operation.as_str(),
        "userInfo": admission.caller.to_user_info(),
        "dryRun": admission.dry_run,
        "options": (admission.options)(),
    });
    let texts = [
        ("subResource", admission.subresource),
        ("requestSubResource", admission.subresource),
        ("name", admission.name),
        ("namespace", admission.namespace),
    ];
    for (key, value) in texts {
        if !value.is_empty() {
            request[key] = value.into();
        }
    }
    request
}

/// Validates the response of a review.
fn verify<'a>(answer: &'a Value, version: &str, uid: &str, mutating: bool) -> Result<&'a Value, String> {
    let Some(response) = answer.get("response").filter(|r| r.is_object()) else {
        return Err("webhook response was absent".to_owned());
    };
    // v1beta1 is less strict.
    if version != "v1" {
        return Ok(response);
    }
    let got = text(response, "/uid");
    if got != uid {
        return Err(format!("expected response.uid={uid:?}, got {got:?}"));
    }
    let (api, kind) = (text(answer, "/apiVersion"), text(answer, "/kind"));
    if (api, kind) != ("admission.k8s.io/v1", "AdmissionReview") {
        return Err(format!(
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {api}, Kind={kind}"
        ));
    }
    let is_empty =
        |value: &Value| value.as_array().map_or(value.as_str().is_none_or(str::is_empty), Vec::is_empty);
    let patch_type = response.get("patchType").filter(|t| !t.is_null());
    match (mutating, is_empty(&response["patch"]), patch_type) {
        (true, false, None) => Err("webhook returned response.patch but not response.patchType".to_owned()),
        (true, true, Some(_)) => Err("webhook returned response.patchType but not response.patch".to_owned()),
        (true, _, Some(Value::String(empty))) if empty.is_empty() => {
            Err("webhook returned invalid response.patchType of \"\"".to_owned())
        }
        (false, false, _) => Err("validating webhook may not return response.patch".to_owned()),
        (false, _, Some(_)) => Err("validating webhook may not return response.patchType".to_owned()),
        _ => Ok(response),
    }
}

/// The `Status` of a denial, never one with a success code.
fn denial(name: &str, status: &Value) -> ApiError {
    let denied = format!("admission webhook \"{name}\" denied the request");
    let message = match (text(status, "/message"), text(status, "/reason")) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let code =
        status["code"].as_u64().and_then(|c| u16::try_from(c).ok()).filter(|c| (400..=599).contains(c));
    let error = ApiError::new(code.unwrap_or(400), text(status, "/reason"), message);
    match status.get("details").filter(|d| d.is_object()) {
        Some(details) => error.details(details.clone()),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_base64_or_a_list_of_numbers() {
        assert_eq!(bytes(&json!("W10=")).unwrap(), b"[]");
        assert_eq!(bytes(&json!([91, 93])).unwrap(), b"[]");
        assert_eq!(bytes(&Value::Null).unwrap(), b"");
        assert!(bytes(&json!("not base64")).is_err());
        assert!(bytes(&json!([91, 256])).is_err());
    }
}

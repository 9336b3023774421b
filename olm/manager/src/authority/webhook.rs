//! The webhook that records requests and approvals for API servers without MutatingAdmissionPolicies
//! (Kubernetes before 1.36). It is equivalent to the [policies](olm_ops::authority::policies); the API server refuses requests while no
//! manager answers, so that none is unrecorded.

use axum::Json;
use kube::core::{
    DynamicObject,
    admission::{AdmissionRequest, AdmissionResponse, AdmissionReview},
};
use olm_api::names;
use serde_json::{Value, json};

use olm_ops::authority::policies::{CONTENT, DECISIONS};

/// Answers an admission review; `manager` is the manager's user name.
pub(crate) async fn answer(
    Json(review): Json<AdmissionReview<DynamicObject>>,
    manager: String,
) -> Json<AdmissionReview<DynamicObject>> {
    let request: Result<AdmissionRequest<DynamicObject>, _> = review.try_into();
    let response = match request {
        Ok(request) => respond(&request, &manager),
        Err(_) => AdmissionResponse::invalid("the AdmissionReview has no request"),
    };
    Json(response.into_review())
}

fn respond(request: &AdmissionRequest<DynamicObject>, manager: &str) -> AdmissionResponse {
    let response = AdmissionResponse::from(request);
    let record = match decide(request, manager) {
        Ok(None) => return response,
        Ok(Some(record)) => record,
        Err(why) => return refused(response, why),
    };
    let steps = serde_json::from_value(steps(request, record)).map_err(|error| error.to_string());
    let recorded =
        steps.and_then(|patch| response.clone().with_patch(patch).map_err(|error| error.to_string()));
    recorded.unwrap_or_else(|why| refused(response, why))
}

fn refused(response: AdmissionResponse, why: String) -> AdmissionResponse {
    let mut response = response.deny(why);
    (response.result.code, response.result.reason) = (403, "Forbidden".to_owned());
    response
}

type Record = [(&'static str, String); 2];

/// The decision of the policies on a request: record, pass, or refuse with a reason. Pure.
fn decide(request: &AdmissionRequest<DynamicObject>, manager: &str) -> Result<Option<Record>, String> {
    let Some(now) = &request.object else { return Ok(None) };
    let (before, user) =
        (request.old_object.as_ref(), request.user_info.username.clone().unwrap_or_default());
    let groups = request.user_info.groups.iter().flatten().filter(|group| !group.contains('\n'));
    let groups = groups.map(String::as_str).collect::<Vec<_>>().join("\n");
    let same = |keys: &[&str]| keys.iter().all(|key| annotation(Some(now), key) == annotation(before, key));
    let same_text = |key: &str| {
        annotation(Some(now), key).unwrap_or_default() == annotation(before, key).unwrap_or_default()
    };
    if request.resource.resource != "installplans" {
        let changes = before.is_none_or(|before| spec(before) != spec(now)) || !same(&DECISIONS);
        let record =
            [(names::ANNOTATION_REQUESTED_BY, user.clone()), (names::ANNOTATION_REQUESTED_BY_GROUPS, groups)];
        return Ok((user != manager && changes).then_some(record));
    }
    let approved = |object: &DynamicObject| object.data["spec"]["approved"] == true;
    let approves = approved(now) && !before.is_some_and(approved);
    if user != manager {
        let same_approver =
            [names::ANNOTATION_APPROVED_BY, names::ANNOTATION_APPROVED_BY_GROUPS].map(same_text);
        if !approves && same_approver.contains(&false) {
            return Err(format!(
                "annotation {} records the approver: it can only be set in the request that sets \
                    spec.approved",
                names::ANNOTATION_APPROVED_BY
            ));
        }
        let empty =
            |value: &Value| value.is_null() || value == "" || value.as_array().is_some_and(Vec::is_empty);
        let kept = |field: &str| {
            let old = before.map(|before| &before.data["spec"][field]);
            let new = &now.data["spec"][field];
            old.is_none_or(|old| old == new || empty(old) && empty(new))
        };
        if !same(&CONTENT) || !kept("planDigest") || !kept("clusterServiceVersionNames") {
            return Err(
                "the content of an InstallPlan is written by the manager: only spec.approved can be changed"
                    .to_owned(),
            );
        }
    }
    let record = [(names::ANNOTATION_APPROVED_BY, user), (names::ANNOTATION_APPROVED_BY_GROUPS, groups)];
    Ok(approves.then_some(record))
}

fn spec(object: &DynamicObject) -> &Value {
    &object.data["spec"]
}

fn annotation<'a>(object: Option<&'a DynamicObject>, key: &str) -> Option<&'a str> {
    object?.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// The JSON patch that writes a record.
fn steps(request: &AdmissionRequest<DynamicObject>, record: Record) -> Value {
    let has_any = request.object.as_ref().is_some_and(|object| object.metadata.annotations.is_some());
    let map = (!has_any).then(|| json!({ "op": "add", "path": "/metadata/annotations", "value": {} }));
    // The keys contain neither `~` nor `/`.
    let annotations = record.map(
        |(key, value)| json!({ "op": "add", "path": format!("/metadata/annotations/{key}"), "value": value }),
    );
    map.into_iter().chain(annotations).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scenario compares its decisions with the policies'; this covers input that no client can send.
    #[test]
    fn t21_a_group_with_a_line_break_is_not_two_groups() {
        let request = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "u", "operation": "CREATE", "name": "a",
                "kind": { "group": names::GROUP, "version": "v1alpha1", "kind": "Subscription" },
                "resource": { "group": names::GROUP, "version": "v1alpha1", "resource": "subscriptions" },
                "userInfo": { "username": "eve", "groups": ["team\nsystem:masters", "dev"] },
                "object": { "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "metadata": { "name": "a" } },
            },
        });
        let review: AdmissionReview<DynamicObject> = serde_json::from_value(request).unwrap();
        let request = review.try_into().unwrap();
        let [user, groups] = decide(&request, "manager").unwrap().unwrap();
        assert_eq!((user.1.as_str(), groups.1.as_str()), ("eve", "dev"));
        assert_eq!(steps(&request, [user, groups])[0]["path"], "/metadata/annotations");
    }
}

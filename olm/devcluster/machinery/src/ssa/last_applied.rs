//! Migration from `kubectl apply` to `kubectl apply --server-side`: unchanged fields of the last client-side
//! apply belong to the applier and do not conflict.

use serde_json::Value;

use super::{
    ApplyRequest,
    fields::{compare, fields_of},
    merge::merge,
    set::FieldSet,
};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The field manager of `kubectl apply --server-side`.
const KUBECTL: &str = "kubectl";

fn annotation<'a>(request: &ApplyRequest<'_>, live: Option<&'a Value>) -> Option<&'a str> {
    let annotations = live?.get("metadata")?.get("annotations")?;
    annotations
        .get(ANNOTATION)?
        .as_str()
        .filter(|_| request.manager == KUBECTL && request.subresource.is_none())
}

/// The fields of the last client-side apply that are unchanged since.
pub(super) fn last_applied_fields(request: &ApplyRequest<'_>, live: Option<&Value>) -> FieldSet {
    let last = annotation(request, live).and_then(|text| serde_json::from_str::<Value>(text).ok());
    let (Some(last), Some(live)) = (last, live) else { return FieldSet::default() };
    let merged = merge(request.layout, Some(live), &last);
    let changed = compare(request.layout, live, &merged);
    fields_of(request.layout, &last).difference(&changed.modified).difference(&changed.added)
}

/// Updates the annotation, so that a later client-side apply starts from the current configuration.
pub(super) fn update(request: &ApplyRequest<'_>, config: &Value, object: &mut Value) {
    if annotation(request, request.live).is_none() {
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) = config.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.shift_remove(ANNOTATION);
    }
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.insert(ANNOTATION.to_owned(), format!("{config}\n").into());
    }
}

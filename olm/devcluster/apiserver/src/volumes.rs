//! Volumes in the API server: defaults, validation and admission of storage classes, claims and volumes.

use olm_devcluster_machinery::field_error::FieldError;
use serde_json::{Value, json};

use super::{
    meta::{self, default, list, text},
    resource::Resource,
    store::Store,
};

pub(crate) const GROUP: &str = "storage.k8s.io";
/// Blocks the deletion of a claim while a pod uses it.
const CLAIM_FINALIZER: &str = "kubernetes.io/pvc-protection";
/// Blocks the deletion of a volume while a claim is bound to it.
const VOLUME_FINALIZER: &str = "kubernetes.io/pv-protection";
/// Older name of `spec.storageClassName`.
const CLASS_ANNOTATION: &str = "/metadata/annotations/volume.beta.kubernetes.io~1storage-class";
const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

pub(crate) fn class_defaults(object: &mut Value) {
    default(object, "reclaimPolicy", "Delete");
    default(object, "volumeBindingMode", "Immediate");
}

pub(crate) fn volume_defaults(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    default(spec, "volumeMode", "Filesystem");
    default(spec, "persistentVolumeReclaimPolicy", "Retain");
    if let Some(host) = spec.get_mut("hostPath").filter(|host| host.is_object()) {
        default(host, "type", "");
    }
}

pub(crate) fn prepare_volume(object: &mut Value, live: Option<&Value>) {
    if live.is_none() {
        meta::child(object, "status").insert("phase".to_owned(), "Pending".into());
    }
}

/// As the plugins StorageObjectInUseProtection and DefaultStorageClass.
pub(crate) fn admit(resource: &Resource, store: &Store, object: &mut Value) {
    if resource.is("", "persistentvolumes") {
        add_finalizer(object, VOLUME_FINALIZER);
    } else if resource.is("", "persistentvolumeclaims") {
        add_finalizer(object, CLAIM_FINALIZER);
        let has_class =
            object.pointer("/spec/storageClassName").is_some() || !text(object, CLASS_ANNOTATION).is_empty();
        if !has_class && let Some(class) = default_class(store) {
            meta::child(object, "spec").insert("storageClassName".to_owned(), class.into());
        }
    }
}

fn add_finalizer(object: &mut Value, finalizer: &str) {
    if meta::finalizers(object).contains(&finalizer) {
        return;
    }
    let all = meta::metadata(object).entry("finalizers").or_insert_with(|| json!([]));
    if let Some(all) = all.as_array_mut() {
        all.push(finalizer.into());
    }
}

fn is_default(class: &Value) -> bool {
    ["storageclass.kubernetes.io", "storageclass.beta.kubernetes.io"]
        .iter()
        .any(|domain| text(class, &format!("/metadata/annotations/{domain}~1is-default-class")) == "true")
}

/// The newest default class.
fn default_class(store: &Store) -> Option<String> {
    let classes = store.list(&format!("{GROUP}/storageclasses"), "").items;
    let newest = classes.iter().filter(|class| is_default(class)).max_by(|a, b| {
        let time = |class: &Value| text(class, "/metadata/creationTimestamp").to_owned();
        // With equal timestamps the first by name.
        time(a).cmp(&time(b)).then_with(|| meta::name(b).cmp(meta::name(a)))
    });
    newest.map(|class| meta::name(class).to_owned())
}

pub(crate) fn class(object: &Value, live: Option<&Value>, errors: &mut Vec<FieldError>) {
    if text(object, "/provisioner").is_empty() {
        errors.push(FieldError::required("provisioner", ""));
    }
    one_of(object, "reclaimPolicy", &["Delete", "Retain"], errors);
    one_of(object, "volumeBindingMode", &["Immediate", "WaitForFirstConsumer"], errors);
    let Some(live) = live else { return };
    for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        if live.get(field) != object.get(field) {
            let value = object.get(field).cloned().unwrap_or_default();
            errors.push(FieldError::invalid(field, value, "field is immutable"));
        }
    }
}

fn one_of(object: &Value, field: &str, allowed: &[&str], errors: &mut Vec<FieldError>) {
    let value = text(object, &format!("/{field}"));
    if !allowed.contains(&value) {
        errors.push(FieldError::not_supported(field, value, allowed));
    }
}

fn access_modes(spec: &Value, missing: &str, errors: &mut Vec<FieldError>) {
    let modes = list(spec, "/accessModes");
    if modes.is_empty() {
        errors.push(FieldError::required("spec.accessModes", missing));
    }
    for mode in modes.iter().filter_map(Value::as_str) {
        if !MODES.contains(&mode) {
            errors.push(FieldError::not_supported("spec.accessModes", mode, MODES));
        }
    }
    if modes.len() > 1 && modes.iter().any(|mode| mode == "ReadWriteOncePod") {
        let detail = "may not use ReadWriteOncePod with other access modes";
        errors.push(FieldError::forbidden("spec.accessModes", detail));
    }
}

/// Validates that a size is set and positive.
fn size(value: Option<&Value>, path: &str, errors: &mut Vec<FieldError>) {
    let Some(value) = value else { return errors.push(FieldError::required(path, "")) };
    if amount(value).is_none_or(|amount| amount.sign() <= 0) {
        errors.push(FieldError::invalid(path, value.clone(), "must be greater than zero"));
    }
}

fn amount(value: &Value) -> Option<olm_kube_schema::quantity::Quantity> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

fn requested(object: &Value) -> Option<&Value> {
    object.pointer("/spec/resources/requests/storage")
}

pub(crate) fn claim(object: &Value, live: Option<&Value>, errors: &mut Vec<FieldError>) {
    let spec = &object["spec"];
    access_modes(spec, "at least 1 access mode is required", errors);
    size(requested(object), "spec.resources[storage]", errors);
    if !matches!(text(spec, "/volumeMode"), "Filesystem" | "Block") {
        let mode = text(spec, "/volumeMode");
        errors.push(FieldError::not_supported("spec.volumeMode", mode, ["Block", "Filesystem"]));
    }
    let Some(live) = live else { return };
    let bound = text(live, "/status/phase") == "Bound";
    let fixed = |claim: &Value| {
        let mut spec = claim["spec"].clone();
        let map = meta::as_map(&mut spec);
        if text(live, "/spec/volumeName").is_empty() {
            map.shift_remove("volumeName");
        }
        // Only a claim without a class may get one later.
        if live.pointer("/spec/storageClassName").is_none() {
            map.shift_remove("storageClassName");
        }
        if bound {
            map.shift_remove("volumeAttributesClassName");
            if let Some(requests) = spec.pointer_mut("/resources/requests") {
                meta::as_map(requests).shift_remove("storage");
            }
        }
        spec
    };
    if fixed(object) != fixed(live) {
        let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        errors.push(FieldError::forbidden("spec", detail));
    }
    let (old, new) = (requested(live).and_then(amount), requested(object).and_then(amount));
    if let (Some(old), Some(new)) = (old, new)
        && new.compare(old).is_lt()
    {
        errors.push(FieldError::forbidden(
            "spec.resources.requests.storage",
            "field can not be less than status.capacity",
        ));
    }
}

/// The reason why a claim may not be expanded: its class must allow it.
pub(crate) fn refuse_growth(store: &Store, object: &Value, live: &Value) -> Option<String> {
    let (old, new) = (requested(live).and_then(amount)?, requested(object).and_then(amount)?);
    if !new.compare(old).is_gt() {
        return None;
    }
    let name = text(live, "/spec/storageClassName");
    let class = store.get(&super::store::Key::new(&format!("{GROUP}/storageclasses"), "", name));
    let allowed = class.is_some_and(|class| class["allowVolumeExpansion"] == true);
    (!allowed).then(|| {
        "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
            .to_owned()
    })
}

/// Fields of a volume's spec that are not volume sources.
const NOT_SOURCES: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

fn sources(object: &Value) -> Vec<(&String, &Value)> {
    let spec = object.get("spec").and_then(Value::as_object);
    spec.into_iter().flatten().filter(|(key, _)| !NOT_SOURCES.contains(&key.as_str())).collect()
}

pub(crate) fn volume(object: &Value, live: Option<&Value>, errors: &mut Vec<FieldError>) {
    let spec = &object["spec"];
    access_modes(spec, "", errors);
    size(spec.pointer("/capacity/storage"), "spec.capacity[storage]", errors);
    match sources(object).len() {
        0 => errors.push(FieldError::required("spec", "must specify a volume type")),
        1 => {}
        _ => errors.push(FieldError::forbidden("spec", "may not specify more than 1 volume type")),
    }
    let policy = text(spec, "/persistentVolumeReclaimPolicy");
    if !matches!(policy, "Delete" | "Recycle" | "Retain") {
        let all = ["Delete", "Recycle", "Retain"];
        errors.push(FieldError::not_supported("spec.persistentVolumeReclaimPolicy", policy, all));
    }
    if let Some(live) = live
        && sources(live) != sources(object)
    {
        errors.push(FieldError::forbidden(
            "spec.persistentvolumesource",
            "spec.persistentvolumesource is immutable after creation",
        ));
    }
}

/// `standard (default)`.
pub(crate) fn class_name(object: &Value) -> String {
    let name = meta::name(object);
    if is_default(object) { format!("{name} (default)") } else { name.to_owned() }
}

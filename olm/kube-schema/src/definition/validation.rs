//! Parses a CustomResourceDefinition object to a [`Crd`], or to all of its errors.

use serde_json::Value;

use super::{Column, Crd, CrdVersion, ScalePaths, conversion, json_path};
use crate::{
    field_error::FieldError,
    names,
    schema::{Schema, child_path},
};

/// Validates a CRD of apiextensions.k8s.io/v1 and reads it. Defaulted names may be missing.
pub fn parse(crd: &Value) -> Result<Crd, Vec<FieldError>> {
    let mut errors = Vec::new();
    let spec = &crd["spec"];
    let group = string(spec, "group");
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if !names::is_dns_subdomain(&group) {
        errors.push(FieldError::invalid("spec.group", &*group, names::DNS_SUBDOMAIN));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid("spec.group", &*group, "should be a domain with at least one dot"));
    }
    let namespaced = match spec.get("scope").and_then(Value::as_str) {
        Some("Namespaced") => true,
        Some("Cluster") => false,
        None => {
            errors.push(FieldError::required("spec.scope", ""));
            false
        }
        Some(other) => {
            errors.push(FieldError::not_supported("spec.scope", other, ["Cluster", "Namespaced"]));
            false
        }
    };
    let mut crd_out = Crd {
        plural: string(&spec["names"], "plural"),
        singular: string(&spec["names"], "singular"),
        kind: string(&spec["names"], "kind"),
        list_kind: string(&spec["names"], "listKind"),
        short_names: strings(&spec["names"], "shortNames"),
        categories: strings(&spec["names"], "categories"),
        group,
        namespaced,
        versions: Vec::new(),
    };
    crd_out.fill_in_names();
    check_names(&crd_out, &mut errors);
    check_object_name(crd, &crd_out, &mut errors);
    conversion::check(spec, &mut errors);
    if spec.get("preserveUnknownFields") == Some(&Value::Bool(true)) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", true, detail));
    }
    crd_out.versions = versions(spec, &mut errors);
    if errors.is_empty() { Ok(crd_out) } else { Err(errors) }
}

fn string(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn strings(value: &Value, key: &str) -> Vec<String> {
    let list = value.get(key).and_then(Value::as_array);
    list.map(|list| list.iter().filter_map(Value::as_str).map(str::to_owned).collect()).unwrap_or_default()
}

fn check_names(crd: &Crd, errors: &mut Vec<FieldError>) {
    for (key, value) in [("plural", &crd.plural), ("singular", &crd.singular)] {
        let path = format!("spec.names.{key}");
        if value.is_empty() {
            errors.push(FieldError::required(path, ""));
        } else if !names::is_dns1035_label(value) {
            errors.push(FieldError::invalid(path, value.as_str(), names::DNS1035_LABEL));
        }
    }
    for (key, value) in [("kind", &crd.kind), ("listKind", &crd.list_kind)] {
        let path = format!("spec.names.{key}");
        if value.is_empty() {
            errors.push(FieldError::required(path, ""));
        } else if !names::is_dns1035_label(&value.to_lowercase()) {
            let detail = format!("may have mixed case, but should otherwise match: {}", names::DNS1035_LABEL);
            errors.push(FieldError::invalid(path, value.as_str(), detail));
        }
    }
    if !crd.kind.is_empty() && crd.kind == crd.list_kind {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid("spec.names.listKind", crd.list_kind.as_str(), detail));
    }
    for (key, list) in [("shortNames", &crd.short_names), ("categories", &crd.categories)] {
        for (index, name) in list.iter().enumerate() {
            if !names::is_dns1035_label(name) {
                let path = format!("spec.names.{key}[{index}]");
                errors.push(FieldError::invalid(path, name.as_str(), names::DNS1035_LABEL));
            }
        }
    }
}

fn check_object_name(object: &Value, crd: &Crd, errors: &mut Vec<FieldError>) {
    let name = string(&object["metadata"], "name");
    let expected = format!("{}.{}", crd.plural, crd.group);
    if !crd.plural.is_empty() && !crd.group.is_empty() && name != expected {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", name, detail));
    }
    let is_protected = crd.group.ends_with(".k8s.io") || crd.group.ends_with(".kubernetes.io");
    let approval = &object["metadata"]["annotations"]["api-approved.kubernetes.io"];
    let path = "metadata.annotations[api-approved.kubernetes.io]";
    match approval.as_str() {
        _ if !is_protected => {}
        None | Some("") => {
            let detail = "protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111";
            errors.push(FieldError::required(path, detail));
        }
        Some(text) if text.contains("://") || text.starts_with("unapproved") => {}
        Some(text) => {
            let detail = "protected groups must have approval annotation \"api-approved.kubernetes.io\" with either a URL or a reason starting with \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111";
            errors.push(FieldError::invalid(path, text, detail));
        }
    }
}

fn versions(spec: &Value, errors: &mut Vec<FieldError>) -> Vec<CrdVersion> {
    let list = spec.get("versions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if list.is_empty() {
        errors.push(FieldError::required("spec.versions", "must have at least one version"));
        return Vec::new();
    }
    let mut versions: Vec<CrdVersion> = Vec::new();
    for (index, item) in list.iter().enumerate() {
        let path = format!("spec.versions[{index}]");
        let name = string(item, "name");
        if !names::is_dns1035_label(&name) {
            errors.push(FieldError::invalid(format!("{path}.name"), &*name, names::DNS1035_LABEL));
        } else if versions.iter().any(|v| v.name == name) {
            errors.push(FieldError::duplicate(format!("{path}.name"), &*name));
        }
        if let Some(version) = version(item, name, &path, errors) {
            versions.push(version);
        }
    }
    let flags = |key: &str| list.iter().filter(|v| v.get(key) == Some(&Value::Bool(true))).count();
    if flags("storage") != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", shown(list), detail));
    }
    versions
}

/// The versions without their schemas, which are too long for a message.
fn shown(versions: &[Value]) -> Value {
    versions.iter().map(|v| v.get("name").cloned().unwrap_or_default()).collect()
}

fn version(item: &Value, name: String, path: &str, errors: &mut Vec<FieldError>) -> Option<CrdVersion> {
    let flag = |key: &str| item.get(key) == Some(&Value::Bool(true));
    for key in ["served", "storage"] {
        if item.get(key).is_none() {
            errors.push(FieldError::required(format!("{path}.{key}"), ""));
        }
    }
    if item.get("deprecationWarning").is_some() && !flag("deprecated") {
        let detail = "can only be set for deprecated versions";
        errors.push(FieldError::invalid(
            format!("{path}.deprecationWarning"),
            item["deprecationWarning"].clone(),
            detail,
        ));
    }
    let schema_path = format!("{path}.schema.openAPIV3Schema");
    let schema = match item["schema"].get("openAPIV3Schema") {
        None | Some(Value::Null) => {
            errors.push(FieldError::required(schema_path, "schemas are required"));
            None
        }
        Some(schema) => Schema::compile(schema, &schema_path).map_err(|more| errors.extend(more)).ok(),
    };
    let scale = scale(item, path, errors);
    let columns = columns(item, path, errors);
    let selectable_fields = selectable_fields(item, path, errors);
    Some(CrdVersion {
        name,
        served: flag("served"),
        storage: flag("storage"),
        deprecated: flag("deprecated"),
        deprecation_warning: item.get("deprecationWarning").and_then(Value::as_str).map(str::to_owned),
        schema: schema?,
        status: item["subresources"].get("status").is_some_and(|s| !s.is_null()),
        scale,
        columns,
        selectable_fields,
    })
}

fn scale(item: &Value, path: &str, errors: &mut Vec<FieldError>) -> Option<ScalePaths> {
    let scale = item["subresources"].get("scale").filter(|s| !s.is_null())?;
    let path = format!("{path}.subresources.scale");
    let mut field = |key: &str, prefix: &str, required: bool| {
        let value = string(scale, key);
        let path = child_path(&path, key);
        if value.is_empty() {
            if required {
                errors.push(FieldError::required(path, ""));
            }
        } else if !value.starts_with(prefix) || !json_path::is_readable(&value) || value.contains('[') {
            let detail = format!("should be a json path under {prefix}");
            errors.push(FieldError::invalid(path, &*value, detail));
        }
        value
    };
    let spec_replicas_path = field("specReplicasPath", ".spec.", true);
    let status_replicas_path = field("statusReplicasPath", ".status.", true);
    // Upstream allows the selector under `.spec` as well.
    let prefix = if string(scale, "labelSelectorPath").starts_with(".spec.") { ".spec." } else { ".status." };
    let selector = field("labelSelectorPath", prefix, false);
    Some(ScalePaths {
        spec_replicas_path,
        status_replicas_path,
        label_selector_path: Some(selector).filter(|s| !s.is_empty()),
    })
}

fn columns(item: &Value, path: &str, errors: &mut Vec<FieldError>) -> Vec<Column> {
    let list = item.get("additionalPrinterColumns").and_then(Value::as_array);
    let mut columns = Vec::new();
    for (index, item) in list.map(Vec::as_slice).unwrap_or_default().iter().enumerate() {
        let path = format!("{path}.additionalPrinterColumns[{index}]");
        let column = Column {
            name: string(item, "name"),
            type_: string(item, "type"),
            format: string(item, "format"),
            description: string(item, "description"),
            priority: item.get("priority").and_then(Value::as_i64).unwrap_or(0),
            json_path: string(item, "jsonPath"),
        };
        if column.name.is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        }
        let types = ["boolean", "date", "integer", "number", "string"];
        if column.type_.is_empty() {
            let detail = format!("must be one of {}", types.join(","));
            errors.push(FieldError::required(format!("{path}.type"), detail));
        } else if !types.contains(&&*column.type_) {
            let detail = format!("must be one of {}", types.join(","));
            errors.push(FieldError::invalid(format!("{path}.type"), &*column.type_, detail));
        }
        if column.json_path.is_empty() {
            errors.push(FieldError::required(format!("{path}.jsonPath"), ""));
        } else if let Err(detail) = json_path::check(&column.json_path) {
            errors.push(FieldError::invalid(format!("{path}.jsonPath"), &*column.json_path, detail));
        }
        columns.push(column);
    }
    columns
}

fn selectable_fields(item: &Value, path: &str, errors: &mut Vec<FieldError>) -> Vec<String> {
    let list = item.get("selectableFields").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut fields: Vec<String> = Vec::new();
    for (index, item) in list.iter().enumerate() {
        let field = string(item, "jsonPath");
        let path = format!("{path}.selectableFields[{index}].jsonPath");
        if field.is_empty() {
            errors.push(FieldError::required(path, ""));
        } else if !field.starts_with('.')
            || field.starts_with(".metadata")
            || field.contains('[')
            || !json_path::is_readable(&field)
        {
            let detail = "must be a simple path to a field outside of metadata";
            errors.push(FieldError::invalid(path, &*field, detail));
        } else if fields.contains(&field) {
            errors.push(FieldError::duplicate(path, &*field));
        }
        fields.push(field);
    }
    fields
}

/// Fields that an update may not change, on top of [`parse`].
pub fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let established = super::is_established(old);
    for path in ["group", "scope", "names.plural", "names.kind"] {
        // The kind and the scope may be corrected until the definition is established.
        if !established && matches!(path, "scope" | "names.kind") {
            continue;
        }
        let at =
            |crd: &Value| path.split('.').try_fold(crd.get("spec")?.clone(), |v, key| v.get(key).cloned());
        let (new, old) = (at(new), at(old));
        if new != old {
            let detail = "field is immutable";
            errors.push(FieldError::invalid(format!("spec.{path}"), new.unwrap_or_default(), detail));
        }
    }
    let names: Vec<String> = new["spec"]["versions"]
        .as_array()
        .map(|list| list.iter().map(|v| string(v, "name")).collect())
        .unwrap_or_default();
    for (index, stored) in strings(&old["status"], "storedVersions").into_iter().enumerate() {
        if !names.contains(&stored) {
            let detail = "must appear in spec.versions";
            errors.push(FieldError::invalid(format!("status.storedVersions[{index}]"), stored, detail));
        }
    }
    errors
}

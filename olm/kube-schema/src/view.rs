//! A lenient view of a CustomResourceDefinition of either version of its API.
//!
//! A comparison must not depend on valid definitions: the one in the cluster may have been accepted by an
//! older API server, and the new one may have an error in an unrelated place.

use std::borrow::Cow;

use serde_json::Value;

/// The compared fields of a definition.
#[derive(Debug)]
pub(crate) struct View<'a> {
    pub group: &'a str,
    pub kind: &'a str,
    pub plural: &'a str,
    pub singular: Cow<'a, str>,
    pub list_kind: Cow<'a, str>,
    pub short_names: Vec<&'a str>,
    pub scope: &'a str,
    pub versions: Vec<Version<'a>>,
    /// `status.storedVersions`; without a status (a definition outside of a cluster), the storage version.
    pub stored: Vec<&'a str>,
    pub webhook: bool,
    /// Whether unknown fields are preserved everywhere: the default of apiextensions.k8s.io/v1beta1.
    pub preserves_all: bool,
}

/// The compared fields of a version.
#[derive(Debug)]
pub(crate) struct Version<'a> {
    pub name: &'a str,
    pub served: bool,
    pub storage: bool,
    pub deprecated: bool,
    pub schema: Option<&'a Value>,
    pub status: bool,
    pub scale: Option<&'a Value>,
    pub selectable: Vec<&'a str>,
}

impl<'a> View<'a> {
    /// Reads a definition; the error names the missing part.
    pub fn of(crd: &'a Value) -> Result<Self, &'static str> {
        if text(crd, "/kind") != "CustomResourceDefinition" {
            return Err("it is not a CustomResourceDefinition");
        }
        let old = match text(crd, "/apiVersion") {
            "apiextensions.k8s.io/v1" => false,
            "apiextensions.k8s.io/v1beta1" => true,
            _ => return Err("its apiVersion is neither apiextensions.k8s.io/v1 nor v1beta1"),
        };
        let spec = crd.get("spec").filter(|spec| spec.is_object()).ok_or("it has no spec")?;
        let versions = versions(spec, old);
        if versions.is_empty() {
            return Err("it has no versions");
        }
        let kind = text(spec, "/names/kind");
        let named = |pointer: &str, implied: String| match text(spec, pointer) {
            "" => Cow::Owned(implied),
            name => Cow::Borrowed(name),
        };
        let mut stored = texts(crd, "/status/storedVersions");
        if stored.is_empty() {
            stored.extend(versions.iter().filter(|version| version.storage).map(|version| version.name));
        }
        let preserve = spec.get("preserveUnknownFields").and_then(Value::as_bool);
        Ok(Self {
            group: text(spec, "/group"),
            kind,
            plural: text(spec, "/names/plural"),
            singular: named("/names/singular", kind.to_lowercase()),
            list_kind: named("/names/listKind", format!("{kind}List")),
            short_names: texts(spec, "/names/shortNames"),
            scope: match text(spec, "/scope") {
                "" if old => "Namespaced",
                scope => scope,
            },
            stored,
            webhook: text(spec, "/conversion/strategy") == "Webhook",
            preserves_all: preserve.unwrap_or(old),
            versions,
        })
    }

    pub fn version(&self, name: &str) -> Option<&Version<'a>> {
        self.versions.iter().find(|version| version.name == name)
    }

    pub fn storage(&self) -> Option<&Version<'a>> {
        self.versions.iter().find(|version| version.storage)
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn texts<'a>(value: &'a Value, pointer: &str) -> Vec<&'a str> {
    let list = value.pointer(pointer).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

fn present<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    value.pointer(pointer).filter(|value| !value.is_null())
}

fn versions(spec: &Value, old: bool) -> Vec<Version<'_>> {
    let is_set = |entry: &Value, key: &str| entry.get(key) == Some(&Value::Bool(true));
    // The old API has one of each for all versions, unless a version overrides it.
    let shared = |pointer: &str| if old { present(spec, pointer) } else { None };
    let list = spec.get("versions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if list.is_empty() && old {
        let name = text(spec, "/version");
        return match name {
            "" => Vec::new(),
            name => vec![Version {
                name,
                served: true,
                storage: true,
                deprecated: false,
                schema: shared("/validation/openAPIV3Schema"),
                status: shared("/subresources/status").is_some(),
                scale: shared("/subresources/scale"),
                selectable: Vec::new(),
            }],
        };
    }
    list.iter()
        .map(|entry| {
            let subresources = present(entry, "/subresources").or_else(|| shared("/subresources"));
            let subresource = |key: &str| subresources.and_then(|s| s.get(key)).filter(|s| !s.is_null());
            let fields = entry.get("selectableFields").and_then(Value::as_array);
            Version {
                name: text(entry, "/name"),
                served: is_set(entry, "served"),
                storage: is_set(entry, "storage"),
                deprecated: is_set(entry, "deprecated"),
                schema: present(entry, "/schema/openAPIV3Schema")
                    .or_else(|| shared("/validation/openAPIV3Schema")),
                status: subresource("status").is_some(),
                scale: subresource("scale"),
                selectable: fields.into_iter().flatten().map(|field| text(field, "/jsonPath")).collect(),
            }
        })
        .collect()
}

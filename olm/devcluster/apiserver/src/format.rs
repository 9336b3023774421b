//! The requested form of a response: whole objects, metadata only, or a table.

use std::sync::Arc;

use http::{HeaderMap, header};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    resource::Resource,
    serialized::SerializedObjects,
    status::{ApiError, ApiResult},
    table::{self, Rows},
};

/// Form of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Whole,
    /// `PartialObjectMetadata`.
    Metadata,
    /// `PartialObjectMetadataList`, for lists only.
    MetadataList,
    Table(Rows),
}

impl Format {
    /// Reads `Accept` and `includeObject`.
    pub(crate) fn negotiate(headers: &HeaderMap, include_object: &str) -> ApiResult<Self> {
        let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or("*/*");
        for clause in accept.split(',').map(str::trim).filter(|c| !c.is_empty()) {
            let mut parts = clause.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            if !matches!(
                media,
                "application/json" | "*/*" | "application/*" | "application/yaml" | "text/plain"
            ) {
                continue;
            }
            let parameter = |name: &str| {
                clause
                    .split(';')
                    .filter_map(|p| p.trim().split_once('='))
                    .find(|(k, _)| *k == name)
                    .map(|(_, v)| v)
            };
            match (parameter("as"), parameter("g"), parameter("v")) {
                (None, ..) => return Ok(Self::Whole),
                (Some("Table"), Some("meta.k8s.io"), Some("v1" | "v1beta1")) => {
                    let rows = match include_object {
                        "Object" => Rows::Object,
                        "None" => Rows::None,
                        _ => Rows::Metadata,
                    };
                    return Ok(Self::Table(rows));
                }
                (Some("PartialObjectMetadata"), Some("meta.k8s.io"), Some("v1")) => {
                    return Ok(Self::Metadata);
                }
                (Some("PartialObjectMetadataList"), Some("meta.k8s.io"), Some("v1")) => {
                    return Ok(Self::MetadataList);
                }
                _ => {}
            }
        }
        let message = "only the following media types are accepted: application/json";
        Err(ApiError::new(406, "NotAcceptable", message))
    }

    /// Refuses a form that is not possible for a response. A watch checks it at its first event.
    pub(crate) fn check(self, resource: &Resource, list: bool, verb: &str) -> ApiResult<()> {
        // Error messages contain Kubernetes' Go types.
        let go = |suffix: &str| match resource.custom() {
            Some(_) => format!("*unstructured.Unstructured{suffix}"),
            None => {
                let group = resource.group.split('.').next().filter(|g| !g.is_empty()).unwrap_or("core");
                format!("*{group}.{}{suffix}", resource.kind)
            }
        };
        let message = match self {
            Self::Metadata if list => format!(
                "you requested PartialObjectMetadata, but the requested object is a list ({})",
                go("List")
            ),
            Self::MetadataList if !list && verb != "watch" => format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list ({})",
                go("")
            ),
            _ => return Ok(()),
        };
        Err(ApiError::new(406, "NotAcceptable", message))
    }

    pub(crate) fn object(self, resource: &Resource, object: &Arc<Value>) -> Value {
        match self {
            Self::Whole => Value::clone(object),
            Self::Metadata | Self::MetadataList => json!(MetadataOf::new(object)),
            Self::Table(rows) => {
                let mut table = table::empty(resource, true);
                table["metadata"] = json!({ "resourceVersion": super::meta::resource_version(object) });
                table["rows"] = json!([table::row(resource, object, rows)]);
                table
            }
        }
    }

    /// One object of a watch. Only the first table of a watch has columns.
    pub(crate) fn event(self, resource: &Resource, object: &Arc<Value>, first: bool) -> Value {
        match self {
            Self::Table(_) if !first => {
                let mut table = self.object(resource, object);
                table["columnDefinitions"] = Value::Null;
                table
            }
            _ => self.object(resource, object),
        }
    }

    pub(crate) fn list(
        self,
        resource: &Resource,
        items: &[Arc<Value>],
        metadata: Map<String, Value>,
        serialized: &SerializedObjects,
    ) -> Vec<u8> {
        let head = match self {
            Self::Whole => {
                json!({ "kind": resource.list_kind, "apiVersion": resource.api_version(), "metadata": metadata })
            }
            Self::Metadata | Self::MetadataList => {
                json!({ "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata })
            }
            Self::Table(rows) => {
                let mut table = table::empty(resource, true);
                table["metadata"] = metadata.into();
                table["rows"] = items.iter().map(|o| table::row(resource, o, rows)).collect();
                return serde_json::to_vec(&table).unwrap_or_default();
            }
        };
        // Items are appended to the head without a copy of every object.
        let mut bytes = serde_json::to_vec(&head).unwrap_or_default();
        bytes.pop();
        // Kubernetes leaves the list unset for an empty result.
        if items.is_empty() && matches!(self, Self::Metadata | Self::MetadataList) {
            bytes.extend_from_slice(b",\"items\":null}\n");
            return bytes;
        }
        bytes.extend_from_slice(b",\"items\":[");
        let items = match self {
            Self::Metadata | Self::MetadataList => {
                serialized.metadata.of(items, |object| to_json(&MetadataOf::new(object)))
            }
            _ => serialized.whole.of(items, to_json),
        };
        bytes.reserve(items.iter().map(|item| item.len() + 1).sum());
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                bytes.push(b',');
            }
            bytes.extend_from_slice(item);
        }
        bytes.extend_from_slice(b"]}\n");
        bytes
    }
}

fn to_json(value: &impl Serialize) -> Vec<u8> {
    let written = serde_json::to_vec(value);
    debug_assert!(written.is_ok(), "writing JSON to memory cannot fail");
    written.unwrap_or_default()
}

/// An object reduced to its metadata.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MetadataOf<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: &'a Value,
}

impl<'a> MetadataOf<'a> {
    fn new(object: &'a Value) -> Self {
        Self { kind: "PartialObjectMetadata", api_version: "meta.k8s.io/v1", metadata: &object["metadata"] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn negotiate(accept: &str) -> ApiResult<Format> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().expect("a header"));
        Format::negotiate(&headers, "")
    }

    #[test]
    fn kubectl_asks_for_tables() {
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(negotiate(accept).expect("acceptable"), Format::Table(Rows::Metadata));
        assert_eq!(negotiate("application/json").expect("acceptable"), Format::Whole);
        assert_eq!(
            negotiate("application/vnd.kubernetes.protobuf, application/json").expect("acceptable"),
            Format::Whole
        );
        assert_eq!(negotiate("application/vnd.kubernetes.protobuf").unwrap_err().code(), 406);
    }
}

//! OpenAPI documents for kubectl (`explain`, `apply`), and the fields of built-in types.
//!
//! Built-in types come from the schemas in k8s-openapi; list types, merge keys and kinds, which those lack,
//! are added from the table of [`super::layout`]. Custom types come from their own schema. Documents are
//! built on request and belong to the caller, who should cache their serialized form; only a compact graph of
//! the built-in fields stays in memory here.
//!
//! kubectl requests `GET /openapi/v3`, then the document of one group-version with `Accept:
//! application/json`. It requests `/openapi/v2` (as protobuf) without v3, and to validate the objects of a
//! `kind: List`.

mod builtin;
mod document;
mod fields;
mod protobuf;

use serde_json::Value;

pub use self::{
    document::{document_v2, document_v3, index_v3},
    fields::{drop_unknown, type_errors},
    protobuf::encode_v2,
};

/// One served resource.
#[derive(Debug, Clone, Copy)]
pub struct Served<'a> {
    /// API group, empty for core.
    pub group: &'a str,
    /// Version.
    pub version: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// Name in URLs.
    pub plural: &'a str,
    /// Whether objects are namespaced.
    pub namespaced: bool,
    /// Supported verbs: `get`, `list`, `create`, `update`, `patch`, `delete`, ...
    pub verbs: &'a [&'a str],
    /// `openAPIV3Schema` of a custom resource; `None` for a built-in one.
    pub schema: Option<&'a Value>,
    /// Whether it has a status subresource.
    pub status: bool,
    /// Whether it has a scale subresource.
    pub scale: bool,
}

#[cfg(test)]
mod tests;

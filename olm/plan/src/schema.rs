//! The JSON schema of plans: one for the controllers, the command line and the console.

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde_json::Value;

use crate::plan::Plan;

/// The JSON schema (draft 2020-12) that every plan satisfies; `docs/plan.schema.json` is this text.
pub fn plan_schema() -> Value {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Plan>();
    let mut schema = Value::from(schema);
    if let Some(version) = schema.pointer_mut("/properties/apiVersion") {
        version["const"] = Value::from(crate::plan::API_VERSION);
    }
    schema
}

/// A code: new ones are added from time to time, so that a reader must bear one that it does not know.
pub(crate) fn word(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": "^[A-Z][A-Za-z0-9]*$" })
}

/// Group, version and kind of an object.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[expect(dead_code, reason = "mirrors `olm_resolver::Gvk`, which has no schema")]
pub(crate) struct Gvk {
    /// API group.
    group: String,
    /// API version.
    version: String,
    /// Kind.
    kind: String,
}

/// A bundle with its catalog, package and channel.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[expect(dead_code, reason = "mirrors `olm_resolver::ChosenBundle`, which has no schema")]
pub(crate) struct ChosenBundle {
    /// The catalog.
    catalog: CatalogRef,
    /// The package.
    package: String,
    /// The channel.
    channel: String,
    /// Name of the bundle.
    name: String,
    /// Version of the bundle.
    version: Option<String>,
}

/// A catalog.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[expect(dead_code, reason = "mirrors `olm_resolver::CatalogRef`, which has no schema")]
struct CatalogRef {
    /// Namespace of the CatalogSource.
    namespace: String,
    /// Name of the CatalogSource.
    name: String,
}

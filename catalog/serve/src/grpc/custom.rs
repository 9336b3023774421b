//! `api.ExperimentalRegistry`: documents of schemas that the catalog format does not define.

use std::collections::BTreeMap;

use olm_catalog::{Catalog, Filter};
use olm_registry_api::{
    ACKNOWLEDGE_EXPERIMENTAL, ExperimentalListPackageCustomSchemasRequest as CustomSchemasRequest, Kind,
    ListValue, Struct, Value, experimental_registry_server::ExperimentalRegistry,
};
use serde_json::Value as Json;
use tonic::{Request, Response, Status};

use super::packages::{ResponseStream, unreadable};
use crate::current::Current;

/// Served by the other service.
const FORMAT: [&str; 4] = ["olm.package", "olm.channel", "olm.bundle", "olm.deprecations"];

pub(super) struct Experimental {
    catalog: Current,
}

impl Experimental {
    pub fn new(catalog: Current) -> Self {
        Self { catalog }
    }
}

#[tonic::async_trait]
impl ExperimentalRegistry for Experimental {
    type ExperimentalListPackageCustomSchemasStream = ResponseStream<Struct>;

    async fn experimental_list_package_custom_schemas(
        &self,
        request: Request<CustomSchemasRequest>,
    ) -> Result<Response<ResponseStream<Struct>>, Status> {
        // Only clients that acknowledge the experimental status get an answer.
        if request.metadata().get(ACKNOWLEDGE_EXPERIMENTAL).is_none_or(|value| value != "true") {
            return Ok(Response::new(Box::pin(futures::stream::empty())));
        }
        let CustomSchemasRequest { schema, package_name } = request.into_inner();
        if schema.is_empty() {
            return Err(Status::invalid_argument("schema is required"));
        }
        check("schema", &schema)?;
        if !package_name.is_empty() {
            check("packageName", &package_name)?;
        }
        if FORMAT.contains(&schema.as_str()) {
            return Ok(Response::new(Box::pin(futures::stream::empty())));
        }
        // Few and small, and of one package.
        let catalog = self.catalog.get();
        let read = tokio::task::spawn_blocking(move || documents(&catalog, schema, package_name));
        let found = read.await.map_err(|error| {
            tracing::error!(%error, "failed to read custom documents");
            Status::internal("failed to read the catalog")
        })??;
        Ok(Response::new(Box::pin(futures::stream::iter(found.into_iter().map(Ok)))))
    }
}

fn check(what: &str, value: &str) -> Result<(), Status> {
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if value.bytes().all(valid) && value.as_bytes()[0].is_ascii_alphanumeric() {
        return Ok(());
    }
    Err(Status::invalid_argument(format!(
        "invalid custom schema query: invalid {what} {}: must match ^[a-zA-Z0-9][a-zA-Z0-9._-]*$",
        crate::names::quoted(value)
    )))
}

/// The documents of a schema that name a package, or no package where it is empty.
fn documents(catalog: &Catalog, schema: String, package: String) -> Result<Vec<Struct>, Status> {
    let filter = Filter { schema: Some(schema), package: Some(package), name: None };
    let mut found = Vec::new();
    for document in catalog.documents(&filter) {
        let document = document.map_err(|error| unreadable(catalog, &error))?;
        if let Ok(Json::Object(fields)) = serde_json::from_slice(&document) {
            found.push(structure(fields));
        }
    }
    Ok(found)
}

fn structure(fields: serde_json::Map<String, Json>) -> Struct {
    let fields: BTreeMap<String, Value> = fields.into_iter().map(|(key, json)| (key, value(json))).collect();
    Struct { fields }
}

/// A JSON value; the parser bounds its depth.
fn value(json: Json) -> Value {
    let kind = match json {
        Json::Null => Kind::NullValue(0),
        Json::Bool(value) => Kind::BoolValue(value),
        // Numbers are floating-point in protobuf's JSON; very large ones lose their last digits.
        Json::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Json::String(text) => Kind::StringValue(text),
        Json::Array(items) => Kind::ListValue(ListValue { values: items.into_iter().map(value).collect() }),
        Json::Object(fields) => Kind::StructValue(structure(fields)),
    };
    Value { kind: Some(kind) }
}

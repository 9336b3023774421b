//! The document of version 2 as protobuf: the fields of gnostic's `openapi.v2.Document` that kubectl reads,
//! under its field numbers.

use prost::Message;
use serde_json::Value;

/// `Document`, without paths: since `/openapi/v3` exists no client reads them here.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Document {
    #[prost(string, tag = "1")]
    swagger: String,
    #[prost(message, optional, tag = "2")]
    info: Option<Info>,
    #[prost(message, optional, tag = "9")]
    pub(super) definitions: Option<Schemas>,
}

#[derive(Clone, PartialEq, Message)]
struct Info {
    #[prost(string, tag = "1")]
    title: String,
    #[prost(string, tag = "2")]
    version: String,
}

/// `Definitions` and `Properties`, which have the same encoding.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Schemas {
    #[prost(message, repeated, tag = "1")]
    pub(super) named: Vec<NamedSchema>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NamedSchema {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(message, optional, tag = "2")]
    pub(super) schema: Option<Schema>,
}

/// `Schema`: types of values, without bounds and patterns, which only the server validates.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Schema {
    #[prost(string, tag = "1")]
    pub(super) reference: String,
    #[prost(string, tag = "2")]
    format: String,
    #[prost(string, tag = "4")]
    description: String,
    #[prost(string, repeated, tag = "19")]
    required: Vec<String>,
    #[prost(message, optional, boxed, tag = "21")]
    pub(super) additional_properties: Option<Box<AdditionalProperties>>,
    #[prost(message, optional, tag = "22")]
    pub(super) types: Option<Strings>,
    #[prost(message, optional, tag = "23")]
    pub(super) items: Option<Items>,
    #[prost(message, optional, tag = "25")]
    pub(super) properties: Option<Schemas>,
    #[prost(message, repeated, tag = "31")]
    extensions: Vec<NamedAny>,
}

/// `AdditionalPropertiesItem`, which may also be a boolean; a boolean adds no information to an absent one.
#[derive(Clone, PartialEq, Message)]
pub(super) struct AdditionalProperties {
    #[prost(message, optional, boxed, tag = "1")]
    pub(super) schema: Option<Box<Schema>>,
}

/// `TypeItem`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Strings {
    #[prost(string, repeated, tag = "1")]
    pub(super) values: Vec<String>,
}

/// `ItemsItem`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Items {
    #[prost(message, repeated, tag = "1")]
    pub(super) schemas: Vec<Schema>,
}

#[derive(Clone, PartialEq, Message)]
struct NamedAny {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    value: Option<Any>,
}

/// `Any`: its value as YAML, of which JSON is a subset.
#[derive(Clone, PartialEq, Message)]
struct Any {
    #[prost(string, tag = "2")]
    yaml: String,
}

/// Encodes a document of [`super::document_v2`].
pub fn encode_v2(document: &Value) -> Vec<u8> {
    let info = &document["info"];
    let document = Document {
        swagger: text(&document["swagger"]),
        info: Some(Info { title: text(&info["title"]), version: text(&info["version"]) }),
        definitions: schemas(&document["definitions"]),
    };
    document.encode_to_vec()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(text).collect()
}

fn schemas(value: &Value) -> Option<Schemas> {
    let named =
        |(name, value): (&String, &Value)| NamedSchema { name: name.clone(), schema: Some(schema(value)) };
    Some(Schemas { named: value.as_object()?.iter().map(named).collect() })
}

fn schema(value: &Value) -> Schema {
    let extensions = value.as_object().into_iter().flatten().filter(|(name, _)| name.starts_with("x-"));
    let some = |name: &str| Some(&value[name]).filter(|value| value.is_object()).map(schema);
    Schema {
        reference: text(&value["$ref"]),
        format: text(&value["format"]),
        description: text(&value["description"]),
        required: texts(&value["required"]),
        additional_properties: some("additionalProperties")
            .map(|schema| Box::new(AdditionalProperties { schema: Some(Box::new(schema)) })),
        types: value["type"].as_str().map(|one| Strings { values: vec![one.to_owned()] }),
        items: some("items").map(|schema| Items { schemas: vec![schema] }),
        properties: schemas(&value["properties"]),
        extensions: extensions
            .map(|(name, value)| NamedAny {
                name: name.clone(),
                value: Some(Any { yaml: value.to_string() }),
            })
            .collect(),
    }
}

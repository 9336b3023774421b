//! The compiled form of a schema.

use std::collections::BTreeMap;

use serde_json::{Number, Value};

use super::pattern::Pattern;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl Type {
    pub(in crate::schema) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            _ => return None,
        })
    }

    /// The name in schemas.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// `x-kubernetes-list-type`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ListType {
    /// Replaced as a whole.
    #[default]
    Atomic,
    /// Scalars, each at most once.
    Set,
    /// Objects, identified by these fields.
    Map(Vec<String>),
}

/// The values of keys that are not in `properties`.
#[derive(Debug, Clone, Default)]
pub enum Additional {
    /// Not specified: unknown fields.
    #[default]
    Unspecified,
    /// `additionalProperties: true`.
    Any,
    /// Every value matches this schema.
    Values(Box<Node>),
}

/// One level of a schema. `ty` is empty for int-or-string, for values without constraints, and below `anyOf`
/// and the like, which hold only value validations.
#[derive(Debug, Clone, Default)]
pub struct Node {
    pub ty: Option<Type>,
    /// `x-kubernetes-int-or-string`.
    pub int_or_string: bool,
    /// `x-kubernetes-preserve-unknown-fields`.
    pub preserve_unknown: bool,
    /// `x-kubernetes-embedded-resource`.
    pub embedded: bool,
    /// Whether null is a valid value.
    pub nullable: bool,
    pub properties: BTreeMap<String, Node>,
    /// The values of other keys.
    pub additional: Additional,
    pub items: Option<Box<Node>>,
    pub default: Option<Value>,
    /// The identity of list items.
    pub list_type: ListType,
    /// `x-kubernetes-map-type: atomic`.
    pub atomic_map: bool,
    pub(crate) rules: Option<Box<Rules>>,
    /// `x-kubernetes-validations`.
    pub(crate) cel: Vec<std::sync::Arc<crate::cel::Rule>>,
}

impl Node {
    pub(crate) fn format(&self) -> Option<&str> {
        self.rules.as_deref()?.format.as_deref()
    }

    /// The schema of the value below `key`.
    #[must_use]
    pub fn child(&self, key: &str) -> Option<&Self> {
        self.properties.get(key).or(match &self.additional {
            Additional::Values(node) => Some(node),
            Additional::Unspecified | Additional::Any => None,
        })
    }
}

/// Value validations.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    pub(crate) enumeration: Option<Vec<Value>>,
    pub(crate) minimum: Option<Number>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) maximum: Option<Number>,
    pub(crate) exclusive_maximum: bool,
    pub(crate) multiple_of: Option<Number>,
    pub(crate) min_length: Option<u64>,
    pub(crate) max_length: Option<u64>,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) format: Option<String>,
    pub(crate) min_items: Option<u64>,
    pub(crate) max_items: Option<u64>,
    pub(crate) min_properties: Option<u64>,
    pub(crate) max_properties: Option<u64>,
    pub(crate) required: Vec<String>,
    pub(crate) all_of: Vec<Node>,
    pub(crate) any_of: Vec<Node>,
    pub(crate) one_of: Vec<Node>,
    pub(crate) not: Option<Box<Node>>,
}

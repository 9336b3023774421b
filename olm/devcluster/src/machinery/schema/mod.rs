//! Structural schemas of custom resources.
//!
//! A CRD's `openAPIV3Schema` is compiled once into a tree of [`Node`]s; defaulting, pruning and validation walk the
//! tree and the object side by side. Anything that Kubernetes would refuse as not structural is refused here too.
//!
//! CEL rules (`x-kubernetes-validations`) are stored but not evaluated: [`Schema::unenforced`] says where they are, so
//! that the API server can warn instead of pretending.

mod compile;
mod formats;
mod validate;
mod walk;

use std::{collections::BTreeMap, sync::OnceLock};

use regex::Regex;
use serde_json::{Number, Value};

use super::field_error::FieldError;

/// A compiled structural schema.
#[derive(Debug, Clone)]
pub struct Schema {
    source: Value,
    root: Node,
    unenforced: Vec<String>,
}

impl Schema {
    /// Compiles `openAPIV3Schema`; `path` is where it stands in the CRD, for error messages
    /// (`spec.versions[0].schema.openAPIV3Schema`).
    pub fn compile(schema: &Value, path: &str) -> Result<Self, Vec<FieldError>> {
        let (root, unenforced) = compile::compile(schema, path)?;
        Ok(Self { source: schema.clone(), root, unenforced })
    }

    /// Fills in defaults, also below lists and maps that are present.
    pub fn default(&self, object: &mut Value) {
        walk::default(&self.root, object);
    }

    /// Removes fields that the schema does not know and returns their paths (`spec.foo`, `spec.list[0].bar`).
    ///
    /// `apiVersion`, `kind` and `metadata` of the object and of embedded resources always stay.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut unknown = Vec::new();
        walk::prune(&self.root, object, true, "", &mut unknown);
        unknown
    }

    /// Checks an object and returns what is wrong with it.
    ///
    /// `old` is the stored object of an update. Ratcheting (accepting an unchanged value that has become invalid) is
    /// left out: every value must be valid.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let _ = old;
        let mut errors = validate::validate(&self.root, object, "");
        validate::lists_and_embedded(&self.root, object, "", &mut errors);
        errors
    }

    /// Paths below the schema at which there are rules that are stored and not enforced (CEL).
    pub fn unenforced(&self) -> &[String] {
        &self.unenforced
    }

    /// The schema as it was written.
    pub fn source(&self) -> &Value {
        &self.source
    }

    /// The compiled tree.
    pub(crate) fn root(&self) -> &Node {
        &self.root
    }
}

/// JSON type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl Type {
    fn parse(text: &str) -> Option<Self> {
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

    fn name(self) -> &'static str {
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
pub(crate) enum ListType {
    /// Replaced as a whole.
    #[default]
    Atomic,
    /// Scalars, each at most once.
    Set,
    /// Objects, identified by these fields.
    Map(Vec<String>),
}

/// What is allowed below keys that are not in `properties`.
#[derive(Debug, Clone, Default)]
pub(crate) enum Additional {
    /// Nothing was said: unknown fields.
    #[default]
    Unspecified,
    /// `additionalProperties: true`.
    Any,
    /// Every value follows this schema.
    Values(Box<Node>),
}

/// One place in a schema. `ty` is empty for int-or-string, for values about which nothing is said, and below
/// `anyOf` and its kin, where only value validations stand.
#[derive(Debug, Clone, Default)]
pub(crate) struct Node {
    pub(crate) ty: Option<Type>,
    pub(crate) int_or_string: bool,
    pub(crate) preserve_unknown: bool,
    pub(crate) embedded: bool,
    pub(crate) nullable: bool,
    pub(crate) properties: BTreeMap<String, Node>,
    pub(crate) additional: Additional,
    pub(crate) items: Option<Box<Node>>,
    pub(crate) default: Option<Value>,
    pub(crate) list_type: ListType,
    pub(crate) atomic_map: bool,
    rules: Option<Box<Rules>>,
}

impl Node {
    /// The schema of the value below `key`.
    pub(crate) fn child(&self, key: &str) -> Option<&Self> {
        self.properties.get(key).or(match &self.additional {
            Additional::Values(node) => Some(node),
            Additional::Unspecified | Additional::Any => None,
        })
    }
}

/// Value validations.
#[derive(Debug, Clone, Default)]
struct Rules {
    enumeration: Option<Vec<Value>>,
    minimum: Option<Number>,
    exclusive_minimum: bool,
    maximum: Option<Number>,
    exclusive_maximum: bool,
    multiple_of: Option<Number>,
    min_length: Option<u64>,
    max_length: Option<u64>,
    pattern: Option<Pattern>,
    format: Option<String>,
    min_items: Option<u64>,
    max_items: Option<u64>,
    min_properties: Option<u64>,
    max_properties: Option<u64>,
    required: Vec<String>,
    all_of: Vec<Node>,
    any_of: Vec<Node>,
    one_of: Vec<Node>,
    not: Option<Box<Node>>,
}

/// A regular expression, compiled when it is first used: most patterns of most CRDs never are.
#[derive(Debug, Clone)]
struct Pattern {
    text: String,
    compiled: OnceLock<Option<Regex>>,
}

impl Pattern {
    fn new(text: &str) -> Result<Self, regex::Error> {
        Regex::new(&from_go(text))?;
        Ok(Self { text: text.to_owned(), compiled: OnceLock::new() })
    }

    fn matches(&self, value: &str) -> bool {
        self.compiled
            .get_or_init(|| Regex::new(&from_go(&self.text)).ok())
            .as_ref()
            .is_some_and(|regex| regex.is_match(value))
    }
}

/// Go's regular expressions have no nested classes and no set operations: in `[...]`, `[`, `&&`, `~~` and `--` are
/// plain characters, which the regex crate wants escaped.
fn from_go(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                out.push(c);
                out.extend(chars.next());
                continue;
            }
            '[' if !in_class => {
                in_class = true;
                out.push(c);
                if let Some(negation) = chars.next_if_eq(&'^') {
                    out.push(negation);
                }
                // A `]` that comes first is a plain character.
                if chars.next_if_eq(&']').is_some() {
                    out.push_str("\\]");
                }
                continue;
            }
            '[' if chars.peek() == Some(&':') => {
                // `[:alpha:]`
                out.push(c);
                for c in chars.by_ref() {
                    out.push(c);
                    if c == ']' {
                        break;
                    }
                }
                continue;
            }
            '[' => out.push('\\'),
            '&' | '~' if in_class && chars.peek() == Some(&c) => out.push('\\'),
            '-' if in_class && chars.peek() == Some(&'-') => {
                chars.next();
                out.push_str("-\\");
            }
            ']' => in_class = false,
            _ => {}
        }
        out.push(c);
    }
    out
}

/// `path.key`, without a leading dot.
pub(crate) fn child_path(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

#[cfg(test)]
mod tests;

//! Values of expressions: views of the object, and computed values.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Number, Value};

use super::functions::{
    net::{Cidr, Url},
    time,
};
use super::types::{Ty, unescape};
use crate::quantity::Quantity;
use crate::schema::{Additional, ListType, Node, Type};

/// A failed evaluation.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fault {
    /// In Kubernetes' wording, such as `no such key: a`.
    Error(Rc<str>),
    /// The cost limit is exceeded.
    Limit,
}

impl Fault {
    pub(super) fn text(&self) -> String {
        match self {
            Self::Limit => "operation cancelled: actual cost limit exceeded".to_owned(),
            Self::Error(what) => what.to_string(),
        }
    }
}

pub(super) type Outcome<'a> = Result<Val<'a>, Fault>;

pub(super) fn error(text: impl AsRef<str>) -> Fault {
    Fault::Error(text.as_ref().into())
}

pub(super) fn no_overload() -> Fault {
    error("no such overload")
}

/// A text borrowed from the object or the rule, or a computed one.
#[derive(Debug, Clone)]
pub(super) enum Text<'a> {
    Lent(&'a str),
    Own(Rc<str>),
}

impl std::ops::Deref for Text<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        match self {
            Self::Lent(text) => text,
            Self::Own(text) => text,
        }
    }
}

/// A key of a map. Equal numbers of different types are one key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Bool(bool),
    Int(i128),
    Text(Rc<str>),
}

#[derive(Debug, Clone)]
pub(super) enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Text<'a>),
    Bytes(Rc<[u8]>),
    Time(Timestamp),
    Span(SignedDuration),
    Kind(&'static str),
    List(Rc<Vec<Val<'a>>>),
    Map(Rc<BTreeMap<Key, Val<'a>>>),
    Optional(Option<Rc<Val<'a>>>),
    /// A list of the object, with its schema.
    JsonList(&'a [Value], &'a Node),
    /// A map of the object with free keys (`additionalProperties`), with its schema.
    JsonMap(&'a Map<String, Value>, &'a Node),
    /// A value of the object with named fields; the flag adds apiVersion, kind and metadata.
    Object(&'a Map<String, Value>, &'a Node, bool),
    /// The metadata of an object: only its names.
    Metadata(&'a Map<String, Value>),
    Quantity(Quantity),
    Url(Rc<Url>),
    Ip(IpAddr),
    Cidr(Cidr),
    Format(&'static str),
    Semver(Rc<semver::Version>),
}

impl From<bool> for Val<'_> {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<&str> for Val<'_> {
    fn from(text: &str) -> Self {
        Self::Text(Text::Own(text.into()))
    }
}

impl From<String> for Val<'_> {
    fn from(text: String) -> Self {
        Self::Text(Text::Own(text.into()))
    }
}

/// The view of a value of the object.
pub(super) fn of<'a>(value: &'a Value, node: &'a Node, resource: bool) -> Outcome<'a> {
    let wrong =
        |wanted: &str| Err(error(format!("invalid data, expected {wanted} to match the provided schema")));
    if value.is_null() {
        return match node.nullable {
            true => Ok(Val::Null),
            false => Err(error("invalid data, got null for schema with nullable=false")),
        };
    }
    if node.int_or_string {
        return match value {
            Value::Number(number) => whole(number).map(Val::Int),
            Value::String(text) => Ok(Val::Text(Text::Lent(text))),
            _ => wrong("a string or an integer"),
        };
    }
    let Some(ty) = node.ty else {
        return Err(error(
            "invalid schema type, expected object, array, number, integer, boolean or string but got ''",
        ));
    };
    match (ty, value) {
        (Type::Object, Value::Object(map)) => Ok(match node.additional {
            Additional::Values(_) => Val::JsonMap(map, node),
            Additional::Unspecified | Additional::Any => Val::Object(map, node, resource || node.embedded),
        }),
        (Type::Array, Value::Array(list)) => Ok(Val::JsonList(list, node)),
        (Type::Boolean, Value::Bool(value)) => Ok(Val::Bool(*value)),
        (Type::Number, Value::Number(number)) => {
            number.as_f64().map(Val::Double).ok_or_else(|| error("invalid data, expected a number"))
        }
        (Type::Integer, Value::Number(number)) => whole(number).map(Val::Int),
        (Type::String, Value::String(text)) => string(text, node),
        (Type::Object, _) => wrong("a map"),
        (Type::Array, _) => wrong("an array"),
        (Type::Boolean, _) => wrong("a boolean"),
        (Type::Number | Type::Integer, _) => wrong("a number"),
        (Type::String, _) => wrong("a string"),
    }
}

/// A value without a schema, copied.
pub(super) fn untyped<'a>(value: &'a Value) -> Val<'a> {
    match value {
        Value::Null => Val::Null,
        Value::Bool(value) => Val::Bool(*value),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => Val::Int(value),
            (None, Some(value)) => Val::Uint(value),
            (None, None) => Val::Double(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Val::Text(Text::Lent(text)),
        Value::Array(list) => Val::list(list.iter().map(untyped).collect()),
        Value::Object(map) => {
            let entries = map.iter().map(|(key, value)| (Key::Text(key.as_str().into()), untyped(value)));
            Val::Map(Rc::new(entries.collect()))
        }
    }
}

fn whole(number: &Number) -> Result<i64, Fault> {
    // A whole number may be written as `1.0`.
    let from_float = || number.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 9.0e18).map(|n| n as i64);
    number.as_i64().or_else(from_float).ok_or_else(|| error("integer overflow"))
}

fn string<'a>(text: &'a str, node: &Node) -> Outcome<'a> {
    use base64::Engine;
    Ok(match node.format() {
        Some("byte") => {
            let bytes = base64::engine::general_purpose::STANDARD.decode(text);
            Val::Bytes(bytes.map_err(|_| error("invalid byte formatted string"))?.into())
        }
        Some("duration") => {
            Val::Span(time::parse_span(text).ok_or_else(|| error(format!("Invalid duration {text}")))?)
        }
        Some("date-time") => Val::Time(
            time::parse_time(text)
                .ok_or_else(|| error(format!("Invalid date-time formatted string {text}")))?,
        ),
        Some("date") => {
            let day = time::parse_time(&format!("{text}T00:00:00Z"));
            Val::Time(day.ok_or_else(|| error(format!("Invalid date formatted string {text}")))?)
        }
        _ => Val::Text(Text::Lent(text)),
    })
}

impl<'a> Val<'a> {
    pub(super) fn list(items: Vec<Self>) -> Self {
        Self::List(Rc::new(items))
    }

    /// As JSON; a fault for types without a JSON form.
    pub(super) fn to_json(&self) -> Result<Value, Fault> {
        use base64::Engine;
        Ok(match self {
            Self::Null | Self::Optional(None) => Value::Null,
            Self::Bool(value) => (*value).into(),
            Self::Int(value) => (*value).into(),
            Self::Uint(value) => (*value).into(),
            Self::Double(value) => Number::from_f64(*value).map_or(Value::Null, Value::Number),
            Self::Text(text) => (**text).into(),
            Self::Bytes(bytes) => base64::engine::general_purpose::STANDARD.encode(bytes).into(),
            Self::Time(time) => time.to_string().into(),
            Self::Span(span) => format!("{}s", span.as_secs_f64()).into(),
            Self::List(list) => list.iter().map(Self::to_json).collect::<Result<_, _>>()?,
            Self::Map(map) => {
                let entry = |(key, value): (&Key, &Self)| {
                    let key = match key {
                        Key::Bool(key) => key.to_string(),
                        Key::Int(key) => key.to_string(),
                        Key::Text(key) => key.to_string(),
                    };
                    Ok((key, value.to_json()?))
                };
                Value::Object(map.iter().map(entry).collect::<Result<_, Fault>>()?)
            }
            Self::Optional(Some(value)) => value.to_json()?,
            Self::JsonList(list, _) => Value::Array(list.to_vec()),
            Self::JsonMap(map, _) | Self::Object(map, ..) | Self::Metadata(map) => {
                Value::Object(Map::clone(map))
            }
            other => return Err(error(format!("a {} cannot be written as JSON", other.kind()))),
        })
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Time(_) => "google.protobuf.Timestamp",
            Self::Span(_) => "google.protobuf.Duration",
            Self::Kind(_) => "type",
            Self::List(_) | Self::JsonList(..) => "list",
            Self::Map(_) | Self::JsonMap(..) => "map",
            Self::Object(..) | Self::Metadata(_) => "object",
            Self::Optional(_) => "optional_type",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Url(_) => "kubernetes.URL",
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Semver(_) => "kubernetes.Semver",
        }
    }

    /// Number of items, entries, characters or bytes.
    pub(super) fn len(&self) -> Option<usize> {
        Some(match self {
            Self::Text(text) => text.chars().count(),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(list) => list.len(),
            Self::JsonList(list, _) => list.len(),
            Self::Map(map) => map.len(),
            Self::JsonMap(map, _) => map.len(),
            _ => return None,
        })
    }

    pub(super) fn item(&self, index: usize) -> Option<Outcome<'a>> {
        match self {
            Self::List(list) => list.get(index).cloned().map(Ok),
            Self::JsonList(list, node) => {
                let items = node.items.as_deref()?;
                list.get(index).map(|value| of(value, items, false))
            }
            _ => None,
        }
    }

    /// All items of a list.
    pub(super) fn items(&self) -> Result<Vec<Self>, Fault> {
        match self {
            Self::List(list) => Ok(list.as_ref().clone()),
            Self::JsonList(list, _) => (0..list.len()).filter_map(|at| self.item(at)).collect(),
            _ => Err(no_overload()),
        }
    }

    /// The value as a key of a map.
    pub(super) fn key(&self) -> Option<Key> {
        Some(match self {
            Self::Bool(value) => Key::Bool(*value),
            Self::Int(value) => Key::Int(i128::from(*value)),
            Self::Uint(value) => Key::Int(i128::from(*value)),
            Self::Double(value) if value.fract() == 0.0 && value.abs() < 1e18 => Key::Int(*value as i128),
            Self::Text(text) => Key::Text((**text).into()),
            _ => return None,
        })
    }

    pub(super) fn keys(&self) -> Option<Vec<Self>> {
        Some(match self {
            Self::Map(map) => map.keys().map(Self::of_key).collect(),
            Self::JsonMap(map, _) => map.keys().map(|key| Self::Text(Text::Lent(key))).collect(),
            _ => return None,
        })
    }

    fn of_key(key: &Key) -> Self {
        match key {
            Key::Bool(value) => Self::Bool(*value),
            Key::Int(value) => i64::try_from(*value).map_or(Self::Uint(u64::MAX), Self::Int),
            Key::Text(text) => Self::Text(Text::Own(text.clone())),
        }
    }

    pub(super) fn entry(&self, key: &Val<'_>) -> Option<Outcome<'a>> {
        match (self, key) {
            (Self::Map(map), key) => map.get(&key.key()?).cloned().map(Ok),
            (Self::JsonMap(map, node), Val::Text(text)) => {
                let Additional::Values(values) = &node.additional else { return None };
                map.get(&**text).map(|value| of(value, values, false))
            }
            _ => None,
        }
    }

    /// The field of an object or the entry of a map, by its name in expressions; `None` when unset.
    pub(super) fn field(&self, name: &str) -> Option<Outcome<'a>> {
        match self {
            Self::Object(map, node, resource) => {
                if *resource {
                    match name {
                        "apiVersion" | "kind" => return map.get(name)?.as_str().map(text),
                        "metadata" => return map.get(name)?.as_object().map(|map| Ok(Val::Metadata(map))),
                        _ => {}
                    }
                }
                let name = unescape(name)?;
                let node = node.properties.get(&name)?;
                map.get(&name).map(|value| of(value, node, false))
            }
            Self::Metadata(map) if matches!(name, "name" | "generateName") => {
                map.get(name)?.as_str().map(text)
            }
            Self::Map(_) | Self::JsonMap(..) => self.entry(&name.into()),
            _ => None,
        }
    }

    /// Whether the type has fields.
    pub(super) fn has_fields(&self) -> bool {
        matches!(self, Self::Object(..) | Self::Metadata(_) | Self::Map(_) | Self::JsonMap(..))
    }

    /// Whether `optional.ofNonZeroValue` drops it.
    pub(super) fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(value) => !value,
            Self::Int(value) => *value == 0,
            Self::Uint(value) => *value == 0,
            Self::Double(value) => *value == 0.0,
            Self::Span(value) => value.is_zero(),
            other => other.len() == Some(0),
        }
    }

    /// Equality: numbers by value, sets and lists with keys in any order.
    pub(super) fn equals(&self, other: &Val<'_>) -> Result<bool, Fault> {
        Ok(match (self, other) {
            (Self::Null, Val::Null) => true,
            (Self::Bool(a), Val::Bool(b)) => a == b,
            (Self::Text(a), Val::Text(b)) => **a == **b,
            (Self::Bytes(a), Val::Bytes(b)) => a == b,
            (Self::Time(a), Val::Time(b)) => a == b,
            (Self::Span(a), Val::Span(b)) => a == b,
            (Self::Kind(a), Val::Kind(b)) => a == b,
            (Self::Quantity(a), Val::Quantity(b)) => a.compare(*b).is_eq(),
            (Self::Url(a), Val::Url(b)) => a.text == b.text,
            (Self::Ip(a), Val::Ip(b)) => a == b,
            (Self::Cidr(a), Val::Cidr(b)) => a == b,
            (Self::Format(a), Val::Format(b)) => a == b,
            (Self::Semver(a), Val::Semver(b)) => a.cmp_precedence(b).is_eq(),
            (Self::Optional(a), Val::Optional(b)) => match (a, b) {
                (None, None) => true,
                (Some(a), Some(b)) => a.equals(b)?,
                _ => false,
            },
            (Self::Object(a, a_node, _), Val::Object(b, b_node, _)) => {
                let fields = a_node.properties.keys().chain(b_node.properties.keys());
                let seen = |key: &&String| a.contains_key(key.as_str()) || b.contains_key(key.as_str());
                for key in fields.filter(seen) {
                    let a = a.get(key).zip(a_node.properties.get(key));
                    let b = b.get(key).zip(b_node.properties.get(key));
                    let (Some((a, a_node)), Some((b, b_node))) = (a, b) else { return Ok(false) };
                    // Fields that expressions cannot see do not count.
                    if a != b
                        && Ty::of(a_node, false).is_some()
                        && !of(a, a_node, false)?.equals(&of(b, b_node, false)?)?
                    {
                        return Ok(false);
                    }
                }
                true
            }
            (Self::Metadata(a), Val::Metadata(b)) => {
                ["name", "generateName"].iter().all(|key| a.get(*key) == b.get(*key))
            }
            (a, b) => match (a.number_order(b), a.len(), b.len()) {
                (Some(order), _, _) => order.is_eq(),
                (None, Some(m), Some(n)) if m == n && a.kind() == b.kind() => a.same_items(b)?,
                _ => false,
            },
        })
    }

    fn same_items(&self, other: &Val<'_>) -> Result<bool, Fault> {
        if let Some(keys) = self.keys() {
            for key in keys {
                let (Some(a), Some(b)) = (self.entry(&key), other.entry(&key)) else { return Ok(false) };
                if !a?.equals(&b?)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        let unordered =
            |val: &Val<'_>| matches!(val, Val::JsonList(_, node) if node.list_type != ListType::Atomic);
        let (a, b) = (self.items()?, other.items()?);
        if !unordered(self) && !unordered(other) {
            for (a, b) in a.iter().zip(&b) {
                if !a.equals(b)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        for a in &a {
            let mut found = false;
            for b in &b {
                found |= a.equals(b)?;
            }
            if !found {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The order of two numbers of any type; `None` for other values.
    pub(super) fn number_order(&self, other: &Val<'_>) -> Option<std::cmp::Ordering> {
        let whole = |val: &Val<'_>| match val {
            Val::Int(value) => Some(i128::from(*value)),
            Val::Uint(value) => Some(i128::from(*value)),
            _ => None,
        };
        let float = |val: &Val<'_>| match val {
            Val::Double(value) => Some(*value),
            other => whole(other).map(|value| value as f64),
        };
        match (whole(self), whole(other)) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => float(self)?.partial_cmp(&float(other)?),
        }
    }

    /// The order of two values of the same type.
    pub(super) fn order(&self, other: &Val<'_>) -> Result<std::cmp::Ordering, Fault> {
        Ok(match (self, other) {
            (Self::Bool(a), Val::Bool(b)) => a.cmp(b),
            (Self::Text(a), Val::Text(b)) => (**a).cmp(&**b),
            (Self::Bytes(a), Val::Bytes(b)) => a.cmp(b),
            (Self::Time(a), Val::Time(b)) => a.cmp(b),
            (Self::Span(a), Val::Span(b)) => a.cmp(b),
            (a, b) => a.number_order(b).ok_or_else(no_overload)?,
        })
    }
}

fn text(text: &str) -> Outcome<'_> {
    Ok(Val::Text(Text::Lent(text)))
}

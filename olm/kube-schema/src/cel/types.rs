//! Types of expressions, and their declaration by schemas.

use std::fmt;
use std::sync::Arc;

use crate::schema::{Additional, Node, Type};

/// A value that only functions can inspect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opaque {
    Quantity,
    Url,
    Ip,
    Cidr,
    Format,
    Semver,
}

impl Opaque {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Quantity => "kubernetes.Quantity",
            Self::Url => "kubernetes.URL",
            Self::Ip => "net.IP",
            Self::Cidr => "net.CIDR",
            Self::Format => "kubernetes.NamedFormat",
            Self::Semver => "kubernetes.Semver",
        }
    }
}

#[derive(Debug, Clone)]
pub(super) enum Ty<'n> {
    /// Known only at run time.
    Any,
    /// Item type of an empty list.
    Nothing,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Time,
    Span,
    /// A type as a value.
    Kind,
    List(Arc<Ty<'n>>),
    Map(Arc<Ty<'n>>, Arc<Ty<'n>>),
    Optional(Arc<Ty<'n>>),
    /// An object with the fields of a schema; the flag adds apiVersion, kind and metadata.
    Object(&'n Node, bool),
    /// The metadata of an object: only its names.
    Metadata,
    Opaque(Opaque),
    /// An object literal of a patch.
    Message(Arc<str>),
    /// A type variable of a signature.
    Var(usize),
}

/// Types bound to the type variables of a signature.
pub(super) type Bindings<'n> = [Option<Ty<'n>>; 3];

impl<'n> Ty<'n> {
    /// The type of values of a schema in expressions; `None` where the schema does not define one.
    pub(super) fn of(node: &'n Node, resource: bool) -> Option<Self> {
        if node.int_or_string {
            return Some(Self::Any);
        }
        Some(match node.ty? {
            Type::Array => Self::List(Arc::new(Self::of(node.items.as_deref()?, false)?)),
            Type::Object => match &node.additional {
                Additional::Values(values) => {
                    Self::Map(Arc::new(Self::Text), Arc::new(Self::of(values, false)?))
                }
                Additional::Unspecified | Additional::Any => Self::Object(node, resource || node.embedded),
            },
            Type::String => match node.format() {
                Some("byte") => Self::Bytes,
                Some("duration") => Self::Span,
                Some("date" | "date-time") => Self::Time,
                _ => Self::Text,
            },
            Type::Boolean => Self::Bool,
            Type::Number => Self::Double,
            Type::Integer => Self::Int,
        })
    }

    /// The field of an object, by its name in expressions.
    pub(super) fn field(node: &'n Node, resource: bool, name: &str) -> Option<Self> {
        if resource {
            match name {
                "apiVersion" | "kind" => return Some(Self::Text),
                "metadata" => return Some(Self::Metadata),
                _ => {}
            }
        }
        Self::of(node.properties.get(&unescape(name)?)?, false)
    }

    /// Whether a value of type `other` is assignable to this type; binds type variables.
    pub(super) fn takes(&self, other: &Self, bound: &mut Bindings<'n>) -> bool {
        match (self, other) {
            (Self::Var(at), other) => {
                let Some(known) = bound.get(*at).cloned().flatten() else {
                    bound[*at] = Some(other.clone());
                    return true;
                };
                let fits = known.takes(other, bound);
                if fits {
                    bound[*at] = Some(known.join(other));
                }
                fits
            }
            (Self::Any | Self::Nothing, _) | (_, Self::Any | Self::Nothing) => true,
            (Self::List(a), Self::List(b)) | (Self::Optional(a), Self::Optional(b)) => a.takes(b, bound),
            (Self::Map(ak, av), Self::Map(bk, bv)) => ak.takes(bk, bound) && av.takes(bv, bound),
            (Self::Object(a, _), Self::Object(b, _)) => std::ptr::eq(*a, *b),
            (Self::Opaque(a), Self::Opaque(b)) => a == b,
            (Self::Message(a), Self::Message(b)) => a == b,
            (nullable, Self::Null) | (Self::Null, nullable) => matches!(
                nullable,
                Self::Null
                    | Self::Object(..)
                    | Self::Metadata
                    | Self::Time
                    | Self::Span
                    | Self::Opaque(_)
                    | Self::Optional(_)
            ),
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        }
    }

    /// The type with its variables substituted.
    pub(super) fn resolved(&self, bound: &Bindings<'n>) -> Self {
        let inner = |of: &Arc<Self>| Arc::new(of.resolved(bound));
        match self {
            Self::Var(at) => bound.get(*at).cloned().flatten().unwrap_or(Self::Nothing),
            Self::List(of) => Self::List(inner(of)),
            Self::Optional(of) => Self::Optional(inner(of)),
            Self::Map(key, value) => Self::Map(inner(key), inner(value)),
            other => other.clone(),
        }
    }

    /// The common type of both.
    pub(super) fn join(&self, other: &Self) -> Self {
        let both = |a: &Arc<Self>, b: &Arc<Self>| Arc::new(a.join(b));
        match (self, other) {
            (Self::Nothing, one) | (one, Self::Nothing) => one.clone(),
            (Self::Null, one) | (one, Self::Null) if !matches!(one, Self::Null) => one.clone(),
            (Self::List(a), Self::List(b)) => Self::List(both(a, b)),
            (Self::Optional(a), Self::Optional(b)) => Self::Optional(both(a, b)),
            (Self::Map(ak, av), Self::Map(bk, bv)) => Self::Map(both(ak, bk), both(av, bv)),
            (a, b) if a.takes(b, &mut Bindings::default()) && !matches!(b, Self::Any) => a.clone(),
            _ => Self::Any,
        }
    }

    pub(super) fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::List(a), Self::List(b)) | (Self::Optional(a), Self::Optional(b)) => a.same(b),
            (Self::Map(ak, av), Self::Map(bk, bv)) => ak.same(bk) && av.same(bv),
            (Self::Object(a, _), Self::Object(b, _)) => std::ptr::eq(*a, *b),
            (Self::Opaque(a), Self::Opaque(b)) => a == b,
            (Self::Message(a), Self::Message(b)) => a == b,
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        }
    }
}

impl fmt::Display for Ty<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any | Self::Nothing | Self::Var(_) => f.write_str("dyn"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::Text => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Time => f.write_str("google.protobuf.Timestamp"),
            Self::Span => f.write_str("google.protobuf.Duration"),
            Self::Kind => f.write_str("type"),
            Self::List(of) => write!(f, "list({of})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Optional(of) => write!(f, "optional_type({of})"),
            Self::Object(..) | Self::Metadata => f.write_str("object"),
            Self::Opaque(of) => f.write_str(of.name()),
            Self::Message(name) => f.write_str(name),
        }
    }
}

/// Reserved words: a property of that name is written `__word__`.
const RESERVED: &[&str] = &[
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// A property's name in expressions; `None` where it is not expressible.
pub(super) fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let mut out = String::with_capacity(name.len());
    let mut chars = name.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '_' if chars.next_if_eq(&'_').is_some() => out.push_str("__underscores__"),
            '.' => out.push_str("__dot__"),
            '-' => out.push_str("__dash__"),
            '/' => out.push_str("__slash__"),
            c if c == '_' || c.is_ascii_alphanumeric() => out.push(c),
            _ => return None,
        }
    }
    Some(out)
}

/// The inverse of [`escape`].
pub(super) fn unescape(name: &str) -> Option<String> {
    const PARTS: [(&str, &str); 4] =
        [("__underscores__", "__"), ("__dot__", "."), ("__dash__", "-"), ("__slash__", "/")];
    if let Some(word) = name.strip_prefix("__").and_then(|name| name.strip_suffix("__"))
        && RESERVED.contains(&word)
    {
        return Some(word.to_owned());
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        if let Some((escaped, plain)) = PARTS.iter().find(|(escaped, _)| rest.starts_with(escaped)) {
            out.push_str(plain);
            rest = &rest[escaped.len()..];
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    // A name that is not canonical, such as a plain reserved word or `a__b`, is refused.
    (escape(&out).as_deref() == Some(name)).then_some(out)
}

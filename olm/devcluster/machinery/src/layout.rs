//! Merge behaviour of the lists and maps of a type, for server-side apply and strategic merge patch.
//!
//! For custom types it is part of their schema (`x-kubernetes-list-type` and the like). For built-in types it
//! comes from one table, `layout.txt`.

use std::{collections::HashMap, sync::LazyLock};

use serde_json::{Map, Value};

use super::schema::{ListType, Node, Schema};

/// The layout of a value inside an object: begins at the root and descends with the value.
#[derive(Debug, Clone, Copy)]
pub struct Layout<'a>(At<'a>);

#[derive(Debug, Clone, Copy)]
enum At<'a> {
    /// A built-in object; `None` when the table has no entry for its kind.
    Root(Option<&'static Type>),
    /// A value whose field is in the table.
    Field(&'static Field),
    /// An item of a list that is in the table, or the inside of a struct.
    Struct(&'static Type),
    /// A map with free keys in a built-in type.
    Map,
    /// Anything else in a built-in type.
    Plain,
    /// A custom object (`true`) or a part of one.
    Custom(&'a Node, bool),
    /// Below a field that preserves unknown fields: lists are atomic, maps merge.
    Untyped,
}

#[derive(Debug, Default)]
struct Type {
    fields: HashMap<&'static str, Field>,
}

#[derive(Debug, Default)]
struct Field {
    atomic: bool,
    set: bool,
    keys: Vec<(&'static str, Option<&'static str>)>,
    merge: Option<Merge>,
    retain_keys: bool,
    ty: Option<&'static str>,
}

/// Strategy of strategic merge patch for a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Merge {
    /// Items are objects with this key.
    ByKey(&'static str),
    /// Items are primitives.
    Primitives,
}

/// Strategy of server-side apply for a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    /// Replaced as a whole.
    Atomic,
    /// Items are merged by value.
    Set,
    /// Items are merged by key.
    Map,
}

struct Table {
    types: HashMap<&'static str, Type>,
    /// (group, kind) to type.
    roots: HashMap<(&'static str, &'static str), &'static str>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| parse(include_str!("layout.txt")));

/// Fields of built-in types that are maps with free keys. Struct fields need no separate owner, map keys do.
const FREE_MAPS: &[&str] = &[
    "allocatable",
    "annotations",
    "attributes",
    "binaryData",
    "capacity",
    "data",
    "default",
    "defaultRequest",
    "extra",
    "hard",
    "labels",
    "limits",
    "matchLabels",
    "max",
    "min",
    "nodeSelector",
    "options",
    "overhead",
    "parameters",
    "requests",
    "stringData",
    "used",
    "volumeAttributes",
];

/// Fields of built-in types that always exist: in Kubernetes' Go types they are values, not pointers.
const ALWAYS_PRESENT: &[&str] =
    &["metadata", "spec", "status", "template", "strategy", "updateStrategy", "resources", "jobTemplate"];

fn parse(text: &'static str) -> Table {
    let mut table = Table { types: HashMap::new(), roots: HashMap::new() };
    let mut current = "";
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (left, ty) = match line.split_once(" -> ") {
            Some((left, ty)) => (left, Some(ty)),
            None => (line, None),
        };
        if let Some(row) = left.strip_prefix("  ") {
            let mut words = row.split_whitespace();
            let name = words.next().unwrap_or_default();
            let mut field = Field { ty, ..Field::default() };
            for word in words {
                match word.split_once('=') {
                    Some(("map", keys)) => {
                        field.keys = keys
                            .split(',')
                            .map(|key| key.split_once(':').map_or((key, None), |(key, d)| (key, Some(d))))
                            .collect();
                    }
                    Some(("merge", key)) => field.merge = Some(Merge::ByKey(key)),
                    _ => match word {
                        "atomic" => field.atomic = true,
                        "set" => field.set = true,
                        "merge" => field.merge = Some(Merge::Primitives),
                        "retainKeys" => field.retain_keys = true,
                        _ => {}
                    },
                }
            }
            table.types.entry(current).or_default().fields.insert(name, field);
        } else {
            let (name, root) = left.split_once(" = ").map_or((left, None), |(name, root)| (name, Some(root)));
            current = name;
            table.types.entry(name).or_default();
            if let Some((group, kind)) = root.and_then(|root| root.split_once('/')) {
                table.roots.insert((if group == "core" { "" } else { group }, kind), name);
            }
        }
    }
    table
}

fn object_meta() -> At<'static> {
    TABLE.types.get("meta.v1.ObjectMeta").map_or(At::Plain, At::Struct)
}

impl Layout<'_> {
    /// The layout of a built-in kind. Kinds outside of the table merge field by field and replace lists.
    pub fn builtin(group: &str, kind: &str) -> Layout<'static> {
        let ty = TABLE.roots.get(&(group, kind)).and_then(|name| TABLE.types.get(name));
        Layout(At::Root(ty))
    }

    /// The layout of a custom kind.
    pub fn custom(schema: &Schema) -> Layout<'_> {
        Layout(At::Custom(schema.root(), true))
    }
}

impl<'a> Layout<'a> {
    pub(crate) fn is_custom(self) -> bool {
        matches!(self.0, At::Custom(..) | At::Untyped)
    }

    /// The layout of the value below `key`.
    pub fn field(self, key: &str) -> Layout<'a> {
        let in_struct = |ty: Option<&'static Type>| {
            let field = ty.and_then(|ty| ty.fields.get(key));
            let free = || if FREE_MAPS.contains(&key) { At::Map } else { At::Plain };
            field.map_or_else(free, At::Field)
        };
        Layout(match self.0 {
            At::Root(_) if key == "metadata" => object_meta(),
            At::Root(ty) => in_struct(ty),
            At::Struct(ty) => in_struct(Some(ty)),
            At::Field(field) => in_struct(field.ty.and_then(|ty| TABLE.types.get(ty))),
            At::Plain => in_struct(None),
            At::Map => At::Plain,
            At::Custom(_, true) if key == "metadata" => object_meta(),
            At::Custom(node, _) if node.embedded && key == "metadata" => object_meta(),
            At::Custom(node, _) => node.child(key).map_or(At::Untyped, |child| At::Custom(child, false)),
            At::Untyped => At::Untyped,
        })
    }

    /// Whether `key` is a field of a struct here, as opposed to a key of a map.
    pub(crate) fn is_named(self, key: &str) -> bool {
        match self.0 {
            At::Root(_) | At::Struct(_) | At::Plain => true,
            At::Field(field) => !(field.atomic && FREE_MAPS.contains(&key)),
            At::Map | At::Untyped => false,
            At::Custom(_, true) if matches!(key, "metadata" | "apiVersion" | "kind") => true,
            At::Custom(node, _) => node.properties.contains_key(key),
        }
    }

    /// Whether a value of this key exists in every object, so that setting something inside it does not
    /// create it.
    pub(crate) fn is_always_present(self, key: &str) -> bool {
        match self.0 {
            At::Custom(_, root) => root && key == "metadata",
            At::Untyped | At::Map => false,
            At::Root(_) | At::Struct(_) | At::Field(_) | At::Plain => ALWAYS_PRESENT.contains(&key),
        }
    }

    /// Whether an object here is replaced as a whole.
    pub fn is_atomic_object(self) -> bool {
        match self.0 {
            At::Field(field) => field.atomic,
            At::Custom(node, _) => node.atomic_map,
            _ => false,
        }
    }

    /// Strategy of server-side apply for the list here.
    pub fn list(self) -> List {
        match self.0 {
            At::Field(field) if field.set => List::Set,
            At::Field(field) if !field.keys.is_empty() => List::Map,
            At::Custom(node, _) => match node.list_type {
                ListType::Atomic => List::Atomic,
                ListType::Set => List::Set,
                ListType::Map(_) => List::Map,
            },
            _ => List::Atomic,
        }
    }

    /// The layout of an item of the list here.
    pub fn item(self) -> Layout<'a> {
        Layout(match self.0 {
            At::Field(field) => field.ty.and_then(|ty| TABLE.types.get(ty)).map_or(At::Plain, At::Struct),
            At::Custom(node, _) => node.items.as_deref().map_or(At::Untyped, |node| At::Custom(node, false)),
            At::Untyped => At::Untyped,
            At::Root(_) | At::Struct(_) | At::Map | At::Plain => At::Plain,
        })
    }

    /// The identity of an item of the list-map here; `None` when it has none of the keys.
    pub(crate) fn key_of(self, item: &Value) -> Option<Map<String, Value>> {
        let object = item.as_object()?;
        let mut key = Map::new();
        match self.0 {
            At::Field(field) => {
                for (name, default) in &field.keys {
                    if let Some(value) = object.get(*name).cloned().or(default.map(Value::from)) {
                        key.insert((*name).to_owned(), value);
                    }
                }
                // Default values alone do not identify an item.
                if !field.keys.iter().any(|(name, _)| object.contains_key(*name)) {
                    return None;
                }
            }
            At::Custom(node, _) => {
                let ListType::Map(names) = &node.list_type else { return None };
                let default = |name: &str| node.items.as_deref()?.properties.get(name)?.default.clone();
                for name in names {
                    if let Some(value) = object.get(name).cloned().or_else(|| default(name)) {
                        key.insert(name.clone(), value);
                    }
                }
            }
            _ => return None,
        }
        if key.is_empty() {
            return None;
        }
        key.sort_keys();
        Some(key)
    }

    /// Names of the keys of the list-map here, for messages.
    pub(crate) fn key_names(self) -> Vec<&'a str> {
        match self.0 {
            At::Field(field) => field.keys.iter().map(|(name, _)| *name).collect(),
            At::Custom(node, _) => match &node.list_type {
                ListType::Map(keys) => keys.iter().map(String::as_str).collect(),
                ListType::Atomic | ListType::Set => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// Strategy of strategic merge patch for a list here; `None` means replace.
    pub(crate) fn merge(self) -> Option<Merge> {
        match self.0 {
            At::Field(field) => field.merge,
            _ => None,
        }
    }
}

/// The rows of one built-in type, for OpenAPI documents: field, list-map keys, set, atomic, merge key,
/// retainKeys.
pub(crate) struct Extension {
    pub(crate) field: &'static str,
    pub(crate) keys: Vec<&'static str>,
    pub(crate) set: bool,
    pub(crate) atomic: bool,
    pub(crate) merge: Option<Merge>,
    pub(crate) retain_keys: bool,
}

/// The table's rows for the fields of a type, named as in OpenAPI without its prefix (`core.v1.PodSpec`).
pub(crate) fn extensions(ty: &str) -> Vec<Extension> {
    let Some(ty) = TABLE.types.get(ty) else { return Vec::new() };
    let rows = ty.fields.iter().map(|(name, field)| Extension {
        field: name,
        keys: field.keys.iter().map(|(key, _)| *key).collect(),
        set: field.set,
        atomic: field.atomic,
        merge: field.merge,
        retain_keys: field.retain_keys,
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_type_that_a_row_names_exists() {
        for ty in TABLE.types.values() {
            for field in ty.fields.values() {
                if let Some(ty) = field.ty {
                    assert!(TABLE.types.contains_key(ty), "{ty}");
                }
            }
        }
    }

    #[test]
    fn walks_down_a_deployment() {
        let root = Layout::builtin("apps", "Deployment");
        let pod = root.field("spec").field("template").field("spec");
        assert_eq!(pod.field("containers").list(), List::Map);
        assert_eq!(pod.field("tolerations").list(), List::Atomic);
        assert_eq!(pod.field("containers").merge(), Some(Merge::ByKey("name")));
        let ports = pod.field("containers").item().field("ports");
        assert_eq!(
            ports.key_of(&json!({"containerPort": 80})).map(Value::from),
            Some(json!({"containerPort": 80, "protocol": "TCP"}))
        );
        assert_eq!(ports.key_of(&json!({"name": "x"})), None);
        assert!(root.field("spec").field("selector").is_atomic_object());
        assert_eq!(root.field("metadata").field("ownerReferences").list(), List::Map);
        assert_eq!(root.field("metadata").field("finalizers").list(), List::Set);
        assert!(!root.field("metadata").field("labels").is_named("app"));
        assert!(root.field("spec").is_named("replicas"));
        assert_eq!(root.field("status").field("conditions").list(), List::Map);
    }

    #[test]
    fn kinds_that_are_not_in_the_table_have_metadata() {
        let root = Layout::builtin("", "ConfigMap");
        assert_eq!(root.field("metadata").field("finalizers").list(), List::Set);
        assert!(!root.field("data").is_named("x"));
    }
}

//! Sets of field paths, and their `fieldsV1` form.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::{Map, Value};

/// One step of a path. Keys and values are stored as canonical JSON, which can be ordered and compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Element {
    /// `f:name`: a field of an object or a key of a map.
    Field(String),
    /// `k:{"name":"x"}`: an item of a list-map.
    Key(String),
    /// `v:"x"`: an item of a set.
    Value(String),
    /// `i:0`: an item by its position.
    Index(usize),
}

impl Element {
    fn encode(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(json) => format!("k:{json}"),
            Self::Value(json) => format!("v:{json}"),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    fn decode(text: &str) -> Option<Self> {
        let (tag, rest) = text.split_once(':')?;
        Some(match tag {
            "f" => Self::Field(rest.to_owned()),
            "k" => {
                let mut key: Map<String, Value> = serde_json::from_str(rest).ok()?;
                key.sort_keys();
                Self::Key(Value::from(key).to_string())
            }
            "v" => Self::Value(serde_json::from_str::<Value>(rest).ok()?.to_string()),
            "i" => Self::Index(rest.parse().ok()?),
            _ => return None,
        })
    }

    /// As Kubernetes prints a step in messages.
    pub(super) fn show(&self, out: &mut String) {
        // Writing to a String cannot fail.
        let _ = match self {
            Self::Field(name) => write!(out, ".{name}"),
            Self::Key(json) => {
                let key: Map<String, Value> = serde_json::from_str(json).unwrap_or_default();
                let parts: Vec<_> = key.iter().map(|(name, value)| format!("{name}={value}")).collect();
                write!(out, "[{}]", parts.join(","))
            }
            Self::Value(json) => write!(out, "[={json}]"),
            Self::Index(index) => write!(out, "[{index}]"),
        };
    }
}

/// A set of paths, as a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FieldSet {
    children: BTreeMap<Element, Entry>,
}

/// One node of the tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// Whether its path is in the set.
    pub(super) member: bool,
    /// The members below it.
    pub(super) below: FieldSet,
}

impl FieldSet {
    pub(super) fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    pub(super) fn get(&self, element: &Element) -> Option<&Entry> {
        self.children.get(element)
    }

    pub(super) fn insert(&mut self, path: &[Element]) {
        let Some((first, rest)) = path.split_first() else { return };
        let entry = self.children.entry(first.clone()).or_default();
        if rest.is_empty() {
            entry.member = true;
        } else {
            entry.below.insert(rest);
        }
    }

    pub(super) fn union(&self, other: &Self) -> Self {
        let mut result = self.clone();
        for (element, entry) in &other.children {
            let mine = result.children.entry(element.clone()).or_default();
            mine.member |= entry.member;
            mine.below = mine.below.union(&entry.below);
        }
        result
    }

    pub(super) fn difference(&self, other: &Self) -> Self {
        self.combine(|element, entry| match other.get(element) {
            None => entry.clone(),
            Some(theirs) => {
                Entry { member: entry.member && !theirs.member, below: entry.below.difference(&theirs.below) }
            }
        })
    }

    pub(super) fn intersection(&self, other: &Self) -> Self {
        self.combine(|element, entry| match other.get(element) {
            None => Entry::default(),
            Some(theirs) => Entry {
                member: entry.member && theirs.member,
                below: entry.below.intersection(&theirs.below),
            },
        })
    }

    fn combine(&self, pick: impl Fn(&Element, &Entry) -> Entry) -> Self {
        let entries = self.children.iter().map(|(element, entry)| (element.clone(), pick(element, entry)));
        Self { children: entries.filter(|(_, entry)| entry.member || !entry.below.is_empty()).collect() }
    }

    /// All paths in the set, as Kubernetes prints them (`.spec.containers[name="x"].image`).
    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect("", &mut paths);
        paths
    }

    fn collect(&self, prefix: &str, paths: &mut Vec<String>) {
        for (element, entry) in &self.children {
            let mut path = prefix.to_owned();
            element.show(&mut path);
            if entry.member {
                paths.push(path.clone());
            }
            entry.below.collect(&path, paths);
        }
    }

    /// Reads `fieldsV1`; malformed parts are skipped.
    pub(super) fn from_json(value: &Value) -> Self {
        let mut set = Self::default();
        for (key, below) in value.as_object().into_iter().flatten() {
            let Some(element) = Element::decode(key) else { continue };
            let member = below.as_object().is_none_or(|map| map.is_empty() || map.contains_key("."));
            set.children.insert(element, Entry { member, below: Self::from_json(below) });
        }
        set
    }

    pub(super) fn to_json(&self) -> Value {
        let mut map = Map::new();
        for (element, entry) in &self.children {
            let mut below = Map::new();
            if let Value::Object(inner) = entry.below.to_json() {
                if entry.member && !inner.is_empty() {
                    below.insert(".".to_owned(), Value::Object(Map::new()));
                }
                below.extend(inner);
            }
            map.insert(element.encode(), below.into());
        }
        map.into()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn round_trips_through_fields_v1() {
        let fields = json!({
            "f:metadata": {"f:labels": {".": {}, "f:app": {}}, "f:finalizers": {".": {}, "v:\"x\"": {}}},
            "f:spec": {
                "f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}}},
                "f:replicas": {},
            },
            "f:list": {"i:0": {}},
        });
        let set = FieldSet::from_json(&fields);
        assert_eq!(set.to_json(), fields);
        assert_eq!(
            set.paths(),
            [
                ".list[0]",
                ".metadata.finalizers",
                ".metadata.finalizers[=\"x\"]",
                ".metadata.labels",
                ".metadata.labels.app",
                ".spec.containers[name=\"c\"]",
                ".spec.containers[name=\"c\"].image",
                ".spec.replicas",
            ]
        );
    }

    #[test]
    fn set_algebra() {
        let set = |json: Value| FieldSet::from_json(&json);
        let a = set(json!({"f:a": {".": {}, "f:x": {}}, "f:b": {}}));
        let b = set(json!({"f:a": {"f:x": {}, "f:y": {}}}));
        assert_eq!(a.union(&b).to_json(), json!({"f:a": {".": {}, "f:x": {}, "f:y": {}}, "f:b": {}}));
        assert_eq!(a.difference(&b).to_json(), json!({"f:a": {}, "f:b": {}}));
        assert_eq!(a.intersection(&b).to_json(), json!({"f:a": {"f:x": {}}}));
        assert!(a.difference(&a).is_empty());
    }
}

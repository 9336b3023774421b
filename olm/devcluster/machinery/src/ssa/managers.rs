//! `metadata.managedFields`: the owners of fields.

use serde_json::{Map, Value, json};

use super::set::FieldSet;

/// Above this number Update entries are merged into one.
const MAX_UPDATE_MANAGERS: usize = 10;
const ANCIENT: &str = "ancient-changes";

/// Identity of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Id {
    pub(super) manager: String,
    pub(super) apply: bool,
    pub(super) subresource: String,
    /// Empty for apply: an applier stays the same manager when it moves to another version.
    pub(super) api_version: String,
}

impl Id {
    pub(super) fn new(manager: &str, apply: bool, subresource: Option<&str>, api_version: &str) -> Self {
        Self {
            manager: manager.to_owned(),
            apply,
            subresource: subresource.unwrap_or_default().to_owned(),
            api_version: if apply { String::new() } else { api_version.to_owned() },
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Manager {
    pub(super) id: Id,
    pub(super) api_version: String,
    pub(super) time: String,
    pub(super) set: FieldSet,
}

/// The entries of one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Managers(Vec<Manager>);

impl Managers {
    /// Reads an object's entries; malformed ones are skipped.
    pub(super) fn read(object: &Value) -> Self {
        let list = object["metadata"].get("managedFields").and_then(Value::as_array);
        let entries = list.map(Vec::as_slice).unwrap_or_default().iter().filter_map(|entry| {
            let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
            let apply = match text("operation") {
                "Apply" => true,
                "Update" => false,
                _ => return None,
            };
            Some(Manager {
                id: Id::new(text("manager"), apply, Some(text("subresource")), text("apiVersion")),
                api_version: text("apiVersion").to_owned(),
                time: text("time").to_owned(),
                set: FieldSet::from_json(entry.get("fieldsV1")?),
            })
        });
        let mut managers = Self::default();
        for manager in entries {
            // Duplicate entries of a manager are merged.
            match managers.get_mut(&manager.id) {
                Some(known) => known.set = known.set.union(&manager.set),
                None => managers.0.push(manager),
            }
        }
        managers
    }

    /// Writes the entries into an object; without entries the field is omitted.
    pub(super) fn write(&self, object: &mut Value) {
        let mut entries: Vec<&Manager> = self.0.iter().filter(|m| !m.set.is_empty()).collect();
        entries.sort_by(|a, b| {
            let key =
                |m: &Manager| (!m.id.apply, m.time.clone(), m.id.manager.clone(), m.id.subresource.clone());
            key(a).cmp(&key(b))
        });
        let Some(metadata) = object
            .as_object_mut()
            .map(|o| o.entry("metadata").or_insert_with(|| json!({})))
            .and_then(Value::as_object_mut)
        else {
            return;
        };
        if entries.is_empty() {
            metadata.shift_remove("managedFields");
        } else {
            let list = entries.into_iter().map(Manager::encode).collect();
            metadata.insert("managedFields".to_owned(), list);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get(&self, id: &Id) -> Option<&Manager> {
        self.0.iter().find(|manager| manager.id == *id)
    }

    fn get_mut(&mut self, id: &Id) -> Option<&mut Manager> {
        self.0.iter_mut().find(|manager| manager.id == *id)
    }

    pub(super) fn others_mut(&mut self, id: &Id) -> impl Iterator<Item = &mut Manager> {
        self.0.iter_mut().filter(move |manager| manager.id != *id)
    }

    pub(super) fn others(&self, id: &Id) -> impl Iterator<Item = &Manager> {
        self.0.iter().filter(move |manager| manager.id != *id)
    }

    /// Sets the fields of a manager. Its time changes only with its fields.
    pub(super) fn set(&mut self, id: &Id, api_version: &str, set: FieldSet, now: &str) {
        match self.get_mut(id) {
            Some(manager) => {
                if manager.set != set || manager.api_version != api_version {
                    manager.time = now.to_owned();
                }
                manager.set = set;
                manager.api_version = api_version.to_owned();
            }
            None => self.0.push(Manager {
                id: id.clone(),
                api_version: api_version.to_owned(),
                time: now.to_owned(),
                set,
            }),
        }
        self.0.retain(|manager| !manager.set.is_empty());
    }

    /// Limits the number of Update entries: the oldest are merged.
    pub(super) fn cap(&mut self) {
        loop {
            let mut updates: Vec<usize> = (0..self.0.len()).filter(|i| !self.0[*i].id.apply).collect();
            if updates.len() <= MAX_UPDATE_MANAGERS {
                return;
            }
            updates.sort_by(|a, b| self.0[*a].time.cmp(&self.0[*b].time));
            let oldest = updates.iter().copied().find(|i| self.0[*i].id.manager != ANCIENT);
            let Some(oldest) = oldest else { return };
            let oldest = self.0.remove(oldest);
            let id = Id { manager: ANCIENT.to_owned(), subresource: String::new(), ..oldest.id };
            match self.get_mut(&id) {
                Some(ancient) => ancient.set = ancient.set.union(&oldest.set),
                None => self.0.push(Manager { id, ..oldest }),
            }
        }
    }
}

impl Manager {
    fn encode(&self) -> Value {
        let mut entry = Map::new();
        entry.insert("manager".to_owned(), self.id.manager.as_str().into());
        entry.insert("operation".to_owned(), if self.id.apply { "Apply" } else { "Update" }.into());
        entry.insert("apiVersion".to_owned(), self.api_version.as_str().into());
        if !self.time.is_empty() {
            entry.insert("time".to_owned(), self.time.as_str().into());
        }
        entry.insert("fieldsType".to_owned(), "FieldsV1".into());
        entry.insert("fieldsV1".to_owned(), self.set.to_json());
        if !self.id.subresource.is_empty() {
            entry.insert("subresource".to_owned(), self.id.subresource.as_str().into());
        }
        entry.into()
    }
}

/// The set without fields that have no owner: the server's own, and those that identify the object.
pub(super) fn without_identity(set: &FieldSet) -> FieldSet {
    set.difference(&FieldSet::from_json(&json!({
        "f:apiVersion": {},
        "f:kind": {},
        "f:metadata": {
            ".": {},
            "f:name": {},
            "f:namespace": {},
            "f:creationTimestamp": {},
            "f:selfLink": {},
            "f:uid": {},
            "f:generation": {},
            "f:managedFields": {},
            "f:resourceVersion": {},
            "f:deletionTimestamp": {},
            "f:deletionGracePeriodSeconds": {},
        },
    })))
}

pub(super) fn bare(object: &Value) -> Value {
    let mut bare = object.clone();
    strip_managed_fields(&mut bare);
    bare
}

/// Removes `metadata.managedFields`.
pub(super) fn strip_managed_fields(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("managedFields");
    }
}

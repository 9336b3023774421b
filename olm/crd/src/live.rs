//! Whether the objects that exist fit a new definition.

use serde::Serialize;
use serde_json::Value;

use crate::schema::Schema;
use crate::view::View;

/// Objects that are named in a report; the counts go on.
pub const MOST_OBJECTS: usize = 20;
/// Fields that are named for one object; the counts go on.
pub const MOST_FIELDS: usize = 10;

/// A text is cut behind so many characters.
const LONGEST_TEXT: usize = 500;

/// What a new definition does to the objects that exist.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LiveReport {
    /// Kind of the objects.
    pub kind: String,
    /// Objects that were held against a schema.
    pub checked: usize,
    /// How many of them the new schema refuses.
    pub failing: usize,
    /// How many of them would lose fields that the new schema does not know.
    pub losing: usize,
    /// The first [`MOST_OBJECTS`] that are refused.
    pub failures: Vec<ObjectReport>,
    /// The first [`MOST_OBJECTS`] that would lose fields.
    pub losses: Vec<ObjectReport>,
    /// What could not be checked, and why.
    pub unchecked: Vec<Unchecked>,
}

/// One object of a [`LiveReport`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReport {
    /// Its namespace, if it is in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
    /// The version of the new definition it was held against.
    pub version: String,
    /// The first [`MOST_FIELDS`] that are wrong or would be lost.
    pub fields: Vec<Field>,
    /// How many there are altogether.
    pub total: usize,
}

/// A field of an object, and what is the matter with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Field {
    /// Where it is, such as `.spec.size`; empty for rules on the object as a whole.
    pub path: String,
    /// What is wrong, or what will happen to it.
    pub text: String,
}

/// What a [`LiveReport`] leaves open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unchecked {
    /// What it is, such as `objects of versions that are not served any more`.
    pub what: String,
    /// Why it could not be checked.
    pub why: String,
    /// How many objects it concerns.
    pub objects: usize,
}

/// Holds every object against the schema of the version of `new_crd` at which it will be read.
///
/// That is the object's own version where it is still served, otherwise the version of storage: without a webhook
/// nothing but the apiVersion of an object changes. As in the API server, fields that the schema does not know are
/// dropped first and defaults are filled in, and what is left is validated. Fields that the version of storage alone
/// does not know are lost as well, as soon as the object is written.
///
/// Rules in CEL are run, except those that compare an object with what it was before. What a webhook makes of an object is
/// not known; `unchecked` says so.
#[must_use]
pub fn check_objects<'a>(new_crd: &Value, objects: impl IntoIterator<Item = &'a Value>) -> LiveReport {
    let mut report = LiveReport::default();
    let view = match View::of(new_crd) {
        Ok(view) => view,
        Err(why) => {
            report.leave("all objects".to_owned(), why.to_owned(), objects.into_iter().count());
            return report;
        }
    };
    report.kind = view.kind.to_owned();
    let mut checker = Checker::new(&view);
    for object in objects {
        checker.object(object, &mut report);
    }
    checker.finish(&mut report);
    report
}

impl LiveReport {
    /// Whether every object was checked and none is refused or loses anything.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.failing == 0 && self.losing == 0 && self.unchecked.is_empty()
    }

    fn leave(&mut self, what: String, why: String, objects: usize) {
        self.unchecked.push(Unchecked { what, why, objects });
    }
}

/// A version of the new definition, ready to check objects.
struct Target<'a> {
    name: &'a str,
    /// Nothing where the version has none; the reason where it cannot be used.
    schema: Option<Result<Schema, String>>,
    /// Objects that were checked against it, or would have been.
    objects: usize,
}

struct Checker<'v, 'a> {
    view: &'v View<'a>,
    targets: Vec<Target<'a>>,
    foreign: usize,
    unreachable: usize,
    unconverted: usize,
}

impl<'v, 'a> Checker<'v, 'a> {
    fn new(view: &'v View<'a>) -> Self {
        Self { view, targets: Vec::new(), foreign: 0, unreachable: 0, unconverted: 0 }
    }

    /// The version, compiled when it is first asked for.
    fn target(&mut self, name: &str) -> Option<usize> {
        if let Some(at) = self.targets.iter().position(|target| target.name == name) {
            return Some(at);
        }
        let version = self.view.version(name)?;
        let schema = version.schema.map(|schema| {
            Schema::compile(schema, "schema.openAPIV3Schema").map_err(|errors| {
                let first = errors.first().map(ToString::to_string).unwrap_or_default();
                format!("API servers refuse its schema: {first}")
            })
        });
        self.targets.push(Target { name: version.name, schema, objects: 0 });
        Some(self.targets.len() - 1)
    }

    fn object(&mut self, object: &Value, report: &mut LiveReport) {
        let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
        let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
        if group != self.view.group || text("kind") != self.view.kind {
            self.foreign += 1;
            return;
        }
        let storage = self.view.storage().map(|storage| storage.name);
        let served = self.view.version(version).is_some_and(|version| version.served);
        let read_at = if served { Some(version) } else { storage };
        if self.view.webhook && !served {
            self.unconverted += 1;
            return;
        }
        let Some(at) = read_at.and_then(|name| self.target(name)) else {
            self.unreachable += 1;
            return;
        };
        let written_at = storage
            .filter(|storage| !self.view.webhook && Some(*storage) != read_at)
            .and_then(|name| self.target(name));
        self.targets[at].objects += 1;
        let schema = match &self.targets[at].schema {
            Some(Err(_)) => return,
            Some(Ok(schema)) => Some(schema),
            None => None,
        };
        report.checked += 1;
        let mut lost = Vec::new();
        let mut seen = object.clone();
        let mut written = None;
        if let Some(schema) = schema {
            if !self.view.preserves_all {
                let name = self.targets[at].name;
                lost.extend(schema.prune(&mut seen).into_iter().map(|path| dropped(&path, name)));
            }
            // What a default puts in is no loss when it goes again.
            written = written_at.map(|_| seen.clone());
            schema.default(&mut seen);
            let errors = schema.validate(&seen);
            if !errors.is_empty() {
                report.failing += 1;
                let fields = errors
                    .iter()
                    .take(MOST_FIELDS)
                    .map(|error| Field { path: shown(&error.path), text: cut(error.body()) })
                    .collect();
                note(&mut report.failures, object, self.targets[at].name, fields, errors.len());
            }
        }
        if let Some(written_at) = written_at
            && !self.view.preserves_all
            && let Some(Ok(schema)) = &self.targets[written_at].schema
        {
            let name = self.targets[written_at].name;
            let mut written = written.unwrap_or(seen);
            lost.extend(schema.prune(&mut written).into_iter().map(|path| dropped(&path, name)));
        }
        if !lost.is_empty() {
            report.losing += 1;
            let total = lost.len();
            lost.truncate(MOST_FIELDS);
            note(&mut report.losses, object, self.targets[at].name, lost, total);
        }
    }

    fn finish(self, report: &mut LiveReport) {
        for target in &self.targets {
            if let Some(Err(why)) = &target.schema {
                report.leave(format!("version {}", target.name), why.clone(), target.objects);
            }
        }
        let mut leave = |what: &str, why: &str, objects| {
            if objects > 0 {
                report.leave(what.to_owned(), why.to_owned(), objects);
            }
        };
        leave(
            "objects of versions that are not served any more",
            "only the conversion webhook knows what becomes of them",
            self.unconverted,
        );
        leave(
            "objects of versions that are not served any more",
            "the definition has no version of storage that they could be read at",
            self.unreachable,
        );
        leave("objects of another group or kind", "the definition does not describe them", self.foreign);
    }
}

fn note(list: &mut Vec<ObjectReport>, object: &Value, version: &str, fields: Vec<Field>, total: usize) {
    if list.len() == MOST_OBJECTS {
        return;
    }
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    list.push(ObjectReport {
        namespace: text("/metadata/namespace"),
        name: text("/metadata/name").unwrap_or_default(),
        version: version.to_owned(),
        fields,
        total,
    });
}

fn dropped(path: &str, version: &str) -> Field {
    Field { path: shown(path), text: format!("it is dropped: the schema of {version} does not have it") }
}

/// Paths in errors of the API server begin without a dot.
fn shown(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!(".{path}") }
}

/// Values in error texts can be as long as the object.
fn cut(text: String) -> String {
    match text.char_indices().nth(LONGEST_TEXT) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests;

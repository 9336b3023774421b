//! Validity of existing objects under a new definition.

use serde::Serialize;
use serde_json::Value;

use crate::schema::Schema;
use crate::view::View;

/// Limit of the objects that a report lists; the counts are complete.
pub const MOST_OBJECTS: usize = 20;
/// Limit of the fields that are listed for one object; the counts are complete.
pub const MOST_FIELDS: usize = 10;

/// A text is cut after this many characters.
const LONGEST_TEXT: usize = 500;

/// Effects of a new definition on the existing objects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LiveReport {
    pub kind: String,
    /// Number of objects that were validated against a schema.
    pub checked: usize,
    /// Number of objects that the new schema rejects.
    pub failing: usize,
    /// Number of objects that would lose fields missing in the new schema.
    pub losing: usize,
    /// The first [`MOST_OBJECTS`] rejected objects.
    pub failures: Vec<ObjectReport>,
    /// The first [`MOST_OBJECTS`] objects that would lose fields.
    pub losses: Vec<ObjectReport>,
    /// Objects that were not checked, with the reason.
    pub unchecked: Vec<Unchecked>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReport {
    /// `None` for a cluster-scoped object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
    /// The version of the new definition that it was validated against.
    pub version: String,
    /// The first [`MOST_FIELDS`] that are invalid or would be lost.
    pub fields: Vec<Field>,
    /// Total number of such fields.
    pub total: usize,
}

/// A field of an object with its error or loss.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Field {
    /// The path, such as `.spec.size`; empty for rules on the object as a whole.
    pub path: String,
    /// The error or the effect.
    pub text: String,
}

/// A part of a [`LiveReport`] that was not checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unchecked {
    /// Description, such as `objects of versions that are not served any more`.
    pub what: String,
    pub why: String,
    /// Number of affected objects.
    pub objects: usize,
}

/// Validates every object against the schema of the version of `new_crd` at which it will be read.
///
/// That is the object's own version where it is still served, otherwise the storage version: without a
/// webhook only the apiVersion of an object changes. As in the API server, fields that the schema does not
/// declare are pruned first, defaults are set, and the result is validated. Fields that are missing only in
/// the storage version are lost as well, as soon as the object is written.
///
/// CEL rules are run, except those that compare an object with its old version. The result of a conversion
/// webhook is unknown; `unchecked` reports it.
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
    /// Whether every object was checked and none is rejected or loses fields.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.failing == 0 && self.losing == 0 && self.unchecked.is_empty()
    }

    fn leave(&mut self, what: String, why: String, objects: usize) {
        self.unchecked.push(Unchecked { what, why, objects });
    }
}

/// A version of the new definition, compiled to check objects.
struct Target<'a> {
    name: &'a str,
    /// `None` where the version has no schema; an error where the schema is not usable.
    schema: Option<Result<Schema, String>>,
    /// Objects that were checked against it, or skipped.
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

    /// The version, compiled on first use.
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
            // The removal of a defaulted field is not a loss.
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
            "the conversion webhook decides on the result",
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

/// A path as in errors of the API server, without the leading dot.
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

//! `metadata/`: annotations, properties and dependencies.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::error::{BundleError, Place};
use crate::fields::{self, Shape};
use crate::model::Property;
use crate::properties::PROPERTY;
use crate::provenance::{Provenance, Spot};
use crate::validate::{Finding, Severity, note};
use crate::yaml::join;

/// Sections that upstream reads from the files of `metadata/`; each is expected in a file of its name.
const SECTIONS: [&str; 3] = ["annotations", "dependencies", "properties"];
/// Maximum number of findings about one document, to bound memory.
const MOST_FINDINGS: usize = 50;

/// The fields of the files of `metadata/`. The keys of the annotations are data.
static FILE: Shape =
    Shape(&[("annotations", None), ("dependencies", Some(&PROPERTY)), ("properties", Some(&PROPERTY))]);

#[derive(Default)]
pub(super) struct Metadata {
    pub annotations: BTreeMap<String, String>,
    pub properties: Vec<Property>,
    pub dependencies: Vec<Property>,
    /// The first file with each section.
    found: BTreeMap<&'static str, String>,
}

/// A finding about a field, whose place is located at the end.
enum PendingFinding {
    Problem(String),
    Note { severity: Severity, code: &'static str, text: String, fix: String },
}

#[derive(Default)]
struct PendingFindings(Vec<(String, PendingFinding)>);

impl PendingFindings {
    fn problem(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.add(path.into(), PendingFinding::Problem(message.into()));
    }

    fn note(&mut self, code: &'static str, path: impl Into<String>, text: String, fix: impl Into<String>) {
        let (severity, fix) = (Severity::Warning, fix.into());
        self.add(path.into(), PendingFinding::Note { severity, code, text, fix });
    }

    fn add(&mut self, path: String, finding: PendingFinding) {
        if self.0.len() < MOST_FINDINGS {
            self.0.push((path, finding));
        }
    }

    /// Adds notes to the provenance; returns problems.
    fn finish(self, spot: Spot, provenance: &mut Provenance) -> Vec<BundleError> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let paths: Vec<&str> = self.0.iter().map(|(path, _)| path.as_str()).collect();
        let places = provenance.places(spot, &paths);
        let mut problems = Vec::new();
        for ((path, finding), places) in self.0.into_iter().zip(places) {
            let unknown = Place { file: String::new(), line: 0, column: 0 };
            let place = places.into_iter().next().unwrap_or(unknown);
            match finding {
                PendingFinding::Problem(message) => problems.push(BundleError::Metadata { place, message }),
                PendingFinding::Note { severity, code, text, fix } => {
                    let finding = note(severity, code, place, text, &fix);
                    provenance.notes.push(Finding { field: path, ..finding });
                }
            }
        }
        problems
    }
}

impl Metadata {
    /// Merges a document of `metadata/` and returns its problems.
    pub fn add(
        &mut self,
        file: &str,
        mut value: Value,
        spot: Spot,
        provenance: &mut Provenance,
    ) -> Vec<BundleError> {
        let mut findings = PendingFindings::default();
        if let Err(ambiguous) = fields::rename(&mut value, &FILE) {
            findings.problem(String::new(), ambiguous.to_string());
            return findings.finish(spot, provenance);
        }
        let Some(map) = value.as_object() else {
            // Upstream ignores the file silently, against its author's intention; here a note reports it.
            let text = "it has no annotations, properties or dependencies: it is not a map".to_owned();
            let fix = "write what the file is for, such as `dependencies: [...]`, or remove it".to_owned();
            let (severity, code) = (Severity::Error, "metadata-shape");
            findings.add(String::new(), PendingFinding::Note { severity, code, text, fix });
            return findings.finish(spot, provenance);
        };
        for (key, value) in map {
            match SECTIONS.iter().find(|section| *section == key) {
                Some(section) if !value.is_null() => self.found(section, file, &mut findings),
                Some(_) => {}
                None => unknown(key, &mut findings),
            }
        }
        match map.get("annotations").filter(|value| !value.is_null()).map(Value::as_object) {
            None => {}
            Some(None) => findings.problem("annotations", "annotations is not a map"),
            Some(Some(annotations)) => {
                provenance.annotations.get_or_insert(spot);
                self.annotations(annotations, &mut findings);
            }
        }
        for (path, property) in entries(map, "properties", &mut findings) {
            provenance.properties.push((spot, path));
            self.properties.push(property);
        }
        for (path, property) in entries(map, "dependencies", &mut findings) {
            provenance.dependencies.push((spot, path));
            self.dependencies.push(property);
        }
        findings.finish(spot, provenance)
    }

    /// Reports a section in an unexpected file.
    fn found(&mut self, section: &'static str, file: &str, findings: &mut PendingFindings) {
        if let Some(first) = self.found.get(section) {
            let text = format!("{section} is in {first} as well; upstream's tools read the first file only");
            return findings.note("metadata-section-repeated", section, text, "put all of it into one file");
        }
        self.found.insert(section, file.to_owned());
        let name = file.rsplit('/').next().unwrap_or(file);
        if section != "annotations" && !name.starts_with(section) {
            let text = format!("{section} is in a file of another name; it counts all the same");
            let fix = format!("move it to metadata/{section}.yaml");
            findings.note("metadata-section-misplaced", section, text, fix);
        }
    }

    fn annotations(&mut self, annotations: &Map<String, Value>, findings: &mut PendingFindings) {
        for (key, value) in annotations {
            let text = match value {
                Value::String(text) => text.clone(),
                // As in Go.
                Value::Null => String::new(),
                // YAML parses an unquoted `4.6` or `true` as number or boolean.
                Value::Bool(_) | Value::Number(_) => {
                    let text =
                        format!("{key} is {value}, expected a string; upstream's tools refuse the file");
                    findings.note("annotation-not-text", join("annotations", key), text, "put it in quotes");
                    value.to_string()
                }
                _ => {
                    let message = format!("annotation {key} is not a string");
                    findings.problem(join("annotations", key), message);
                    continue;
                }
            };
            self.annotations.insert(key.clone(), text);
        }
    }
}

/// The entries of a list of types and values, with their paths.
fn entries(map: &Map<String, Value>, key: &str, findings: &mut PendingFindings) -> Vec<(String, Property)> {
    let Some(value) = map.get(key).filter(|value| !value.is_null()) else { return Vec::new() };
    let Some(list) = value.as_array() else {
        findings.problem(key, format!("{key} is not a list of type and value"));
        return Vec::new();
    };
    let mut entries = Vec::new();
    for (index, entry) in list.iter().enumerate() {
        let path = format!("{key}[{index}]");
        match serde_json::from_value::<Property>(entry.clone()) {
            Ok(property) => entries.push((path, property)),
            Err(error) => {
                let message = format!("{path} is not a type and a value: {error}");
                findings.problem(path, message);
            }
        }
    }
    entries
}

fn unknown(key: &str, findings: &mut PendingFindings) {
    // The search for the nearest name of a long one is slow, and finds none.
    const LONGEST: usize = 64;
    let nearest = if key.len() > LONGEST { Vec::new() } else { olm_version::suggest(key, SECTIONS, 1) };
    let hint = nearest.first().map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    let shown: String = key.chars().take(LONGEST).collect();
    let text = format!("{shown:?} is none of {} and is ignored{hint}", SECTIONS.join(", "));
    findings.note("metadata-key-unknown", join("", key), text, "correct or remove it");
}

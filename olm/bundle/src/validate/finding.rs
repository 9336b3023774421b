//! Collects the findings of checks, with their places.

use std::collections::HashMap;

use crate::error::Place;
use crate::finding::{Finding, Severity};
use crate::model::{Bundle, kind, name};
use crate::provenance::{Origin, Provenance};

/// Maximum number of findings of one bundle, to bound memory.
const MOST_FINDINGS: usize = 1_000;
/// Maximum length of a quoted text in characters.
const LONGEST_QUOTE: usize = 120;

/// Maximum length of a text in bytes: names in hostile bundles can be as long as the file.
const LONGEST_TEXT: usize = 1_000;

/// Truncates a long text.
fn cut(mut text: String) -> String {
    if text.len() > LONGEST_TEXT {
        let end = text.floor_char_boundary(LONGEST_TEXT);
        text.truncate(end);
        text.push_str("...");
        text.shrink_to_fit();
    }
    text
}

/// A text in quotes, truncated.
pub(super) fn quote(text: &str) -> String {
    match text.char_indices().nth(LONGEST_QUOTE) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// Collects findings.
#[derive(Default)]
pub(crate) struct Findings {
    list: Vec<(Origin, Finding)>,
    left_out: usize,
}

impl Findings {
    /// Collects findings about one part of the bundle.
    pub fn of(&mut self, origin: Origin) -> PartFindings<'_> {
        PartFindings { findings: self, origin }
    }

    fn add(&mut self, origin: Origin, finding: Finding) {
        if self.list.len() < MOST_FINDINGS {
            self.list.push((origin, finding));
        } else {
            self.left_out += 1;
        }
    }

    /// The findings with their places, errors first, then in the order of the files.
    pub fn finish(mut self, bundle: &Bundle) -> Vec<Finding> {
        let provenance = &bundle.provenance;
        for (origin, finding) in &mut self.list {
            finding.object = cut(object_of(bundle, *origin));
        }
        let mut by_document: HashMap<(usize, usize), Vec<usize>> = HashMap::new();
        let mut spots = HashMap::new();
        for (index, (origin, _)) in self.list.iter().enumerate() {
            if let Some(spot) = provenance.spot_of(*origin) {
                let key = spot.key();
                spots.insert(key, spot);
                by_document.entry(key).or_default().push(index);
            }
        }
        for (key, indexes) in by_document {
            let paths: Vec<String> = indexes
                .iter()
                .map(|index| provenance.path_of(self.list[*index].0, &self.list[*index].1.field))
                .collect();
            let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
            let places = provenance.places(spots[&key], &paths);
            for (index, places) in indexes.into_iter().zip(places) {
                self.list[index].1.place = places.into_iter().next();
            }
        }
        let left_out = self.left_out;
        let mut list: Vec<Finding> = self.list.into_iter().map(|(_, finding)| finding).collect();
        list.splice(0..0, provenance.notes.iter().cloned());
        if left_out > 0 {
            list.push(Finding {
                code: "findings-cut",
                severity: Severity::Error,
                place: None,
                object: format!("bundle {}", bundle.name()),
                field: String::new(),
                text: format!("there are {left_out} more findings than the {MOST_FINDINGS} shown"),
                fix: "correct these first".into(),
            });
        }
        list.sort_by(|a, b| {
            let key = |f: &Finding| {
                let place = f.place.as_ref();
                (f.severity, place.map(|p| p.file.clone()), place.map(|p| (p.line, p.column)))
            };
            key(a).cmp(&key(b))
        });
        list
    }
}

fn object_of(bundle: &Bundle, origin: Origin) -> String {
    match origin {
        Origin::Bundle => format!("bundle {}", bundle.name()),
        Origin::Csv => format!("ClusterServiceVersion {}", bundle.name()),
        Origin::Object(index) => {
            let object = bundle.objects.get(index);
            let (kind, name) = (object.map_or("", kind), object.map_or("", name));
            format!("{kind} {name}").trim_end().to_owned()
        }
        Origin::Annotations => "annotations".to_owned(),
        Origin::Dependency(index) => format!("dependencies[{index}]"),
        Origin::Property(index) => format!("properties[{index}]"),
    }
}

/// Findings about one part of the bundle.
pub(crate) struct PartFindings<'a> {
    findings: &'a mut Findings,
    origin: Origin,
}

impl PartFindings<'_> {
    /// The nearest of some names, for a hint; none for names that are too long or too many, and none once the
    /// maximum of findings is reached.
    pub fn near<'n>(&self, name: &str, names: impl IntoIterator<Item = &'n str>) -> Option<String> {
        const LONGEST: usize = 80;
        const MOST: usize = 200;
        if name.len() > LONGEST || self.findings.list.len() >= MOST_FINDINGS {
            return None;
        }
        let names = names.into_iter().filter(|name| name.len() <= LONGEST).take(MOST);
        olm_version::suggest(name, names, 1).into_iter().next()
    }

    pub fn error(
        &mut self,
        code: &'static str,
        field: impl Into<String>,
        text: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.add(Severity::Error, code, field.into(), text.into(), fix.into());
    }

    pub fn warn(
        &mut self,
        code: &'static str,
        field: impl Into<String>,
        text: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.add(Severity::Warning, code, field.into(), text.into(), fix.into());
    }

    pub fn add(&mut self, severity: Severity, code: &'static str, field: String, text: String, fix: String) {
        let (field, text, fix) = (cut(field), cut(text), cut(fix));
        let finding = Finding { code, severity, place: None, object: String::new(), field, text, fix };
        self.findings.add(self.origin, finding);
    }
}

/// A finding about a whole file, from reading a bundle.
pub(crate) fn note(severity: Severity, code: &'static str, place: Place, text: String, fix: &str) -> Finding {
    Finding {
        code,
        severity,
        place: Some(place),
        object: String::new(),
        field: String::new(),
        text: cut(text),
        fix: fix.to_owned(),
    }
}

/// Notes about duplicate keys of a document.
pub(crate) fn repeated_keys(
    provenance: &Provenance,
    spot: crate::provenance::Spot,
    paths: &[String],
) -> Vec<Finding> {
    let fields: Vec<&str> = paths.iter().map(String::as_str).collect();
    let places = if fields.is_empty() { Vec::new() } else { provenance.places(spot, &fields) };
    let notes = paths.iter().zip(places).filter_map(|(path, places)| {
        // Merged keys (`<<`) are overridden on purpose and occur once.
        let [first, second] = places.as_slice() else { return None };
        Some(Finding {
            code: "yaml-key-repeated",
            severity: Severity::Warning,
            place: Some(second.clone()),
            object: String::new(),
            field: path.clone(),
            text: format!(
                "it is duplicated, in line {} and in line {}; the last one counts",
                first.line, second.line
            ),
            fix: "remove one of the two".into(),
        })
    });
    notes.collect()
}

//! Sources of the parts of a bundle.

use std::sync::Arc;

use crate::error::Place;
use crate::finding::Finding;
use crate::yaml;

/// A part of a bundle that a finding can concern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    Bundle,
    Csv,
    /// One of the other manifests.
    Object(usize),
    /// The annotations in `metadata/`.
    Annotations,
    /// An entry of `dependencies`.
    Dependency(usize),
    /// An entry of `properties`.
    Property(usize),
}

#[derive(Debug)]
struct Source {
    file: String,
    text: Arc<str>,
}

/// A document in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spot {
    source: usize,
    line: usize,
    start: usize,
    end: usize,
}

impl Spot {
    /// Identifies the document.
    pub fn key(self) -> (usize, usize) {
        (self.source, self.start)
    }
}

/// Sources of the parts of a bundle; empty for a bundle built from catalog objects.
#[derive(Debug, Default)]
pub(crate) struct Provenance {
    sources: Vec<Source>,
    pub csv: Option<Spot>,
    pub objects: Vec<Spot>,
    pub annotations: Option<Spot>,
    /// With the field path of each in its document.
    pub dependencies: Vec<(Spot, String)>,
    pub properties: Vec<(Spot, String)>,
    /// Whether a file of the bundle could not be read, so that missing parts may be in it.
    pub incomplete: bool,
    /// Findings from reading.
    pub notes: Vec<Finding>,
}

impl Provenance {
    pub fn add_source(&mut self, file: &str, text: Arc<str>) -> usize {
        self.sources.push(Source { file: file.to_owned(), text });
        self.sources.len() - 1
    }

    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.sources.iter().map(|source| source.text.as_ref())
    }

    pub fn spot(source: usize, document: &yaml::Document) -> Spot {
        Spot { source, line: document.line, start: document.range.start, end: document.range.end }
    }

    pub fn spot_of(&self, origin: Origin) -> Option<Spot> {
        match origin {
            Origin::Bundle => None,
            Origin::Csv => self.csv,
            Origin::Object(index) => self.objects.get(index).copied(),
            Origin::Annotations => self.annotations,
            Origin::Dependency(index) => self.dependencies.get(index).map(|(spot, _)| *spot),
            Origin::Property(index) => self.properties.get(index).map(|(spot, _)| *spot),
        }
    }

    /// The path of a field of that part in its document.
    pub fn path_of(&self, origin: Origin, field: &str) -> String {
        let prefix = match origin {
            Origin::Dependency(index) => self.dependencies.get(index).map(|(_, path)| path.as_str()),
            Origin::Property(index) => self.properties.get(index).map(|(_, path)| path.as_str()),
            _ => None,
        };
        match prefix {
            Some(prefix) if field.is_empty() => prefix.to_owned(),
            Some(prefix) => format!("{prefix}.{field}"),
            None => field.to_owned(),
        }
    }

    /// The places of fields in one document; the document's own where unknown.
    pub fn places(&self, spot: Spot, fields: &[&str]) -> Vec<Vec<Place>> {
        let source = &self.sources[spot.source];
        let text = source.text.get(spot.start..spot.end).unwrap_or_default();
        let place = |(line, column)| Place { file: source.file.clone(), line, column };
        yaml::locate(text, spot.line, fields)
            .into_iter()
            .map(|positions| match positions.is_empty() {
                true => vec![place((spot.line, 1))],
                false => positions.into_iter().map(place).collect(),
            })
            .collect()
    }
}

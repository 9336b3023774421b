//! YAML of hand-written manifests, with the place of every error.
//!
//! Memory is bounded: a file takes at most [`MEMORY_FACTOR`] times its size (and one MiB more), whatever its
//! anchors, lists and keys expand to; larger expansions are rejected.

mod locate;
mod tracked;

use std::ops::Range;

use serde_json::Value;
use serde_saphyr::options::DuplicateKeyPolicy;

use crate::error::{BundleError, Place};

pub(crate) use locate::{join, locate};
use tracked::{Budget, Tracked};

/// Maximum memory of a file as a multiple of its size. The densest texts are lists of digits and maps of
/// short keys: two bytes become a value of 72 or an entry of 120, and lists and maps grow by doubling.
pub const MEMORY_FACTOR: usize = 192;

/// Maximum size for the tolerant reader; the largest real ClusterServiceVersion has 740 KB.
const LARGEST_TOLERATED: usize = 1 << 20;
/// Maximum number of brackets in such a text.
const MOST_BRACKETS: usize = 10_000;
/// Maximum number of errors of one file; the rest is not read.
const MOST_MISTAKES: usize = 20;

/// A document and the line it starts at.
#[derive(Debug, Clone)]
pub struct Document {
    /// Line of the file, counted from 1.
    pub line: usize,
    pub value: Value,
    /// Duplicate keys, as field paths; the last one counts.
    pub repeated: Vec<String>,
    /// Its range in the text, which starts after a byte order mark.
    pub(crate) range: Range<usize>,
}

/// The documents of a YAML or JSON file, without empty ones.
/// # Errors
/// The first error, with file, line and column.
pub fn documents(file: &str, bytes: &[u8]) -> Result<Vec<Document>, BundleError> {
    let (documents, mistakes) = read(file, text_of(file, bytes)?);
    match mistakes.into_iter().next() {
        Some(mistake) => Err(mistake),
        None => Ok(documents),
    }
}

/// The valid documents, and the errors in the others.
pub(crate) fn read(file: &str, text: &str) -> (Vec<Document>, Vec<BundleError>) {
    if let Some(documents) = json_documents(text) {
        return (documents, Vec::new());
    }
    let mut documents = Vec::new();
    let mut mistakes = Vec::new();
    let mut budget = Budget::of_file();
    for chunk in split(text) {
        match parse(chunk.text, &mut budget) {
            Ok(Tracked { value: Value::Null, .. }) => {}
            Ok(Tracked { value, repeated }) => {
                let start = chunk.text.as_ptr() as usize - text.as_ptr() as usize;
                let range = start..start + chunk.text.len();
                documents.push(Document { line: chunk.line, value, repeated: repeated.paths(), range });
            }
            Err(error) => {
                mistakes.push(syntax_error(file, chunk.line, &error));
                if mistakes.len() == MOST_MISTAKES {
                    break;
                }
            }
        }
    }
    (documents, mistakes)
}

fn parse(text: &str, budget: &mut Budget) -> Result<Tracked, serde_saphyr::Error> {
    let strict = budget.read(text.len(), || serde_saphyr::from_str_with_options(text, options()));
    strict.or_else(|error| {
        let limit = budget.exceeded || matches!(error.without_snippet(), serde_saphyr::Error::Budget { .. });
        if limit || !is_tolerable(text) {
            return Err(error);
        }
        // Real manifests contain text that only libyaml, the ancestor of Go's parser, accepts.
        budget.read(text.len(), || serde_yaml::from_str(text)).map_err(|_| error)
    })
}

/// Whether a text is safe for the tolerant reader, which has no limits of its own: it keeps a hundred bytes
/// for each byte, and for each token it walks through all open brackets.
fn is_tolerable(text: &str) -> bool {
    text.len() <= LARGEST_TOLERATED
        && text.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count() <= MOST_BRACKETS
}

/// The text of a file without its byte order mark.
/// # Errors
/// When it is not UTF-8.
pub(crate) fn text_of<'a>(file: &str, bytes: &'a [u8]) -> Result<&'a str, BundleError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.strip_prefix('\u{feff}').unwrap_or(text)),
        Err(error) => {
            let good = &bytes[..error.valid_up_to()];
            let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
            let column = good.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
            let place = Place { file: file.to_owned(), line, column };
            Err(BundleError::Syntax { place, message: "the file is not UTF-8".into() })
        }
    }
}

/// JSON is parsed as JSON: it may be indented with tabs, which YAML forbids.
fn json_documents(text: &str) -> Option<Vec<Document>> {
    if !text.trim_start().starts_with(['{', '[']) {
        return None;
    }
    let mut documents = Vec::new();
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Tracked>();
    let mut budget = Budget::of_file();
    let mut line = 1;
    loop {
        let before = stream.byte_offset();
        let next = budget.read(text.len(), || stream.next());
        let Some(Ok(Tracked { value, repeated })) = next else {
            return next.is_none().then_some(documents);
        };
        let text = &text[before..stream.byte_offset()];
        let blank = text.len() - text.trim_start().len();
        line += newlines(&text[..blank]);
        let range = before + blank..before + text.len();
        documents.push(Document { line, value, repeated: repeated.paths(), range });
        line += newlines(&text[blank..]);
    }
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// A part of a YAML stream with at most one document.
#[derive(Debug, Clone, Copy)]
pub struct Chunk<'a> {
    /// The document with its `---`.
    pub text: &'a str,
    /// Line of the stream that it starts at, counted from 1.
    pub line: usize,
}

/// Splits a YAML stream at its document markers; empty parts are left out.
/// YAML forbids `---` at the start of a line inside of any scalar, so a document with an error cannot hide
/// the following ones.
pub fn split(text: &str) -> impl Iterator<Item = Chunk<'_>> {
    let mut rest = text;
    let mut line = 1;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let (length, lines) = document_length(rest);
            let chunk = Chunk { text: &rest[..length], line };
            rest = &rest[length..];
            line += lines;
            if chunk.text.lines().any(has_content) {
                return Some(chunk);
            }
        }
        None
    })
}

/// Bytes and lines up to the next document marker.
fn document_length(text: &str) -> (usize, usize) {
    let mut length = 0;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if index > 0 && is_marker(line, "---") {
            return (length, index);
        }
        length += line.len();
        if is_marker(line, "...") {
            return (length, index + 1);
        }
    }
    (length, text.split_inclusive('\n').count())
}

fn is_marker(line: &str, marker: &str) -> bool {
    line.strip_prefix(marker).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

/// Whether a line of a YAML stream belongs to a document.
#[must_use]
pub fn has_content(line: &str) -> bool {
    let line = line.trim();
    !(line.is_empty() || line == "---" || line == "..." || line.starts_with(['#', '%']))
}

/// OLM's tools read manifests as YAML 1.1: `0644` is an octal number, and the last of two equal keys counts.
/// The budget accepts CustomResourceDefinitions of several megabytes and stops exponential anchors.
fn options() -> serde_saphyr::Options {
    let mut budget = serde_saphyr::Budget::default();
    budget.max_depth = tracked::MOST_LEVELS;
    budget.max_events = 4_000_000;
    budget.max_nodes = tracked::LARGEST_DOCUMENT;
    // Aliases are bounded by their expansion (`tracked`), not by their number: real manifests have hundreds
    // of few anchors.
    budget.max_aliases = tracked::LARGEST_DOCUMENT;
    budget.enforce_alias_anchor_ratio = false;
    serde_saphyr::options! {
        budget: Some(budget),
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        legacy_octal_numbers: true,
        with_snippet: false,
    }
}

fn syntax_error(file: &str, first_line: usize, error: &serde_saphyr::Error) -> BundleError {
    let (line, column) = match error.location() {
        Some(location) if location.line() > 0 => {
            let line = usize::try_from(location.line()).unwrap_or(1);
            (first_line + line - 1, usize::try_from(location.column()).unwrap_or(0))
        }
        _ => (first_line, 1),
    };
    let message = limit(error.without_snippet()).unwrap_or_else(|| error.without_snippet().to_string());
    let message = message.lines().next().unwrap_or_default();
    let message = match message.rfind(" at line ") {
        Some(end) => &message[..end],
        None => message,
    };
    BundleError::Syntax { place: Place { file: file.to_owned(), line, column }, message: message.to_owned() }
}

/// The exceeded limit, if the document was rejected for that.
fn limit(error: &serde_saphyr::Error) -> Option<String> {
    use serde_saphyr::Error;
    match error {
        Error::Budget { breach: serde_saphyr::budget::BudgetBreach::Depth { .. }, .. } => {
            Some(format!("the document is nested more than {} levels deep", tracked::MOST_LEVELS))
        }
        Error::Budget { .. } => Some(format!(
            "the document has more than {} values, aliases or anchors",
            tracked::LARGEST_DOCUMENT
        )),
        Error::AliasReplayLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. }
        | Error::AliasReplayCounterOverflow { .. } => Some(tracked::EXPANDED.to_owned()),
        // The parser appends the place of the anchor.
        _ => error.to_string().starts_with(tracked::EXPANDED).then(|| tracked::EXPANDED.to_owned()),
    }
}

#[cfg(test)]
mod tests;

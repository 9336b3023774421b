//! YAML as people write it into manifests, with the place of every mistake.

use serde_json::Value;
use serde_saphyr::Budget;
use serde_saphyr::options::DuplicateKeyPolicy;

use crate::error::{BundleError, Place};

/// A document and the line it starts at.
#[derive(Debug, Clone)]
pub struct Document {
    /// Line of the file, counted from 1.
    pub line: usize,
    /// The content.
    pub value: Value,
}

/// The documents of a YAML or JSON file; empty ones are left out.
///
/// # Errors
/// The first mistake, with file, line and column.
pub fn documents(file: &str, bytes: &[u8]) -> Result<Vec<Document>, BundleError> {
    let text = utf8(file, bytes)?;
    if let Some(documents) = json_documents(text) {
        return Ok(documents);
    }
    let mut documents = Vec::new();
    for chunk in split(text) {
        let value: Value = match serde_saphyr::from_str_with_options(chunk.text, options()) {
            Ok(value) => value,
            // Real manifests hold text that only libyaml, which Go's parser descends from, lets pass.
            Err(error) => {
                serde_yaml::from_str(chunk.text).map_err(|_| syntax_error(file, chunk.line, &error))?
            }
        };
        if !value.is_null() {
            documents.push(Document { line: chunk.line, value });
        }
    }
    Ok(documents)
}

/// The text of a file without its byte order mark.
fn utf8<'a>(file: &str, bytes: &'a [u8]) -> Result<&'a str, BundleError> {
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

/// JSON is read as JSON: it may be indented with tabs, which YAML forbids.
fn json_documents(text: &str) -> Option<Vec<Document>> {
    if !text.trim_start().starts_with(['{', '[']) {
        return None;
    }
    let values: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
    Some(values.ok()?.into_iter().map(|value| Document { line: 1, value }).collect())
}

/// A part of a YAML stream that holds at most one document.
#[derive(Debug, Clone, Copy)]
pub struct Chunk<'a> {
    /// The document with its `---`.
    pub text: &'a str,
    /// Line of the stream that it starts at, counted from 1.
    pub line: usize,
}

/// Splits a YAML stream at its document markers; parts without content are left out.
///
/// YAML forbids `---` at the start of a line inside of any scalar, so that a document with a mistake
/// cannot hide the ones behind it.
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

fn has_content(line: &str) -> bool {
    let line = line.trim();
    !(line.is_empty() || line == "---" || line == "..." || line.starts_with(['#', '%']))
}

/// Manifests are YAML 1.1 to the tools that OLM is made of: `0644` is an octal number, and the last
/// of two equal keys counts. The budget lets CustomResourceDefinitions of several megabytes pass and
/// stops anchors that multiply.
fn options() -> serde_saphyr::Options {
    let mut budget = Budget::default();
    budget.max_depth = 128;
    budget.max_events = 4_000_000;
    budget.max_nodes = 2_000_000;
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
    let message = error.without_snippet().to_string();
    let message = message.lines().next().unwrap_or_default();
    let message = match message.rfind(" at line ") {
        Some(end) => &message[..end],
        None => message,
    };
    BundleError::Syntax { place: Place { file: file.to_owned(), line, column }, message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values(text: &str) -> Vec<Value> {
        documents("test.yaml", text.as_bytes()).unwrap().into_iter().map(|document| document.value).collect()
    }

    fn message(text: &str) -> String {
        documents("test.yaml", text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn several_documents_with_their_lines() {
        let text = "# comment\n---\na: 1\n---\n\n--- # empty\n---\nb: |\n  ---\n  text\n...\n";
        let documents = documents("test.yaml", text.as_bytes()).unwrap();
        assert_eq!(documents.len(), 2);
        assert_eq!(documents[0].value, serde_json::json!({"a": 1}));
        assert_eq!(documents[1].value, serde_json::json!({"b": "---\ntext\n"}));
        assert_eq!(documents[1].line, 7);
    }

    #[test]
    fn a_mistake_has_file_line_and_column() {
        let message = message("a: 1\n---\nb:\n  - c\n d: [\n");
        assert!(message.starts_with("test.yaml:"), "{message}");
        let line: usize = message.split(':').nth(1).unwrap().parse().unwrap();
        assert!((4..=6).contains(&line), "{message}");
        assert!(!message.contains('\n'), "{message}");
    }

    #[test]
    fn what_manifests_rely_on() {
        assert_eq!(values("a: 1\na: 2\n"), [serde_json::json!({"a": 2})]);
        assert_eq!(values("mode: 0644\n"), [serde_json::json!({"mode": 420})]);
        assert_eq!(values("x: &a {k: v}\ny: *a\nz:\n  <<: *a\n")[0]["z"], serde_json::json!({"k": "v"}));
        assert_eq!(values("{\n\t\"a\": 1\n}"), [serde_json::json!({"a": 1})]);
        assert_eq!(values("\u{feff}a: b\r\n"), [serde_json::json!({"a": "b"})]);
        assert_eq!(
            values("v: 1.2.3\nd: 2019-02-28 01:03:00\nq: '1'\n"),
            [serde_json::json!({"v": "1.2.3", "d": "2019-02-28 01:03:00", "q": "1"})]
        );
        assert_eq!(values("1: a\ntrue: b\n"), [serde_json::json!({"1": "a", "true": "b"})]);
    }

    #[test]
    fn not_utf8_names_the_place() {
        let error = documents("x.yaml", b"a: 1\nb: \xff\n").unwrap_err().to_string();
        assert_eq!(error, "x.yaml:2:4: the file is not UTF-8");
    }

    #[test]
    fn an_anchor_bomb_is_refused() {
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..12 {
            let alias = format!("*a{}", level - 1);
            bomb += &format!("a{level}: &a{level} [{}]\n", vec![alias; 10].join(", "));
        }
        assert!(message(&bomb).starts_with("test.yaml:"));
    }

    #[test]
    fn deep_nesting_is_refused_not_a_crash() {
        let text = "[".repeat(100_000);
        assert!(documents("test.yaml", text.as_bytes()).is_err());
        let text =
            "a:\n".to_owned() + &(1..5_000).map(|n| format!("{}a:\n", " ".repeat(n))).collect::<String>();
        assert!(documents("test.yaml", text.as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = documents("x", &bytes);
        }

        #[test]
        fn no_yaml_like_text_panics(text in "[-a: \\[\\]{}&*!|>'\"#%\n.0]{0,80}") {
            let _ = documents("x", text.as_bytes());
        }
    }
}

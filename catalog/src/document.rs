//! One document of a catalog stream, with the place it stands at.

use serde_json::Value;

/// A place in a catalog file; line and column count from 1.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Place {
    pub path: String,
    pub line: usize,
    pub column: usize,
}

/// A document that parsed.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    pub place: Place,
    pub value: Value,
}

/// A document that did not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Broken {
    pub place: Place,
    pub message: String,
    /// Package that the text around the mistake names, as far as one can tell.
    pub package: Option<String>,
}

/// What is done with each document of a stream.
pub(crate) type Sink<'a> = &'a mut dyn FnMut(Result<Document, Broken>);

/// Reads a stream of JSON or YAML documents; a broken one does not hide the others. Documents are
/// handed over one by one: the stream may be large.
pub(crate) fn read(path: &str, bytes: &[u8], sink: Sink<'_>) {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let good = &bytes[..error.valid_up_to()];
            let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
            let column = good.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
            let place = Place { path: path.to_owned(), line, column };
            return sink(Err(Broken { place, message: "the file is not UTF-8".into(), package: None }));
        }
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_start().starts_with('{') { read_json(path, text, sink) } else { read_yaml(path, text, sink) }
}

/// A stream of JSON documents. Behind a mistake, reading goes on at the next line that begins a document.
fn read_json(path: &str, text: &str, sink: Sink<'_>) {
    let mut lines = LineCounter::new(text);
    let mut start = 0;
    while let Some(skipped) = text[start..].find(|c: char| !c.is_ascii_whitespace()) {
        start += skipped;
        let (line, column) = lines.at(start);
        let place = Place { path: path.to_owned(), line, column };
        let mut stream = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
        match stream.next() {
            None => break,
            Some(Ok(value)) => {
                start += stream.byte_offset();
                sink(Ok(Document { place, value }));
            }
            Some(Err(error)) => {
                // Its lines count from where this document starts.
                let place = Place {
                    path: path.to_owned(),
                    line: line + error.line().saturating_sub(1),
                    column: if error.line() <= 1 {
                        column + error.column().saturating_sub(1)
                    } else {
                        error.column()
                    },
                };
                let message = error.to_string();
                let message = message.split(" at line ").next().unwrap_or_default().to_owned();
                let next = next_json_document(text, start);
                let end = next.unwrap_or(text.len());
                let package = package_in(&text[start..end]);
                sink(Err(Broken { place, message, package }));
                match next {
                    Some(next) => start = next,
                    None => break,
                }
            }
        }
    }
}

/// The next line after `start` that begins with `{`: in JSON lines every document does, in indented
/// JSON only documents do.
fn next_json_document(text: &str, start: usize) -> Option<usize> {
    text[start..].match_indices("\n{").map(|(position, _)| start + position + 1).next()
}

fn read_yaml(path: &str, text: &str, sink: Sink<'_>) {
    for chunk in olm_bundle::yaml::split(text) {
        // `yaml_serde` reads into JSON values directly: of two equal keys the last one counts, as upstream.
        match serde_yaml::from_str::<Value>(chunk.text) {
            Ok(Value::Null) => {}
            Ok(value) => {
                let place = Place { path: path.to_owned(), line: first_line(chunk), column: 1 };
                sink(Ok(Document { place, value }));
            }
            Err(error) => {
                let (line, column) =
                    error.location().map_or((1, 1), |location| (location.line(), location.column()));
                let place =
                    Place { path: path.to_owned(), line: chunk.line + line.saturating_sub(1), column };
                let message = error.to_string();
                let message = message.split(" at line ").next().unwrap_or_default().to_owned();
                sink(Err(Broken { place, message, package: package_in(chunk.text) }));
            }
        }
    }
}

/// The line of a chunk that has the first content.
fn first_line(chunk: olm_bundle::yaml::Chunk<'_>) -> usize {
    let empty = |line: &&str| line.trim().is_empty() || line.starts_with('#') || line.trim() == "---";
    chunk.line + chunk.text.lines().take_while(empty).count()
}

/// The package that broken text is about: its `package`, or its `name` where it is a package itself.
fn package_in(text: &str) -> Option<String> {
    let value = |key: &str| {
        text.lines().take(2_000).find_map(|line| {
            let position = line.find(key).filter(|position| *position <= 3 || line.starts_with('{'))?;
            let rest = line[position + key.len()..]
                .trim_start_matches('"')
                .trim_start()
                .strip_prefix(':')?
                .trim_start();
            let name: String = rest
                .trim_start_matches(['"', '\''])
                .chars()
                .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'))
                .collect();
            (!name.is_empty()).then_some(name)
        })
    };
    match value("schema")?.as_str() {
        "olm.package" => value("name"),
        _ => value("package"),
    }
}

/// Line and column of growing offsets, in one pass.
struct LineCounter<'a> {
    text: &'a str,
    offset: usize,
    line: usize,
    line_start: usize,
}

impl<'a> LineCounter<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, offset: 0, line: 1, line_start: 0 }
    }

    fn at(&mut self, offset: usize) -> (usize, usize) {
        for (position, _) in self.text[self.offset..offset].match_indices('\n') {
            self.line += 1;
            self.line_start = self.offset + position + 1;
        }
        self.offset = offset;
        (self.line, offset - self.line_start + 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(bytes: &[u8]) -> Vec<Result<Document, Broken>> {
        let mut documents = Vec::new();
        read("c", bytes, &mut |document| documents.push(document));
        documents
    }

    fn summary(text: &str) -> Vec<String> {
        all(text.as_bytes())
            .into_iter()
            .map(|document| match document {
                Ok(document) => {
                    format!("{}:{} {}", document.place.line, document.place.column, document.value["name"])
                }
                Err(broken) => {
                    format!("{}:{} broken {:?}", broken.place.line, broken.place.column, broken.package)
                }
            })
            .collect()
    }

    #[test]
    fn a_broken_yaml_document_hides_no_other() {
        let text = "---\nschema: olm.package\nname: a\n---\nschema: olm.channel\npackage: b\nentries: [\n---\nname: c\n";
        let summary = summary(text);
        assert_eq!(summary.len(), 3, "{summary:?}");
        assert_eq!((summary[0].as_str(), summary[2].as_str()), ("2:1 \"a\"", "9:1 \"c\""));
        assert!(summary[1].ends_with("broken Some(\"b\")"), "{summary:?}");
        let line: usize = summary[1].split(':').next().unwrap().parse().unwrap();
        assert!((7..=8).contains(&line), "{summary:?}");
    }

    #[test]
    fn a_broken_json_document_hides_no_other() {
        let text =
            "{\"name\":\"a\"}\n{\"schema\":\"olm.bundle\",\"package\":\"b\",\"name\":}\n{\"name\":\"c\"}\n";
        assert_eq!(summary(text), ["1:1 \"a\"", "2:45 broken Some(\"b\")", "3:1 \"c\""]);
        let text = "{\n  \"name\": \"a\"\n}\n{\n  \"schema\": \"olm.package\",\n  \"name\": \"b\",,\n}\n{\"name\": \"c\"}";
        assert_eq!(summary(text), ["1:1 \"a\"", "6:15 broken Some(\"b\")", "8:1 \"c\""]);
    }

    #[test]
    fn several_documents_on_a_line_and_a_cut_end() {
        assert_eq!(
            summary("{\"name\":\"a\"}{\"name\":\"b\"} {\"name\""),
            ["1:1 \"a\"", "1:13 \"b\"", "1:32 broken None"]
        );
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            all(&bytes);
        }

        #[test]
        fn no_text_panics(text in "[-a: \\[\\]{}&*!|>'\"#%,\n.0é]{0,80}") {
            all(text.as_bytes());
        }
    }
}

//! The first pass over a catalog: locates documents.
//!
//! JSON is only skipped, and read again by package when the catalog is assembled. YAML is converted to JSON
//! here, as parsing it is ten times the work. Several threads read large files.

use std::collections::BTreeMap;
use std::io::{self, Read};

use olm_bundle::yaml::has_content;

use crate::canonical::{self, SyntaxFindings};
use crate::header::Header;
use crate::input::{Input, Text};
use crate::parallel;
use crate::problem::{self, Place, Problem, Severity};
use crate::spool::Spool;
use crate::window::Window;

/// Maximum size of a document: the largest real ones have 7 MB.
const LARGEST_DOCUMENT: usize = 32 << 20;

/// Maximum growth of a YAML document by its aliases, as a multiple of its text (plus a little, for small
/// ones).
const LARGEST_GROWTH: usize = 16;

/// Maximum number of brackets open at a time in a YAML document, of which at most 128 levels are parsed.
const DEEPEST_FLOW: usize = 500;

/// Larger files are read in several parts concurrently.
const LARGE_FILE: u64 = 4 << 20;

/// A located document.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub header: Header,
    pub input: usize,
    pub line: usize,
    pub column: usize,
    /// Whether a map in it has a duplicate key, or a field in another case, as far as was inspected.
    pub irregular: bool,
    /// In the spool, otherwise in the input.
    spooled: bool,
    offset: u64,
    length: usize,
}

/// All located documents.
pub(crate) struct Scan<'a> {
    inputs: &'a [Input<'a>],
    inspect: bool,
    spool: Spool,
    /// In order of input and place.
    pub entries: Vec<Entry>,
    pub problems: Vec<Problem>,
}

impl<'a> Scan<'a> {
    /// Scans all inputs. `inspect` also reports defects inside of documents, for callers that do not
    /// canonicalize them.
    pub fn of(inputs: &'a [Input<'a>], threads: usize, inspect: bool) -> Self {
        let spool = Spool::default();
        let units = units(inputs, threads);
        let parts = parallel::map(threads, &units, |unit| Part::read(inputs, unit, &spool, inspect));
        let mut scan = Self { inputs, inspect, spool, entries: Vec::new(), problems: Vec::new() };
        let mut parts = units.iter().zip(parts).peekable();
        while let Some((unit, first)) = parts.next() {
            let mut of_input = vec![first];
            while let Some((_, part)) = parts.next_if(|(next, _)| next.input == unit.input) {
                of_input.push(part);
            }
            scan.join(unit.input, of_input);
        }
        scan
    }

    /// Joins the parts of one input. Where a part did not end at the start of the next, the cut was not
    /// between two documents, and the input is read again as one.
    fn join(&mut self, input: usize, parts: Vec<Part>) {
        let fits = parts.windows(2).all(|pair| pair[0].end == pair[1].start);
        let parts = if fits {
            parts
        } else {
            let whole = Unit { input, start: 0, end: self.inputs[input].text.len() };
            vec![Part::read(self.inputs, &whole, &self.spool, self.inspect)]
        };
        let mut lines = 0;
        let mut problems = Vec::new();
        for part in parts {
            self.entries.extend(part.entries.into_iter().map(|mut entry| {
                entry.line += lines;
                entry
            }));
            for mut problem in part.problems {
                problem.place.line += if problem.place.line > 0 { lines } else { 0 };
                problem::list(&mut problems, problem, |problem| problem);
            }
            lines += part.lines;
        }
        self.problems.append(&mut problems);
    }

    pub fn by_package(&self) -> BTreeMap<&str, Vec<&Entry>> {
        let mut packages: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
        for entry in &self.entries {
            packages.entry(&entry.header.package).or_default().push(entry);
        }
        packages
    }

    /// The text of a document: JSON, as written.
    pub fn text(&self, entry: &Entry) -> io::Result<Vec<u8>> {
        let mut text = vec![0; entry.length];
        if entry.spooled {
            self.spool.read_at(entry.offset, &mut text)?;
        } else {
            self.inputs[entry.input].text.reader(entry.offset)?.read_exact(&mut text)?;
        }
        Ok(text)
    }

    pub fn place(&self, entry: &Entry) -> Place {
        Place { path: self.inputs[entry.input].path.clone(), line: entry.line, column: entry.column }
    }
}

/// A part of an input that one thread reads.
struct Unit {
    input: usize,
    start: u64,
    end: u64,
}

fn units(inputs: &[Input<'_>], threads: usize) -> Vec<Unit> {
    let mut units = Vec::new();
    for (input, Input { text, .. }) in inputs.iter().enumerate() {
        let length = text.len();
        let mut cuts = vec![0];
        if length > LARGE_FILE && threads > 1 && is_json(text) {
            // More parts than threads, so that all end at about the same time.
            let parts = (threads as u64 * 4).min(length / (LARGE_FILE / 4));
            cuts.extend((1..parts).filter_map(|part| cut(text, length / parts * part)));
            cuts.dedup();
        }
        let ends = cuts.iter().skip(1).copied().chain([length]).collect::<Vec<_>>();
        for (start, end) in cuts.into_iter().zip(ends) {
            units.push(Unit { input, start, end });
        }
    }
    units
}

fn is_json(text: &Text<'_>) -> bool {
    let Ok(reader) = text.reader(0) else { return false };
    let mut window = Window::new(reader, 0, 4096);
    matches!(window.skip_space(), Ok(true)) && window.text().starts_with(b"{")
}

/// The likely start of the first document after an offset.
fn cut(text: &Text<'_>, offset: u64) -> Option<u64> {
    let mut window = Window::new(text.reader(offset).ok()?, offset, text.len() - offset);
    matches!(window.skip_to_next_object(), Ok(true)).then(|| window.offset())
}

/// Result of a part of an input.
#[derive(Default)]
struct Part {
    entries: Vec<Entry>,
    problems: Vec<Problem>,
    start: u64,
    /// End of the last document and the white space after it.
    end: u64,
    lines: usize,
}

impl Part {
    fn read(inputs: &[Input<'_>], unit: &Unit, spool: &Spool, inspect: bool) -> Self {
        let Input { path, text } = &inputs[unit.input];
        let mut part = Self { start: unit.start, end: unit.end, ..Self::default() };
        let read = text.reader(unit.start).and_then(|reader| {
            // A part continues beyond its end, where a document does: non-matching ends reveal a bad cut.
            let mut window = Window::new(reader, unit.start, text.len() - unit.start);
            let read = match is_json(text) {
                true => part.json(&mut window, unit, path, inspect),
                false => part.yaml(&mut window, unit, path, spool),
            };
            part.lines = window.place().0 - 1;
            read
        });
        if let Err(error) = read {
            part.problem(path, (0, 0), None, "unreadable", format!("failed to read: {error}"), READABLE);
        }
        part
    }

    fn problem(
        &mut self,
        path: &str,
        (line, column): (usize, usize),
        package: Option<String>,
        code: &'static str,
        text: String,
        fix: &'static str,
    ) {
        let place = Place { path: path.to_owned(), line, column };
        let new = Problem { package, ..Problem::new(Severity::Error, place, code, text, fix) };
        problem::list(&mut self.problems, new, |problem| problem);
    }

    fn report_duplicates(&mut self, place: &Place, header: &Header, findings: SyntaxFindings) {
        for key in findings.duplicates {
            let new = Problem::duplicate_key(place.clone(), header, &key);
            problem::list(&mut self.problems, new, |problem| problem);
        }
    }

    /// A stream of JSON documents. After an error, reading resumes at the next line that starts one.
    fn json<R: Read>(
        &mut self,
        window: &mut Window<R>,
        unit: &Unit,
        path: &str,
        inspect: bool,
    ) -> io::Result<()> {
        while window.skip_space()? && window.offset() < unit.end {
            let (line, column) = window.place();
            let read = match inspect {
                true => Header::inspect(window.text()),
                false => Header::read(window.text())
                    .map(|(header, length)| (header, length, SyntaxFindings::default())),
            };
            let (error, length) = match read {
                Ok((header, length, findings)) if length <= LARGEST_DOCUMENT => {
                    let place = Place { path: path.to_owned(), line, column };
                    let irregular = !findings.duplicates.is_empty() || findings.respelled;
                    self.report_duplicates(&place, &header, findings);
                    self.entries.push(Entry {
                        header,
                        input: unit.input,
                        line,
                        column,
                        irregular,
                        spooled: false,
                        offset: window.offset(),
                        length,
                    });
                    window.consume(length);
                    continue;
                }
                Ok((header, length, _)) => {
                    let package = problem::shown_name(&header.package);
                    self.problem(path, (line, column), package, "document-large", too_large(), TOO_LARGE);
                    window.consume(length);
                    continue;
                }
                Err(error) => {
                    if error.is_eof() && !window.ended() && window.text().len() <= LARGEST_DOCUMENT {
                        window.grow()?;
                        continue;
                    }
                    (error, window.text().len())
                }
            };
            // The rest is another document.
            let end = memchr::memmem::find(window.text(), b"\n{").unwrap_or(window.text().len());
            let package = package_in(&window.text()[..end]);
            let lines = memchr::memchr_iter(b'\n', &window.text()[..end]).count() + 1;
            if error.line() > lines {
                let message = format!(
                    "document does not end before the next one starts: {}",
                    without_place(&error.to_string())
                );
                self.problem(path, (line, column), package, "syntax", message, SYNTAX);
            } else if length > LARGEST_DOCUMENT && error.is_eof() {
                self.problem(path, (line, column), package, "document-large", too_large(), TOO_LARGE);
            } else {
                let place = (
                    line + error.line().saturating_sub(1),
                    if error.line() <= 1 {
                        column + error.column().saturating_sub(1)
                    } else {
                        error.column()
                    },
                );
                self.problem(path, place, package, "syntax", without_place(&error.to_string()), SYNTAX);
            }
            if !window.skip_to_next_object()? {
                break;
            }
        }
        self.end = window.offset();
        Ok(())
    }

    /// A stream of YAML documents: a broken one does not hide the others, as no scalar may contain a line
    /// `---`.
    fn yaml<R: Read>(
        &mut self,
        window: &mut Window<R>,
        unit: &Unit,
        path: &str,
        spool: &Spool,
    ) -> io::Result<()> {
        loop {
            let length = match document_length(window.text(), window.ended()) {
                Some(length) => length,
                None if window.text().len() > LARGEST_DOCUMENT => {
                    let package = package_in(&window.text()[..LARGEST_DOCUMENT]);
                    self.problem(path, window.place(), package, "document-large", too_large(), TOO_LARGE);
                    skip_to_marker(window)?;
                    continue;
                }
                None => {
                    window.grow()?;
                    continue;
                }
            };
            if length == 0 {
                return Ok(());
            }
            self.yaml_document(window, length, unit, path, spool)?;
            window.consume(length);
        }
    }

    fn yaml_document<R: Read>(
        &mut self,
        window: &Window<R>,
        length: usize,
        unit: &Unit,
        path: &str,
        spool: &Spool,
    ) -> io::Result<()> {
        let text = &window.text()[..length];
        let (line, _) = window.place();
        let text = match std::str::from_utf8(text) {
            Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
            Err(error) => {
                let good = &text[..error.valid_up_to()];
                let place = (
                    line + memchr::memchr_iter(b'\n', good).count(),
                    good.len() - memchr::memrchr(b'\n', good).map_or(0, |last| last + 1) + 1,
                );
                let package = package_in(text);
                self.problem(path, place, package, "syntax", "file is not UTF-8".into(), SYNTAX);
                return Ok(());
            }
        };
        let Some(first) = text.lines().position(has_content) else { return Ok(()) };
        if let Some(offset) = too_deep(text) {
            let before = &text.as_bytes()[..offset];
            let last = memchr::memrchr(b'\n', before).map_or(0, |last| last + 1);
            let place = (line + memchr::memchr_iter(b'\n', before).count(), before.len() - last + 1);
            let message = format!("more than {DEEPEST_FLOW} nested brackets");
            self.problem(path, place, package_in(text.as_bytes()), "syntax", message, SYNTAX);
            return Ok(());
        }
        match to_json(text) {
            Ok((json, findings)) => {
                if json == b"null" {
                    return Ok(());
                }
                let header = Header::read(&json).map(|(header, _)| header).unwrap_or_default();
                let line = line + first;
                let place = Place { path: path.to_owned(), line, column: 1 };
                let irregular = findings.respelled;
                self.report_duplicates(&place, &header, findings);
                let offset = spool.append(&json)?;
                self.entries.push(Entry {
                    header,
                    input: unit.input,
                    line,
                    column: 1,
                    irregular,
                    spooled: true,
                    offset,
                    length: json.len(),
                });
            }
            Err(error) => {
                let at = error.location().map_or((1, 1), |location| (location.line(), location.column()));
                let place = (line + at.0.saturating_sub(1), at.1);
                let message = without_place(&error.to_string());
                self.problem(path, place, package_in(text.as_bytes()), "syntax", message, SYNTAX);
            }
        }
        Ok(())
    }
}

const READABLE: &str = "check that it exists and is readable";
const SYNTAX: &str = "correct the file; its other documents and all other packages are loaded";
const TOO_LARGE: &str = "split or remove it; the other documents are loaded";

fn too_large() -> String {
    format!("document larger than {} MiB", LARGEST_DOCUMENT >> 20)
}

fn without_place(message: &str) -> String {
    message.split(" at line ").next().unwrap_or_default().to_owned()
}

/// Position where more brackets are open than any document needs: the parser's time grows with the square of
/// their number. Brackets in texts count, too; there, nearly all of them are closed again.
fn too_deep(text: &str) -> Option<usize> {
    let mut open = 0_usize;
    text.bytes().position(|byte| {
        match byte {
            b'[' | b'{' => open += 1,
            b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        open > DEEPEST_FLOW
    })
}

fn to_json(text: &str) -> Result<(Vec<u8>, SyntaxFindings), serde_yaml::Error> {
    let limit = text.len() * LARGEST_GROWTH + (64 << 10);
    let mut json = Vec::with_capacity(text.len());
    let findings = canonical::write(serde_yaml::Deserializer::from_str(text), &mut json, limit)?;
    if !findings.merges {
        return Ok((json, findings));
    }
    // Merge keys need the tree. Its growth was bounded above.
    let mut tree: serde_yaml::Value = serde_yaml::from_str(text)?;
    tree.apply_merge()?;
    json.clear();
    let merged = canonical::write(tree, &mut json, limit)?;
    Ok((json, SyntaxFindings { duplicates: findings.duplicates, ..merged }))
}

/// The length of the first document, up to the marker of the next; `None` when more text is needed.
fn document_length(text: &[u8], ended: bool) -> Option<usize> {
    let is_marker = |line: &[u8], marker: &[u8]| {
        line.strip_prefix(marker).map(|rest| match rest.first() {
            None => ended,
            Some(byte) => byte.is_ascii_whitespace(),
        })
    };
    for end in memchr::memchr_iter(b'\n', text) {
        let line = &text[end + 1..];
        if line.len() < 4 && !ended {
            return None;
        }
        if is_marker(line, b"---") == Some(true) {
            return Some(end + 1);
        }
        if is_marker(line, b"...") == Some(true) {
            return Some((end + 4).min(text.len()));
        }
    }
    ended.then_some(text.len())
}

/// Drops text up to the next document marker, or all of it.
fn skip_to_marker<R: Read>(window: &mut Window<R>) -> io::Result<()> {
    loop {
        if let Some(length) = document_length(window.text(), window.ended()) {
            window.consume(length);
            return Ok(());
        }
        window.consume(window.text().len().saturating_sub(4));
        window.grow()?;
    }
}

/// The package of a broken document: its `package`, or its `name` where it is a package itself.
fn package_in(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(&text[..text.len().min(64 << 10)]);
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

#[cfg(test)]
mod tests;

//! Problems of a catalog.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::header::Header;

/// Consequence of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Strict validators accept it; authors should fix it.
    Warning,
    /// Strict validators reject the catalog.
    Error,
}

/// A place in a catalog file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Place {
    /// File, or the catalog's source.
    pub path: String,
    /// Counted from 1; 0 when the problem has no place in the file.
    pub line: usize,
    /// Counted from 1; 0 when the problem has no place in the file.
    pub column: usize,
}

/// A defect of a catalog. The rest of the catalog is loaded nevertheless.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    pub severity: Severity,
    /// The start of its document, or the defect itself where that is known.
    #[serde(flatten)]
    pub place: Place,
    /// The affected package, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The affected bundle or entry of a channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
    /// Field of the document, as a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Stable name of the rule, such as `channel-no-head`.
    pub code: Cow<'static, str>,
    pub text: String,
    pub fix: Cow<'static, str>,
}

impl Problem {
    pub(crate) fn new(
        severity: Severity,
        place: Place,
        code: &'static str,
        text: String,
        fix: &'static str,
    ) -> Self {
        Self {
            severity,
            place,
            package: None,
            channel: None,
            entry: None,
            field: None,
            code: code.into(),
            text: printable(&text),
            fix: fix.into(),
        }
    }

    pub(crate) fn duplicate_key(place: Place, header: &Header, key: &str) -> Self {
        let Header { schema, package, name, .. } = header;
        let text = format!("{schema} {name:?} has key {key} twice; the last one is used");
        let problem = Self::new(
            Severity::Warning,
            place,
            "duplicate-key",
            text,
            "keep one; other tools may use the other one",
        );
        Self { package: shown_name(package), field: shown_name(key), ..problem }
    }
}

/// A problem of a document without its place in a file: the place changes when documents before it change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UnplacedProblem {
    /// Index of the affected document among those of the package.
    pub document: Option<usize>,
    /// Another affected document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<usize>,
    pub problem: Problem,
}

impl UnplacedProblem {
    /// Adds it to a list.
    pub fn list(self, problems: &mut Vec<Self>) {
        list(problems, self, |unplaced| &mut unplaced.problem);
    }

    /// The problem, with the places of the documents.
    pub fn at(&self, place: impl Fn(usize) -> Option<Place>) -> Problem {
        let mut problem = self.problem.clone();
        if let Some(place) = self.document.and_then(&place) {
            problem.place = place;
        }
        if let Some(Place { path, line, .. }) = self.other.and_then(&place) {
            problem.text += &format!(" (other definition: {path}:{line})");
        }
        problem
    }
}

/// Maximum number of listed problems of a package, or of a part of a file: a file of a megabyte could have a
/// hundred thousand.
pub(crate) const LISTED: usize = 1_000;

/// Adds a problem up to [`LISTED`]. The next one is replaced by the problem `more-problems`, and all further ones
/// are omitted; `more-problems` has the highest severity of those.
pub(crate) fn list<T>(problems: &mut Vec<T>, new: T, of: impl Fn(&mut T) -> &mut Problem) {
    if problems.len() < LISTED {
        return problems.push(new);
    }
    let mut new = new;
    let severity = of(&mut new).severity;
    if problems.len() == LISTED {
        let dropped = of(&mut new);
        dropped.code = "more-problems".into();
        dropped.text = format!("more than {LISTED} problems; further problems are not listed");
        dropped.fix = "correct the listed problems and validate again".into();
        return problems.push(new);
    }
    if let Some(last) = problems.last_mut().map(of) {
        last.severity = last.severity.max(severity);
    }
}

/// A name for a problem, escaped and truncated: no valid name is longer. `None` when it is empty.
pub(crate) fn shown_name(name: &str) -> Option<String> {
    const LONGEST: usize = 253;
    (!name.is_empty()).then(|| escape_and_truncate(name, LONGEST))
}

/// Names are untrusted: one line of limited length that every terminal can show.
fn printable(text: &str) -> String {
    escape_and_truncate(text, LONGEST_TEXT)
}

fn escape_and_truncate(text: &str, longest: usize) -> String {
    let mut out = String::with_capacity(text.len().min(longest));
    for c in text.chars() {
        // `Debug` escapes invisible characters: control, format and unassigned ones.
        match c.escape_debug() {
            shown if shown.len() > 1 && !matches!(c, '"' | '\'' | '\\') => out.extend(shown),
            _ => out.push(c),
        }
        if out.len() > longest {
            out.push('…');
            break;
        }
    }
    out
}

/// In bytes.
const LONGEST_TEXT: usize = 1_000;

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { path, line, column } = &self.place;
        f.write_str(path)?;
        if *line > 0 {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.text)?;
        if !self.fix.is_empty() {
            write!(f, "; {}", self.fix)?;
        }
        write!(f, " [{}]", self.code)
    }
}

//! What is wrong with a catalog.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::header::Header;

/// How much of the catalog a problem costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Strict validators accept it; an author would want to know.
    Warning,
    /// Strict validators refuse the catalog for it.
    Error,
}

/// A place in a catalog file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Place {
    /// File, or where the catalog came from.
    pub path: String,
    /// Counted from 1; 0 when the problem is not at one place.
    pub line: usize,
    /// Counted from 1; 0 when the problem is not at one place.
    pub column: usize,
}

/// One thing that is wrong with a catalog. The rest of the catalog is loaded all the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// The start of the document that it is in, or the mistake itself where that is known.
    #[serde(flatten)]
    pub place: Place,
    /// Package it is about, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// Channel it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Bundle or entry of a channel that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
    /// Field of the document, as a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Stable name of the rule, such as `channel-no-head`.
    pub code: Cow<'static, str>,
    /// What is wrong.
    pub text: String,
    /// What to do about it.
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
        Self { package: self::name(package), field: self::name(key), ..problem }
    }
}

/// So many problems of a package, or of a part of a file, are listed: nobody reads more, and a file of a megabyte
/// could have a hundred thousand.
pub(crate) const LISTED: usize = 1_000;

/// Puts a problem to the others as long as they are few; then one says that there are more.
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

/// A name as problems have it: no real one is longer.
pub(crate) fn name(name: &str) -> Option<String> {
    const LONGEST: usize = 253;
    (!name.is_empty()).then(|| cut(name, LONGEST))
}

/// Names come from strangers: one line that every terminal can show, and not longer than anybody reads.
fn printable(text: &str) -> String {
    cut(text, LONGEST_TEXT)
}

fn cut(text: &str, longest: usize) -> String {
    let mut out = String::with_capacity(text.len().min(longest));
    for c in text.chars() {
        // What `Debug` escapes is what does not show: control, format and unassigned characters.
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

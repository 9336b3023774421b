//! What is wrong with a catalog.

use std::fmt;

/// How much of the catalog a problem costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Strict validators accept it; an author would want to know.
    Warning,
    /// Strict validators refuse the catalog for it.
    Error,
}

/// One thing that is wrong with a catalog. The rest of the catalog is loaded all the same.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// File it is in, or where the catalog came from.
    pub path: String,
    /// Line, counted from 1; 0 when the problem is not at one place.
    pub line: usize,
    /// Column, counted from 1; 0 when the problem is not at one place.
    pub column: usize,
    /// Package it is about, where that is known.
    pub package: Option<String>,
    /// Stable name of the rule, such as `channel-no-head`.
    pub code: &'static str,
    /// What is wrong.
    pub text: String,
    /// What to do about it.
    pub fix: &'static str,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        write!(f, ": {}", self.text)?;
        if !self.fix.is_empty() {
            write!(f, "; {}", self.fix)?;
        }
        write!(f, " [{}]", self.code)
    }
}

//! Collects changes, and formats the values in them.

use serde_json::Value;

use super::{Change, ChangeCode, Severity};

/// Limit of the changes of one definition, so that a hostile definition does not fill the memory.
const MOST_CHANGES: usize = 1_000;
/// A value is cut after this many characters: an enumeration can have thousands of members.
const LONGEST_VALUE: usize = 200;

#[derive(Default)]
pub(super) struct Collector {
    changes: Vec<Change>,
    version: Option<String>,
    left_out: usize,
    worst_left_out: Option<Severity>,
}

impl Collector {
    /// Sets the version of the following changes; `None` for the definition as a whole.
    pub fn about(&mut self, version: Option<String>) {
        self.version = version;
    }

    pub fn add(&mut self, code: ChangeCode, severity: Severity, path: &str, text: impl Into<String>) {
        self.add_with(code, severity, path, text, None, None);
    }

    pub fn add_with(
        &mut self,
        code: ChangeCode,
        severity: Severity,
        path: &str,
        text: impl Into<String>,
        before: Option<String>,
        after: Option<String>,
    ) {
        if self.changes.len() >= MOST_CHANGES {
            self.left_out += 1;
            self.worst_left_out = Some(self.worst_left_out.map_or(severity, |worst| worst.min(severity)));
            return;
        }
        self.changes.push(Change {
            code,
            severity,
            version: self.version.clone(),
            path: path.to_owned(),
            text: text.into(),
            before: before.map(cut),
            after: after.map(cut),
        });
    }

    pub fn finish(mut self) -> Vec<Change> {
        self.changes.sort_by(|a, b| {
            (a.severity, &a.version, &a.path, a.code).cmp(&(b.severity, &b.version, &b.path, b.code))
        });
        if let Some(severity) = self.worst_left_out {
            self.changes.push(Change {
                code: ChangeCode::NotCompared,
                severity,
                version: None,
                path: String::new(),
                text: format!("{} more changes are not listed", self.left_out),
                before: None,
                after: None,
            });
        }
        self.changes
    }
}

fn cut(text: String) -> String {
    match text.char_indices().nth(LONGEST_VALUE) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// A value for display: strings without quotes.
pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// `a, b, c`, cut when it is long.
pub(super) fn listed<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    let mut text = String::new();
    for name in names {
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(name.as_ref());
        if text.len() > LONGEST_VALUE {
            break;
        }
    }
    cut(text)
}

//! A difference for display: masked, truncated, and with its field manager.

use std::io::{self, Write};

use serde_json::Value;

use super::compare::Change;
use super::manager::managers;
use super::mask::masked;
use crate::planned::{Cause, FieldDiff};

/// Maximum length of a displayed value: a schema of half a megabyte is not readable.
const LONGEST: usize = 2_000;
/// Length of a truncated value.
const LEFT: usize = 200;

/// The difference, and whether part of it was masked.
pub(super) fn view(change: &Change<'_>, live: &Value, new: &Value) -> (FieldDiff, bool) {
    let kind = new.get("kind").and_then(Value::as_str).unwrap_or_default();
    let (mut any_masked, mut any_cut) = (false, false);
    let mut show = |value: Option<&Value>| {
        let (value, hidden) = masked(kind, &change.path, value?);
        any_masked |= hidden;
        let (value, was_cut) = cut(&value);
        any_cut |= was_cut;
        Some(value)
    };
    let (there, last, wanted) = (show(change.live), show(change.last.flatten()), show(change.new));
    let cause = match (change.last.is_some(), change.drifted, change.changed) {
        (false, ..) => Cause::Unknown,
        (true, true, true) => Cause::Both,
        (true, true, false) => Cause::Drift,
        (true, false, _) => Cause::Change,
    };
    let by = if cause == Cause::Change { None } else { managers(live, &change.path) };
    let field =
        FieldDiff { path: change.path.clone(), live: there, last, new: wanted, cause, by, cut: any_cut };
    (field, any_masked)
}

/// The value, or the beginning of its text when that is long.
fn cut(value: &Value) -> (Value, bool) {
    let mut measure = Measure { start: Vec::new(), bytes: 0 };
    // writing to memory does not fail, nor does a value that was parsed
    if serde_json::to_writer(&mut measure, value).is_err() || measure.bytes <= LONGEST {
        return (value.clone(), false);
    }
    let start = match value {
        Value::String(text) => text.as_bytes(),
        _ => measure.start.as_slice(),
    };
    let start: String = String::from_utf8_lossy(start).chars().take(LEFT).collect();
    (Value::String(format!("{start}… ({} bytes)", measure.bytes)), true)
}

/// Counts written bytes, and keeps the beginning.
struct Measure {
    start: Vec<u8>,
    bytes: usize,
}

impl Write for Measure {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let room = (LEFT * 4).saturating_sub(self.start.len());
        self.start.extend_from_slice(&buffer[..buffer.len().min(room)]);
        self.bytes += buffer.len();
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

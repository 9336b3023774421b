//! Limits of values: enumerations, bounds, lengths, patterns, formats.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

use super::super::collect::{Collector, listed, plain};
use super::super::{ChangeCode, Severity};
use super::{list, text};
use crate::schema::{compare_numbers, is_checked_format};

use ChangeCode::*;
use Severity::{Breaking, Safe};

type Schema = Map<String, Value>;

pub(super) fn compare(path: &str, old: &Schema, new: &Schema, out: &mut Collector) {
    enumeration(path, old, new, out);
    bound(path, old, new, &LOWER, out);
    bound(path, old, new, &UPPER, out);
    multiple(path, old, new, out);
    counts(path, old, new, out);
    pattern(path, old, new, out);
    format(path, old, new, out);
}

/// Equality in which `1` and `1.0` are the same number.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b) == Some(Ordering::Equal),
        _ => a == b,
    }
}

fn enumeration(path: &str, old: &Schema, new: &Schema, out: &mut Collector) {
    let after = list(new, "enum");
    if after.is_empty() {
        return;
    }
    let before = list(old, "enum");
    let shown = |values: &[Value]| listed(values.iter().map(plain));
    if before.is_empty() {
        let text = "only the listed values are accepted";
        return out.add_with(EnumAdded, Breaking, path, text, None, Some(shown(after)));
    }
    let gone: Vec<String> =
        before.iter().filter(|value| !after.iter().any(|other| same(value, other))).map(plain).collect();
    if !gone.is_empty() {
        let text = format!("objects that have {} here are refused", listed(&gone));
        out.add_with(EnumValueRemoved, Breaking, path, text, Some(shown(before)), Some(shown(after)));
    }
}

struct Bound {
    key: &'static str,
    exclusive: &'static str,
    code: ChangeCode,
    /// The order of the narrower bound relative to the wider one.
    narrower: Ordering,
    words: (&'static str, &'static str),
}

const LOWER: Bound = Bound {
    key: "minimum",
    exclusive: "exclusiveMinimum",
    code: MinimumRaised,
    narrower: Ordering::Greater,
    words: ("at least", "more than"),
};
const UPPER: Bound = Bound {
    key: "maximum",
    exclusive: "exclusiveMaximum",
    code: MaximumLowered,
    narrower: Ordering::Less,
    words: ("at most", "less than"),
};

fn bound(path: &str, old: &Schema, new: &Schema, bound: &Bound, out: &mut Collector) {
    let read = |schema: &'_ Schema| -> Option<(Number, bool)> {
        let number = schema.get(bound.key)?.as_number()?.clone();
        Some((number, schema.get(bound.exclusive) == Some(&Value::Bool(true))))
    };
    let Some((after, after_exclusive)) = read(new) else { return };
    let before = read(old);
    if let Some((before, before_exclusive)) = &before {
        let narrows = match compare_numbers(&after, before) {
            Some(Ordering::Equal) => after_exclusive && !before_exclusive,
            Some(order) => order == bound.narrower,
            None => true,
        };
        if !narrows {
            return;
        }
    }
    let shown = |number: &Number, exclusive: bool| {
        format!("{} {number}", if exclusive { bound.words.1 } else { bound.words.0 })
    };
    let after = shown(&after, after_exclusive);
    let text = format!("only numbers of {after} are accepted");
    let before = before.map(|(number, exclusive)| shown(&number, exclusive));
    out.add_with(bound.code, Breaking, path, text, before, Some(after));
}

fn multiple(path: &str, old: &Schema, new: &Schema, out: &mut Collector) {
    let Some(after) = new.get("multipleOf") else { return };
    let before = old.get("multipleOf");
    // A multiple of 6 is one of 3.
    let implied = before.is_some_and(|before| match (before.as_i64(), after.as_i64()) {
        (Some(before), Some(after)) if after != 0 => before % after == 0,
        _ => same(before, after),
    });
    if !implied {
        let text = format!("only multiples of {after} are accepted");
        out.add_with(MultipleOfChanged, Breaking, path, text, before.map(plain), Some(plain(after)));
    }
}

fn counts(path: &str, old: &Schema, new: &Schema, out: &mut Collector) {
    for (code, least, most, what) in [
        (LengthNarrowed, "minLength", "maxLength", "characters"),
        (ItemsNarrowed, "minItems", "maxItems", "items"),
        (PropertiesNarrowed, "minProperties", "maxProperties", "fields"),
    ] {
        let read = |schema: &Schema, key: &str| schema.get(key).and_then(Value::as_u64);
        let mut add = |text: String, key: &str, before: Option<u64>, after: u64| {
            let shown = |count: u64| format!("{key} {count}");
            out.add_with(code, Breaking, path, text, before.map(shown), Some(shown(after)));
        };
        if let Some(after) = read(new, least)
            && after > read(old, least).unwrap_or(0)
        {
            add(format!("values of less than {after} {what} are refused"), least, read(old, least), after);
        }
        if let Some(after) = read(new, most)
            && read(old, most).is_none_or(|before| after < before)
        {
            add(format!("values of more than {after} {what} are refused"), most, read(old, most), after);
        }
    }
}

fn pattern(path: &str, old: &Schema, new: &Schema, out: &mut Collector) {
    let (before, after) = (text(old, "pattern"), text(new, "pattern"));
    if after.is_empty() || before == after {
        return;
    }
    if before.is_empty() {
        let text = "values that do not match the pattern are refused";
        out.add_with(PatternAdded, Breaking, path, text, None, Some(after.into()));
    } else {
        // Inclusion of patterns is not decided here.
        let text = "values that match the old pattern alone are refused";
        out.add_with(PatternChanged, Breaking, path, text, Some(before.into()), Some(after.into()));
    }
}

fn format(path: &str, old: &Schema, new: &Schema, out: &mut Collector) {
    let (before, after) = (text(old, "format"), text(new, "format"));
    if after.is_empty() || before == after {
        return;
    }
    let before_shown = Some(before).filter(|format| !format.is_empty()).map(str::to_owned);
    let (severity, text) = match (before, after) {
        // Wider, or equally wide for numbers in JSON in practice.
        ("int32", "int64") | ("uint32", "uint64" | "int64") | ("", "int64") => return,
        _ if is_checked_format(after) => (Breaking, "values that do not have the format are refused"),
        _ => (Safe, "it is documentation: no API server checks it"),
    };
    out.add_with(FormatChanged, severity, path, text, before_shown, Some(after.into()));
}

//! String functions. Positions count characters.

use std::fmt::Write;

use super::super::value::{Fault, Outcome, Val, error, no_overload};
use super::time;

/// Limit of the fraction digits that `format` writes.
const MOST_DIGITS: usize = 100;

pub(super) fn call<'a>(name: &str, args: &[Val<'a>]) -> Option<Outcome<'a>> {
    if let ("strings.quote", [Val::Text(text)]) = (name, args) {
        return Some(Ok(format!("{:?}", &**text).into()));
    }
    let (Val::Text(text), rest) = args.split_first()? else { return None };
    let text: &str = text;
    Some(match (name, rest) {
        ("contains", [Val::Text(part)]) => Ok(text.contains(&**part).into()),
        ("startsWith", [Val::Text(part)]) => Ok(text.starts_with(&**part).into()),
        ("endsWith", [Val::Text(part)]) => Ok(text.ends_with(&**part).into()),
        ("lowerAscii", []) => Ok(text.to_ascii_lowercase().into()),
        ("upperAscii", []) => Ok(text.to_ascii_uppercase().into()),
        ("trim", []) => Ok(text.trim().into()),
        ("charAt", [Val::Int(at)]) => char_at(text, *at),
        ("indexOf", [Val::Text(part)]) => Ok(Val::Int(index_of(text, part, 0))),
        ("indexOf", [Val::Text(part), Val::Int(from)]) => {
            in_range(text, *from).map(|from| Val::Int(index_of(text, part, from)))
        }
        ("lastIndexOf", [Val::Text(part)]) => Ok(Val::Int(last_index_of(text, part, usize::MAX))),
        ("lastIndexOf", [Val::Text(part), Val::Int(from)]) => {
            in_range(text, *from).map(|from| Val::Int(last_index_of(text, part, from)))
        }
        ("replace", [Val::Text(old), Val::Text(new)]) => Ok(text.replace(&**old, new).into()),
        ("replace", [Val::Text(old), Val::Text(new), Val::Int(most)]) => Ok(match usize::try_from(*most) {
            Ok(most) => text.replacen(&**old, new, most).into(),
            Err(_) => text.replace(&**old, new).into(),
        }),
        ("split", [Val::Text(at)]) => Ok(split(text, at, -1)),
        ("split", [Val::Text(at), Val::Int(most)]) => Ok(split(text, at, *most)),
        ("substring", [Val::Int(from)]) => substring(text, *from, None),
        ("substring", [Val::Int(from), Val::Int(to)]) => substring(text, *from, Some(*to)),
        ("format", [list]) => list.items().and_then(|values| format(text, &values)).map(Into::into),
        _ => return None,
    })
}

fn in_range(text: &str, at: i64) -> Result<usize, Fault> {
    let length = text.chars().count();
    usize::try_from(at)
        .ok()
        .filter(|at| *at <= length)
        .ok_or_else(|| error(format!("index out of range: {at}")))
}

fn char_at<'a>(text: &str, at: i64) -> Outcome<'a> {
    let at = in_range(text, at)?;
    Ok(text.chars().nth(at).map(String::from).unwrap_or_default().into())
}

fn bytes_of(text: &str, chars: usize) -> usize {
    text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at)
}

fn index_of(text: &str, part: &str, from: usize) -> i64 {
    let start = bytes_of(text, from);
    text[start..].find(part).map_or(-1, |at| text[..start + at].chars().count() as i64)
}

fn last_index_of(text: &str, part: &str, from: usize) -> i64 {
    // A match begins at `from` at the latest.
    let end = bytes_of(text, from).saturating_add(part.len()).min(text.len());
    let end = (0..=end).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    text[..end].rfind(part).map_or(-1, |at| text[..at].chars().count() as i64)
}

fn split<'a>(text: &str, at: &str, most: i64) -> Val<'a> {
    // Rust's split at an empty separator adds an empty text at both ends.
    let chars = || text.chars().map(String::from).collect::<Vec<_>>();
    let parts: Vec<String> = match usize::try_from(most) {
        Ok(0) => Vec::new(),
        Ok(most) if at.is_empty() => {
            let mut parts = chars();
            if parts.len() > most {
                let rest = parts.split_off(most - 1).concat();
                parts.push(rest);
            }
            parts
        }
        Ok(most) => text.splitn(most, at).map(str::to_owned).collect(),
        Err(_) if at.is_empty() => chars(),
        Err(_) => text.split(at).map(str::to_owned).collect(),
    };
    Val::list(parts.into_iter().map(Val::from).collect())
}

fn substring<'a>(text: &str, from: i64, to: Option<i64>) -> Outcome<'a> {
    let start = in_range(text, from)?;
    let end = match to {
        Some(to) => in_range(text, to)?,
        None => text.chars().count(),
    };
    if start > end {
        return Err(error(format!("invalid substring range. start: {from}, end: {end}")));
    }
    Ok(text[bytes_of(text, start)..bytes_of(text, end)].into())
}

/// `'%s has %d'.format([a, b])`.
fn format(text: &str, values: &[Val<'_>]) -> Result<String, Fault> {
    let mut out = String::new();
    let mut values = values.iter().enumerate();
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let mut digits = None;
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
            let wanted = after[..end].parse::<usize>().ok().filter(|wanted| *wanted <= MOST_DIGITS);
            digits =
                Some(wanted.ok_or_else(|| error("could not parse formatting clause: invalid precision"))?);
            rest = &after[end..];
        }
        let Some(verb) = rest.chars().next() else {
            return Err(error("could not parse formatting clause: unexpected end of string"));
        };
        rest = &rest[verb.len_utf8()..];
        let (index, value) =
            values.next().ok_or_else(|| error(format!("index {} out of range", out.len())))?;
        one(&mut out, verb, digits, value)
            .map_err(|what| error(format!("error during formatting: argument {index}: {what}")))?;
    }
    out.push_str(rest);
    Ok(out)
}

fn one(out: &mut String, verb: char, digits: Option<usize>, value: &Val<'_>) -> Result<(), String> {
    let wrong = || format!("{verb:?} cannot be used with {}", value.kind());
    let number = |value: &Val<'_>| match value {
        Val::Int(value) => Some(i128::from(*value)),
        Val::Uint(value) => Some(i128::from(*value)),
        _ => None,
    };
    let float = |value: &Val<'_>| match value {
        Val::Double(value) => Some(*value),
        other => number(other).map(|value| value as f64),
    };
    let sign = |value: i128| if value < 0 { "-" } else { "" };
    let digits = digits.unwrap_or(6);
    let done = match verb {
        's' => {
            plain(out, value, 0).map_err(|_| wrong())?;
            Ok(())
        }
        'd' => write!(out, "{}", number(value).ok_or_else(wrong)?),
        'f' => write!(out, "{:.digits$}", float(value).ok_or_else(wrong)?),
        'e' => {
            let text = format!("{:.digits$e}", float(value).ok_or_else(wrong)?);
            let (mantissa, power) = text.split_once('e').unwrap_or((&text, "0"));
            let (minus, power) = power.strip_prefix('-').map_or(("+", power), |power| ("-", power));
            write!(out, "{mantissa}e{minus}{power:0>2}")
        }
        'b' => match value {
            Val::Bool(value) => write!(out, "{}", u8::from(*value)),
            _ => {
                let value = number(value).ok_or_else(wrong)?;
                write!(out, "{}{:b}", sign(value), value.unsigned_abs())
            }
        },
        'o' => {
            let value = number(value).ok_or_else(wrong)?;
            write!(out, "{}{:o}", sign(value), value.unsigned_abs())
        }
        'x' | 'X' => {
            let text = match value {
                Val::Text(text) => text.bytes().map(|byte| format!("{byte:02x}")).collect(),
                Val::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
                _ => {
                    let value = number(value).ok_or_else(wrong)?;
                    format!("{}{:x}", sign(value), value.unsigned_abs())
                }
            };
            out.push_str(&if verb == 'X' { text.to_uppercase() } else { text });
            Ok(())
        }
        other => return Err(format!("unrecognized formatting clause \"{other}\"")),
    };
    done.map_err(|_| wrong())
}

/// A value in the form of `%s`.
fn plain(out: &mut String, value: &Val<'_>, depth: usize) -> Result<(), Fault> {
    /// Values of objects are not nested deeper.
    const MOST_LEVELS: usize = 64;
    if depth > MOST_LEVELS {
        return Err(no_overload());
    }
    match value {
        Val::Null => out.push_str("null"),
        Val::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Val::Int(value) => out.push_str(&value.to_string()),
        Val::Uint(value) => out.push_str(&value.to_string()),
        Val::Double(value) => out.push_str(&value.to_string()),
        Val::Text(text) => out.push_str(text),
        Val::Bytes(bytes) => out.push_str(&String::from_utf8_lossy(bytes)),
        Val::Time(time) => out.push_str(&time.to_string()),
        Val::Span(span) => out.push_str(&time::shown(*span)),
        Val::Kind(name) => out.push_str(name),
        Val::List(_) | Val::JsonList(..) => {
            out.push('[');
            for (at, item) in value.items()?.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                plain(out, item, depth + 1)?;
            }
            out.push(']');
        }
        Val::Map(_) | Val::JsonMap(..) => {
            let mut entries = Vec::new();
            for key in value.keys().unwrap_or_default() {
                let (mut name, mut text) = (String::new(), String::new());
                plain(&mut name, &key, depth + 1)?;
                if let Some(entry) = value.entry(&key) {
                    plain(&mut text, &entry?, depth + 1)?;
                }
                entries.push(format!("{name}: {text}"));
            }
            entries.sort();
            out.push('{');
            out.push_str(&entries.join(", "));
            out.push('}');
        }
        _ => return Err(no_overload()),
    }
    Ok(())
}

//! Functions of rules. Operators are in [`super::eval`], signatures in [`super::signatures`].

mod convert;
mod formats;
mod list;
pub(super) mod net;
mod text;
pub(super) mod time;

use std::collections::HashMap;
use std::rc::Rc;

use regex::Regex;

use super::eval::MOST_A_CALL;
use super::language::Language;
use super::value::{Fault, Outcome, Val, error, no_overload};
use crate::quantity::Quantity;

/// Limit of the memory of a compiled pattern; patterns of real definitions take some kilobytes.
const LARGEST_PATTERN: usize = 1 << 20;
/// Cost of the compilation of a pattern, which can take milliseconds.
const PATTERN_UNITS: u64 = 10_000;

/// State of functions during the evaluation of an object.
#[derive(Default)]
pub(super) struct Library {
    patterns: HashMap<String, Regex>,
    language: Option<&'static Language>,
}

impl Library {
    pub(super) fn of(language: &'static Language) -> Self {
        Self { language: Some(language), ..Self::default() }
    }

    /// Cost limit of an expression.
    pub(super) fn limit(&self) -> u64 {
        self.language.map_or(MOST_A_CALL, |language| language.limit)
    }

    /// Cost of the texts that a call reads. Kubernetes counts them for some functions only.
    pub(super) fn reading(&self, args: &[Val<'_>]) -> u64 {
        let units = |arg: &Val<'_>| match arg {
            Val::Text(text) => text.len() as u64 / 10,
            Val::Bytes(bytes) => bytes.len() as u64 / 10,
            _ => 0,
        };
        if self.language.is_some() { args.iter().map(units).sum() } else { 0 }
    }

    /// Cost of listing the keys of a loop's range. Kubernetes counts the iterations only.
    pub(super) fn listing(&self, range: &Val<'_>) -> u64 {
        if self.language.is_some() && range.kind() == "map" { range.length() } else { 0 }
    }

    /// Cost of a call beyond its one unit.
    pub(super) fn cost(&self, name: &str, args: &[Val<'_>]) -> u64 {
        let cost_units = |at: usize| args.get(at).map_or(0, Val::cost_units);
        match name {
            "matches" | "find" | "findAll" => {
                let Some(Val::Text(pattern)) = args.get(1) else { return 0 };
                let first = if self.patterns.contains_key(&**pattern) { 0 } else { PATTERN_UNITS };
                cost_units(0).saturating_mul(pattern.len() as u64 / 4 + 1).saturating_add(first)
            }
            // Work or result grow with the product.
            "contains" | "replace" | "join" | "sets.contains" | "sets.equivalent" | "sets.intersects" => {
                cost_units(0).saturating_mul(cost_units(1).max(cost_units(2)).max(1))
            }
            "indexOf" | "lastIndexOf" => cost_units(0).saturating_mul(cost_units(1)),
            "lists.range" => match args {
                [Val::Int(count)] => u64::try_from(*count).unwrap_or(0),
                _ => 0,
            },
            "distinct" => cost_units(0).saturating_mul(cost_units(0)),
            "size" | "type" | "dyn" | "hasValue" | "value" | "or" | "orValue" | "optional.of" => 0,
            _ => args.iter().map(Val::cost_units).sum(),
        }
    }

    fn regex(&mut self, pattern: &str) -> Result<&Regex, Fault> {
        if !self.patterns.contains_key(pattern) {
            self.patterns.insert(pattern.to_owned(), compile(pattern).map_err(error)?);
        }
        self.patterns.get(pattern).ok_or_else(no_overload)
    }

    /// Calls a function; the receiver of a member is the first argument.
    pub(super) fn call<'a>(&mut self, name: &str, args: &[Val<'a>]) -> Outcome<'a> {
        if let Some(result) = self.language.and_then(|language| language.call(name, args)) {
            return result;
        }
        if let Some(result) = self.pattern_call(name, args) {
            return result;
        }
        convert::call(name, args)
            .or_else(|| text::call(name, args))
            .or_else(|| list::call(name, args))
            .or_else(|| optional(name, args))
            .or_else(|| time::call(name, args))
            .or_else(|| net::call(name, args))
            .or_else(|| quantity(name, args))
            .or_else(|| version(name, args))
            .or_else(|| formats::call(name, args))
            .unwrap_or_else(|| Err(no_overload()))
    }

    fn pattern_call<'a>(&mut self, name: &str, args: &[Val<'a>]) -> Option<Outcome<'a>> {
        let (text, pattern) = match (name, args) {
            ("matches" | "find", [Val::Text(text), Val::Text(pattern)])
            | ("findAll", [Val::Text(text), Val::Text(pattern), ..]) => (text, pattern),
            _ => return None,
        };
        let regex = match self.regex(pattern) {
            Ok(regex) => regex,
            Err(fault) => return Some(Err(fault)),
        };
        Some(match name {
            "matches" => Ok(regex.is_match(text).into()),
            "find" => Ok(regex.find(text).map_or("", |found| found.as_str()).into()),
            _ => {
                let most = match args.get(2) {
                    Some(Val::Int(most)) => usize::try_from(*most).unwrap_or(usize::MAX),
                    _ => usize::MAX,
                };
                Ok(Val::list(regex.find_iter(text).take(most).map(|found| found.as_str().into()).collect()))
            }
        })
    }
}

/// A pattern in Go's syntax.
pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
    crate::schema::compile_pattern(pattern, LARGEST_PATTERN)
        .map_err(|reason| format!("error parsing regexp: {reason}: `{pattern}`"))
}

fn optional<'a>(name: &str, args: &[Val<'a>]) -> Option<Outcome<'a>> {
    Some(Ok(match (name, args) {
        ("optional.none", []) => Val::Optional(None),
        ("optional.of", [value]) => Val::Optional(Some(Rc::new(value.clone()))),
        ("optional.ofNonZeroValue", [value]) => {
            Val::Optional((!value.is_zero()).then(|| Rc::new(value.clone())))
        }
        ("hasValue", [Val::Optional(value)]) => value.is_some().into(),
        ("value", [Val::Optional(value)]) => match value {
            Some(value) => Val::clone(value),
            None => return Some(Err(error("optional.none() dereference"))),
        },
        ("or", [Val::Optional(value), other]) => match value {
            Some(_) => args[0].clone(),
            None => other.clone(),
        },
        ("orValue", [Val::Optional(value), other]) => {
            value.as_ref().map_or_else(|| other.clone(), |value| Val::clone(value))
        }
        _ => return None,
    }))
}

fn quantity<'a>(name: &str, args: &[Val<'a>]) -> Option<Outcome<'a>> {
    let too_large = || error("quantity overflow");
    let of = |val: &Val<'_>| match val {
        Val::Quantity(quantity) => Some(*quantity),
        Val::Int(units) => Some(Quantity::from_int(*units)),
        _ => None,
    };
    Some(match (name, args) {
        ("isQuantity", [Val::Text(text)]) => Ok(text.parse::<Quantity>().is_ok().into()),
        ("quantity", [Val::Text(text)]) => text
            .parse()
            .map(Val::Quantity)
            .map_err(|wrong: crate::quantity::InvalidQuantity| error(wrong.to_string())),
        ("sign", [Val::Quantity(a)]) => Ok(Val::Int(a.sign())),
        ("isInteger", [Val::Quantity(a)]) => Ok(a.as_int().is_some().into()),
        ("asInteger", [Val::Quantity(a)]) => {
            a.as_int().map(Val::Int).ok_or_else(|| error("cannot convert value to integer"))
        }
        ("asApproximateFloat", [Val::Quantity(a)]) => Ok(Val::Double(a.as_float())),
        ("add", [Val::Quantity(a), b]) => a.checked_add(of(b)?).map(Val::Quantity).ok_or_else(too_large),
        ("sub", [Val::Quantity(a), b]) => a.checked_sub(of(b)?).map(Val::Quantity).ok_or_else(too_large),
        ("isGreaterThan", [Val::Quantity(a), Val::Quantity(b)]) => Ok(a.compare(*b).is_gt().into()),
        ("isLessThan", [Val::Quantity(a), Val::Quantity(b)]) => Ok(a.compare(*b).is_lt().into()),
        ("compareTo", [Val::Quantity(a), Val::Quantity(b)]) => Ok(Val::Int(a.compare(*b) as i64)),
        _ => return None,
    })
}

fn version<'a>(name: &str, args: &[Val<'a>]) -> Option<Outcome<'a>> {
    let part = |part: u64| Ok(i64::try_from(part).map_or(Val::Int(i64::MAX), Val::Int));
    Some(match (name, args) {
        ("isSemver", [Val::Text(text), normalize @ ..]) => Ok(parse_version(text, normalize).is_ok().into()),
        ("semver", [Val::Text(text), normalize @ ..]) => parse_version(text, normalize)
            .map(|version| Val::Semver(Rc::new(version)))
            .map_err(|wrong| error(format!("failed to parse version: {wrong}"))),
        ("isGreaterThan", [Val::Semver(a), Val::Semver(b)]) => Ok(a.cmp_precedence(b).is_gt().into()),
        ("isLessThan", [Val::Semver(a), Val::Semver(b)]) => Ok(a.cmp_precedence(b).is_lt().into()),
        ("compareTo", [Val::Semver(a), Val::Semver(b)]) => Ok(Val::Int(a.cmp_precedence(b) as i64)),
        ("major", [Val::Semver(a)]) => part(a.major),
        ("minor", [Val::Semver(a)]) => part(a.minor),
        ("patch", [Val::Semver(a)]) => part(a.patch),
        _ => return None,
    })
}

/// A semantic version; normalizing accepts a prefix `v`, leading zeros, and a missing minor version and
/// patch.
fn parse_version(text: &str, normalize: &[Val<'_>]) -> Result<semver::Version, String> {
    if !matches!(normalize, [Val::Bool(true)]) {
        return semver::Version::parse(text).map_err(|wrong| wrong.to_string());
    }
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text.splitn(3, '.').map(without_leading_zeros).collect();
    if parts.len() < 3 && parts.last().is_some_and(|part| part.contains(['+', '-'])) {
        return Err("short version cannot contain PreRelease/Build meta data".to_owned());
    }
    parts.resize(3, "0".to_owned());
    semver::Version::parse(&parts.join(".")).map_err(|wrong| wrong.to_string())
}

fn without_leading_zeros(part: &str) -> String {
    let rest = part.trim_start_matches('0');
    let starts_with_digit = rest.starts_with(|c: char| c.is_ascii_digit());
    if part.len() > 1 && !starts_with_digit {
        format!("0{rest}")
    } else if part.len() > 1 {
        rest.to_owned()
    } else {
        part.to_owned()
    }
}

//! Rules of the Common Expression Language, as OLM evaluates them: the variable `properties`, a list of maps
//! with `type` and `value`, and the function `semver_compare(a, b)`, which is -1, 0 or 1.
//!
//! Rules are untrusted input: [`Language`] limits length, depth and cost.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use olm_kube_schema::{Condition, Language};
use olm_version::{Version, parse_lenient, precedence};
use serde_json::{Number, Value, json};

use crate::Property;

/// Parse time grows faster than linearly with the length. The longest rule of a public catalog has some 500
/// bytes.
const LONGEST_RULE: usize = 4 << 10;
/// Above this size of the properties no rule holds. A unit is a value, or 16 bytes of a text; the properties
/// of a bundle without its manifests and metadata have some hundreds.
const MOST_UNITS: usize = 20_000;
const TEXT_OF_A_UNIT: usize = 16;

static LANGUAGE: Language = Language {
    variable: "properties",
    comparison: ("semver_compare", semver_compare),
    // A rule is evaluated on each candidate bundle. One pass over its properties costs a thousand or two.
    limit: 100_000,
};

/// A compiled rule. Equality compares the source texts.
#[derive(Clone)]
pub struct Cel {
    rule: Arc<str>,
    condition: Condition,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CelError {
    /// Size in bytes above the limit.
    #[error("the rule has {0} bytes, and {LONGEST_RULE} are taken at most")]
    TooLong(usize),
    /// A syntax error, an undeclared name, the wrong types, or too many levels.
    #[error("the rule does not compile: {0}")]
    Invalid(String),
}

impl CelError {
    /// The hint of the message.
    #[must_use]
    pub fn fix(&self) -> &'static str {
        match self {
            Self::TooLong(_) => "split it into several constraints",
            Self::Invalid(_) => {
                "write a bool over `properties`, a list of maps with type and value, such as \
                 properties.exists(p, p.type == 'a')"
            }
        }
    }
}

impl Cel {
    /// Compiles a rule.
    ///
    /// # Errors
    /// [`CelError`] with the defect of the rule. OLM too refuses syntax errors, undeclared names, wrong types
    /// and rules that are not a bool; the limits of length and depth, and the refusal of timestamps and
    /// durations, exist only here.
    pub fn compile(rule: &str) -> Result<Self, CelError> {
        if rule.len() > LONGEST_RULE {
            return Err(CelError::TooLong(rule.len()));
        }
        let condition = LANGUAGE.compile(rule).map_err(|text| CelError::Invalid(first_line(&text)))?;
        Ok(Self { rule: rule.into(), condition })
    }

    /// The rule as written.
    #[must_use]
    pub fn rule(&self) -> &str {
        &self.rule
    }

    /// Whether the rule holds for the properties. A rule that fails, for example on a missing key, or that
    /// exceeds its budget does not hold.
    #[must_use]
    pub fn holds(&self, properties: &[Property]) -> bool {
        values(properties).is_some_and(|properties| self.condition.holds(&properties) == Ok(true))
    }
}

/// The first of the compiler's errors, with line and column but without the excerpt of the rule.
fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("ERROR: <input>:").unwrap_or(line).to_owned()
}

/// The variable `properties`; `None` above the size limit.
fn values(properties: &[Property]) -> Option<Value> {
    let mut left = MOST_UNITS;
    let property =
        |property: &Property| as_go(json!({ "type": property.kind, "value": property.value()? }), &mut left);
    properties.iter().map(property).collect()
}

/// The value as Go's JSON package reads it, where every number is a double; `None` when it takes more units
/// than are left.
fn as_go(value: Value, left: &mut usize) -> Option<Value> {
    let bytes = value.as_str().map_or(0, str::len);
    *left = left.checked_sub(1 + bytes / TEXT_OF_A_UNIT)?;
    Some(match value {
        Value::Number(number) => Value::Number(Number::from_f64(number.as_f64()?)?),
        Value::Array(list) => list.into_iter().map(|value| as_go(value, left)).collect::<Option<_>>()?,
        Value::Object(map) => {
            let entry = |(key, value): (String, Value)| {
                *left = left.checked_sub(key.len() / TEXT_OF_A_UNIT)?;
                Some((key, as_go(value, left)?))
            };
            Value::Object(map.into_iter().map(entry).collect::<Option<_>>()?)
        }
        other => other,
    })
}

/// As blang's precedence, also of numbers: upstream prints values before it parses them.
fn semver_compare(left: &Value, right: &Value) -> Result<Ordering, String> {
    Ok(precedence(&version(left)?, &version(right)?))
}

fn version(value: &Value) -> Result<Version, String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => number.as_f64().unwrap_or_default().to_string(),
        Value::Number(number) => number.to_string(),
        _ => return Err("semver_compare compares texts".to_owned()),
    };
    parse_lenient(&text).map_err(|error| error.to_string())
}

impl PartialEq for Cel {
    fn eq(&self, other: &Self) -> bool {
        self.rule == other.rule
    }
}

impl Eq for Cel {}

impl PartialOrd for Cel {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Cel {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rule.cmp(&other.rule)
    }
}

impl fmt::Debug for Cel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cel").field(&self.rule).finish()
    }
}

#[cfg(test)]
mod tests;

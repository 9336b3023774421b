//! Ranges of versions in the grammar of blang/semver v4.
//!
//! ```text
//! range      = and { "||" and }          `||` has blanks on both sides
//! and        = comparator { " " comparator }
//! comparator = [ op { " " } ] version    blanks may follow <, > and = but not !
//! op         = "<" "<=" ">" ">=" "=" "==" "!" "!="
//! version    = full semver | N.x | N.N.x | N.x.x
//! ```
//! There is no `~`, `^`, hyphen range or partial version. Pre-releases are ordinary versions.
//!
//! Quirks of blang that are preserved, because catalogs rely on its interpretation:
//! - `!=1.x` becomes `<1.0.0 >=2.0.0` joined by *and*: it never matches (see [`Range::warning`]);
//! - `1.x.x` is read as a wildcard of the *patch* number: it means `>=1.0.0 <1.1.0`;
//! - an `x` anywhere, also in a pre-release such as `1.0.0-next`, sends a comparator down the wildcard path,
//!   where every operator but `>=` and `<` then fails to parse.
//!
//! Quirks of blang that are refused, because they silently drop input:
//! - a token of one character (`! 1.0.0` loses its `!`, `5` vanishes);
//! - an unknown operator before a wildcard (`~1.2.x` and `<v1.2.x` would mean `=1.2.0`);
//! - the empty range (blang returns a nil function, which crashes when called).

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use semver::Version;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// A set of versions, written in blang's range grammar (see the module documentation).
#[derive(Debug, Clone)]
pub struct Range {
    source: String,
    any: Vec<Vec<Comparator>>,
    warning: Option<&'static str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Comparator {
    op: Op,
    version: Version,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A syntax error of a range. The messages name the defective part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// The text is blank.
    #[error("the range is empty; leave the field out to mean no range")]
    Empty,
    /// `||` without a range on one of its sides.
    #[error("\"||\" needs a range on both sides")]
    DanglingOr,
    #[error("no version in {0:?}; a comparator is an operator and a full version such as >=1.2.3")]
    NoVersion(String),
    #[error("unknown operator {operator:?} in {comparator:?}; use one of < <= > >= = == ! !={hint}")]
    UnknownOperator {
        /// The text in the operator's position.
        operator: String,
        comparator: String,
        /// The fix, where one is known.
        hint: &'static str,
    },
    #[error("{version:?} in {comparator:?} is not a version: {reason}")]
    BadVersion {
        /// The version after wildcard expansion.
        version: String,
        /// The comparator as written.
        comparator: String,
        /// The message of the version parser.
        reason: String,
    },
}

impl Range {
    /// Reads a range.
    ///
    /// ```
    /// let range = olm_version::Range::parse(">=1.2.0 <2.0.0 !1.5.0 || 3.x").unwrap();
    /// assert!(range.contains(&"1.9.9".parse().unwrap()));
    /// assert!(!range.contains(&"1.5.0".parse().unwrap()));
    /// assert!(range.contains(&"3.7.0".parse().unwrap()));
    /// ```
    ///
    /// # Errors
    /// [`RangeError`] with the defective part.
    pub fn parse(source: &str) -> Result<Self, RangeError> {
        let tokens = tokens(source);
        if tokens.is_empty() {
            return Err(RangeError::Empty);
        }
        let mut warning = None;
        let mut any = Vec::new();
        for group in tokens.split(|token| token == "||") {
            if group.is_empty() {
                return Err(RangeError::DanglingOr);
            }
            let mut all = Vec::with_capacity(group.len());
            for token in group {
                parse_comparator(token, &mut all, &mut warning)?;
            }
            any.push(all);
        }
        Ok(Self { source: source.to_owned(), any, warning })
    }

    /// Whether the version is in the range. Build metadata is ignored; a pre-release is an ordinary version
    /// below its release.
    #[must_use]
    pub fn contains(&self, version: &Version) -> bool {
        self.any.iter().any(|all| all.iter().all(|comparator| comparator.holds(version)))
    }

    /// The text it was parsed from, unchanged.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// A warning about a valid range that has an unexpected meaning, if any.
    #[must_use]
    pub fn warning(&self) -> Option<&'static str> {
        self.warning
    }
}

impl Comparator {
    fn holds(&self, version: &Version) -> bool {
        let order = version.cmp_precedence(&self.version);
        match self.op {
            Op::Equal => order == Ordering::Equal,
            Op::NotEqual => order != Ordering::Equal,
            Op::Less => order == Ordering::Less,
            Op::LessOrEqual => order != Ordering::Greater,
            Op::Greater => order == Ordering::Greater,
            Op::GreaterOrEqual => order != Ordering::Less,
        }
    }
}

/// Splits at blanks, except after `<`, `>` and `=`, where blanks are dropped.
fn tokens(source: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut current = String::new();
    for c in source.chars() {
        if c != ' ' {
            current.push(c);
        } else if !current.ends_with(['<', '>', '=']) && !current.is_empty() {
            tokens.push(std::mem::take(&mut current));
        }
    }
    if !current.is_empty() {
        tokens.push(current);
    }
    tokens
}

fn parse_comparator(
    token: &str,
    all: &mut Vec<Comparator>,
    warning: &mut Option<&'static str>,
) -> Result<(), RangeError> {
    let digit =
        token.find(|c: char| c.is_ascii_digit()).ok_or_else(|| RangeError::NoVersion(token.to_owned()))?;
    let (operator, version) = token.split_at(digit);
    let op = operator_of(operator).ok_or_else(|| RangeError::UnknownOperator {
        operator: operator.to_owned(),
        comparator: token.to_owned(),
        hint: match operator.trim_start_matches(['<', '>', '=', '!']) {
            "v" => " and write the version without \"v\"",
            "~" | "^" => {
                " (\"~\" and \"^\" are not part of this grammar; 1.2.x or >=1.2.0 <2.0.0 are equivalent)"
            }
            _ => "",
        },
    })?;
    if !token.contains('x') {
        all.push(comparator(op, version, token)?);
        return Ok(());
    }

    let wildcard = Wildcard::of(version);
    let flat = flatten(version);
    let next = wildcard.map(|wildcard| wildcard.increment(&flat)).unwrap_or_default();
    match op {
        Op::Greater => all.push(comparator(Op::GreaterOrEqual, &next, token)?),
        Op::GreaterOrEqual => all.push(comparator(Op::GreaterOrEqual, &flat, token)?),
        Op::Less => all.push(comparator(Op::Less, &flat, token)?),
        Op::LessOrEqual => all.push(comparator(Op::Less, &next, token)?),
        Op::Equal => {
            if wildcard == Some(Wildcard::Patch) && version.contains(".x.x") {
                *warning = Some("N.x.x is read as N.0.x; write N.x for every version of that major");
            }
            all.push(comparator(Op::GreaterOrEqual, &flat, token)?);
            all.push(comparator(Op::Less, &next, token)?);
        }
        Op::NotEqual => {
            *warning = Some("a negated wildcard never matches; write <N.0.0 || >=M.0.0 instead");
            all.push(comparator(Op::Less, &flat, token)?);
            all.push(comparator(Op::GreaterOrEqual, &next, token)?);
        }
    }
    Ok(())
}

fn operator_of(text: &str) -> Option<Op> {
    Some(match text {
        "" | "=" | "==" => Op::Equal,
        "!" | "!=" => Op::NotEqual,
        "<" => Op::Less,
        "<=" => Op::LessOrEqual,
        ">" => Op::Greater,
        ">=" => Op::GreaterOrEqual,
        _ => return None,
    })
}

fn comparator(op: Op, version: &str, token: &str) -> Result<Comparator, RangeError> {
    match Version::parse(version) {
        Ok(version) => Ok(Comparator { op, version }),
        Err(error) => {
            let is_partial = version.split(['-', '+']).next().is_some_and(|core| core.split('.').count() < 3);
            Err(RangeError::BadVersion {
                version: version.to_owned(),
                comparator: token.to_owned(),
                reason: if is_partial { "expected MAJOR.MINOR.PATCH".to_owned() } else { error.to_string() },
            })
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wildcard {
    /// `N.x`
    Minor,
    /// `N.N.x`, and by the quirk also `N.x.x`
    Patch,
}

impl Wildcard {
    fn of(version: &str) -> Option<Self> {
        let mut parts = version.rsplit('.');
        if parts.next() != Some("x") {
            return None;
        }
        match parts.count() {
            1 => Some(Self::Minor),
            2 => Some(Self::Patch),
            _ => None,
        }
    }

    /// The first version behind the wildcard; empty when none exists, which then fails to parse.
    fn increment(self, flat: &str) -> String {
        let mut parts: Vec<String> = flat.split('.').map(str::to_owned).collect();
        let index = match self {
            Self::Minor => 0,
            Self::Patch => 1,
        };
        match parts.get(index).and_then(|part| part.parse::<u64>().ok()).and_then(|n| n.checked_add(1)) {
            Some(next) => {
                parts[index] = next.to_string();
                parts.join(".")
            }
            None => String::new(),
        }
    }
}

/// `1.x.x`, `1.x` → `1.0.0`; `1.2.x` → `1.2.0`.
fn flatten(version: &str) -> String {
    let flat = version.replacen(".x.x", ".x", 1).replacen(".x", ".0", 1);
    if flat.split('.').count() == 2 { flat + ".0" } else { flat }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

impl FromStr for Range {
    type Err = RangeError;
    fn from_str(source: &str) -> Result<Self, RangeError> {
        Self::parse(source)
    }
}

/// Equality compares the source texts.
impl PartialEq for Range {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for Range {}

impl Serialize for Range {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.source)
    }
}

impl<'de> Deserialize<'de> for Range {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let source = String::deserialize(deserializer)?;
        Self::parse(&source).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests;

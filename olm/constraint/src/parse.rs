//! Reads the value of an `olm.constraint`.

use std::fmt;
use std::io;

use olm_version::{Range, RangeError};
use serde_json::{Map, Value};

use crate::cel::{Cel, CelError};
use crate::constraint::{Constraint, Rule};
use crate::gvk::Gvk;

/// OLM's limit of the size in bytes; it bounds all work on a constraint.
const LARGEST: usize = 128 << 10;
/// Limit of nesting, because constraints are processed recursively. OLM limits only the size.
const MOST_LEVELS: usize = 32;
/// Limit of reported problems per value, which bounds the memory of their texts.
const MOST_PROBLEMS: usize = 200;
/// A key or range is cut after this many characters in messages.
const LONGEST_QUOTE: usize = 120;

const KINDS: [&str; 6] = ["gvk", "package", "all", "any", "not", "cel"];
const KEYS: &[&str] = &["failureMessage", "gvk", "package", "all", "any", "not", "cel"];
const GVK: &[&str] = &["group", "version", "kind"];
const PACKAGE: &[&str] = &["packageName", "versionRange"];
const CEL: &[&str] = &["rule"];
const SEVERAL: &[&str] = &["constraints"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConstraintError {
    /// The field, as a path below the value: `all.constraints[0].gvk.kind`; empty for the value itself.
    pub field: String,
    pub problem: Problem,
}

/// A defect of a field; [`Problem::fix`] is its hint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("it has more than {LARGEST} bytes, which OLM refuses")]
    TooLarge,
    /// Constraints nested above the limit.
    #[error("constraints are nested more than {MOST_LEVELS} levels deep")]
    TooDeep,
    /// The value is not a map.
    #[error("it is not a map")]
    NoMap(&'static [&'static str]),
    /// A failure message that is a number, list or map.
    #[error("it is not a string")]
    NoText,
    /// An unknown key: ignoring a condition would install a bundle where it must not be.
    #[error("unknown field {:?}", cut(.key))]
    UnknownField {
        key: String,
        /// The supported keys.
        known: &'static [&'static str],
    },
    /// No kind of constraint.
    #[error("the constraint is empty")]
    Empty,
    /// An empty `all`, `any` or `not`.
    #[error("it is not a list of constraints, or it is empty")]
    NoConstraints,
    /// Several kinds of constraints in one.
    #[error("it has {} at once, of which OLM reads one", .0.join(" and "))]
    Ambiguous(Vec<&'static str>),
    #[error("it is required, expected a string")]
    Missing,
    #[error("{:?}: {error}", cut(.range))]
    Range { range: String, error: RangeError },
    #[error(transparent)]
    Cel(CelError),
}

impl Problem {
    /// The hint of the message.
    #[must_use]
    pub fn fix(&self) -> String {
        match self {
            Self::TooLarge => "split it".to_owned(),
            Self::TooDeep => "simplify it".to_owned(),
            Self::NoMap(known) => format!("write a map with {}", known.join(", ")),
            Self::NoText => "put it in quotes".to_owned(),
            Self::UnknownField { known, .. } => format!("there are {}", known.join(", ")),
            Self::Empty => format!("add one of {}", KINDS.join(", ")),
            Self::NoConstraints => "list at least one".to_owned(),
            Self::Ambiguous(_) => "put them into an `all` or an `any`".to_owned(),
            Self::Missing => "fill it in".to_owned(),
            Self::Range { .. } => "write a range such as >=1.0.0 <2.0.0".to_owned(),
            Self::Cel(error) => error.fix().to_owned(),
        }
    }
}

impl std::error::Error for ConstraintError {}

impl fmt::Display for ConstraintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        write!(f, "{}; {}", self.problem, self.problem.fix())
    }
}

impl Constraint {
    /// Reads the value of an `olm.constraint` property, and compiles its CEL rules. Unknown keys are errors,
    /// and so is everything else that OLM refuses or ignores.
    ///
    /// # Errors
    /// The first problem, in the order of the fields as written.
    pub fn parse(value: &Value) -> Result<Self, ConstraintError> {
        Self::check(value).map_err(|problems| match problems.into_iter().next() {
            Some(problem) => problem,
            None => ConstraintError { field: String::new(), problem: Problem::Empty },
        })
    }

    /// The same as [`Constraint::parse`], with every problem (up to 200 of them), for a report to its author.
    ///
    /// # Errors
    /// The problems, at least one.
    pub fn check(value: &Value) -> Result<Self, Vec<ConstraintError>> {
        let mut reader = Reader::default();
        let constraint = if is_larger(value) {
            reader.report("", Problem::TooLarge)
        } else {
            reader.constraint(value, "", 0)
        };
        match constraint {
            Some(constraint) if reader.problems.is_empty() => Ok(constraint),
            _ => Err(reader.problems),
        }
    }
}

/// Methods return `None` after they have reported a problem.
#[derive(Default)]
struct Reader {
    problems: Vec<ConstraintError>,
}

impl Reader {
    fn constraint(&mut self, value: &Value, field: &str, level: usize) -> Option<Constraint> {
        if level > MOST_LEVELS {
            return self.report(field, Problem::TooDeep);
        }
        let map = self.map(value, field, KEYS)?;
        let message = match map.get("failureMessage") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) if text.is_empty() => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(_) => {
                let field = join(field, "failureMessage");
                return self.report(&field, Problem::NoText);
            }
        };
        let mut rules = KINDS
            .into_iter()
            .filter_map(|kind| map.get(kind).filter(|value| !value.is_null()).map(|value| (kind, value)));
        let Some((kind, value)) = rules.next() else {
            return self.report(field, Problem::Empty);
        };
        let others: Vec<&'static str> = rules.map(|(kind, _)| kind).collect();
        if !others.is_empty() {
            let kinds = std::iter::once(kind).chain(others).collect();
            return self.report(field, Problem::Ambiguous(kinds));
        }
        let rule = self.rule(kind, value, &join(field, kind), level)?;
        Some(Constraint { message, rule })
    }

    fn rule(&mut self, kind: &str, value: &Value, field: &str, level: usize) -> Option<Rule> {
        match kind {
            "gvk" => {
                let map = self.map(value, field, GVK)?;
                let [group, version, kind] =
                    ["group", "version", "kind"].map(|key| self.text(map, key, field));
                Some(Rule::Api(Gvk::new(group?, version?, kind?)))
            }
            "package" => {
                let map = self.map(value, field, PACKAGE)?;
                let name = self.text(map, "packageName", field);
                let text = self.text(map, "versionRange", field)?;
                match Range::parse(text) {
                    Ok(range) => Some(Rule::Package { name: name?.to_owned(), range }),
                    Err(error) => {
                        let range = text.to_owned();
                        self.report(&join(field, "versionRange"), Problem::Range { range, error })
                    }
                }
            }
            "cel" => {
                let map = self.map(value, field, CEL)?;
                let text = self.text(map, "rule", field)?;
                match Cel::compile(text) {
                    Ok(cel) => Some(Rule::Cel(cel)),
                    Err(error) => self.report(&join(field, "rule"), Problem::Cel(error)),
                }
            }
            "all" => self.several(value, field, level).map(Rule::All),
            "any" => self.several(value, field, level).map(Rule::Any),
            _ => self.several(value, field, level).map(Rule::Not),
        }
    }

    /// The constraints of an `all`, `any` or `not`.
    fn several(&mut self, value: &Value, field: &str, level: usize) -> Option<Vec<Constraint>> {
        let map = self.map(value, field, SEVERAL)?;
        let field = join(field, "constraints");
        let list = match map.get("constraints").and_then(Value::as_array) {
            Some(list) if !list.is_empty() => list,
            _ => return self.report(&field, Problem::NoConstraints),
        };
        let mut constraints = Vec::new();
        for (index, value) in list.iter().enumerate() {
            if self.problems.len() == MOST_PROBLEMS {
                return None;
            }
            constraints.extend(self.constraint(value, &format!("{field}[{index}]"), level + 1));
        }
        (constraints.len() == list.len()).then_some(constraints)
    }

    fn map<'v>(
        &mut self,
        value: &'v Value,
        field: &str,
        known: &'static [&'static str],
    ) -> Option<&'v Map<String, Value>> {
        let Some(map) = value.as_object() else {
            return self.report(field, Problem::NoMap(known));
        };
        for key in map.keys().filter(|key| !known.contains(&key.as_str())) {
            self.report::<()>(field, Problem::UnknownField { key: key.clone(), known });
        }
        Some(map)
    }

    fn text<'v>(&mut self, map: &'v Map<String, Value>, key: &str, field: &str) -> Option<&'v str> {
        match map.get(key).and_then(Value::as_str) {
            Some(text) if !text.is_empty() => Some(text),
            _ => self.report(&join(field, key), Problem::Missing),
        }
    }

    fn report<T>(&mut self, field: &str, problem: Problem) -> Option<T> {
        if self.problems.len() < MOST_PROBLEMS {
            self.problems.push(ConstraintError { field: field.to_owned(), problem });
        }
        None
    }
}

fn join(field: &str, key: &str) -> String {
    if field.is_empty() { key.to_owned() } else { format!("{field}.{key}") }
}

/// Cuts a text for a message.
fn cut(text: &str) -> &str {
    text.char_indices().nth(LONGEST_QUOTE).map_or(text, |(end, _)| &text[..end])
}

/// Whether the value has too many bytes, without serializing it.
fn is_larger(value: &Value) -> bool {
    struct SizeLimit(usize);
    impl io::Write for SizeLimit {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    serde_json::to_writer(SizeLimit(LARGEST), value).is_err()
}

#[cfg(test)]
mod tests;

//! Constraints, and whether a bundle satisfies them.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;

use olm_version::Range;

use crate::{Cel, Gvk, Subject};

/// A requirement on one bundle.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Constraint {
    pub rule: Rule,
    /// The author's message for an unsatisfied constraint (`failureMessage`).
    pub message: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The bundle provides this API.
    Api(Gvk),
    /// The bundle is of this package, in a version of this range.
    Package { name: String, range: Range },
    /// The bundle has this label.
    Label(String),
    /// The bundle meets each of these.
    All(Vec<Constraint>),
    /// The bundle meets one of these.
    Any(Vec<Constraint>),
    /// The bundle meets none of these.
    Not(Vec<Constraint>),
    /// The rule holds for the bundle's properties.
    Cel(Cel),
}

/// Index keys of candidates: every bundle that satisfies the constraint provides one of these APIs or is of
/// one of these packages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys<'a> {
    pub apis: BTreeSet<&'a Gvk>,
    pub packages: BTreeSet<&'a str>,
}

impl Constraint {
    #[must_use]
    pub fn api(gvk: Gvk) -> Self {
        Rule::Api(gvk).into()
    }

    #[must_use]
    pub fn package(name: impl Into<String>, range: Range) -> Self {
        Rule::Package { name: name.into(), range }.into()
    }

    #[must_use]
    pub fn label(text: impl Into<String>) -> Self {
        Rule::Label(text.into()).into()
    }

    /// Whether the bundle satisfies the constraint. A CEL rule that fails on the bundle, for example on a
    /// missing key, is not satisfied; inside a `not` this counts as such, as in OLM.
    #[must_use]
    pub fn met_by(&self, subject: &Subject<'_>) -> bool {
        match &self.rule {
            Rule::Api(gvk) => subject.provides.contains(gvk),
            Rule::Package { name, range } => {
                subject.package == Some(name.as_str()) && subject.version.is_some_and(|v| range.contains(v))
            }
            Rule::Label(label) => subject.labels.contains(label),
            Rule::All(inner) => inner.iter().all(|constraint| constraint.met_by(subject)),
            Rule::Any(inner) => inner.iter().any(|constraint| constraint.met_by(subject)),
            Rule::Not(inner) => !inner.iter().any(|constraint| constraint.met_by(subject)),
            Rule::Cel(cel) => cel.holds(subject.properties),
        }
    }

    /// Index keys of candidates; `None` when every bundle is a candidate.
    #[must_use]
    pub fn keys(&self) -> Option<Keys<'_>> {
        match &self.rule {
            Rule::Api(gvk) => Some(Keys { apis: [gvk].into(), ..Keys::default() }),
            Rule::Package { name, .. } => Some(Keys { packages: [name.as_str()].into(), ..Keys::default() }),
            Rule::All(inner) => union(inner.iter().filter_map(Constraint::keys)),
            Rule::Any(inner) => {
                let keys: Option<Vec<Keys<'_>>> = inner.iter().map(Constraint::keys).collect();
                union(keys?.into_iter())
            }
            Rule::Label(_) | Rule::Not(_) | Rule::Cel(_) => None,
        }
    }

    /// The APIs of [`Constraint::keys`].
    #[must_use]
    pub fn apis(&self) -> Option<BTreeSet<&Gvk>> {
        self.keys().map(|keys| keys.apis)
    }

    /// The packages of [`Constraint::keys`].
    #[must_use]
    pub fn packages(&self) -> Option<BTreeSet<&str>> {
        self.keys().map(|keys| keys.packages)
    }
}

fn union<'a>(keys: impl Iterator<Item = Keys<'a>>) -> Option<Keys<'a>> {
    keys.reduce(|mut all, keys| {
        all.apis.extend(keys.apis);
        all.packages.extend(keys.packages);
        all
    })
}

impl From<Rule> for Constraint {
    fn from(rule: Rule) -> Self {
        Self { message: None, rule }
    }
}

impl fmt::Display for Constraint {
    /// One line, without the failure message: `all of (package foo >=1.0.0, API Kind (group/version))`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rule.fmt(f)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Api(gvk) => write!(f, "API {gvk}"),
            Self::Package { name, range } => write!(f, "package {} {}", Line(name), Line(range.source())),
            Self::Label(label) => write!(f, "label {}", Line(label)),
            Self::All(inner) => write!(f, "all of ({})", List(inner)),
            Self::Any(inner) => write!(f, "any of ({})", List(inner)),
            Self::Not(inner) if inner.len() == 1 => write!(f, "not ({})", List(inner)),
            Self::Not(inner) => write!(f, "none of ({})", List(inner)),
            Self::Cel(cel) => write!(f, "cel: {}", Line(cel.rule())),
        }
    }
}

/// Comma-separated constraints.
struct List<'a>(&'a [Constraint]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, constraint) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            constraint.fmt(f)?;
        }
        Ok(())
    }
}

/// An author's text on one line: whitespace runs become one blank, control characters are removed.
struct Line<'a>(&'a str);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, word) in self.0.split_whitespace().enumerate() {
            if index > 0 {
                f.write_str(" ")?;
            }
            for c in word.chars().filter(|c| !c.is_control()) {
                fmt::Write::write_char(f, c)?;
            }
        }
        Ok(())
    }
}

impl Rule {
    /// Sort key of the kind of rule.
    fn rank(&self) -> u8 {
        match self {
            Self::Api(_) => 0,
            Self::Package { .. } => 1,
            Self::Label(_) => 2,
            Self::All(_) => 3,
            Self::Any(_) => 4,
            Self::Not(_) => 5,
            Self::Cel(_) => 6,
        }
    }
}

/// By kind of rule, then by content. Consistent with `==`; two different rules may have the same text.
impl Ord for Rule {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Api(a), Self::Api(b)) => a.cmp(b),
            (Self::Package { name, range }, Self::Package { name: other_name, range: other_range }) => {
                (name, range.source()).cmp(&(other_name, other_range.source()))
            }
            (Self::Label(a), Self::Label(b)) => a.cmp(b),
            (Self::All(a), Self::All(b)) | (Self::Any(a), Self::Any(b)) | (Self::Not(a), Self::Not(b)) => {
                a.cmp(b)
            }
            (Self::Cel(a), Self::Cel(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Rule {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests;

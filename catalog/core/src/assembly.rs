//! A package being assembled, with its problems so far.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::Package;
use crate::problem::{self, Place, Problem, Severity, UnplacedProblem};

/// A package being assembled.
pub(crate) struct Assembly {
    /// From the documents, whether the package exists or not.
    pub name: String,
    pub package: Option<Package>,
    pub problems: Vec<UnplacedProblem>,
    pub text: Arc<String>,
    /// Source documents of channels and bundles.
    pub places: BTreeMap<(&'static str, String), usize>,
    pub deprecated: bool,
    pub depth: Depth,
}

/// How thoroughly documents are processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Completely, for content that was checked before.
    Open,
    /// Completely, with checks.
    Check,
    /// Only checks; content without influence on them is skipped.
    Glance,
}

impl Assembly {
    pub fn checks(&self) -> bool {
        self.depth != Depth::Open
    }

    /// Reports a problem at the place of a package, channel or bundle.
    pub fn report(
        &mut self,
        subject: &Subject<'_>,
        severity: Severity,
        code: &'static str,
        text: String,
        fix: &'static str,
    ) {
        let document = self.places.get(&(subject.kind, subject.name.to_owned())).copied();
        self.report_in(subject, document, None, (severity, code, text, fix));
    }

    /// Reports a problem of a document; `other` is another affected document.
    pub fn report_in(
        &mut self,
        subject: &Subject<'_>,
        document: Option<usize>,
        other: Option<usize>,
        (severity, code, text, fix): (Severity, &'static str, String, &'static str),
    ) {
        let mut problem = Problem::new(severity, Place::default(), code, text, fix);
        problem.package = problem::shown_name(&self.name);
        let name = problem::shown_name(subject.name);
        match subject.kind {
            CHANNEL => problem.channel = name,
            BUNDLE => problem.entry = name,
            _ => {}
        }
        if subject.entry.is_some() {
            problem.entry = subject.entry.and_then(problem::shown_name);
        }
        problem.field = subject.field.map(str::to_owned);
        UnplacedProblem { document, other, problem }.list(&mut self.problems);
    }
}

/// The subject of a problem.
pub(crate) struct Subject<'a> {
    pub kind: &'static str,
    pub name: &'a str,
    /// An entry of a channel.
    pub entry: Option<&'a str>,
    pub field: Option<&'a str>,
}

impl<'a> Subject<'a> {
    pub fn new(kind: &'static str, name: &'a str) -> Self {
        Self { kind, name, entry: None, field: None }
    }
}

pub(crate) const PACKAGE: &str = "package";
pub(crate) const CHANNEL: &str = "channel";
pub(crate) const BUNDLE: &str = "bundle";

//! Validation of a bundle.
//!
//! The codes are stable: scripts and the documentation refer to them. The default suite has the checks of
//! `opm alpha bundle validate` and of the default validators of upstream's library, and additional ones;
//! further [`Suite`]s are selected by upstream's names.

mod annotations;
mod categories;
mod community;
mod conditions;
mod constraint;
mod crds;
mod csv;
mod examples;
mod finding;
mod hub;
mod icon;
mod images;
mod install;
mod metadata;
mod objects;
mod package_manifest;
mod practices;
mod removed_apis;
mod shapes;
mod size;
mod stability;
mod suite;

use std::borrow::Cow;
use std::path::Path;

use crate::error::BundleError;
pub use crate::finding::{Finding, Severity};
use crate::load::{self, Loaded};
use crate::model::Bundle;

pub(crate) use finding::{Findings, note, repeated_keys};
pub use icon::{ImageKind, sniff};
pub use images::reference as image_reference;
pub use package_manifest::check_package_manifest;
pub use suite::{Options, Suite, SuiteError};

impl Bundle {
    /// All findings of the default suite, errors first.
    #[must_use]
    pub fn validate(&self) -> Vec<Finding> {
        self.validate_with(&Options::default())
    }

    /// [`Bundle::validate`] with further suites.
    #[must_use]
    pub fn validate_with(&self, options: &Options) -> Vec<Finding> {
        let mut findings = Findings::default();
        csv::check(self, &mut findings);
        install::check(self, &mut findings);
        conditions::check(self, &mut findings);
        crds::check(self, &mut findings);
        examples::check(self, &mut findings);
        icon::check(self, &mut findings);
        images::check(self, &mut findings);
        objects::check(self, &mut findings);
        shapes::check(self, &mut findings);
        annotations::check(self, &mut findings);
        metadata::check(self, &mut findings);
        size::check(self, &mut findings);
        for suite in &options.suites {
            run(*suite, self, options, &mut findings);
        }
        findings.finish(self)
    }
}

fn run(suite: Suite, bundle: &Bundle, options: &Options, findings: &mut Findings) {
    match suite {
        Suite::OperatorHubV2 => hub::check(bundle, options, findings),
        Suite::OperatorHub => {
            if !options.suites.contains(&Suite::OperatorHubV2) {
                hub::check(bundle, options, findings);
            }
            if !options.suites.contains(&Suite::Capabilities) {
                categories::check_capabilities(bundle, findings);
            }
            if !options.suites.contains(&Suite::Categories) {
                categories::check(bundle, options, findings);
            }
        }
        Suite::Capabilities => categories::check_capabilities(bundle, findings),
        Suite::Categories => categories::check(bundle, options, findings),
        Suite::GoodPractices => practices::check(bundle, findings),
        Suite::AlphaDeprecatedApis => {
            // The hub's suites check them as well.
            if !options.suites.iter().any(|suite| matches!(suite, Suite::OperatorHub | Suite::OperatorHubV2))
            {
                removed_apis::check(bundle, options, findings);
            }
        }
        Suite::Objects => stability::check(bundle, findings),
        Suite::OperatorGroup => annotations::check_operator_groups(bundle, findings),
        Suite::Community => community::check(bundle, findings),
    }
}

/// A bundle as far as it is readable, and all findings.
#[derive(Debug)]
pub struct Checked {
    /// `None` without a ClusterServiceVersion. It may lack parts that findings name.
    pub bundle: Option<Bundle>,
    /// All findings, errors first.
    pub findings: Vec<Finding>,
}

impl Checked {
    /// Whether it has no errors.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity != Severity::Error)
    }
}

/// Reads and validates a directory. An unreadable part is a finding; the rest is still checked.
#[must_use]
pub fn check_dir(dir: &Path, options: &Options) -> Checked {
    checked(load::read_dir(dir), options)
}

/// Reads and validates files in memory, as [`Bundle::from_files`] reads them.
#[must_use]
pub fn check_files<'a, P, C>(
    origin: &str,
    files: impl IntoIterator<Item = (P, C)>,
    options: &Options,
) -> Checked
where
    P: Into<String>,
    C: Into<Cow<'a, [u8]>>,
{
    checked(load::read_files(origin, files), options)
}

fn checked(loaded: Loaded, options: &Options) -> Checked {
    let Loaded { bundle, problems } = loaded;
    let mut findings: Vec<Finding> = problems.iter().map(finding_of).collect();
    findings.extend(bundle.iter().flat_map(|bundle| bundle.validate_with(options)));
    findings.sort_by_key(|finding| finding.severity);
    Checked { bundle, findings }
}

fn finding_of(problem: &BundleError) -> Finding {
    let place = problem.place();
    let (object, field, text) = match problem {
        BundleError::Read { source, .. } => (String::new(), String::new(), source.to_string()),
        BundleError::Syntax { message, .. }
        | BundleError::Shape { message, .. }
        | BundleError::Metadata { message, .. } => (String::new(), String::new(), message.clone()),
        BundleError::Csv { name, field, message, .. } => {
            (format!("ClusterServiceVersion {name}"), field.clone(), message.clone())
        }
        BundleError::Layout { .. } | BundleError::CsvCount { .. } => {
            (String::new(), String::new(), problem.to_string())
        }
    };
    let fix = match problem {
        BundleError::Read { .. } => "make it a readable file of the bundle, or remove it",
        BundleError::Layout { .. } => "see `olm bundle --help` for the layout of a bundle",
        BundleError::Syntax { .. } => "correct the YAML",
        BundleError::Shape { .. } => "correct or remove the document",
        BundleError::Metadata { .. } => "correct it; see the documentation of bundles",
        BundleError::CsvCount { .. } => "keep one ClusterServiceVersion in manifests/",
        BundleError::Csv { .. } => "correct the field",
    };
    let (code, fix) = (problem.code(), fix.to_owned());
    Finding { code, severity: Severity::Error, place, object, field, text, fix }
}

#[cfg(test)]
mod tests;

//! Diagnosis of a cluster.
//!
//! [`facts`] reads the cluster (and lists what it may not read), the checks are pure functions of the facts,
//! and [`safe_fix`] applies fixes that are safe without confirmation: it deletes orphaned objects.

mod authors;
mod catalogs;
pub(crate) mod crds;
mod facts;
mod installation;
mod leftovers;
mod objects;
mod operands;
mod operators;
mod pods;
mod problem;
mod safe_fix;
mod serving;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use kube::Client;
use serde::Serialize;

use facts::{Facts, NoAccess};

pub use installation::{CREDENTIALS_REFUSED, LOG_IN};
pub use problem::{CODES, Code, Problem, Severity};
pub use safe_fix::{SafeFix, apply_fix};

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Version of Kubernetes; absent when the API server does not answer, or the caller may not read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<String>,
    pub program: String,
    /// Version of the manager on the cluster, from its Deployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manager: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Whether the caller may read the manager: without that right, `manager` and `namespace` are absent.
    pub manager_checked: bool,
    /// Number of objects that were read.
    pub objects: usize,
    /// The problems, worst first.
    #[serde(rename = "ailments")]
    pub problems: Vec<Problem>,
}

impl Report {
    /// Whether there is an error.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.problems.iter().any(|a| a.severity == Severity::Error)
    }

    /// Number of checks that were not possible, each with a [`Code::NotChecked`].
    #[must_use]
    pub fn unchecked(&self) -> usize {
        self.problems.iter().filter(|a| a.code == Code::NotChecked).count()
    }

    /// Whether the API server did not answer, or refused the credentials: then all other facts are unknown.
    #[must_use]
    pub fn has_no_access(&self) -> bool {
        self.problems.iter().any(|a| matches!(a.code, Code::ApiUnreachable | Code::CredentialsRefused))
    }
}

/// Examines a cluster, or the operators of one namespace. Read-only.
///
/// What is unreadable is not an error: the report lists it.
pub async fn examine(client: &Client, namespace: Option<&str>) -> Report {
    report(&Facts::read(client, namespace).await, Timestamp::now())
}

/// The report is a pure function of the facts and the time.
fn report(facts: &Facts, now: Timestamp) -> Report {
    let mut problems = match &facts.no_access {
        Some(NoAccess::Unreachable(why)) => vec![installation::unreachable(why)],
        Some(NoAccess::CredentialsRefused) => vec![installation::credentials_refused()],
        None => {
            let mut all = installation::check(facts, now);
            all.extend(crds::check(facts));
            all.extend(objects::check(&facts.installation));
            all.extend(catalogs::check(facts, now));
            all.extend(operators::check(facts, now));
            all.extend(authors::check(facts));
            all.extend(pods::check(&facts.unavailable));
            all.extend(operands::check(&facts.operands, now));
            all.extend(serving::check(facts));
            all.extend(leftovers::check(facts));
            all.extend(facts.not_seen.iter().map(|why| Problem::new(Code::NotChecked, None, why.clone())));
            all
        }
    };
    problems.sort_by(|a, b| (a.severity, a.code, &a.object).cmp(&(b.severity, b.code, &b.object)));
    Report {
        kubernetes: facts.kubernetes.clone(),
        program: env!("CARGO_PKG_VERSION").to_owned(),
        manager: facts.manager.as_ref().and_then(|m| m.version.clone()),
        namespace: facts.manager.as_ref().map(|m| m.namespace.clone()),
        manager_checked: facts.no_access.is_none() && (facts.manager.is_some() || !facts.manager_unseen),
        objects: facts.count(),
        problems,
    }
}

//! Whether a cluster is well, as far as `olm` has to do with it.
//!
//! [`facts`] looks (and says what it may not look at), the checks are pure functions of what was seen, [`cure`](mod@cure) does what is safe
//! to do without asking anybody: it removes what nothing answers for any more.

mod ailment;
mod authors;
mod catalogs;
mod crds;
mod cure;
mod facts;
mod installation;
mod leftovers;
mod objects;
mod operands;
mod operators;
mod pods;
mod serving;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use kube::Client;
use serde::Serialize;

use facts::Facts;

pub use ailment::{Ailment, CODES, Code, Cure, Severity};
pub use cure::cure;

/// What was found.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Version of Kubernetes; absent when the API server does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<String>,
    /// Version of this program.
    pub program: String,
    /// Version of the manager on the cluster, as its Deployment says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manager: Option<String>,
    /// Namespace of the manager.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Whether the caller may see the manager: without the right to, `manager` and `namespace` are absent.
    pub manager_checked: bool,
    /// How many objects were looked at.
    pub objects: usize,
    /// What is not as it should be, worst first.
    pub ailments: Vec<Ailment>,
}

impl Report {
    /// Whether something does not work.
    #[must_use]
    pub fn is_ill(&self) -> bool {
        self.ailments.iter().any(|a| a.severity == Severity::Error)
    }

    /// How many checks could not be made, each with a [`Code::NotChecked`].
    #[must_use]
    pub fn unchecked(&self) -> usize {
        self.ailments.iter().filter(|a| a.code == Code::NotChecked).count()
    }

    /// Whether the API server did not answer: then nothing else is known.
    #[must_use]
    pub fn is_blind(&self) -> bool {
        self.ailments.iter().any(|a| a.code == Code::ApiUnreachable)
    }
}

/// Looks at a cluster; at operators of one namespace alone when one is given. It changes nothing.
///
/// What cannot be looked at is no error: it is said in the report.
pub async fn examine(client: &Client, namespace: Option<&str>) -> Report {
    report(&Facts::read(client, namespace).await, Timestamp::now())
}

/// The report is a pure function of what was seen, and of the time.
fn report(facts: &Facts, now: Timestamp) -> Report {
    let mut ailments = match &facts.unreachable {
        Some(why) => vec![installation::unreachable(why)],
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
            all.extend(facts.not_seen.iter().map(|why| Ailment::new(Code::NotChecked, None, why.clone())));
            all
        }
    };
    ailments.sort_by(|a, b| (a.severity, a.code, &a.object).cmp(&(b.severity, b.code, &b.object)));
    Report {
        kubernetes: facts.kubernetes.clone(),
        program: env!("CARGO_PKG_VERSION").to_owned(),
        manager: facts.manager.as_ref().and_then(|m| m.version.clone()),
        namespace: facts.manager.as_ref().map(|m| m.namespace.clone()),
        manager_checked: facts.unreachable.is_none() && (facts.manager.is_some() || !facts.manager_unseen),
        objects: facts.count(),
        ailments,
    }
}

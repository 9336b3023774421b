//! What the step from one definition to the next does to those who use it.
//!
//! [`compare`] looks at the two definitions alone; [`crate::live`] looks at the objects that exist. A change that accepts
//! more than before is not reported, except where somebody would want to know ([`Severity::Safe`]).
//!
//! The rules are those of the upgrade check of OLM v1 and of OLM v0's installer, and what both miss. Upstream refuses
//! every difference that it has no rule for; here each keyword of a structural schema has its rule, so that nothing is
//! left over.

mod code;
mod collect;
mod schema;
mod structure;
mod whole;

use serde::Serialize;
use serde_json::Value;

pub use self::code::ChangeCode;
use self::collect::Collector;
use crate::view::View;

/// How much a change can hurt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// There can be objects that were valid and are refused, data that is lost, or requests that worked and fail.
    Breaking,
    /// Whether it hurts cannot be told from the definitions: it depends on the objects and on who uses them.
    Careful,
    /// Worth knowing; nothing that worked stops working.
    Safe,
}

impl Severity {
    /// As it is written in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Breaking => "breaking",
            Self::Careful => "careful",
            Self::Safe => "safe",
        }
    }
}

/// One change that somebody may notice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// Which rule found it.
    pub code: ChangeCode,
    /// How much it can hurt.
    pub severity: Severity,
    /// The version whose schema changed; `v1 -> v2` where the two differ and objects of one can be read as the other;
    /// `None` for the definition as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The field of the objects, such as `.spec.members[].name` or `.spec.labels.*`, empty for the whole object; without
    /// `version`, the field of the definition, such as `.spec.scope`.
    pub path: String,
    /// What it means, in a sentence without a full stop.
    pub text: String,
    /// What was there; cut where it is long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// What comes; cut where it is long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// What changes from `live`, the definition in the cluster, to `new`: the worst first, then by version and path.
///
/// Both may be of apiextensions.k8s.io/v1 or v1beta1. A definition that cannot be read is a finding
/// ([`ChangeCode::Unreadable`]), never silence.
#[must_use]
pub fn compare(live: &Value, new: &Value) -> Vec<Change> {
    let mut out = Collector::default();
    let mut read = |crd, which: &str| {
        View::of(crd)
            .map_err(|why| {
                let text = format!("the {which} definition cannot be compared: {why}");
                out.add(ChangeCode::Unreadable, Severity::Breaking, "", text);
            })
            .ok()
    };
    if let (Some(live), Some(new)) = (read(live, "live"), read(new, "new")) {
        whole::compare(&live, &new, &mut out);
        schema::compare(&live, &new, &mut out);
    }
    out.finish()
}

#[cfg(test)]
mod tests;

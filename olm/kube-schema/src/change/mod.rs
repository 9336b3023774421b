//! The effects of a definition's change on its objects and clients.
//!
//! [`compare`] compares only the two definitions; [`crate::live`] checks the existing objects. A change that
//! accepts more than before is not reported, except where it is useful ([`Severity::Safe`]).
//!
//! The rules are those of the upgrade check of OLM v1 and of OLM v0's installer, and further ones for cases
//! that both miss. Upstream refuses every difference that it has no rule for; here each keyword of a
//! structural schema has its rule, so that every difference is covered.

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

/// Impact of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Valid objects may be refused, data may be lost, or working requests may fail.
    Breaking,
    /// The definitions do not decide the impact: it depends on the objects and the clients.
    Careful,
    /// For information; nothing that worked stops working.
    Safe,
}

impl Severity {
    /// The name in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Breaking => "breaking",
            Self::Careful => "careful",
            Self::Safe => "safe",
        }
    }
}

/// One change with an effect on objects or clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// The rule that found it.
    pub code: ChangeCode,
    pub severity: Severity,
    /// The version whose schema changed; `v1 -> v2` where the two differ and objects of one can be read as
    /// the other; `None` for the definition as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The field of the objects, such as `.spec.members[].name` or `.spec.labels.*`, empty for the whole
    /// object; without `version`, the field of the definition, such as `.spec.scope`.
    pub path: String,
    /// The effect, in a sentence without a full stop.
    pub text: String,
    /// The old value; cut when it is long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The new value; cut when it is long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// The changes from `live`, the definition in the cluster, to `new`: the worst first, then by version and
/// path.
///
/// Both may be of apiextensions.k8s.io/v1 or v1beta1. An unreadable definition is a finding
/// ([`ChangeCode::Unreadable`]).
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

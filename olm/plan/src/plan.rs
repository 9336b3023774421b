//! The plan and its JSON.

use std::collections::BTreeMap;

use olm_bundle::Phase;
use olm_resolver::Code;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::finding::{Finding, Severity};
use crate::input::Operand;
use crate::object::ObjectRef;

/// What a change will do to the cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Always `plan.olm/v1`.
    pub api_version: String,
    /// Digest over what will be applied: `sha256:...`. Independent of order and time.
    pub digest: String,
    /// Digest of the catalog that the bundle comes from.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub catalog_digest: Option<String>,
    /// What the change is.
    pub action: PlanAction,
    /// Namespace of the operator.
    pub namespace: String,
    /// Name of the Subscription.
    pub subscription: String,
    /// The package.
    pub package: String,
    /// The channel.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub channel: Option<String>,
    /// Name of the bundle (ClusterServiceVersion) that is installed or removed.
    pub bundle: String,
    /// The version that is there.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub from: Option<String>,
    /// The version that will be there.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub to: Option<String>,
    /// The versions on the way to the newest that can be reached; the first one is `to`.
    pub path: Vec<String>,
    /// Why this version.
    pub why: Why,
    /// What it needs, and where that comes from.
    pub dependencies: Vec<DependencyView>,
    /// What happens to which object, in the order of the phases; deletions last.
    pub objects: Vec<PlannedObject>,
    /// What the change lets the operator do that it could not do before, and the other way round.
    pub permissions: PermissionDelta,
    /// What the preflight has to say.
    pub findings: Vec<Finding>,
    /// Whether somebody must approve it.
    pub requires_approval: bool,
    /// Whether there is a way back.
    pub reversible: Reversible,
    /// Custom resources of the operator, for an uninstall.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub operands: Vec<Operand>,
    /// The manifests to apply, by reference. Not part of the JSON: they may hold secrets.
    #[serde(skip)]
    pub(crate) manifests: BTreeMap<ObjectRef, Value>,
}

/// What a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlanAction {
    /// Nothing was installed.
    Install,
    /// To a newer version.
    Upgrade,
    /// To an older version.
    Rollback,
    /// Away.
    Uninstall,
    /// The same version again.
    None,
}

impl PlanAction {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::Upgrade => "upgrade",
            Self::Rollback => "rollback",
            Self::Uninstall => "uninstall",
            Self::None => "none",
        }
    }
}

/// Why a version was chosen.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Why {
    /// The version.
    pub chosen: String,
    /// Why, in a sentence.
    pub text: String,
    /// Versions that were not chosen.
    pub rejected: Vec<RejectedView>,
}

/// A version that was not chosen.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RejectedView {
    /// The version, or the name of a bundle that has none.
    pub version: String,
    /// Why not.
    pub code: Code,
    /// Why not, in words.
    pub text: String,
    /// The command that would change it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fix: Option<String>,
}

/// Something that is needed, and where it comes from.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DependencyView {
    /// What is needed.
    pub need: String,
    /// The bundle that needs it.
    pub required_by: String,
    /// Where it comes from, in words.
    pub satisfied_by: String,
    /// The bundle that is installed for it (`catalog namespace/name`, package, bundle), if any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub install: Option<olm_resolver::ChosenBundle>,
}

/// What happens to one object.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedObject {
    /// `Kind.version.group`, or `Kind.version` for the core group.
    pub gvk: String,
    /// Namespace, where it has one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ns: Option<String>,
    /// Name.
    pub name: String,
    /// What happens.
    pub op: Op,
    /// The phase it happens in; deletions have none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub phase: Option<Phase>,
    /// Fields that change, of those that we set.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub diff: Vec<FieldDiff>,
    /// Whether values were left out of the diff because they are secret.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub masked: bool,
    /// A remark, such as who owns an object that is adopted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub note: Option<String>,
    /// The reference.
    #[serde(skip)]
    pub reference: ObjectRef,
}

/// What happens to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// It is made.
    Create,
    /// Fields of it change.
    Update,
    /// It is there without an owner, and becomes ours.
    Adopt,
    /// It is deleted.
    Delete,
    /// It is left alone on purpose.
    Noop,
    /// It is already as it should be.
    Unchanged,
}

impl Op {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Adopt => "adopt",
            Self::Delete => "delete",
            Self::Noop => "noop",
            Self::Unchanged => "unchanged",
        }
    }
}

/// One field that changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldDiff {
    /// JSON pointer.
    pub path: String,
    /// The value that is there; absent when there is none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub live: Option<Value>,
    /// The value that will be there; absent when there will be none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub new: Option<Value>,
}

/// How the rights of the operator change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionDelta {
    /// Rights that are new.
    pub added: Vec<PermissionRule>,
    /// Rights that go.
    pub removed: Vec<PermissionRule>,
    /// Number of all rules of the new version by level.
    pub summary: BTreeMap<Level, usize>,
}

/// One right.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionRule {
    /// The right in words, such as `patch nodes`.
    pub rule: String,
    /// How much harm it can do.
    pub level: Level,
    /// Why it has that level.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// `cluster`, or the namespace.
    pub scope: String,
}

/// How much harm a right can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Level {
    /// It amounts to the whole cluster, or close to it.
    High,
    /// It reaches into other workloads.
    Med,
    /// The rest.
    Low,
}

/// Whether there is a way back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reversible {
    /// Whether there is.
    pub possible: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
}

/// The manifests of one phase, to be applied together.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseObjects {
    /// The phase.
    pub phase: Phase,
    /// The manifests with what happens to them.
    pub objects: Vec<(Op, ObjectRef, Value)>,
}

impl Plan {
    /// The manifests to apply, phase by phase: exactly those that [`Plan::objects`] shows. Objects that are already as
    /// they should be are among them, so that applying says who owns which field.
    pub fn phases(&self) -> Vec<PhaseObjects> {
        let mut phases: Vec<PhaseObjects> = Vec::new();
        for object in &self.objects {
            let Some(phase) = object.phase else { continue };
            let Some(manifest) = self.manifests.get(&object.reference) else { continue };
            let item = (object.op, object.reference.clone(), manifest.clone());
            match phases.iter_mut().find(|p| p.phase == phase) {
                Some(found) => found.objects.push(item),
                None => phases.push(PhaseObjects { phase, objects: vec![item] }),
            }
        }
        phases.sort_by_key(|p| p.phase);
        phases
    }

    /// The objects to delete, in order.
    pub fn deletions(&self) -> Vec<ObjectRef> {
        self.objects.iter().filter(|o| o.op == Op::Delete).map(|o| o.reference.clone()).collect()
    }

    /// Whether a finding stands in the way.
    pub fn is_blocked(&self) -> bool {
        self.findings.iter().any(|f| f.severity == Severity::Block)
    }

    /// How many objects are made, changed (adopted ones included) and deleted.
    pub fn counts(&self) -> (usize, usize, usize) {
        let count = |ops: &[Op]| self.objects.iter().filter(|o| ops.contains(&o.op)).count();
        (count(&[Op::Create]), count(&[Op::Update, Op::Adopt]), count(&[Op::Delete]))
    }

    /// The first part of the digest, fit for a name.
    pub fn short_digest(&self) -> &str {
        let hex = self.digest.strip_prefix("sha256:").unwrap_or(&self.digest);
        hex.get(..12).unwrap_or(hex)
    }
}

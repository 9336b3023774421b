//! The compact representation of objects in memory.
//!
//! Ten thousand versions of operators have as many specs, metadata and statuses. Equal specs are stored once;
//! the rest is compressed text. A read returns the whole object.

use std::fmt::Debug;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Resource, core::PartialObjectMeta};
use olm_api::{
    CatalogSource, ClusterServiceVersion, ClusterServiceVersionSpec, InstallPlan, InstallPlanSpec,
    InstallPolicy, OLMConfig, OperatorCondition, OperatorConditionSpec, OperatorGroup, Subscription,
    SubscriptionSpec, condition, csv::CsvPhase, install_plan::InstallPlanPhase,
};
use serde::{Serialize, de::DeserializeOwned};

/// Objects of a [`KindCache`](super::KindCache).
pub(crate) trait Cached:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
    /// The part that many objects share.
    type Spec: Clone + PartialEq + Send + Sync + 'static;
    /// Fields that are read of all objects at a time, so that none is decompressed for it.
    type Brief: Send + Sync + 'static;

    /// Splits an object into its shared part, with a key that is equal for equal parts, and a text of the
    /// rest. `None` for kinds that are stored as they are.
    fn apart(&self) -> Option<Parts<'_, Self::Spec>>;

    /// Rebuilds an object from its parts.
    fn together(spec: &Self::Spec, rest: &[u8]) -> Option<Self>;

    fn brief(&self) -> Self::Brief;

    /// The namespace that reconciliations of this object read. At the start of the manager all objects are
    /// reconciled in this order, so that the controllers read the same namespaces at about the same time.
    fn sort_key<'a>(namespace: &'a str, _name: &'a str) -> &'a str {
        namespace
    }
}

/// A split object.
pub(crate) struct Parts<'a, S> {
    /// Equal for equal specs.
    pub(crate) key: Vec<u8>,
    pub(crate) spec: &'a S,
    pub(crate) rest: Vec<u8>,
}

/// Kinds with few objects, or whose objects are all read often: stored as they are.
macro_rules! cached_whole {
    ($($kind:ty),*) => {$(
        impl Cached for $kind {
            type Spec = ();
            type Brief = ();

            fn apart(&self) -> Option<Parts<'_, ()>> {
                None
            }

            fn together((): &(), _: &[u8]) -> Option<Self> {
                None
            }

            fn brief(&self) {}
        }
    )*};
}

cached_whole!(OperatorGroup, PartialObjectMeta<Namespace>, CatalogSource, OLMConfig, InstallPolicy);

/// Kinds with metadata, a spec and a status.
macro_rules! cached_in_parts {
    ($kind:ident, $spec:ty, $key:expr, $brief:ty, $brief_of:expr) => {
        impl Cached for $kind {
            type Spec = $spec;
            type Brief = $brief;

            fn apart(&self) -> Option<Parts<'_, $spec>> {
                let key: fn(&$spec) -> Option<Vec<u8>> = $key;
                Some(Parts {
                    key: key(&self.spec)?,
                    spec: &self.spec,
                    rest: text(&(&self.metadata, &self.status))?,
                })
            }

            fn together(spec: &$spec, rest: &[u8]) -> Option<Self> {
                let (metadata, status) = serde_json::from_slice(rest).ok()?;
                Some(Self { metadata, spec: spec.clone(), status })
            }

            fn brief(&self) -> $brief {
                let brief: fn(&$kind) -> $brief = $brief_of;
                brief(self)
            }
        }
    };
}

cached_in_parts!(Subscription, SubscriptionSpec, |spec| text(spec), SubscriptionBrief, SubscriptionBrief::of);
cached_in_parts!(InstallPlan, InstallPlanSpec, |spec| text(spec), InstallPlanPhase, InstallPlan::phase);
cached_in_parts!(OperatorCondition, OperatorConditionSpec, |spec| text(spec), (), |_| ());
cached_in_parts!(
    ClusterServiceVersion,
    ClusterServiceVersionSpec,
    // The separated annotations are not part of the text of the spec.
    |spec| text(&(spec, &spec.shared_annotations)),
    CsvBrief,
    CsvBrief::of
);

pub(crate) fn text<T: Serialize>(value: &T) -> Option<Vec<u8>> {
    serde_json::to_vec(value).ok()
}

/// The state of a Subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SubscriptionBrief {
    /// Problem conditions that are true, with their reasons.
    pub(crate) problems: Box<[(&'static str, Box<str>)]>,
    /// The installed version, and its replacement.
    pub(crate) upgrade: Option<Box<(String, String)>>,
}

impl SubscriptionBrief {
    fn of(subscription: &Subscription) -> Self {
        let status = subscription.status.as_ref();
        let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
        let problems = crate::metrics::PROBLEM_CONDITIONS.iter().filter_map(|type_| {
            let found = condition::find(conditions, type_).filter(|found| found.is_true())?;
            Some((*type_, found.reason.as_deref().unwrap_or_default().into()))
        });
        let versions = status.and_then(|s| s.installed_csv.clone().zip(s.current_csv.clone()));
        let upgrade = versions.filter(|(installed, wanted)| installed != wanted).map(Box::new);
        Self { problems: problems.collect(), upgrade }
    }
}

/// The state of a version of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CsvBrief {
    pub(crate) version: Box<str>,
    pub(crate) phase: CsvPhase,
    /// Why it does not run.
    pub(crate) reason: Option<Box<str>>,
}

impl CsvBrief {
    fn of(csv: &ClusterServiceVersion) -> Self {
        let status = csv.status.as_ref();
        let phase = status.map(|status| status.phase).unwrap_or_default();
        let reason = status.and_then(|status| status.reason.as_deref());
        Self {
            version: csv.spec.version.as_deref().unwrap_or_default().into(),
            phase,
            reason: reason.filter(|_| phase != CsvPhase::Succeeded).map(Into::into),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    #[test]
    fn how_a_subscription_stands_is_known_without_opening_it() {
        let subscription: Subscription = serde_json::from_value(json!({
            "metadata": { "name": "a" }, "spec": { "name": "a", "source": "c", "sourceNamespace": "olm" },
            "status": {
                "state": "UpgradePending", "installedCSV": "a.v1", "currentCSV": "a.v2",
                "conditions": [
                    { "type": "ResolutionFailed", "status": "True", "reason": "no" },
                    { "type": "CatalogSourcesUnhealthy", "status": "False" },
                    { "type": "Ready", "status": "True" },
                ],
            },
        }))
        .unwrap();
        let brief = subscription.brief();
        assert_eq!(*brief.problems, [("ResolutionFailed", "no".into())]);
        assert_eq!(brief.upgrade.as_deref(), Some(&("a.v1".to_owned(), "a.v2".to_owned())));
    }

    #[test]
    fn versions_with_different_shared_annotations_are_distinct_and_complete() {
        let csv = |examples: &str, reason: &str| -> ClusterServiceVersion {
            let mut csv = serde_json::from_value(json!({
                "metadata": { "name": "a.v1", "annotations": { "alm-examples": examples } },
                "spec": { "version": "1.0.0", "install": { "strategy": "deployment", "spec": {} } },
                "status": { "phase": "Failed", "reason": reason, "appliedDeployments": [{ "uid": "u", "generation": 3 }] },
            }))
            .unwrap();
            super::super::trim::csv(&mut csv);
            csv
        };
        let (one, other) = (csv("[1]", "a"), csv("[2]", "a"));
        let (parts, others) = (one.apart().unwrap(), other.apart().unwrap());
        assert_ne!(parts.key, others.key);
        assert_eq!(csv("[1]", "b").apart().unwrap().key, parts.key);
        let opened = ClusterServiceVersion::together(parts.spec, &parts.rest).unwrap();
        assert_eq!(opened, one);
        assert!(Arc::ptr_eq(opened.spec.install.arc(), parts.spec.install.arc()));
        let brief = CsvBrief { version: "1.0.0".into(), phase: CsvPhase::Failed, reason: Some("a".into()) };
        assert_eq!(one.brief(), brief);
    }
}

//! An Operator as it is kept in memory: a digest of its status instead of the status.

use std::{
    borrow::Cow,
    hash::{DefaultHasher, Hash, Hasher},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use olm_api::{Operator, operator::RichReference};
use serde::{Deserialize, Deserializer};

use crate::cache::{Cached, Parts, text};

/// Kinds of components in the cache: each change of one wakes the Operator.
const COMPARED: [&str; 5] =
    ["ClusterServiceVersion", "Subscription", "Namespace", "InstallPlan", "OperatorCondition"];

#[derive(Debug, Clone)]
pub(super) struct Summary {
    pub(super) metadata: ObjectMeta,
    /// Of the components in the status.
    pub(super) digest: u64,
}

impl Summary {
    /// The namespace of the operator, as a lookup key.
    pub(super) fn keys(&self) -> Vec<String> {
        let name = self.metadata.name.as_deref().unwrap_or_default();
        name.rsplit_once('.').map(|(_, namespace)| namespace.to_owned()).into_iter().collect()
    }
}

impl<'de> Deserialize<'de> for Summary {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Operator { metadata, status, .. } = Operator::deserialize(deserializer)?;
        let refs = status.and_then(|status| status.components).map(|components| components.refs);
        Ok(Self { metadata, digest: digest(&refs.unwrap_or_default()) })
    }
}

impl Resource for Summary {
    type DynamicType = ();
    type Scope = <Operator as Resource>::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        Operator::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        Operator::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        Operator::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        Operator::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl Cached for Summary {
    type Spec = ();
    type Brief = ();

    fn apart(&self) -> Option<Parts<'_, ()>> {
        Some(Parts { key: Vec::new(), spec: &(), rest: text(&(&self.metadata, self.digest))? })
    }

    fn together((): &(), rest: &[u8]) -> Option<Self> {
        let (metadata, digest) = serde_json::from_slice(rest).ok()?;
        Some(Self { metadata, digest })
    }

    fn brief(&self) {}

    /// The namespace of the operator: the name ends with it.
    fn sort_key<'a>(_: &'a str, name: &'a str) -> &'a str {
        name.rsplit_once('.').map_or(name, |(_, namespace)| namespace)
    }
}

/// Whether a component is of a compared kind.
pub(super) fn is_compared(reference: &RichReference) -> bool {
    reference.kind.as_deref().is_some_and(|kind| COMPARED.contains(&kind))
}

/// Equal for equal components of the compared kinds, in any order. Pure.
pub(super) fn digest(refs: &[RichReference]) -> u64 {
    let mut compared: Vec<_> = refs
        .iter()
        .filter(|r| is_compared(r))
        .map(|r| {
            let conditions = r.conditions.iter().map(|c| {
                let since = c.last_transition_time.as_ref().map(|time| time.0);
                (c.type_.as_str(), c.reason.as_deref(), c.message.as_deref(), since)
            });
            (r.kind.as_deref(), r.namespace.as_deref(), r.name.as_deref(), conditions.collect::<Vec<_>>())
        })
        .collect();
    compared.sort();
    let mut hasher = DefaultHasher::new();
    compared.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use olm_api::Condition;

    use super::*;

    fn reference(kind: &str, name: &str) -> RichReference {
        RichReference { kind: Some(kind.into()), name: Some(name.into()), ..RichReference::default() }
    }

    #[test]
    fn operators_are_sorted_by_their_namespace() {
        let mut names = ["etcd.b", "vault.a", "etcd.a", "cert.manager.b"];
        names.sort_by_key(|name| Summary::sort_key("", name));
        assert_eq!(names, ["vault.a", "etcd.a", "etcd.b", "cert.manager.b"]);
    }

    #[test]
    fn what_is_compared_is_what_the_controllers_know() {
        let version = |reason: &str| RichReference {
            conditions: vec![Condition::new("Succeeded", true, reason, "")],
            ..reference("ClusterServiceVersion", "a.v1")
        };
        let once = digest(&[version("x"), reference("Subscription", "a"), reference("Role", "r")]);
        assert_eq!(once, digest(&[reference("Subscription", "a"), version("x")]));
        assert_ne!(once, digest(&[version("y"), reference("Subscription", "a")]));
        for kind in ["Namespace", "InstallPlan", "OperatorCondition"] {
            let more = digest(&[version("x"), reference("Subscription", "a"), reference(kind, "n")]);
            assert_ne!(once, more, "{kind}");
        }
    }
}

//! The permissions of an operator, as the sum of its registrations.

use serde::Serialize;

use crate::kind::Kind;

/// A rule of a Role or ClusterRole, with the reason for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Right {
    /// API group; empty for the core group.
    pub group: String,
    /// Plural name of the resource, with its subresource if any: `myapps/status`.
    pub resource: String,
    /// Verbs, sorted.
    pub verbs: Vec<&'static str>,
    /// Whether the resource has no namespace, so that only a ClusterRole can grant it.
    pub cluster: bool,
    /// Reason of the rule, for review.
    pub why: String,
}

impl Right {
    fn new(group: &str, resource: &str, verbs: &[&'static str], cluster: bool, why: String) -> Self {
        Self { group: group.to_owned(), resource: resource.to_owned(), verbs: verbs.to_vec(), cluster, why }
    }
}

/// The rights of these kinds, of the events and of the lease, sorted; one for each resource.
pub(crate) fn rights(kinds: &[Kind]) -> Vec<Right> {
    // Events on objects without a namespace are in namespace `default`.
    let is_cluster = kinds.iter().any(|kind| !kind.of.namespaced);
    let mut all = vec![
        Right::new("events.k8s.io", "events", &["create", "patch"], is_cluster, "events".to_owned()),
        Right::new(
            "coordination.k8s.io",
            "leases",
            &["create", "get", "update"],
            false,
            "leader election".to_owned(),
        ),
    ];
    for kind in kinds {
        let (of, cluster) = (&kind.of.resource, !kind.of.namespaced);
        all.push(Right::new(
            &of.group,
            &of.plural,
            &["list", "watch"],
            cluster,
            format!("the operator manages {}", of.kind),
        ));
        all.push(Right::new(
            &of.group,
            &format!("{}/status", of.plural),
            &["patch"],
            cluster,
            format!("the operator reports on {}", of.kind),
        ));
        for owned in &kind.owned {
            all.push(Right::new(
                &owned.resource.group,
                &owned.resource.plural,
                &["create", "delete", "list", "patch", "watch"],
                // Objects without a namespace own objects in all namespaces.
                cluster || !owned.namespaced,
                format!("{} owns {}", of.kind, owned.resource.kind),
            ));
        }
    }
    let mut merged: Vec<Right> = Vec::new();
    for right in all {
        match merged.iter_mut().find(|known| known.group == right.group && known.resource == right.resource) {
            Some(known) => {
                known.cluster |= right.cluster;
                known.verbs.extend(right.verbs);
                known.verbs.sort_unstable();
                known.verbs.dedup();
                if !known.why.contains(&right.why) {
                    known.why = format!("{}; {}", known.why, right.why);
                }
            }
            None => merged.push(right),
        }
    }
    merged.sort_by(|a, b| (&a.group, &a.resource).cmp(&(&b.group, &b.resource)));
    merged
}

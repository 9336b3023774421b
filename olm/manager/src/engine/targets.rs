//! Which namespaces an operator will watch: a pure function of the OperatorGroups.

use kube::ResourceExt;
use olm_api::{OperatorGroup, names};
use olm_bundle::{Bundle, InstallMode, RenderOptions};
use olm_plan::OPERATOR_GROUP_NAME;

/// The namespaces to watch and the group that says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Targets {
    /// Name of the OperatorGroup: the one that is there, or the one that the plan makes.
    pub(crate) group: String,
    /// Sorted; `[""]` is all namespaces.
    pub(crate) namespaces: Vec<String>,
}

impl Targets {
    /// How a bundle is rendered for them; `config` is that of the Subscription.
    pub(crate) fn options(&self, namespace: &str, config: Option<&serde_json::Value>) -> RenderOptions {
        RenderOptions {
            install_namespace: namespace.to_owned(),
            target_namespaces: self.namespaces.clone(),
            operator_group: Some(self.group.clone()),
            subscription_config: config.cloned(),
        }
    }

    /// The annotations that operators and their pods read.
    pub(crate) fn annotations(&self, namespace: &str) -> [(String, serde_json::Value); 3] {
        [
            (names::ANNOTATION_OPERATOR_GROUP.into(), self.group.clone().into()),
            (names::ANNOTATION_OPERATOR_NAMESPACE.into(), namespace.into()),
            (names::ANNOTATION_TARGET_NAMESPACES.into(), self.namespaces.join(",").into()),
        ]
    }
}

/// What the namespace's group says; without one, the operator's own namespace if the bundle can do that, else all.
///
/// Several groups are a finding that blocks the plan; the first by name stands in so that the rest can be shown.
pub(crate) fn targets(namespace: &str, bundle: &Bundle, groups: &[OperatorGroup]) -> Targets {
    match groups.iter().min_by_key(|group| group.name_any()) {
        Some(group) => Targets { group: group.name_any(), namespaces: of_group(group) },
        None => {
            let own = bundle.install_modes().supports(InstallMode::OwnNamespace);
            let all = bundle.install_modes().supports(InstallMode::AllNamespaces);
            let namespaces = if own || !all { vec![namespace.to_owned()] } else { vec![String::new()] };
            Targets { group: OPERATOR_GROUP_NAME.to_owned(), namespaces }
        }
    }
}

/// The namespaces of a group. A selector is evaluated by the group's controller; its answer is in the status.
pub(crate) fn of_group(group: &OperatorGroup) -> Vec<String> {
    let mut out = if !group.spec.target_namespaces.is_empty() {
        group.spec.target_namespaces.clone()
    } else if group.spec.is_global() {
        vec![String::new()]
    } else {
        group.status.as_ref().map(|s| s.namespaces.clone()).unwrap_or_default()
    };
    out.sort();
    out.dedup();
    out
}

#[cfg(test)]
mod tests {
    use olm_api::OperatorGroupSpec;
    use serde_json::json;

    use super::*;

    fn bundle(modes: &[&str]) -> Bundle {
        let modes: Vec<_> = modes.iter().map(|m| json!({ "type": m, "supported": true })).collect();
        let csv = json!({ "metadata": { "name": "etcd.v1" }, "spec": { "installModes": modes } });
        Bundle::from_installed(Default::default(), csv, Vec::new())
    }

    #[test]
    fn without_a_group_the_own_namespace_is_preferred_to_all() {
        let targets = |modes: &[&str]| targets("db", &bundle(modes), &[]).namespaces;
        assert_eq!(targets(&["OwnNamespace", "AllNamespaces"]), ["db"]);
        assert_eq!(targets(&["AllNamespaces"]), [""]);
        // neither: the render refuses it and says what the bundle can do
        assert_eq!(targets(&["SingleNamespace"]), ["db"]);
    }

    #[test]
    fn a_group_decides_where_there_is_one() {
        let spec = OperatorGroupSpec {
            target_namespaces: vec!["b".into(), "a".into()],
            ..OperatorGroupSpec::default()
        };
        let group = OperatorGroup::new("mine", spec);
        let targets = targets("db", &bundle(&["OwnNamespace"]), &[group]);
        assert_eq!(targets, Targets { group: "mine".into(), namespaces: vec!["a".into(), "b".into()] });
    }

    #[test]
    fn a_group_without_targets_means_all_namespaces() {
        assert_eq!(of_group(&OperatorGroup::new("global", OperatorGroupSpec::default())), [""]);
    }
}

//! The namespaces that an operator will watch, from the OperatorGroups. Pure.

use std::borrow::Borrow;

use kube::ResourceExt;
use olm_api::{OperatorGroup, names};
use olm_bundle::{Bundle, InstallMode, RenderError, RenderOptions, Rendered};
use olm_plan::OPERATOR_GROUP_NAME;

use crate::limits::fit;

/// The namespaces to watch and the OperatorGroup that selects them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Targets {
    /// Name of the OperatorGroup: the existing one, or the one that the plan makes.
    pub group: String,
    /// Sorted; `[""]` is all namespaces.
    pub namespaces: Vec<String>,
}

impl Targets {
    /// The bundle as it is installed for these namespaces; `config` is that of the Subscription.
    ///
    /// To the renderer, no namespaces mean all. A group whose selector matches none (yet) must not be
    /// rendered that way.
    pub fn render(
        &self,
        namespace: &str,
        bundle: &Bundle,
        config: Option<&serde_json::Value>,
    ) -> Result<Rendered, RenderError> {
        if self.namespaces.is_empty() {
            return Err(RenderError::InstallMode {
                bundle: bundle.name().to_owned(),
                wanted: format!("the selector of OperatorGroup {}, which matches no namespace", self.group),
                supported: bundle.install_modes().to_string(),
            });
        }
        olm_bundle::render(bundle, &self.options(namespace, config))
    }

    fn options(&self, namespace: &str, config: Option<&serde_json::Value>) -> RenderOptions {
        RenderOptions {
            install_namespace: namespace.to_owned(),
            target_namespaces: self.namespaces.clone(),
            operator_group: Some(self.group.clone()),
            subscription_config: config.cloned(),
        }
    }

    /// The annotations that operators and their pods read.
    pub fn annotations(&self, namespace: &str) -> [(String, serde_json::Value); 3] {
        [
            (names::ANNOTATION_OPERATOR_GROUP.into(), self.group.clone().into()),
            (names::ANNOTATION_OPERATOR_NAMESPACE.into(), namespace.into()),
            (names::ANNOTATION_TARGET_NAMESPACES.into(), self.namespaces.join(",").into()),
        ]
    }
}

/// The namespaces of one operator: see [`common`].
pub fn targets<G: Borrow<OperatorGroup>>(namespace: &str, bundle: &Bundle, groups: &[G]) -> Targets {
    common(namespace, &[bundle], groups)
}

/// The namespaces of the OperatorGroup; without one, the operators' own namespace if all the bundles support
/// that, else all.
///
/// Several groups are a finding that blocks the plan; the first by name is used so that the rest of the plan
/// can be shown.
pub fn common<G: Borrow<OperatorGroup>>(namespace: &str, bundles: &[&Bundle], groups: &[G]) -> Targets {
    match groups.iter().map(Borrow::borrow).min_by_key(|group| group.name_any()) {
        Some(group) => Targets { group: group.name_any(), namespaces: of_group(group) },
        None => {
            let support = |mode| bundles.iter().all(|bundle| bundle.install_modes().supports(mode));
            let own = support(InstallMode::OwnNamespace);
            let all = support(InstallMode::AllNamespaces);
            let namespaces = if own || !all { vec![namespace.to_owned()] } else { vec![String::new()] };
            Targets { group: OPERATOR_GROUP_NAME.to_owned(), namespaces }
        }
    }
}

/// The namespaces of a group. The group's controller evaluates a selector and writes the result into the
/// status.
pub fn of_group(group: &OperatorGroup) -> Vec<String> {
    let mut out = if !group.spec.target_namespaces.is_empty() {
        group.spec.target_namespaces.clone()
    } else if group.spec.is_global() {
        vec![String::new()]
    } else {
        group.status.as_ref().map(|s| s.namespaces.clone()).unwrap_or_default()
    };
    out.sort();
    out.dedup();
    // The group's condition reports the excess.
    if fit(&out) { out } else { Vec::new() }
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
        let targets = |modes: &[&str]| targets::<OperatorGroup>("db", &bundle(modes), &[]).namespaces;
        assert_eq!(targets(&["OwnNamespace", "AllNamespaces"]), ["db"]);
        assert_eq!(targets(&["AllNamespaces"]), [""]);
        // neither: the renderer refuses it and names the supported modes
        assert_eq!(targets(&["SingleNamespace"]), ["db"]);
    }

    #[test]
    fn dependencies_constrain_the_targets() {
        let (both, all) = (bundle(&["OwnNamespace", "AllNamespaces"]), bundle(&["AllNamespaces"]));
        assert_eq!(common::<OperatorGroup>("db", &[&both, &all], &[]).namespaces, [""]);
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
    fn a_group_that_selects_no_namespace_is_not_taken_for_one_that_means_all() {
        let selector = json!({ "matchLabels": { "unknown": "label" } });
        let spec: OperatorGroupSpec = serde_json::from_value(json!({ "selector": selector })).unwrap();
        let group = OperatorGroup::new("picky", spec);
        let bundle = bundle(&["AllNamespaces", "MultiNamespace"]);
        let targets = targets("db", &bundle, &[group]);
        let refused = targets.render("db", &bundle, None).unwrap_err().to_string();
        assert!(
            refused.contains("the selector of OperatorGroup picky, which matches no namespace"),
            "{refused}"
        );
    }

    #[test]
    fn a_group_without_targets_means_all_namespaces() {
        assert_eq!(of_group(&OperatorGroup::new("global", OperatorGroupSpec::default())), [""]);
    }
}

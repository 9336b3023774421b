//! The namespaces that an operator watches, as requested at its installation, and the OperatorGroup that
//! provides them. Pure.

use std::sync::Arc;

use kube::ResourceExt;
use olm_api::{OperatorGroup, OperatorGroupSpec};
use olm_bundle::{InstallMode, InstallModes};
use olm_engine::targets::of_group;
use olm_kube_schema::names::is_dns_label;
use olm_plan::{FindingCode, OPERATOR_GROUP_NAME, watched_namespaces};
use serde::{Deserialize, Serialize};

/// The namespaces to watch. Lists are sorted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum WatchScope {
    /// The operator's namespace.
    OwnNamespace,
    /// One other namespace.
    SingleNamespace(String),
    /// Several namespaces, which may include the operator's.
    MultiNamespace(Vec<String>),
    AllNamespaces,
}

impl WatchScope {
    /// The scope of a mode and a list of namespaces; `None` when neither is requested. `own` is the operator's
    /// namespace.
    ///
    /// # Errors
    /// What is wrong with the namespaces.
    pub fn requested(
        mode: Option<InstallMode>,
        namespaces: &[String],
        own: &str,
    ) -> Result<Option<Self>, String> {
        if let Some(invalid) = namespaces.iter().find(|namespace| !is_dns_label(namespace)) {
            return Err(format!("`{invalid}` is not a valid namespace name"));
        }
        let mut list = namespaces.to_vec();
        list.sort();
        list.dedup();
        let scope = match (mode, list.as_slice()) {
            (None, []) => return Ok(None),
            (None | Some(InstallMode::SingleNamespace | InstallMode::OwnNamespace), [one]) if one == own => {
                Self::OwnNamespace
            }
            (Some(InstallMode::OwnNamespace), []) => Self::OwnNamespace,
            (None | Some(InstallMode::SingleNamespace), [one]) => Self::SingleNamespace(one.clone()),
            (None | Some(InstallMode::MultiNamespace), [_, _, ..]) => Self::MultiNamespace(list.clone()),
            (Some(InstallMode::AllNamespaces), []) => Self::AllNamespaces,
            (Some(mode), list) => {
                let expected = match mode {
                    InstallMode::OwnNamespace => format!("none or {own}"),
                    InstallMode::SingleNamespace => "one".to_owned(),
                    InstallMode::MultiNamespace => "at least two".to_owned(),
                    InstallMode::AllNamespaces => "none".to_owned(),
                };
                let found = if list.is_empty() { "none".to_owned() } else { list.join(", ") };
                return Err(format!("install mode {} with {found}, expected {expected}", mode.as_str()));
            }
        };
        Ok(Some(scope))
    }

    #[must_use]
    pub fn mode(&self) -> InstallMode {
        match self {
            Self::OwnNamespace => InstallMode::OwnNamespace,
            Self::SingleNamespace(_) => InstallMode::SingleNamespace,
            Self::MultiNamespace(_) => InstallMode::MultiNamespace,
            Self::AllNamespaces => InstallMode::AllNamespaces,
        }
    }

    /// The namespaces, as an OperatorGroup reports them: `[""]` means all.
    #[must_use]
    pub fn targets(&self, own: &str) -> Vec<String> {
        match self {
            Self::OwnNamespace => vec![own.to_owned()],
            Self::SingleNamespace(one) => vec![one.clone()],
            Self::MultiNamespace(list) => list.clone(),
            Self::AllNamespaces => vec![String::new()],
        }
    }

    /// The OperatorGroup that provides the scope, under the name of those that plans create.
    #[must_use]
    pub fn group(&self, own: &str) -> OperatorGroup {
        let target_namespaces = match self {
            Self::AllNamespaces => Vec::new(),
            _ => self.targets(own),
        };
        let spec = OperatorGroupSpec { target_namespaces, ..OperatorGroupSpec::default() };
        let mut group = OperatorGroup::new(OPERATOR_GROUP_NAME, spec);
        group.metadata.namespace = Some(own.to_owned());
        group
    }
}

/// What the decision about the OperatorGroup depends on.
#[derive(Debug, Clone, Copy)]
pub struct ScopeFacts<'a> {
    /// The operator's namespace.
    pub namespace: &'a str,
    /// The OperatorGroups of the namespace.
    pub groups: &'a [Arc<OperatorGroup>],
    /// The install modes of the bundle; `None` if unknown.
    pub modes: Option<&'a InstallModes>,
    /// Requested namespaces that do not exist.
    pub missing: &'a [String],
}

/// What an installation does about the OperatorGroup.
#[derive(Debug, Clone, PartialEq)]
pub enum GroupDecision {
    /// The existing OperatorGroup provides the scope.
    Keep(String),
    Create(Box<OperatorGroup>),
    Refuse(ScopeRefusal),
}

/// Why a scope is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopeRefusal {
    /// A stable code.
    pub code: &'static str,
    pub text: String,
    /// The next step.
    pub fix: String,
}

/// Codes of refusals that are no finding of a plan.
const OTHER_TARGETS: &str = "OperatorGroupDiffers";
const MISSING: &str = "WatchedNamespaceMissing";

/// Decides about the OperatorGroup of a namespace. An existing one is never changed: it applies to all operators
/// of the namespace.
#[must_use]
pub fn decide_group(facts: &ScopeFacts<'_>, scope: &WatchScope) -> GroupDecision {
    let (namespace, targets) = (facts.namespace, scope.targets(facts.namespace));
    let refuse = |code, text, fix| GroupDecision::Refuse(ScopeRefusal { code, text, fix });
    if let Some(modes) = facts.modes
        && modes.check(namespace, &targets).is_err()
    {
        let text = format!(
            "the bundle does not support install mode {}; it supports {modes}",
            scope.mode().as_str()
        );
        let fix = "select a supported mode, or another version or channel".to_owned();
        return refuse(FindingCode::UnsupportedInstallMode.as_str(), text, fix);
    }
    match facts.groups {
        [] if !facts.missing.is_empty() => {
            let names = facts.missing.join(", ");
            let text = format!("watched namespaces do not exist: {names}");
            let fix = format!("run `kubectl create namespace {}`", facts.missing[0]);
            refuse(MISSING, text, fix)
        }
        [] => GroupDecision::Create(Box::new(scope.group(namespace))),
        [group] => {
            let name = group.name_any();
            let by_label = group.spec.target_namespaces.is_empty() && !group.spec.is_global();
            let present = if by_label {
                "selects its namespaces by label".to_owned()
            } else if of_group(group) == targets {
                return GroupDecision::Keep(name);
            } else {
                format!("watches {}", watched_namespaces(&of_group(group)))
            };
            let text = format!(
                "OperatorGroup {namespace}/{name} {present}, expected {}; it applies to all operators of the \
                    namespace and is not changed",
                watched_namespaces(&targets)
            );
            let fix = format!(
                "install in another namespace, or change the targets of all operators: `kubectl edit \
                    operatorgroup {name} -n {namespace}`"
            );
            refuse(OTHER_TARGETS, text, fix)
        }
        several => {
            let mut names: Vec<String> = several.iter().map(|group| group.name_any()).collect();
            names.sort();
            let text = format!(
                "namespace {namespace} has {} OperatorGroups ({}), expected one",
                names.len(),
                names.join(", ")
            );
            let last = names.last().map_or("NAME", String::as_str);
            let fix = format!("run `kubectl delete operatorgroup {last} -n {namespace}`");
            refuse(FindingCode::TooManyOperatorGroups.as_str(), text, fix)
        }
    }
}

#[cfg(test)]
mod tests {
    use olm_bundle::Bundle;
    use serde_json::json;

    use super::*;

    fn modes(names: &[&str]) -> InstallModes {
        let modes: Vec<_> = names.iter().map(|name| json!({ "type": name, "supported": true })).collect();
        let csv = json!({ "metadata": { "name": "a.v1" }, "spec": { "installModes": modes } });
        Bundle::from_installed(Default::default(), csv, Vec::new()).install_modes()
    }

    fn group(name: &str, spec: serde_json::Value) -> Arc<OperatorGroup> {
        Arc::new(OperatorGroup::new(name, serde_json::from_value(spec).unwrap()))
    }

    fn scopes() -> [WatchScope; 4] {
        [
            WatchScope::OwnNamespace,
            WatchScope::SingleNamespace("b".into()),
            WatchScope::MultiNamespace(vec!["a".into(), "b".into()]),
            WatchScope::AllNamespaces,
        ]
    }

    fn decide(scope: &WatchScope, groups: &[Arc<OperatorGroup>]) -> GroupDecision {
        decide_group(&ScopeFacts { namespace: "a", groups, modes: None, missing: &[] }, scope)
    }

    fn refusal(decision: GroupDecision) -> ScopeRefusal {
        match decision {
            GroupDecision::Refuse(refusal) => refusal,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn flags_and_fields_become_a_scope() {
        use InstallMode::{AllNamespaces, MultiNamespace, OwnNamespace, SingleNamespace};
        let read = |mode, list: &[&str]| {
            let list: Vec<String> = list.iter().map(ToString::to_string).collect();
            WatchScope::requested(mode, &list, "a")
        };
        assert_eq!(read(None, &[]), Ok(None));
        let [own, single, multi, all] = scopes().map(|scope| Ok::<_, String>(Some(scope)));
        let same: [(Option<InstallMode>, &[&str]); 3] =
            [(None, &["a"]), (Some(OwnNamespace), &[]), (Some(OwnNamespace), &["a"])];
        for (mode, list) in same {
            assert_eq!(read(mode, list), own, "{mode:?} {list:?}");
        }
        assert_eq!(read(Some(SingleNamespace), &["a", "a"]), own);
        assert_eq!((read(None, &["b"]), read(Some(SingleNamespace), &["b"])), (single.clone(), single));
        assert_eq!(
            (read(None, &["b", "a", "b"]), read(Some(MultiNamespace), &["a", "b"])),
            (multi.clone(), multi)
        );
        assert_eq!(read(Some(AllNamespaces), &[]), all);
        let wrong: [(InstallMode, &[&str], &str); 5] = [
            (OwnNamespace, &["b"], "install mode OwnNamespace with b, expected none or a"),
            (SingleNamespace, &[], "install mode SingleNamespace with none, expected one"),
            (SingleNamespace, &["a", "b"], "install mode SingleNamespace with a, b, expected one"),
            (MultiNamespace, &["a"], "install mode MultiNamespace with a, expected at least two"),
            (AllNamespaces, &["a"], "install mode AllNamespaces with a, expected none"),
        ];
        for (mode, list, expected) in wrong {
            assert_eq!(read(Some(mode), list), Err(expected.to_owned()));
        }
        assert_eq!(read(None, &["b", ""]), Err("`` is not a valid namespace name".to_owned()));
    }

    #[test]
    fn without_a_group_each_scope_creates_its_own() {
        let targets: [&[&str]; 4] = [&["a"], &["b"], &["a", "b"], &[]];
        for (scope, targets) in scopes().iter().zip(targets) {
            let GroupDecision::Create(group) = decide(scope, &[]) else { panic!("{scope:?}") };
            assert_eq!(group.name_any(), OPERATOR_GROUP_NAME);
            assert_eq!(group.metadata.namespace.as_deref(), Some("a"));
            assert_eq!(group.spec.target_namespaces, targets, "{scope:?}");
            // what plans read from the created group
            assert_eq!(of_group(&group), scope.targets("a"), "{scope:?}");
        }
    }

    #[test]
    fn an_existing_group_is_kept_or_refused_and_never_changed() {
        let specs = [
            json!({ "targetNamespaces": ["a"] }),
            json!({ "targetNamespaces": ["b"] }),
            json!({ "targetNamespaces": ["b", "a"] }),
            json!({}),
        ];
        for (at, spec) in specs.iter().enumerate() {
            for (wanted, scope) in scopes().iter().enumerate() {
                let decision = decide(scope, &[group("own", spec.clone())]);
                if at == wanted {
                    assert_eq!(decision, GroupDecision::Keep("own".into()), "{scope:?}");
                } else {
                    assert_eq!(refusal(decision).code, OTHER_TARGETS, "{spec} {scope:?}");
                }
            }
        }
        let refused = refusal(decide(&WatchScope::AllNamespaces, &[group("own", specs[2].clone())]));
        assert_eq!(
            refused.text,
            "OperatorGroup a/own watches a, b, expected all namespaces; it applies to all operators of the \
                namespace and is not changed"
        );
        assert!(refused.fix.contains("kubectl edit operatorgroup own -n a"), "{}", refused.fix);
    }

    #[test]
    fn a_group_with_a_selector_is_refused_whatever_it_selects_now() {
        let mut picky =
            OperatorGroup::clone(&group("own", json!({ "selector": { "matchLabels": { "x": "y" } } })));
        picky.status = Some(serde_json::from_value(json!({ "namespaces": ["a"] })).unwrap());
        let picky = [Arc::new(picky)];
        for scope in scopes() {
            let refused = refusal(decide(&scope, &picky));
            assert!(refused.text.contains("selects its namespaces by label"), "{}", refused.text);
        }
    }

    #[test]
    fn several_groups_are_refused() {
        let groups = ["b", "a"].map(|name| group(name, json!({ "targetNamespaces": ["a"] })));
        for scope in scopes() {
            let refused = refusal(decide(&scope, &groups));
            assert_eq!(refused.code, "TooManyOperatorGroups");
            assert_eq!(refused.text, "namespace a has 2 OperatorGroups (a, b), expected one");
        }
    }

    #[test]
    fn an_unsupported_mode_is_refused_with_the_supported_ones() {
        for (at, mode) in InstallMode::ALL.into_iter().enumerate() {
            let modes = modes(&[mode.as_str()]);
            for (wanted, scope) in scopes().iter().enumerate() {
                let facts = ScopeFacts { namespace: "a", groups: &[], modes: Some(&modes), missing: &[] };
                match decide_group(&facts, scope) {
                    // several namespaces with the own one need both modes
                    GroupDecision::Create(_) => assert!(at == wanted && wanted != 2, "{mode:?} {scope:?}"),
                    decision => {
                        let refused = refusal(decision);
                        assert_eq!(refused.code, "UnsupportedInstallMode", "{mode:?} {scope:?}");
                        assert!(
                            refused.text.ends_with(&format!("it supports {}", mode.as_str())),
                            "{}",
                            refused.text
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn namespaces_that_do_not_exist_are_refused_for_a_new_group() {
        let (scope, missing) = (WatchScope::SingleNamespace("b".into()), ["b".to_owned()]);
        let facts = ScopeFacts { namespace: "a", groups: &[], modes: None, missing: &missing };
        let refused = refusal(decide_group(&facts, &scope));
        assert_eq!(refused.code, MISSING);
        assert_eq!(refused.text, "watched namespaces do not exist: b");
        assert_eq!(refused.fix, "run `kubectl create namespace b`");
        // the targets of an existing group are as its author wants them
        let groups = [group("own", json!({ "targetNamespaces": ["b"] }))];
        let facts = ScopeFacts { groups: &groups, ..facts };
        assert_eq!(decide_group(&facts, &scope), GroupDecision::Keep("own".into()));
    }
}

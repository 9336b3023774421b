//! Evaluates InstallPolicies for a bundle in a namespace: pure.
//!
//! Every policy that selects a namespace applies: a policy only ever restricts. The one exception,
//! `authority: Policy`, lends the rights of the policy's author ([`Policies::lending`]), and the caller
//! checks that the author holds them.

use std::{collections::BTreeMap, sync::Arc};

use olm_api::{
    InstallPolicy,
    install_policy::{AllowedPackages, DeniedRight, PlanAuthority, RightScope},
};
use olm_resolver::{Allowed, Allowlist, CatalogRef};
use serde_json::Value;

use crate::finding::{Finding, FindingCode, MOST_NAMED};
use crate::json::{some_of, text};
use crate::object::{ObjectRef, RBAC};
use crate::preflight::Rule;

/// Labels of namespaces.
type Labels = BTreeMap<String, String>;

/// The label that the API server puts on every namespace; it is immutable.
const NAME: &str = "kubernetes.io/metadata.name";

/// The InstallPolicies of one namespace, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policies {
    held: Vec<Arc<InstallPolicy>>,
    /// Whether they are known to select the namespace.
    selected: bool,
}

/// The inputs of a bundle for policies.
#[derive(Clone, Debug)]
pub struct PolicyInput<'a> {
    pub catalog: &'a CatalogRef,
    pub package: &'a str,
    /// The channel of the choice; empty where unknown.
    pub channel: &'a str,
    /// The rights granted by its roles and bindings.
    pub rights: &'a [Right],
    /// Number of added rights of level HIGH.
    pub high: usize,
}

/// The rights granted by a role or a binding of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    /// The role or the binding.
    pub by: ObjectRef,
    /// Whether it is cluster-scoped.
    cluster: bool,
    grants: Granted,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Granted {
    Rules(Vec<Rule>),
    /// Those of a role outside of the bundle.
    Of(ObjectRef),
}

/// The rights granted by the roles and bindings among manifests. A binding to one of these roles grants the
/// role's rules.
pub fn rights_of<'m>(manifests: impl IntoIterator<Item = &'m Value>) -> Vec<Right> {
    let objects: Vec<(ObjectRef, &Value)> = manifests
        .into_iter()
        .filter_map(|manifest| Some((ObjectRef::of(manifest)?, manifest)))
        .filter(|(reference, _)| reference.group() == RBAC)
        .collect();
    let mut rights = Vec::new();
    for (by, manifest) in &objects {
        let cluster = by.namespace.is_none();
        let grants = if by.kind.ends_with("Binding") {
            let (kind, name) = (text(manifest, "/roleRef/kind"), text(manifest, "/roleRef/name"));
            let namespace = by.namespace.as_deref().filter(|_| kind == "Role");
            let role = ObjectRef::new(&by.api_version, kind, namespace, name);
            if objects.iter().any(|(reference, _)| reference.same_object(&role)) {
                continue;
            }
            match of_kubernetes(&role) {
                Some(rules) => Granted::Rules(rules),
                None => Granted::Of(role),
            }
        } else if manifest.get("aggregationRule").is_some_and(|rule| !rule.is_null()) {
            Granted::Rules(vec![everything()])
        } else {
            Granted::Rules(Rule::of_role(manifest))
        };
        rights.push(Right { by: by.clone(), cluster, grants });
    }
    rights
}

/// Default roles of Kubernetes for servers of aggregated APIs and webhooks.
fn of_kubernetes(role: &ObjectRef) -> Option<Vec<Rule>> {
    let rule = |verbs: &[&str], group: &str, resources: &[&str]| Rule {
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        groups: vec![group.to_owned()],
        resources: resources.iter().map(|resource| (*resource).to_owned()).collect(),
        ..Rule::default()
    };
    match (role.kind.as_str(), role.namespace.as_deref(), role.name.as_str()) {
        ("ClusterRole", _, "system:auth-delegator") => Some(vec![
            rule(&["create"], "authentication.k8s.io", &["tokenreviews"]),
            rule(&["create"], "authorization.k8s.io", &["subjectaccessreviews"]),
        ]),
        ("Role", Some("kube-system"), "extension-apiserver-authentication-reader") => Some(vec![Rule {
            names: vec!["extension-apiserver-authentication".to_owned()],
            ..rule(&["get", "list", "watch"], "", &["configmaps"])
        }]),
        _ => None,
    }
}

fn everything() -> Rule {
    let all = || vec!["*".to_owned()];
    Rule { verbs: all(), groups: all(), resources: all(), ..Rule::default() }
}

impl Policies {
    /// The policies that select a namespace. Where its labels are unknown, all apply and none lends rights.
    pub fn of(all: impl IntoIterator<Item = Arc<InstallPolicy>>, labels: Option<&Labels>) -> Self {
        let selects = |policy: &Arc<InstallPolicy>| labels.is_none_or(|labels| policy.selects(labels));
        let mut held: Vec<_> = all.into_iter().filter(selects).collect();
        held.sort_by_key(|policy| name_of(policy));
        Self { held, selected: labels.is_some() }
    }

    /// The labels of a namespace before it exists.
    pub fn labels_of_new(namespace: &str) -> Labels {
        BTreeMap::from([(NAME.to_owned(), namespace.to_owned())])
    }

    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<InstallPolicy>> {
        self.held.iter()
    }

    /// Allowlists for the resolver.
    pub fn allowlists(&self) -> Vec<Allowlist> {
        self.held.iter().filter_map(|policy| allowlist(policy)).collect()
    }

    /// The policies whose authors lend their rights to a package.
    pub fn lending(&self, catalog: &CatalogRef, package: &str, channel: &str) -> Vec<&InstallPolicy> {
        let lends = |policy: &&Arc<InstallPolicy>| {
            let entries = policy.spec.allow.iter().flatten();
            let mut entries = entries.filter(|entry| entry.authority == PlanAuthority::Policy);
            // The API server rejects entries that lend to any catalog or package.
            entries.any(|entry| {
                entry.catalogs.is_some()
                    && entry.packages.is_some()
                    && allowed(entry).matches(catalog, package, channel)
            })
        };
        self.held.iter().filter(|_| self.selected).filter(lends).map(AsRef::as_ref).collect()
    }

    /// Why a bundle is not allowed.
    pub fn findings(&self, judged: &PolicyInput<'_>) -> Vec<Finding> {
        let PolicyInput { catalog, package, channel, .. } = judged;
        let mut out = Vec::new();
        for list in self.allowlists() {
            let listed = match channel.is_empty() {
                true => list.entries.iter().any(|entry| {
                    Allowed { channels: None, ..entry.clone() }.matches(catalog, package, channel)
                }),
                false => list.allows(catalog, package, channel),
            };
            if !listed {
                out.push(denies(&list.policy, list.refusal(catalog, package, channel)));
            }
        }
        out.extend(self.denied(judged.rights));
        if let Some((policy, high)) = self.second_approver().filter(|_| judged.high > 0) {
            let rights = if judged.high == 1 {
                "1 HIGH right".to_owned()
            } else {
                format!("{} HIGH rights", judged.high)
            };
            let text = format!(
                "the plan grants {rights} and InstallPolicy {policy} requires {high} different approvers \
                    (spec.approvals.high)"
            );
            out.push(Finding::new(
                FindingCode::SecondApproverNeeded,
                format!("InstallPolicy {policy}"),
                text,
            ));
        }
        out
    }

    /// Denied rights among the granted ones.
    pub fn denied(&self, rights: &[Right]) -> Vec<Finding> {
        let mut out = Vec::new();
        for policy in &self.held {
            let denied = policy.spec.deny.iter().flat_map(|deny| &deny.rights);
            let denied: Vec<(usize, Rule, bool)> = denied
                .enumerate()
                .map(|(at, right)| (at, rule(right), right.scope == RightScope::Cluster))
                .collect();
            for right in rights {
                let counts: Vec<_> =
                    denied.iter().filter(|(.., cluster)| right.cluster || !cluster).collect();
                if counts.is_empty() {
                    continue;
                }
                let name = name_of(policy);
                match &right.grants {
                    Granted::Of(role) => out.push(denies(
                        &name,
                        format!(
                            "InstallPolicy {name} denies permissions (spec.deny.rights), and {} binds \
                                {role}, which is not part of the bundle",
                            right.by
                        ),
                    )),
                    Granted::Rules(rules) => out.extend(counts.iter().filter_map(|(at, denied, _)| {
                        let found: Vec<String> = rules
                            .iter()
                            .filter(|rule| rule.overlaps(denied))
                            .map(ToString::to_string)
                            .collect();
                        (!found.is_empty()).then(|| {
                            let text = format!(
                                "InstallPolicy {name} denies {denied} (spec.deny.rights[{at}]), and {} \
                                    grants {}",
                                right.by,
                                some_of(&found, MOST_NAMED)
                            );
                            denies(&name, text)
                        })
                    })),
                }
            }
        }
        out
    }

    /// Findings for a ClusterServiceVersion without a plan. It comes from no catalog, so no list allows it,
    /// and no plan has verified its images.
    pub fn by_hand(&self, rights: &[Right]) -> Vec<Finding> {
        let refused = self.held.iter().filter_map(|policy| {
            let (wants, field) = match &policy.spec {
                spec if spec.allow.is_some() => ("allows only packages of catalogs", "allow"),
                spec if spec.signatures.is_some() => {
                    ("requires signatures, which are verified only for packages of catalogs", "signatures")
                }
                _ => return None,
            };
            let name = name_of(policy);
            let text = format!(
                "InstallPolicy {name} {wants} (spec.{field}), and the ClusterServiceVersion was \
                    created without a catalog"
            );
            Some(denies(&name, text))
        });
        refused.chain(self.denied(rights)).collect()
    }

    /// The policy that requires more than one approver, and their number.
    fn second_approver(&self) -> Option<(String, i32)> {
        let requires = |policy: &Arc<InstallPolicy>| {
            let high = policy.spec.approvals.as_ref()?.high.filter(|high| *high > 1)?;
            Some((name_of(policy), high))
        };
        self.held.iter().find_map(requires)
    }
}

fn name_of(policy: &InstallPolicy) -> String {
    policy.metadata.name.clone().unwrap_or_default()
}

fn allowlist(policy: &InstallPolicy) -> Option<Allowlist> {
    let entries = policy.spec.allow.as_ref()?.iter().map(allowed).collect();
    Some(Allowlist { policy: name_of(policy), entries })
}

fn allowed(entry: &AllowedPackages) -> Allowed {
    let catalogs = entry.catalogs.as_ref();
    let catalogs = catalogs.map(|list| list.iter().map(|c| CatalogRef::new(&c.namespace, &c.name)).collect());
    Allowed { catalogs, packages: entry.packages.clone(), channels: entry.channels.clone() }
}

fn rule(right: &DeniedRight) -> Rule {
    Rule {
        verbs: right.verbs.clone(),
        groups: right.api_groups.clone(),
        resources: right.resources.clone(),
        names: right.resource_names.clone(),
        urls: right.non_resource_urls.clone(),
    }
}

fn denies(policy: &str, text: String) -> Finding {
    Finding::new(FindingCode::PolicyDenies, format!("InstallPolicy {policy}"), text)
        .fix(format!("kubectl get installpolicy {policy} -o yaml  # a cluster administrator can change it"))
}

#[cfg(test)]
mod tests;

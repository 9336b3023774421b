//! The facts that a plan needs: the cluster is queried for these only.

use std::collections::BTreeSet;

use olm_resolver::Gvk;
use serde_json::Value;

use super::access::Access;
use super::{apis, crd, image, priority_class, trap, upgrade, webhook};
use crate::desired::csv_ref;
use crate::facts::RoleName;
use crate::input::{Live, PlanInput};
use crate::json::{list, plural, text};
use crate::object::ObjectRef;
use crate::permissions;
use crate::plan::Level;

/// The facts in [`ClusterFacts`](crate::ClusterFacts) that a plan needs, as far as known before the live
/// objects are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FactsNeeded {
    /// Whether the rights of others in the operator's namespace are relevant.
    pub role_bindings: bool,
    pub quotas: bool,
    pub webhooks: bool,
    /// Names of the PriorityClasses of pods.
    pub priority_classes: BTreeSet<String>,
    /// Images of pods that no registry may serve: whether a node has them.
    pub images: BTreeSet<String>,
    /// APIs that the operator requires and that no resolved bundle provides.
    pub apis: Vec<Gvk>,
}

impl FactsNeeded {
    /// The facts that a plan needs; none for a plan that cannot be made.
    pub fn of(input: &PlanInput<'_>) -> Self {
        let Ok(rendered) = input.rendered else { return Self::default() };
        let rights = permissions::delta(None, Some(rendered));
        Self {
            role_bindings: rights.summary.get(&Level::High).is_some_and(|count| *count > 0),
            quotas: true,
            webhooks: true,
            priority_classes: priority_class::needed(input),
            images: image::needed(input),
            apis: apis::missing_apis(input),
        }
    }
}

/// Custom resources that a plan needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KindNeeded {
    pub crd: String,
    pub gvk: Gvk,
    pub plural: String,
}

/// The custom resources that a plan needs: of CRDs with potentially harmful changes, and of those that the
/// new version gives up.
pub fn kinds_needed(input: &PlanInput<'_>, live: &Live) -> Vec<KindNeeded> {
    let Ok(rendered) = input.rendered else { return Vec::new() };
    let mut kinds = BTreeSet::new();
    for (_, new) in rendered.objects().filter(|(_, o)| o["kind"] == "CustomResourceDefinition") {
        let Some(reference) = ObjectRef::of(new) else { continue };
        if let Some(there) = live.get(&reference).filter(|there| crd::matters(there, new)) {
            kinds.extend(of_crd(there));
        }
    }
    let from = input.resolved.from.as_ref().filter(|from| from.name != input.resolved.chosen.name);
    if let Some(old) = from.and_then(|from| live.get(&csv_ref(input.namespace, &from.name))) {
        for owned in upgrade::given_up(old, &input.bundle.csv_raw) {
            let name = text(owned, "/name");
            let Some((plural, group)) = name.split_once('.') else { continue };
            kinds.insert(KindNeeded {
                crd: name.to_owned(),
                gvk: Gvk::new(group, text(owned, "/version"), text(owned, "/kind")),
                plural: plural.to_owned(),
            });
        }
    }
    kinds.into_iter().collect()
}

/// The kind of a live CRD at its storage version, or the first that it serves.
fn of_crd(live: &Value) -> Option<KindNeeded> {
    let served = || list(live, "/spec/versions").iter().filter(|v| v["served"] == true);
    let version = served().find(|v| v["storage"] == true).or_else(|| served().next())?;
    Some(KindNeeded {
        crd: text(live, "/metadata/name").to_owned(),
        gvk: Gvk::new(text(live, "/spec/group"), text(version, "/name"), text(live, "/spec/names/kind")),
        plural: text(live, "/spec/names/plural").to_owned(),
    })
}

pub fn roles_needed(bindings: &[Value]) -> BTreeSet<RoleName> {
    bindings.iter().filter_map(trap::role_of).collect()
}

/// The Services (namespace, name) of mandatory webhooks for a write of the plan.
pub fn services_needed(input: &PlanInput<'_>, live: &Live, webhooks: &[Value]) -> BTreeSet<(String, String)> {
    webhook::services(input, live, webhooks)
}

/// Namespaces in which cluster-wide rights do not suffice for the plan's writes: rights bound there are worth
/// a request.
pub fn namespaces_to_review(input: &PlanInput<'_>, everywhere: &Access) -> BTreeSet<String> {
    let mut namespaces = BTreeSet::new();
    for (_, object) in input.rendered.ok().into_iter().flat_map(|r| r.objects()) {
        let Some(reference) = ObjectRef::of(object) else { continue };
        let Some(namespace) = &reference.namespace else { continue };
        let resource = plural(&reference.kind);
        let may = |verb: &str, resource: &str, name: &str| {
            everywhere.allows(verb, reference.group(), resource, None, Some(name), None) == Some(true)
        };
        // Writing a role or a binding needs an additional right.
        let grants = match reference.kind.as_str() {
            "Role" => may("escalate", "roles", &reference.name),
            "RoleBinding" => {
                let role = text(object, "/roleRef/name");
                let kind = plural(text(object, "/roleRef/kind"));
                may("bind", &kind, role)
            }
            _ => true,
        };
        let writes = ["create", "patch", "delete"].iter().all(|verb| may(verb, &resource, &reference.name));
        if !(grants && writes) {
            namespaces.insert(namespace.clone());
        }
    }
    namespaces
}

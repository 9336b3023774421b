//! APIs that a version provides and requires, and who else provides them: pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kube::{Resource, ResourceExt};
use olm_api::{ClusterServiceVersion, OperatorGroup, names};
use olm_bundle::{Gvk, gvk_hash};

use super::facts::Rival;

/// The kinds that a version provides.
pub(crate) fn provided(csv: &ClusterServiceVersion) -> Vec<Gvk> {
    let crds = csv.spec.owned_crds().iter().map(|crd| Gvk::new(crd.group(), &crd.version, &crd.kind));
    let definitions = csv.spec.api_service_definitions.iter();
    let services =
        definitions.flat_map(|d| &d.owned).map(|api| Gvk::new(&api.group, &api.version, &api.kind));
    crds.chain(services).collect()
}

fn required(csv: &ClusterServiceVersion) -> impl Iterator<Item = Gvk> {
    let crds = csv.spec.required_crds().iter().map(|crd| Gvk::new(crd.group(), &crd.version, &crd.kind));
    let definitions = csv.spec.api_service_definitions.iter();
    let services =
        definitions.flat_map(|d| &d.required).map(|api| Gvk::new(&api.group, &api.version, &api.kind));
    crds.chain(services)
}

/// `Kind.version.group`, as the annotation `olm.providedAPIs` has it.
pub(crate) fn text(api: &Gvk) -> String {
    format!("{}.{}.{}", api.kind, api.version, api.group)
}

/// Labels by which a version is found by its APIs.
pub(super) fn labels(csv: &ClusterServiceVersion) -> BTreeMap<String, &'static str> {
    let key = |api: &Gvk| format!("{}{}", names::LABEL_API_PREFIX, gvk_hash(api));
    let mut labels: BTreeMap<String, &'static str> =
        required(csv).map(|api| (key(&api), names::API_REQUIRED)).collect();
    labels.extend(provided(csv).iter().map(|api| (key(api), names::API_PROVIDED)));
    labels
}

/// The APIs in the annotation of a group.
pub(crate) fn listed(group: &OperatorGroup) -> BTreeSet<String> {
    let text = group.annotations().get(names::ANNOTATION_PROVIDED_APIS).map_or("", String::as_str);
    text.split(',').map(str::trim).filter(|api| !api.is_empty()).map(str::to_owned).collect()
}

/// What the members of a group provide, for its annotation. One that may not have an API does not provide it.
pub(crate) fn of_members<'a>(
    members: impl IntoIterator<Item = &'a ClusterServiceVersion>,
) -> BTreeSet<String> {
    let refused = |csv: &&ClusterServiceVersion| {
        let reason = csv.status.as_ref().and_then(|s| s.reason.as_deref()).unwrap_or_default();
        matches!(reason, "InterOperatorGroupOwnerConflict" | "UnsupportedOperatorGroup")
    };
    let members = members.into_iter().filter(|csv| is_live(csv) && !refused(csv));
    members.flat_map(provided).map(|api| text(&api)).collect()
}

/// An API as the annotation has it, taken apart again.
pub(crate) fn parse(text: &str) -> Option<Gvk> {
    let (kind, rest) = text.split_once('.')?;
    let (version, group) = rest.split_once('.')?;
    Some(Gvk::new(group, version, kind))
}

/// Neither on its way out nor a copy that OLM v0 left.
pub(crate) fn is_live(csv: &ClusterServiceVersion) -> bool {
    csv.meta().deletion_timestamp.is_none() && !csv.labels().contains_key(names::LABEL_COPIED_FROM)
}

/// Another version of the namespace that owns the same CRD and is not before or after this one. Of two, the one that
/// was there first keeps it.
pub(super) fn owned_beside(csv: &ClusterServiceVersion, all: &[ClusterServiceVersion]) -> Vec<Rival> {
    let chain = chain(csv, all);
    let mut rivals = Vec::new();
    for other in
        all.iter().filter(|other| is_live(other) && !chain.contains(&other.name_any()) && before(other, csv))
    {
        let theirs: BTreeSet<&str> = other.spec.owned_crds().iter().map(|crd| crd.name.as_str()).collect();
        rivals.extend(csv.spec.owned_crds().iter().filter(|crd| theirs.contains(crd.name.as_str())).map(
            |crd| Rival {
                api: format!("CustomResourceDefinition {}", crd.name),
                csv: other.name_any(),
                namespace: other.namespace().unwrap_or_default(),
                same_namespace: true,
            },
        ));
    }
    rivals
}

/// Whether the first was there before the second; by name where the time is the same.
fn before(first: &ClusterServiceVersion, second: &ClusterServiceVersion) -> bool {
    let key = |csv: &ClusterServiceVersion| {
        (csv.meta().creation_timestamp.as_ref().map(|t| t.0), csv.namespace(), csv.name_any())
    };
    key(first) < key(second)
}

/// The names of all versions that are joined to this one by `replaces`, itself included.
fn chain(csv: &ClusterServiceVersion, all: &[ClusterServiceVersion]) -> BTreeSet<String> {
    let mut chain = BTreeSet::from([csv.name_any()]);
    chain.extend(csv.spec.replaces.clone());
    loop {
        let size = chain.len();
        for other in all {
            let name = other.name_any();
            if other.spec.replaces.as_ref().is_some_and(|replaces| chain.contains(replaces)) {
                chain.insert(name);
            } else if chain.contains(&name) {
                chain.extend(other.spec.replaces.clone());
            }
        }
        if chain.len() == size {
            return chain;
        }
    }
}

/// Which versions of the cluster provide an API and which namespaces they watch: an index, so that nobody looks through
/// all versions for the few that matter.
#[derive(Debug, Default)]
pub(super) struct Providers {
    by_api: HashMap<String, BTreeMap<(String, String), Provider>>,
    apis_of: HashMap<(String, String), Vec<String>>,
    /// Whether it has seen all versions once.
    pub(super) seeded: bool,
}

#[derive(Debug, Clone)]
struct Provider {
    /// `[""]` is all namespaces.
    targets: Vec<String>,
    created: Option<jiff::Timestamp>,
}

impl Providers {
    /// Takes in what is new about a version; one on its way out provides nothing. Returns the versions in other namespaces
    /// that provide something of the same: they may be free to run now, or no longer.
    pub(super) fn note(&mut self, csv: &ClusterServiceVersion) -> Vec<(String, String)> {
        let key = (csv.namespace().unwrap_or_default(), csv.name_any());
        let mut touched = BTreeSet::new();
        let old = self.apis_of.remove(&key).unwrap_or_default();
        for api in &old {
            if let Some(providers) = self.by_api.get_mut(api) {
                providers.remove(&key);
                touched.extend(providers.keys().cloned());
                if providers.is_empty() {
                    self.by_api.remove(api);
                }
            }
        }
        let targets = csv.annotations().get(names::ANNOTATION_TARGET_NAMESPACES);
        if let (true, Some(targets)) = (is_live(csv), targets) {
            let targets: Vec<String> = targets.split(',').map(str::to_owned).collect();
            let created = csv.meta().creation_timestamp.as_ref().map(|t| t.0);
            let apis: Vec<String> = provided(csv).iter().map(text).collect();
            for api in &apis {
                let providers = self.by_api.entry(api.clone()).or_default();
                touched.extend(providers.keys().cloned());
                providers.insert(key.clone(), Provider { targets: targets.clone(), created });
            }
            self.apis_of.insert(key.clone(), apis);
        }
        touched.into_iter().filter(|other| other.0 != key.0).collect()
    }

    /// Versions in other namespaces that provide the same to a common namespace and were there first.
    pub(super) fn rivals(&self, csv: &ClusterServiceVersion, targets: &[String]) -> Vec<Rival> {
        let namespace = csv.namespace().unwrap_or_default();
        let own = (csv.meta().creation_timestamp.as_ref().map(|t| t.0), namespace.clone(), csv.name_any());
        let mut rivals = Vec::new();
        for api in provided(csv).iter().map(text) {
            for ((other, name), provider) in self.by_api.get(&api).into_iter().flatten() {
                let first = (provider.created, other.clone(), name.clone()) < own;
                if *other != namespace && first && intersect(&provider.targets, targets) {
                    rivals.push(Rival {
                        api: api.clone(),
                        csv: name.clone(),
                        namespace: other.clone(),
                        same_namespace: false,
                    });
                }
            }
        }
        rivals
    }
}

fn intersect(left: &[String], right: &[String]) -> bool {
    let all = |targets: &[String]| targets.iter().any(String::is_empty);
    (all(left) && !right.is_empty())
        || (all(right) && !left.is_empty())
        || left.iter().any(|l| right.contains(l))
}

#[cfg(test)]
mod tests;

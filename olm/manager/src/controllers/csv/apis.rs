//! APIs that a version provides and requires, and their other providers. Pure.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use kube::{Resource, ResourceExt};
use olm_api::{ClusterServiceVersion, OperatorGroup, names};
use olm_bundle::{Gvk, gvk_hash};

use super::facts::OwnerConflict;

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

/// `Kind.version.group`, as in the annotation `olm.providedAPIs`.
pub(crate) fn text(api: &Gvk) -> String {
    format!("{}.{}.{}", api.kind, api.version, api.group)
}

/// Labels by which a version is found by its APIs.
pub(crate) fn labels(csv: &ClusterServiceVersion) -> BTreeMap<String, &'static str> {
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

/// The APIs that the members of a group provide, for its annotation. A member that may not own an API does
/// not provide it.
pub(crate) fn of_members<'a>(
    members: impl IntoIterator<Item = &'a ClusterServiceVersion>,
) -> BTreeSet<String> {
    let refused = |csv: &&ClusterServiceVersion| {
        let reason = csv.status.as_ref().and_then(|s| s.reason.as_deref()).unwrap_or_default();
        matches!(reason, "InterOperatorGroupOwnerConflict" | "UnsupportedOperatorGroup" | "ReservedObject")
    };
    let members = members.into_iter().filter(|csv| is_live(csv) && !refused(csv));
    members.flat_map(provided).map(|api| text(&api)).collect()
}

/// Parses an API of the annotation.
pub(crate) fn parse(text: &str) -> Option<Gvk> {
    let (kind, rest) = text.split_once('.')?;
    let (version, group) = rest.split_once('.')?;
    Some(Gvk::new(group, version, kind))
}

/// Neither being deleted nor a copy that OLM v0 left.
pub(crate) fn is_live(csv: &ClusterServiceVersion) -> bool {
    csv.meta().deletion_timestamp.is_none() && !csv.labels().contains_key(names::LABEL_COPIED_FROM)
}

/// Another version of the namespace that owns the same CRD and is neither before nor after this one. Of two,
/// the older one keeps it.
pub(super) fn owned_beside(
    csv: &ClusterServiceVersion,
    all: &[impl Borrow<ClusterServiceVersion>],
) -> Vec<OwnerConflict> {
    let all: Vec<&ClusterServiceVersion> = all.iter().map(Borrow::borrow).collect();
    let chain = chain(csv, &all);
    let mut owner_conflicts = Vec::new();
    for other in
        all.iter().filter(|other| is_live(other) && !chain.contains(&other.name_any()) && before(other, csv))
    {
        let theirs: BTreeSet<&str> = other.spec.owned_crds().iter().map(|crd| crd.name.as_str()).collect();
        owner_conflicts.extend(
            csv.spec.owned_crds().iter().filter(|crd| theirs.contains(crd.name.as_str())).map(|crd| {
                OwnerConflict {
                    api: format!("CustomResourceDefinition {}", crd.name),
                    csv: other.name_any(),
                    namespace: other.namespace().unwrap_or_default(),
                    same_namespace: true,
                }
            }),
        );
    }
    owner_conflicts
}

/// Whether the first was created before the second; by name where the time is equal.
fn before(first: &ClusterServiceVersion, second: &ClusterServiceVersion) -> bool {
    let key = |csv: &ClusterServiceVersion| {
        (csv.meta().creation_timestamp.as_ref().map(|t| t.0), csv.namespace(), csv.name_any())
    };
    key(first) < key(second)
}

/// The names of all versions that are joined to this one by `replaces`, itself included.
fn chain(csv: &ClusterServiceVersion, all: &[&ClusterServiceVersion]) -> BTreeSet<String> {
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

/// Namespace and name of a version.
pub(super) type Key = (String, String);

/// The API and the target namespaces of a version.
#[derive(Debug, Clone, PartialEq)]
struct Provision {
    apis: Box<[Arc<str>]>,
    /// `[""]` is all namespaces.
    targets: Box<[Arc<str>]>,
    created: Option<jiff::Timestamp>,
}

/// The providers of one API to one namespace.
type Bucket = Vec<(Arc<Key>, Option<jiff::Timestamp>)>;

/// An index of the providers of each API and the namespaces that they watch, so that a lookup does not scan
/// all versions.
#[derive(Debug, Default)]
pub(super) struct Providers {
    /// By API, and by watched namespace; the empty name is all of them.
    by_api: HashMap<Arc<str>, HashMap<Arc<str>, Bucket>>,
    noted: HashMap<Arc<Key>, Provision>,
    /// Whether it has indexed all versions once.
    pub(super) seeded: bool,
}

impl Providers {
    /// Updates the index for a version; a deleted one provides nothing. Returns the versions in other
    /// namespaces that provide one of the APIs to one of the namespaces: they may be free to run now, or no
    /// longer.
    pub(super) fn note(&mut self, csv: &ClusterServiceVersion) -> Vec<Key> {
        let targets = csv.annotations().get(names::ANNOTATION_TARGET_NAMESPACES).filter(|_| is_live(csv));
        let provision = targets.map(|targets| Provision {
            apis: provided(csv).iter().map(|api| self.api(text(api))).collect(),
            targets: targets.split(',').map(Arc::from).collect(),
            created: csv.meta().creation_timestamp.as_ref().map(|t| t.0),
        });
        self.set(key(csv), provision)
    }

    /// As [`Self::note`], for a version that is gone.
    pub(super) fn gone(&mut self, csv: &ClusterServiceVersion) -> Vec<Key> {
        self.set(key(csv), None)
    }

    /// One shared text per API.
    fn api(&self, text: String) -> Arc<str> {
        let known = self.by_api.get_key_value(text.as_str()).map(|(api, _)| Arc::clone(api));
        known.unwrap_or_else(|| text.into())
    }

    fn set(&mut self, key: Key, new: Option<Provision>) -> Vec<Key> {
        if self.noted.get(&key) == new.as_ref() {
            return Vec::new();
        }
        let mut touched = BTreeSet::new();
        if let Some(old) = self.noted.remove(&key) {
            for api in &old.apis {
                self.take(api, &old.targets, &key);
                touched.extend(self.meeting(api, &old.targets).map(|(other, _)| Key::clone(other)));
            }
        }
        if let Some(new) = new {
            let shared = Arc::new(key.clone());
            for api in &new.apis {
                touched.extend(self.meeting(api, &new.targets).map(|(other, _)| Key::clone(other)));
                let buckets = self.by_api.entry(Arc::clone(api)).or_default();
                for target in &new.targets {
                    // Most buckets have one entry.
                    let bucket = buckets.entry(Arc::clone(target)).or_insert_with(|| Vec::with_capacity(1));
                    bucket.push((Arc::clone(&shared), new.created));
                }
            }
            self.noted.insert(shared, new);
        }
        touched.into_iter().filter(|other| other.0 != key.0).collect()
    }

    fn take(&mut self, api: &str, targets: &[Arc<str>], key: &Key) {
        let Some(buckets) = self.by_api.get_mut(api) else { return };
        for target in targets {
            if let Some(bucket) = buckets.get_mut(target) {
                bucket.retain(|(other, _)| **other != *key);
                if bucket.is_empty() {
                    buckets.remove(target);
                }
            }
        }
        if buckets.is_empty() {
            self.by_api.remove(api);
        }
    }

    /// The providers of an API to one of these namespaces, possibly with duplicates.
    fn meeting<'a, T: AsRef<str>>(
        &'a self,
        api: &str,
        targets: &'a [T],
    ) -> impl Iterator<Item = &'a (Arc<Key>, Option<jiff::Timestamp>)> {
        let buckets = self.by_api.get(api);
        let everywhere = targets.iter().any(|target| target.as_ref().is_empty());
        let all = buckets.filter(|_| everywhere).into_iter().flat_map(HashMap::values);
        let few = buckets.filter(|_| !everywhere && !targets.is_empty());
        let wide = few.and_then(|buckets| buckets.get(""));
        let near = few.into_iter().flat_map(|b| targets.iter().filter_map(|target| b.get(target.as_ref())));
        all.chain(wide).chain(near).flatten()
    }

    /// Versions in other namespaces that provide the same API to a common namespace and are older.
    pub(super) fn owner_conflicts(
        &self,
        csv: &ClusterServiceVersion,
        targets: &[String],
    ) -> Vec<OwnerConflict> {
        let own = key(csv);
        let created = csv.meta().creation_timestamp.as_ref().map(|t| t.0);
        let mut owner_conflicts = Vec::new();
        for api in provided(csv).iter().map(text) {
            let first = |(other, theirs): &&(Arc<Key>, Option<jiff::Timestamp>)| {
                other.0 != own.0 && (*theirs, &**other) < (created, &own)
            };
            let others: BTreeSet<&Key> =
                self.meeting(&api, targets).filter(first).map(|(other, _)| &**other).collect();
            owner_conflicts.extend(others.into_iter().map(|(namespace, name)| OwnerConflict {
                api: api.clone(),
                csv: name.clone(),
                namespace: namespace.clone(),
                same_namespace: false,
            }));
        }
        owner_conflicts
    }
}

fn key(csv: &ClusterServiceVersion) -> Key {
    (csv.namespace().unwrap_or_default(), csv.name_any())
}

#[cfg(test)]
mod tests;

//! The served resources: built-in ones and those of CustomResourceDefinitions.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, PoisonError, RwLock},
};

use olm_devcluster_machinery::{crd::Crd, field_error::FieldError};
use serde_json::Value;

use super::{
    convert::webhook::ConversionWebhook,
    kinds::{BUILTINS, REVIEWS},
    resource::Resource,
};

/// A snapshot of the served resources.
#[derive(Default)]
pub(crate) struct Served {
    /// In the order of discovery.
    pub resources: Vec<Arc<Resource>>,
    index: HashMap<(String, String, String), Arc<Resource>>,
}

impl Served {
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.index.get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    /// Groups with their versions, preferred version first, in the order of discovery.
    pub(crate) fn groups(&self) -> Vec<(String, Vec<String>)> {
        let mut groups: Vec<(String, Vec<String>)> = Vec::new();
        for resource in self.resources.iter().filter(|r| !r.group.is_empty()) {
            match groups.iter_mut().find(|(group, _)| *group == resource.group) {
                Some((_, versions)) if versions.contains(&resource.version) => {}
                Some((_, versions)) => versions.push(resource.version.clone()),
                None => groups.push((resource.group.clone(), vec![resource.version.clone()])),
            }
        }
        for review in REVIEWS {
            if !groups.iter().any(|(group, _)| group == review.group) {
                groups.push((review.group.to_owned(), vec!["v1".to_owned()]));
            }
        }
        for (_, versions) in &mut groups {
            versions.sort_by_key(|version| std::cmp::Reverse(version_rank(version)));
        }
        groups
    }
}

/// `v2` before `v1` before `v1beta2` before `v1alpha1` before all others.
fn version_rank(version: &str) -> (u8, u32, u8, u32) {
    let parse = || -> Option<(u8, u32, u8, u32)> {
        let rest = version.strip_prefix('v')?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let major = rest[..digits].parse().ok()?;
        match &rest[digits..] {
            "" => Some((2, major, 2, 0)),
            minor => {
                let (level, number) = match minor.strip_prefix("beta") {
                    Some(number) => (1, number),
                    None => (0, minor.strip_prefix("alpha")?),
                };
                Some((1, level, u8::try_from(major.min(255)).ok()?, number.parse().ok()?))
            }
        }
    };
    parse().unwrap_or((0, 0, 0, 0))
}

/// A served CRD with its conversion webhook.
#[derive(Clone)]
struct Defined {
    crd: Arc<Crd>,
    conversion: Option<Arc<ConversionWebhook>>,
}

/// The resources, replaceable at run time.
pub(crate) struct Registry {
    custom: RwLock<BTreeMap<String, Defined>>,
    served: RwLock<Arc<Served>>,
}

impl Registry {
    pub(crate) fn new() -> Self {
        let registry = Self { custom: RwLock::default(), served: RwLock::default() };
        registry.rebuild();
        registry
    }

    pub(crate) fn served(&self) -> Arc<Served> {
        self.served.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Serves a CRD (once its status is established).
    pub(crate) fn set_crd(&self, name: &str, object: &Value) -> Result<(), Vec<FieldError>> {
        let crd = Arc::new(olm_devcluster_machinery::crd::parse(object)?);
        let conversion = ConversionWebhook::of_crd(object).map(Arc::new);
        let defined = Defined { crd, conversion };
        self.custom.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), defined);
        self.rebuild();
        Ok(())
    }

    pub(crate) fn remove_crd(&self, name: &str) {
        self.custom.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        self.rebuild();
    }

    /// The resource of a group other than `except` that holds a name.
    pub(crate) fn holder(&self, group: &str, except: &str, name: &str) -> Option<String> {
        let served = self.served();
        served
            .resources
            .iter()
            .filter(|r| r.group == group && r.plural != except)
            .find(|r| {
                r.plural == name
                    || r.singular == name
                    || r.kind == name
                    || r.list_kind == name
                    || r.short_names.iter().any(|s| s == name)
            })
            .map(|r| r.crd_name())
    }

    fn rebuild(&self) {
        let custom = self.custom.read().unwrap_or_else(PoisonError::into_inner);
        let builtin = BUILTINS.iter().map(Resource::of_builtin);
        let defined = custom.values().flat_map(|Defined { crd, conversion }| {
            let versions = crd.versions.iter().enumerate().filter(|(_, v)| v.served);
            versions
                .map(|(index, version)| Resource::of_crd(crd, index, version, conversion.clone()))
                .collect::<Vec<_>>()
        });
        let resources: Vec<Arc<Resource>> = builtin.chain(defined).map(Arc::new).collect();
        let index = resources
            .iter()
            .map(|r| ((r.group.clone(), r.version.clone(), r.plural.clone()), r.clone()))
            .collect();
        *self.served.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(Served { resources, index });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ranked_as_in_kubernetes() {
        let mut versions = ["v1alpha1", "v2", "v1beta2", "v10", "v1beta1", "foo", "v1"];
        versions.sort_by_key(|v| std::cmp::Reverse(version_rank(v)));
        assert_eq!(versions, ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "foo"]);
    }
}

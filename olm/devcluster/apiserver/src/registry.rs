//! The served resources: built-in ones and those of CustomResourceDefinitions.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, PoisonError, RwLock},
};

use olm_devcluster_machinery::{
    crd::{Column, Crd, CrdVersion},
    field_error::FieldError,
    layout::Layout,
};
use serde_json::Value;

use super::{
    convert::ConversionWebhook,
    kinds::{BUILTINS, Builtin},
};

/// A resource in one version.
pub(crate) struct Resource {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub list_kind: String,
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    pub status: bool,
    pub scale: Option<ScalePaths>,
    pub generation: bool,
    /// Storage key of its objects.
    pub stored: String,
    /// Field paths that field selectors support.
    pub fields: Vec<String>,
    pub body: Body,
}

/// Paths of a kind's replica counts.
#[derive(Debug, Clone)]
pub(crate) struct ScalePaths {
    pub spec_replicas: String,
    pub status_replicas: String,
    pub selector: Option<String>,
}

/// Definition of a resource.
pub(crate) enum Body {
    Builtin(&'static Builtin),
    Custom { crd: Arc<Crd>, version: usize, conversion: Option<Arc<ConversionWebhook>> },
}

impl Resource {
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    pub(crate) fn builtin(&self) -> Option<&'static Builtin> {
        match &self.body {
            Body::Builtin(builtin) => Some(builtin),
            Body::Custom { .. } => None,
        }
    }

    pub(crate) fn custom(&self) -> Option<&CrdVersion> {
        match &self.body {
            Body::Builtin(_) => None,
            Body::Custom { crd, version, .. } => crd.versions.get(*version),
        }
    }

    pub(crate) fn columns(&self) -> &[Column] {
        self.custom().map(|c| c.columns.as_slice()).unwrap_or_default()
    }

    pub(crate) fn layout(&self) -> Layout<'_> {
        match self.custom() {
            Some(custom) => Layout::custom(&custom.schema),
            None => Layout::builtin(&self.group, &self.kind),
        }
    }

    /// Name of the CRD of this resource.
    pub(crate) fn crd_name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    fn of_builtin(builtin: &'static Builtin) -> Self {
        let owned = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        let mut fields = owned(builtin.fields);
        fields.push("metadata.name".to_owned());
        if builtin.namespaced {
            fields.push("metadata.namespace".to_owned());
        }
        Self {
            group: builtin.group.to_owned(),
            version: builtin.version.to_owned(),
            kind: builtin.kind.to_owned(),
            list_kind: format!("{}List", builtin.kind),
            plural: builtin.plural.to_owned(),
            singular: builtin.singular.to_owned(),
            short_names: owned(builtin.short),
            categories: owned(builtin.categories),
            namespaced: builtin.namespaced,
            status: builtin.status,
            scale: builtin.scale.then(|| ScalePaths {
                spec_replicas: ".spec.replicas".to_owned(),
                status_replicas: ".status.replicas".to_owned(),
                selector: None,
            }),
            generation: builtin.generation,
            stored: builtin
                .stored_as
                .map_or_else(|| stored_key(builtin.group, builtin.plural), str::to_owned),
            fields,
            body: Body::Builtin(builtin),
        }
    }

    fn of_crd(
        crd: &Arc<Crd>,
        index: usize,
        version: &CrdVersion,
        conversion: Option<Arc<ConversionWebhook>>,
    ) -> Self {
        let mut fields = vec!["metadata.name".to_owned()];
        if crd.namespaced {
            fields.push("metadata.namespace".to_owned());
        }
        fields.extend(version.selectable_fields.iter().map(|f| f.trim_start_matches('.').to_owned()));
        Self {
            group: crd.group.clone(),
            version: version.name.clone(),
            kind: crd.kind.clone(),
            list_kind: crd.list_kind.clone(),
            plural: crd.plural.clone(),
            singular: crd.singular.clone(),
            short_names: crd.short_names.clone(),
            categories: crd.categories.clone(),
            namespaced: crd.namespaced,
            status: version.status,
            scale: version.scale.as_ref().map(|scale| ScalePaths {
                spec_replicas: scale.spec_replicas_path.clone(),
                status_replicas: scale.status_replicas_path.clone(),
                selector: scale.label_selector_path.clone(),
            }),
            generation: true,
            stored: stored_key(&crd.group, &crd.plural),
            fields,
            body: Body::Custom { crd: crd.clone(), version: index, conversion },
        }
    }
}

/// Storage key of a resource: `apps/deployments`, `/pods`.
pub(crate) fn stored_key(group: &str, plural: &str) -> String {
    format!("{group}/{plural}")
}

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
        for review in super::kinds::REVIEWS {
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

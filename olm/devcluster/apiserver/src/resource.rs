//! A served resource.

use std::sync::Arc;

use olm_devcluster_machinery::{
    crd::{Column, Crd, CrdVersion, ScalePaths},
    layout::Layout,
};

use super::{builtin::Builtin, convert::webhook::ConversionWebhook};

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

    pub(crate) fn of_builtin(builtin: &'static Builtin) -> Self {
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
                spec_replicas_path: ".spec.replicas".to_owned(),
                status_replicas_path: ".status.replicas".to_owned(),
                label_selector_path: None,
            }),
            generation: builtin.generation,
            stored: builtin
                .stored_as
                .map_or_else(|| stored_key(builtin.group, builtin.plural), str::to_owned),
            fields,
            body: Body::Builtin(builtin),
        }
    }

    pub(crate) fn of_crd(
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
            scale: version.scale.clone(),
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

//! What a plan knows of the objects that its object owns.

use std::sync::Arc;

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use kube::core::ApiResource;

use crate::kind::Object;

/// The objects that an object owns, as last seen by the watches. They may be older than the last apply.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    objects: Vec<(ApiResource, Arc<DynamicObject>)>,
}

impl Observed {
    pub(crate) fn new(objects: Vec<(ApiResource, Arc<DynamicObject>)>) -> Self {
        Self { objects }
    }

    /// The owned object of the same kind and name; if `object` has a namespace, in that namespace.
    #[must_use]
    pub fn get<C: Object>(&self, object: &C) -> Option<C> {
        let namespace = object.meta().namespace.as_ref();
        self.of_kind::<C>()
            .find(|found| {
                found.metadata.name == object.meta().name
                    && namespace.is_none_or(|namespace| found.metadata.namespace.as_ref() == Some(namespace))
            })
            .and_then(parse)
    }

    /// All owned objects of a kind, by name.
    #[must_use]
    pub fn all<C: Object>(&self) -> Vec<C> {
        let mut objects: Vec<C> = self.of_kind::<C>().filter_map(parse).collect();
        objects.sort_by_key(|object| (object.namespace(), object.name_any()));
        objects
    }

    /// The same with one more object, for tests of plans. An object of the same kind and name is replaced.
    ///
    /// # Panics
    /// Never: objects of Kubernetes are JSON objects.
    #[must_use]
    pub fn with<C: Object>(mut self, object: &C) -> Self {
        let kind = ApiResource::erase::<C>(&());
        let value = serde_json::to_value(object).expect("an object of Kubernetes is JSON");
        let erased: DynamicObject = serde_json::from_value(value).expect("it is a JSON object");
        self.objects.retain(|(of, found)| {
            *of != kind
                || found.metadata.name != erased.metadata.name
                || found.metadata.namespace != erased.metadata.namespace
        });
        self.objects.push((kind, Arc::new(erased)));
        self
    }

    fn of_kind<C: Object>(&self) -> impl Iterator<Item = &Arc<DynamicObject>> {
        let kind = ApiResource::erase::<C>(&());
        self.objects.iter().filter(move |(of, _)| *of == kind).map(|(_, object)| object)
    }
}

fn parse<C: Object>(object: &Arc<DynamicObject>) -> Option<C> {
    match DynamicObject::clone(object).try_parse() {
        Ok(typed) => Some(typed),
        Err(error) => {
            let (kind, name) = (C::kind(&()), object.name_any());
            tracing::warn!(%kind, name, %error, "ignoring an object that cannot be read");
            None
        }
    }
}

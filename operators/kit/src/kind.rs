//! The registration of a kind: its type, the kinds that it owns, and its plan.

use std::any::TypeId;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::{CustomResourceExt, Resource};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::failure::Failure;
use crate::observed::Observed;
use crate::plan::{Decision, Plan};

/// A Kubernetes object with a type: one of `k8s_openapi`, or one derived with `kube::CustomResource`.
/// Implemented for all of them.
pub trait Object:
    Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

impl<T> Object for T where
    T: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

/// A kind of object with its scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resourced {
    pub(crate) resource: ApiResource,
    pub(crate) namespaced: bool,
}

impl Resourced {
    pub(crate) fn of<C: Object>() -> Self {
        Self {
            resource: ApiResource::erase::<C>(&()),
            namespaced: TypeId::of::<C::Scope>() == TypeId::of::<NamespaceResourceScope>(),
        }
    }
}

/// Plans for an object; the error is that the object is not one of the kind, or that the plan is not valid.
pub(crate) type Decide = Arc<dyn Fn(&DynamicObject, &Observed) -> Result<Decision, Failure> + Send + Sync>;

/// A kind that an operator manages. Made by [`kind`].
#[derive(Clone)]
pub struct Kind {
    pub(crate) of: Resourced,
    pub(crate) definition: Value,
    pub(crate) schema: Value,
    pub(crate) owned: Vec<Resourced>,
    pub(crate) decide: Decide,
}

impl Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kind").field("of", &self.of).field("owned", &self.owned).finish_non_exhaustive()
    }
}

/// Begins the registration of the kind `K`. It grants the operator the rights to list and watch objects of the
/// kind and to patch their status.
#[must_use]
pub fn kind<K>() -> KindBuilder<K>
where
    K: Object + CustomResourceExt + JsonSchema,
{
    KindBuilder { owned: Vec::new(), kind: PhantomData }
}

/// The registration of a kind before its plan is known.
#[derive(Debug)]
pub struct KindBuilder<K> {
    owned: Vec<Resourced>,
    kind: PhantomData<fn() -> K>,
}

impl<K> KindBuilder<K>
where
    K: Object + CustomResourceExt + JsonSchema,
{
    /// Registers a kind of which plans of `K` contain objects. It grants the operator the rights to list,
    /// watch, create, patch and delete its objects.
    ///
    /// Owned objects are in the namespace of their owner; those of an owner without a namespace can be in any.
    #[must_use]
    pub fn owns<C: Object>(mut self) -> Self {
        let owned = Resourced::of::<C>();
        if !self.owned.contains(&owned) {
            self.owned.push(owned);
        }
        self
    }

    /// Completes the registration. `plan` is called after each change of an object or of an object that it
    /// owns, never twice at a time for the same object, and again after a failure. It must be a function of its
    /// arguments alone.
    ///
    /// # Panics
    /// Never: a definition made by `kube` and a schema made by `schemars` are JSON.
    pub fn plan<S>(self, plan: fn(&K, &Observed) -> Plan<S>) -> Kind
    where
        S: Serialize + 'static,
    {
        let of = Resourced::of::<K>();
        let settings = SchemaSettings::openapi3().with(|settings| settings.inline_subschemas = true);
        let schema = settings.into_generator().into_root_schema_for::<K>();
        Kind {
            decide: Arc::new(move |object, observed| {
                let typed: K =
                    object.clone().try_parse().map_err(|error| Failure::Unreadable(error.to_string()))?;
                // A plan that panics on one object does not stop the others.
                let planned = catch_unwind(AssertUnwindSafe(|| plan(&typed, observed)))
                    .map_err(|_| Failure::Plan("it panicked; the log has the message".to_owned()))?;
                planned.erase().map_err(Failure::Plan)
            }),
            definition: serde_json::to_value(K::crd()).expect("a definition made by kube is JSON"),
            schema: schema.to_value(),
            owned: self.owned,
            of,
        }
    }
}

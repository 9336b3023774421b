//! A plan: the objects that should exist, and the status.

use std::time::Duration;

use kube::core::ApiResource;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::kind::{Object, Resourced};

/// What should be true for an object: the objects that it owns, and its status.
///
/// An owned object that exists and is not in the plan is deleted, unless [`keep`](Self::keep) retains its kind.
/// Objects in a plan are complete: the kit applies them server-side, so fields that a plan leaves out belong to
/// others.
#[derive(Debug, Clone)]
#[must_use]
pub struct Plan<S> {
    objects: Vec<Desired>,
    kept: Vec<ApiResource>,
    status: Option<S>,
    ready: bool,
    message: String,
    again: Option<Duration>,
    invalid: Option<String>,
}

/// An object of a plan.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Desired {
    pub(crate) kind: Resourced,
    pub(crate) body: Value,
}

/// A plan without its types.
#[derive(Debug, Clone)]
pub(crate) struct Decision {
    pub(crate) objects: Vec<Desired>,
    pub(crate) kept: Vec<ApiResource>,
    pub(crate) status: Map<String, Value>,
    pub(crate) ready: bool,
    pub(crate) message: String,
    pub(crate) again: Option<Duration>,
}

impl<S> Default for Plan<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Plan<S> {
    /// A plan without objects, for an object that is ready.
    pub fn new() -> Self {
        Self {
            objects: Vec::new(),
            kept: Vec::new(),
            status: None,
            ready: true,
            message: String::new(),
            again: None,
            invalid: None,
        }
    }

    /// Adds an object that should exist. It needs a name. The kit sets its namespace to that of the owner if it
    /// has none, its owner reference and the label `app.kubernetes.io/managed-by`. Its status is not applied.
    ///
    /// The kind must be registered with [`owns`](crate::KindBuilder::owns): a plan with another one fails, and
    /// the object's condition `Ready` has the reason `InvalidPlan`.
    pub fn apply<C: Object>(mut self, object: C) -> Self {
        let kind = Resourced::of::<C>();
        match serde_json::to_value(&object) {
            Ok(mut body) => {
                body["apiVersion"] = kind.resource.api_version.clone().into();
                body["kind"] = kind.resource.kind.clone().into();
                if let Some(fields) = body.as_object_mut() {
                    fields.remove("status");
                }
                without_nulls(&mut body);
                self.objects.push(Desired { kind, body });
            }
            Err(error) => self.invalid = Some(format!("a {} is not JSON: {error}", kind.resource.kind)),
        }
        self
    }

    /// Retains owned objects of the kind `C` that are not in the plan, which are deleted otherwise.
    pub fn keep<C: Object>(mut self) -> Self {
        self.kept.push(ApiResource::erase::<C>(&()));
        self
    }

    /// Sets the status. The kit adds `observedGeneration` and `conditions`, for which the schema of the status
    /// needs fields. Without a status the kit reports these two alone.
    pub fn status(mut self, status: S) -> Self {
        self.status = Some(status);
        self
    }

    /// Sets the condition `Ready` and its message. Default: true, without a message.
    pub fn ready_when(mut self, ready: bool, message: impl Into<String>) -> Self {
        (self.ready, self.message) = (ready, message.into());
        self
    }

    /// Plans again after this time, in addition to changes. Default: after changes alone.
    pub fn requeue_after(mut self, delay: Duration) -> Self {
        self.again = Some(delay);
        self
    }

    /// The objects of a kind in the plan, for tests.
    #[must_use]
    pub fn objects<C: Object>(&self) -> Vec<C> {
        let kind = Resourced::of::<C>();
        let of_kind = self.objects.iter().filter(|object| object.kind == kind);
        of_kind.filter_map(|object| serde_json::from_value(object.body.clone()).ok()).collect()
    }

    /// The status in the plan, for tests.
    #[must_use]
    pub const fn reported(&self) -> Option<&S> {
        self.status.as_ref()
    }

    /// The condition `Ready` of the plan, for tests.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        self.ready
    }
}

impl<S: Serialize> Plan<S> {
    /// The same without its types, or what is wrong with it.
    pub(crate) fn erase(self) -> Result<Decision, String> {
        if let Some(invalid) = self.invalid {
            return Err(invalid);
        }
        let mut status = match self.status.map(serde_json::to_value) {
            None => Value::Object(Map::new()),
            Some(Ok(status)) => status,
            Some(Err(error)) => return Err(format!("the status is not JSON: {error}")),
        };
        without_nulls(&mut status);
        let Value::Object(mut status) = status else {
            return Err("the status is not a JSON object".to_owned());
        };
        // They belong to the kit.
        status.retain(|field, _| field != "conditions" && field != "observedGeneration");
        let Self { objects, kept, ready, message, again, .. } = self;
        Ok(Decision { objects, kept, status, ready, message, again })
    }
}

/// Removes fields without a value: a server-side apply of `null` would claim the field.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

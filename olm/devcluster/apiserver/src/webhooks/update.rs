//! Admission webhooks for an update of an object.

use std::sync::Arc;

use olm_devcluster_machinery::crd::ScalePaths;
use serde_json::Value;

use super::{
    mutate::mutate,
    request::{AdmissionRequest, Operation, options},
    validate::validate,
};
use crate::{
    call::Call,
    replicas::{adopt_scale, scale_of},
    status::ApiResult,
};

/// Form of the object for webhooks.
enum View<'a> {
    Whole,
    Scale(&'a ScalePaths),
    /// Already called, for another object (`Binding`).
    Nothing,
}

/// Calls webhooks for an update.
pub(crate) struct UpdateAdmission<'a> {
    call: &'a Call<'a>,
    view: View<'a>,
    old: Arc<Value>,
    dry_run: bool,
}

impl<'a> UpdateAdmission<'a> {
    /// `live` is the old object, in the version of the request.
    pub(crate) fn new(call: &'a Call<'a>, live: &Arc<Value>, dry_run: bool) -> Self {
        let view = match (call.info.subresource.as_str(), &call.resource.scale) {
            ("binding", _) => View::Nothing,
            ("scale", Some(paths)) => View::Scale(paths),
            _ => View::Whole,
        };
        let old = match &view {
            View::Scale(paths) => Arc::new(scale_of(live, paths)),
            View::Whole | View::Nothing => live.clone(),
        };
        Self { call, view, old, dry_run }
    }

    fn admission<'s>(&'s self, options: &'s (dyn Fn() -> Value + Sync)) -> AdmissionRequest<'s> {
        AdmissionRequest {
            server: self.call.server,
            resource: self.call.resource,
            subresource: &self.call.info.subresource,
            caller: self.call.caller,
            operation: Operation::Update,
            namespace: &self.call.info.namespace,
            name: &self.call.info.name,
            old: Some(&self.old),
            dry_run: self.dry_run,
            options,
            warnings: &self.call.warnings,
        }
    }

    fn options(&self) -> Value {
        options(self.call, "UpdateOptions")
    }

    /// Whether any webhook has a rule for the update.
    pub(crate) fn matches_any(&self) -> bool {
        !matches!(self.view, View::Nothing) && self.admission(&|| self.options()).matches_any()
    }

    /// Calls the mutating webhooks; returns whether the object changed.
    pub(crate) async fn mutate(&self, object: &mut Value) -> ApiResult<bool> {
        let options = || self.options();
        let admission = self.admission(&options);
        let View::Scale(paths) = &self.view else {
            return mutate(&admission, Some(object), &mut |_| Ok(())).await;
        };
        let mut seen = scale_of(object, paths);
        let changed = mutate(&admission, Some(&mut seen), &mut |_| Ok(())).await?;
        if changed {
            adopt_scale(object, paths, &seen);
        }
        Ok(changed)
    }

    pub(crate) async fn validate(&self, object: &Value) -> ApiResult<()> {
        let options = || self.options();
        let admission = self.admission(&options);
        match &self.view {
            View::Scale(paths) => validate(&admission, Some(&scale_of(object, paths))).await,
            View::Whole | View::Nothing => validate(&admission, Some(object)).await,
        }
    }
}

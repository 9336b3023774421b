//! CustomResourceDefinitions as the dev cluster serves them: the rules are those of `olm-kube-schema`, the status is
//! computed here.

mod status;

use serde_json::Value;

pub use self::status::{compute_status, has_accepted_names};
pub use olm_kube_schema::definition::{
    Column, Crd, CrdVersion, ScalePaths, is_established, json_path, parse, validate_update,
};

/// Sets Kubernetes' defaults, including those of the conversion webhook's service.
pub fn set_defaults(crd: &mut Value) {
    olm_kube_schema::definition::set_defaults(crd);
    let service = crd.pointer_mut("/spec/conversion/webhook/clientConfig/service");
    if let Some(service) = service.and_then(Value::as_object_mut) {
        service.entry("port").or_insert(443.into());
    }
}

#[cfg(test)]
mod tests;

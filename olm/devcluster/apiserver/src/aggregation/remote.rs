//! One extension API server.

use serde_json::Value;

use super::front::FrontProxy;
use crate::{
    meta::{self, list, text},
    outbound::{Endpoint, Trust, decode_bundle},
};

/// Default port of the Service.
const HTTPS: u16 = 443;

/// An APIService with a Service.
#[derive(Debug)]
pub(crate) struct Remote {
    pub name: String,
    pub group: String,
    pub version: String,
    pub group_priority: i64,
    pub version_priority: i64,
    pub namespace: String,
    pub service: String,
    pub port: u16,
    /// Status of its condition.
    pub available: bool,
    pub endpoint: Result<Endpoint, String>,
}

impl Remote {
    /// Reads a stored APIService; `None` for a local one.
    pub(super) fn of(object: &Value, front: &FrontProxy) -> Option<Self> {
        let spec = object.get("spec")?;
        let service = spec.get("service").filter(|s| s.is_object())?;
        let (namespace, name) = (text(service, "/namespace"), text(service, "/name"));
        let port = service["port"].as_u64().and_then(|p| u16::try_from(p).ok()).unwrap_or(HTTPS);
        let endpoint = decode_bundle(text(spec, "/caBundle")).and_then(|bundle| {
            let trust = if spec["insecureSkipTLSVerify"] == true {
                Trust::Unverified
            } else {
                Trust::Authorities(&bundle)
            };
            Endpoint::of_service(namespace, name, port, "", &trust, Some(&front.identity))
        });
        let priority = |key: &str| spec[key].as_i64().unwrap_or_default();
        Some(Self {
            name: meta::name(object).to_owned(),
            group: text(spec, "/group").to_owned(),
            version: text(spec, "/version").to_owned(),
            group_priority: priority("groupPriorityMinimum"),
            version_priority: priority("versionPriority"),
            namespace: namespace.to_owned(),
            service: name.to_owned(),
            port,
            available: list(object, "/status/conditions")
                .iter()
                .any(|c| c["type"] == "Available" && c["status"] == "True"),
            endpoint,
        })
    }
}

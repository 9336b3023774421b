//! `api.Registry` over a catalog, as `opm serve` answers it.
//!
//! Deliberate differences: a missing object is the status `NotFound` (there `Unknown`) with the same message,
//! answers have a fixed order, and `ListBundles` lists package by package (there channel by channel over all
//! packages).

mod bundle;
mod csv;
mod custom;
mod entries;
mod packages;
mod service;

use custom::Experimental;
use olm_registry_api::FILE_DESCRIPTOR_SET;
use olm_registry_api::experimental_registry_server::ExperimentalRegistryServer;
use olm_registry_api::registry_server::RegistryServer;
use service::Service;
use tonic::service::{Routes, RoutesBuilder};

use crate::current::Current;

/// The services of a catalog's port: `api.Registry`, `api.ExperimentalRegistry`, `grpc.health.v1.Health` and
/// server reflection (v1 and v1alpha).
/// # Errors
/// When the descriptors for reflection cannot be decoded, which a build of this crate never has.
pub async fn registry(catalog: Current) -> Result<Routes, tonic_reflection::server::Error> {
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    // The whole server (the empty name, which probes request) is serving from the start.
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_serving::<RegistryServer<Service>>().await;
    reporter.set_serving::<ExperimentalRegistryServer<Experimental>>().await;

    let mut routes = RoutesBuilder::default();
    routes
        .add_service(RegistryServer::new(Service::new(catalog.clone())))
        .add_service(ExperimentalRegistryServer::new(Experimental::new(catalog)))
        .add_service(health)
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?);
    Ok(routes.routes())
}

#[cfg(test)]
mod tests;

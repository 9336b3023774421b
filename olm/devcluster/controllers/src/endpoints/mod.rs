//! Endpoints and EndpointSlices of Services with a selector.
//!
//! [`build`] computes the desired objects; this file writes the differences.

mod build;

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::{
    core::v1::{Endpoints, Pod, Service},
    discovery::v1::EndpointSlice,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, PostParams},
};

use super::{
    cache::{Cache, Key},
    error::{During, Error, unless_gone},
};
pub(crate) use build::{selects, service_of};

pub(crate) struct Controller {
    pub(crate) client: Client,
    pub(crate) services: Arc<Cache<Service>>,
    pub(crate) pods: Arc<Cache<Pod>>,
    pub(crate) endpoints: Arc<Cache<Endpoints>>,
    pub(crate) slices: Arc<Cache<EndpointSlice>>,
}

impl Controller {
    pub(crate) async fn reconcile(&self, key: Key) -> Result<Option<Duration>, Error> {
        let Some(service) = self.services.get(&key) else {
            self.delete_endpoints(&key).await?;
            for slice in self.slices_of(&key) {
                self.delete_slice(&slice).await?;
            }
            return Ok(None);
        };
        // Without a selector another writer manages them, and a Service that is being deleted gets no new
        // objects.
        if !build::has_selector(&service) || service.metadata.deletion_timestamp.is_some() {
            return Ok(None);
        }
        let pods = self.pods.list(&key.namespace);
        let pods: Vec<&Pod> = pods.iter().map(|pod| &**pod).filter(|pod| selects(&service, pod)).collect();
        self.write_slices(&key, build::slices(&service, &pods)).await?;
        self.write_endpoints(&key, build::endpoints(&service, &pods)).await?;
        Ok(None)
    }

    fn slices_of(&self, service: &Key) -> Vec<Arc<EndpointSlice>> {
        let slices = self.slices.list(&service.namespace);
        slices.into_iter().filter(|slice| service_of(slice).as_ref() == Some(service)).collect()
    }

    async fn write_slices(&self, service: &Key, wanted: Vec<EndpointSlice>) -> Result<(), Error> {
        let api: Api<EndpointSlice> = Api::namespaced(self.client.clone(), &service.namespace);
        for slice in self.slices_of(service) {
            if !wanted.iter().any(|wanted| wanted.metadata.name == slice.metadata.name) {
                self.delete_slice(&slice).await?;
            }
        }
        for mut slice in wanted {
            let key = Key::of(&slice);
            let known = self.slices.get(&key);
            if known.as_ref().is_some_and(|known| build::same_slice(known, &slice)) {
                continue;
            }
            slice.metadata.resource_version = known.as_ref().and_then(|known| known.resource_version());
            let params = PostParams::default();
            let result = match known {
                Some(_) => api.replace(&key.name, &params, &slice).await,
                None => api.create(&params, &slice).await,
            };
            self.slices.assume(result.during(|| format!("write endpoint slice {key}"))?);
        }
        Ok(())
    }

    async fn write_endpoints(&self, service: &Key, mut wanted: Endpoints) -> Result<(), Error> {
        let known = self.endpoints.get(service);
        if known.as_ref().is_some_and(|known| build::same_endpoints(known, &wanted)) {
            return Ok(());
        }
        let api: Api<Endpoints> = Api::namespaced(self.client.clone(), &service.namespace);
        wanted.metadata.resource_version = known.as_ref().and_then(|known| known.resource_version());
        let params = PostParams::default();
        let result = match known {
            Some(_) => api.replace(&service.name, &params, &wanted).await,
            None => api.create(&params, &wanted).await,
        };
        self.endpoints.assume(result.during(|| format!("write endpoints {service}"))?);
        Ok(())
    }

    async fn delete_endpoints(&self, key: &Key) -> Result<(), Error> {
        let Some(known) = self.endpoints.get(key) else { return Ok(()) };
        if !build::is_managed(&known) {
            return Ok(());
        }
        let api: Api<Endpoints> = Api::namespaced(self.client.clone(), &key.namespace);
        let result = api.delete(&key.name, &DeleteParams::default()).await;
        unless_gone(result.during(|| format!("delete endpoints {key}"))).map(|_| ())
    }

    async fn delete_slice(&self, slice: &EndpointSlice) -> Result<(), Error> {
        let key = Key::of(slice);
        let api: Api<EndpointSlice> = Api::namespaced(self.client.clone(), &key.namespace);
        let result = api.delete(&key.name, &DeleteParams::default()).await;
        unless_gone(result.during(|| format!("delete endpoint slice {key}"))).map(|_| ())
    }
}

//! Default objects of every namespace: the ServiceAccount `default` and the cluster's CA as ConfigMap
//! `kube-root-ca.crt`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::{
    cache::{Cache, Key},
    error::{During, Error},
};

pub(crate) const ACCOUNT: &str = "default";
pub(crate) const CA_MAP: &str = "kube-root-ca.crt";
const CA_KEY: &str = "ca.crt";

pub(crate) struct Controller {
    pub(crate) client: Client,
    pub(crate) namespaces: Arc<Cache<Namespace>>,
    pub(crate) accounts: Arc<Cache<ServiceAccount>>,
    pub(crate) ca_maps: Arc<Cache<ConfigMap>>,
    pub(crate) root_ca_pem: String,
}

impl Controller {
    /// `key` names the namespace.
    pub(crate) async fn reconcile(&self, key: Key) -> Result<Option<Duration>, Error> {
        let Some(namespace) = self.namespaces.get(&key) else { return Ok(None) };
        if namespace.metadata.deletion_timestamp.is_some() {
            return Ok(None);
        }
        let namespace = namespace.name_any();
        self.account(&namespace).await?;
        self.root_ca(&namespace).await?;
        Ok(None)
    }

    async fn account(&self, namespace: &str) -> Result<(), Error> {
        if self.accounts.get(&Key::new(namespace, ACCOUNT)).is_some() {
            return Ok(());
        }
        let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let mut account = ServiceAccount::default();
        account.metadata.name = Some(ACCOUNT.to_owned());
        account.metadata.namespace = Some(namespace.to_owned());
        let result = api.create(&PostParams::default(), &account).await;
        if let Some(created) =
            unless_exists(result, || format!("create service account {namespace}/{ACCOUNT}"))?
        {
            self.accounts.assume(created);
        }
        Ok(())
    }

    async fn root_ca(&self, namespace: &str) -> Result<(), Error> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let data = BTreeMap::from([(CA_KEY.to_owned(), self.root_ca_pem.clone())]);
        match self.ca_maps.get(&Key::new(namespace, CA_MAP)) {
            Some(map) if map.data.as_ref() == Some(&data) => Ok(()),
            Some(_) => {
                let patch = Patch::Merge(json!({ "data": data }));
                let result = api.patch(CA_MAP, &PatchParams::default(), &patch).await;
                self.ca_maps.assume(result.during(|| format!("update config map {namespace}/{CA_MAP}"))?);
                Ok(())
            }
            None => {
                let mut map = ConfigMap { data: Some(data), ..ConfigMap::default() };
                map.metadata.name = Some(CA_MAP.to_owned());
                map.metadata.namespace = Some(namespace.to_owned());
                let result = api.create(&PostParams::default(), &map).await;
                if let Some(created) =
                    unless_exists(result, || format!("create config map {namespace}/{CA_MAP}"))?
                {
                    self.ca_maps.assume(created);
                }
                Ok(())
            }
        }
    }
}

/// An existing object, or a namespace that is being deleted, is not an error.
fn unless_exists<T>(
    result: Result<T, kube::Error>,
    action: impl FnOnce() -> String,
) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(kube::Error::Api(status))
            if status.is_already_exists()
                || status.code == 404
                || status.code == 403 && is_terminating(&status) =>
        {
            Ok(None)
        }
        Err(error) => Err(error).during(action),
    }
}

fn is_terminating(status: &kube::core::Status) -> bool {
    status.message.contains("being terminated")
}

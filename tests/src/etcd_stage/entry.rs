//! How the test's own clients and eyes get in to members: plainly, or with the certificate of a Secret.

use std::{
    net::Ipv4Addr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, Result};
use etcd_client::{Certificate, Client, ConnectOptions, Identity, TlsOptions};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;

/// Of one stage. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub struct Entry {
    through: Arc<Mutex<Option<Through>>>,
}

#[derive(Clone)]
struct Through {
    secrets: Api<Secret>,
    secret: String,
    server: String,
}

impl Entry {
    pub(super) fn set(&self, secrets: Api<Secret>, secret: &str, server: &str) {
        let through = Through { secrets, secret: secret.to_owned(), server: server.to_owned() };
        *self.through.lock().unwrap_or_else(PoisonError::into_inner) = Some(through);
    }

    /// A client of one member that waits so long for answers. The Secret is read anew for each, as applications are told to.
    ///
    /// # Errors
    /// When the Secret is not there, or the address is none.
    pub async fn client(&self, ip: Ipv4Addr, limit: Duration) -> Result<Client> {
        let options = ConnectOptions::new().with_connect_timeout(limit).with_timeout(limit);
        let through = self.through.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(Through { secrets, secret, server }) = through else {
            return Ok(Client::connect([format!("http://{ip}:2379")], Some(options)).await?);
        };
        let data = secrets.get(&secret).await?.data.unwrap_or_default();
        let key = |name: &str| {
            data.get(name)
                .map(|value| value.0.clone())
                .with_context(|| format!("Secret {secret} has no {name}"))
        };
        let tls = TlsOptions::new()
            .domain_name(server)
            .ca_certificate(Certificate::from_pem(key("etcd-client-ca.crt")?))
            .identity(Identity::from_pem(key("etcd-client.crt")?, key("etcd-client.key")?));
        Ok(Client::connect([format!("https://{ip}:2379")], Some(options.with_tls(tls))).await?)
    }
}

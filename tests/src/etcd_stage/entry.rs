//! Access of the test's own clients to members: plain, or with the certificate of a Secret.

use std::{
    net::Ipv4Addr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, Result};
use etcd_client::{Certificate, Client, ConnectOptions, Identity, TlsOptions};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;

/// Access to one stage. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub struct Entry {
    through: Arc<Mutex<Option<Through>>>,
}

#[derive(Clone)]
struct Through {
    secrets: Api<Secret>,
    secret: String,
    server: String,
    /// The password of user root.
    root: Option<String>,
}

impl Entry {
    pub(super) fn set(&self, secrets: Api<Secret>, secret: &str, server: &str) {
        let through = Through { secrets, secret: secret.to_owned(), server: server.to_owned(), root: None };
        *self.through.lock().unwrap_or_else(PoisonError::into_inner) = Some(through);
    }

    pub(super) fn set_root(&self, password: &str) {
        let mut through = self.through.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(through) = &mut *through {
            through.root = Some(password.to_owned());
        }
    }

    /// A client of one member with this timeout. The Secret is read anew for each, as applications should.
    /// # Errors
    /// When the Secret is missing, or the address invalid.
    pub async fn client(&self, ip: Ipv4Addr, limit: Duration) -> Result<Client> {
        let options = ConnectOptions::new().with_connect_timeout(limit).with_timeout(limit);
        let through = self.through.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(Through { secrets, secret, server, root }) = through else {
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
        let (url, options) = (format!("https://{ip}:2379"), options.with_tls(tls));
        let Some(password) = root else { return Ok(Client::connect([url], Some(options)).await?) };
        let named = options.clone().with_user("root", password);
        match Client::connect([&url], Some(named)).await {
            // Not yet, or not as that user: unauthenticated answers are still observed.
            Err(error) if error.to_string().contains("authentication") => {
                Ok(Client::connect([url], Some(options)).await?)
            }
            other => Ok(other?),
        }
    }
}

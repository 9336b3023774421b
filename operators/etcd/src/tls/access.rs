//! Credentials of the operator for the members of a cluster.

use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use etcd_client::{Certificate, ConnectOptions, Identity, TlsOptions};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;

use super::material::Data;
use super::{CertificateRole, Fault, Files};

/// Client certificate, trusted authorities, expected server name, and user; all optional.
#[derive(Clone, Default)]
pub struct Access {
    inner: Arc<Inner>,
}

#[derive(Clone, Default, Hash)]
struct Inner {
    tls: Option<Tls>,
    user: Option<(String, String)>,
}

#[derive(Clone, Hash)]
struct Tls {
    certificate: Vec<u8>,
    key: Vec<u8>,
    authorities: Vec<u8>,
    name: String,
}

/// Never prints keys or passwords.
impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tls = self.inner.tls.as_ref().map(|tls| &tls.name);
        let user = self.inner.user.as_ref().map(|(name, _)| name);
        f.debug_struct("Access").field("tls", &tls).field("user", &user).finish()
    }
}

impl Access {
    #[must_use]
    pub fn plain() -> Self {
        Self::default()
    }

    /// Whether a user is configured; authentication may not be enabled in etcd yet.
    #[must_use]
    pub fn has_user(&self) -> bool {
        self.inner.user.is_some()
    }

    /// With the client certificate of `files`, for servers of this name.
    pub(crate) fn tls(files: &Files, name: String) -> Self {
        let tls = Tls {
            certificate: files.pair.certificate.clone(),
            key: files.pair.key.clone(),
            authorities: files.authorities_pem.clone(),
            name,
        };
        Self { inner: Arc::new(Inner { tls: Some(tls), user: None }) }
    }

    /// From a Secret with `etcd-client.crt`, `etcd-client.key` and `etcd-client-ca.crt`, for servers of this
    /// name.
    /// # Errors
    /// An invalid Secret.
    pub fn client(
        name: &str,
        secret: Option<&Secret>,
        server: &str,
        now: Timestamp,
    ) -> Result<Self, Vec<Fault>> {
        let data = secret.map(data);
        let files = Files::read(name, CertificateRole::Operator, data.as_ref(), now)?;
        Ok(Self::tls(&files, server.to_owned()))
    }

    #[must_use]
    pub fn with_user(&self, name: &str, password: &str) -> Self {
        let inner = Inner { tls: self.inner.tls.clone(), user: Some((name.to_owned(), password.to_owned())) };
        Self { inner: Arc::new(inner) }
    }

    #[must_use]
    pub fn without_user(&self) -> Self {
        Self { inner: Arc::new(Inner { tls: self.inner.tls.clone(), user: None }) }
    }

    /// User name and password.
    pub(crate) fn user(&self) -> Option<(&str, &str)> {
        self.inner.user.as_ref().map(|(name, password)| (name.as_str(), password.as_str()))
    }

    /// `http` or `https`.
    #[must_use]
    pub fn scheme(&self) -> &'static str {
        if self.inner.tls.is_some() { "https" } else { "http" }
    }

    /// A hash over all fields.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.inner.hash(&mut hasher);
        hasher.finish()
    }

    #[must_use]
    pub fn options(&self, mut options: ConnectOptions) -> ConnectOptions {
        if let Some(tls) = &self.inner.tls {
            options = options.with_tls(
                TlsOptions::new()
                    .domain_name(&tls.name)
                    .ca_certificate(Certificate::from_pem(&tls.authorities))
                    .identity(Identity::from_pem(&tls.certificate, &tls.key)),
            );
        }
        if let Some((name, password)) = &self.inner.user {
            options = options.with_user(name, password).with_auto_token_refresh(true);
        }
        options
    }
}

pub(crate) fn data(secret: &Secret) -> Data {
    secret.data.iter().flatten().map(|(key, value)| (key.clone(), value.0.clone())).collect()
}

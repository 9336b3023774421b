//! Authentication of this server at extension API servers: the front-proxy certificates, and the ConfigMap
//! that publishes them.

use std::path::Path;

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, date_time_ymd};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};

use crate::{
    outbound::ClientIdentity,
    tls::{FileError, authority},
};

/// The client name that extension API servers accept, as in kubeadm.
const NAME: &str = "front-proxy-client";
const USER: &str = "X-Remote-User";
const UID: &str = "X-Remote-Uid";
const GROUP: &str = "X-Remote-Group";
const EXTRA: &str = "X-Remote-Extra-";

/// The certificate authority for front proxies, and this server's client certificate.
pub(crate) struct FrontProxy {
    pub ca_pem: String,
    pub identity: ClientIdentity,
}

impl FrontProxy {
    /// Reads or creates the authority, and creates a certificate.
    pub(crate) fn open(directory: Option<&Path>) -> Result<Self, FileError> {
        const CERTIFICATE: &str = "front-proxy-ca.crt";
        let (ca_pem, issuer) =
            authority(directory, "front-proxy-ca.key", CERTIFICATE, "olm dev cluster front proxy")?;
        let fail = |error: rcgen::Error| FileError::new(directory, CERTIFICATE, error);
        let key = KeyPair::generate().map_err(fail)?;
        let certificate = client().signed_by(&key, &issuer).map_err(fail)?;
        let identity = ClientIdentity {
            chain: vec![certificate.der().clone()],
            key: PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
        };
        Ok(Self { ca_pem, identity })
    }

    /// The ConfigMap with the authentication settings for extension API servers.
    pub(crate) fn config_map(&self, client_ca: &str) -> Value {
        let words = |word: &str| json!([word]).to_string();
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "extension-apiserver-authentication", "namespace": "kube-system" },
            "data": {
                "client-ca-file": client_ca,
                "requestheader-client-ca-file": self.ca_pem,
                "requestheader-allowed-names": words(NAME),
                "requestheader-username-headers": words(USER),
                "requestheader-uid-headers": words(UID),
                "requestheader-group-headers": words(GROUP),
                "requestheader-extra-headers-prefix": words(EXTRA),
            },
        })
    }
}

fn client() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, NAME);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2060, 1, 1);
    params.use_authority_key_identifier_extension = true;
    params
}

//! The cluster's certificate authority and serving certificate, stored in the data directory.

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    path::Path,
    sync::Arc,
};

use olm_devcluster_machinery::private;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, date_time_ymd,
};
use rustls::{ServerConfig, pki_types::PrivateKeyDer};
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer, pem::PemObject};

use super::OBJECTS;

/// A file of the data directory that could not be read, created or parsed.
#[derive(Debug, thiserror::Error)]
#[error("failed to use {path}: {reason}")]
pub struct FileError {
    path: String,
    reason: String,
}

impl FileError {
    pub(crate) fn new(directory: Option<&Path>, name: &str, reason: impl ToString) -> Self {
        let path = directory.map_or_else(|| name.to_owned(), |d| d.join(name).display().to_string());
        Self { path, reason: reason.to_string() }
    }
}

/// Reads or creates a secret file (complete or absent even after a crash). Its mode is 0600 afterwards.
pub(crate) fn read_or_make(
    directory: Option<&Path>,
    name: &str,
    make: impl FnOnce() -> Result<Vec<u8>, String>,
) -> Result<Vec<u8>, FileError> {
    let fail = |reason: String| FileError::new(directory, name, reason);
    let Some(directory) = directory else { return make().map_err(fail) };
    let path = directory.join(name);
    match private::read(&path) {
        Ok(bytes) => return Ok(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(fail(error.to_string())),
    }
    let bytes = make().map_err(fail)?;
    private::write(&path, &bytes).map_err(|error| fail(error.to_string()))?;
    Ok(bytes)
}

/// Creates the data directory, readable only by its owner; the mode of an existing one is corrected.
pub(crate) fn make_directory(directory: &Path) -> Result<(), FileError> {
    private::claim_directory(directory, OBJECTS).map_err(|error| FileError::new(Some(directory), "", error))
}

/// The certificate authority and its serving certificate.
pub(crate) struct Authority {
    pub ca_pem: String,
    pub config: Arc<ServerConfig>,
}

impl Authority {
    /// Reads or creates the authority, and creates a serving certificate for the names of this server.
    pub(crate) fn open(
        directory: Option<&Path>,
        names: &[String],
        addresses: &[IpAddr],
    ) -> Result<Self, FileError> {
        let (ca_pem, issuer) = authority(directory, "ca.key", "ca.crt", "olm dev cluster")?;
        let fail = |error: &dyn ToString| FileError::new(directory, "ca.crt", error.to_string());
        let ca_der = CertificateDer::from_pem_slice(ca_pem.as_bytes()).map_err(|e| fail(&e))?;
        let serving_key = KeyPair::generate().map_err(|e| fail(&e))?;
        let serving = serving_params(names, addresses)
            .map_err(|e| fail(&e))?
            .signed_by(&serving_key, &issuer)
            .map_err(|e| fail(&e))?;
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(serving_key.serialize_der()));
        let mut config =
            ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(|e| fail(&e))?
                .with_no_client_auth()
                .with_single_cert(vec![serving.der().clone(), ca_der], private)
                .map_err(|e| fail(&e))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { ca_pem, config: Arc::new(config) })
    }
}

/// Reads or creates a certificate authority: its certificate as PEM, and the issuer of certificates.
pub(crate) fn authority(
    directory: Option<&Path>,
    key_file: &str,
    certificate_file: &str,
    name: &str,
) -> Result<(String, Issuer<'static, KeyPair>), FileError> {
    let text = |file: &str, bytes: Vec<u8>| {
        String::from_utf8(bytes).map_err(|error| FileError::new(directory, file, error))
    };
    let make_key =
        || KeyPair::generate().map(|key| key.serialize_pem().into_bytes()).map_err(|e| e.to_string());
    let key_pem = text(key_file, read_or_make(directory, key_file, make_key)?)?;
    let key = KeyPair::from_pem(&key_pem).map_err(|e| FileError::new(directory, key_file, e))?;
    let make_certificate = || {
        let certificate = authority_params(name).self_signed(&key).map_err(|e| e.to_string())?;
        Ok(certificate.pem().into_bytes())
    };
    let pem = text(certificate_file, read_or_make(directory, certificate_file, make_certificate)?)?;
    let issuer = Issuer::from_ca_cert_pem(&pem, key)
        .map_err(|error| FileError::new(directory, certificate_file, error))?;
    Ok((pem, issuer))
}

fn authority_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2060, 1, 1);
    params
}

fn serving_params(names: &[String], addresses: &[IpAddr]) -> Result<CertificateParams, rcgen::Error> {
    let fixed = [
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    ];
    let all: Vec<String> = fixed.iter().map(|n| (*n).to_owned()).chain(names.iter().cloned()).collect();
    let mut params = CertificateParams::new(all)?;
    let own = [
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V4(Ipv4Addr::new(10, 96, 0, 1)),
        "::1".parse().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)),
    ];
    for address in own.iter().chain(addresses) {
        let san = SanType::IpAddress(*address);
        if !params.subject_alt_names.contains(&san) {
            params.subject_alt_names.push(san);
        }
    }
    params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2060, 1, 1);
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

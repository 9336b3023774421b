//! Verification of servers that the API server calls, with error messages in Go's wording.

use std::{io, sync::Arc};

use rustls::{
    CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::CryptoProvider,
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};
use rustls_pki_types::pem::PemObject;

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Trusts the authorities of a `caBundle`. As in Go, a certificate that is itself in the bundle is trusted
/// too: small webhooks use self-signed ones.
#[derive(Debug)]
pub(crate) struct Bundle {
    listed: Vec<CertificateDer<'static>>,
    inner: Arc<WebPkiServerVerifier>,
}

impl Bundle {
    pub(crate) fn read(pem: &[u8]) -> Result<Self, String> {
        let listed: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(pem)
            .collect::<Result<_, _>>()
            .map_err(|error| format!("unable to load root certificates: {error}"))?;
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(listed.iter().cloned());
        if roots.is_empty() {
            return Err("unable to load root certificates: unable to parse bytes as PEM block".to_owned());
        }
        let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider())
            .build()
            .map_err(|error| format!("unable to load root certificates: {error}"))?;
        Ok(Self { listed, inner })
    }
}

impl ServerCertVerifier for Bundle {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.listed.iter().any(|c| c == end_entity) {
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
            return Ok(ServerCertVerified::assertion());
        }
        self.inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// A failed handshake in Go's wording, which users search for.
pub(crate) fn go_message(error: &io::Error, name: &ServerName<'_>) -> String {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    let failed = "tls: failed to verify certificate: x509:";
    match cause {
        // A bad signature comes from another authority with the same name, as after a rotation.
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature)) => {
            format!("{failed} certificate signed by unknown authority")
        }
        Some(Error::InvalidCertificate(
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. },
        )) => format!("{failed} certificate has expired or is not yet valid"),
        Some(Error::InvalidCertificate(CertificateError::NotValidForNameContext { presented, .. })) => {
            let (address, none) = (
                matches!(name, ServerName::IpAddress(_)),
                !presented.iter().any(|p| p.starts_with("IpAddress")),
            );
            if address && none {
                let why = "because it doesn't contain any IP SANs";
                return format!("{failed} cannot validate certificate for {} {why}", name.to_str());
            }
            let valid: Vec<&str> = presented
                .iter()
                .map(|p| p.trim_start_matches("DnsName(\"").trim_end_matches("\")"))
                .collect();
            format!("{failed} certificate is valid for {}, not {}", valid.join(", "), name.to_str())
        }
        Some(Error::InvalidCertificate(CertificateError::NotValidForName)) => {
            format!("{failed} certificate is not valid for {}", name.to_str())
        }
        Some(other) => format!("tls: {other}"),
        None if error.kind() == io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
        None => error.to_string(),
    }
}

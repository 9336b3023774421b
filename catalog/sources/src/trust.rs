//! Server trust: certificates signed by the system's authorities, or given explicitly.
//!
//! A given certificate is an authority, and also a server certificate where a server presents exactly that
//! one: `openssl req -x509` creates such certificates, marked as authorities. curl and Go accept them.

use std::sync::Arc;

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
    server::ParsedCertificate,
};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::error::SourceError;

/// TLS that trusts the certificates of the PEM bundles in addition to the system's authorities.
pub(crate) fn config(bundles: &[Vec<u8>]) -> Result<ClientConfig, SourceError> {
    let options = |reason: String| SourceError::Options { reason };
    let mut given = Vec::new();
    for bundle in bundles {
        let found = CertificateDer::pem_slice_iter(bundle).collect::<Result<Vec<_>, _>>();
        let found = found.map_err(|error| options(format!("the CA certificates are not PEM: {error}")))?;
        if found.is_empty() {
            return Err(options("the CA certificates contain no PEM certificate".to_owned()));
        }
        given.extend(found);
    }
    let mut authorities = RootCertStore::empty();
    for certificate in &given {
        let added = authorities.add(certificate.clone());
        added.map_err(|error| options(format!("a CA certificate is not X.509: {error}")))?;
    }
    // A minimal container has none; the given ones still work.
    authorities.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let authorities = WebPkiServerVerifier::builder(Arc::new(authorities))
        .build()
        .map_err(|error| options(format!("invalid CA certificates: {error}")))?;
    Ok(ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier { authorities, given }))
        .with_no_client_auth())
}

#[derive(Debug)]
struct Verifier {
    authorities: Arc<WebPkiServerVerifier>,
    given: Vec<CertificateDer<'static>>,
}

impl Verifier {
    /// Checks a given certificate, which matches byte for byte: its name, its validity and its purpose. It
    /// needs no issuer, as it was given; the signatures of the handshake prove that the server has its key.
    fn check_given(
        certificate: &CertificateDer<'_>,
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), CertificateError> {
        let (_, parsed) =
            X509Certificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding)?;
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        if now < parsed.validity().not_before.timestamp() {
            return Err(CertificateError::NotValidYet);
        }
        if now > parsed.validity().not_after.timestamp() {
            return Err(CertificateError::Expired);
        }
        let purposes = parsed.extended_key_usage().map_err(|_| CertificateError::BadEncoding)?;
        if purposes.is_some_and(|purposes| !purposes.value.server_auth && !purposes.value.any) {
            return Err(CertificateError::InvalidPurpose);
        }
        let named = ParsedCertificate::try_from(certificate).and_then(|cert| verify_server_name(&cert, name));
        named.map_err(|error| match error {
            Error::InvalidCertificate(reason) => reason,
            _ => CertificateError::BadEncoding,
        })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified =
            self.authorities.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        if verified.is_ok() || !self.given.contains(end_entity) {
            return verified;
        }
        Self::check_given(end_entity, server_name, now).map_err(Error::InvalidCertificate)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyPair, date_time_ymd};

    use super::*;

    /// As from `openssl req -x509`: an authority that is the server's own certificate.
    fn self_signed(change: impl FnOnce(&mut CertificateParams)) -> (CertificateDer<'static>, Vec<u8>) {
        let mut params = CertificateParams::new(vec!["registry.test".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2040, 1, 1));
        change(&mut params);
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        (certificate.der().clone(), certificate.pem().into_bytes())
    }

    fn verify(given: &[Vec<u8>], shown: &CertificateDer<'_>, name: &str, year: u64) -> Result<(), String> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let bundles: Vec<Vec<u8>> = given.to_vec();
        let certificates: Vec<_> =
            bundles.iter().flat_map(|pem| CertificateDer::pem_slice_iter(pem)).map(Result::unwrap).collect();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates.clone());
        let authorities = WebPkiServerVerifier::builder(Arc::new(roots)).build().unwrap();
        let verifier = Verifier { authorities, given: certificates };
        let now = UnixTime::since_unix_epoch(Duration::from_secs((year - 1970) * 31_557_600));
        let name = ServerName::try_from(name.to_owned()).unwrap();
        verifier.verify_server_cert(shown, &[], &name, &[], now).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn a_given_certificate_may_be_the_servers_own() {
        let (own, pem) = self_signed(|_| {});
        assert_eq!(verify(std::slice::from_ref(&pem), &own, "registry.test", 2030), Ok(()));
        // only for its own name, within its validity, and for its purpose
        let refused = |given: &[Vec<u8>], shown, name, year| verify(given, shown, name, year).unwrap_err();
        let text = refused(std::slice::from_ref(&pem), &own, "other.test", 2030);
        assert!(text.contains("not valid for"), "{text}");
        assert!(refused(std::slice::from_ref(&pem), &own, "registry.test", 2041).contains("Expired"));
        assert!(refused(std::slice::from_ref(&pem), &own, "registry.test", 2019).contains("NotValidYet"));
        let (client, client_pem) =
            self_signed(|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth]);
        assert!(refused(&[client_pem], &client, "registry.test", 2030).contains("InvalidPurpose"));
        // and no other certificate, whatever it claims
        let (foreign, _) = self_signed(|_| {});
        let text = refused(&[pem], &foreign, "registry.test", 2030);
        assert!(text.starts_with("invalid peer certificate"), "{text}");
    }

    #[test]
    fn what_is_no_certificate_is_refused() {
        let broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_vec();
        for (bundle, expected) in
            [(b"no PEM".to_vec(), "contain no PEM certificate"), (broken, "is not X.509")]
        {
            let error = config(&[bundle]).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}

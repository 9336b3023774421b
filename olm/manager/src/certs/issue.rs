//! Creation of an authority and a certificate.

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use x509_parser::time::ASN1Time;

use super::held::{Authority, Pair};
use super::{BACKDATE_SECONDS, VALIDITY_DAYS};

/// The certificate failed to be created.
#[derive(Debug, thiserror::Error)]
#[error("failed to create a certificate for {name}: {text}")]
pub(crate) struct IssueError {
    name: String,
    text: String,
}

/// A new authority and a certificate that it signed for the names of a Service. The authority's key is
/// dropped on return.
pub(crate) fn issue(names: &[String], now: Timestamp) -> Result<(Authority, Pair), IssueError> {
    let name = names.first().cloned().unwrap_or_default();
    let failed = |text: String| IssueError { name: name.clone(), text };
    let error = |error: rcgen::Error| failed(error.to_string());
    let start = now - SignedDuration::from_secs(BACKDATE_SECONDS);
    let end = now + SignedDuration::from_hours(24 * VALIDITY_DAYS);
    let dates = |params: &mut CertificateParams| {
        let date = |at: Timestamp| ASN1Time::from_timestamp(at.as_second()).map(|time| time.to_datetime());
        params.not_before = date(start).map_err(|error| failed(error.to_string()))?;
        params.not_after = date(end).map_err(|error| failed(error.to_string()))?;
        Ok::<_, IssueError>(())
    };

    let mut params = CertificateParams::default();
    // The names distinguish two authorities of one Service, as some clients do not compare keys.
    params.distinguished_name = named(&format!("olm {name} {}", start.as_second()));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    dates(&mut params)?;
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(error)?;
    let authority = params.self_signed(&key).map_err(error)?;
    let issuer = Issuer::new(params, key);

    let mut params = CertificateParams::new(names).map_err(error)?;
    params.distinguished_name = named(&name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    dates(&mut params)?;
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(error)?;
    let certificate = params.signed_by(&key, &issuer).map_err(error)?;

    let authority = Authority::read(authority.der().clone()).map_err(failed)?;
    let pair = Pair::read(&certificate.pem(), &key.serialize_pem()).map_err(failed)?;
    Ok((authority, pair))
}

/// Maximum length of a common name.
const LONGEST_COMMON_NAME: usize = 64;

fn named(name: &str) -> DistinguishedName {
    let mut out = DistinguishedName::new();
    // Cut from the start: the names of one Service differ at the end.
    let surplus = name.len().saturating_sub(LONGEST_COMMON_NAME);
    out.push(DnType::CommonName, name.get(surplus..).unwrap_or(name));
    out
}

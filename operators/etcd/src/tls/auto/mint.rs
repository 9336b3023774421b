//! Generation of authorities and certificates.

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use x509_parser::time::ASN1Time;

use super::issued::Authority;
use super::{BACKDATE_SECONDS, DAY, Kind, Settings};
use crate::tls::{CertificateRole, Names, Pair};

#[derive(Debug, thiserror::Error)]
#[error("failed to create a certificate for {name}: {text}")]
pub struct MintError {
    name: String,
    text: String,
}

impl MintError {
    pub(super) fn without_authority(cluster: &str) -> Self {
        Self { name: cluster.to_owned(), text: "no signing authority".into() }
    }
}

pub(crate) fn authority(
    cluster: &str,
    kind: Kind,
    settings: &Settings,
    now: Timestamp,
) -> Result<Authority, MintError> {
    let name = format!("{cluster} {} authority", kind.word());
    let error = |text: String| MintError { name: name.clone(), text };
    let mut params = CertificateParams::default();
    // Two authorities of one cluster have different names, as some clients do not compare keys.
    params.distinguished_name = named(&format!("{name} {}", now.as_second()));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    dates(&mut params, now, now.as_second() + settings.authority_days() * DAY).map_err(&error)?;
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|e| error(e.to_string()))?;
    let certificate = params.self_signed(&key).map_err(|e| error(e.to_string()))?;
    Authority::read(certificate.pem().as_bytes(), Some(key.serialize_pem().as_bytes())).map_err(error)
}

pub(crate) fn names_of(role: CertificateRole, names: &Names, settings: &Settings) -> Vec<String> {
    let mut list = match role {
        CertificateRole::Peer => names.members(),
        CertificateRole::Server => {
            let mut list = names.members();
            list.extend(names.service());
            list.extend(["localhost".into(), "127.0.0.1".into(), "::1".into()]);
            list
        }
        CertificateRole::Operator => return Vec::new(),
    };
    for name in &settings.names {
        if !list.contains(name) {
            list.push(name.clone());
        }
    }
    list
}

pub(crate) fn certificate(
    role: CertificateRole,
    names: &Names,
    settings: &Settings,
    issuer: &Authority,
    now: Timestamp,
) -> Result<Pair, MintError> {
    let name = match role {
        CertificateRole::Peer => format!("{}-peer", names.cluster),
        CertificateRole::Server => format!("{}-server", names.cluster),
        // With authentication on, etcd uses the common name as user name when there is no login.
        CertificateRole::Operator => "etcd-operator".into(),
    };
    let error = |text: String| MintError { name: name.clone(), text };
    let failed = |e: rcgen::Error| error(e.to_string());
    let mut params = CertificateParams::new(names_of(role, names, settings)).map_err(failed)?;
    params.distinguished_name = named(&name);
    // A member is a client of the others, and etcd's gateway a client of its own server.
    params.extended_key_usages = match role {
        CertificateRole::Peer | CertificateRole::Server => {
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth]
        }
        CertificateRole::Operator => vec![ExtendedKeyUsagePurpose::ClientAuth],
    };
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    // A certificate must not outlive its issuer.
    let end = (now.as_second() + settings.days * DAY).min(issuer.not_after);
    dates(&mut params, now, end).map_err(&error)?;
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(failed)?;
    let issuer_key = issuer.key.as_deref().ok_or_else(|| error("the authority has no key".into()))?;
    let issuer_key = std::str::from_utf8(issuer_key).map_err(|e| error(e.to_string()))?;
    let issuer_key = KeyPair::from_pem(issuer_key).map_err(failed)?;
    let issuer = Issuer::from_ca_cert_der(&issuer.der, issuer_key).map_err(failed)?;
    let certificate = params.signed_by(&key, &issuer).map_err(failed)?;
    Pair::read(certificate.pem().as_bytes(), key.serialize_pem().as_bytes())
        .map_err(|(_, _, text)| error(text))
}

fn dates(params: &mut CertificateParams, now: Timestamp, end: i64) -> Result<(), String> {
    let date = |second: i64| {
        ASN1Time::from_timestamp(second).map(|time| time.to_datetime()).map_err(|e| e.to_string())
    };
    params.not_before = date((now - SignedDuration::from_secs(BACKDATE_SECONDS)).as_second())?;
    params.not_after = date(end)?;
    Ok(())
}

/// Maximum length of a common name.
const LONGEST_COMMON_NAME: usize = 64;

fn named(name: &str) -> DistinguishedName {
    let mut out = DistinguishedName::new();
    // The end is kept: two names of one cluster differ there.
    let surplus = name.len().saturating_sub(LONGEST_COMMON_NAME);
    out.push(DnType::CommonName, name.get(surplus..).unwrap_or(name));
    out
}

//! The content of a certificate Secret. It is untrusted: every user with write access to the namespace can
//! change it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use sha2::{Digest, Sha256};
use x509_parser::parse_x509_certificate;

use super::{BACKDATE_SECONDS, MOST_AUTHORITIES, RENEW_BEFORE_DAYS, VALIDITY_DAYS};

/// Certificate and key in use; the names are those of `kubernetes.io/tls`.
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
/// The authorities that callers must trust; upstream's name.
const AUTHORITIES: &str = "olmCAKey";
/// The next certificate and key. Volumes of operators list the keys that they mount, so these stay invisible
/// to them.
const NEXT_CERTIFICATE: &str = "next.crt";
const NEXT_KEY: &str = "next.key";

/// A CA certificate.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Authority {
    der: CertificateDer<'static>,
    not_after: i64,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authority({}, until {})", &self.hash()[..8], self.not_after)
    }
}

impl Authority {
    pub(super) fn read(der: CertificateDer<'static>) -> Result<Self, String> {
        let (_, certificate) = parse_x509_certificate(&der).map_err(|error| error.to_string())?;
        if !certificate.is_ca() {
            return Err("it is not a CA certificate".to_owned());
        }
        let validity = certificate.validity();
        let (start, end) = (validity.not_before.timestamp(), validity.not_after.timestamp());
        // One with a longer validity is not ours, and would be trusted for too long.
        if end.saturating_sub(start) > VALIDITY_DAYS * 86_400 + 2 * BACKDATE_SECONDS {
            return Err(format!("it is valid for more than {VALIDITY_DAYS} days"));
        }
        Ok(Self { not_after: end, der })
    }

    /// The authorities in a PEM text, without duplicates. Invalid ones are left out.
    pub(crate) fn all(pem: &[u8]) -> Vec<Self> {
        let mut list: Vec<Self> = Vec::new();
        // Bounded, so that a large bundle does not cost much parsing.
        for der in CertificateDer::pem_slice_iter(pem).take(4 * MOST_AUTHORITIES) {
            let Ok(der) = der else { break };
            match Self::read(der) {
                Ok(authority) if !list.contains(&authority) => list.push(authority),
                _ => {}
            }
        }
        list.truncate(MOST_AUTHORITIES);
        list
    }

    /// Its expiry, in seconds since 1970.
    pub(super) fn end(&self) -> i64 {
        self.not_after
    }

    pub(super) fn expired(&self, now: Timestamp) -> bool {
        self.not_after <= now.as_second()
    }

    fn pem(&self) -> String {
        let text = STANDARD.encode(&self.der);
        let lines: Vec<&str> =
            text.as_bytes().chunks(64).filter_map(|l| std::str::from_utf8(l).ok()).collect();
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
    }

    /// In hex, as in upstream's annotation.
    fn hash(&self) -> String {
        Sha256::digest(self.pem()).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The authorities in the format of API fields.
pub(super) fn bundle(authorities: &[Authority]) -> String {
    authorities.iter().map(Authority::pem).collect()
}

/// A certificate with its key.
#[derive(Clone)]
pub(crate) struct Pair {
    certificate: String,
    key: String,
    der: CertificateDer<'static>,
    not_before: i64,
    not_after: i64,
}

/// Never prints the key.
impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pair({}..{})", self.not_before, self.not_after)
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        self.der == other.der && self.key == other.key
    }
}

impl Pair {
    /// Parses a certificate and its key.
    pub(super) fn read(certificate: &str, key: &str) -> Result<Self, String> {
        let der = CertificateDer::from_pem_slice(certificate.as_bytes())
            .map_err(|error| format!("{CERTIFICATE} is not a valid certificate: {error}"))?;
        let private = PrivateKeyDer::from_pem_slice(key.as_bytes())
            .map_err(|error| format!("{KEY} is not a valid key: {error}"))?;
        CertifiedKey::from_der(vec![der.clone()], private, &ring::default_provider())
            .map_err(|error| format!("{KEY} does not match {CERTIFICATE}: {error}"))?;
        let (_, parsed) = parse_x509_certificate(&der).map_err(|error| error.to_string())?;
        let validity = parsed.validity();
        let (not_before, not_after) = (validity.not_before.timestamp(), validity.not_after.timestamp());
        Ok(Self { certificate: certificate.to_owned(), key: key.to_owned(), der, not_before, not_after })
    }

    /// The certificate and its key, to serve with in this process.
    pub(crate) fn certified(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(|error| error.to_string())?;
        Ok((vec![self.der.clone()], key))
    }

    pub(super) fn made(&self) -> i64 {
        self.not_before.saturating_add(BACKDATE_SECONDS)
    }

    pub(super) fn renew_at(&self) -> i64 {
        self.not_after.saturating_sub(RENEW_BEFORE_DAYS * 86_400)
    }

    /// Verifies that a client with these trusted authorities accepts the certificate for that server name
    /// now; the same check as of any TLS client.
    pub(super) fn verify(&self, trusted: &[Authority], name: &str, now: Timestamp) -> Result<(), String> {
        let provider: Arc<CryptoProvider> = ring::default_provider().into();
        let mut roots = RootCertStore::empty();
        for authority in trusted {
            // An invalid trust anchor verifies nothing.
            let _ = roots.add(authority.der.clone());
        }
        let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider)
            .build()
            .map_err(|error| error.to_string())?;
        let name = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
        let now = u64::try_from(now.as_second()).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
        verifier.verify_server_cert(&self.der, &[], &name, &[], now).map_err(|error| error.to_string())?;
        Ok(())
    }

    /// The authority among these that signed it.
    fn signed_by<'a>(&self, authorities: &'a [Authority]) -> Option<&'a Authority> {
        let (_, certificate) = parse_x509_certificate(&self.der).ok()?;
        authorities.iter().find(|authority| {
            parse_x509_certificate(&authority.der)
                .is_ok_and(|(_, issuer)| certificate.verify_signature(Some(issuer.public_key())).is_ok())
        })
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Held {
    /// The pair that the pods serve.
    pub(super) serving: Option<Pair>,
    /// The pair that they serve next.
    pub(super) coming: Option<Pair>,
    /// The authorities to trust.
    pub(super) authorities: Vec<Authority>,
    /// The problem of the certificate in use, if any.
    pub(super) fault: Option<String>,
    /// Whether it contains keys that do not belong there.
    pub(super) foreign_keys: bool,
}

impl Held {
    /// Parses the base64 data of a Secret. No content makes it fail.
    pub(crate) fn read(data: &BTreeMap<String, String>, names: &[String], now: Timestamp) -> Self {
        let decode = |key: &str| -> Option<Vec<u8>> { STANDARD.decode(data.get(key)?).ok() };
        let text = |key: &str| decode(key).and_then(|bytes| String::from_utf8(bytes).ok());
        let authorities = decode(AUTHORITIES).map(|pem| Authority::all(&pem)).unwrap_or_default();
        let usable = |certificate: &str, key: &str| -> Result<Pair, String> {
            let part = |name: &str| text(name).ok_or_else(|| format!("{name} is missing"));
            let pair = Pair::read(&part(certificate)?, &part(key)?)?;
            for name in names {
                // Upstream's certificates lack the long name, which no API server uses.
                if !name.ends_with(".svc.cluster.local") {
                    pair.verify(&authorities, name, now)
                        .map_err(|error| format!("{certificate} is not valid for {name}: {error}"))?;
                }
            }
            Ok(pair)
        };
        let (serving, fault) = match usable(CERTIFICATE, KEY) {
            Ok(pair) => (Some(pair), None),
            Err(fault) => (None, Some(fault)),
        };
        let coming = usable(NEXT_CERTIFICATE, NEXT_KEY).ok();
        let foreign_keys =
            coming.is_none() && (data.contains_key(NEXT_CERTIFICATE) || data.contains_key(NEXT_KEY));
        Self { serving, coming, authorities, fault, foreign_keys }
    }

    /// The data to store in the Secret.
    pub(crate) fn data(&self) -> BTreeMap<&'static str, String> {
        let mut data = BTreeMap::new();
        let mut put = |key, value: &str| drop(data.insert(key, STANDARD.encode(value)));
        if let Some(pair) = &self.serving {
            put(CERTIFICATE, &pair.certificate);
            put(KEY, &pair.key);
        }
        if let Some(pair) = &self.coming {
            put(NEXT_CERTIFICATE, &pair.certificate);
            put(NEXT_KEY, &pair.key);
        }
        put(AUTHORITIES, &bundle(&self.authorities));
        data
    }

    /// The authorities in the format of the API's `caBundle`.
    pub(crate) fn ca_bundle(&self) -> String {
        STANDARD.encode(bundle(&self.authorities))
    }

    /// The hash of the authority of the certificate in use: it changes with the certificate. Upstream's
    /// annotation `olmcahash`.
    pub(crate) fn ca_hash(&self) -> Option<String> {
        Some(self.serving.as_ref()?.signed_by(&self.authorities)?.hash())
    }

    /// The certificate in use and its key, to serve with in this process.
    pub(crate) fn certified(
        &self,
    ) -> Option<Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String>> {
        Some(self.serving.as_ref()?.certified())
    }

    /// Creation, renewal and expiry of the certificate in use, in seconds since 1970.
    pub(crate) fn dates(&self) -> Option<(i64, i64, i64)> {
        self.serving.as_ref().map(|pair| (pair.made(), pair.renew_at(), pair.not_after))
    }
}

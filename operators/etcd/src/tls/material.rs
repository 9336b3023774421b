//! Certificates and keys from Secrets, parsed as untrusted input: every user with write access to Secrets
//! controls them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::CertifiedKey;
use x509_parser::parse_x509_certificate;

use super::{CertificateRole, Fault};

pub(crate) type Data = BTreeMap<String, Vec<u8>>;

/// Maximum size of a certificate file.
const LONGEST: usize = 256 * 1024;
/// Maximum of authorities in one file, and of certificates in one chain.
const MOST: usize = 32;

#[derive(Clone)]
pub(crate) struct Files {
    pub(crate) pair: Pair,
    pub(crate) authorities: Vec<CertificateDer<'static>>,
    pub(crate) authorities_pem: Vec<u8>,
}

#[derive(Clone)]
pub(crate) struct Pair {
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) not_before: i64,
    pub(crate) not_after: i64,
}

/// Never prints the key.
impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pair({}..{})", self.not_before, self.not_after)
    }
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Files({:?}, {} authorities)", self.pair, self.authorities.len())
    }
}

impl Pair {
    /// Parses a certificate and its key; the error has the faulty part (0 certificate, 1 key) and a message.
    pub(crate) fn read(certificate: &[u8], key: &[u8]) -> Result<Self, (usize, &'static str, String)> {
        let chain = chain(certificate).map_err(|text| (0, "NotACertificate", text))?;
        let private = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| (1, "NotAKey", format!("is not a PEM private key ({error})")))?;
        let first = chain.first().cloned().unwrap_or_else(|| Vec::new().into());
        let (_, parsed) = parse_x509_certificate(&first)
            .map_err(|error| (0, "NotACertificate", format!("is not a certificate ({error})")))?;
        let validity = parsed.validity();
        let (not_before, not_after) = (validity.not_before.timestamp(), validity.not_after.timestamp());
        CertifiedKey::from_der(chain.clone(), private, &ring::default_provider())
            .map_err(|error| (1, "KeyDoesNotMatch", format!("does not match the certificate ({error})")))?;
        Ok(Self { certificate: certificate.to_vec(), key: key.to_vec(), chain, not_before, not_after })
    }

    fn leaf(&self) -> CertificateDer<'static> {
        self.chain.first().cloned().unwrap_or_else(|| Vec::new().into())
    }

    /// Whether a client that trusts these authorities accepts it as a server of this name; the same check as
    /// in any client.
    pub(crate) fn serves(
        &self,
        trusted: &[CertificateDer<'static>],
        name: &str,
        now: Timestamp,
    ) -> Result<(), rustls::Error> {
        let verifier = WebPkiServerVerifier::builder_with_provider(roots(trusted).into(), provider())
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        let name = ServerName::try_from(name.to_owned())
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        let rest = self.chain.get(1..).unwrap_or_default();
        verifier.verify_server_cert(&self.leaf(), rest, &name, &[], unix(now)).map(drop)
    }

    /// Whether a server that trusts these authorities accepts it as a client.
    pub(crate) fn is_let_in(
        &self,
        trusted: &[CertificateDer<'static>],
        now: Timestamp,
    ) -> Result<(), rustls::Error> {
        let verifier = WebPkiClientVerifier::builder_with_provider(roots(trusted).into(), provider())
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        let rest = self.chain.get(1..).unwrap_or_default();
        verifier.verify_client_cert(&self.leaf(), rest, unix(now)).map(drop)
    }

    /// Whether this authority signed it.
    pub(crate) fn signed_by(&self, authority: &CertificateDer<'_>) -> bool {
        let leaf = self.leaf();
        match (parse_x509_certificate(&leaf), parse_x509_certificate(authority)) {
            (Ok((_, leaf)), Ok((_, issuer))) => leaf.verify_signature(Some(issuer.public_key())).is_ok(),
            _ => false,
        }
    }

    pub(crate) fn expired(&self, now: Timestamp) -> bool {
        self.not_after <= now.as_second()
    }
}

impl Files {
    /// Parses the Secret of a role. All faults are reported, not only the first.
    pub(crate) fn read(
        secret: &str,
        role: CertificateRole,
        data: Option<&Data>,
        now: Timestamp,
    ) -> Result<Self, Vec<Fault>> {
        let fault = |key: Option<&'static str>, reason: &'static str, text: String| Fault {
            secret: secret.to_owned(),
            key,
            reason,
            text,
        };
        let keys = role.keys();
        let Some(data) = data else {
            let text = format!("does not exist; create it with the keys {}", keys.join(", "));
            return Err(vec![fault(None, "SecretMissing", text)]);
        };
        let mut faults = Vec::new();
        let parts = keys.map(|key| match data.get(key) {
            None => {
                faults.push(fault(Some(key), "KeyMissing", "is missing".into()));
                None
            }
            Some(bytes) if bytes.len() > LONGEST => {
                let text = format!("has {} bytes, too large for a certificate", bytes.len());
                faults.push(fault(Some(key), "NotACertificate", text));
                None
            }
            Some(bytes) => Some(bytes),
        });
        let pair = match (parts[0], parts[1]) {
            (Some(certificate), Some(key)) => match Pair::read(certificate, key) {
                Ok(pair) => Some(pair),
                Err((which, reason, text)) => {
                    faults.push(fault(Some(keys[which]), reason, text));
                    None
                }
            },
            _ => None,
        };
        let authorities = parts[2].and_then(|bytes| match chain(bytes) {
            Ok(list) => Some((list, bytes.clone())),
            Err(text) => {
                faults.push(fault(Some(keys[2]), "NotACertificate", text));
                None
            }
        });
        if let Some(pair) = &pair {
            if pair.expired(now) {
                let text =
                    format!("expired at {}; replace it with a renewed certificate", date(pair.not_after));
                faults.push(fault(Some(keys[0]), "Expired", text));
            } else if pair.not_before > now.as_second() {
                let text = format!("is not valid before {}", date(pair.not_before));
                faults.push(fault(Some(keys[0]), "NotYetValid", text));
            }
        }
        match (pair, authorities) {
            (Some(pair), Some((authorities, authorities_pem))) if faults.is_empty() => {
                Ok(Self { pair, authorities, authorities_pem })
            }
            _ => Err(faults),
        }
    }
}

/// Seconds since 1970, formatted for messages.
pub(crate) fn date(seconds: i64) -> String {
    Timestamp::from_second(seconds).map_or_else(|_| format!("second {seconds}"), |at| at.to_string())
}

fn chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let list: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).take(MOST).collect();
    let list = list.map_err(|error| format!("is not a PEM certificate ({error})"))?;
    if list.is_empty() {
        return Err("contains no PEM certificate".into());
    }
    Ok(list)
}

fn roots(list: &[CertificateDer<'static>]) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    // Invalid anchors verify nothing.
    roots.add_parsable_certificates(list.iter().cloned());
    roots
}

fn provider() -> Arc<CryptoProvider> {
    ring::default_provider().into()
}

fn unix(now: Timestamp) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(now.as_second()).unwrap_or_default()))
}

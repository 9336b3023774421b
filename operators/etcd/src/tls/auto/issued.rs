//! Contents of the Secrets. Reading never fails: unusable content counts as absent.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;

use super::mint::names_of;
use super::{BACKDATE_SECONDS, Kind, MOST_AUTHORITIES, Settings};
use crate::tls::material::Data;
use crate::tls::{CertificateRole, Files, Names};

/// A certificate authority; its key may be lost.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Authority {
    pub(super) pem: Vec<u8>,
    pub(super) key: Option<Vec<u8>>,
    pub(super) der: CertificateDer<'static>,
    pub(super) not_before: i64,
    pub(super) not_after: i64,
}

/// Never prints the key.
impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authority({}..{}, key: {})", self.not_before, self.not_after, self.key.is_some())
    }
}

impl Authority {
    pub(super) fn read(pem: &[u8], key: Option<&[u8]>) -> Result<Self, String> {
        let der = CertificateDer::from_pem_slice(pem).map_err(|error| error.to_string())?;
        if let Some(key) = key {
            let private = PrivateKeyDer::from_pem_slice(key).map_err(|error| error.to_string())?;
            CertifiedKey::from_der(vec![der.clone()], private, &rustls::crypto::ring::default_provider())
                .map_err(|error| error.to_string())?;
        }
        let (not_before, not_after) = {
            let (_, parsed) = parse_x509_certificate(&der).map_err(|error| error.to_string())?;
            if !parsed.is_ca() {
                return Err("not a CA certificate".into());
            }
            (parsed.validity().not_before.timestamp(), parsed.validity().not_after.timestamp())
        };
        // Reencoded, so that comments and order in a user's file do not matter.
        let pem = to_pem(&der);
        Ok(Self { pem, key: key.map(<[u8]>::to_vec), der, not_before, not_after })
    }

    pub(super) fn made(&self) -> i64 {
        self.not_before.saturating_add(BACKDATE_SECONDS)
    }

    pub(super) fn expired(&self, now: Timestamp) -> bool {
        self.not_after <= now.as_second()
    }
}

/// The authorities of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Chain {
    /// The signing authority.
    pub(super) current: Option<Authority>,
    /// The next signing authority.
    pub(super) next: Option<Authority>,
    /// Former ones, without keys.
    pub(super) retired: Vec<Authority>,
}

impl Chain {
    /// All authorities to trust.
    pub(super) fn bundle(&self, now: Timestamp) -> Vec<CertificateDer<'static>> {
        let all = self.current.iter().chain(&self.next).chain(&self.retired);
        let mut list: Vec<CertificateDer<'static>> = Vec::new();
        for authority in all.filter(|authority| !authority.expired(now)) {
            if !list.contains(&authority.der) {
                list.push(authority.der.clone());
            }
        }
        list.truncate(MOST_AUTHORITIES);
        list
    }

    /// With a new authority: as the next one, or as the only one.
    pub(super) fn with_new(&self, new: Authority) -> Self {
        let mut chain = self.clone();
        if chain.current.is_some() || !chain.retired.is_empty() {
            chain.next = Some(new);
        } else {
            chain.current = Some(new);
        }
        chain
    }

    /// Promotes the next authority to the signing one.
    pub(super) fn switched(&self, now: Timestamp) -> Self {
        let Some(next) = self.next.clone() else { return self.clone() };
        let old = self.current.iter().map(|authority| Authority { key: None, ..authority.clone() });
        let mut retired: Vec<Authority> = old.chain(self.retired.iter().cloned()).collect();
        retired.retain(|authority| !authority.expired(now));
        retired.truncate(MOST_AUTHORITIES - 1);
        Self { current: Some(next), next: None, retired }
    }

    /// Without expired authorities.
    pub(super) fn dropped(&self, now: Timestamp) -> Self {
        let mut chain = self.clone();
        chain.retired.retain(|authority| !authority.expired(now));
        chain
    }
}

/// The content of a role's Secret.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    pub(super) files: Files,
    pub(super) names: Vec<String>,
}

/// The content of all Secrets.
#[derive(Clone, Debug, Default)]
pub(crate) struct IssuedSecrets {
    pub(super) chains: BTreeMap<Kind, Chain>,
    pub(super) leaves: BTreeMap<CertificateRole, Leaf>,
}

impl IssuedSecrets {
    /// Reads the Secret of the authorities and those of the roles.
    pub(crate) fn read<'a>(
        authorities: Option<&Data>,
        data_of: impl Fn(CertificateRole) -> Option<&'a Data>,
        now: Timestamp,
    ) -> Self {
        let mut issued = Self::default();
        for role in CertificateRole::ALL {
            // An expired one counts as absent.
            if let Ok(files) = Files::read("", role, data_of(role), now) {
                let names = files.pair.chain.first().map(names_in).unwrap_or_default();
                issued.leaves.insert(role, Leaf { files, names });
            }
        }
        for kind in Kind::ALL {
            let get = |suffix: &str| authorities.and_then(|d| d.get(&format!("{}{suffix}", kind.word())));
            let pair = |name: &str| {
                let (certificate, key) = (get(&format!("{name}.crt"))?, get(&format!("{name}.key"))?);
                Authority::read(certificate, Some(key)).ok().filter(|authority| !authority.expired(now))
            };
            let mut chain = Chain { current: pair(""), next: pair("-next"), retired: Vec::new() };
            let retired = get("-old.crt").into_iter().flat_map(|pem| CertificateDer::pem_slice_iter(pem));
            let mut trusted: Vec<CertificateDer<'static>> =
                retired.take(MOST_AUTHORITIES).filter_map(Result::ok).collect();
            if chain.current.is_none() {
                // The key is lost. Members still trust, and present, what was published.
                let published = kind.roles().iter().filter_map(|role| issued.leaves.get(role));
                trusted.extend(published.flat_map(|leaf| leaf.files.authorities.iter().cloned()));
            }
            for der in trusted {
                let known = |a: &Authority| a.der == der;
                if chain.next.as_ref().is_some_and(known)
                    || chain.current.as_ref().is_some_and(known)
                    || chain.retired.iter().any(known)
                {
                    continue;
                }
                // An authority that was only published and has expired is dropped from the next bundle.
                let keep = |a: &Authority| chain.current.is_some() || !a.expired(now);
                if let Some(authority) = Authority::read(&to_pem(&der), None).ok().filter(keep) {
                    chain.retired.push(authority);
                }
            }
            chain.retired.truncate(MOST_AUTHORITIES);
            issued.chains.insert(kind, chain);
        }
        issued
    }

    pub(super) fn chain(&self, kind: Kind) -> Chain {
        self.chains.get(&kind).cloned().unwrap_or_default()
    }

    /// Content of the Secret of the authorities.
    pub(crate) fn authorities(&self) -> Data {
        let mut data = Data::new();
        for (kind, chain) in &self.chains {
            let word = kind.word();
            for (suffix, authority) in [("", &chain.current), ("-next", &chain.next)] {
                let Some(authority) = authority else { continue };
                data.insert(format!("{word}{suffix}.crt"), authority.pem.clone());
                data.extend(authority.key.clone().map(|key| (format!("{word}{suffix}.key"), key)));
            }
            if !chain.retired.is_empty() {
                let old = chain.retired.iter().flat_map(|authority| authority.pem.clone()).collect();
                data.insert(format!("{word}-old.crt"), old);
            }
        }
        data
    }

    /// Whether the certificate of a role has the required names.
    pub(super) fn has_names(&self, role: CertificateRole, names: &Names, settings: &Settings) -> bool {
        let Some(leaf) = self.leaves.get(&role) else { return false };
        let mut wanted = names_of(role, names, settings);
        let mut found = leaf.names.clone();
        wanted.sort();
        found.sort();
        wanted == found
    }
}

/// Content of the Secret of a role.
pub(crate) fn leaf_data(
    role: CertificateRole,
    pair: &crate::tls::Pair,
    bundle: &[CertificateDer<'_>],
) -> Data {
    let [certificate, key, authorities] = role.keys();
    Data::from([
        (certificate.to_owned(), pair.certificate.clone()),
        (key.to_owned(), pair.key.clone()),
        (authorities.to_owned(), bundle.iter().flat_map(|der| to_pem(der)).collect()),
    ])
}

fn names_in(der: &CertificateDer<'static>) -> Vec<String> {
    let Ok((_, parsed)) = parse_x509_certificate(der) else { return Vec::new() };
    let Ok(Some(extension)) = parsed.subject_alternative_name() else { return Vec::new() };
    let text = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => <[u8; 4]>::try_from(*bytes).ok().map(|b| std::net::Ipv4Addr::from(b).to_string()),
            16 => <[u8; 16]>::try_from(*bytes).ok().map(|b| std::net::Ipv6Addr::from(b).to_string()),
            _ => None,
        },
        _ => None,
    };
    extension.value.general_names.iter().filter_map(text).collect()
}

fn to_pem(der: &CertificateDer<'_>) -> Vec<u8> {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let text = STANDARD.encode(der);
    let lines: Vec<&str> = text.as_bytes().chunks(64).filter_map(|l| std::str::from_utf8(l).ok()).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n")).into_bytes()
}

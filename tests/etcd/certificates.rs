//! Certificates of a test's own authorities, in the Secrets that `spec.TLS.static` names. The end-to-end tests
//! use them too.

use anyhow::Result;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};
use serde_json::{Value, json};

/// The last year of a valid certificate.
pub const GOOD: i32 = 2100;

/// A certificate authority of the test.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its key.
pub struct Leaf {
    pub certificate: Certificate,
    key: KeyPair,
}

impl Authority {
    pub fn new(name: &str) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        Ok(Self { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate()?)? })
    }

    /// A certificate for some names, or for a client without names; valid until the end of a year.
    pub fn leaf(&self, names: &[String], year: i32) -> Result<Leaf> {
        let mut params = CertificateParams::new(names.to_vec())?;
        params.distinguished_name.push(DnType::CommonName, "etcd");
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(year, 12, 31));
        let key = KeyPair::generate()?;
        Ok(Leaf { certificate: params.signed_by(&key, &*self.issuer)?, key })
    }

    /// One of the three Secrets, with the keys of a part.
    pub fn secret(&self, namespace: &str, name: &str, part: &str, leaf: &Leaf) -> Value {
        let data = json!({
            format!("{part}.crt"): leaf.certificate.pem(),
            format!("{part}.key"): leaf.key.serialize_pem(),
            format!("{part}-ca.crt"): self.issuer.pem(),
        });
        let metadata = json!({ "name": name, "namespace": namespace });
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data })
    }
}

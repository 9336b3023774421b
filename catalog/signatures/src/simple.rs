//! The format of cosign 1 and 2: simple signing.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rustls_pki_types::{CertificateDer, pem::PemObject as _};
use serde::Deserialize;
use sigstore_verify::types::{
    Bundle, CanonicalizedBody, DerCertificate, KindVersion, LogIndex, LogKeyId, Sha256Hash, SignatureBytes,
    SignatureContent, SignedTimestamp, TimestampToken, TransparencyLogEntry,
    bundle::{
        InclusionPromise, LogId, MediaType, MessageSignature, PublicKeyIdentifier, Rfc3161Timestamp,
        TimestampVerificationData, VerificationMaterial, VerificationMaterialContent, X509Certificate,
    },
};

use crate::{Format, Reason, Refusal};

const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
const CERTIFICATE: &str = "dev.sigstore.cosign/certificate";
const CHAIN: &str = "dev.sigstore.cosign/chain";
const LOG_ENTRY: &str = "dev.sigstore.cosign/bundle";
const TIMESTAMP: &str = "dev.sigstore.cosign/rfc3161timestamp";

/// Types of the signed payload: up to cosign 2, and since.
const TYPES: [&str; 2] = ["cosign container image signature", "https://sigstore.dev/cosign/sign/v1"];

/// Maximum number of certificates between a signer and a root; Fulcio has one or two.
const MOST_CERTIFICATES: usize = 8;

pub(crate) fn refusal(reason: Reason, message: impl std::fmt::Display) -> Refusal {
    Refusal::new(Format::SimpleSigning, reason, message)
}

fn malformed(message: impl std::fmt::Display) -> Refusal {
    refusal(Reason::Malformed, message)
}

pub(crate) fn signature(annotations: &BTreeMap<String, String>) -> Result<SignatureBytes, Refusal> {
    let Some(text) = annotations.get(SIGNATURE) else {
        return Err(malformed(format!("annotation {SIGNATURE} is missing")));
    };
    let bytes = STANDARD.decode(text.trim());
    bytes.map(SignatureBytes::new).map_err(|_| malformed(format!("annotation {SIGNATURE} is not base64")))
}

/// The image digest in a payload. Only meaningful once the payload is verified.
pub(crate) fn image_digest(payload: &[u8]) -> Result<String, Refusal> {
    #[derive(Deserialize)]
    struct Payload {
        critical: Critical,
    }
    #[derive(Deserialize)]
    struct Critical {
        image: Image,
        r#type: String,
    }
    #[derive(Deserialize)]
    struct Image {
        #[serde(rename = "docker-manifest-digest")]
        digest: String,
    }
    let payload: Payload = serde_json::from_slice(payload)
        .map_err(|error| malformed(format!("the signed payload is not simple signing: {error}")))?;
    if !TYPES.contains(&payload.critical.r#type.as_str()) {
        let message = format!(
            "the signed payload is of type {:?}, expected the signature of an image",
            payload.critical.r#type
        );
        return Err(refusal(Reason::NotASignature, message));
    }
    Ok(payload.critical.image.digest)
}

pub(crate) fn has_certificate(annotations: &BTreeMap<String, String>) -> bool {
    annotations.get(CERTIFICATE).is_some_and(|text| !text.trim().is_empty())
}

/// Converts the signature to an equivalent bundle: a message signature over the payload.
pub(crate) fn bundle(annotations: &BTreeMap<String, String>, by_key: bool) -> Result<Bundle, Refusal> {
    let signature = signature(annotations)?;
    let content = if by_key {
        VerificationMaterialContent::PublicKey(PublicKeyIdentifier::new(""))
    } else {
        VerificationMaterialContent::X509CertificateChain { certificates: certificates(annotations)? }
    };
    let mut material = VerificationMaterial::new(content);
    // A bundle of version 0.1 must have an entry with a promise, one of 0.2 need not.
    let mut version = MediaType::Bundle0_2;
    if let Some(text) = annotations.get(LOG_ENTRY) {
        material = material.with_tlog_entries(vec![log_entry(text)?]);
        version = MediaType::Bundle0_1;
    }
    if let Some(text) = annotations.get(TIMESTAMP) {
        let timestamps = vec![Rfc3161Timestamp::new(timestamp(text)?)];
        material = material.with_timestamp_verification_data(TimestampVerificationData::new(timestamps));
    }
    let content = SignatureContent::MessageSignature(MessageSignature::new(signature));
    Ok(Bundle::new(version, material, content))
}

fn certificates(annotations: &BTreeMap<String, String>) -> Result<Vec<X509Certificate>, Refusal> {
    let mut found = Vec::new();
    for name in [CERTIFICATE, CHAIN] {
        let text = annotations.get(name).map_or("", String::as_str);
        for certificate in CertificateDer::pem_slice_iter(text.as_bytes()) {
            let certificate = certificate
                .map_err(|error| malformed(format!("annotation {name} is not a PEM certificate: {error}")))?;
            found.push(X509Certificate::new(DerCertificate::new(certificate.to_vec())));
            if found.len() > MOST_CERTIFICATES {
                return Err(malformed(format!("more than {MOST_CERTIFICATES} certificates")));
            }
        }
        if name == CERTIFICATE && found.len() != 1 {
            let message = format!("annotation {CERTIFICATE} has {} certificates, expected one", found.len());
            return Err(malformed(message));
        }
    }
    Ok(found)
}

/// A log entry from Rekor's answer to its creation.
fn log_entry(text: &str) -> Result<TransparencyLogEntry, Refusal> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Answer {
        signed_entry_timestamp: String,
        payload: Payload,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Payload {
        body: String,
        integrated_time: i64,
        log_index: u64,
        #[serde(rename = "logID")]
        log_id: String,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Body {
        kind: String,
        api_version: String,
    }
    let wrong = |error: &dyn std::fmt::Display| {
        malformed(format!("annotation {LOG_ENTRY} is not a log entry: {error}"))
    };
    let answer: Answer = serde_json::from_str(text).map_err(|error| wrong(&error))?;
    let body = STANDARD.decode(&answer.payload.body).map_err(|error| wrong(&error))?;
    let kind: Body = serde_json::from_slice(&body).map_err(|error| wrong(&error))?;
    if (kind.kind.as_str(), kind.api_version.as_str()) != ("hashedrekord", "0.0.1") {
        let message = format!("log entries of kind {} {} are not supported", kind.kind, kind.api_version);
        return Err(refusal(Reason::Unsupported, message));
    }
    let id = Sha256Hash::from_hex(&answer.payload.log_id).map_err(|error| wrong(&error))?;
    let index = LogIndex::new(answer.payload.log_index).map_err(|error| wrong(&error))?;
    let time = jiff::Timestamp::from_second(answer.payload.integrated_time).map_err(|error| wrong(&error))?;
    let promise = STANDARD.decode(&answer.signed_entry_timestamp).map_err(|error| wrong(&error))?;
    Ok(TransparencyLogEntry::new(
        index,
        LogId::new(LogKeyId::new(id.as_slice().to_vec())),
        KindVersion::HashedRekordV001,
        CanonicalizedBody::new(body),
    )
    .with_integrated_time(time)
    .with_inclusion_promise(InclusionPromise::new(SignedTimestamp::new(promise))))
}

fn timestamp(text: &str) -> Result<TimestampToken, Refusal> {
    #[derive(Deserialize)]
    struct Answer {
        #[serde(rename = "SignedRFC3161Timestamp")]
        token: String,
    }
    let wrong = |error: &dyn std::fmt::Display| {
        malformed(format!("annotation {TIMESTAMP} is not a timestamp: {error}"))
    };
    let answer: Answer = serde_json::from_str(text).map_err(|error| wrong(&error))?;
    STANDARD.decode(&answer.token).map(TimestampToken::new).map_err(|error| wrong(&error))
}

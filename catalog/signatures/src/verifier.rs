//! Verification of the signatures of an image.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;
use sigstore_verify::{
    CertificateError, Error, PublicKeyVerificationPolicy, TimestampError, TransparencyLogError,
    VerificationPolicy, VerificationResult,
    bundle::Error as BundleError,
    crypto::{Error as CryptoError, SigningScheme, verify_signature},
    types::{
        Artifact, Bundle, HashAlgorithm, MediaType, Sha256Hash, SignatureBytes, SignatureContent,
        bundle::VerificationMaterialContent,
    },
};

use crate::{
    Format, MOST_BYTES, MOST_SIGNATURES, NotVerified, Reason, Refusal, Requirement, Signature, bundle,
    check::{InvalidRequirement, Key, Match, RequiredSigner, Trust, subject},
    provider, simple,
};

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Signer {
    /// The holder of the required key.
    Key {
        /// `sha256:…` of the public key's DER.
        fingerprint: String,
    },
    /// An identity that matches the required one.
    Identity {
        /// Email address or URI.
        subject: String,
        /// The issuer that authenticated it.
        issuer: String,
    },
}

impl fmt::Display for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key { fingerprint } => write!(f, "key {fingerprint}"),
            Self::Identity { subject, issuer } => write!(f, "{subject} (issuer {issuer})"),
        }
    }
}

/// A signature that meets the requirement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verified {
    pub digest: String,
    pub signer: Signer,
    pub format: Format,
    /// Whether a transparency log of the trusted root has it.
    pub logged: bool,
    /// Latest time of its creation, by a log or a timestamp authority of the trusted root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signed_at: Option<jiff::Timestamp>,
    /// Signatures checked before, which do not count.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<Refusal>,
}

/// Decides whether signatures meet a requirement.
pub struct Verifier {
    required: RequiredSigner,
    trust: Option<Trust>,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("required", &self.required).finish_non_exhaustive()
    }
}

/// What one signature proves.
struct Proof {
    signer: Signer,
    logged: bool,
    signed_at: Option<jiff::Timestamp>,
}

impl Verifier {
    /// Parses a requirement.
    /// # Errors
    /// When the requirement names no signer, or is malformed.
    pub fn new(requirement: &Requirement) -> Result<Self, InvalidRequirement> {
        provider::install();
        Ok(Self { required: RequiredSigner::read(requirement)?, trust: Trust::read(requirement)? })
    }

    /// Searches for a signature of the image with that digest that meets the requirement. A certificate must
    /// have been valid when the log or the timestamp authority recorded the signature, not now; so the result
    /// does not depend on the time of the call, except that a time in the future is rejected.
    /// # Errors
    /// Why none of the signatures counts.
    pub fn verify(&self, digest: &str, found: &[Signature]) -> Result<Verified, NotVerified> {
        let Some(image) = image(digest) else {
            let message = format!("the image has digest {digest:?}, but signatures require sha256 digests");
            let refusal = Refusal::new(Format::Bundle, Reason::Unsupported, message);
            return Err(NotVerified::of(vec![refusal]));
        };
        let mut refusals = Vec::new();
        for signature in found.iter().take(MOST_SIGNATURES) {
            match self.one(digest, image, signature) {
                Ok(Proof { signer, logged, signed_at }) => {
                    let (digest, format) = (digest.to_owned(), signature.format());
                    return Ok(Verified { digest, signer, format, logged, signed_at, refusals });
                }
                Err(refusal) => refusals.push(refusal),
            }
        }
        if let Some(first) = found.get(MOST_SIGNATURES) {
            let message = format!("more than {MOST_SIGNATURES} signatures; the others were not read");
            refusals.push(Refusal::new(first.format(), Reason::Malformed, message));
        }
        Err(NotVerified::of(refusals))
    }

    fn one(&self, digest: &str, image: Sha256Hash, signature: &Signature) -> Result<Proof, Refusal> {
        let (format, bytes) = (signature.format(), signature.bytes());
        if bytes > MOST_BYTES {
            let message = format!("the signature has {bytes} bytes, more than {MOST_BYTES}");
            return Err(Refusal::new(format, Reason::Malformed, message));
        }
        match signature {
            Signature::Simple { payload, annotations } => self.simple(digest, payload, annotations),
            Signature::Bundle { json } => self.bundle(image, json),
        }
    }

    fn simple(
        &self,
        digest: &str,
        payload: &[u8],
        annotations: &BTreeMap<String, String>,
    ) -> Result<Proof, Refusal> {
        let proof = match (&self.required, &self.trust) {
            (RequiredSigner::Key(key), None) => {
                let signature = simple::signature(annotations)?;
                key.verify(Format::SimpleSigning, payload, &signature)?;
                key.proof()
            }
            (RequiredSigner::Key(key), Some(trust)) => {
                let bundle = simple::bundle(annotations, true)?;
                provider::with_message(payload, || {
                    trust.by_key(Format::SimpleSigning, key, Artifact::Blob(payload), bundle)
                })?
            }
            (RequiredSigner::Identity { .. }, _) if !simple::has_certificate(annotations) => {
                return Err(simple::refusal(Reason::WrongIdentity, WITHOUT_CERTIFICATE));
            }
            (RequiredSigner::Identity { issuer, subject }, trust) => {
                let bundle = simple::bundle(annotations, false)?;
                let by = (issuer, subject);
                provider::with_message(payload, || {
                    identified(trust.as_ref(), Format::SimpleSigning, by, Artifact::Blob(payload), bundle)
                })?
            }
        };
        // The payload is signed; only now its content is trusted.
        let signed = simple::image_digest(payload)?;
        if signed != digest {
            return Err(simple::refusal(
                Reason::OtherImage,
                format!("the signature is for another image, {signed}"),
            ));
        }
        Ok(proof)
    }

    fn bundle(&self, image: Sha256Hash, json: &[u8]) -> Result<Proof, Refusal> {
        let bundle = bundle::read(json)?;
        let by_key =
            matches!(bundle.verification_material.content, VerificationMaterialContent::PublicKey(_));
        match (&self.required, &self.trust) {
            (RequiredSigner::Key(_), _) if !by_key => {
                let message = "signed with the certificate of an identity, expected the required key";
                Err(bundle::refusal(Reason::WrongKey, message))
            }
            (RequiredSigner::Key(key), None) => {
                let SignatureContent::DsseEnvelope(envelope) = &bundle.content else {
                    return Err(bundle::refusal(Reason::Unsupported, "bundle without a statement"));
                };
                key.verify(Format::Bundle, &envelope.pae(), &envelope.signature.sig)
                    .map_err(|refusal| key.named(&bundle, refusal))?;
                bound(&bundle, image)?;
                Ok(key.proof())
            }
            (RequiredSigner::Key(key), Some(trust)) => {
                trust.by_key(Format::Bundle, key, Artifact::from(image), bundle)
            }
            (RequiredSigner::Identity { .. }, _) if by_key => {
                Err(bundle::refusal(Reason::WrongIdentity, WITHOUT_CERTIFICATE))
            }
            (RequiredSigner::Identity { issuer, subject }, trust) => {
                identified(trust.as_ref(), Format::Bundle, (issuer, subject), Artifact::from(image), bundle)
            }
        }
    }
}

const WITHOUT_CERTIFICATE: &str = "signed with a key, expected the certificate of an identity";

/// The digest of an image, in its only valid notation.
fn image(digest: &str) -> Option<Sha256Hash> {
    let hex = digest.strip_prefix("sha256:")?;
    let plain = hex.len() == 64 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    plain.then(|| Sha256Hash::from_hex(hex).ok())?
}

/// Whether the statement of a bundle is about the image.
fn bound(bundle: &Bundle, image: Sha256Hash) -> Result<(), Refusal> {
    let images = bundle::images(bundle);
    if images.contains(&image) {
        return Ok(());
    }
    let others: Vec<String> =
        images.iter().take(3).map(|other| format!("sha256:{}", other.to_hex())).collect();
    let message = format!("the signature is for another image, {}", others.join(", "));
    Err(bundle::refusal(Reason::OtherImage, message))
}

impl Key {
    fn proof(&self) -> Proof {
        let signer = Signer::Key { fingerprint: self.fingerprint.clone() };
        Proof { signer, logged: false, signed_at: None }
    }

    fn wrong(&self, format: Format) -> Refusal {
        let message =
            format!("not signed with the required key ({}), or modified after signing", self.fingerprint);
        Refusal::new(format, Reason::WrongKey, message)
    }

    /// The schemes of such a key: cosign uses SHA-256 with every curve, others the hash that fits the curve.
    fn schemes(&self) -> Vec<SigningScheme> {
        let mut schemes = vec![self.algorithm.default_signing_scheme()];
        schemes.extend(self.algorithm.resolve_signing_scheme(HashAlgorithm::Sha2256).ok());
        schemes.dedup();
        schemes
    }

    fn verify(&self, format: Format, data: &[u8], signature: &SignatureBytes) -> Result<(), Refusal> {
        let fits = |scheme| verify_signature(&self.der, data, signature, scheme).is_ok();
        if self.schemes().into_iter().any(fits) { Ok(()) } else { Err(self.wrong(format)) }
    }

    /// A bundle that names this key, and whose signature does not match, was changed.
    fn named(&self, bundle: &Bundle, refusal: Refusal) -> Refusal {
        match &bundle.verification_material.content {
            VerificationMaterialContent::PublicKey(key) if key.hint == self.hint => {
                let message = "the signature names the required key, but does not match the signed content";
                bundle::refusal(Reason::SignatureInvalid, message)
            }
            _ => refusal,
        }
    }
}

impl Trust {
    /// Every entry must be verifiable, and where logs exist an entry is required.
    fn logged(&self, format: Format, bundle: &mut Bundle) -> Result<(), Refusal> {
        let entries = &mut bundle.verification_material.tlog_entries;
        if !self.logs {
            // There is no log to verify them.
            entries.clear();
            if bundle.media_type == MediaType::Bundle0_1 {
                bundle.media_type = MediaType::Bundle0_2;
            }
            return Ok(());
        }
        if entries.is_empty() {
            let message = "no transparency log entry for the signature, required by the trusted root";
            return Err(Refusal::new(format, Reason::LogEntryMissing, message));
        }
        if entries.iter().any(|entry| entry.inclusion_proof.is_none() && entry.inclusion_promise.is_none()) {
            let message = "log entry has neither an inclusion proof nor a signed timestamp";
            return Err(Refusal::new(format, Reason::LogEntryMissing, message));
        }
        Ok(())
    }

    fn by_key(
        &self,
        format: Format,
        key: &Key,
        artifact: Artifact<'_>,
        mut bundle: Bundle,
    ) -> Result<Proof, Refusal> {
        self.logged(format, &mut bundle)?;
        let policy = PublicKeyVerificationPolicy::new(key.der.clone());
        let image = digest_of(&artifact);
        let result = self.sigstore.verify(artifact, &bundle, &policy).map_err(|error| match error {
            Error::SignatureInvalid(_) => key.named(&bundle, key.wrong(format)),
            error => refused(format, error, &bundle, image),
        })?;
        Ok(Proof { logged: result.tlog_verified(), signed_at: signed_at(&result), ..key.proof() })
    }
}

fn identified(
    trust: Option<&Trust>,
    format: Format,
    (issuer, required): (&Match, &Match),
    artifact: Artifact<'_>,
    mut bundle: Bundle,
) -> Result<Proof, Refusal> {
    let Some(trust) = trust else {
        return Err(Refusal::new(format, Reason::CertificateNotTrusted, "no trusted root"));
    };
    trust.logged(format, &mut bundle)?;
    // The signer is compared below, by exact text or by pattern.
    let mut policy = VerificationPolicy::any_identity();
    if !trust.logs {
        policy = policy.skip_tlog_unsafe();
    }
    if !trust.certificate_logs {
        policy = policy.skip_sct();
    }
    let image = digest_of(&artifact);
    let result = trust
        .sigstore
        .verify(artifact, &bundle, &policy)
        .map_err(|error| refused(format, error, &bundle, image))?;
    if !result.certificate_verified() || result.tlog_verified() != trust.logs {
        return Err(Refusal::new(format, Reason::CertificateNotTrusted, "the certificate was not verified"));
    }
    let by = result.identity().and_then(subject).unwrap_or("a certificate without a name");
    let from = result.issuer().unwrap_or("none");
    let refuse = |reason, what: &Match| {
        let message = format!("signed by {by} (issuer {from}), expected {}", what.shown());
        Err(Refusal::new(format, reason, message))
    };
    if !result.identity().and_then(subject).is_some_and(|by| required.matches(by)) {
        return refuse(Reason::WrongIdentity, required);
    }
    if !result.issuer().is_some_and(|from| issuer.matches(from)) {
        return refuse(Reason::WrongIssuer, issuer);
    }
    Ok(Proof {
        signer: Signer::Identity { subject: by.to_owned(), issuer: from.to_owned() },
        logged: result.tlog_verified(),
        signed_at: signed_at(&result),
    })
}

fn signed_at(result: &VerificationResult) -> Option<jiff::Timestamp> {
    result.verified_timestamps().iter().min().copied()
}

fn digest_of(artifact: &Artifact<'_>) -> Option<Sha256Hash> {
    match artifact {
        Artifact::Digest(digest) => Sha256Hash::try_from(digest.as_bytes()).ok(),
        _ => None,
    }
}

/// Maps an error of the library.
fn refused(format: Format, error: Error, bundle: &Bundle, image: Option<Sha256Hash>) -> Refusal {
    let reason = match &error {
        // Either the statement is about another image, or the log is about another statement.
        Error::ArtifactMismatch(_) => match image.map(|image| bound(bundle, image)) {
            Some(Err(other)) => return other,
            _ => Reason::LogEntryInvalid,
        },
        Error::SignatureInvalid(_) => Reason::SignatureInvalid,
        Error::Certificate(CertificateError::Expired { .. } | CertificateError::NotYetValid { .. }) => {
            Reason::CertificateNotValid
        }
        // The library has one kind of error for all findings of webpki, with webpki's message in its text.
        Error::Certificate(CertificateError::ChainInvalid(text))
            if ["CertExpired", "CertNotValidYet"].iter().any(|word| text.contains(word)) =>
        {
            Reason::CertificateNotValid
        }
        Error::Certificate(CertificateError::Malformed(_)) => Reason::Malformed,
        Error::Certificate(_) => Reason::CertificateNotTrusted,
        Error::Timestamp(TimestampError::NoVerifiedTimestamp(_)) => Reason::LogEntryMissing,
        Error::TransparencyLog(TransparencyLogError::MalformedEntry(_)) => Reason::Malformed,
        Error::TransparencyLog(_) | Error::Timestamp(_) => Reason::LogEntryInvalid,
        Error::Bundle(
            BundleError::MissingInclusionProof(_)
            | BundleError::MissingInclusionPromise(_)
            | BundleError::MissingSigningTimeEvidence,
        ) => Reason::LogEntryMissing,
        Error::UnsupportedBundle(_)
        | Error::UnsupportedArtifact(_)
        | Error::Crypto(CryptoError::UnsupportedAlgorithm(_)) => Reason::Unsupported,
        _ => Reason::Malformed,
    };
    Refusal::new(format, reason, error)
}

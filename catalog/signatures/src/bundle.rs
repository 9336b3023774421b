//! The format of cosign 3: Sigstore bundles.

use sigstore_verify::types::{Bundle, Sha256Hash, SignatureContent, Statement};

use crate::{Format, Reason, Refusal};

/// Predicate type of an image signature. Statements with other predicates are attestations.
const SIGNATURE_OF_AN_IMAGE: &str = "https://sigstore.dev/cosign/sign/v1";
const STATEMENT: &str = "application/vnd.in-toto+json";

pub(crate) fn refusal(reason: Reason, message: impl std::fmt::Display) -> Refusal {
    Refusal::new(Format::Bundle, reason, message)
}

/// Parses a bundle that claims to be the signature of an image.
pub(crate) fn read(json: &[u8]) -> Result<Bundle, Refusal> {
    let malformed =
        |error: &dyn std::fmt::Display| refusal(Reason::Malformed, format!("not a Sigstore bundle: {error}"));
    let text = std::str::from_utf8(json).map_err(|error| malformed(&error))?;
    let bundle = Bundle::from_json(text).map_err(|error| malformed(&error))?;
    match &bundle.content {
        // cosign signs images by a statement. Other signed content may be any file, even one that looks like
        // an image.
        SignatureContent::MessageSignature(_) => {
            return Err(refusal(Reason::NotASignature, "signature of a file, expected one of an image"));
        }
        SignatureContent::DsseEnvelope(envelope) if envelope.payload_type != STATEMENT => {
            let message =
                format!("statement of type {:?}, expected the signature of an image", envelope.payload_type);
            return Err(refusal(Reason::NotASignature, message));
        }
        SignatureContent::DsseEnvelope(_) => {
            let statement = statement(&bundle).ok_or_else(|| malformed(&"statement is not in-toto"))?;
            if statement.predicate_type != SIGNATURE_OF_AN_IMAGE {
                let message =
                    format!("attestation ({}), expected the signature of an image", statement.predicate_type);
                return Err(refusal(Reason::NotASignature, message));
            }
        }
        _ => return Err(refusal(Reason::Unsupported, "bundle has neither a signature nor a statement")),
    }
    Ok(bundle)
}

fn statement(bundle: &Bundle) -> Option<Statement> {
    match &bundle.content {
        SignatureContent::DsseEnvelope(envelope) => serde_json::from_slice(envelope.payload.as_bytes()).ok(),
        _ => None,
    }
}

/// The images that are subjects of a bundle's statement.
pub(crate) fn images(bundle: &Bundle) -> Vec<Sha256Hash> {
    let subjects = statement(bundle).map(|statement| statement.subject).unwrap_or_default();
    subjects.iter().filter_map(|subject| subject.digest.sha256).collect()
}

//! Verification of the signatures that `cosign` makes for images.
//!
//! - [`Requirement`] is the required signer: a public key, or an identity below a trusted root;
//! - [`SignatureRule`] selects the images; both are plain data that a Kubernetes API can embed;
//! - [`Signature`] is one signature as stored in a registry, in either of the two formats;
//! - [`Verifier`] verifies, without a network: [`Verified`], or [`NotVerified`] with the reason for each signature.
//!
//! X.509 paths, Rekor, certificate transparency, RFC 3161 and DSSE come from `sigstore-verify`, the verifier of the
//! Sigstore project. It uses [`ring`](https://docs.rs/ring) for cryptography, as all of this workspace does, by our
//! own provider.

mod requirement;
mod rule;

#[cfg(feature = "verify")]
mod bundle;
#[cfg(feature = "verify")]
mod check;
#[cfg(feature = "verify")]
mod provider;
#[cfg(feature = "verify")]
mod reason;
#[cfg(feature = "verify")]
mod signature;
#[cfg(feature = "verify")]
mod simple;
#[cfg(feature = "verify")]
mod verifier;

#[cfg(feature = "verify")]
pub use check::InvalidRequirement;
#[cfg(feature = "verify")]
pub use reason::{NotVerified, Reason, Refusal};
pub use requirement::{Identity, Requirement};
pub use rule::SignatureRule;
#[cfg(feature = "verify")]
pub use signature::{Format, MOST_BYTES, MOST_SIGNATURES, Signature};
#[cfg(feature = "verify")]
pub use verifier::{Signer, Verified, Verifier};

#[cfg(test)]
#[cfg(feature = "verify")]
mod tests;

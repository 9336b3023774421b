//! Verification of the signatures that `cosign` makes for images.
//!
//! - [`Requirement`] says who must have signed: a public key, or an identity below a trusted root;
//! - [`SignatureRule`] says which images need that; both are plain data that a Kubernetes API can embed;
//! - [`Signature`] is one signature as a registry has it, in either of the two formats;
//! - [`Verifier`] decides, without a network: [`Verified`], or [`NotVerified`] with the reason for each signature.
//!
//! X.509 paths, Rekor, certificate transparency, RFC 3161 and DSSE are those of `sigstore-verify`, the verifier of the
//! Sigstore project. It takes its cryptography from [`ring`](https://docs.rs/ring), as all of this workspace does, by a
//! provider of ours. Signatures over a digest alone, which ring does not offer, are checked by `p256` and `p384`.

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

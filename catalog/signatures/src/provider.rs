//! Cryptography for `sigstore-verify` by ring, the only provider of this workspace.

use std::{cell::RefCell, sync::Once};

use ring::{digest, signature};
use sigstore_verify::{
    crypto::{CryptoProvider, Error, HashContext, Result, SigningScheme, install_default_provider},
    types::HashAlgorithm,
};

/// Installs ring as the provider of the library. Must be called before any other use of the library.
pub fn install() {
    static ONCE: Once = Once::new();
    // No other provider can be installed before: only this crate uses the library.
    ONCE.call_once(|| _ = install_default_provider(&Ring));
}

thread_local! {
    /// What is verified on this thread, if its bytes are known.
    static MESSAGE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Runs a verification of a signature over `message`.
///
/// The library passes digests of messages to its provider, and ring verifies messages only. The provider therefore
/// looks the message up, and compares its digest.
pub fn with_message<T>(message: &[u8], verify: impl FnOnce() -> T) -> T {
    MESSAGE.set(message.to_vec());
    let result = verify();
    MESSAGE.take();
    result
}

#[derive(Debug)]
struct Ring;

struct Hash(digest::Context);

impl HashContext for Hash {
    fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn finalize(self: Box<Self>) -> Vec<u8> {
        self.0.finish().as_ref().to_vec()
    }
}

fn invalid(scheme: SigningScheme) -> Error {
    Error::Verification(format!("{} signature invalid", scheme.name()))
}

fn unsupported(scheme: SigningScheme) -> Error {
    Error::UnsupportedAlgorithm(format!("{} signatures are not supported", scheme.name()))
}

impl CryptoProvider for Ring {
    fn hash(&self, algorithm: HashAlgorithm) -> Result<Box<dyn HashContext>> {
        let algorithm = match algorithm {
            HashAlgorithm::Sha2256 => &digest::SHA256,
            HashAlgorithm::Sha2384 => &digest::SHA384,
            HashAlgorithm::Sha2512 => &digest::SHA512,
            other => {
                return Err(Error::UnsupportedAlgorithm(format!(
                    "digest algorithm {other} is not supported"
                )));
            }
        };
        Ok(Box::new(Hash(digest::Context::new(algorithm))))
    }

    fn verify_raw(&self, scheme: SigningScheme, key: &[u8], data: &[u8], signature: &[u8]) -> Result<()> {
        let algorithm: &dyn signature::VerificationAlgorithm = match scheme {
            SigningScheme::EcdsaP256Sha256 => &signature::ECDSA_P256_SHA256_ASN1,
            SigningScheme::EcdsaP256Sha384 => &signature::ECDSA_P256_SHA384_ASN1,
            SigningScheme::EcdsaP384Sha256 => &signature::ECDSA_P384_SHA256_ASN1,
            SigningScheme::EcdsaP384Sha384 => &signature::ECDSA_P384_SHA384_ASN1,
            SigningScheme::Ed25519 => &signature::ED25519,
            SigningScheme::RsaPssSha256 => &signature::RSA_PSS_2048_8192_SHA256,
            SigningScheme::RsaPssSha384 => &signature::RSA_PSS_2048_8192_SHA384,
            SigningScheme::RsaPssSha512 => &signature::RSA_PSS_2048_8192_SHA512,
            SigningScheme::RsaPkcs1Sha256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            SigningScheme::RsaPkcs1Sha384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            SigningScheme::RsaPkcs1Sha512 => &signature::RSA_PKCS1_2048_8192_SHA512,
            _ => return Err(unsupported(scheme)),
        };
        signature::UnparsedPublicKey::new(algorithm, key).verify(data, signature).map_err(|_| invalid(scheme))
    }

    fn verify_prehashed(
        &self,
        scheme: SigningScheme,
        key: &[u8],
        digest: &[u8],
        signature: &[u8],
    ) -> Result<()> {
        let algorithm = match scheme {
            SigningScheme::EcdsaP256Sha256 | SigningScheme::EcdsaP384Sha256 => &digest::SHA256,
            SigningScheme::EcdsaP256Sha384 | SigningScheme::EcdsaP384Sha384 => &digest::SHA384,
            _ => return Err(unsupported(scheme)),
        };
        MESSAGE.with_borrow(|message| {
            if digest::digest(algorithm, message).as_ref() != digest {
                return Err(invalid(scheme));
            }
            self.verify_raw(scheme, key, message, signature)
        })
    }
}

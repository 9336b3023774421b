//! Signatures of tokens: JSON Web Signature in compact form, asymmetric algorithms only.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, EcdsaVerificationAlgorithm,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512,
    RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters,
    RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;

/// Longest token that is processed.
const MAX_TOKEN: usize = 16 * 1024;
/// Limit of keys per set; further ones are ignored.
const MAX_KEYS: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    #[error("malformed token: {0}")]
    Malformed(&'static str),
    /// `none`, HMAC, or an unknown algorithm.
    #[error("algorithm `{0}` is not accepted, expected RS, PS, ES or EdDSA")]
    Algorithm(String),
    /// No key of the set matches.
    #[error("signed with key {0}, missing from the key set of the provider")]
    UnknownKey(String),
    /// The signature is of none of the matching keys.
    #[error("invalid signature")]
    Mismatch,
}

#[derive(Clone, Copy)]
enum Algorithm {
    Rsa(&'static RsaParameters),
    Ecdsa(&'static EcdsaVerificationAlgorithm, Curve),
    Ed25519,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Curve {
    P256,
    P384,
}

impl Algorithm {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "RS256" => Self::Rsa(&RSA_PKCS1_2048_8192_SHA256),
            "RS384" => Self::Rsa(&RSA_PKCS1_2048_8192_SHA384),
            "RS512" => Self::Rsa(&RSA_PKCS1_2048_8192_SHA512),
            "PS256" => Self::Rsa(&RSA_PSS_2048_8192_SHA256),
            "PS384" => Self::Rsa(&RSA_PSS_2048_8192_SHA384),
            "PS512" => Self::Rsa(&RSA_PSS_2048_8192_SHA512),
            "ES256" => Self::Ecdsa(&ECDSA_P256_SHA256_FIXED, Curve::P256),
            "ES384" => Self::Ecdsa(&ECDSA_P384_SHA384_FIXED, Curve::P384),
            "EdDSA" | "Ed25519" => Self::Ed25519,
            _ => return None,
        })
    }
}

/// Public keys of a provider.
pub struct KeySet {
    keys: Vec<Key>,
}

struct Key {
    id: Option<String>,
    algorithm: Option<String>,
    material: Material,
}

enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    Ec { curve: Curve, point: Vec<u8> },
    Ed25519(Vec<u8>),
}

#[derive(Deserialize)]
struct Jwks {
    keys: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|key| &key.id)).finish()
    }
}

impl KeySet {
    /// Reads a JSON Web Key Set. Keys for other purposes, symmetric keys and unknown kinds are skipped.
    ///
    /// # Errors
    /// The JSON is not a key set.
    pub fn parse(json: &[u8]) -> Result<Self, serde_json::Error> {
        let set: Jwks = serde_json::from_slice(json)?;
        let keys = set.keys.into_iter().filter_map(|key| Key::new(serde_json::from_value(key).ok()?));
        Ok(Self { keys: keys.take(MAX_KEYS).collect() })
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

impl Key {
    fn new(jwk: Jwk) -> Option<Self> {
        let for_signatures = jwk.usage.as_deref().is_none_or(|usage| usage == "sig")
            && jwk.key_ops.as_ref().is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        if !for_signatures {
            return None;
        }
        let bytes = |field: &Option<String>| URL_SAFE_NO_PAD.decode(field.as_deref()?).ok();
        let material = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", _) => Material::Rsa { n: bytes(&jwk.n)?, e: bytes(&jwk.e)? },
            ("EC", Some(curve)) => {
                let (curve, length) = match curve {
                    "P-256" => (Curve::P256, 32),
                    "P-384" => (Curve::P384, 48),
                    _ => return None,
                };
                let (x, y) = (bytes(&jwk.x)?, bytes(&jwk.y)?);
                if x.len() != length || y.len() != length {
                    return None;
                }
                // Uncompressed point (SEC 1).
                let point = [&[4][..], &x, &y].concat();
                Material::Ec { curve, point }
            }
            ("OKP", Some("Ed25519")) => Material::Ed25519(bytes(&jwk.x)?),
            _ => return None,
        };
        Some(Self { id: jwk.kid, algorithm: jwk.alg, material })
    }

    /// Verifies a signature; `None` when the key is not for the algorithm.
    fn check(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> Option<bool> {
        let checked = match (algorithm, &self.material) {
            (Algorithm::Rsa(parameters), Material::Rsa { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            (Algorithm::Ecdsa(algorithm, wanted), Material::Ec { curve, point }) if *curve == wanted => {
                UnparsedPublicKey::new(algorithm, point).verify(message, signature)
            }
            (Algorithm::Ed25519, Material::Ed25519(key)) => {
                UnparsedPublicKey::new(&ED25519, key).verify(message, signature)
            }
            _ => return None,
        };
        Some(checked.is_ok())
    }
}

/// `crit` names extensions that must be understood; none is supported.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    crit: Option<serde_json::Value>,
}

/// Verifies the signature of a token; returns its payload.
///
/// # Errors
/// The token is not signed by a key of the set, or not a signed JSON Web Token.
pub fn verify(token: &str, keys: &KeySet) -> Result<Vec<u8>, SignatureError> {
    use SignatureError::Malformed;
    if token.len() > MAX_TOKEN {
        return Err(Malformed("longer than 16 KiB"));
    }
    let (message, signature) = token.rsplit_once('.').ok_or(Malformed("expected three parts"))?;
    let (header, payload) = message.split_once('.').ok_or(Malformed("expected three parts"))?;
    let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| Malformed("part is not base64url"));
    let header: Header =
        serde_json::from_slice(&decode(header)?).map_err(|_| Malformed("header is not JSON with `alg`"))?;
    // A payload with a dot is not base64url.
    let (payload, signature) = (decode(payload)?, decode(signature)?);
    let name = || header.alg.chars().filter(char::is_ascii_graphic).take(20).collect();
    let algorithm = Algorithm::parse(&header.alg).ok_or_else(|| SignatureError::Algorithm(name()))?;
    if header.crit.is_some() {
        return Err(Malformed("header requires an unsupported extension"));
    }
    // Access tokens and logout tokens have other types (RFC 8725, 3.11).
    if header.typ.is_some_and(|typ| !typ.eq_ignore_ascii_case("JWT")) {
        return Err(Malformed("type is not JWT"));
    }
    let mut known = false;
    for key in &keys.keys {
        let is_named = header.kid.is_none() || header.kid == key.id;
        let is_for = key.algorithm.as_ref().is_none_or(|algorithm| *algorithm == header.alg);
        if !is_named || !is_for {
            continue;
        }
        match key.check(algorithm, message.as_bytes(), &signature) {
            Some(true) => return Ok(payload),
            Some(false) => known = true,
            None => {}
        }
    }
    if known {
        return Err(SignatureError::Mismatch);
    }
    let id = header.kid.map_or_else(
        || "without id".to_owned(),
        |id| format!("`{}`", id.chars().filter(char::is_ascii_graphic).take(64).collect::<String>()),
    );
    Err(SignatureError::UnknownKey(id))
}

#[cfg(test)]
mod tests;

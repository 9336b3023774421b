use crate::jose::SignatureError;

/// A failed sign-in or token validation. Texts contain neither tokens nor response bodies.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("{option}: {why}")]
    Settings {
        /// The flag.
        option: &'static str,
        why: String,
    },
    /// The provider is unreachable or did not respond in time.
    #[error("failed to request {what} from {host}: {why}")]
    Unreachable {
        /// The requested resource.
        what: &'static str,
        host: String,
        why: String,
    },
    /// The provider's response is not usable.
    #[error("invalid response from {host} to the request for {what}: {why}")]
    Answer {
        /// The requested resource.
        what: &'static str,
        host: String,
        why: String,
    },
    /// The provider's configuration does not fit.
    #[error("invalid discovery document: {0}")]
    Discovery(String),
    /// The response comes from another issuer.
    #[error("response is from issuer {from}, expected {expected}")]
    Issuer {
        /// The issuer that the response names, or a placeholder.
        from: String,
        /// The configured issuer.
        expected: String,
    },
    /// The provider refused with an OAuth 2.0 error code.
    #[error("the provider rejected the request for {what}: {code}")]
    Refused {
        /// The requested resource.
        what: &'static str,
        /// The error code, such as `invalid_grant`.
        code: String,
    },
    /// The token in the provider's response is not accepted.
    #[error("invalid ID token: {0}")]
    Token(#[from] TokenError),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The signature, or an input of its verification.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// Missing or malformed claims.
    #[error("malformed claims: {0}")]
    Malformed(String),
    /// Claim `iss`.
    #[error("issued by {0}")]
    Issuer(String),
    /// Claim `aud`.
    #[error("issued for {0}, a different client")]
    Audience(String),
    /// Claim `azp`.
    #[error("issued to {0}, a different client")]
    AuthorizedParty(String),
    /// Claim `exp`.
    #[error("expired {0} seconds ago; compare the clocks of the provider and of this machine")]
    Expired(i64),
    /// Claims `nbf` and `iat`.
    #[error("not yet valid (valid in {0} seconds); compare the clocks of the provider and of this machine")]
    NotYetValid(i64),
    /// Claim `nonce`.
    #[error("nonce does not match this sign-in")]
    Nonce,
    /// Claim `sub`.
    #[error("subject is that of another account")]
    Subject,
}

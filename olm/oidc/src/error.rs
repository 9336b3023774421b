use crate::jose::SignatureError;

/// Why a sign-in, or the check of a token, failed. Texts hold neither tokens nor bodies of answers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An option cannot be used.
    #[error("{option}: {why}")]
    Settings {
        /// The flag.
        option: &'static str,
        /// What is wrong with its value.
        why: String,
    },
    /// The provider cannot be reached, or did not answer in time.
    #[error("failed to request {what} from {host}: {why}")]
    Unreachable {
        /// What was asked for.
        what: &'static str,
        /// The host that was asked.
        host: String,
        why: String,
    },
    /// The provider's answer is not usable.
    #[error("invalid response from {host} to the request for {what}: {why}")]
    Answer {
        /// What was asked for.
        what: &'static str,
        /// The host that answered.
        host: String,
        /// What is wrong with the answer.
        why: String,
    },
    /// The provider's configuration does not fit.
    #[error("invalid discovery document: {0}")]
    Discovery(String),
    /// Another issuer answered than the one that was asked.
    #[error("response is from issuer {from}, expected {expected}")]
    Issuer {
        /// The issuer that the answer names, or a word for none.
        from: String,
        /// The configured one.
        expected: String,
    },
    /// The provider refused with an error code of OAuth 2.0.
    #[error("the provider rejected the request for {what}: {code}")]
    Refused {
        /// What was asked for.
        what: &'static str,
        /// The error code, such as `invalid_grant`.
        code: String,
    },
    /// The provider's answer has a token that is not accepted.
    #[error("invalid ID token: {0}")]
    Token(#[from] TokenError),
}

/// Why an ID token is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The signature, or what it needs.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// The claims are not what ID tokens have.
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

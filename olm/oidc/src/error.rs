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
    #[error("failed to get {what} from {host}: {why}")]
    Unreachable {
        /// What was asked for.
        what: &'static str,
        /// The host that was asked.
        host: String,
        /// Why.
        why: String,
    },
    /// The provider's answer is not usable.
    #[error("{host} answered the request for {what} with {why}")]
    Answer {
        /// What was asked for.
        what: &'static str,
        /// The host that answered.
        host: String,
        /// What is wrong with the answer.
        why: String,
    },
    /// The provider's configuration does not fit.
    #[error("the discovery document is not usable: {0}")]
    Discovery(String),
    /// Another issuer answered than the one that was asked.
    #[error("the answer is from issuer {from}, expected {expected}")]
    Issuer {
        /// The issuer that the answer names, or a word for none.
        from: String,
        /// The configured one.
        expected: String,
    },
    /// The provider refused with an error code of OAuth 2.0.
    #[error("the provider refused {what}: {code}")]
    Refused {
        /// What was asked for.
        what: &'static str,
        /// The error code, such as `invalid_grant`.
        code: String,
    },
    /// The provider's answer has a token that is not accepted.
    #[error("the ID token is not accepted: {0}")]
    Token(#[from] TokenError),
}

/// Why an ID token is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The signature, or what it needs.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// The claims are not what ID tokens have.
    #[error("its claims are malformed: {0}")]
    Malformed(String),
    /// Claim `iss`.
    #[error("it was issued by {0}")]
    Issuer(String),
    /// Claim `aud`.
    #[error("it was issued for {0}, which is another client")]
    Audience(String),
    /// Claim `azp`.
    #[error("it was issued to {0}, which is another client")]
    AuthorizedParty(String),
    /// Claim `exp`.
    #[error("it expired {0} seconds ago; compare the clocks of the provider and of this machine")]
    Expired(i64),
    /// Claims `nbf` and `iat`.
    #[error("it is valid only in {0} seconds; compare the clocks of the provider and of this machine")]
    NotYetValid(i64),
    /// Claim `nonce`.
    #[error("its nonce is not that of this sign-in")]
    Nonce,
    /// Claim `sub`.
    #[error("it is that of another account")]
    Subject,
}

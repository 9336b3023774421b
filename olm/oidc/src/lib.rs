//! OpenID Connect: the authorization code flow with PKCE at one provider, and validation of ID tokens.
//!
//! Signatures are verified with ring, the only crypto provider of this program. Crates with more features
//! (`openidconnect`) add a second one, with RUSTSEC-2023-0071 open.
//!
//! - `jose`: signatures and key sets (RFC 7515, 7517, 7518, 8037);
//! - `claims`: claims of an ID token (OpenID Connect Core 3.1.3.7);
//! - `clock`: the time, which tests advance;
//! - `http`: requests with limits;
//! - `provider`: discovery and keys, cached;
//! - `flow`: from the authorization request to tokens.

mod claims;
mod clock;
mod error;
mod flow;
mod http;
mod jose;
mod provider;

pub use claims::{Claims, Expected, SKEW};
pub use clock::Clock;
pub use error::{Error, TokenError};
pub use flow::{Authorization, Tokens};
pub use jose::{KeySet, SignatureError, verify};
pub use provider::{Provider, Settings};

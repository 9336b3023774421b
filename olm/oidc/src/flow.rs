//! The authorization code flow with PKCE, token refresh and sign-out.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use reqwest::Url;
use ring::digest::{SHA256, digest};
use serde::Deserialize;

use crate::{
    claims::Claims,
    error::{Error, TokenError},
    provider::{Metadata, Provider},
};

/// An authorization request, and the values that its response is checked against.
pub struct Authorization {
    /// Redirect target of the browser.
    pub url: String,
    /// Echoed in the response.
    pub state: String,
    nonce: String,
    /// PKCE's `code_verifier`.
    verifier: String,
    redirect_uri: String,
}

/// Result of the token endpoint.
pub struct Tokens {
    pub id_token: String,
    pub refresh_token: Option<String>,
    /// Claims of the ID token.
    pub claims: Claims,
}

#[derive(Deserialize)]
struct TokenAnswer {
    token_type: String,
    id_token: Option<String>,
    refresh_token: Option<String>,
}

#[derive(Deserialize)]
struct ErrorAnswer {
    error: String,
}

impl Provider {
    /// Creates an authorization request.
    ///
    /// # Errors
    /// The provider's discovery document is not readable.
    pub async fn begin(&self, redirect_uri: &str) -> Result<Authorization, Error> {
        let metadata = self.metadata().await?;
        let (state, nonce, verifier) = (random(), random(), random());
        let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes()));
        let others = self.settings.scopes.iter().map(String::as_str).filter(|scope| *scope != "openid");
        let scopes: Vec<&str> = std::iter::once("openid").chain(others).collect();
        let mut url = metadata.authorization_endpoint.clone();
        url.query_pairs_mut().extend_pairs([
            ("response_type", "code"),
            ("client_id", self.client_id()),
            ("redirect_uri", redirect_uri),
            ("scope", &scopes.join(" ")),
            ("state", &state),
            ("nonce", &nonce),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ]);
        let redirect_uri = redirect_uri.to_owned();
        Ok(Authorization { url: url.into(), state, nonce, verifier, redirect_uri })
    }

    /// Checks the issuer that an authorization response names (RFC 9207).
    ///
    /// # Errors
    /// Another issuer, or none although the provider announces the parameter.
    pub async fn check_issuer(&self, iss: Option<&str>) -> Result<(), Error> {
        let from = match iss {
            Some(iss) if iss == self.issuer() => return Ok(()),
            Some(iss) => iss.chars().filter(char::is_ascii_graphic).take(200).collect(),
            None if !self.metadata().await?.names_itself => return Ok(()),
            None => "(none)".to_owned(),
        };
        Err(Error::Issuer { from, expected: self.issuer().to_owned() })
    }

    /// Exchanges the code of an authorization response.
    ///
    /// # Errors
    /// The provider does not return an acceptable ID token.
    pub async fn finish(&self, code: &str, authorization: &Authorization) -> Result<Tokens, Error> {
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", authorization.redirect_uri.as_str()),
            ("code_verifier", authorization.verifier.as_str()),
        ];
        let answer = self.request_tokens("the tokens of this sign-in", &fields).await?;
        let id_token = answer.id_token.ok_or_else(|| self.without_token())?;
        let claims = self.check(&id_token, Some(&authorization.nonce)).await?;
        Ok(Tokens { id_token, refresh_token: answer.refresh_token, claims })
    }

    /// Refreshes the ID token of an account.
    ///
    /// # Errors
    /// The provider does not return one for this account.
    pub async fn renew(&self, refresh_token: &str, subject: &str) -> Result<Tokens, Error> {
        let fields = [("grant_type", "refresh_token"), ("refresh_token", refresh_token)];
        let answer = self.request_tokens("new tokens", &fields).await?;
        let id_token = answer.id_token.ok_or_else(|| self.without_token())?;
        let claims = self.check(&id_token, None).await?;
        if claims.sub != subject {
            return Err(TokenError::Subject.into());
        }
        // Without a replacement the refresh token stays valid.
        let refresh_token = answer.refresh_token.or_else(|| Some(refresh_token.to_owned()));
        Ok(Tokens { id_token, refresh_token, claims })
    }

    /// Sign-out URL of the provider, if it announces one. The URL holds no token.
    pub async fn end_session(&self, back_to: &str) -> Option<String> {
        let mut url = self.known_metadata().await?.end_session_endpoint.clone()?;
        url.query_pairs_mut()
            .extend_pairs([("client_id", self.client_id()), ("post_logout_redirect_uri", back_to)]);
        Some(url.into())
    }

    /// Revokes a refresh token, if the provider announces support (RFC 7009).
    ///
    /// # Errors
    /// The provider does not respond.
    pub async fn revoke(&self, refresh_token: &str) -> Result<(), Error> {
        let Some(metadata) = self.known_metadata().await else { return Ok(()) };
        let Some(url) = &metadata.revocation_endpoint else { return Ok(()) };
        let fields = [("token", refresh_token), ("token_type_hint", "refresh_token")];
        self.post(&metadata, url, "the revocation of a token", &fields).await.map(drop)
    }

    fn without_token(&self) -> Error {
        let why = "no ID token; the client needs scope openid".to_owned();
        Error::Answer { what: "tokens", host: self.host().to_owned(), why }
    }

    async fn request_tokens(
        &self,
        what: &'static str,
        fields: &[(&str, &str)],
    ) -> Result<TokenAnswer, Error> {
        let metadata = self.metadata().await?;
        let answer = self.post(&metadata, &metadata.token_endpoint, what, fields).await?;
        if answer.status.is_client_error()
            && let Ok(ErrorAnswer { error }) = serde_json::from_slice(&answer.body)
        {
            let is_code = |c: &char| c.is_ascii_lowercase() || *c == '_';
            return Err(Error::Refused { what, code: error.chars().filter(is_code).take(64).collect() });
        }
        let tokens: TokenAnswer = answer.json(what)?;
        if !tokens.token_type.eq_ignore_ascii_case("Bearer") {
            return Err(answer.bad(what, "token type is not Bearer".into()));
        }
        Ok(tokens)
    }

    /// Posts a form with client authentication.
    async fn post(
        &self,
        metadata: &Metadata,
        url: &Url,
        what: &'static str,
        fields: &[(&str, &str)],
    ) -> Result<crate::http::Answer, Error> {
        let request = self.request(metadata, url, fields)?;
        self.http.send(what, url, request).await
    }

    fn request(
        &self,
        metadata: &Metadata,
        url: &Url,
        fields: &[(&str, &str)],
    ) -> Result<reqwest::RequestBuilder, Error> {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(fields);
        let mut request = self.http.post(url);
        match self.secret()? {
            None => {
                form.append_pair("client_id", self.client_id());
            }
            Some(secret) if metadata.takes_secret_in_header() => {
                // Both are encoded as form fields first (RFC 6749, 2.3.1).
                request = request.basic_auth(encoded(self.client_id()), Some(encoded(&secret)));
            }
            Some(secret) => {
                form.append_pair("client_id", self.client_id()).append_pair("client_secret", &secret);
            }
        }
        Ok(request.header("content-type", "application/x-www-form-urlencoded").body(form.finish()))
    }
}

impl Metadata {
    /// `client_secret_basic` is the default of the specification; `client_secret_post` is used where it is
    /// the only announced method.
    fn takes_secret_in_header(&self) -> bool {
        self.secret_methods.as_ref().is_none_or(|methods| {
            let has = |name: &str| methods.iter().any(|method| method == name);
            has("client_secret_basic") || !has("client_secret_post")
        })
    }
}

fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// 256 random bits, in the alphabet of a `code_verifier`.
fn random() -> String {
    let bytes: [u8; 32] = rand::random();
    URL_SAFE_NO_PAD.encode(bytes)
}

//! Validation of the claims of an ID token: OpenID Connect Core 1.0, 3.1.3.7 and 12.2.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};

use crate::error::TokenError;

/// Tolerated difference between the clocks of the provider and this machine, in seconds.
pub const SKEW: i64 = 60;

/// The claims of an ID token.
#[derive(Clone, Debug, Deserialize)]
pub struct Claims {
    pub iss: String,
    /// The account id, unique and stable at its issuer.
    pub sub: String,
    #[serde(deserialize_with = "one_or_many")]
    aud: Vec<String>,
    /// Expiry, in seconds since 1970.
    #[serde(deserialize_with = "seconds")]
    pub exp: i64,
    /// Time of issue, in seconds since 1970.
    #[serde(deserialize_with = "seconds")]
    pub iat: i64,
    #[serde(default, deserialize_with = "some_seconds")]
    nbf: Option<i64>,
    nonce: Option<String>,
    azp: Option<String>,
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// Expected values of the claims.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    pub issuer: &'a str,
    pub client_id: &'a str,
    /// Nonce of the authorization request; `None` without one.
    pub nonce: Option<&'a str>,
    /// Current time, in seconds since 1970.
    pub now: i64,
}

impl Claims {
    /// Reads and validates the payload of a token whose signature is verified.
    ///
    /// # Errors
    /// The first claim that is missing or wrong.
    pub fn check(payload: &[u8], expected: &Expected<'_>) -> Result<Self, TokenError> {
        let claims: Self =
            serde_json::from_slice(payload).map_err(|error| TokenError::Malformed(error.to_string()))?;
        if claims.iss != expected.issuer {
            return Err(TokenError::Issuer(shown(&claims.iss)));
        }
        if claims.sub.is_empty() {
            return Err(TokenError::Malformed("`sub` is empty".into()));
        }
        let is_for = |audience: &String| audience == expected.client_id;
        if !claims.aud.iter().any(is_for) {
            return Err(TokenError::Audience(shown(&claims.aud.join(", "))));
        }
        match &claims.azp {
            Some(party) if party != expected.client_id => {
                return Err(TokenError::AuthorizedParty(shown(party)));
            }
            // With several audiences, `azp` names the client that requested the token.
            None if claims.aud.len() > 1 => {
                return Err(TokenError::Malformed("several audiences but no `azp`".into()));
            }
            _ => {}
        }
        let now = expected.now;
        if now >= claims.exp.saturating_add(SKEW) {
            return Err(TokenError::Expired(now.saturating_sub(claims.exp)));
        }
        let valid_from = claims.iat.max(claims.nbf.unwrap_or(i64::MIN));
        if valid_from > now.saturating_add(SKEW) {
            return Err(TokenError::NotYetValid(valid_from.saturating_sub(now)));
        }
        if let Some(nonce) = expected.nonce
            && claims.nonce.as_deref() != Some(nonce)
        {
            return Err(TokenError::Nonce);
        }
        Ok(claims)
    }
}

impl Claims {
    /// The user's name as kube-apiserver forms it with `--oidc-username-claim` and `--oidc-username-prefix`;
    /// `None` when the token does not have the claim.
    pub fn user_name(&self, claim: &str, prefix: Option<&str>) -> Option<String> {
        let name = if claim == "sub" { self.sub.as_str() } else { self.others.get(claim)?.as_str()? };
        Some(match prefix {
            Some("-") => name.to_owned(),
            Some(prefix) => format!("{prefix}{name}"),
            None if claim == "email" => name.to_owned(),
            None => format!("{}#{name}", self.iss),
        })
    }
}

/// Text of a token, cut and without characters that could change the surrounding text.
fn shown(text: &str) -> String {
    let text: String = text.chars().filter(|c| c.is_ascii_graphic() || *c == ' ').take(200).collect();
    format!("`{text}`")
}

fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }
    Ok(match OneOrMany::deserialize(deserializer)? {
        OneOrMany::One(audience) => vec![audience],
        OneOrMany::Many(audiences) => audiences,
    })
}

/// A NumericDate, which may have a fraction.
fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let number = Number::deserialize(deserializer)?;
    // Both casts saturate.
    #[allow(clippy::cast_possible_truncation)]
    let whole = number.as_i64().or_else(|| number.as_f64().map(|seconds| seconds.floor() as i64));
    whole.ok_or_else(|| serde::de::Error::custom("expected seconds since 1970"))
}

fn some_seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    seconds(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn good() -> Value {
        json!({ "iss": "https://id.example", "sub": "1", "aud": "console", "exp": NOW + 600, "iat": NOW, "nonce": "n" })
    }

    fn check(change: Value) -> Result<Claims, TokenError> {
        let mut claims = good();
        for (key, value) in change.as_object().unwrap() {
            match value {
                Value::Null => claims.as_object_mut().unwrap().shift_remove(key),
                value => claims.as_object_mut().unwrap().insert(key.clone(), value.clone()),
            };
        }
        let expected =
            Expected { issuer: "https://id.example", client_id: "console", nonce: Some("n"), now: NOW };
        Claims::check(claims.to_string().as_bytes(), &expected)
    }

    #[test]
    fn tokens_with_all_required_claims_are_accepted() {
        for change in [
            json!({}),
            json!({ "aud": ["console"] }),
            json!({ "aud": ["console", "kubernetes"], "azp": "console" }),
            json!({ "azp": "console" }),
            json!({ "exp": NOW - SKEW + 1 }),
            json!({ "exp": 1_900_000_000.5 }),
            json!({ "iat": NOW + SKEW, "nbf": NOW + SKEW }),
            json!({ "groups": ["a"], "email": "a@b.example" }),
        ] {
            check(change.clone()).unwrap_or_else(|error| panic!("{change}: {error}"));
        }
    }

    #[test]
    fn t16_tokens_of_others_old_and_early_ones_are_refused() {
        use TokenError::{Audience, AuthorizedParty, Expired, Issuer, Nonce, NotYetValid};
        for (change, expected) in [
            (json!({ "iss": "https://id.example/" }), Issuer("`https://id.example/`".into())),
            (json!({ "iss": "https://evil\u{202e}.example" }), Issuer("`https://evil.example`".into())),
            (json!({ "aud": "other" }), Audience("`other`".into())),
            (json!({ "aud": [] }), Audience("``".into())),
            (json!({ "azp": "other" }), AuthorizedParty("`other`".into())),
            (json!({ "aud": ["console", "x"], "azp": "x" }), AuthorizedParty("`x`".into())),
            (json!({ "exp": NOW - SKEW }), Expired(SKEW)),
            (json!({ "exp": -1e300 }), Expired(i64::MAX)),
            (json!({ "nbf": NOW + SKEW + 1 }), NotYetValid(SKEW + 1)),
            (json!({ "iat": NOW + 3600 }), NotYetValid(3600)),
            (json!({ "nonce": "m" }), Nonce),
            (json!({ "nonce": null }), Nonce),
        ] {
            assert_eq!(check(change.clone()).unwrap_err(), expected, "{change}");
        }
    }

    #[test]
    fn claims_that_are_missing_or_of_another_type_are_refused() {
        for change in [
            json!({ "iss": null }),
            json!({ "sub": null }),
            json!({ "sub": "" }),
            json!({ "aud": null }),
            json!({ "aud": 1 }),
            json!({ "aud": ["console", "x"] }),
            json!({ "exp": null }),
            json!({ "exp": "1900000000" }),
            json!({ "iat": null }),
            json!({ "nbf": "x" }),
            json!({ "nonce": 1 }),
        ] {
            assert!(matches!(check(change.clone()), Err(TokenError::Malformed(_))), "{change}");
        }
        let twice = br#"{"iss":"https://id.example","iss":"https://id.example","sub":"1","aud":"console","exp":1,"iat":1}"#;
        let expected = Expected { issuer: "https://id.example", client_id: "console", nonce: None, now: NOW };
        assert!(matches!(Claims::check(twice, &expected), Err(TokenError::Malformed(_))));
    }
}

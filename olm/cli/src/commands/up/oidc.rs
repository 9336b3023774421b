//! ID tokens on the dev cluster's API server, with the flags and semantics of kube-apiserver.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use olm_devcluster::api::{Identity, TokenAuthenticator};
use olm_oidc::{Claims, Clock, Provider, Settings};
use serde_json::Value;

use crate::{
    args::OidcArgs,
    exit::{Code, Failure},
};

struct Tokens {
    provider: Provider,
    args: OidcArgs,
}

/// Authenticates the users of the configured provider.
pub(super) fn authenticator(args: &OidcArgs) -> Result<Option<Arc<dyn TokenAuthenticator>>, Failure> {
    let (Some(issuer), Some(client_id)) = (&args.issuer, &args.client_id) else { return Ok(None) };
    let settings = Settings {
        issuer: issuer.clone(),
        client_id: client_id.clone(),
        // An API server only validates tokens.
        client_secret_file: None,
        scopes: Vec::new(),
        ca_file: args.ca_file.clone(),
        timeout: Duration::from_secs(10),
        clock: Clock::default(),
    };
    let provider = Provider::new(settings).map_err(|error| Failure::new(Code::Usage, error.to_string()))?;
    Ok(Some(Arc::new(Tokens { provider, args: args.clone() })))
}

/// The console's pod has no access to files of this machine.
pub(super) fn check_for_pods(args: &OidcArgs) -> Result<(), Failure> {
    if args.client_secret_file.is_none() && args.ca_file.is_none() {
        return Ok(());
    }
    let why = "--oidc-client-secret-file and --oidc-ca-file: the console's pod has no access to files of this \
            machine";
    Err(Failure::new(Code::Usage, why).hint("pass --no-pods, or register a public client with the provider"))
}

#[async_trait]
impl TokenAuthenticator for Tokens {
    async fn authenticate(&self, token: &str) -> Option<Identity> {
        match self.provider.check(token, None).await {
            // Unlike a client, an API server tolerates no clock skew.
            Ok(claims) if claims.exp > self.provider.clock().now() => identity(&claims, &self.args),
            Ok(_) => None,
            Err(error) => {
                tracing::info!(%error, "token of the OpenID Connect provider");
                None
            }
        }
    }
}

/// Name and groups, derived from the claims like in kube-apiserver.
fn identity(claims: &Claims, args: &OidcArgs) -> Option<Identity> {
    let claim = args.username_claim.as_str();
    if claim == "email"
        && claims.others.get("email_verified").is_some_and(|verified| *verified != Value::Bool(true))
    {
        return None;
    }
    let groups = match args.groups_claim.as_ref().and_then(|claim| claims.others.get(claim)) {
        Some(Value::String(group)) => vec![group.as_str()],
        Some(Value::Array(groups)) => groups.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let group_prefix = args.groups_prefix.as_deref().unwrap_or_default();
    let groups = groups.into_iter().map(|group| format!("{group_prefix}{group}")).collect();
    let user = claims.user_name(claim, args.username_prefix.as_deref())?;
    Some(Identity { user, groups, ..Identity::default() })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use serde_json::json;

    use super::*;
    use crate::args::{Args, Command};

    #[test]
    fn names_and_groups_are_those_of_kube_apiserver() {
        let of = |flags: &[&str], claims: Value| {
            let line = [&["olm", "console", "--oidc-issuer=https://i", "--oidc-client-id=c"], flags].concat();
            let Command::Console(args) = Args::try_parse_from(line).unwrap().command else {
                panic!("another command")
            };
            let mut all = json!({ "iss": "https://i", "sub": "7", "aud": "c", "exp": 1, "iat": 1 });
            all.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
            let claims: Claims = serde_json::from_value(all).unwrap();
            identity(&claims, &args.oidc).map(|who| (who.user, who.groups))
        };
        let user = |name: &str| Some((name.to_owned(), vec![]));
        let email = json!({ "email": "a@b.example", "email_verified": true });
        assert_eq!(of(&[], json!({})), user("https://i#7"));
        assert_eq!(of(&["--oidc-username-prefix=-"], json!({})), user("7"));
        assert_eq!(of(&["--oidc-username-claim=email"], email), user("a@b.example"));
        assert_eq!(of(&["--oidc-username-claim=email"], json!({})), None);
        let unverified = json!({ "email": "a@b.example", "email_verified": false });
        assert_eq!(of(&["--oidc-username-claim=email"], unverified), None);
        let groups = of(
            &["--oidc-username-prefix=id:", "--oidc-groups-claim=g", "--oidc-groups-prefix=id:"],
            json!({ "g": ["x", "y"] }),
        );
        assert_eq!(groups, Some(("id:7".into(), vec!["id:x".into(), "id:y".into()])));
    }
}

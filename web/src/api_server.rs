//! The API server, seen through the eyes of one user.

use std::{fmt, sync::Arc};

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::{Api, Client, Config, api::PostParams, config::AuthInfo};
use serde::Serialize;

use crate::error::WebError;

/// A bearer token. Never shown, never logged.
#[derive(Clone, Default)]
pub(crate) struct Token(pub(crate) String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

type Connect = dyn Fn(&Token) -> Result<Client, kube::Error> + Send + Sync;

/// Makes clients that act as a user.
#[derive(Clone)]
pub(crate) struct ApiServer {
    connect: Arc<Connect>,
}

/// Who somebody is, in the words of the API server.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Identity {
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
    /// Proves it, to the API server and to the manager.
    #[serde(skip)]
    pub(crate) token: Token,
}

impl ApiServer {
    pub(crate) fn new(config: Config) -> Self {
        Self::from_fn(move |token| {
            let mut config = config.clone();
            config.auth_info = AuthInfo { token: Some(token.0.clone().into()), ..AuthInfo::default() };
            olm_client::connect(config)
        })
    }

    pub(crate) fn from_fn(
        connect: impl Fn(&Token) -> Result<Client, kube::Error> + Send + Sync + 'static,
    ) -> Self {
        Self { connect: Arc::new(connect) }
    }

    pub(crate) fn client(&self, token: &Token) -> Result<Client, WebError> {
        // A header value cannot hold these; kube would fail on the first call with an obscure message.
        if token.0.is_empty() || token.0.len() > 16 * 1024 || !token.0.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(WebError::unauthorized("this is not a bearer token"));
        }
        (self.connect)(token).map_err(WebError::from)
    }

    /// Asks the API server whose token this is.
    pub(crate) async fn who_is(&self, token: &Token) -> Result<(Client, Identity), WebError> {
        let client = self.client(token)?;
        let identity = identity(&client, token).await?;
        Ok((client, identity))
    }
}

/// Asks the API server whose token a client carries.
pub(crate) async fn identity(client: &Client, token: &Token) -> Result<Identity, WebError> {
    let api: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = api.create(&PostParams::default(), &SelfSubjectReview::default()).await?;
    let info = review.status.and_then(|s| s.user_info).unwrap_or_default();
    let name = info.username.unwrap_or_default();
    if name.is_empty() || name == "system:anonymous" {
        return Err(WebError::unauthorized("the API server does not know this token"));
    }
    Ok(Identity { name, groups: info.groups.unwrap_or_default(), token: token.clone() })
}

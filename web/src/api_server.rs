//! Clients of the API server with the identity of a user.

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use http::{HeaderValue, Request, header};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::{Api, Client, Config, api::PostParams, client::Body, config::AuthInfo, core::Status};
use serde::Serialize;
use tower::service_fn;

use crate::{error::WebError, session::same};

/// A bearer token, never displayed or logged. Clones share it, so that a renewal reaches every client and
/// page of a session.
#[derive(Clone)]
pub(crate) struct Token(Arc<RwLock<Arc<str>>>);

impl Token {
    pub(crate) fn new(text: &str) -> Self {
        Self(Arc::new(RwLock::new(text.into())))
    }

    pub(crate) fn get(&self) -> Arc<str> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn replace(&self, text: &str) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = text.into();
    }
}

/// Whether a text is valid in a header as a bearer token. Otherwise kube fails on the first call with an
/// obscure message.
pub(crate) fn is_token(text: &str) -> bool {
    !text.is_empty() && text.len() <= 16 * 1024 && text.bytes().all(|b| b.is_ascii_graphic())
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

type Connect = dyn Fn(&Token) -> Result<Client, kube::Error> + Send + Sync;

#[derive(Clone)]
pub(crate) struct ApiServer {
    connect: Arc<Connect>,
}

/// User name and groups as the API server reports them.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Identity {
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
    /// Authenticates the user to the API server and to the manager.
    #[serde(skip)]
    pub(crate) token: Token,
}

impl ApiServer {
    pub(crate) fn new(config: Config) -> Self {
        Self::from_fn(move |token| {
            let mut config = config.clone();
            config.auth_info = AuthInfo::default();
            let namespace = config.default_namespace.clone();
            let (client, token) = (olm_client::connect(config)?, token.clone());
            let authorized = service_fn(move |mut request: Request<Body>| {
                let value = HeaderValue::from_str(&format!("Bearer {}", token.get()));
                let client = client.clone();
                async move {
                    let mut value = value.map_err(|error| kube::Error::HttpError(error.into()))?;
                    value.set_sensitive(true);
                    request.headers_mut().insert(header::AUTHORIZATION, value);
                    client.send(request).await
                }
            });
            Ok(Client::new(authorized, namespace))
        })
    }

    /// The API server for one user, whose credentials the client has. The user signs in with the token, which
    /// the API server does not receive.
    pub(crate) fn of_client(client: Client, expected: String) -> Self {
        Self::from_fn(move |token| {
            if same(&token.get(), &expected) {
                return Ok(client.clone());
            }
            let refused = Status::failure("not the token of this console", "Unauthorized").with_code(401);
            Err(kube::Error::Api(Box::new(refused)))
        })
    }

    pub(crate) fn from_fn(
        connect: impl Fn(&Token) -> Result<Client, kube::Error> + Send + Sync + 'static,
    ) -> Self {
        Self { connect: Arc::new(connect) }
    }

    pub(crate) fn client(&self, token: &Token) -> Result<Client, WebError> {
        if !is_token(&token.get()) {
            return Err(WebError::unauthorized("invalid bearer token"));
        }
        (self.connect)(token).map_err(WebError::from)
    }

    /// Looks up the user of a token at the API server.
    pub(crate) async fn who_is(&self, token: &Token) -> Result<(Client, Identity), WebError> {
        let client = self.client(token)?;
        let identity = identity(&client, token).await?;
        Ok((client, identity))
    }
}

/// Looks up the user of a client's token at the API server.
pub(crate) async fn identity(client: &Client, token: &Token) -> Result<Identity, WebError> {
    let api: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = api.create(&PostParams::default(), &SelfSubjectReview::default()).await?;
    let info = review.status.and_then(|s| s.user_info).unwrap_or_default();
    let name = info.username.unwrap_or_default();
    if name.is_empty() || name == "system:anonymous" {
        return Err(WebError::unauthorized("the API server rejected the token"));
    }
    Ok(Identity { name, groups: info.groups.unwrap_or_default(), token: token.clone() })
}

//! Causes of requests without a response.

use std::{error::Error, fmt};

use http::Uri;
use kube::Config;
use tower::BoxError;

/// A request without a response. The HTTP client's message names only the layer that failed, and its sources
/// the cause; this error joins them into one text with the server's address.
#[derive(Debug)]
pub struct Unanswered {
    server: String,
    why: BoxError,
}

impl Unanswered {
    /// For the requests to the server of a configuration, through a proxy if there is one.
    pub fn by<E: Into<BoxError>>(
        config: &Config,
        proxy: Option<&Uri>,
    ) -> impl Fn(E) -> BoxError + Clone + use<E> {
        let name = |url: &Uri| url.to_string().trim_end_matches('/').to_owned();
        let mut server = name(&config.cluster_url);
        if let Some(proxy) = proxy {
            server = format!("{server} through proxy {}", name(proxy));
        }
        move |why| Self { server: server.clone(), why: why.into() }.into()
    }
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut why: &dyn Error = self.why.as_ref();
        while let Some(deeper) = why.source() {
            why = deeper;
        }
        write!(f, "no answer from {}: {why}", self.server)
    }
}

/// Without sources: printing the chain would repeat them.
impl Error for Unanswered {}

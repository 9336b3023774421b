//! Causes of requests without a response.

use std::{error::Error, fmt};

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
    /// For the requests to the server of a configuration.
    pub fn by<E: Into<BoxError>>(config: &Config) -> impl Fn(E) -> BoxError + Clone + use<E> {
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
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

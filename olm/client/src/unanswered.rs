//! Why a request had no answer.

use std::{error::Error, fmt};

use kube::Config;
use tower::BoxError;

/// A request that had no answer. The HTTP client says of it where in its layers that came to pass, and in its sources alone why; here
/// it is one text, with the server's address.
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

/// Without sources: whoever prints an error with them would say it twice.
impl Error for Unanswered {}

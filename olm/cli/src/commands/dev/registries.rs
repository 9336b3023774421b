//! Images of pods, from registries.

use std::{net::SocketAddr, path::Path};

use async_trait::async_trait;
use olm_catalog_sources::{
    Fetched, Limits, Options, Source, SourceError, Timeouts, full_name, pin_image, unpack_image,
};
use olm_devcluster::node::{ImageSource, PullError, PullSecret, UnpackedImage};

use crate::{args::RegistryArgs, exit::Failure, source::options};

/// Registries, with the credentials of this user and those of the pods.
pub struct Registries {
    options: Options,
}

impl Registries {
    pub fn new(args: &RegistryArgs) -> Result<Self, Failure> {
        let timeouts = Timeouts {
            // The node retries, and the status of the pod shows the cause.
            attempts: 2,
            ..Timeouts::default()
        };
        Ok(Self { options: Options { limits: limits(), timeouts, ..options(args)? } })
    }

    fn with(&self, reference: &str, secrets: &[PullSecret]) -> Result<Options, PullError> {
        let mut options = self.options.clone();
        // As in other runtimes, a registry on this machine needs no certificate.
        let host = reference.split('/').next().unwrap_or_default();
        if is_local(host) && options.ca_certificates.is_empty() && options.skip_tls_verify.is_empty() {
            options.plain_http.push(host.to_string());
        }
        // The pod's credentials are tried first.
        let own = std::mem::take(&mut options.credentials);
        for secret in secrets {
            options.credentials.add(&secret.origin, &secret.document).map_err(|error| failed(&error))?;
        }
        options.credentials.append(own);
        Ok(options)
    }
}

/// Limits of an image to run, which is larger than a catalog.
pub fn limits() -> Limits {
    Limits {
        download_bytes: 16 << 30,
        unpacked_bytes: 32 << 30,
        entries: 4_000_000,
        files: 2_000_000,
        ..Limits::default()
    }
}

#[async_trait]
impl ImageSource for Registries {
    fn full_name(&self, reference: &str) -> Result<String, PullError> {
        full_name(reference).map_err(|error| PullError::Name(error.to_string()))
    }

    async fn digest(&self, reference: &str, secrets: &[PullSecret]) -> Result<String, PullError> {
        if reference.starts_with("localhost/") {
            return Err(PullError::Failed(format!(
                "image {reference} has no registry; load it with `olm dev images load FILE`, and set \
                 imagePullPolicy to IfNotPresent or Never"
            )));
        }
        let pinned =
            pin_image(reference, &self.with(reference, secrets)?).await.map_err(|error| failed(&error))?;
        Ok(digest_of(&pinned).to_string())
    }

    async fn unpack(
        &self,
        reference: &str,
        digest: &str,
        secrets: &[PullSecret],
        directory: &Path,
    ) -> Result<UnpackedImage, PullError> {
        let name = reference.split('@').next().unwrap_or(reference);
        let source = Source::Image { reference: format!("{name}@{digest}") };
        match unpack_image(&source, &self.with(reference, secrets)?, directory).await {
            Ok(Fetched::New { revision, image, bytes, .. }) => {
                Ok(UnpackedImage { digest: revision.digest, config: image.document, bytes })
            }
            Ok(Fetched::Unchanged { .. }) => {
                Err(PullError::Failed(format!("image {reference} was not read")))
            }
            Err(error) => Err(failed(&error)),
        }
    }
}

/// `localhost:PORT`, or an address of this machine with a port.
fn is_local(host: &str) -> bool {
    host.strip_prefix("localhost:").is_some()
        || host.parse::<SocketAddr>().is_ok_and(|address| address.ip().is_loopback())
}

fn digest_of(pinned: &str) -> &str {
    pinned.rsplit('@').next().unwrap_or(pinned)
}

fn failed(error: &SourceError) -> PullError {
    PullError::Failed(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_registries_of_this_machine_need_no_certificate() {
        for local in ["localhost:5000", "127.0.0.1:5000", "127.9.9.9:1", "[::1]:5000"] {
            assert!(is_local(local), "{local}");
        }
        for other in ["localhost", "localhost.example.com:5000", "10.0.0.1:5000", "quay.io", ""] {
            assert!(!is_local(other), "{other}");
        }
    }
}

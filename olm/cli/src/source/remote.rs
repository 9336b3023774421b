//! Sources that the manager of a cluster can read, as the spec of a CatalogSource.

use olm_api::{
    CatalogSourceSpec,
    catalog_source::{RegistryPoll, SOURCE_GRPC, SOURCE_HTTP, UpdateStrategy},
};
use olm_catalog_sources::{Source, has_credentials};
use olm_kube_schema::names::is_dns_label;

use super::{
    Named,
    known::{known, known_names},
};
use crate::exit::{Code, Failure};

/// Poll interval of an image by tag. A poll requests only the digest of the tag.
const POLL: &str = "60m";

/// A catalog that the manager fetches.
#[derive(Debug, Clone, PartialEq)]
pub struct Remote {
    /// Name that the source suggests; `None` when it suggests no valid one.
    pub name: Option<String>,
    pub spec: CatalogSourceSpec,
}

impl Remote {
    /// Parses a known name, an image reference, `https://`, `http://` or `grpc://`.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        if let Some(known) = known(text) {
            let spec = CatalogSourceSpec {
                display_name: Some(known.display_name.to_owned()),
                publisher: Some(known.publisher.to_owned()),
                ..image(known.image)
            };
            return Ok(Self { name: Some(known.name.to_owned()), spec });
        }
        if has_credentials(text) {
            let message = "the source contains credentials, which every reader of the CatalogSource could \
                see";
            return Err(Failure::new(Code::Usage, message)
                .hint("store them in a pull secret in the namespace of the CatalogSource"));
        }
        let source = match Named::parse(text) {
            Ok(Named::Source(source)) => source,
            Ok(_) => return Err(local(text)),
            Err(_) if is_dns_label(text) => return Err(unknown(text)),
            Err(failure) => return Err(failure),
        };
        let (suggested, spec) = match source {
            Source::Image { reference } => (image_name(&reference).to_owned(), image(&reference)),
            Source::Http { url } => {
                let host = url.parse::<http::Uri>().ok().and_then(|uri| uri.host().map(str::to_owned));
                let host = host.filter(|host| !host.is_empty()).ok_or_else(|| {
                    Failure::new(Code::Usage, format!("{url} is not a valid URL"))
                        .hint("use the URL of catalog content, such as https://HOST/catalogs/NAME/api/v1/all")
                })?;
                let spec = CatalogSourceSpec {
                    source_type: SOURCE_HTTP.to_owned(),
                    url: Some(url),
                    ..CatalogSourceSpec::default()
                };
                (host, spec)
            }
            Source::Grpc { address } => {
                let host = address.split(':').next().unwrap_or_default().to_owned();
                let spec = CatalogSourceSpec {
                    source_type: SOURCE_GRPC.to_owned(),
                    address: Some(address),
                    ..CatalogSourceSpec::default()
                };
                (host, spec)
            }
            _ => return Err(local(text)),
        };
        Ok(Self { name: as_name(&suggested), spec })
    }
}

fn image(reference: &str) -> CatalogSourceSpec {
    let registry_poll = Some(RegistryPoll { interval: Some(POLL.to_owned()) });
    // The content of a digest never changes.
    let is_tag = !reference.contains('@');
    CatalogSourceSpec {
        source_type: SOURCE_GRPC.to_owned(),
        image: Some(reference.to_owned()),
        update_strategy: is_tag.then_some(UpdateStrategy { registry_poll }),
        ..CatalogSourceSpec::default()
    }
}

/// The last part of the repository: `catalog` of `quay.io/acme/catalog:latest`.
fn image_name(reference: &str) -> &str {
    let repository = reference.split('@').next().unwrap_or_default();
    let last = repository.rsplit('/').next().unwrap_or_default();
    last.split(':').next().unwrap_or_default()
}

fn as_name(text: &str) -> Option<String> {
    let text = text.to_lowercase().replace(['.', '_'], "-");
    is_dns_label(&text).then_some(text)
}

fn unknown(text: &str) -> Failure {
    let failure = Failure::new(Code::NotFound, format!("unknown catalog `{text}`"));
    let failure = match olm_version::suggest(text, known_names(), 3) {
        nearest if nearest.is_empty() => {
            failure.hint(format!("known catalogs: {}", known_names().join(", ")))
        }
        nearest => failure.hint(format!("did you mean {}?", nearest.join(", "))),
    };
    failure.hint(format!("use docker://{text} for an image"))
}

fn local(text: &str) -> Failure {
    let message = format!("{text} is on this machine; the manager in the cluster does not read it");
    Failure::new(Code::Usage, message)
        .hint("serve it with `olm catalog serve` and add its address, as grpc://HOST:PORT or a URL")
        .hint("or push an image with the catalog and add its reference")
        .hint("or mount a folder into the manager of a dev cluster: olm up --catalog NAME=DIR")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Remote {
        Remote::parse(text).unwrap_or_else(|failure| panic!("{text}: {failure:?}"))
    }

    #[test]
    fn a_known_name_is_an_image_with_a_title_that_is_polled() {
        let remote = parsed("operatorhub");
        assert_eq!(remote.name.as_deref(), Some("operatorhub"));
        assert_eq!(remote.spec.source_type, "grpc");
        assert_eq!(remote.spec.image.as_deref(), Some("quay.io/operatorhubio/catalog:latest"));
        assert_eq!(remote.spec.display_name.as_deref(), Some("OperatorHub.io"));
        let poll = remote.spec.update_strategy.and_then(|strategy| strategy.registry_poll);
        assert_eq!(poll.and_then(|poll| poll.interval).as_deref(), Some("60m"));
    }

    #[test]
    fn sources_have_a_type_and_suggest_a_name() {
        for (text, source_type, name) in [
            ("quay.io/acme/catalog:latest", "grpc", Some("catalog")),
            ("localhost:5000/acme_catalog", "grpc", Some("acme-catalog")),
            ("docker://catalog:v1", "grpc", Some("catalog")),
            ("https://catalogs.example.com:8443/all?x=a@b", "http", Some("catalogs-example-com")),
            ("grpc://catalog.ns.svc:50051", "grpc", Some("catalog-ns-svc")),
            ("http://[::1]:80/all", "http", None),
        ] {
            let remote = parsed(text);
            assert_eq!(remote.spec.source_type, source_type, "{text}");
            assert_eq!(remote.name.as_deref(), name, "{text}");
        }
        let digest = parsed("quay.io/acme/catalog@sha256:0");
        assert_eq!((digest.name.as_deref(), digest.spec.update_strategy), (Some("catalog"), None));
        assert_eq!(parsed("grpc://a:1").spec.address.as_deref(), Some("a:1"));
    }

    #[test]
    fn sources_that_the_manager_does_not_read_are_refused_with_a_next_step() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("catalog.yaml");
        std::fs::write(&file, "schema: olm.package\n").unwrap();
        for local in [dir.path().to_str().unwrap(), file.to_str().unwrap(), "-"] {
            let failure = Remote::parse(local).unwrap_err();
            assert_eq!(failure.code, Code::Usage, "{local}");
            assert!(failure.hints[0].contains("olm catalog serve"), "{failure:?}");
        }
        let failure = Remote::parse("operatorhb").unwrap_err();
        assert_eq!(failure.code, Code::NotFound);
        assert_eq!(failure.hints[0], "did you mean operatorhub?");
        for secret in [
            "https://me:hunter2@example.com/all",
            "https://me:hunter2@shared.example.com/all",
            "me:hunter2@quay.io/a/b",
            "grpc://hunter2@a:1",
        ] {
            let failure = Remote::parse(secret).unwrap_err();
            assert_eq!(failure.code, Code::Usage);
            assert!(!format!("{failure:?}").contains("hunter2"), "{failure:?}");
        }
        assert_eq!(Remote::parse("https://").unwrap_err().code, Code::Usage);
        assert_eq!(Remote::parse("./nowhere").unwrap_err().code, Code::NotFound);
    }
}

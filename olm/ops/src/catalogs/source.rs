//! Sources that the manager of a cluster can read, as the spec of a CatalogSource. Pure: the source is not read,
//! and no file of this machine is accessed.

use olm_api::{
    CatalogSourceSpec,
    catalog_source::{RegistryPoll, SOURCE_GRPC, SOURCE_HTTP, UpdateStrategy},
};
use olm_engine::catalogs::has_user;
use olm_kube_schema::names::is_dns_label;

use super::known::{known, known_names};

/// Poll interval of an image by tag. A poll requests only the digest of the tag.
const POLL: &str = "60m";

/// The kind of a source, as far as its text states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceText<'a> {
    Empty,
    /// `-`.
    Stdin,
    /// `DIR[:NAME]` of `oci:DIR[:NAME]`.
    Layout(&'a str),
    /// The reference of `docker://REFERENCE`.
    Image(&'a str),
    /// `HOST:PORT` of `grpc://HOST:PORT`.
    Grpc(&'a str),
    /// A URL with `https://` or `http://`.
    Http(&'a str),
    /// The scheme of a source that is not supported.
    Scheme(&'a str),
    /// The path of a file or folder, or an image with its registry.
    Bare {
        /// Whether it has the form of an image, `HOST/PATH`, so that a mistyped path is never looked up in a
        /// public registry.
        is_image: bool,
    },
}

impl<'a> SourceText<'a> {
    #[must_use]
    pub fn of(text: &'a str) -> Self {
        if text.is_empty() {
            return Self::Empty;
        }
        if text == "-" {
            return Self::Stdin;
        }
        if let Some(rest) = text.strip_prefix("oci:") {
            return Self::Layout(rest);
        }
        if let Some(reference) = text.strip_prefix("docker://") {
            return Self::Image(reference);
        }
        if let Some(address) = text.strip_prefix("grpc://") {
            return Self::Grpc(address.trim_end_matches('/'));
        }
        if text.starts_with("http://") || text.starts_with("https://") {
            return Self::Http(text);
        }
        match text.split_once("://") {
            Some((scheme, _)) => Self::Scheme(scheme),
            None => Self::Bare { is_image: is_image(text) },
        }
    }
}

/// Whether the text is `HOST/PATH`, with a host that has a dot or a port, or is `localhost`.
fn is_image(text: &str) -> bool {
    text.split_once('/').is_some_and(|(host, path)| {
        let host_like = host.contains(['.', ':']) || host == "localhost";
        host_like
            && !host.starts_with('.')
            && !path.is_empty()
            && !path.ends_with(".yaml")
            && !path.ends_with(".json")
    })
}

/// Parts of the names of query parameters with a credential, in lower case and without separators.
const CREDENTIALS: [&str; 7] = ["token", "secret", "passw", "signature", "credential", "apikey", "accesskey"];
/// Names of such parameters that count only as a whole: they are parts of other words.
const SHORT: [&str; 6] = ["key", "sig", "auth", "jwt", "pass", "pwd"];

/// Whether the text contains a user or a password before its host, or a credential in its query.
#[must_use]
pub fn has_credentials(text: &str) -> bool {
    let query = text.split('#').next().and_then(|text| text.split_once('?')).map_or("", |(_, query)| query);
    let is_credential = |parameter: &str| {
        let name = parameter.split('=').next().unwrap_or_default().to_lowercase();
        let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        SHORT.contains(&name.as_str()) || CREDENTIALS.iter().any(|part| name.contains(part))
    };
    has_user(text) || query.split(['&', ';']).any(is_credential)
}

/// Why a source is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceRefusal {
    #[error("the name of the source is empty")]
    Empty,
    #[error("{0}:// is not a supported source")]
    Scheme(String),
    #[error("the source contains credentials, which every reader of the CatalogSource could see")]
    Credentials,
    #[error("{0} is not a valid URL")]
    Url(String),
    #[error("unknown catalog `{0}`")]
    Unknown(String),
    /// The manager reads no files of the caller's machine.
    #[error("{0} is on this machine; the manager in the cluster does not read it")]
    Local(String),
}

impl SourceRefusal {
    /// What to do, the best first.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Empty => Vec::new(),
            Self::Scheme(_) => vec!["use oci:DIR, docker://, https://, http:// or grpc://".to_owned()],
            Self::Credentials => {
                vec!["store them in a pull secret in the namespace of the CatalogSource".to_owned()]
            }
            Self::Url(_) => vec![
                "use the URL of catalog content, such as https://HOST/catalogs/NAME/api/v1/all".to_owned(),
            ],
            Self::Unknown(text) => {
                let known = match olm_version::suggest(text, known_names(), 3) {
                    nearest if nearest.is_empty() => format!("known catalogs: {}", known_names().join(", ")),
                    nearest => format!("did you mean {}?", nearest.join(", ")),
                };
                vec![known, format!("use docker://{text} for an image")]
            }
            Self::Local(_) => vec![
                "serve it with `olm catalog serve` and add its address, as grpc://HOST:PORT or a URL"
                    .to_owned(),
                "or push an image with the catalog and add its reference".to_owned(),
                "or mount a folder into the manager of a dev cluster: olm up --catalog NAME=DIR".to_owned(),
            ],
        }
    }
}

/// A catalog that the manager fetches.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestedCatalog {
    /// Name that the source suggests; `None` when it suggests no valid one.
    pub name: Option<String>,
    pub spec: CatalogSourceSpec,
}

impl RequestedCatalog {
    /// Parses a known name, an image reference, `https://`, `http://` or `grpc://`.
    ///
    /// # Errors
    /// Any other source, and one with a user, a password or a token.
    pub fn parse(text: &str) -> Result<Self, SourceRefusal> {
        if let Some(known) = known(text) {
            let spec = CatalogSourceSpec {
                display_name: Some(known.display_name.to_owned()),
                publisher: Some(known.publisher.to_owned()),
                ..image(known.image)
            };
            return Ok(Self { name: Some(known.name.to_owned()), spec });
        }
        if has_credentials(text) {
            return Err(SourceRefusal::Credentials);
        }
        let (suggested, spec) = match SourceText::of(text) {
            SourceText::Empty => return Err(SourceRefusal::Empty),
            SourceText::Scheme(scheme) => return Err(SourceRefusal::Scheme(scheme.to_owned())),
            SourceText::Image(reference) => (image_name(reference).to_owned(), image(reference)),
            SourceText::Bare { is_image: true } => (image_name(text).to_owned(), image(text)),
            SourceText::Bare { is_image: false } if is_dns_label(text) => {
                return Err(SourceRefusal::Unknown(text.to_owned()));
            }
            SourceText::Stdin | SourceText::Layout(_) | SourceText::Bare { is_image: false } => {
                return Err(SourceRefusal::Local(text.to_owned()));
            }
            SourceText::Http(url) => {
                let host = url.parse::<http::Uri>().ok().and_then(|uri| uri.host().map(str::to_owned));
                let host = host.filter(|host| !host.is_empty());
                let host = host.ok_or_else(|| SourceRefusal::Url(url.to_owned()))?;
                let spec = CatalogSourceSpec {
                    source_type: SOURCE_HTTP.to_owned(),
                    url: Some(url.to_owned()),
                    ..CatalogSourceSpec::default()
                };
                (host, spec)
            }
            SourceText::Grpc(address) => {
                let host = address.split(':').next().unwrap_or_default().to_owned();
                let spec = CatalogSourceSpec {
                    source_type: SOURCE_GRPC.to_owned(),
                    address: Some(address.to_owned()),
                    ..CatalogSourceSpec::default()
                };
                (host, spec)
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> RequestedCatalog {
        RequestedCatalog::parse(text).unwrap_or_else(|refusal| panic!("{text}: {refusal:?}"))
    }

    #[test]
    fn a_known_name_is_an_image_with_a_title_that_is_polled() {
        let requested = parsed("operatorhub");
        assert_eq!(requested.name.as_deref(), Some("operatorhub"));
        assert_eq!(requested.spec.source_type, "grpc");
        assert_eq!(requested.spec.image.as_deref(), Some("quay.io/operatorhubio/catalog:latest"));
        assert_eq!(requested.spec.display_name.as_deref(), Some("OperatorHub.io"));
        let poll = requested.spec.update_strategy.and_then(|strategy| strategy.registry_poll);
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
            let requested = parsed(text);
            assert_eq!(requested.spec.source_type, source_type, "{text}");
            assert_eq!(requested.name.as_deref(), name, "{text}");
        }
        let digest = parsed("quay.io/acme/catalog@sha256:0");
        assert_eq!((digest.name.as_deref(), digest.spec.update_strategy), (Some("catalog"), None));
        assert_eq!(parsed("grpc://a:1").spec.address.as_deref(), Some("a:1"));
    }

    #[test]
    fn paths_are_refused_without_access_to_files() {
        // given files and folders of this machine, and one that does not exist
        let dir = tempfile::tempdir().unwrap();
        for local in [dir.path().to_str().unwrap(), "-", "./nowhere", "oci:/nowhere", "data/catalog.yaml"] {
            // then each is refused for its form alone
            let refusal = RequestedCatalog::parse(local).unwrap_err();
            assert_eq!(refusal, SourceRefusal::Local(local.to_owned()));
            assert!(refusal.hints()[0].contains("olm catalog serve"), "{refusal:?}");
        }
    }

    #[test]
    fn sources_that_the_manager_does_not_read_are_refused_with_a_next_step() {
        let refusal = RequestedCatalog::parse("operatorhb").unwrap_err();
        assert_eq!(refusal, SourceRefusal::Unknown("operatorhb".to_owned()));
        assert_eq!(refusal.hints(), ["did you mean operatorhub?", "use docker://operatorhb for an image"]);
        for secret in [
            "https://me:hunter2@example.com/all",
            "https://me:hunter2@shared.example.com/all",
            "me:hunter2@quay.io/a/b",
            "grpc://hunter2@a:1",
            "https://example.com/all?token=hunter2",
            "https://example.com/all?v=1&X-Amz-Signature=hunter2",
            "https://example.com/all?access_token=hunter2#x",
            "https://example.com/all?sig=hunter2",
        ] {
            assert_eq!(RequestedCatalog::parse(secret).unwrap_err(), SourceRefusal::Credentials, "{secret}");
        }
        assert_eq!(RequestedCatalog::parse("https://"), Err(SourceRefusal::Url("https://".to_owned())));
        assert_eq!(RequestedCatalog::parse("ftp://x/y"), Err(SourceRefusal::Scheme("ftp".to_owned())));
        assert_eq!(RequestedCatalog::parse(""), Err(SourceRefusal::Empty));
    }
}

//! The source that the spec of a CatalogSource requests. Pure.

use std::path::{Path, PathBuf};

use olm_api::{CatalogSourceSpec, catalog_source};
use olm_engine::catalogs::{Problem, hex};
use olm_ops::manifests::SHIPPED_CATALOG_IMAGE;
use olm_signatures::{Requirement, Verifier};
use sha2::{Digest, Sha256};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequestedSource {
    /// The catalog embedded in this binary.
    Shipped,
    /// An image in a registry.
    Image(String),
    /// An image that must be signed.
    Signed {
        image: String,
        by: Box<Requirement>,
    },
    /// A running catalog server.
    Address(String),
    /// A ConfigMap in the namespace of the CatalogSource.
    ConfigMap(String),
    /// A file or folder on the manager's disk.
    Directory(PathBuf),
    Http(String),
}

impl RequestedSource {
    /// The source of a spec; `image` replaces `spec.image`.
    pub(super) fn of(spec: &CatalogSourceSpec, image: Option<&str>) -> Result<Self, Problem> {
        let text = |field: &Option<String>| {
            field.as_deref().map(str::trim).filter(|t| !t.is_empty()).map(str::to_owned)
        };
        let invalid = |message: String| Problem::new("SpecInvalidError", "SpecInvalidError", message);
        let missing = |field: &str| {
            invalid(format!("spec.{field} unset: it must be set for sourcetype: {}", spec.source_type))
        };
        if let Some(by) = &spec.signed_by {
            let image = image.map(str::to_owned).or(text(&spec.image));
            return match image.filter(|_| spec.source_type == catalog_source::SOURCE_GRPC) {
                Some(image) if image != SHIPPED_CATALOG_IMAGE => match Verifier::new(by) {
                    Ok(_) => Ok(Self::Signed { image, by: Box::new(by.clone()) }),
                    Err(wrong) => Err(invalid(format!("spec.signedBy.{wrong}"))),
                },
                _ => Err(invalid(
                    "spec.signedBy: supported only for images in a registry, expected spec.image".into(),
                )),
            };
        }
        match spec.source_type.as_str() {
            catalog_source::SOURCE_GRPC => {
                let image = image.map(str::to_owned).or(text(&spec.image));
                match (image, text(&spec.address)) {
                    (Some(image), _) if image == SHIPPED_CATALOG_IMAGE => Ok(Self::Shipped),
                    (Some(image), _) => Ok(Self::Image(image)),
                    (None, Some(address)) => Ok(Self::Address(address)),
                    (None, None) => Err(invalid(
                        "image and address unset: at least one must be set for sourcetype: grpc".into(),
                    )),
                }
            }
            catalog_source::SOURCE_DIRECTORY => match text(&spec.directory) {
                Some(directory) if Path::new(&directory).is_absolute() => {
                    Ok(Self::Directory(directory.into()))
                }
                Some(directory) => Err(invalid(format!(
                    "spec.directory: `{directory}` is relative, expected an absolute path"
                ))),
                None => Err(missing("directory")),
            },
            catalog_source::SOURCE_HTTP => text(&spec.url).map(Self::Http).ok_or_else(|| missing("url")),
            catalog_source::SOURCE_CONFIGMAP | catalog_source::SOURCE_INTERNAL => {
                text(&spec.config_map).map(Self::ConfigMap).ok_or_else(|| missing("configMap"))
            }
            other => Err(invalid(format!(
                "unknown sourcetype: {other} (known are grpc, configmap, internal, directory and http)"
            ))),
        }
    }

    /// The manager's disk contains more than catalogs, such as its own token: only users of the manager's
    /// namespace may have files read there.
    pub(super) fn allowed_in(self, namespace: &str, managers: &str) -> Result<Self, Problem> {
        if matches!(self, Self::Directory(_)) && namespace != managers {
            let message = format!(
                "spec.directory: supported only in namespace {managers}; create the CatalogSource there"
            );
            return Err(Problem::new("SpecInvalidError", "SpecInvalidError", message));
        }
        Ok(self)
    }

    /// Equal for equal content and rights; a spec with another identity is fetched at once.
    ///
    /// A digest, because URLs may contain passwords and the value is written to disk.
    pub(super) fn identity(&self, secrets: &[String]) -> String {
        hex(&Sha256::digest(format!("{self:?} {secrets:?}").as_bytes()))
    }

    /// Whether checking it is nearly free.
    pub(super) fn is_local(&self) -> bool {
        matches!(self, Self::Shipped | Self::Directory(_) | Self::ConfigMap(_))
    }

    pub(super) fn is_fixed(&self) -> bool {
        match self {
            Self::Shipped => true,
            Self::Image(image) | Self::Signed { image, .. } => image.contains('@'),
            _ => false,
        }
    }

    /// Upstream's reason for a failure to read it.
    pub(super) fn failure_reason(&self) -> &'static str {
        match self {
            Self::ConfigMap(_) => "ConfigMapError",
            _ => "RegistryServerError",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(source_type: &str) -> CatalogSourceSpec {
        CatalogSourceSpec { source_type: source_type.into(), ..CatalogSourceSpec::default() }
    }

    #[test]
    fn every_source_is_known_by_its_fields() {
        let some = |text: &str| Some(text.to_owned());
        let image =
            CatalogSourceSpec { image: some("quay.io/x/cat:v1"), address: some("a:1"), ..spec("grpc") };
        assert_eq!(RequestedSource::of(&image, None), Ok(RequestedSource::Image("quay.io/x/cat:v1".into())));
        assert_eq!(
            RequestedSource::of(&image, Some("quay.io/x/cat:v2")),
            Ok(RequestedSource::Image("quay.io/x/cat:v2".into()))
        );
        let shipped = CatalogSourceSpec { image: some(SHIPPED_CATALOG_IMAGE), ..spec("grpc") };
        assert_eq!(RequestedSource::of(&shipped, None), Ok(RequestedSource::Shipped));
        let address = CatalogSourceSpec { address: some("cat.ns:50051"), ..spec("grpc") };
        assert_eq!(RequestedSource::of(&address, None), Ok(RequestedSource::Address("cat.ns:50051".into())));
        for kind in ["configmap", "internal"] {
            let map = CatalogSourceSpec { config_map: some("ops"), ..spec(kind) };
            assert_eq!(RequestedSource::of(&map, None), Ok(RequestedSource::ConfigMap("ops".into())));
        }
        let http = CatalogSourceSpec { url: some("https://example.com/all"), ..spec("http") };
        assert_eq!(
            RequestedSource::of(&http, None),
            Ok(RequestedSource::Http("https://example.com/all".into()))
        );
        let directory = CatalogSourceSpec { directory: some("/srv/cat"), ..spec("directory") };
        assert_eq!(RequestedSource::of(&directory, None), Ok(RequestedSource::Directory("/srv/cat".into())));
    }

    #[test]
    fn t22_an_image_that_must_be_signed_is_another_source_and_nothing_else_can_be() {
        let by = |key: &str| Some(Requirement { key: Some(key.into()), ..Requirement::default() });
        let key = rcgen::KeyPair::generate().unwrap();
        let other = rcgen::KeyPair::generate().unwrap();
        let signed = |key: &str| CatalogSourceSpec {
            image: Some("quay.io/x/cat:v1".into()),
            signed_by: by(key),
            ..spec("grpc")
        };
        let identity = |spec: &CatalogSourceSpec| RequestedSource::of(spec, None).unwrap().identity(&[]);
        let unsigned = CatalogSourceSpec { signed_by: None, ..signed("") };
        let identities = [
            identity(&signed(&key.public_key_pem())),
            identity(&signed(&other.public_key_pem())),
            identity(&unsigned),
        ];
        assert!(identities[0] != identities[1] && identities[0] != identities[2]);
        let message = |spec: &CatalogSourceSpec| RequestedSource::of(spec, None).unwrap_err().message;
        assert!(message(&signed("x")).starts_with("spec.signedBy.key: expected a PEM public key"));
        let neither = CatalogSourceSpec { signed_by: Some(Requirement::default()), ..signed("") };
        assert_eq!(message(&neither), "spec.signedBy.key: expected a key or an identity");
        for unsignable in [
            CatalogSourceSpec {
                url: Some("https://example.com/all".into()),
                signed_by: by(&key.public_key_pem()),
                ..spec("http")
            },
            CatalogSourceSpec {
                address: Some("a:1".into()),
                signed_by: by(&key.public_key_pem()),
                ..spec("grpc")
            },
            CatalogSourceSpec { image: Some(SHIPPED_CATALOG_IMAGE.into()), ..signed(&key.public_key_pem()) },
        ] {
            assert!(
                message(&unsignable).starts_with("spec.signedBy: supported only for images in a registry")
            );
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let message = |spec: &CatalogSourceSpec| {
            let problem = RequestedSource::of(spec, None).unwrap_err();
            assert_eq!(problem.reason, "SpecInvalidError");
            problem.message
        };
        assert_eq!(
            message(&spec("grpc")),
            "image and address unset: at least one must be set for sourcetype: grpc"
        );
        assert!(message(&spec("floppy")).starts_with("unknown sourcetype: floppy"));
        assert!(message(&spec("internal")).contains("spec.configMap"));
        assert!(message(&spec("http")).contains("spec.url"));
        let relative = CatalogSourceSpec { directory: Some("cat".into()), ..spec("directory") };
        assert!(message(&relative).contains("absolute"));
    }

    #[test]
    fn the_managers_disk_is_read_for_its_own_namespace_alone() {
        let directory = || RequestedSource::Directory("/srv".into());
        assert_eq!(directory().allowed_in("olm", "olm"), Ok(directory()));
        assert_eq!(directory().allowed_in("team", "olm").unwrap_err().reason, "SpecInvalidError");
        let image = || RequestedSource::Image("a/b:c".into());
        assert_eq!(image().allowed_in("team", "olm"), Ok(image()));
    }

    #[test]
    fn other_rights_are_another_source() {
        let image = RequestedSource::Image("a/b:c".into());
        assert_eq!(image.identity(&[]), RequestedSource::Image("a/b:c".into()).identity(&[]));
        assert_ne!(image.identity(&[]), image.identity(&["pull".into()]));
        let url = RequestedSource::Http("https://me:secret@example.com/".into());
        assert!(!url.identity(&[]).contains("secret"));
    }
}

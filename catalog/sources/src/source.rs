//! Sources of catalogs and bundles, and the results of reading them.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use olm_catalog::Problem;
use reqwest::Url;
use serde::{Deserialize, Serialize};

use crate::{digest::Digest, image::ImageConfig, reference::after_credentials};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Image {
        /// As for `docker pull`.
        reference: String,
    },
    /// An image in a directory of the OCI layout, as [`copy_image`](crate::copy_image) and `skopeo` write it.
    OciLayout {
        /// The directory with `index.json`.
        path: PathBuf,
        /// The image's name or digest in it; optional for a single image.
        reference: Option<String>,
    },
    /// A file: an archive of a directory, of an OCI layout or of `docker save`, or a file of a catalog;
    /// plain, gzip or zstd.
    Tarball {
        path: PathBuf,
    },
    Directory {
        path: PathBuf,
    },
    /// A file as under [`Tarball`](Self::Tarball), on a web server; for catalogd the URL that ends in
    /// `/api/v1/all`.
    Http {
        /// `https://…`
        url: String,
    },
    /// A running server of the gRPC API `api.Registry`. Only for catalogs.
    Grpc {
        /// `host:port`
        address: String,
    },
    /// The `data` of a ConfigMap in the package-manifest format. Only for catalogs.
    ConfigMap {
        /// For messages.
        name: String,
        /// `packages`, `clusterServiceVersions`, `customResourceDefinitions`.
        data: BTreeMap<String, String>,
    },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image { reference } => write!(f, "image {}", without_credentials(reference)),
            Self::OciLayout { path, reference: None } => write!(f, "OCI layout {}", path.display()),
            Self::OciLayout { path, reference: Some(reference) } => {
                write!(f, "{reference} in OCI layout {}", path.display())
            }
            Self::Tarball { path } => write!(f, "archive {}", path.display()),
            Self::Directory { path } => write!(f, "folder {}", path.display()),
            Self::Http { url } => f.write_str(&shown(url)),
            Self::Grpc { address } => write!(f, "gRPC server {}", without_credentials(address)),
            Self::ConfigMap { name, .. } => write!(f, "ConfigMap {name}"),
        }
    }
}

/// The source without a user and a password before the host, which reading rejects.
fn without_credentials(text: &str) -> &str {
    after_credentials(text).unwrap_or(text)
}

/// A state of a source: two equal ones have equal content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revision {
    /// Of the manifest for images, of the file for archives and web servers, of the content for others.
    pub digest: String,
    /// `ETag` of a web server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
}

impl Revision {
    pub(crate) fn of(digest: &Digest) -> Self {
        Self { digest: digest.to_string(), etag: None }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// The content is that of the previous revision; the destination was not created.
    Unchanged {
        /// Input of the next fetch; a web server may have a new tag for old content.
        revision: Revision,
    },
    /// The destination has the content.
    New {
        /// Input of the next fetch.
        revision: Revision,
        /// The configuration of an image.
        image: ImageConfig,
        /// Bytes of the unpacked files of an image or an archive; 0 for other sources.
        bytes: u64,
        /// Parts that could not be converted to a catalog; only for converted sources.
        problems: Vec<Problem>,
    },
}

/// A URL without embedded secrets.
pub(crate) fn shown(url: &str) -> String {
    match Url::parse(url) {
        Ok(mut url) => {
            // Neither can fail for a URL with a host, and one without has no credentials.
            let _ = url.set_password(None);
            let _ = url.set_username("");
            url.set_query(None);
            url.to_string()
        }
        Err(_) => "the URL".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t13_a_source_is_shown_without_credentials() {
        let image = |reference: &str| Source::Image { reference: reference.to_owned() }.to_string();
        assert_eq!(image("bob:hunter2@quay.io/a/b:v1"), "image quay.io/a/b:v1");
        assert_eq!(image("bob:hunter2@shared.example/a/b:v1"), "image shared.example/a/b:v1");
        assert_eq!(image("quay.io/a/b@sha256:1"), "image quay.io/a/b@sha256:1");
        assert_eq!(image("etcd@sha256:1"), "image etcd@sha256:1");
        let server = Source::Grpc { address: "bob:hunter2@server:50051".to_owned() };
        assert_eq!(server.to_string(), "gRPC server server:50051");
    }
}

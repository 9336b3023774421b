//! What a catalog or a bundle can be read from, and what is known of what was read.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use olm_catalog::Problem;
use serde::{Deserialize, Serialize};

use crate::{digest::Digest, web};

/// Where a catalog or a bundle is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// An image in a registry.
    Image {
        /// As `docker pull` takes it.
        reference: String,
    },
    /// An image in a folder of the OCI layout, as [`copy_image`](crate::copy_image) and `skopeo` write it.
    OciLayout {
        /// The folder with `index.json`.
        path: PathBuf,
        /// The image's name or digest in there; not needed where there is only one.
        reference: Option<String>,
    },
    /// A file: an archive of a folder, of an OCI layout or of `docker save`, or a file of a catalog; plain,
    /// gzip or zstd.
    Tarball {
        /// The file.
        path: PathBuf,
    },
    /// A local folder.
    Directory {
        /// The folder.
        path: PathBuf,
    },
    /// A file as under [`Tarball`](Self::Tarball), on a web server; for catalogd the URL that ends in
    /// `/api/v1/all`.
    Http {
        /// `https://…`
        url: String,
    },
    /// A running server of the gRPC API `api.Registry`. Catalogs alone.
    Grpc {
        /// `host:port`
        address: String,
    },
    /// The `data` of a ConfigMap in the package-manifest format. Catalogs alone.
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
            Self::Http { url } => f.write_str(&web::shown(url)),
            Self::Grpc { address } => write!(f, "gRPC server {}", without_credentials(address)),
            Self::ConfigMap { name, .. } => write!(f, "ConfigMap {name}"),
        }
    }
}

/// What is named, without a user and a password before the host. They are refused when the source is read.
fn without_credentials(text: &str) -> &str {
    let host = text.find('/').unwrap_or(text.len());
    match text[..host].rfind('@') {
        // Behind a name without a slash an `@` starts a digest.
        Some(at) if !text[at + 1..].starts_with("sha") => &text[at + 1..],
        _ => text,
    }
}

/// A state of a source: two equal ones have equal content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revision {
    /// Of the manifest for images, of the file for archives and web servers, of the content for others.
    pub digest: String,
    /// What a web server calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
}

impl Revision {
    pub(crate) fn of(digest: &Digest) -> Self {
        Self { digest: digest.to_string(), etag: None }
    }
}

/// What a fetch found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// The content is that of the previous revision; the destination was not made.
    Unchanged {
        /// To be given the next time; a web server may have a new name for old content.
        revision: Revision,
    },
    /// The destination holds the content.
    New {
        /// To be given the next time.
        revision: Revision,
        /// The labels of the image, where it is one.
        labels: BTreeMap<String, String>,
        /// What of the source could not be made part of a catalog; only where it had to be converted.
        problems: Vec<Problem>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t13_a_source_is_shown_without_credentials() {
        let image = |reference: &str| Source::Image { reference: reference.to_owned() }.to_string();
        assert_eq!(image("bob:hunter2@quay.io/a/b:v1"), "image quay.io/a/b:v1");
        assert_eq!(image("quay.io/a/b@sha256:1"), "image quay.io/a/b@sha256:1");
        assert_eq!(image("etcd@sha256:1"), "image etcd@sha256:1");
        let server = Source::Grpc { address: "bob:hunter2@server:50051".to_owned() };
        assert_eq!(server.to_string(), "gRPC server server:50051");
    }
}

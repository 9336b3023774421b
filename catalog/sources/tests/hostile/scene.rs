//! A registry with a catalog, and the common steps of the tests.

use std::{fs, path::PathBuf};

use olm_catalog_sources::{Credentials, Fetched, Options, Revision, Source, SourceError, fetch};
use serde_json::json;
use tempfile::TempDir;

use crate::{
    registry::{Fault, Registry},
    support::{ETCD, Image, expected, files, options},
};

/// A registry with a catalog, and a destination.
pub struct Scene {
    pub registry: Registry,
    pub image: Image,
    pub options: Options,
    pub folder: TempDir,
    pub dest: PathBuf,
}

impl Scene {
    pub async fn new() -> Self {
        let registry = Registry::start().await;
        let image = Image::catalog(ETCD);
        registry.push("v1", &image);
        let folder = TempDir::new().expect("a folder");
        let dest = folder.path().join("catalog");
        Self { options: options(&registry.host()), registry, image, folder, dest }
    }

    pub fn source(&self, name: &str) -> Source {
        Source::Image { reference: format!("{}/{name}", self.registry.host()) }
    }

    pub fn layer(&self) -> &str {
        &self.image.layers[0]
    }

    pub async fn fetch(&self, name: &str, previous: Option<&Revision>) -> Result<Fetched, SourceError> {
        fetch(&self.source(name), &self.options, previous, &self.dest).await
    }

    /// A successful fetch, with a check of the content.
    pub async fn good(&self) -> Revision {
        match self.fetch("org/catalog:v1", None).await.expect("fetched") {
            Fetched::New { revision, .. } => {
                assert_eq!(files(&self.dest), expected(&[("etcd/catalog.json", ETCD)]));
                revision
            }
            other => panic!("{other:?}"),
        }
    }

    /// A failing fetch, with a check that nothing is left.
    pub async fn bad(&self) -> SourceError {
        let error = self.fetch("org/catalog:v1", None).await.expect_err("failed");
        self.nothing_is_left();
        error
    }

    pub fn nothing_is_left(&self) {
        let left: Vec<_> = fs::read_dir(self.folder.path()).expect("read").flatten().collect();
        assert!(left.is_empty(), "{left:?}");
    }

    pub fn asked_for(&self, part: &str) -> usize {
        self.registry.asked().iter().filter(|asked| asked.path.contains(part)).count()
    }
}

pub fn status(code: u16) -> Fault {
    Fault::Status(code, Vec::new())
}

pub fn login(host: &str, user: &str, password: &str) -> Credentials {
    let mut credentials = Credentials::default();
    let document = json!({"auths": {host: {"username": user, "password": password}}}).to_string();
    credentials.add("secret olm/pull", document.as_bytes()).expect("a config");
    credentials
}

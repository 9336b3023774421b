//! The content that an image is read for, and its directories.

use std::{collections::BTreeMap, path::Path};

use crate::{
    error::SourceError,
    options::Limits,
    unpack::{DirectorySelection, Unpacker},
};

const CONFIGS: &str = "operators.operatorframework.io.index.configs.v1";
const DATABASE: &str = "operators.operatorframework.io.index.database.v1";
const MANIFESTS: &str = "operators.operatorframework.io.bundle.manifests.v1";
const METADATA: &str = "operators.operatorframework.io.bundle.metadata.v1";
const TESTS: &str = "operators.operatorframework.io.test.config.v1";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Catalog,
    Bundle,
    /// All files, to run the image.
    Root,
}

impl Content {
    /// Unpacks the directories of an image to keep: a catalog's files to the root, a bundle's to the directories
    /// that its annotations name, with the metadata in its standard place.
    pub fn unpacker(
        self,
        what: &str,
        labels: &BTreeMap<String, String>,
        files: &Path,
        limits: &Limits,
    ) -> Result<Unpacker, SourceError> {
        let label = |key: &str, default: &str| labels.get(key).map_or(default, String::as_str).to_owned();
        let wanted = match self {
            Self::Root => return Ok(Unpacker::root(files, limits)),
            Self::Catalog => DirectorySelection::nothing().folder(&label(CONFIGS, "/configs"), ""),
            Self::Bundle => {
                let (manifests, tests) = (label(MANIFESTS, "manifests/"), label(TESTS, "tests/scorecard/"));
                DirectorySelection::nothing()
                    .folder(&manifests, &manifests)
                    .and_then(|wanted| wanted.folder(&label(METADATA, "metadata/"), "metadata"))
                    .and_then(|wanted| wanted.folder(&tests, &tests))
            }
        };
        let wanted =
            wanted.map_err(|reason| SourceError::malformed(what, format!("invalid label: {reason}")))?;
        Ok(Unpacker::new(files, wanted, limits))
    }

    /// An image without any of the files is the wrong image.
    pub fn check(self, what: &str, labels: &BTreeMap<String, String>, files: u64) -> Result<(), SourceError> {
        if files > 0 || self == Self::Root {
            return Ok(());
        }
        let has = |key: &str| labels.contains_key(key);
        let reason = match self {
            Self::Catalog if has(DATABASE) && !has(CONFIGS) => {
                "SQLite catalogs (deprecated in 2021) are not supported; render this one to a file-based catalog \
                 with an `opm` of that time"
                    .to_owned()
            }
            Self::Catalog if has(MANIFESTS) => "found a bundle, expected a catalog".to_owned(),
            Self::Bundle if has(CONFIGS) => "found a catalog, expected a bundle".to_owned(),
            Self::Catalog => format!(
                "no files in {}; a catalog image names its directory in label {CONFIGS}",
                labels.get(CONFIGS).map_or("/configs", String::as_str)
            ),
            Self::Bundle | Self::Root => format!(
                "no files in manifests/ and metadata/; a bundle image names these directories in labels \
                 {MANIFESTS} and {METADATA}"
            ),
        };
        Err(SourceError::unsupported(what, reason))
    }
}

//! Where a CatalogSource's content comes from, and reading it.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use olm_api::{CatalogSourceSpec, catalog_source};
use olm_catalog::Catalog;
use sha2::{Digest, Sha256};

use crate::{catalogs::Problem, manifests::SHIPPED_CATALOG_IMAGE};

/// A source that can be read here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// The catalog in this very binary.
    Shipped,
    /// A folder on the manager's disk.
    Directory(PathBuf),
}

impl Source {
    /// What the spec asks for.
    pub(super) fn of(spec: &CatalogSourceSpec) -> Result<Self, Problem> {
        let invalid = |message: String| Problem { reason: "SpecInvalidError", message };
        match spec.source_type.as_str() {
            catalog_source::SOURCE_GRPC => match (&spec.image, &spec.address) {
                (Some(image), _) if image == SHIPPED_CATALOG_IMAGE => Ok(Self::Shipped),
                (Some(image), _) => Err(Problem {
                    reason: "ImageSourceUnsupported",
                    message: format!(
                        "spec.image: this version of olm does not pull catalog images, so {image} cannot be \
                         read; use {SHIPPED_CATALOG_IMAGE} (the catalog inside olm) or sourceType: directory"
                    ),
                }),
                (None, Some(address)) => Err(Problem {
                    reason: "AddressSourceUnsupported",
                    message: format!(
                        "spec.address: this version of olm does not read catalogs over gRPC, so {address} \
                         cannot be read; use sourceType: directory"
                    ),
                }),
                (None, None) => Err(invalid(
                    "image and address unset: at least one must be set for sourcetype: grpc".into(),
                )),
            },
            catalog_source::SOURCE_DIRECTORY => match &spec.directory {
                Some(directory) if Path::new(directory).is_absolute() => {
                    Ok(Self::Directory(directory.into()))
                }
                Some(directory) => {
                    Err(invalid(format!("spec.directory: `{directory}` is not an absolute path")))
                }
                None => Err(invalid("spec.directory: must be set for sourcetype: directory".into())),
            },
            catalog_source::SOURCE_CONFIGMAP | catalog_source::SOURCE_INTERNAL => Err(Problem {
                reason: "ConfigMapSourceUnsupported",
                message: "spec.sourceType: this version of olm does not read catalogs from ConfigMaps; \
                          use sourceType: directory"
                    .into(),
            }),
            other => Err(invalid(format!("unknown sourcetype: {other}"))),
        }
    }
}

/// The outcome of a look at a source.
#[derive(Debug)]
pub(super) enum Loaded {
    New(Box<Catalog>, String),
    Unchanged,
    Failed(Problem),
}

/// Reads the source, unless it still has the `known` fingerprint.
pub(super) fn load(source: &Source, known: Option<&str>) -> Loaded {
    match source {
        Source::Shipped if known == Some("shipped") => Loaded::Unchanged,
        Source::Shipped => Loaded::New(Box::new(olm_catalog::shipped()), "shipped".into()),
        Source::Directory(directory) => {
            let fingerprint = match fingerprint(directory) {
                Ok(fingerprint) => fingerprint,
                Err(error) => return failed(format!("failed to read {}: {error}", directory.display())),
            };
            if known == Some(&fingerprint) {
                return Loaded::Unchanged;
            }
            let catalog = Catalog::load_dir(directory);
            if catalog.packages.is_empty() && !catalog.problems.is_empty() {
                return failed(format!("no package could be read: {}", catalog.problems[0]));
            }
            Loaded::New(Box::new(catalog), fingerprint)
        }
    }
}

pub(super) fn failed(message: String) -> Loaded {
    Loaded::Failed(Problem { reason: "RegistryServerError", message })
}

/// Names, sizes and times of all files below a folder: cheap, and different when any of them was written.
fn fingerprint(directory: &Path) -> std::io::Result<String> {
    let mut files = Vec::new();
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            let metadata = std::fs::metadata(entry.path())?;
            if metadata.is_dir() {
                folders.push(entry.path());
            } else {
                files.push((entry.path(), metadata.len(), metadata.modified().ok()));
            }
        }
    }
    files.sort();
    let mut hash = Sha256::new();
    for (path, size, modified) in files {
        hash.update(format!("{}\0{size}\0{modified:?}\n", path.display()));
    }
    let hex: String = hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
    // The folder itself is part of it: two empty folders are not the same source.
    Ok(format!("{}:{hex}", directory.display()))
}

/// A Go duration such as `10m` or `1h30m`; `None` when it is none.
pub(super) fn go_duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let value: f64 = rest[..digits].parse().ok()?;
        let unit = &rest[digits..];
        let (seconds, length) = match unit {
            u if u.starts_with("ms") => (value / 1e3, 2),
            u if u.starts_with("ns") => (value / 1e9, 2),
            u if u.starts_with("us") => (value / 1e6, 2),
            u if u.starts_with('h') => (value * 3600.0, 1),
            u if u.starts_with('m') => (value * 60.0, 1),
            u if u.starts_with('s') => (value, 1),
            _ => return None,
        };
        total = total.checked_add(Duration::try_from_secs_f64(seconds).ok()?)?;
        rest = &unit[length..];
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grpc(image: Option<&str>) -> CatalogSourceSpec {
        CatalogSourceSpec {
            source_type: "grpc".into(),
            image: image.map(str::to_owned),
            ..CatalogSourceSpec::default()
        }
    }

    #[test]
    fn the_shipped_image_is_the_catalog_in_the_binary() {
        assert_eq!(Source::of(&grpc(Some(SHIPPED_CATALOG_IMAGE))), Ok(Source::Shipped));
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_the_field() {
        let reason = |spec: &CatalogSourceSpec| Source::of(spec).unwrap_err().reason;
        assert_eq!(reason(&grpc(Some("quay.io/operatorhubio/catalog:latest"))), "ImageSourceUnsupported");
        assert_eq!(reason(&grpc(None)), "SpecInvalidError");
        let odd = CatalogSourceSpec { source_type: "floppy".into(), ..CatalogSourceSpec::default() };
        assert_eq!(Source::of(&odd).unwrap_err().message, "unknown sourcetype: floppy");
    }

    #[test]
    fn a_folder_is_read_again_only_when_a_file_in_it_changed() {
        // given a folder with a catalog
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("catalog.yaml");
        std::fs::write(&file, "schema: olm.package\nname: a\ndefaultChannel: stable\n").unwrap();
        let before = fingerprint(folder.path()).unwrap();
        // when nothing happens, then nothing changes
        assert_eq!(fingerprint(folder.path()).unwrap(), before);
        // when a file grows
        std::fs::write(&file, "schema: olm.package\nname: a\ndefaultChannel: stable\n---\n").unwrap();
        assert_ne!(fingerprint(folder.path()).unwrap(), before);
    }

    #[test]
    fn a_folder_that_is_not_there_fails_and_does_not_empty_the_catalog() {
        let source = Source::Directory("/nonexistent/catalog".into());
        assert!(
            matches!(load(&source, None), Loaded::Failed(why) if why.message.contains("/nonexistent/catalog"))
        );
    }

    #[test]
    fn go_durations_are_read() {
        assert_eq!(go_duration("10m"), Some(Duration::from_secs(600)));
        assert_eq!(go_duration("1h30m"), Some(Duration::from_secs(5400)));
        assert_eq!(go_duration("1.5s"), Some(Duration::from_millis(1500)));
        assert_eq!(go_duration("soon"), None);
        assert_eq!(go_duration(""), None);
    }
}

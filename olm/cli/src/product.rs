//! The product's images: their programs and their names.

use std::path::{Path, PathBuf};

use olm_ops::manifests::{ManifestOptions, VERSION};

use crate::oci::{EPOCH, Program};

/// An image of one program.
#[derive(Debug, Clone)]
pub struct ProductImage {
    /// Name of the program.
    pub program: &'static str,
    pub description: &'static str,
    /// Full names of the image, the oldest tag first.
    pub names: Vec<String>,
}

/// The images of the product. The shipped catalog names those of the etcd operator.
pub fn images() -> [ProductImage; 2] {
    [
        ProductImage {
            program: "olm",
            description: "Installs, upgrades, explains and removes operators from catalogs",
            names: vec![ManifestOptions::default().image],
        },
        ProductImage {
            program: "etcd-operator",
            description: "Operator of etcd clusters, their backups and restores",
            names: olm_catalog::shipped_images(),
        },
    ]
}

impl ProductImage {
    /// The image without executables.
    pub fn program_image(&self) -> Program<'_> {
        let tags = self.names.iter().filter_map(|name| name.rsplit_once(':'));
        Program {
            name: self.program,
            // The newest of the versions that the program is.
            version: tags.map(|(_, tag)| tag).next_back().unwrap_or(VERSION),
            description: self.description,
            files: &[],
            sboms: None,
            names: &self.names,
            created: EPOCH,
        }
    }
}

/// The executable of a program in an installation; `olm` is the path of this one.
pub fn program_path(program: &str, olm: &Path) -> PathBuf {
    if program == "olm" { olm.to_owned() } else { olm.with_file_name(program) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_images_are_those_that_an_installation_and_the_shipped_catalog_name() {
        let [olm, etcd] = images();
        assert_eq!(olm.names, [format!("localhost/olm/olm:{VERSION}")]);
        assert_eq!(
            etcd.names,
            ["0.10.0", "0.10.1", "0.11.0"].map(|tag| format!("localhost/olm/etcd-operator:{tag}"))
        );
        assert_eq!((olm.program_image().version, etcd.program_image().version), (VERSION, "0.11.0"));
    }
}

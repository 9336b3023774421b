//! Whether nodes can pull the images of pods.

use std::collections::BTreeSet;

use olm_bundle::pulled_images;
use olm_version::shell_word;

use super::pod;
use super::{Context, Report};
use crate::finding::{Finding, FindingCode};
use crate::input::PlanInput;
use crate::object::ObjectRef;

/// Where images that were only built on a machine belong.
const LOCALHOST: &str = "localhost";
/// The registry that nodes with containerd assume for a name without one.
const DOCKER_HUB: &str = "docker.io";

/// Why no registry may serve an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unserved {
    /// `localhost/...`: an image that was built on a machine.
    Localhost,
    /// No registry in the name: each node completes it by its own configuration.
    NoRegistry,
}

impl Unserved {
    /// `None` for an image with a registry. `localhost:5000` is one: each node reaches it at its own port or by
    /// a mirror.
    fn of(image: &str) -> Option<Self> {
        match image.split_once('/') {
            Some((LOCALHOST, _)) => Some(Self::Localhost),
            Some((host, _)) if host.contains(['.', ':']) => None,
            _ => Some(Self::NoRegistry),
        }
    }
}

pub(super) fn check(context: &Context<'_>, report: &mut Report) {
    let facts = &context.input.facts.images_on_nodes;
    for pods in pod::changed(context) {
        for image in pulled_images(pods.spec()).collect::<BTreeSet<_>>() {
            let (Some(fact), Some(unserved)) = (facts.get(image), Unserved::of(image)) else { continue };
            if report.known_or_record(fact, &format!("whether a node has image {image}")) == Some(&false) {
                report.push(finding(unserved, image, pods.reference, context));
            }
        }
    }
}

fn finding(unserved: Unserved, image: &str, pods: &ObjectRef, context: &Context<'_>) -> Finding {
    let (text, fix) = match unserved {
        Unserved::Localhost => (
            format!(
                "no node can pull image {image}: {LOCALHOST}/ is not a registry, and no node reports the image; \
                 its pods wait with ErrImagePull"
            ),
            format!(
                "podman save {} | ctr --namespace k8s.io images import -  # on each node; or publish the image \
                 in a registry",
                shell_word(image)
            ),
        ),
        Unserved::NoRegistry => (
            format!(
                "image {image} names no registry, and no node reports the image: depending on its \
                 configuration, a node pulls it from {DOCKER_HUB} or refuses the name"
            ),
            format!(
                "olm show {}  # report to the publisher of the bundle: image names need a registry",
                shell_word(&context.input.resolved.chosen.package)
            ),
        ),
    };
    Finding::new(FindingCode::ImageNotPullable, pods, text).fix(fix)
}

/// The images of the bundle's pods that no registry may serve.
pub(super) fn needed(input: &PlanInput<'_>) -> BTreeSet<String> {
    let objects = input.rendered.ok().into_iter().flat_map(|r| r.objects()).map(|(_, object)| object);
    objects
        .filter_map(|object| Some(&pod::template(&ObjectRef::of(object)?, object)?["spec"]))
        .flat_map(pulled_images)
        .filter(|image| Unserved::of(image).is_some())
        .map(str::to_owned)
        .collect()
}

/// The names under which nodes report an image in `status.images`.
pub fn names_on_nodes(image: &str) -> Vec<String> {
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    let tag = name.rfind(':').filter(|at| !name[*at..].contains('/'));
    // With a digest, the tag is not part of the reported name.
    let full = match (digest, tag) {
        (Some(digest), at) => format!("{}@{digest}", &name[..at.unwrap_or(name.len())]),
        (None, Some(_)) => name.to_owned(),
        (None, None) => format!("{name}:latest"),
    };
    match Unserved::of(image) {
        Some(Unserved::NoRegistry) => {
            let library = if name.contains('/') { "" } else { "library/" };
            vec![format!("{DOCKER_HUB}/{library}{full}"), format!("{LOCALHOST}/{full}"), full]
        }
        Some(Unserved::Localhost) | None => vec![full],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_has_a_dot_or_a_port() {
        for image in ["localhost/thing:1", "localhost/acme/thing@sha256:00"] {
            assert_eq!(Unserved::of(image), Some(Unserved::Localhost), "{image}");
        }
        for image in ["thing", "thing:1", "acme/thing:1", "acme/thing@sha256:00"] {
            assert_eq!(Unserved::of(image), Some(Unserved::NoRegistry), "{image}");
        }
        for image in
            ["quay.io/acme/thing", "registry:5000/thing:1", "localhost:5000/thing:1", "10.0.0.1/thing"]
        {
            assert_eq!(Unserved::of(image), None, "{image}");
        }
    }

    #[test]
    fn nodes_report_complete_names() {
        for (image, names) in [
            ("localhost/thing:1", vec!["localhost/thing:1"]),
            ("localhost/thing", vec!["localhost/thing:latest"]),
            ("localhost/thing:1@sha256:00", vec!["localhost/thing@sha256:00"]),
            ("thing:1", vec!["docker.io/library/thing:1", "localhost/thing:1", "thing:1"]),
            (
                "acme/thing",
                vec!["docker.io/acme/thing:latest", "localhost/acme/thing:latest", "acme/thing:latest"],
            ),
            ("registry:5000/thing", vec!["registry:5000/thing:latest"]),
        ] {
            assert_eq!(names_on_nodes(image), names, "{image}");
        }
    }
}

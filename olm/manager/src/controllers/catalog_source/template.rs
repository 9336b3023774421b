//! The annotation `olm.catalogImageTemplate`: an image for the cluster's version of Kubernetes.

use olm_api::{CatalogSource, catalog_source::ANNOTATION_IMAGE_TEMPLATE};

/// A resolved template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template {
    /// The image, as far as it was resolved.
    pub(super) image: String,
    pub(super) left: Vec<String>,
}

impl Template {
    /// The image to use, when nothing is left to resolve.
    pub(super) fn resolved(&self) -> Option<&str> {
        self.left.is_empty().then_some(self.image.as_str())
    }
}

/// The annotation's text, when there is one.
pub(super) fn text(source: &CatalogSource) -> Option<&str> {
    let annotations = source.metadata.annotations.as_ref()?;
    annotations.get(ANNOTATION_IMAGE_TEMPLATE).map(|text| text.trim()).filter(|text| !text.is_empty())
}

/// Resolves a template. Templates of fields of objects (`{group:…}`) are not resolved: that would need the
/// right to read any object of the cluster.
pub(super) fn resolve(text: &str, git_version: Option<&str>) -> Template {
    let version = git_version.and_then(|text| olm_version::parse_lenient(text).ok());
    let value = |name: &str| {
        let version = version.as_ref()?;
        match name {
            "kube_major_version" => Some(version.major),
            "kube_minor_version" => Some(version.minor),
            "kube_patch_version" => Some(version.patch),
            _ => None,
        }
    };
    let mut template = Template { image: String::new(), left: Vec::new() };
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        let Some(end) = rest[start..].find('}').map(|end| start + end) else { break };
        let name = &rest[start + 1..end];
        template.image.push_str(&rest[..start]);
        match value(name) {
            Some(number) => template.image.push_str(&number.to_string()),
            None => {
                template.image.push_str(&rest[start..=end]);
                template.left.push(name.to_owned());
            }
        }
        rest = &rest[end + 1..];
    }
    template.image.push_str(rest);
    template
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_filled_in() {
        let text = "quay.io/x/cat:v{kube_major_version}.{kube_minor_version}.{kube_patch_version}";
        assert_eq!(resolve(text, Some("v1.33.4+vendor")).resolved(), Some("quay.io/x/cat:v1.33.4"));
        assert_eq!(resolve("quay.io/x/cat:v1", None).resolved(), Some("quay.io/x/cat:v1"));
    }

    #[test]
    fn what_is_not_known_is_left_and_named() {
        let template = resolve("quay.io/x/cat:v{kube_major_version}-{group:a}", Some("v1.33.4"));
        assert_eq!(template.resolved(), None);
        assert_eq!(template.left, ["group:a"]);
        assert_eq!(template.image, "quay.io/x/cat:v1-{group:a}");
        assert_eq!(resolve("cat:{kube_major_version}", None).left, ["kube_major_version"]);
        assert_eq!(resolve("cat:{open", Some("v1.0.0")).image, "cat:{open");
    }
}

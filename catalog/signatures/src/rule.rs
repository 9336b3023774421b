//! Which images must be signed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Requirement;

/// Images that must be signed, and the accepted signers. Where several rules apply to an image, it must satisfy each of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignatureRule {
    /// Images by registry, folder or repository, such as `quay.io/org`, which includes `quay.io/org/name` and not
    /// `quay.io/organisation`. `*` stands for all images.
    pub images: Vec<String>,
    /// Accepted signers; one signature suffices.
    pub any_of: Vec<Requirement>,
}

impl SignatureRule {
    /// Whether the rule is about an image, which is named with or without a tag and a digest.
    #[must_use]
    pub fn applies_to(&self, image: &str) -> bool {
        let image = repository(image);
        self.images.iter().any(|prefix| {
            if prefix.trim() == "*" {
                return true;
            }
            let prefix = folder(prefix);
            image.strip_prefix(prefix.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }
}

#[cfg(feature = "verify")]
impl SignatureRule {
    /// Parses the requirements, one of which an image must meet.
    /// # Errors
    /// When the rule matches no image, or a requirement is invalid.
    pub fn verifiers(&self) -> Result<Vec<crate::Verifier>, crate::InvalidRequirement> {
        let invalid =
            |field, reason: &str| Err(crate::InvalidRequirement { field, reason: reason.to_owned() });
        if self.images.is_empty() || self.images.iter().any(|prefix| folder(prefix).is_empty()) {
            let reason = "expected registries, repository prefixes or repositories, or * for all images";
            return invalid("images", reason);
        }
        if self.any_of.is_empty() {
            return invalid("anyOf", "empty, expected at least one key or identity");
        }
        self.any_of.iter().map(crate::Verifier::new).collect()
    }
}

/// `quay.io/org/name` of an image reference, with short names of the default registry expanded.
fn repository(image: &str) -> String {
    let image = image.trim();
    let image = image.strip_prefix("docker://").unwrap_or(image);
    let name = image.split_once('@').map_or(image, |(name, _)| name);
    // A colon after the last slash starts the tag; one before it belongs to the registry's port.
    let name = match name.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => name,
    };
    match name.split_once('/') {
        Some((host, path)) if is_host(host) => match canonical(host) {
            host if host == "docker.io" && !path.contains('/') => format!("{host}/library/{path}"),
            host => format!("{host}/{path}"),
        },
        Some(_) => format!("docker.io/{name}"),
        None => format!("docker.io/library/{name}"),
    }
}

/// A prefix in the same form. A name without a slash is a registry here.
fn folder(prefix: &str) -> String {
    let prefix = prefix.trim().trim_end_matches('/');
    match prefix.split_once('/') {
        Some((host, path)) if is_host(host) => format!("{}/{path}", canonical(host)),
        Some(_) => format!("docker.io/{prefix}"),
        None => canonical(prefix),
    }
}

fn is_host(text: &str) -> bool {
    text.contains(['.', ':']) || text.eq_ignore_ascii_case("localhost")
}

fn canonical(host: &str) -> String {
    match host.to_ascii_lowercase().as_str() {
        "index.docker.io" | "registry-1.docker.io" => "docker.io".to_owned(),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applies(prefix: &str, image: &str) -> bool {
        SignatureRule { images: vec![prefix.to_owned()], any_of: Vec::new() }.applies_to(image)
    }

    #[test]
    fn t22_a_rule_applies_to_whole_parts_of_a_name_in_every_spelling() {
        for (prefix, image) in [
            ("quay.io", "quay.io/org/name:v1"),
            ("quay.io/org", "quay.io/org/name@sha256:0"),
            ("quay.io/org/", "QUAY.io/org/name"),
            ("quay.io/org/name", "quay.io/org/name:v1@sha256:0"),
            ("registry:5000", "registry:5000/a/b"),
            ("docker.io", "nginx"),
            ("docker.io/library", "docker.io/nginx:1"),
            ("docker.io/acme", "index.docker.io/acme/x"),
            ("acme", "acme:5000/x"),
            ("*", "anything/at/all"),
        ] {
            let expected = prefix != "acme";
            assert_eq!(applies(prefix, image), expected, "{prefix} {image}");
        }
        for (prefix, image) in [
            ("quay.io/org", "quay.io/organisation/name"),
            ("quay.io/org", "quay.io.evil.example/org/name"),
            ("quay.io/org", "evil.example/quay.io/org/name"),
            ("registry:5000", "registry:5001/a"),
            ("quay.io/org/name", "quay.io/org"),
        ] {
            assert!(!applies(prefix, image), "{prefix} {image}");
        }
    }
}

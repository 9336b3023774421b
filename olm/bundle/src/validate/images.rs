//! References to images.

use serde_json::Value;

use super::Findings;
use super::finding::quote;
use crate::model::Bundle;
use crate::provenance::Origin;

pub(super) fn check(bundle: &Bundle, findings: &mut Findings) {
    let mut csv = findings.of(Origin::Csv);
    let fix = "write HOST/PATH:TAG or HOST/PATH@sha256:DIGEST";
    for (index, related) in bundle.list("/spec/relatedImages").iter().enumerate() {
        let image = related.get("image").and_then(Value::as_str).unwrap_or_default();
        let field = format!("spec.relatedImages[{index}].image");
        if image.is_empty() {
            csv.error("related-image-empty", field, "it is empty", "name one or remove the entry");
        } else if let Err(why) = reference(image) {
            csv.error(
                "related-image-invalid",
                field,
                format!("{} is not an image reference: {why}", quote(image)),
                fix,
            );
        }
        if related.get("name").and_then(Value::as_str).is_none_or(str::is_empty) {
            let field = format!("spec.relatedImages[{index}].name");
            csv.warn("related-image-name", field, "the image has no name", "name the purpose of the image");
        }
    }
    for (index, deployment) in bundle.deployments().iter().enumerate() {
        for list in ["containers", "initContainers"] {
            let containers =
                deployment.pointer(&format!("/spec/template/spec/{list}")).and_then(Value::as_array);
            for (container, value) in containers.into_iter().flatten().enumerate() {
                let field = format!(
                    "spec.install.spec.deployments[{index}].spec.template.spec.{list}[{container}].image"
                );
                match value.get("image").and_then(Value::as_str).filter(|image| !image.is_empty()) {
                    None => csv.error("container-image-missing", field, "the container has no image", fix),
                    Some(image) => {
                        if let Err(why) = reference(image) {
                            let text = format!("{} is not an image reference: {why}", quote(image));
                            csv.error("container-image-invalid", field, text, fix);
                        }
                    }
                }
            }
        }
    }
}

/// Digest algorithms and the length of their digests in hexadecimal.
const DIGESTS: [(&str, usize); 3] = [("sha256", 64), ("sha384", 96), ("sha512", 128)];
/// Maximum length of a name with host and path.
const LONGEST_NAME: usize = 255;
const LONGEST_TAG: usize = 128;

/// Validates an image reference, by the grammar shared by container tools.
/// # Errors
/// Why it is invalid.
pub fn reference(image: &str) -> Result<(), String> {
    if let Some((scheme, _)) = image.split_once("://") {
        return Err(format!("it starts with {scheme}://, but references have no scheme"));
    }
    let (rest, digest) = match image.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (image, None),
    };
    if let Some(digest) = digest {
        let (algorithm, hex) = digest.split_once(':').unwrap_or((digest, ""));
        let Some((_, length)) = DIGESTS.iter().find(|(known, _)| *known == algorithm) else {
            return Err(format!("expected sha256:DIGEST after @, found {}", quote(digest)));
        };
        let good =
            hex.len() == *length && hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if !good {
            return Err(format!("a digest of {algorithm} has {length} hexadecimal digits in lower case"));
        }
    }
    // A colon after the last slash starts the tag; before it, it is that of a port.
    let path_start = rest.rfind('/').map_or(0, |slash| slash + 1);
    let (name, tag) = match rest[path_start..].find(':') {
        Some(colon) => (&rest[..path_start + colon], Some(&rest[path_start + colon + 1..])),
        None => (rest, None),
    };
    if let Some(tag) = tag {
        let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        let good = !tag.is_empty()
            && tag.len() <= LONGEST_TAG
            && tag.chars().all(word)
            && !tag.starts_with(['.', '-']);
        if !good {
            return Err(format!("{} is not a valid tag", quote(tag)));
        }
    }
    if name.len() > LONGEST_NAME {
        return Err(format!("its name has more than {LONGEST_NAME} characters"));
    }
    let (host, path) = match name.split_once('/') {
        Some((first, path)) if first.contains(['.', ':']) || first == "localhost" || has_upper(first) => {
            (Some(first), path)
        }
        _ => (None, name),
    };
    if let Some(host) = host
        && !is_host(host)
    {
        return Err(format!("{} is not a valid host", quote(host)));
    }
    if path.is_empty() {
        return Err("it has no name".to_owned());
    }
    if has_upper(path) {
        return Err("repository names must be lower case".to_owned());
    }
    match path.split('/').find(|part| !is_path_component(part)) {
        Some(part) => Err(format!("{} is not a valid part of a repository name", quote(part))),
        None if host.is_none() && is_digest(path) => {
            Err("a name of 64 hexadecimal digits would be taken for a digest".to_owned())
        }
        None => Ok(()),
    }
}

fn is_digest(path: &str) -> bool {
    path.len() == 64 && path.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

fn has_upper(text: &str) -> bool {
    text.chars().any(|c| c.is_ascii_uppercase())
}

fn is_host(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) => {
                let good = !address.is_empty() && address.chars().all(|c| c.is_ascii_hexdigit() || c == ':');
                return good && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port));
            }
            None => return false,
        },
        None => match host.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (host, None),
        },
    };
    let label = |label: &str| {
        !label.is_empty()
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.split('.').all(label) && port.is_none_or(is_port)
}

fn is_port(port: &str) -> bool {
    !port.is_empty() && port.chars().all(|c| c.is_ascii_digit())
}

/// Lower-case words joined by one dot, one or two underscores, or dashes.
fn is_path_component(part: &str) -> bool {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if !part.starts_with(word) || !part.ends_with(word) {
        return false;
    }
    part.split(word)
        .all(|separator| matches!(separator, "" | "." | "_" | "__") || separator.chars().all(|c| c == '-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_distinguished_from_other_texts() {
        let digest = format!("sha256:{}", "a".repeat(64));
        for good in [
            "busybox",
            "quay.io/a/b",
            "quay.io/a/b:v1.2.3",
            "localhost:5000/a_b/c__d/e-f--g.h:latest",
            "registry:5000/a@sha256:0000000000000000000000000000000000000000000000000000000000000000",
            "[::1]:5000/a",
            "$$IMAGE".trim_start_matches('$').to_lowercase().as_str(),
        ] {
            assert_eq!(reference(good), Ok(()), "{good}");
        }
        assert_eq!(reference(&format!("quay.io/a/b:v1@{digest}")), Ok(()));
        for bad in [
            "",
            "quay.io/a/b@",
            "oci://quay.io/a/b",
            "quay.io/A/b",
            "quay.io/a b",
            "quay.io/a/b:",
            "quay.io/a/b:-x",
            "quay.io/a/b@md5:aa",
            "quay.io/a/b@sha256:xyz",
            "quay.io/a/../b",
            "quay.io//b",
            "-quay.io/b",
            "quay.io/",
            "${IMAGE}",
        ] {
            assert!(reference(bad).is_err(), "{bad}");
        }
    }
}

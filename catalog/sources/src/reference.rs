//! Image references: `quay.io/org/name:tag@sha256:…`.

use std::{fmt, str::FromStr};

use crate::{digest::Digest, error::SourceError};

/// The registry of a reference without one, as everywhere since Docker.
const DEFAULT_REGISTRY: &str = "docker.io";
/// The host that serves that registry.
const DEFAULT_REGISTRY_HOST: &str = "registry-1.docker.io";
/// Registries reject longer names.
const LONGEST_NAME: usize = 255;
/// Registries reject longer tags.
const LONGEST_TAG: usize = 128;

/// A parsed image reference. With a digest the tag is ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    /// Host and optional port.
    pub registry: String,
    /// The path, without leading and trailing slashes.
    pub repository: String,
    pub tag: Option<String>,
    pub digest: Option<Digest>,
}

impl Reference {
    /// The identifier for requests: the digest, or the tag.
    pub fn identifier(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => digest.to_string(),
            (None, Some(tag)) => tag.clone(),
            (None, None) => "latest".to_owned(),
        }
    }

    /// Registry and repository, matched with credentials and mirrors.
    pub fn name(&self) -> String {
        format!("{}/{}", self.registry, self.repository)
    }
}

/// The full form of an image reference, such as `docker.io/library/nginx:latest` for `nginx`.
/// # Errors
/// [`SourceError::Reference`] for an invalid reference, [`SourceError::Credentials`] for one with a password.
pub fn full_name(reference: &str) -> Result<String, SourceError> {
    Ok(reference.parse::<Reference>()?.to_string())
}

/// The host to connect to for a registry.
pub(crate) fn host_of(registry: &str) -> &str {
    if registry == DEFAULT_REGISTRY { DEFAULT_REGISTRY_HOST } else { registry }
}

/// Maps all names of the default registry to one.
pub(crate) fn canonical_registry(registry: &str) -> String {
    match registry.to_ascii_lowercase().as_str() {
        "index.docker.io" | DEFAULT_REGISTRY_HOST => DEFAULT_REGISTRY.to_owned(),
        other => other.to_owned(),
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

impl FromStr for Reference {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        if has_user(text) {
            return Err(SourceError::Credentials { what: "the image".to_owned() });
        }
        parse(text.trim()).map_err(|reason| SourceError::Reference { reference: text.to_owned(), reason })
    }
}

/// Whether a user or a password precedes the host of an image reference, an address or a URL.
pub fn has_user(text: &str) -> bool {
    after_credentials(text).is_some()
}

/// The part after the user and the password; `None` without them.
pub(crate) fn after_credentials(text: &str) -> Option<&str> {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (before, after) = host.rsplit_once('@')?;
    // After an image name without a slash an `@` starts a digest.
    let is_digest = ["sha256:", "sha512:"].iter().any(|algorithm| after.starts_with(algorithm));
    if is_digest { None } else { Some(&rest[before.len() + 1..]) }
}

fn parse(text: &str) -> Result<Reference, String> {
    if text.is_empty() {
        return Err("empty reference".to_owned());
    }
    if let Some((scheme, _)) = text.split_once("://") {
        return Err(format!("image references have no scheme; remove {scheme}://"));
    }
    let (rest, digest) = match text.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest.parse()?)),
        None => (text, None),
    };
    // A colon after the last slash starts the tag; one before it belongs to the registry's port.
    let (name, tag) = match rest.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        _ => (rest, None),
    };
    let (registry, repository) = match name.split_once('/') {
        Some((first, path)) if first.contains(['.', ':']) || first == "localhost" => {
            (canonical_registry(first), path.to_owned())
        }
        _ => (DEFAULT_REGISTRY.to_owned(), name.to_owned()),
    };
    let repository = if registry == DEFAULT_REGISTRY && !repository.contains('/') {
        format!("library/{repository}")
    } else {
        repository
    };
    if !is_host(&registry) {
        return Err(format!("{registry:?} is not a host name"));
    }
    if repository.len() > LONGEST_NAME {
        return Err(format!("name longer than {LONGEST_NAME} characters"));
    }
    if let Some(part) = repository.split('/').find(|part| !is_name_part(part)) {
        return Err(format!(
            "invalid part {part:?} of the name, expected lower-case letters and digits, separated by \
             single dots, one or two underscores or dashes"
        ));
    }
    if let Some(tag) = tag
        && !is_tag(tag)
    {
        return Err(format!("invalid tag {tag:?}, expected letters, digits, underscores, dots and dashes"));
    }
    // Only a reference with a digest needs no tag.
    let tag = tag.map(str::to_owned).or_else(|| digest.is_none().then(|| "latest".to_owned()));
    Ok(Reference { registry, repository, tag, digest })
}

fn is_host(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        // The last colon of an IPv6 address in brackets does not start a port.
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let good_port = port.is_none_or(|port| port.parse::<u16>().is_ok());
    let good_host = match host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            !host.is_empty()
                && host.split('.').all(|label| {
                    !label.is_empty()
                        && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
                        && !label.starts_with('-')
                        && !label.ends_with('-')
                })
        }
    };
    good_port && good_host
}

fn is_name_part(part: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = part.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    alphanumeric(*first)
        && alphanumeric(*last)
        && part
            .split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            .all(|between| matches!(between, "" | "." | "_" | "__") || between.bytes().all(|b| b == b'-'))
}

fn is_tag(tag: &str) -> bool {
    tag.len() <= LONGEST_TAG
        && tag.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && tag.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
}

#[cfg(test)]
mod tests;

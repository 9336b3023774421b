//! Manifests and indexes of the OCI image format and of Docker's second schema, which differ only in names.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{digest::Digest, error::SourceError};

/// Accepted media types; a registry converts or rejects others.
pub(crate) const ACCEPTED: &str = "application/vnd.oci.image.index.v1+json, \
     application/vnd.oci.image.manifest.v1+json, \
     application/vnd.docker.distribution.manifest.list.v2+json, \
     application/vnd.docker.distribution.manifest.v2+json";

/// Build tools create at most 127 layers.
const MOST_LAYERS: usize = 512;

/// A manifest or an index as read, with its digest, by which everything else is read: a moved tag has no
/// effect.
#[derive(Clone)]
pub(crate) struct Pinned {
    pub digest: Digest,
    what: String,
    bytes: Vec<u8>,
    media_type: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    #[serde(default)]
    pub media_type: String,
    pub digest: Digest,
    pub size: u64,
    #[serde(default)]
    pub artifact_type: Option<String>,
    #[serde(default)]
    pub platform: Option<Platform>,
    #[serde(default)]
    pub annotations: Option<BTreeMap<String, String>>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Platform {
    #[serde(default)]
    pub architecture: String,
    #[serde(default)]
    pub os: String,
    #[serde(default)]
    pub variant: Option<String>,
}

impl Platform {
    /// Operating system and architecture; none for the provenance and the like that build tools list as images
    /// of a nonexistent platform.
    pub fn name(&self) -> Option<String> {
        let is_image = self.os != "unknown" && self.architecture != "unknown";
        is_image.then(|| format!("{}/{}", self.os, self.architecture))
    }
}

/// Parsed manifest.
pub(crate) enum Document {
    /// A multi-platform image.
    Index(Vec<Descriptor>),
    Image {
        config: Descriptor,
        layers: Vec<Descriptor>,
    },
}

/// The configuration of an image; empty for other sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageConfig {
    pub labels: BTreeMap<String, String>,
    /// The whole document, in JSON: `application/vnd.oci.image.config.v1+json` or Docker's, which has the same
    /// fields.
    pub document: Vec<u8>,
    /// Operating system and architecture, such as `linux/arm64`; `None` where the document does not name them.
    pub platform: Option<String>,
}

impl ImageConfig {
    pub(crate) fn parse(what: &str, document: Vec<u8>) -> Result<Self, SourceError> {
        #[derive(Deserialize)]
        struct Document {
            #[serde(default)]
            os: String,
            #[serde(default)]
            architecture: String,
            #[serde(default)]
            config: Option<Inner>,
        }
        #[derive(Deserialize)]
        struct Inner {
            #[serde(default, rename = "Labels")]
            labels: Option<BTreeMap<String, String>>,
        }
        let parsed: Document = serde_json::from_slice(&document)
            .map_err(|e| SourceError::malformed(what, format!("not an image configuration: {e}")))?;
        let named = !parsed.os.is_empty() && !parsed.architecture.is_empty();
        Ok(Self {
            labels: parsed.config.and_then(|config| config.labels).unwrap_or_default(),
            document,
            platform: named.then(|| format!("{}/{}", parsed.os, parsed.architecture)),
        })
    }

    /// Rejects an image whose programs cannot run here.
    pub(crate) fn check_platform(&self, what: &str) -> Result<(), SourceError> {
        let own = format!("linux/{}", architecture());
        match &self.platform {
            Some(platform) if *platform != own => Err(SourceError::unsupported(
                what,
                format!("it is an image for {platform}, this machine runs {own}"),
            )),
            _ => Ok(()),
        }
    }
}

impl Pinned {
    /// Pins read bytes, after a check of their digest where it is known.
    pub fn new(
        what: &str,
        bytes: Vec<u8>,
        media_type: Option<String>,
        promised: Option<&Digest>,
    ) -> Result<Self, SourceError> {
        let digest = match promised {
            None => Digest::of(&bytes),
            Some(promised) => {
                let mut hasher = promised.hasher();
                hasher.update(&bytes);
                let actual = hasher.finish();
                if actual != *promised {
                    return Err(SourceError::Digest {
                        what: what.to_owned(),
                        expected: promised.to_string(),
                        actual: actual.to_string(),
                    });
                }
                actual
            }
        };
        Ok(Self { digest, what: what.to_owned(), bytes, media_type })
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The media type to list it under: its own field, or that of the server.
    pub fn media_type(&self) -> Result<String, SourceError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Own {
            media_type: Option<String>,
        }
        let own: Own =
            serde_json::from_slice(&self.bytes).map_err(|e| SourceError::malformed(&self.what, e))?;
        own.media_type
            .or_else(|| self.media_type.clone())
            .ok_or_else(|| SourceError::malformed(&self.what, "media type missing"))
    }

    pub fn parse(&self) -> Result<Document, SourceError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Raw {
            schema_version: u64,
            media_type: Option<String>,
            manifests: Option<Vec<Descriptor>>,
            config: Option<Descriptor>,
            layers: Option<Vec<Descriptor>>,
        }
        let raw: Raw = serde_json::from_slice(&self.bytes)
            .map_err(|e| SourceError::malformed(&self.what, format!("not an image manifest: {e}")))?;
        if raw.schema_version != 2 {
            return Err(SourceError::unsupported(
                &self.what,
                "Docker manifest schema 1 (deprecated in 2017) is not supported; push the image again with \
                 a current tool",
            ));
        }
        // The same bytes must not be an index to one reader and an image to another.
        if let (Some(inside), Some(outside)) = (&raw.media_type, &self.media_type)
            && is_manifest_type(outside)
            && inside != outside
        {
            return Err(SourceError::malformed(
                &self.what,
                format!("received as {outside}, but its media type is {inside}"),
            ));
        }
        match raw {
            Raw { manifests: Some(manifests), config: None, layers: None, .. } => {
                Ok(Document::Index(manifests))
            }
            Raw { manifests: None, config: Some(config), layers: Some(layers), .. } => {
                if layers.len() > MOST_LAYERS {
                    return Err(SourceError::malformed(
                        &self.what,
                        format!("{} layers, expected at most {MOST_LAYERS}", layers.len()),
                    ));
                }
                Ok(Document::Image { config, layers })
            }
            _ => Err(SourceError::malformed(
                &self.what,
                "neither an index (manifests) nor an image (config and layers)",
            )),
        }
    }
}

fn is_manifest_type(text: &str) -> bool {
    ACCEPTED.split(", ").any(|accepted| accepted == text)
}

/// The architecture of this machine, as images name it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

/// The image for Linux on this machine's architecture, or the only one.
pub(crate) fn choose<'m>(what: &str, manifests: &'m [Descriptor]) -> Result<&'m Descriptor, SourceError> {
    let architecture = architecture();
    let images: Vec<&Descriptor> =
        manifests.iter().filter(|m| m.platform.as_ref().is_none_or(|p| p.name().is_some())).collect();
    let ours = images
        .iter()
        .find(|m| m.platform.as_ref().is_some_and(|p| p.os == "linux" && p.architecture == architecture));
    match (ours, &images[..]) {
        (Some(ours), _) => Ok(ours),
        (None, [only]) => Ok(only),
        (None, []) => Err(SourceError::malformed(what, "the index lists no image")),
        (None, several) => {
            let platforms: Vec<String> = several
                .iter()
                .map(|m| match &m.platform {
                    Some(p) => {
                        let variant = p.variant.as_ref().map(|v| format!("/{v}")).unwrap_or_default();
                        format!("{}/{}{variant}", p.os, p.architecture)
                    }
                    None => "none given".to_owned(),
                })
                .collect();
            Err(SourceError::unsupported(
                what,
                format!(
                    "no image for linux/{architecture}, only for {}; specify one of them by digest",
                    platforms.join(", ")
                ),
            ))
        }
    }
}

/// Rejects a layer that is not an archive of files; its first bytes identify the compression.
pub(crate) fn check_layer(what: &str, layer: &Descriptor) -> Result<(), SourceError> {
    const LAYERS: &[&str] = &[
        "application/vnd.oci.image.layer.v1.tar",
        "application/vnd.oci.image.layer.nondistributable.v1.tar",
        "application/vnd.docker.image.rootfs.diff.tar",
        "application/vnd.docker.image.rootfs.foreign.diff.tar",
    ];
    const COMPRESSIONS: &[&str] = &["", "+gzip", "+zstd", ".gzip", ".zstd"];
    let rest = LAYERS.iter().find_map(|known| layer.media_type.strip_prefix(known));
    if rest.is_some_and(|rest| COMPRESSIONS.contains(&rest)) {
        return Ok(());
    }
    Err(SourceError::unsupported(
        what,
        format!(
            "layer {} has unsupported type {:?}, expected a tar archive, plain or compressed with gzip or \
             zstd",
            layer.digest, layer.media_type
        ),
    ))
}

#[cfg(test)]
mod tests;

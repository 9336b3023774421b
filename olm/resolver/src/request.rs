//! Requests of Subscriptions.

use olm_version::{Range, RangeError, Version, nearest_range, parse_lenient, precedence};
use serde::{Deserialize, Serialize};

use crate::bundle::CatalogRef;

/// The request of one Subscription.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// `namespace/name` of the Subscription.
    pub subscription: String,
    pub package: String,
    pub catalog: CatalogRef,
    /// The channel; the package's default channel when absent.
    pub channel: Option<String>,
    /// The bundle to begin with, when nothing is installed.
    pub starting_csv: Option<String>,
    /// A pin or a range to stay in.
    pub version: Option<VersionRequest>,
    pub installed: Option<InstalledRef>,
    /// Excluded versions (or bundle names).
    pub skip_versions: Vec<String>,
    pub policy: UpgradePolicy,
    pub dependencies: DependencyPolicy,
}

/// The installed bundle of a Subscription.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstalledRef {
    /// Name of its ClusterServiceVersion.
    pub name: String,
    pub version: Option<Version>,
}

/// Allowed upgrades.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum UpgradePolicy {
    /// Only along the edges of the catalog.
    #[default]
    CatalogProvided,
    /// To any version that the pin or range requests, also older ones.
    SelfCertified,
}

/// Handling of missing dependencies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DependencyPolicy {
    #[default]
    Install,
    /// Fail.
    RequirePresent,
}

/// Why a text is neither a version nor a range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}{nearest}")]
pub struct VersionRequestError {
    reason: RangeError,
    nearest: String,
}

/// A pin (`1.2.3`) or a range (`>=1.2.0 <2.0.0`).
#[derive(Clone, Debug)]
pub struct VersionRequest {
    text: String,
    kind: RequestedVersion,
}

#[derive(Clone, Debug)]
enum RequestedVersion {
    Pin(Version),
    Range(Range),
}

impl VersionRequest {
    /// Parses a pin or a range.
    /// # Errors
    /// The error, with the nearest range.
    pub fn parse(text: &str) -> Result<Self, VersionRequestError> {
        Self::read(text).map_err(|reason| {
            let nearest = nearest_range(text).map(|range| format!("; did you mean {range:?}?"));
            VersionRequestError { reason, nearest: nearest.unwrap_or_default() }
        })
    }

    fn read(text: &str) -> Result<Self, RangeError> {
        let trimmed = text.trim();
        let bare = trimmed.trim_start_matches('v');
        // only a full version is a pin: `1.2` is more likely a mistake than a request for 1.2.0
        let kind = match Version::parse(bare) {
            Ok(_) => match parse_lenient(bare) {
                Ok(version) => RequestedVersion::Pin(version),
                Err(_) => RequestedVersion::Range(Range::parse(trimmed)?),
            },
            Err(_) => RequestedVersion::Range(Range::parse(trimmed)?),
        };
        Ok(Self { text: trimmed.to_owned(), kind })
    }

    /// Whether that version is allowed. Build metadata is ignored.
    pub fn allows(&self, version: &Version) -> bool {
        match &self.kind {
            RequestedVersion::Pin(pin) => precedence(pin, version).is_eq(),
            RequestedVersion::Range(range) => range.contains(version),
        }
    }

    /// The version, if it is a pin.
    pub fn pin(&self) -> Option<&Version> {
        match &self.kind {
            RequestedVersion::Pin(version) => Some(version),
            RequestedVersion::Range(_) => None,
        }
    }

    /// The text as given.
    pub fn source(&self) -> &str {
        &self.text
    }
}

impl std::fmt::Display for VersionRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

//! Errors of reading and rendering a bundle.

use std::fmt;
use std::path::PathBuf;

use crate::render::Fault;

/// A place in a file; line and column count from 1.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Place {
    /// The file, or another name of the input.
    pub file: String,
    /// Line, 0 when unknown.
    pub line: usize,
    /// Column, 0 when unknown.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            line => write!(f, "{}:{line}:{}", self.file, self.column),
        }
    }
}

/// Why the input is not a bundle.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    #[error("failed to read {path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    /// A part of the layout is missing.
    #[error(
        "{path} is not a registry+v1 bundle: {what}; a bundle has manifests/ and metadata/annotations.yaml"
    )]
    Layout { path: PathBuf, what: String },
    /// A file is not valid YAML.
    #[error("{place}: {message}")]
    Syntax {
        place: Place,
        /// The parser's message.
        message: String,
    },
    /// A document parses, but has the wrong shape.
    #[error("{place}: {message}")]
    Shape { place: Place, message: String },
    /// A file in `metadata/` parses, but has the wrong shape.
    #[error("{place}: {message}")]
    Metadata { place: Place, message: String },
    /// No ClusterServiceVersion, or more than one.
    #[error("{origin} has {found} ClusterServiceVersions{names}; a bundle has exactly one")]
    CsvCount {
        origin: String,
        found: usize,
        /// Their names, as ` (a, b)`.
        names: String,
    },
    /// The ClusterServiceVersion does not have the type's shape.
    #[error("ClusterServiceVersion {name} in {origin} does not parse: {field}: {message}")]
    Csv {
        origin: String,
        /// The name in the manifest.
        name: String,
        field: String,
        /// Place of the field, for a bundle that was read from files.
        place: Option<Box<Place>>,
        message: String,
    },
}

impl BundleError {
    /// The stable code of the error, as in findings.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Read { .. } => "file-unreadable",
            Self::Layout { .. } => "bundle-layout",
            Self::Syntax { .. } => "yaml-invalid",
            Self::Shape { .. } => "manifest-shape",
            Self::Metadata { .. } => "metadata-shape",
            Self::CsvCount { .. } => "csv-count",
            Self::Csv { .. } => "csv-shape",
        }
    }

    /// Its place, where known.
    #[must_use]
    pub fn place(&self) -> Option<Place> {
        match self {
            Self::Read { path, .. } => Some(Place { file: path.display().to_string(), line: 0, column: 0 }),
            Self::Syntax { place, .. } | Self::Shape { place, .. } | Self::Metadata { place, .. } => {
                Some(place.clone())
            }
            Self::Csv { place, .. } => place.as_deref().cloned(),
            Self::Layout { .. } | Self::CsvCount { .. } => None,
        }
    }
}

/// Why a bundle cannot be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// The target namespaces do not match the install modes.
    #[error(
        "bundle {bundle} cannot watch {wanted}: it supports {supported}; \
         choose target namespaces that one of these covers (OperatorGroup spec.targetNamespaces)"
    )]
    InstallMode {
        bundle: String,
        /// The requested mode.
        wanted: String,
        /// The supported modes.
        supported: String,
    },
    /// The descriptions of webhooks or aggregated APIs are invalid.
    #[error("bundle {bundle} cannot be rendered: {}", sentences(.faults))]
    Serving {
        bundle: String,
        /// All errors, in the order of the descriptions.
        faults: Vec<Fault>,
    },
    /// A part of the bundle is invalid.
    #[error("bundle {bundle} cannot be rendered: {field}: {text}")]
    Invalid { bundle: String, field: String, text: String },
}

impl RenderError {
    /// The reason of a failed ClusterServiceVersion, as in upstream.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::InstallMode { .. } => "UnsupportedOperatorGroup",
            Self::Serving { faults, .. }
                if faults.iter().any(|fault| fault.field.starts_with("spec.webhookdefinitions")) =>
            {
                "InvalidWebhookDescription"
            }
            Self::Serving { .. } | Self::Invalid { .. } => "InvalidStrategy",
        }
    }
}

fn sentences(faults: &[Fault]) -> String {
    let list: Vec<String> = faults.iter().map(ToString::to_string).collect();
    list.join("; ")
}

//! Why a bundle cannot be read or rendered.

use std::fmt;
use std::path::PathBuf;

use crate::render::Fault;

/// A place in a file; line and column count from 1.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Place {
    /// The file, or the name of whatever was read.
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

/// Why something is not a bundle.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// A file or folder cannot be read.
    #[error("failed to read {path}: {source}")]
    Read {
        /// What was to be read.
        path: PathBuf,
        /// Why it could not be.
        source: std::io::Error,
    },
    /// A part of the layout is missing.
    #[error(
        "{path} is not a registry+v1 bundle: {what}; a bundle has manifests/ and metadata/annotations.yaml"
    )]
    Layout {
        /// The folder.
        path: PathBuf,
        /// What is missing.
        what: String,
    },
    /// A file is no YAML.
    #[error("{place}: {message}")]
    Syntax {
        place: Place,
        /// What the parser says.
        message: String,
    },
    /// A document parses, but is not what belongs there.
    #[error("{place}: {message}")]
    Shape {
        place: Place,
        /// What is wrong.
        message: String,
    },
    /// A file in `metadata/` parses, but is not what belongs there.
    #[error("{place}: {message}")]
    Metadata {
        place: Place,
        /// What is wrong.
        message: String,
    },
    /// There is no ClusterServiceVersion, or more than one.
    #[error("{origin} has {found} ClusterServiceVersions{names}; a bundle has exactly one")]
    CsvCount {
        origin: String,
        /// How many there are.
        found: usize,
        /// Which, as ` (a, b)`.
        names: String,
    },
    /// The ClusterServiceVersion does not have the type's shape.
    #[error("ClusterServiceVersion {name} in {origin} does not parse: {field}: {message}")]
    Csv {
        origin: String,
        /// The name in the manifest.
        name: String,
        field: String,
        /// Where the field is, for a bundle that was read from files.
        place: Option<Box<Place>>,
        /// What is wrong with it.
        message: String,
    },
}

impl BundleError {
    /// The stable code of what is wrong, as findings have it.
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

    /// Where it is, where that is known.
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

/// Why a bundle cannot be turned into objects.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// The target namespaces do not fit the install modes.
    #[error(
        "bundle {bundle} cannot watch {wanted}: it supports {supported}; \
         choose target namespaces that one of these covers (OperatorGroup spec.targetNamespaces)"
    )]
    InstallMode {
        bundle: String,
        /// What was asked for.
        wanted: String,
        /// What the bundle can do.
        supported: String,
    },
    /// Webhooks or aggregated APIs are described in a way that cannot work.
    #[error("bundle {bundle} cannot be rendered: {}", sentences(.faults))]
    Serving {
        bundle: String,
        /// Everything that is wrong, in the order of the descriptions.
        faults: Vec<Fault>,
    },
    /// A part of the bundle is broken.
    #[error("bundle {bundle} cannot be rendered: {field}: {text}")]
    Invalid {
        bundle: String,
        field: String,
        /// What is wrong with it.
        text: String,
    },
}

impl RenderError {
    /// The reason that a ClusterServiceVersion fails with; upstream's words.
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

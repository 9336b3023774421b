//! The suites on demand, by upstream's names.

use std::collections::BTreeSet;

use olm_version::{Version, parse_lenient};

/// Rules that are checked on demand.
/// Upstream's `multiarch` is not among them: it inspects images, which this crate does not download.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Suite {
    /// Requirements of OperatorHub.io.
    OperatorHubV2,
    /// [`Suite::OperatorHubV2`], [`Suite::Capabilities`] and [`Suite::Categories`] under their old name.
    OperatorHub,
    /// The annotation `capabilities`.
    Capabilities,
    /// The annotation `categories`.
    Categories,
    /// Advice for operator authors.
    GoodPractices,
    /// APIs removed in newer versions of Kubernetes.
    AlphaDeprecatedApis,
    /// Manifests that endanger the cluster's stability.
    Objects,
    /// OperatorGroups in the bundle.
    OperatorGroup,
    /// Rules of the community catalog for bundles with removed APIs.
    Community,
}

/// Why a selection is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SuiteError {
    #[error("unknown validator {name:?}; expected one of {known}, or suite=operatorframework{hint}")]
    Unknown {
        name: String,
        /// The nearest name.
        hint: String,
        /// All names.
        known: String,
    },
    /// A suite that exists only upstream.
    #[error("the suite multiarch reads images, which olm does not support; leave it out")]
    Multiarch,
    /// An optional value has another form.
    #[error("the optional value {0:?} is not of the form KEY=VALUE")]
    Form(String),
    /// An optional value without a use.
    #[error("the optional value {0:?} is unknown; there is k8s-version=1.25")]
    Value(String),
    /// An optional value is invalid.
    #[error("k8s-version={text}: {why}; write a version such as 1.25")]
    Version { text: String, why: String },
}

impl Suite {
    pub const ALL: [Self; 9] = [
        Self::OperatorHubV2,
        Self::OperatorHub,
        Self::Capabilities,
        Self::Categories,
        Self::GoodPractices,
        Self::AlphaDeprecatedApis,
        Self::Objects,
        Self::OperatorGroup,
        Self::Community,
    ];

    /// Upstream's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OperatorHubV2 => "operatorhubv2",
            Self::OperatorHub => "operatorhub",
            Self::Capabilities => "capabilities",
            Self::Categories => "categories",
            Self::GoodPractices => "good-practices",
            Self::AlphaDeprecatedApis => "alpha-deprecated-apis",
            Self::Objects => "objects",
            Self::OperatorGroup => "operator-group",
            Self::Community => "community",
        }
    }

    /// Its purpose, in one line.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::OperatorHubV2 => {
                "what OperatorHub.io requires: provider, maintainers, links, version, icon"
            }
            Self::OperatorHub => "operatorhubv2, capabilities and categories under their old name",
            Self::Capabilities => "the annotation capabilities is one of five levels",
            Self::Categories => "the annotation categories has known categories only",
            Self::GoodPractices => "resource requests, names of channels and bundles, rights on CRDs",
            Self::AlphaDeprecatedApis => {
                "APIs that Kubernetes 1.22, 1.25 and 1.26 removed (k8s-version=VERSION)"
            }
            Self::Objects => "disruption budgets, priority classes and rights that endanger the cluster",
            Self::OperatorGroup => "annotations of OperatorGroups",
            Self::Community => "bundles with removed APIs name the OpenShift versions they are for",
        }
    }

    /// Whether upstream's label `suite=operatorframework` selects it.
    fn is_of_operatorframework(self) -> bool {
        !matches!(self, Self::Community | Self::OperatorHub)
    }

    /// Parses a selector: names separated by commas, each as `NAME` or `name=NAME`, or
    /// `suite=operatorframework` for all but the outdated ones.
    /// # Errors
    /// [`SuiteError`] for an unknown name.
    pub fn select(selector: &str) -> Result<BTreeSet<Self>, SuiteError> {
        let mut suites = BTreeSet::new();
        for part in selector.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let name = part.strip_prefix("name=").unwrap_or(part);
            match Self::ALL.into_iter().find(|suite| suite.name() == name) {
                Some(suite) => {
                    suites.insert(suite);
                }
                None if part == "suite=operatorframework" => {
                    suites.extend(Self::ALL.into_iter().filter(|suite| suite.is_of_operatorframework()));
                }
                None if name == "multiarch" => return Err(SuiteError::Multiarch),
                None => {
                    let known = Self::ALL.map(Self::name);
                    let nearest = olm_version::suggest(name, known, 1);
                    let hint =
                        nearest.first().map(|near| format!("; did you mean {near}?")).unwrap_or_default();
                    return Err(SuiteError::Unknown { name: name.to_owned(), hint, known: known.join(", ") });
                }
            }
        }
        Ok(suites)
    }
}

/// Checks beyond the default suite, with their values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// The further suites.
    pub suites: BTreeSet<Suite>,
    /// The target version of Kubernetes: APIs that it does not serve are errors (upstream's optional value
    /// `k8s-version`).
    pub kubernetes: Option<Version>,
    /// The allowed categories instead of the standard ones (upstream's variable
    /// `OPERATOR_BUNDLE_CATEGORIES`); empty for the standard ones.
    pub categories: Vec<String>,
}

impl Options {
    /// Sets an optional value in upstream's notation: `k8s-version=1.25`.
    /// # Errors
    /// [`SuiteError`] for an unused or invalid value.
    pub fn set(&mut self, text: &str) -> Result<(), SuiteError> {
        let (key, value) = text.split_once('=').ok_or_else(|| SuiteError::Form(text.to_owned()))?;
        match key.trim() {
            "k8s-version" => {
                let version = parse_lenient(value.trim()).map_err(|error| SuiteError::Version {
                    text: value.to_owned(),
                    why: error.to_string(),
                })?;
                self.kubernetes = Some(version);
                Ok(())
            }
            _ => Err(SuiteError::Value(text.to_owned())),
        }
    }
}

//! The CatalogSources of a cluster and their state. Pure.

use jiff::Timestamp;
use kube::ResourceExt as _;
use olm_api::{CatalogSource, CatalogSourceSpec, catalog_source, condition, names};
use olm_engine::catalogs::Source;
use serde::Serialize;

use crate::manifests::PART_OF;

/// Reasons of condition `Ready` for failures that a retry may resolve.
const TEMPORARY: [&str; 3] = ["Unavailable", "NoPlaceAnswered", "Stale"];

/// A CatalogSource for lists and pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCatalog {
    pub namespace: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
    pub source_type: String,
    /// Image, address, URL, directory or ConfigMap.
    pub source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packages: Option<i32>,
    pub status: CatalogStatus,
    /// Empty before the manager has observed the object.
    pub state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The source that was read: the image by digest, or the digest of the content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_source: Option<String>,
    /// Digest of the served content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Last request to the registry; of images only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_poll: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_success: Option<Timestamp>,
    pub priority: i32,
    /// As in the spec; absent for the default of the source type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poll_interval: Option<String>,
    /// Names of the pull secrets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Whether a requested read has not ended.
    pub refresh_pending: bool,
    /// The first invalid parts of the content, as the manager reports them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// Whether the installation of olm contains it.
    pub part_of_olm: bool,
}

/// The state of a catalog as one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum CatalogStatus {
    /// The source is not readable, and no content is served.
    Failed,
    /// Content is served that may be older than the source.
    Stale,
    /// The first read of the current spec is pending or running.
    Reading,
    /// The catalog is being deleted.
    Removing,
    Ready,
}

impl CatalogStatus {
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Failed => "Failed",
            Self::Stale => "Stale",
            Self::Reading => "Reading",
            Self::Removing => "Removing",
            Self::Ready => "Ready",
        }
    }

    fn of(source: &CatalogSource) -> Self {
        if source.metadata.deletion_timestamp.is_some() {
            return Self::Removing;
        }
        let conditions = source.status.as_ref().map(|status| status.conditions.as_slice());
        let is = |type_: &str| {
            condition::find(conditions.unwrap_or_default(), type_).is_some_and(olm_api::Condition::is_true)
        };
        match reading(source) {
            Reading::Ready(_) if is("Stale") => Self::Stale,
            Reading::Ready(_) => Self::Ready,
            Reading::Failed { .. } if is("Ready") => Self::Stale,
            Reading::Failed { .. } => Self::Failed,
            Reading::Pending(_) => Self::Reading,
        }
    }
}

impl ClusterCatalog {
    #[must_use]
    pub fn of(source: &CatalogSource) -> Self {
        let status = source.status.clone().unwrap_or_default();
        let spec = &source.spec;
        let poll = spec.update_strategy.as_ref().and_then(|strategy| strategy.registry_poll.as_ref());
        let requested = source.annotations().get(names::ANNOTATION_REFRESH);
        Self {
            namespace: source.namespace().unwrap_or_default(),
            name: source.name_any(),
            display_name: spec.display_name.clone(),
            publisher: spec.publisher.clone(),
            source_type: spec.source_type.clone(),
            source: source_text(spec),
            packages: status.packages,
            status: CatalogStatus::of(source),
            state: status.connection_state.map(|state| state.last_observed_state).unwrap_or_default(),
            reason: status.reason,
            message: status.message,
            resolved_source: status.resolved_source,
            digest: status.digest,
            last_poll: status.latest_image_registry_poll.map(|time| time.0),
            last_success: status.last_success.map(|time| time.0),
            priority: spec.priority,
            poll_interval: poll.and_then(|poll| poll.interval.clone()),
            secrets: spec.secrets.clone(),
            refresh_pending: requested.is_some_and(|at| status.last_handled_refresh.as_ref() != Some(at)),
            problems: status.problems,
            part_of_olm: source.labels().get(PART_OF.0).is_some_and(|part_of| part_of == PART_OF.1),
        }
    }

    /// `NAMESPACE/NAME`, as in commands.
    #[must_use]
    pub fn reference(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// The field that names the source, as the manager selects it.
fn source_text(spec: &CatalogSourceSpec) -> String {
    let field = match spec.source_type.as_str() {
        catalog_source::SOURCE_GRPC => spec.image.as_ref().or(spec.address.as_ref()),
        catalog_source::SOURCE_DIRECTORY => spec.directory.as_ref(),
        catalog_source::SOURCE_CONFIGMAP | catalog_source::SOURCE_INTERNAL => spec.config_map.as_ref(),
        // Without a password.
        catalog_source::SOURCE_HTTP => {
            let url = spec.url.clone().unwrap_or_default();
            return Source::Http { url }.to_string();
        }
        _ => None,
    };
    field.cloned().unwrap_or_default()
}

/// The manager's report about the current spec.
#[derive(Debug, PartialEq, Eq)]
pub enum Reading {
    /// The catalog is served, with this number of packages.
    Ready(usize),
    /// The last attempt failed; the manager retries.
    Failed {
        message: String,
        /// Whether a retry may succeed without a change.
        temporary: bool,
    },
    /// The first attempt is pending or running.
    Pending(&'static str),
}

#[must_use]
pub fn reading(source: &CatalogSource) -> Reading {
    let observed = source.status.as_ref();
    let Some(status) = observed.filter(|status| status.observed_generation == source.metadata.generation)
    else {
        return Reading::Pending("not yet observed by the manager");
    };
    let state = status.connection_state.as_ref().map(|state| state.last_observed_state.as_str());
    match state.unwrap_or_default() {
        "READY" => Reading::Ready(usize::try_from(status.packages.unwrap_or_default()).unwrap_or_default()),
        "TRANSIENT_FAILURE" => {
            let ready = condition::find(&status.conditions, "Ready");
            let code = ready.and_then(|ready| ready.reason.as_deref()).unwrap_or_default();
            Reading::Failed {
                message: status.message.clone().unwrap_or_else(|| "no status message".to_owned()),
                temporary: TEMPORARY.contains(&code),
            }
        }
        _ => Reading::Pending("the catalog is being read"),
    }
}

#[cfg(test)]
mod tests {
    use olm_api::{CatalogSourceStatus, Condition, catalog_source::ConnectionState};

    use super::*;

    fn observed(state: &str, code: &str) -> CatalogSource {
        let spec = CatalogSourceSpec {
            source_type: "grpc".into(),
            image: Some("quay.io/acme/catalog:v1".into()),
            ..CatalogSourceSpec::default()
        };
        let mut source = CatalogSource::new("acme", spec);
        source.metadata.namespace = Some("olm".into());
        source.metadata.generation = Some(1);
        source.status = Some(CatalogSourceStatus {
            observed_generation: Some(1),
            message: Some("cause".into()),
            packages: Some(2),
            connection_state: Some(ConnectionState {
                last_observed_state: state.into(),
                ..ConnectionState::default()
            }),
            conditions: vec![Condition {
                type_: "Ready".into(),
                reason: Some(code.into()),
                ..Condition::default()
            }],
            ..CatalogSourceStatus::default()
        });
        source
    }

    fn with_condition(mut source: CatalogSource, type_: &str) -> CatalogSource {
        let conditions = &mut source.status.as_mut().unwrap().conditions;
        conditions.retain(|condition| condition.type_ != type_);
        conditions.push(Condition::new(type_, true, "Stale", ""));
        source
    }

    #[test]
    fn the_state_is_that_of_the_current_spec() {
        let failed = |temporary| Reading::Failed { message: "cause".into(), temporary };
        assert_eq!(reading(&observed("READY", "Serving")), Reading::Ready(2));
        assert_eq!(reading(&observed("TRANSIENT_FAILURE", "AccessDenied")), failed(false));
        assert_eq!(reading(&observed("TRANSIENT_FAILURE", "Unavailable")), failed(true));
        assert!(matches!(reading(&observed("CONNECTING", "Connecting")), Reading::Pending(_)));
        let mut changed = observed("READY", "Serving");
        changed.metadata.generation = Some(2);
        assert!(matches!(reading(&changed), Reading::Pending(_)));
        changed.status = None;
        assert!(matches!(reading(&changed), Reading::Pending(_)));
    }

    #[test]
    fn the_status_is_one_word() {
        let word = |source: &CatalogSource| ClusterCatalog::of(source).status.word();
        assert_eq!(word(&observed("READY", "Serving")), "Ready");
        assert_eq!(word(&observed("CONNECTING", "Connecting")), "Reading");
        let failed = observed("TRANSIENT_FAILURE", "AccessDenied");
        assert_eq!(word(&failed), "Failed");
        // the previous content is served
        assert_eq!(word(&with_condition(failed, "Ready")), "Stale");
        assert_eq!(word(&with_condition(observed("READY", "Serving"), "Stale")), "Stale");
        let mut deleted = observed("READY", "Serving");
        deleted.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::UNIX_EPOCH));
        assert_eq!(word(&deleted), "Removing");
    }

    #[test]
    fn a_requested_refresh_is_pending_until_its_read_has_ended() {
        let mut source = observed("READY", "Serving");
        assert!(!ClusterCatalog::of(&source).refresh_pending);
        source.annotations_mut().insert(names::ANNOTATION_REFRESH.into(), "1".into());
        assert!(ClusterCatalog::of(&source).refresh_pending);
        source.status.as_mut().unwrap().last_handled_refresh = Some("1".into());
        assert!(!ClusterCatalog::of(&source).refresh_pending);
    }

    #[test]
    fn a_row_shows_the_source_without_a_password() {
        let mut source = observed("READY", "Serving");
        let row = ClusterCatalog::of(&source);
        assert_eq!(
            (row.namespace.as_str(), row.name.as_str(), row.source.as_str(), row.packages),
            ("olm", "acme", "quay.io/acme/catalog:v1", Some(2))
        );
        source.spec = CatalogSourceSpec {
            source_type: "http".into(),
            url: Some("https://me:hunter2@example.com/all".into()),
            ..CatalogSourceSpec::default()
        };
        let row = ClusterCatalog::of(&source);
        assert!(row.source.contains("example.com") && !row.source.contains("hunter2"), "{}", row.source);
    }
}

//! `olm catalog sources`: the CatalogSources of a cluster and their state.

use jiff::Timestamp;
use kube::{Api, ResourceExt as _, api::ListParams};
use olm_api::{CatalogSource, CatalogSourceSpec, catalog_source, condition};
use olm_catalog_sources::Source;
use serde::Serialize;

use crate::{
    args::{CatalogSourcesArgs, Global},
    commands::catalogs,
    context,
    exit::{Code, Failure},
    output::{Listing, age},
};

/// Reasons of condition `Ready` for failures that a retry may resolve.
const TEMPORARY: [&str; 3] = ["Unavailable", "NoPlaceAnswered", "Stale"];

/// A CatalogSource for the output.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    pub namespace: String,
    pub name: String,
    pub source_type: String,
    /// Image, address, URL, directory or ConfigMap.
    pub source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packages: Option<i32>,
    /// Empty before the manager has observed the object.
    pub state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_success: Option<Timestamp>,
}

impl Row {
    pub fn of(source: &CatalogSource) -> Self {
        let status = source.status.clone().unwrap_or_default();
        Self {
            namespace: source.namespace().unwrap_or_default(),
            name: source.name_any(),
            source_type: source.spec.source_type.clone(),
            source: source_text(&source.spec),
            packages: status.packages,
            state: status.connection_state.map(|state| state.last_observed_state).unwrap_or_default(),
            reason: status.reason,
            message: status.message,
            last_success: status.last_success.map(|time| time.0),
        }
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

pub async fn run(global: &Global, args: CatalogSourcesArgs) -> Result<(), Failure> {
    let client = context::connect(global).await?;
    let api: Api<CatalogSource> = match &global.namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let list = match api.list(&ListParams::default()).await {
        Ok(list) => list,
        Err(error) => {
            let failure = catalogs::failed(&client, error).await;
            return Err(match failure.code {
                Code::Forbidden if global.namespace.is_none() => {
                    failure.hint("list the catalogs of one namespace with -n NAMESPACE")
                }
                _ => failure,
            });
        }
    };
    let mut rows: Vec<Row> = list.items.iter().map(Row::of).collect();
    rows.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    Listing {
        items: &rows,
        columns: &[
            ("NAME", |row| row.name.clone()),
            ("NAMESPACE", |row| row.namespace.clone()),
            ("SOURCE", |row| row.source.clone()),
            ("PACKAGES", |row| row.packages.map(|packages| packages.to_string()).unwrap_or_default()),
            ("STATE", |row| row.state.clone()),
            ("LAST READ", |row| row.last_success.map(|time| age(time, Timestamp::now())).unwrap_or_default()),
            ("MESSAGE", |row| row.message.clone().unwrap_or_default()),
        ],
        wide: &[
            ("TYPE", |row| row.source_type.clone()),
            ("REASON", |row| row.reason.clone().unwrap_or_default()),
        ],
        name: |row| format!("{}/{}", row.namespace, row.name),
        empty: "No catalogs found; add one with `olm catalog add`.",
    }
    .print(&args.out)
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
    fn a_row_shows_the_source_without_a_password() {
        let mut source = observed("READY", "Serving");
        let row = Row::of(&source);
        assert_eq!(
            (row.namespace.as_str(), row.name.as_str(), row.source.as_str(), row.packages),
            ("olm", "acme", "quay.io/acme/catalog:v1", Some(2))
        );
        source.spec = CatalogSourceSpec {
            source_type: "http".into(),
            url: Some("https://me:hunter2@example.com/all".into()),
            ..CatalogSourceSpec::default()
        };
        let row = Row::of(&source);
        assert!(row.source.contains("example.com") && !row.source.contains("hunter2"), "{}", row.source);
    }
}

//! Objects of kinds that are only known at run time: custom resources.

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Event, Namespace},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, ListParams},
};
use olm_api::csv::{ClusterServiceVersion, CrdDescription};
use olm_ops::OperandState;
use serde_json::Value;

use crate::error::WebError;

#[derive(Clone, Debug)]
pub(crate) struct CustomKind {
    /// Name of the CRD: `plural.group`.
    pub(crate) crd: String,
    pub(crate) resource: ApiResource,
    pub(crate) namespaced: bool,
    /// Structural schema of the selected version.
    pub(crate) schema: Option<Value>,
}

impl CustomKind {
    /// Reads a CRD and selects the version `wanted`, else the stored version.
    pub(crate) async fn read(client: &Client, crd: &str, wanted: Option<&str>) -> Result<Self, WebError> {
        let definition = Api::<CustomResourceDefinition>::all(client.clone()).get(crd).await.map_err(
            |error| match error {
                kube::Error::Api(status) if status.code == 404 => WebError::not_found(format!(
                    "CustomResourceDefinition `{}` not found",
                    crate::links::clean(crd)
                ))
                .hint("install the operator that provides this kind"),
                error => error.into(),
            },
        )?;
        let spec = definition.spec;
        let mut versions: Vec<_> = spec.versions.into_iter().filter(|v| v.served).collect();
        let at = versions
            .iter()
            .position(|v| Some(v.name.as_str()) == wanted)
            .or_else(|| versions.iter().position(|v| v.storage))
            .or(if versions.is_empty() { None } else { Some(0) })
            .ok_or_else(|| {
                WebError::not_found(format!("CustomResourceDefinition `{crd}` has no served version"))
            })?;
        let version = versions.swap_remove(at);
        let resource = ApiResource {
            api_version: format!("{}/{}", spec.group, version.name),
            group: spec.group,
            version: version.name,
            kind: spec.names.kind,
            plural: spec.names.plural,
        };
        let schema =
            version.schema.and_then(|s| s.open_api_v3_schema).and_then(|s| serde_json::to_value(s).ok());
        Ok(Self { crd: crd.to_owned(), resource, namespaced: spec.scope == "Namespaced", schema })
    }

    pub(crate) fn api(&self, client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &self.resource),
            None => Api::all_with(client.clone(), &self.resource),
        }
    }

    /// URL of the pages of an object. Cluster-scoped objects have `-` for the namespace.
    pub(crate) fn href(&self, namespace: Option<&str>, name: &str) -> String {
        let ns = namespace.unwrap_or("-");
        format!("/instances/{}/{}/{}", self.crd, crate::links::encode(ns), crate::links::encode(name))
    }
}

/// The description of a kind by an operator, with its CSV.
#[derive(Clone, Debug)]
pub(crate) struct DescribedKind {
    pub(crate) description: CrdDescription,
    pub(crate) csv: ClusterServiceVersion,
}

/// The ClusterServiceVersions that the user may list; without the right to list all namespaces, those of
/// `namespace`.
pub(crate) async fn csvs(
    client: &Client,
    namespace: Option<&str>,
) -> Result<Vec<ClusterServiceVersion>, WebError> {
    let all = Api::<ClusterServiceVersion>::all(client.clone()).list(&ListParams::default()).await;
    let list = match (all, namespace) {
        (Err(kube::Error::Api(status)), Some(namespace)) if status.code == 403 => {
            Api::<ClusterServiceVersion>::namespaced(client.clone(), namespace)
                .list(&ListParams::default())
                .await?
        }
        (list, _) => list?,
    };
    let mut csvs = list.items;
    // Upstream copies CSVs into the namespaces that an operator watches; only the originals are of interest.
    csvs.retain(|csv| !csv.labels().contains_key(olm_api::names::LABEL_COPIED_FROM));
    csvs.sort_by_key(|csv| (csv.namespace(), csv.name_any()));
    Ok(csvs)
}

/// The description of a kind by the installed operators: the newest running one takes precedence.
pub(crate) fn described(csvs: &[ClusterServiceVersion], crd: &str) -> Option<DescribedKind> {
    let mut found: Vec<DescribedKind> = csvs
        .iter()
        .filter_map(|csv| {
            let description = csv.spec.owned_crds().iter().find(|d| d.name == crd)?.clone();
            Some(DescribedKind { description, csv: csv.clone() })
        })
        .collect();
    found.sort_by_key(|d| {
        let runs = d.csv.status.as_ref().is_some_and(|s| s.phase == olm_api::csv::CsvPhase::Succeeded);
        (runs, d.csv.metadata.creation_timestamp.clone().map(|t| t.0))
    });
    found.pop()
}

/// Names of the namespaces; empty when the user may not list them.
pub(crate) async fn namespaces(client: &Client) -> Vec<String> {
    let list = Api::<Namespace>::all(client.clone()).list_metadata(&ListParams::default()).await;
    let Ok(list) = list else { return Vec::new() };
    let mut names: Vec<String> = list.items.iter().map(kube::ResourceExt::name_any).collect();
    names.sort();
    names
}

/// Whether a namespace exists; true when the user may not read it, because another user then created it.
pub(crate) async fn namespace_exists(client: &Client, name: &str) -> bool {
    !matches!(Api::<Namespace>::all(client.clone()).get_metadata_opt(name).await, Ok(None))
}

/// An event.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct EventView {
    pub(crate) time: Option<String>,
    pub(crate) warning: bool,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) count: i32,
}

/// The latest events of an object, without those of an earlier object with the same name.
pub(crate) async fn events(
    client: &Client,
    namespace: &str,
    kind: &str,
    object: &DynamicObject,
) -> Result<Vec<EventView>, WebError> {
    let name = object.name_any();
    let selector = format!("involvedObject.kind={kind},involvedObject.name={name}");
    let list = Api::<Event>::namespaced(client.clone(), namespace)
        .list(&ListParams::default().fields(&selector))
        .await?;
    let mut events: Vec<EventView> = list
        .items
        .into_iter()
        // Some API servers do not support these field selectors.
        .filter(|e| {
            let about = &e.involved_object;
            about.kind.as_deref() == Some(kind)
                && about.name.as_ref() == Some(&name)
                && (about.uid.is_none() || about.uid == object.metadata.uid)
        })
        .map(|e| EventView {
            time: e
                .series
                .as_ref()
                .and_then(|series| series.last_observed_time.as_ref())
                .map(|t| t.0.to_string())
                .or_else(|| e.last_timestamp.map(|t| t.0.to_string()))
                .or_else(|| e.event_time.map(|t| t.0.to_string()))
                .or_else(|| e.metadata.creation_timestamp.map(|t| t.0.to_string())),
            warning: e.type_.as_deref() == Some("Warning"),
            reason: e.reason.unwrap_or_default(),
            message: e.message.unwrap_or_default(),
            count: e.series.and_then(|series| series.count).or(e.count).unwrap_or(1),
        })
        .collect();
    events.sort_by(|a, b| b.time.cmp(&a.time));
    events.truncate(30);
    Ok(events)
}

/// The value at a descriptor's path (`a.b[0].c`) below `spec` or `status`.
pub(crate) fn at_path<'a>(root: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(root, |value, part| {
        let (key, index) = match part.split_once('[') {
            Some((key, rest)) => (key, Some(rest.strip_suffix(']')?.parse::<usize>().ok()?)),
            None => (part, None),
        };
        let value = if key.is_empty() { value } else { value.get(key)? };
        match index {
            Some(index) => value.get(index),
            None => Some(value),
        }
    })
}

/// The state that an object reports, with the word as displayed; `None` if it reports none.
pub(crate) fn state_of(object: &Value, created: Option<Timestamp>) -> Option<OperandState> {
    let state = OperandState::of(object, created, Timestamp::now());
    let word = crate::links::clean(&state.word);
    (!word.is_empty()).then_some(OperandState { word, ..state })
}

/// An object without the fields that only the API server uses.
pub(crate) fn tidy(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("managedFields");
    }
    object
}

pub(crate) fn yaml(value: &Value) -> String {
    serde_yaml::to_string(value).unwrap_or_else(|_| value.to_string())
}

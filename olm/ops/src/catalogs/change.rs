//! Reads and changes of the CatalogSources of a cluster, with the rights of the caller.

use jiff::Timestamp;
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
};
use olm_api::{CatalogSource, CatalogSourceSpec, Subscription, names};
use olm_engine::{catalogs::Source, site::manager_namespace};
use serde_json::{Value, json};

use super::poll::PollInterval;
use crate::{
    error::Error,
    list::list,
    write::{field_manager, write},
};

/// Code of the refusal to add a catalog with the name of another one.
pub const CATALOG_EXISTS: &str = "catalog-exists";

/// The result of [`add`].
#[derive(Debug)]
pub struct Added {
    pub source: CatalogSource,
    /// Whether the request created it.
    pub is_new: bool,
}

/// Keeps the response of the API server, which the callers report in their own words.
fn request(what: String) -> impl FnOnce(kube::Error) -> Error {
    move |source| Error::Kube { what, source: Box::new(source) }
}

fn place(source: &CatalogSource) -> String {
    format!("{}/{}", source.namespace().unwrap_or_default(), source.name_any())
}

fn api_of(client: &Client, source: &CatalogSource) -> Api<CatalogSource> {
    Api::namespaced(client.clone(), &source.namespace().unwrap_or_default())
}

/// The CatalogSources of a namespace, or of all, by namespace and name.
///
/// # Errors
/// [`Error::Forbidden`], [`Error::NotInstalled`].
pub async fn list_sources(client: &Client, namespace: Option<&str>) -> Result<Vec<CatalogSource>, Error> {
    let mut sources: Vec<CatalogSource> = list(client, namespace).await?;
    sources.sort_by_cached_key(|source| (source.namespace(), source.name_any()));
    Ok(sources)
}

/// One CatalogSource.
///
/// # Errors
/// [`Error::NotFound`] with the nearest names, [`Error::Forbidden`], [`Error::NotInstalled`].
pub async fn find_source(client: &Client, namespace: &str, name: &str) -> Result<CatalogSource, Error> {
    let api = Api::<CatalogSource>::namespaced(client.clone(), namespace);
    let what = format!("get CatalogSource {namespace}/{name}");
    if let Some(source) = api.get_opt(name).await.map_err(Error::kube(what))? {
        return Ok(source);
    }
    // A user who may get an object may lack the right to list. A kind that is not served is not found either.
    let names: Vec<String> = match list::<CatalogSource>(client, Some(namespace)).await {
        Ok(sources) => sources.iter().map(|source| source.name_any()).collect(),
        Err(error @ Error::NotInstalled { .. }) => return Err(error),
        Err(_) => Vec::new(),
    };
    Err(Error::NotFound {
        what: "catalog",
        name: name.to_owned(),
        within: Some(format!("namespace {namespace}")),
        nearest: olm_version::suggest(name, &names, 3),
    })
}

/// Creates the object, or returns an existing one with the same source. With `dry_run` the API server validates
/// it only.
///
/// # Errors
/// [`Error::Refused`] with [`CATALOG_EXISTS`] when it exists with other settings; [`Error::Kube`].
pub async fn add(client: &Client, wanted: &CatalogSource, dry_run: bool) -> Result<Added, Error> {
    let api = api_of(client, wanted);
    let what = || format!("create CatalogSource {}", place(wanted));
    let params = PostParams { field_manager: Some(field_manager()), dry_run };
    match api.create(&params, wanted).await {
        Ok(source) => Ok(Added { source, is_new: true }),
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            let source = api.get(&wanted.name_any()).await.map_err(request(what()))?;
            let differences = differences(&source.spec, &wanted.spec);
            if differences.is_empty() {
                return Ok(Added { source, is_new: false });
            }
            let place = place(wanted);
            Err(Error::Refused {
                code: CATALOG_EXISTS.to_owned(),
                text: format!("CatalogSource {place} exists with other settings: {}", differences.join("; ")),
                fix: Some(format!(
                    "choose another name, or remove the existing catalog with `olm catalog remove {place}`"
                )),
            })
        }
        Err(error) => Err(request(what())(error)),
    }
}

/// The requested fields that differ. Priority and secrets count only when requested.
fn differences(found: &CatalogSourceSpec, wanted: &CatalogSourceSpec) -> Vec<String> {
    let text = |value: &Option<String>| value.clone().filter(|text| !text.is_empty());
    let list = |names: &[String]| (!names.is_empty()).then(|| names.join(", "));
    let mut fields = vec![
        ("sourceType", Some(found.source_type.clone()), Some(wanted.source_type.clone())),
        ("image", text(&found.image), text(&wanted.image)),
        ("address", text(&found.address), text(&wanted.address)),
        ("url", text(&found.url), text(&wanted.url)),
        ("configMap", text(&found.config_map), text(&wanted.config_map)),
        ("directory", text(&found.directory), text(&wanted.directory)),
    ];
    if wanted.priority != 0 {
        fields.push(("priority", Some(found.priority.to_string()), Some(wanted.priority.to_string())));
    }
    if !wanted.secrets.is_empty() {
        fields.push(("secrets", list(&found.secrets), list(&wanted.secrets)));
    }
    let shown = |value: Option<String>| value.unwrap_or_else(|| "unset".to_owned());
    let changed = fields.into_iter().filter(|(_, found, wanted)| found != wanted);
    changed
        .map(|(field, found, wanted)| {
            // The URL of another author may contain a password.
            let found =
                if field == "url" { found.map(|url| Source::Http { url }.to_string()) } else { found };
            format!("spec.{field} is {}, requested {}", shown(found), shown(wanted))
        })
        .collect()
}

/// Requests that the manager reads the source now, whatever its interval. The read has ended when
/// `status.lastHandledRefresh` is `at`.
///
/// # Errors
/// [`Error::Forbidden`], [`Error::Kube`].
pub async fn refresh(client: &Client, source: &CatalogSource, at: Timestamp) -> Result<CatalogSource, Error> {
    let patch = json!({ "metadata": { "annotations": { names::ANNOTATION_REFRESH: at.to_string() } } });
    let params = PatchParams { field_manager: Some(field_manager()), ..PatchParams::default() };
    api_of(client, source)
        .patch(&source.name_any(), &params, &Patch::Merge(&patch))
        .await
        .map_err(Error::kube(format!("patch CatalogSource {}", place(source))))
}

/// Changes the poll interval of an examined CatalogSource; `None` unsets it.
///
/// # Errors
/// [`Error::Forbidden`]; [`Error::Kube`], a conflict when the object was changed meanwhile.
pub async fn set_poll_interval(
    client: &Client,
    source: &CatalogSource,
    interval: Option<&PollInterval>,
) -> Result<(), Error> {
    let strategy = match interval {
        Some(interval) => json!({ "registryPoll": { "interval": interval.as_str() } }),
        None => Value::Null,
    };
    write(client, source, "change", json!({ "spec": { "updateStrategy": strategy } })).await
}

/// The Subscriptions that use a catalog, as NAMESPACE/NAME; `None` without the right to list them. A catalog in
/// another namespace than the manager's is visible only from that namespace.
///
/// # Errors
/// [`Error::Kube`].
pub async fn subscriptions_of(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Option<Vec<String>>, Error> {
    let api: Api<Subscription> = if namespace == manager_namespace() {
        Api::all(client.clone())
    } else {
        Api::namespaced(client.clone(), namespace)
    };
    let list = match api.list(&ListParams::default()).await {
        Ok(list) => list,
        Err(kube::Error::Api(status)) if status.is_forbidden() => return Ok(None),
        Err(error) => return Err(request("list subscriptions".to_owned())(error)),
    };
    let users = list.items.iter().filter(|subscription| {
        subscription.spec.source == name && subscription.spec.source_namespace == namespace
    });
    let users = users.map(|user| format!("{}/{}", user.namespace().unwrap_or_default(), user.name_any()));
    Ok(Some(users.collect()))
}

/// Deletes the examined object, not a new one with its name.
///
/// # Errors
/// [`Error::Kube`].
pub async fn remove(client: &Client, source: &CatalogSource) -> Result<(), Error> {
    let preconditions = Some(Preconditions { uid: source.uid(), resource_version: None });
    let params = DeleteParams { preconditions, ..DeleteParams::default() };
    let what = format!("delete CatalogSource {}", place(source));
    api_of(client, source).delete(&source.name_any(), &params).await.map_err(request(what))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{super::source::RequestedCatalog, *};

    fn spec(source: &str) -> CatalogSourceSpec {
        RequestedCatalog::parse(source).unwrap().spec
    }

    #[test]
    fn an_existing_catalog_is_compared_by_its_source() {
        let image = spec("quay.io/acme/catalog:v1");
        let edited = CatalogSourceSpec {
            priority: 5,
            display_name: Some("Acme".into()),
            update_strategy: None,
            ..image.clone()
        };
        assert!(differences(&edited, &image).is_empty());
        assert_eq!(
            differences(&image, &edited),
            ["spec.priority is 0, requested 5"],
            "a requested priority counts"
        );
        assert_eq!(
            differences(&image, &spec("quay.io/acme/catalog:v2")),
            ["spec.image is quay.io/acme/catalog:v1, requested quay.io/acme/catalog:v2"]
        );
        let secret = CatalogSourceSpec { secrets: vec!["pull".into()], ..image.clone() };
        assert!(differences(&secret, &image).is_empty());
        assert_eq!(differences(&image, &secret), ["spec.secrets is unset, requested pull"]);
        let web = differences(&image, &spec("https://example.com/all"));
        assert_eq!(web.len(), 3, "{web:?}");
        assert_eq!(web[2], "spec.url is unset, requested https://example.com/all");
        let url = Some("https://me:hunter2@example.com/all".to_owned());
        let found = CatalogSourceSpec { url, ..spec("https://example.com/all") };
        assert!(!differences(&found, &spec("https://example.com/all")).concat().contains("hunter2"));
    }
}

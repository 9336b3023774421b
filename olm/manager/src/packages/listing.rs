//! Streams manifests: one package is in memory at a time, whatever the size of the request.

use std::collections::VecDeque;

use axum::body::{Body, Bytes};
use futures::stream;
use jiff::Timestamp;
use olm_engine::catalogs::LoadedCatalog;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::{
    KIND, api_version,
    manifest::{Source, manifest},
    selector::QuerySelector,
    table::{self, Form},
};

/// A catalog with the settings of its CatalogSource.
pub(super) struct Catalog {
    pub(super) loaded: LoadedCatalog,
    pub(super) source: Source,
}

struct Listing {
    catalogs: VecDeque<Catalog>,
    /// Packages of the first catalog that are still to be read.
    names: VecDeque<String>,
    /// The namespace of the request; `None` is all of them.
    namespace: Option<String>,
    selector: QuerySelector,
    form: Form,
    now: Timestamp,
    first: bool,
    ended: bool,
    _reader: OwnedSemaphorePermit,
}

pub(super) fn body(
    catalogs: Vec<Catalog>,
    namespace: Option<String>,
    selector: QuerySelector,
    form: Form,
    reader: OwnedSemaphorePermit,
) -> Body {
    let head = match form {
        Form::Whole => json!({ "apiVersion": api_version(), "kind": format!("{KIND}List"), "metadata": {} }),
        Form::Metadata => {
            json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": {} })
        }
        Form::Table(_) => json!({
            "apiVersion": "meta.k8s.io/v1", "kind": "Table", "metadata": {}, "columnDefinitions": table::columns(),
        }),
    };
    let items = if matches!(form, Form::Table(_)) { "rows" } else { "items" };
    let mut head = head.to_string();
    head.pop();
    head.push_str(&format!(",\"{items}\":["));
    let mut listing = Listing {
        catalogs: catalogs.into(),
        names: VecDeque::new(),
        namespace,
        selector,
        form,
        now: Timestamp::now(),
        first: true,
        ended: false,
        _reader: reader,
    };
    listing.names = listing.packages();
    let begin = stream::once(async move { Ok::<_, std::convert::Infallible>(Bytes::from(head)) });
    Body::from_stream(futures::StreamExt::chain(begin, stream::unfold(listing, next)))
}

async fn next(mut listing: Listing) -> Option<(Result<Bytes, std::convert::Infallible>, Listing)> {
    if listing.ended {
        return None;
    }
    let Some(item) = listing.item().await else {
        listing.ended = true;
        return Some((Ok(Bytes::from_static(b"]}\n")), listing));
    };
    let comma = if std::mem::take(&mut listing.first) { "" } else { "," };
    Some((Ok(format!("{comma}{item}").into()), listing))
}

impl Listing {
    /// The packages of the first catalog that the selector may match.
    fn packages(&self) -> VecDeque<String> {
        let names = self.catalogs.front().into_iter().flat_map(|catalog| catalog.loaded.catalog.summaries());
        names.filter(|summary| self.selector.may_be(&summary.name)).map(|s| s.name.clone()).collect()
    }

    async fn item(&mut self) -> Option<Value> {
        loop {
            let Some(name) = self.names.pop_front() else {
                self.catalogs.pop_front()?;
                self.names = self.packages();
                continue;
            };
            let catalog = self.catalogs.front()?;
            if let Some(found) = read(catalog, &name, self.namespace.as_deref()).await
                && self.selector.matches(&labels(&found))
            {
                return Some(match self.form {
                    Form::Whole => found,
                    Form::Metadata => table::metadata(&found),
                    Form::Table(rows) => table::row(&found, rows, self.now),
                });
            }
        }
    }
}

/// A manifest. As upstream, an unreadable one is left out, so that the others are usable.
pub(super) async fn read(catalog: &Catalog, name: &str, namespace: Option<&str>) -> Option<Value> {
    let Catalog { loaded, source } = catalog;
    let namespace = namespace.unwrap_or(&loaded.reference.namespace);
    match loaded.package(name).await {
        Ok(package) => manifest(loaded, source, &*package?, namespace),
        Err(error) => {
            tracing::warn!(catalog = %loaded.reference, package = name, %error, "omitted a PackageManifest");
            None
        }
    }
}

fn labels(manifest: &Value) -> std::collections::BTreeMap<String, String> {
    let labels = manifest["metadata"]["labels"].as_object().into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// The first package of that name.
pub(super) async fn find(catalogs: Vec<Catalog>, name: &str, namespace: &str) -> Option<(Catalog, Value)> {
    for catalog in catalogs {
        if catalog.loaded.catalog.summary(name).is_some()
            && let Some(found) = read(&catalog, name, Some(namespace)).await
        {
            return Some((catalog, found));
        }
    }
    None
}

//! Catalogs for pages: read from the manager in the name of each user, indexed once per content, with the
//! last good snapshot as a fallback.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use jiff::Timestamp;
use olm_catalog::{Catalog, CsvMetadata, Icon, Summary};
use olm_engine::catalogs::{FetchError, Fetcher, LoadedCatalog, ReadError};

use crate::{api_server::Identity, links::clean, markdown, session::hash};

/// Content younger than this is not fetched again.
const FRESH: Duration = Duration::from_secs(2);

/// How long a fetch without a previous snapshot retries an unreachable manager.
const PATIENCE: Duration = Duration::from_secs(3);

/// Maximum number of users with a cached snapshot; the least recently used one is evicted.
const USERS: usize = 256;

static REVISIONS: AtomicU64 = AtomicU64::new(0);

/// Source of the catalogs, with the last snapshot of each user.
pub(crate) struct Catalogs {
    from: From,
    /// By the hash of the user's token.
    views: Mutex<Views>,
    /// Indexed catalogs, shared by users. Reading them always requires the user's own right.
    known: SharedCatalogs,
}

/// Each view with the time of its last use.
type Views = HashMap<[u8; 32], (Instant, Arc<View>)>;

enum From {
    /// With the token of each user.
    Manager(Fetcher),
    /// With the credentials of the fetcher's client, for its one user.
    ServiceProxy(Fetcher),
    #[cfg(test)]
    Fixed(Arc<Snapshot>),
}

/// The catalogs that one user may read.
#[derive(Default)]
struct View {
    last: Mutex<Option<(Instant, Arc<Snapshot>)>>,
    /// One fetch at a time; concurrent requests share its result.
    fetching: tokio::sync::Mutex<()>,
}

/// Indexed catalogs by id, as long as a view refers to them.
#[derive(Default)]
struct SharedCatalogs(Mutex<HashMap<String, Weak<Source>>>);

/// All catalogs at one moment.
#[derive(Default)]
pub(crate) struct Snapshot {
    pub(crate) loaded: Vec<LoadedCatalog>,
    /// The same catalogs, indexed.
    pub(crate) sources: Vec<Arc<Source>>,
    /// Why newer content could not be read.
    pub(crate) unreachable: Option<String>,
    pub(crate) read_at: Option<Timestamp>,
}

pub(crate) struct Source {
    /// Different for each index of this process.
    revision: u64,
    /// `namespace.name`, as in URLs of pages.
    pub(crate) id: String,
    pub(crate) display_name: String,
    pub(crate) catalog: Arc<Catalog>,
    /// By package name.
    cards: HashMap<String, Card>,
}

/// The entry of a package in a list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Card {
    pub(crate) display_name: String,
    pub(crate) provider: String,
    pub(crate) summary: String,
    pub(crate) capability: String,
    pub(crate) channel: String,
    pub(crate) version: String,
    pub(crate) kinds: Vec<String>,
    pub(crate) categories: Vec<String>,
    /// When the version was created, as its author wrote it.
    pub(crate) created: String,
    pub(crate) icon: Option<String>,
    pub(crate) deprecated: bool,
    /// Lower-case text to filter by.
    pub(crate) filter_text: String,
}

impl Catalogs {
    pub(crate) fn remote(url: &str) -> Result<Self, FetchError> {
        let from = From::Manager(Fetcher::base_url(url)?);
        Ok(Self { from, views: Mutex::default(), known: SharedCatalogs::default() })
    }

    /// Through the API server's service proxy, for the user of the client.
    pub(crate) fn service_proxy(client: kube::Client) -> Self {
        let from = From::ServiceProxy(Fetcher::service_proxy(client));
        Self { from, views: Mutex::default(), known: SharedCatalogs::default() }
    }

    #[cfg(test)]
    pub(crate) fn fixed(loaded: Vec<LoadedCatalog>) -> Self {
        let known = SharedCatalogs::default();
        let from = From::Fixed(Arc::new(Snapshot::of(loaded, &known)));
        Self { from, views: Mutex::default(), known }
    }

    /// Why the manager is unreachable, for callers that are not signed in: no request is made with the credentials
    /// of a client.
    pub(crate) async fn problem(&self) -> Option<String> {
        match &self.from {
            From::Manager(fetcher) => fetcher.ready().await.err().map(|error| error.to_string()),
            From::ServiceProxy(_) => None,
            #[cfg(test)]
            From::Fixed(_) => None,
        }
    }

    /// The catalogs whose CatalogSource the user may read: the current ones, or the last ones read when the
    /// manager is unreachable.
    pub(crate) async fn read(&self, user: &Identity) -> Arc<Snapshot> {
        let fetcher = match &self.from {
            From::Manager(fetcher) => fetcher.as_user(&user.token.get()),
            From::ServiceProxy(fetcher) => Ok(fetcher.clone()),
            #[cfg(test)]
            From::Fixed(snapshot) => return Arc::clone(snapshot),
        };
        let view = self.view(&user.token.get());
        if let Some(fresh) = view.cached(true) {
            return fresh;
        }
        let _one = view.fetching.lock().await;
        if let Some(fresh) = view.cached(true) {
            return fresh;
        }
        let old = view.cached(false);
        let read = match fetcher {
            Ok(fetcher) => Self::fetch(&fetcher, old.is_none()).await,
            Err(error) => Err(error.to_string()),
        };
        let snapshot = Arc::new(match read {
            Ok(loaded) => Snapshot::of(loaded, &self.known),
            Err(why) => Snapshot::stale(why, old.as_deref()),
        });
        *view.last.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((Instant::now(), Arc::clone(&snapshot)));
        snapshot
    }

    fn view(&self, token: &str) -> Arc<View> {
        let mut views = self.views.lock().unwrap_or_else(PoisonError::into_inner);
        let key = hash(token);
        if views.len() >= USERS
            && !views.contains_key(&key)
            && let Some(oldest) = views.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| *key)
        {
            views.remove(&oldest);
        }
        let (used, view) = views.entry(key).or_insert_with(|| (Instant::now(), Arc::default()));
        *used = Instant::now();
        Arc::clone(view)
    }

    /// Without a previous snapshot, as right after the console and the manager start, an unreachable manager
    /// is retried for a moment.
    async fn fetch(fetcher: &Fetcher, patient: bool) -> Result<Vec<LoadedCatalog>, String> {
        let start = Instant::now();
        loop {
            let why = match tokio::time::timeout(Duration::from_secs(10), fetcher.fetch()).await {
                Ok(Ok(loaded)) => return Ok(loaded),
                Ok(Err(error)) => error.to_string(),
                Err(_) => "request to the manager timed out after 10 s".into(),
            };
            if !patient || start.elapsed() > PATIENCE {
                return Err(why);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

impl View {
    fn cached(&self, fresh: bool) -> Option<Arc<Snapshot>> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, snapshot) = last.as_ref()?;
        (!fresh || at.elapsed() < FRESH).then(|| Arc::clone(snapshot))
    }
}

impl SharedCatalogs {
    /// The catalog, indexed unless its content is already known.
    fn source(&self, id: String, loaded: &LoadedCatalog) -> Arc<Source> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |source: &Arc<Source>| {
            Arc::ptr_eq(&source.catalog, &loaded.catalog)
                && source.display_name == Source::display_name(loaded)
        };
        if let Some(source) = known.get(&id).and_then(Weak::upgrade).filter(same) {
            return source;
        }
        let source = Arc::new(Source::of(id.clone(), loaded));
        known.retain(|_, source| source.strong_count() > 0);
        known.insert(id, Arc::downgrade(&source));
        source
    }
}

impl Snapshot {
    fn of(loaded: Vec<LoadedCatalog>, known: &SharedCatalogs) -> Self {
        let sources = loaded.iter().map(|loaded| {
            let id = format!("{}.{}", loaded.reference.namespace, loaded.reference.name);
            known.source(id, loaded)
        });
        Self { sources: sources.collect(), loaded, unreachable: None, read_at: Some(Timestamp::now()) }
    }

    fn stale(why: String, old: Option<&Self>) -> Self {
        Self {
            loaded: old.map(|o| o.loaded.clone()).unwrap_or_default(),
            sources: old.map(|o| o.sources.clone()).unwrap_or_default(),
            read_at: old.and_then(|o| o.read_at),
            unreachable: Some(why),
        }
    }

    /// Everything that pages show of the catalogs, as text for comparison. `None` while the manager is unreachable:
    /// pages then show the age of the snapshot.
    pub(crate) fn inputs(&self) -> Option<impl fmt::Debug> {
        // Content and name of a catalog are those of its index; the others are settings of its CatalogSource.
        let revisions: Vec<u64> = self.sources.iter().map(|source| source.revision).collect();
        let settings: Vec<_> = self
            .loaded
            .iter()
            .map(|loaded| (&loaded.reference, &loaded.publisher, loaded.priority, &loaded.image))
            .collect();
        self.unreachable.is_none().then_some((revisions, settings))
    }

    /// The icon with a digest, if a package has it.
    pub(crate) async fn icon(&self, digest: &str) -> Result<Option<Icon>, ReadError> {
        for loaded in &self.loaded {
            let of = |summary: &&Summary| summary.icon.as_deref() == Some(digest);
            if let Some(summary) = loaded.catalog.summaries().find(of) {
                return loaded.icon(&summary.name).await;
            }
        }
        Ok(None)
    }

    /// By `namespace.name`, or by the name alone.
    pub(crate) fn source(&self, id: &str) -> Option<&Arc<Source>> {
        let by_name = |source: &&Arc<Source>| source.id.split_once('.').is_some_and(|(_, name)| name == id);
        self.sources.iter().find(|source| source.id == id).or_else(|| self.sources.iter().find(by_name))
    }

    pub(crate) fn loaded_of(&self, source: &Source) -> Option<&LoadedCatalog> {
        self.loaded.iter().find(|loaded| Arc::ptr_eq(&loaded.catalog, &source.catalog))
    }

    /// The card of a package in a catalog given as `namespace/name`, or in the first catalog that has the
    /// package.
    pub(crate) fn card(&self, catalog: Option<&str>, package: &str) -> Option<(&Source, &Card)> {
        let id = catalog.map(|catalog| catalog.replacen('/', ".", 1));
        let named = id.as_deref().and_then(|id| self.sources.iter().find(|source| source.id == id));
        named
            .into_iter()
            .chain(&self.sources)
            .find_map(|source| source.card(package).map(|card| (source.as_ref(), card)))
    }
}

impl Source {
    fn of(id: String, loaded: &LoadedCatalog) -> Self {
        let cards =
            loaded.catalog.summaries().map(|package| (package.name.clone(), Card::of(package))).collect();
        let catalog = Arc::clone(&loaded.catalog);
        let revision = REVISIONS.fetch_add(1, Ordering::Relaxed);
        Self { revision, id, display_name: Self::display_name(loaded), catalog, cards }
    }

    fn display_name(loaded: &LoadedCatalog) -> String {
        if loaded.display_name.is_empty() {
            loaded.reference.name.clone()
        } else {
            clean(&loaded.display_name)
        }
    }

    pub(crate) fn card(&self, package: &str) -> Option<&Card> {
        self.cards.get(package)
    }

    /// A card with the name of its package.
    pub(crate) fn named_card(&self, package: &str) -> Option<(&str, &Card)> {
        self.cards.get_key_value(package).map(|(name, card)| (name.as_str(), card))
    }

    /// `namespace/name`, as in commands and objects.
    pub(crate) fn reference(&self) -> String {
        self.id.replacen('.', "/", 1)
    }
}

impl Card {
    fn of(package: &Summary) -> Self {
        let head = package.head.clone().unwrap_or_default();
        let mut card = Self {
            display_name: clean(&package.display_name),
            provider: clean(&package.provider),
            summary: markdown::summary(&package.description),
            capability: clean(&package.capability),
            channel: clean(&package.default_channel),
            version: clean(&head.version),
            kinds: head.kinds.iter().map(|kind| clean(kind)).collect(),
            categories: package.categories.iter().map(|category| clean(category)).collect(),
            created: clean(&package.created),
            icon: package.icon.clone(),
            deprecated: package.deprecated.is_some(),
            filter_text: String::new(),
        };
        card.filter_text = [
            card.display_name.as_str(),
            &package.name,
            &card.provider,
            &card.summary,
            &card.kinds.join(" "),
            &package.keywords.join(" "),
        ]
        .join(" ")
        .to_lowercase();
        card
    }
}

pub(crate) fn display_name(metadata: &CsvMetadata, package: &str) -> String {
    let name = clean(metadata.display_name.trim());
    if name.is_empty() { clean(package) } else { name }
}

#[cfg(test)]
mod tests {
    use olm_engine::catalogs::CatalogRef;

    use super::*;

    fn loaded(catalog: &Arc<Catalog>) -> LoadedCatalog {
        let reference = CatalogRef { namespace: "olm".into(), name: "community".into() };
        LoadedCatalog::new(reference, Arc::clone(catalog))
    }

    fn catalog(description: &str) -> Arc<Catalog> {
        let text =
            format!("{{\"schema\":\"olm.package\",\"name\":\"p\",\"description\":\"{description}\"}}\n");
        Arc::new(Catalog::from_bytes("test", text.as_bytes()))
    }

    #[test]
    fn the_inputs_of_pages_change_with_the_content_and_the_settings_of_a_catalog() {
        let known = SharedCatalogs::default();
        let inputs = |loaded: Vec<LoadedCatalog>| {
            let snapshot = Snapshot::of(loaded, &known);
            (format!("{:?}", snapshot.inputs()), snapshot)
        };
        let one = catalog("a");
        let (first, kept) = inputs(vec![loaded(&one)]);
        assert_eq!(inputs(vec![loaded(&one)]).0, first, "nothing changed");
        let changed = |change: fn(&mut LoadedCatalog)| {
            let mut loaded = loaded(&one);
            change(&mut loaded);
            inputs(vec![loaded]).0
        };
        let mut all = vec![
            first.clone(),
            inputs(vec![]).0,
            inputs(vec![loaded(&catalog("b"))]).0,
            changed(|loaded| loaded.priority = 7),
            changed(|loaded| loaded.publisher = "example".into()),
            changed(|loaded| loaded.display_name = "Example".into()),
            changed(|loaded| loaded.reference.name = "other".into()),
        ];
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 7, "{all:#?}");
        // a page then shows the age of the snapshot
        assert!(Snapshot::stale("unreachable".into(), Some(&kept)).inputs().is_none());
    }
}

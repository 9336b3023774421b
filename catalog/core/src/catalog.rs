//! A catalog: the index of its packages in memory, and the packages in their storage.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use crate::assemble;
use crate::content::{Content, ContentError, PackageCache};
use crate::group::Group;
use crate::model::Package;
use crate::problem::Problem;
use crate::search::{Hit, SearchIndex};
use crate::summary::Summary;

/// A catalog: a summary of each package, and access to the packages in their storage.
/// Only the index is in memory; [`Catalog::package`] reads a package on demand.
#[derive(Debug)]
pub struct Catalog {
    /// Its source: a directory, or a name given by the caller.
    pub origin: String,
    /// Digest of its content, `sha256:…`: independent of file names, order and formatting.
    pub digest: String,
    /// All problems, in order of place.
    pub problems: Vec<Problem>,
    /// By name of the package; documents without a package are under the empty name.
    pub(crate) groups: BTreeMap<String, Group>,
    pub(crate) content: Content,
    pub(crate) recent: PackageCache,
    /// Built by the first search.
    pub(crate) search_index: OnceLock<SearchIndex>,
}

impl Default for Catalog {
    fn default() -> Self {
        Self {
            origin: String::new(),
            digest: String::new(),
            problems: Vec::new(),
            groups: BTreeMap::new(),
            content: Content::Memory(BTreeMap::new()),
            recent: PackageCache::default(),
            search_index: OnceLock::new(),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Index<'a> {
    digest: Cow<'a, str>,
    packages: Vec<IndexLine<'a>>,
}

#[derive(Serialize, Deserialize)]
struct IndexLine<'a> {
    summary: Cow<'a, Summary>,
    words: Cow<'a, str>,
}

impl Catalog {
    pub fn summaries(&self) -> impl Iterator<Item = &Summary> {
        self.groups.values().filter_map(|group| group.summary.as_ref())
    }

    #[must_use]
    pub fn summary(&self, package: &str) -> Option<&Summary> {
        self.groups.get(package)?.summary.as_ref()
    }

    /// The number of installable packages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.summaries().count()
    }

    /// The packages whose channels may replace or skip a bundle, in the order of their names: all that do,
    /// and hardly any other.
    pub fn replacing(&self, bundle: &str) -> impl Iterator<Item = &str> {
        let hash = crc32fast::hash(bundle.as_bytes());
        let groups = self.groups.values().filter(move |group| group.replaced.binary_search(&hash).is_ok());
        groups.filter_map(|group| group.summary.as_ref()).map(|summary| summary.name.as_str())
    }

    /// The index of its packages, for another process: see [`Self::from_index`].
    #[must_use]
    pub fn index(&self) -> Vec<u8> {
        let packages = self.groups.values().filter_map(|group| {
            Some(IndexLine {
                summary: Cow::Borrowed(group.summary.as_ref()?),
                words: Cow::Borrowed(&group.words),
            })
        });
        let index = Index { digest: Cow::Borrowed(&self.digest), packages: packages.collect() };
        serde_json::to_vec(&index).unwrap_or_default()
    }

    /// A catalog stored by another process: it can be listed and searched; its packages are read from there.
    /// # Errors
    /// When the text does not come from [`Self::index`].
    pub fn from_index(origin: &str, index: &[u8]) -> Result<Self, serde_json::Error> {
        let Index { digest, packages } = serde_json::from_slice(index)?;
        let group = |line: IndexLine<'_>| {
            let summary = line.summary.into_owned();
            let group = Group { summary: Some(summary), words: line.words.into_owned(), ..Group::default() };
            (group.summary.as_ref().map(|summary| summary.name.clone()).unwrap_or_default(), group)
        };
        Ok(Self {
            origin: origin.to_owned(),
            digest: digest.into_owned(),
            groups: packages.into_iter().map(group).collect(),
            content: Content::Nowhere,
            ..Self::default()
        })
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.summaries().next().is_none()
    }

    /// A complete package, read from the catalog's storage; `None` when it does not exist.
    /// # Errors
    /// [`ContentError`] when the content cannot be read.
    pub fn package(&self, name: &str) -> Result<Option<Arc<Package>>, ContentError> {
        let Some((name, group)) =
            self.groups.get_key_value(name).filter(|(_, group)| group.summary.is_some())
        else {
            return Ok(None);
        };
        if let Some(package) = self.recent.get(name) {
            return Ok(Some(package));
        }
        let text = self.text(name, group)?;
        let package = assemble::open(name, group, &text).map(Arc::new);
        if let Some(package) = &package {
            self.recent.insert(package, text.len());
        }
        Ok(package)
    }

    /// The packages that match a text, best first; every package by name for an empty text.
    /// Every word of the text must match. A word matches a name, a display name, a provided kind, a keyword,
    /// a category, the provider, the capability level or the description, in this order of weight; words of
    /// four letters and more may have a typing error (of eight and more, two).
    #[must_use]
    pub fn search(&self, text: &str) -> Vec<Hit> {
        self.search_index.get_or_init(|| SearchIndex::of(self.groups.values())).search(text)
    }

    pub(crate) fn text(&self, package: &str, group: &Group) -> Result<Arc<String>, ContentError> {
        match &self.content {
            Content::Memory(texts) => match texts.get(package) {
                Some(text) => Ok(Arc::clone(text)),
                None => Err(ContentError::NotKept { package: package.to_owned() }),
            },
            Content::Disk(disk) => disk.read(package, group),
            Content::Nowhere => Err(ContentError::NotKept { package: package.to_owned() }),
        }
    }
}

//! The texts of a catalog's packages, in memory or on disk.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::model::{Catalog, Group, Package};
use crate::store::StoreFiles;

/// Storage of the texts.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    /// By name of the package.
    Memory(BTreeMap<String, Arc<String>>),
    /// By digest.
    Disk(Arc<StoreFiles>),
    /// The catalog was only checked.
    Nowhere,
}

#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// The catalog was only loaded for a check.
    #[error("content of package {package} not stored: the catalog was only checked")]
    NotKept { package: String },
    #[error(
        "failed to read package {package} from {path}: {source}; the next refresh of the catalog reads it \
         again"
    )]
    Read { package: String, path: String, source: std::io::Error },
    /// The file differs from what was written.
    #[error(
        "failed to read package {package} from {path}: file corrupted and set aside; the next refresh of \
         the catalog reads it again"
    )]
    Damaged { package: String, path: String },
}

/// Total text size of the cached packages.
const KEPT: usize = 8 << 20;

/// The most recently read packages.
#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<Vec<(Arc<Package>, usize)>>);

impl Recent {
    fn get(&self, name: &str) -> Option<Arc<Package>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let position = kept.iter().position(|(package, _)| package.name == name)?;
        let found = kept.remove(position);
        let package = Arc::clone(&found.0);
        kept.push(found);
        Some(package)
    }

    fn put(&self, package: &Arc<Package>, bytes: usize) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push((Arc::clone(package), bytes));
        while kept.len() > 1 && kept.iter().map(|(_, bytes)| bytes).sum::<usize>() > KEPT {
            kept.remove(0);
        }
    }
}

/// Selects documents; by default all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    pub schema: Option<String>,
    pub package: Option<String>,
    pub name: Option<String>,
}

/// Documents of a catalog as canonical JSON, in a fixed order; one package is in memory at a time.
#[derive(Debug)]
pub struct Documents<'a> {
    catalog: &'a Catalog,
    groups: std::collections::btree_map::Range<'a, String, Group>,
    filter: Filter,
    /// Remaining documents of the current package, last first.
    ranges: Vec<Range<usize>>,
    text: Bytes,
}

impl Catalog {
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
        let package = crate::load::open(name, group, &text).map(Arc::new);
        if let Some(package) = &package {
            self.recent.put(package, text.len());
        }
        Ok(package)
    }

    #[must_use]
    pub fn documents(&self, filter: &Filter) -> Documents<'_> {
        let bound = || filter.package.as_deref().map_or(Bound::Unbounded, Bound::Included);
        let groups = self.groups.range::<str, _>((bound(), bound()));
        Documents { catalog: self, groups, filter: filter.clone(), ranges: Vec::new(), text: Bytes::new() }
    }

    fn text(&self, package: &str, group: &Group) -> Result<Arc<String>, ContentError> {
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

impl Iterator for Documents<'_> {
    type Item = Result<Bytes, ContentError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(range) = self.ranges.pop() {
                return Some(Ok(self.text.slice(range)));
            }
            let (name, group) = self.groups.next()?;
            let fits =
                |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
            let wanted = group.documents().filter(|(schema, name, _)| {
                fits(&self.filter.schema, schema) && fits(&self.filter.name, name)
            });
            self.ranges = wanted.map(|(_, _, range)| range).collect();
            if self.ranges.is_empty() {
                continue;
            }
            self.ranges.reverse();
            match self.catalog.text(name, group) {
                Ok(text) => self.text = Bytes::from_owner(Text(text)),
                Err(error) => {
                    self.ranges.clear();
                    return Some(Err(error));
                }
            }
        }
    }
}

struct Text(Arc<String>);

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

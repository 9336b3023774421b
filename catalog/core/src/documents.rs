//! The documents of a catalog.

use std::ops::{Bound, Range};
use std::sync::Arc;

use bytes::Bytes;

use crate::catalog::Catalog;
use crate::content::ContentError;
use crate::group::Group;

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
    #[must_use]
    pub fn documents(&self, filter: &Filter) -> Documents<'_> {
        let bound = || filter.package.as_deref().map_or(Bound::Unbounded, Bound::Included);
        let groups = self.groups.range::<str, _>((bound(), bound()));
        Documents { catalog: self, groups, filter: filter.clone(), ranges: Vec::new(), text: Bytes::new() }
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

//! Differences between two catalogs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;
use crate::content::ContentError;
use crate::model::{BundleEntry, Channel, Package};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    Added,
    Removed,
    Changed,
}

/// Kind of the changed object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    Package,
    Channel,
    /// A bundle's entry in a channel, with its edges.
    Entry,
    Bundle,
    /// A deprecation of a package, channel or bundle.
    Deprecation,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Change {
    pub package: String,
    pub subject: Subject,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The affected bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<String>,
    pub action: Action,
    /// The changed part, such as `defaultChannel`, `replaces` or `properties olm.gvk`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The old value, where it is short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// The new value, where it is short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
}

/// All differences, by package; an added or removed package is one change. Packages of equal content are not
/// read.
/// # Errors
/// [`ContentError`] when a package cannot be read.
pub fn diff(old: &Catalog, new: &Catalog) -> Result<Vec<Change>, ContentError> {
    let names: BTreeSet<&str> =
        old.summaries().chain(new.summaries()).map(|summary| summary.name.as_str()).collect();
    let mut changes = Vec::new();
    for name in names {
        let digest = |catalog: &Catalog| catalog.groups.get(name).map(|group| group.digest.clone());
        if digest(old).is_some() && digest(old) == digest(new) {
            continue;
        }
        let (before, after) = (old.package(name)?, new.package(name)?);
        changes.extend(diff_packages(name, before.as_deref(), after.as_deref()));
    }
    Ok(changes)
}

#[must_use]
fn diff_packages(name: &str, old: Option<&Package>, new: Option<&Package>) -> Vec<Change> {
    let mut report = Report { package: name, changes: Vec::new() };
    match (old, new) {
        (None, None) => {}
        (None, Some(_)) => report.push(Subject::Package, Action::Added, |_| {}),
        (Some(_), None) => report.push(Subject::Package, Action::Removed, |_| {}),
        (Some(old), Some(new)) => report.packages(old, new),
    }
    report.changes
}

struct Report<'a> {
    package: &'a str,
    changes: Vec<Change>,
}

impl Report<'_> {
    fn push(&mut self, subject: Subject, action: Action, fill: impl FnOnce(&mut Change)) {
        let mut change = Change {
            package: self.package.to_owned(),
            subject,
            channel: None,
            bundle: None,
            action,
            field: None,
            old: None,
            new: None,
        };
        fill(&mut change);
        self.changes.push(change);
    }

    /// Compares a field with a short text.
    fn field(
        &mut self,
        subject: Subject,
        place: (Option<&str>, Option<&str>),
        field: &str,
        old: Option<&str>,
        new: Option<&str>,
    ) {
        if old != new {
            self.push(subject, Action::Changed, |change| {
                change.channel = place.0.map(str::to_owned);
                change.bundle = place.1.map(str::to_owned);
                change.field = Some(field.to_owned());
                change.old = old.map(str::to_owned);
                change.new = new.map(str::to_owned);
            });
        }
    }

    fn packages(&mut self, old: &Package, new: &Package) {
        let here = (None, None);
        let (before, after) = (Some(old.default_channel.as_str()), Some(new.default_channel.as_str()));
        self.field(Subject::Package, here, "defaultChannel", before, after);
        for (field, same) in
            [("description", old.description == new.description), ("icon", old.icon == new.icon)]
        {
            if !same {
                self.push(Subject::Package, Action::Changed, |change| change.field = Some(field.to_owned()));
            }
        }
        self.deprecation(here, old.deprecated.as_deref(), new.deprecated.as_deref());
        for (name, before, after) in pairs(&old.channels, &new.channels) {
            match (before, after) {
                (Some(before), Some(after)) => self.channels(name, before, after),
                (before, _) => {
                    let action = if before.is_some() { Action::Removed } else { Action::Added };
                    self.push(Subject::Channel, action, |change| change.channel = Some(name.clone()));
                }
            }
        }
        for (name, before, after) in pairs(&old.bundles, &new.bundles) {
            match (before, after) {
                (Some(before), Some(after)) => self.bundles(name, before, after),
                (before, after) => {
                    let action = if before.is_some() { Action::Removed } else { Action::Added };
                    self.push(Subject::Bundle, action, |change| change.bundle = Some(name.clone()));
                    if let Some(reason) = after.and_then(|after| after.deprecated.as_deref()) {
                        self.deprecation((None, Some(name)), None, Some(reason));
                    }
                }
            }
        }
    }

    fn channels(&mut self, name: &str, old: &Channel, new: &Channel) {
        self.deprecation((Some(name), None), old.deprecated.as_deref(), new.deprecated.as_deref());
        let by_name = |channel: &Channel| -> BTreeMap<String, _> {
            channel.entries.iter().map(|entry| (entry.name.clone(), entry.clone())).collect()
        };
        for (bundle, before, after) in pairs(&by_name(old), &by_name(new)) {
            let (Some(before), Some(after)) = (before, after) else {
                let action = if before.is_some() { Action::Removed } else { Action::Added };
                self.push(Subject::Entry, action, |change| {
                    change.channel = Some(name.to_owned());
                    change.bundle = Some(bundle.clone());
                });
                continue;
            };
            let place = (Some(name), Some(bundle.as_str()));
            let edges = [
                ("replaces", &before.replaces, &after.replaces),
                ("skipRange", &before.skip_range, &after.skip_range),
            ];
            for (field, before, after) in edges {
                self.field(Subject::Entry, place, field, before.as_deref(), after.as_deref());
            }
            let set = |skips: &[String]| {
                let names: BTreeSet<&str> = skips.iter().map(String::as_str).collect();
                (!names.is_empty()).then(|| names.into_iter().collect::<Vec<_>>().join(", "))
            };
            let (before, after) = (set(&before.skips), set(&after.skips));
            self.field(Subject::Entry, place, "skips", before.as_deref(), after.as_deref());
        }
    }

    fn bundles(&mut self, name: &str, old: &BundleEntry, new: &BundleEntry) {
        let place = (None, Some(name));
        let version = |bundle: &BundleEntry| bundle.version.as_ref().map(ToString::to_string);
        let (before, after) = (version(old), version(new));
        self.field(Subject::Bundle, place, "version", before.as_deref(), after.as_deref());
        self.field(Subject::Bundle, place, "image", old.image.as_deref(), new.image.as_deref());
        let mut fields = Vec::new();
        if images(old) != images(new) {
            fields.push("relatedImages".to_owned());
        }
        let types = |bundle: &BundleEntry| -> BTreeMap<String, BTreeSet<String>> {
            let mut types: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
            for property in &bundle.properties {
                types.entry(property.type_.clone()).or_default().insert(property.json().to_owned());
            }
            types
        };
        let (before, after) = (types(old), types(new));
        let differing = pairs(&before, &after).filter(|(_, before, after)| before != after);
        fields.extend(differing.map(|(type_, ..)| format!("properties {type_}")));
        for field in fields {
            self.push(Subject::Bundle, Action::Changed, |change| {
                change.bundle = Some(name.to_owned());
                change.field = Some(field);
            });
        }
        self.deprecation(place, old.deprecated.as_deref(), new.deprecated.as_deref());
    }

    fn deprecation(&mut self, place: (Option<&str>, Option<&str>), old: Option<&str>, new: Option<&str>) {
        let action = match (old, new) {
            (None, Some(_)) => Action::Added,
            (Some(_), None) => Action::Removed,
            (old, new) if old != new => Action::Changed,
            _ => return,
        };
        self.push(Subject::Deprecation, action, |change| {
            change.channel = place.0.map(str::to_owned);
            change.bundle = place.1.map(str::to_owned);
            change.old = old.map(str::to_owned);
            change.new = new.map(str::to_owned);
        });
    }
}

fn images(bundle: &BundleEntry) -> BTreeSet<(&str, &str)> {
    bundle.related_images.iter().map(|related| (related.image.as_str(), related.name.as_str())).collect()
}

/// The keys of both maps, with their values.
fn pairs<'a, V>(
    old: &'a BTreeMap<String, V>,
    new: &'a BTreeMap<String, V>,
) -> impl Iterator<Item = (&'a String, Option<&'a V>, Option<&'a V>)> {
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    names.into_iter().map(|name| (name, old.get(name), new.get(name)))
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.action {
            Action::Added => '+',
            Action::Removed => '-',
            Action::Changed => '~',
        };
        write!(f, "{mark} {}", self.package.escape_debug())?;
        for part in [&self.channel, &self.bundle].into_iter().flatten() {
            write!(f, "/{}", part.escape_debug())?;
        }
        let subject = match self.subject {
            Subject::Package => "package",
            Subject::Channel => "channel",
            Subject::Entry => "entry",
            Subject::Bundle => "bundle",
            Subject::Deprecation => "deprecation",
        };
        write!(f, ": {subject}")?;
        if let Some(field) = &self.field {
            write!(f, " {}", field.escape_debug())?;
        }
        let text = |value: &Option<String>| match value {
            Some(text) => text.escape_debug().to_string(),
            None => "none".to_owned(),
        };
        match (&self.old, &self.new) {
            (None, None) => Ok(()),
            (None, Some(_)) if self.action == Action::Added => write!(f, ": {}", text(&self.new)),
            (Some(_), None) if self.action == Action::Removed => write!(f, ": {}", text(&self.old)),
            (old, new) => write!(f, ": {} -> {}", text(old), text(new)),
        }
    }
}

#[cfg(test)]
mod tests;

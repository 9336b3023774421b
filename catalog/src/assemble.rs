//! From documents to packages. What does not fit becomes a problem and is left out; the rest stays.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::check;
use crate::digest;
use crate::document::Place;
use crate::icon;
use crate::model::{
    BundleEntry, Catalog, Channel, ChannelEntry, Package, Property, RelatedImage, StoredDocument,
};
use crate::problem::{Problem, Severity};

/// A document with its place.
#[derive(Debug)]
pub(crate) struct Stored {
    pub place: Place,
    pub document: StoredDocument,
}

/// A catalog in the making.
#[derive(Default)]
pub(crate) struct Assembly {
    pub packages: BTreeMap<String, Package>,
    pub problems: Vec<Problem>,
    /// Where packages, channels and bundles were written: package, kind, name.
    places: BTreeMap<(String, &'static str, String), Place>,
    deprecated: BTreeSet<String>,
}

#[derive(Deserialize)]
struct PackageDoc {
    #[serde(default, rename = "defaultChannel")]
    default_channel: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    icon: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct ChannelDoc {
    #[serde(default)]
    entries: Option<Vec<EntryDoc>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EntryDoc {
    #[serde(default)]
    name: String,
    #[serde(default)]
    replaces: Option<String>,
    #[serde(default)]
    skips: Option<Vec<String>>,
    #[serde(default)]
    skip_range: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BundleDoc<'a> {
    #[serde(default)]
    image: Option<String>,
    #[serde(borrow, default)]
    properties: Option<Vec<PropertyDoc<'a>>>,
    #[serde(default)]
    related_images: Option<Vec<RelatedImage>>,
}

#[derive(Deserialize)]
struct PropertyDoc<'a> {
    #[serde(default, rename = "type")]
    type_: Option<String>,
    #[serde(borrow, default)]
    value: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct DeprecationsDoc {
    #[serde(default)]
    entries: Option<Vec<DeprecationDoc>>,
}

#[derive(Deserialize)]
struct DeprecationDoc {
    #[serde(default)]
    reference: Option<ReferenceDoc>,
    #[serde(default)]
    message: Option<String>,
}

#[derive(Deserialize)]
struct ReferenceDoc {
    #[serde(default)]
    schema: Option<String>,
    #[serde(default)]
    name: Option<String>,
}

impl Assembly {
    /// Makes a catalog of its documents.
    pub fn of(origin: String, stored: Vec<Stored>, problems: Vec<Problem>) -> Catalog {
        let mut assembly = Self { problems, ..Self::default() };
        let of_schema =
            |schema: &'static str| stored.iter().filter(move |stored| stored.document.schema == schema);
        // The order of documents has no meaning, but each kind refers to those before it.
        of_schema("olm.package").for_each(|stored| assembly.package(stored));
        of_schema("olm.channel").for_each(|stored| assembly.channel(stored));
        of_schema("olm.bundle").for_each(|stored| assembly.bundle(stored));
        of_schema("olm.deprecations").for_each(|stored| assembly.deprecations(stored));
        check::packages(&mut assembly);

        let mut documents: Vec<StoredDocument> = stored.into_iter().map(|stored| stored.document).collect();
        documents.sort_by(|a, b| order(a).cmp(&order(b)));
        let digest = digest::of(&documents);
        let Self { packages, mut problems, .. } = assembly;
        problems.sort_by(|a, b| {
            (&a.path, a.line, a.column, a.code, &a.text).cmp(&(&b.path, b.line, b.column, b.code, &b.text))
        });
        Catalog { origin, digest, packages, problems, documents, ..Catalog::default() }
    }

    /// A problem at the place of a package, channel or bundle.
    pub fn report(
        &mut self,
        what: &Subject<'_>,
        severity: Severity,
        code: &'static str,
        text: String,
        fix: &'static str,
    ) {
        let place = self.places.get(&(what.package.to_owned(), what.kind, what.name.to_owned())).cloned();
        self.report_at(&place.unwrap_or_default(), Some(what.package), severity, code, text, fix);
    }

    fn report_at(
        &mut self,
        place: &Place,
        package: Option<&str>,
        severity: Severity,
        code: &'static str,
        text: String,
        fix: &'static str,
    ) {
        let package = package.filter(|name| !name.is_empty()).map(str::to_owned);
        let Place { path, line, column } = place.clone();
        self.problems.push(Problem { severity, path, line, column, package, code, text, fix });
    }

    fn refuse(&mut self, stored: &Stored, code: &'static str, text: String, fix: &'static str) {
        self.report_at(&stored.place, Some(&stored.document.package), Severity::Error, code, text, fix);
    }

    fn parse<'a, T: Deserialize<'a>>(&mut self, stored: &'a Stored) -> Option<T> {
        match serde_json::from_str(&stored.document.json) {
            Ok(parsed) => Some(parsed),
            Err(error) => {
                let text = error.to_string();
                let text = text.split(" at line ").next().unwrap_or_default();
                let StoredDocument { schema, name, .. } = &stored.document;
                let text = format!("{schema} {name:?} does not have the schema's shape: {text}");
                self.refuse(stored, "shape", text, "correct the field; the document is left out until then");
                None
            }
        }
    }

    fn place(&mut self, stored: &Stored, kind: &'static str) {
        let StoredDocument { package, name, .. } = &stored.document;
        self.places.insert((package.clone(), kind, name.clone()), stored.place.clone());
    }

    fn package(&mut self, stored: &Stored) {
        let name = stored.document.name.clone();
        if name.is_empty() {
            return self.refuse(
                stored,
                "package-name-missing",
                "a package has no name".into(),
                "give it a name",
            );
        }
        if self.packages.contains_key(&name) {
            let text = format!("package {name} is defined twice; the first definition counts");
            return self.refuse(stored, "package-duplicate", text, "remove one of the two");
        }
        let Some(doc) = self.parse::<PackageDoc>(stored) else { return };
        self.place(stored, PACKAGE);
        if !check::is_dns_label(&name) {
            let text = format!("package name {name:?} is not made of lower-case letters, digits and \"-\"");
            self.refuse(stored, "package-name-invalid", text, "rename the package");
        }
        let icon = doc.icon.filter(|icon| !icon.is_null()).and_then(|icon| match icon::decode(&icon) {
            Ok((icon, remark)) => {
                if let Some(remark) = remark {
                    self.report_at(
                        &stored.place,
                        Some(&name),
                        Severity::Warning,
                        remark.code,
                        remark.text,
                        "correct the mediatype",
                    );
                }
                Some(icon)
            }
            Err(problem) => {
                let severity =
                    if problem.code == "icon-not-base64" { Severity::Error } else { Severity::Warning };
                let fix = "give a PNG, JPEG, GIF or SVG picture in base64, or leave the icon out";
                self.report_at(&stored.place, Some(&name), severity, problem.code, problem.text, fix);
                None
            }
        });
        let package = Package {
            name: name.clone(),
            default_channel: doc.default_channel.unwrap_or_default(),
            description: doc.description.unwrap_or_default(),
            icon,
            ..Package::default()
        };
        self.packages.insert(name, package);
    }

    fn channel(&mut self, stored: &Stored) {
        let StoredDocument { package, name, .. } = &stored.document;
        let Some(owner) = self.packages.get(package) else {
            let text = format!("channel {name:?} is of package {package:?}, which is not in the catalog");
            return self.refuse(
                stored,
                "channel-package-unknown",
                text,
                "add the olm.package document or correct the name",
            );
        };
        if name.is_empty() {
            let text = format!("package {package} has a channel without a name");
            return self.refuse(stored, "channel-name-missing", text, "give it a name");
        }
        if owner.channels.contains_key(name) {
            let text = format!("channel {name} is defined twice; the first definition counts");
            return self.refuse(
                stored,
                "channel-duplicate",
                text,
                "put all entries into one olm.channel document",
            );
        }
        let Some(doc) = self.parse::<ChannelDoc>(stored) else { return };
        self.place(stored, CHANNEL);
        let mut seen = BTreeSet::new();
        let mut entries = Vec::new();
        for entry in doc.entries.unwrap_or_default() {
            if !seen.insert(entry.name.clone()) {
                let text = format!("channel {name} has entry {:?} twice; the first one counts", entry.name);
                self.refuse(stored, "channel-entry-duplicate", text, "keep one entry with all its edges");
                continue;
            }
            let skips = entry.skips.unwrap_or_default();
            if skips.iter().any(String::is_empty) {
                let text = format!("entry {} of channel {name} skips a bundle without a name", entry.name);
                self.refuse(stored, "skip-empty", text, "remove the empty name from skips");
            }
            entries.push(ChannelEntry {
                name: entry.name,
                replaces: entry.replaces.filter(|name| !name.is_empty()),
                skips: skips.into_iter().filter(|name| !name.is_empty()).collect(),
                skip_range: entry.skip_range.filter(|range| !range.is_empty()),
            });
        }
        let channel = Channel { name: name.clone(), entries, deprecated: None };
        if let Some(owner) = self.packages.get_mut(package) {
            owner.channels.insert(name.clone(), channel);
        }
    }

    fn bundle(&mut self, stored: &Stored) {
        let StoredDocument { package, name, json, .. } = &stored.document;
        let Some(owner) = self.packages.get(package) else {
            let text = match package.as_str() {
                "" => format!("bundle {name:?} does not say which package it is of"),
                _ => format!("bundle {name:?} is of package {package:?}, which is not in the catalog"),
            };
            return self.refuse(
                stored,
                "bundle-package-unknown",
                text,
                "add the olm.package document or correct the name",
            );
        };
        if name.is_empty() {
            let text = format!("package {package} has a bundle without a name");
            return self.refuse(stored, "bundle-name-missing", text, "name it as its ClusterServiceVersion");
        }
        if owner.bundles.contains_key(name) {
            let text = format!("bundle {name} is defined twice; the first definition counts");
            return self.refuse(stored, "bundle-duplicate", text, "remove one of the two");
        }
        let Some(doc) = self.parse::<BundleDoc<'_>>(stored) else { return };
        self.place(stored, BUNDLE);
        let mut properties = Vec::new();
        for property in doc.properties.unwrap_or_default() {
            // A value is a slice of the document's own text: where it is cut out is all there is to keep.
            let value = property.value.map_or("", RawValue::get);
            let range = offset_in(json, value);
            let type_ = property.type_.unwrap_or_default();
            if type_.is_empty() || value.is_empty() {
                let text = format!(
                    "a property of bundle {name} has no {}",
                    if type_.is_empty() { "type" } else { "value" }
                );
                let fix = "give it a type and a value; it is left out until then";
                self.report_at(
                    &stored.place,
                    Some(package),
                    Severity::Warning,
                    "property-incomplete",
                    text,
                    fix,
                );
                continue;
            }
            properties.push(Property::new(type_, Arc::clone(json), range));
        }
        let bundle = BundleEntry {
            name: name.clone(),
            package: package.clone(),
            image: doc.image.filter(|image| !image.is_empty()),
            version: None,
            properties,
            related_images: doc.related_images.unwrap_or_default(),
            deprecated: None,
        };
        let bundle = BundleEntry { version: check::bundle(self, &bundle), ..bundle };
        if let Some(owner) = self.packages.get_mut(package) {
            owner.bundles.insert(name.clone(), bundle);
        }
    }

    fn deprecations(&mut self, stored: &Stored) {
        const FIX: &str = "reference the package (without a name), a channel or a bundle of it, each once";
        let package = &stored.document.package;
        if !self.packages.contains_key(package) {
            let text = format!("deprecations are of package {package:?}, which is not in the catalog");
            return self.refuse(stored, "deprecation-package-unknown", text, "correct the package's name");
        }
        if !self.deprecated.insert(package.clone()) {
            let text = format!("package {package} has deprecations twice; the first document counts");
            return self.refuse(
                stored,
                "deprecations-duplicate",
                text,
                "put all entries into one olm.deprecations document",
            );
        }
        let Some(doc) = self.parse::<DeprecationsDoc>(stored) else { return };
        let mut seen = BTreeSet::new();
        for entry in doc.entries.unwrap_or_default() {
            let (schema, name) = entry.reference.map(|r| (r.schema, r.name)).unwrap_or_default();
            let (schema, name) = (schema.unwrap_or_default(), name.unwrap_or_default());
            let message = entry.message.unwrap_or_default();
            let mut wrong = None;
            if !seen.insert((schema.clone(), name.clone())) {
                wrong = Some(format!("{schema} {name:?} is deprecated twice"));
            } else if let Some(owner) = self.packages.get_mut(package) {
                let slot = match schema.as_str() {
                    "olm.package" if name.is_empty() => Some(&mut owner.deprecated),
                    "olm.channel" => owner.channels.get_mut(&name).map(|channel| &mut channel.deprecated),
                    "olm.bundle" => owner.bundles.get_mut(&name).map(|bundle| &mut bundle.deprecated),
                    _ => None,
                };
                match slot {
                    Some(_) if message.is_empty() => {
                        wrong = Some(format!("the deprecation of {schema} {name:?} has no message"))
                    }
                    Some(slot) => *slot = Some(message),
                    None => {
                        wrong =
                            Some(format!("{schema} {name:?} is deprecated and is not in package {package}"))
                    }
                }
            }
            if let Some(text) = wrong {
                self.refuse(stored, "deprecation-invalid", text, FIX);
            }
        }
    }
}

/// What a problem is about.
pub(crate) struct Subject<'a> {
    pub package: &'a str,
    pub kind: &'static str,
    pub name: &'a str,
}

pub(crate) const PACKAGE: &str = "package";
pub(crate) const CHANNEL: &str = "channel";
pub(crate) const BUNDLE: &str = "bundle";

/// Packages first, then their channels, bundles, deprecations, and whatever else they have.
fn order(document: &StoredDocument) -> (&str, u8, &str, &str, &str) {
    let rank = match document.schema.as_str() {
        "olm.package" => 0,
        "olm.channel" => 1,
        "olm.bundle" => 2,
        "olm.deprecations" => 3,
        _ => 4,
    };
    (&document.package, rank, &document.schema, &document.name, &document.json)
}

/// Where a slice stands in the text that it was cut out of.
fn offset_in(text: &str, slice: &str) -> std::ops::Range<usize> {
    if slice.is_empty() {
        return 0..0;
    }
    let start = slice.as_ptr() as usize - text.as_ptr() as usize;
    start..start + slice.len()
}

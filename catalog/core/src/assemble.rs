//! Assembles a package from its documents. Invalid parts become problems and are left out; the rest stays.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use olm_kube_schema::names::is_dns_label;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::assembly::{Assembly, BUNDLE, CHANNEL, Depth, PACKAGE, Subject};
use crate::check;
use crate::group::Group;
use crate::header::Header;
use crate::icon;
use crate::model::{BundleEntry, Channel, ChannelEntry, Package, Property, RelatedImage};
use crate::problem::{self, Severity};
use crate::shape::{PartialPropertyDoc, PropertyDoc};

/// A document in the canonical text of its package.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    pub header: Header,
    /// Its range in the text.
    pub range: Range<usize>,
    /// Index among the read documents; problems refer to it.
    pub source: usize,
}

#[derive(Deserialize)]
struct PackageDoc {
    #[serde(default, rename = "defaultChannel")]
    default_channel: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    icon: Option<serde_json::Map<String, serde_json::Value>>,
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
struct BundleDoc<P> {
    #[serde(default)]
    image: Option<String>,
    #[serde(default = "none")]
    properties: Option<Vec<P>>,
    #[serde(default)]
    related_images: Option<Vec<RelatedImage>>,
}

/// A type parameter would need a default for serde's own.
fn none<P>() -> Option<Vec<P>> {
    None
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

/// Assembles a package from its documents in canonical order. Content that was checked before is not
/// checked again.
pub(crate) fn assemble(name: &str, text: &Arc<String>, documents: &[Document], depth: Depth) -> Assembly {
    let mut assembly = Assembly {
        name: name.to_owned(),
        package: None,
        problems: Vec::new(),
        text: Arc::clone(text),
        places: BTreeMap::new(),
        deprecated: false,
        depth,
    };
    for document in documents {
        match document.header.schema.as_str() {
            "olm.package" => assembly.package(document),
            "olm.channel" => assembly.channel(document),
            "olm.bundle" => assembly.bundle(document),
            "olm.deprecations" => assembly.deprecations(document),
            _ => {}
        }
    }
    check::check_package(&mut assembly);
    assembly
}

/// A package from its canonical text, which was checked when it was written.
pub(crate) fn open(package: &str, group: &Group, text: &Arc<String>) -> Option<Package> {
    let document = |(schema, name, range): (&str, &str, _)| {
        let header = Header {
            schema: schema.to_owned(),
            package: package.to_owned(),
            name: name.to_owned(),
            is_map: true,
        };
        Document { header, range, source: 0 }
    };
    let documents: Vec<Document> = group.documents().map(document).collect();
    assemble(package, text, &documents, Depth::Open).package
}

impl Assembly {
    fn refuse(&mut self, document: &Document, code: &'static str, text: String, fix: &'static str) {
        self.report_at(document, Severity::Error, code, text, fix);
    }

    fn report_at(
        &mut self,
        document: &Document,
        severity: Severity,
        code: &'static str,
        text: String,
        fix: &'static str,
    ) {
        let Header { schema, name, .. } = &document.header;
        let kind = match schema.as_str() {
            "olm.channel" => CHANNEL,
            "olm.bundle" => BUNDLE,
            _ => PACKAGE,
        };
        let what = (severity, code, text, fix);
        self.report_in(&Subject::new(kind, name), Some(document.source), None, what);
    }

    /// Reports a duplicate definition.
    fn twice(&mut self, document: &Document, kind: &'static str, code: &'static str, fix: &'static str) {
        let name = &document.header.name;
        let other = self.places.get(&(kind, name.clone())).copied();
        let text = format!("{kind} {name} is defined twice; the other definition is used");
        let what = (Severity::Error, code, text, fix);
        self.report_in(&Subject::new(kind, name), Some(document.source), other, what);
    }

    fn parse<'a, T: Deserialize<'a>>(&mut self, document: &Document, text: &'a str) -> Option<T> {
        match serde_json::from_str(&text[document.range.clone()]) {
            Ok(parsed) => Some(parsed),
            Err(error) => {
                let text = error.to_string();
                let text = text.split(" at line ").next().unwrap_or_default();
                let Header { schema, name, .. } = &document.header;
                let text = format!("{schema} {name:?} does not match its schema: {text}");
                self.refuse(document, "shape", text, "correct the field; until then the document is omitted");
                None
            }
        }
    }

    fn place(&mut self, kind: &'static str, document: &Document) {
        self.places.insert((kind, document.header.name.clone()), document.source);
    }

    fn package(&mut self, document: &Document) {
        const FIX: &str = "remove one of the two";
        let name = document.header.name.clone();
        if name.is_empty() {
            let fix = "set its name";
            return self.refuse(document, "package-name-missing", "package without a name".into(), fix);
        }
        if self.places.contains_key(&(PACKAGE, name.clone())) {
            return self.twice(document, PACKAGE, "package-duplicate", FIX);
        }
        let text = Arc::clone(&self.text);
        let Some(doc) = self.parse::<PackageDoc>(document, &text) else { return };
        self.place(PACKAGE, document);
        if !is_dns_label(&name) {
            let text =
                format!("invalid package name {name:?}, expected lower-case letters, digits and \"-\"");
            self.refuse(document, "package-name-invalid", text, "rename the package");
        }
        let icon = doc.icon.and_then(|icon| self.icon(document, &serde_json::Value::Object(icon)));
        self.package = Some(Package {
            name,
            default_channel: doc.default_channel.unwrap_or_default(),
            description: doc.description.unwrap_or_default(),
            icon,
            ..Package::default()
        });
    }

    fn icon(&mut self, document: &Document, icon: &serde_json::Value) -> Option<icon::Icon> {
        const FIX: &str = "provide a PNG, JPEG, GIF, SVG or ICO image in base64, or remove the icon";
        match icon::decode(icon) {
            Ok((icon, warning)) => {
                if let Some(warning) = warning {
                    let fix = "correct the mediatype";
                    self.report_at(document, Severity::Warning, warning.code, warning.text, fix);
                }
                Some(icon)
            }
            Err(problem) => {
                let severity =
                    if problem.code == "icon-not-base64" { Severity::Error } else { Severity::Warning };
                self.report_at(document, severity, problem.code, problem.text, FIX);
                None
            }
        }
    }

    fn channel(&mut self, document: &Document) {
        let Header { package, name, .. } = &document.header;
        if self.package.is_none() {
            let text = format!("channel {name:?} references package {package:?}, missing from the catalog");
            let fix = "add the olm.package document or correct the name";
            return self.refuse(document, "channel-package-unknown", text, fix);
        }
        if name.is_empty() {
            let text = format!("package {package} has a channel without a name");
            return self.refuse(document, "channel-name-missing", text, "set its name");
        }
        if self.places.contains_key(&(CHANNEL, name.clone())) {
            let fix = "merge all entries into one olm.channel document";
            return self.twice(document, CHANNEL, "channel-duplicate", fix);
        }
        let text = Arc::clone(&self.text);
        let Some(doc) = self.parse::<ChannelDoc>(document, &text) else { return };
        self.place(CHANNEL, document);
        let mut seen = BTreeSet::new();
        let mut entries = Vec::new();
        for entry in doc.entries.unwrap_or_default() {
            if !seen.insert(entry.name.clone()) {
                let text =
                    format!("channel {name} has entry {:?} twice; the first entry is used", entry.name);
                let fix = "merge them into one entry with all edges";
                self.refuse(document, "channel-entry-duplicate", text, fix);
                continue;
            }
            if entry.name.is_empty() {
                let text = format!("channel {name} has an entry without a name");
                let fix = "set the bundle name; until then the entry is omitted";
                self.refuse(document, "entry-name-missing", text, fix);
                continue;
            }
            let skips = entry.skips.unwrap_or_default();
            if skips.iter().any(String::is_empty) {
                let text = format!("entry {} of channel {name} skips a bundle without a name", entry.name);
                self.refuse(document, "skip-empty", text, "remove the empty name from skips");
            }
            entries.push(ChannelEntry {
                name: entry.name,
                replaces: entry.replaces.filter(|name| !name.is_empty()),
                skips: skips.into_iter().filter(|name| !name.is_empty()).collect(),
                skip_range: entry.skip_range.filter(|range| !range.is_empty()),
            });
        }
        let channel = Channel { name: name.clone(), entries, deprecated: None };
        if let Some(owner) = &mut self.package {
            owner.channels.insert(name.clone(), channel);
        }
    }

    fn bundle(&mut self, document: &Document) {
        let Header { package, name, .. } = &document.header;
        if self.package.is_none() {
            let text = match package.as_str() {
                "" => format!("bundle {name:?} has no package"),
                _ => format!("bundle {name:?} references package {package:?}, missing from the catalog"),
            };
            let fix = "add the olm.package document or correct the name";
            return self.refuse(document, "bundle-package-unknown", text, fix);
        }
        if name.is_empty() {
            let text = format!("package {package} has a bundle without a name");
            let fix = "set its name to that of its ClusterServiceVersion";
            return self.refuse(document, "bundle-name-missing", text, fix);
        }
        if self.places.contains_key(&(BUNDLE, name.clone())) {
            return self.twice(document, BUNDLE, "bundle-duplicate", "remove one of the two");
        }
        let text = Arc::clone(&self.text);
        let glanced = match self.depth {
            Depth::Glance => {
                serde_json::from_str::<BundleDoc<PartialPropertyDoc<'_>>>(&text[document.range.clone()]).ok()
            }
            Depth::Open | Depth::Check => None,
        };
        let doc = match glanced {
            Some(BundleDoc { image, properties, related_images }) => {
                let properties =
                    properties.map(|list| list.into_iter().filter_map(|glanced| glanced.0).collect());
                Some(BundleDoc { image, properties, related_images })
            }
            // Also where a glance found a mistake: a full parse identifies it.
            None => self.parse::<BundleDoc<PropertyDoc<'_>>>(document, &text),
        };
        let Some(doc) = doc else { return };
        self.place(BUNDLE, document);
        let mut properties = Vec::new();
        for property in doc.properties.unwrap_or_default() {
            // A value is a slice of the package's own text: only its range is stored.
            let value = property.value.map_or("", RawValue::get);
            let type_ = property.type_.unwrap_or_default();
            if !type_.is_empty() && !value.is_empty() {
                properties.push(Property::new(type_, Arc::clone(&text), range_in(&text, value)));
                continue;
            }
            // `opm validate` accepts a property without a type, and rejects one without a value.
            let (missing, severity) = match type_.is_empty() {
                true => ("type", Severity::Warning),
                false => ("value", Severity::Error),
            };
            let short = problem::shown_name(name).unwrap_or_default();
            let text = format!("a property of bundle {short} has no {missing}");
            let fix = "set its type and value; until then the property is omitted";
            self.report_at(document, severity, "property-incomplete", text, fix);
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
        let bundle = BundleEntry { version: check::check_bundle(self, &bundle), ..bundle };
        if let Some(owner) = &mut self.package {
            owner.bundles.insert(name.clone(), bundle);
        }
    }

    fn deprecations(&mut self, document: &Document) {
        const FIX: &str = "reference the package (without a name), a channel or a bundle of the package, \
         each at most once";
        let package = &document.header.package;
        if self.package.is_none() {
            let text = format!("deprecations reference package {package:?}, missing from the catalog");
            return self.refuse(document, "deprecation-package-unknown", text, "correct the package's name");
        }
        if self.deprecated {
            let text = format!("package {package} has two olm.deprecations documents; the first one is used");
            let fix = "merge all entries into one olm.deprecations document";
            return self.refuse(document, "deprecations-duplicate", text, fix);
        }
        self.deprecated = true;
        let text = Arc::clone(&self.text);
        let Some(doc) = self.parse::<DeprecationsDoc>(document, &text) else { return };
        let mut seen = BTreeSet::new();
        for entry in doc.entries.unwrap_or_default() {
            let (schema, name) = entry.reference.map(|r| (r.schema, r.name)).unwrap_or_default();
            let (schema, name) = (schema.unwrap_or_default(), name.unwrap_or_default());
            let message = entry.message.unwrap_or_default();
            let mut wrong = None;
            if !seen.insert((schema.clone(), name.clone())) {
                wrong = Some(format!("{schema} {name:?} is deprecated twice"));
            } else if let Some(owner) = &mut self.package {
                let slot = match schema.as_str() {
                    "olm.package" if name.is_empty() => Some(&mut owner.deprecated),
                    "olm.channel" => owner.channels.get_mut(&name).map(|channel| &mut channel.deprecated),
                    "olm.bundle" => owner.bundles.get_mut(&name).map(|bundle| &mut bundle.deprecated),
                    _ => None,
                };
                match slot {
                    Some(_) if message.is_empty() => {
                        wrong = Some(format!("the deprecation of {schema} {name:?} has no message"));
                    }
                    Some(slot) => *slot = Some(message),
                    None => {
                        wrong = Some(format!("deprecated {schema} {name:?} is not in package {package}"));
                    }
                }
            }
            if let Some(text) = wrong {
                self.refuse(document, "deprecation-invalid", text, FIX);
            }
        }
    }
}

/// Sort order: packages, then their channels, bundles, deprecations, and all others.
pub(crate) fn order<'a>(header: &'a Header, json: &'a str) -> (u8, &'a str, &'a str, &'a str) {
    let rank = match header.schema.as_str() {
        "olm.package" => 0,
        "olm.channel" => 1,
        "olm.bundle" => 2,
        "olm.deprecations" => 3,
        _ => 4,
    };
    (rank, &header.schema, &header.name, json)
}

/// The range of a slice within its text.
fn range_in(text: &str, slice: &str) -> Range<usize> {
    if slice.is_empty() {
        return 0..0;
    }
    let start = slice.as_ptr() as usize - text.as_ptr() as usize;
    start..start + slice.len()
}

//! `olm.semver`: channels generated from versions.

use std::collections::{BTreeMap, BTreeSet};

use olm_bundle::fields::Shape;
use olm_version::{Version, precedence};
use serde_json::{Value, json};

use super::bundle::{BundleResolver, Identity, Resolved, resolve};
use super::document::{list, text};
use super::error::TemplateError;

/// The lists of a template, from the least to the most mature.
const LISTS: [&str; 3] = ["candidate", "fast", "stable"];

pub(super) static SHAPE: Shape = Shape(&[
    ("schema", None),
    ("generateMajorChannels", None),
    ("generateMinorChannels", None),
    ("defaultChannelTypePreference", None),
    ("candidate", Some(&BUNDLES)),
    ("fast", Some(&BUNDLES)),
    ("stable", Some(&BUNDLES)),
]);
static BUNDLES: Shape = Shape(&[("bundles", Some(&IMAGE))]);
static IMAGE: Shape = Shape(&[("image", None)]);

/// The two kinds of channels; the greater one is preferred where nothing else decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// `stable-v1`
    Major,
    /// `stable-v1.2`
    Minor,
}

/// A consistent template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template {
    pub major: bool,
    pub minor: bool,
    pub preference: Kind,
    /// The images of each of [`LISTS`].
    pub lists: [Vec<String>; 3],
}

impl Template {
    pub fn parse(template: Value) -> Result<Self, TemplateError> {
        let fields = template.as_object().into_iter().flatten();
        for (key, _) in fields {
            if !SHAPE.0.iter().any(|(name, _)| name == key) {
                return Err(TemplateError::UnknownField(key.clone()));
            }
        }
        let flag = |key: &'static str| match template.get(key) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(TemplateError::Shape { field: key.to_owned(), wanted: "true or false" }),
        };
        let (major, mut minor) = (flag("generateMajorChannels")?, flag("generateMinorChannels")?);
        // At least one kind of channels is generated.
        minor |= !major;
        let preference = match text(&template, "defaultChannelTypePreference") {
            "" if minor => Kind::Minor,
            "" => Kind::Major,
            "minor" if minor => Kind::Minor,
            "major" if major => Kind::Major,
            "minor" => {
                return Err(TemplateError::Mismatch {
                    preference: "minor",
                    missing: "generateMinorChannels",
                });
            }
            "major" => {
                return Err(TemplateError::Mismatch {
                    preference: "major",
                    missing: "generateMajorChannels",
                });
            }
            other => return Err(TemplateError::UnknownPreference(other.to_owned())),
        };
        let mut lists: [Vec<String>; 3] = Default::default();
        for (name, images) in LISTS.into_iter().zip(&mut lists) {
            *images = bundles(template.get(name), name)?;
        }
        Ok(Self { major, minor, preference, lists })
    }

    pub fn references(&self) -> Vec<String> {
        self.lists.iter().flatten().cloned().collect()
    }

    pub fn render(&self, resolver: &dyn BundleResolver) -> Result<Vec<Value>, TemplateError> {
        let mut resolved: BTreeMap<&str, (Resolved, Identity)> = BTreeMap::new();
        for image in self.lists.iter().flatten() {
            if !resolved.contains_key(image.as_str()) {
                let bundle = resolve(resolver, image)?;
                let identity = Identity::of(&bundle.document)?;
                resolved.insert(image, (bundle, identity));
            }
        }
        let package = self.package(&resolved)?;
        let mut lists: [Vec<&Identity>; 3] = Default::default();
        for ((name, images), list) in LISTS.into_iter().zip(&self.lists).zip(&mut lists) {
            *list =
                by_version(name, images.iter().filter_map(|image| Some(&resolved.get(image.as_str())?.1)))?;
        }
        let Channels { channels, default } = self.channels(&lists);

        let mut head = json!({"schema": "olm.package", "name": package, "defaultChannel": default});
        let entry = channels.get(&default).and_then(|entries| entries.last());
        let newest = entry.and_then(|entry| resolved.values().find(|(_, bundle)| bundle.name == entry.name));
        if let Some((bundle, _)) = newest {
            if !bundle.description.is_empty() {
                head["description"] = bundle.description.as_str().into();
            }
            if let Some(icon) = &bundle.icon {
                head["icon"] = icon.clone();
            }
        }
        let mut documents = vec![head];
        documents.extend(channels.iter().map(|(name, entries)| {
            let entries: Vec<Value> = entries.iter().map(Entry::document).collect();
            json!({"schema": "olm.channel", "package": package, "name": name, "entries": entries})
        }));
        let mut bundles: Vec<(Resolved, Identity)> = resolved.into_values().collect();
        bundles.sort_by(|(_, a), (_, b)| a.version.cmp(&b.version).then_with(|| a.name.cmp(&b.name)));
        // Two references may resolve to one bundle.
        bundles.dedup_by(|(_, a), (_, b)| a.name == b.name);
        documents.extend(bundles.into_iter().map(|(bundle, _)| bundle.document));
        Ok(documents)
    }

    fn package<'a>(
        &self,
        resolved: &'a BTreeMap<&str, (Resolved, Identity)>,
    ) -> Result<&'a str, TemplateError> {
        let mut package: Option<&str> = None;
        for image in self.lists.iter().flatten() {
            let Some((_, bundle)) = resolved.get(image.as_str()) else { continue };
            match package {
                Some(expected) if expected != bundle.package => {
                    return Err(TemplateError::Package {
                        name: bundle.name.clone(),
                        package: bundle.package.clone(),
                        expected: expected.to_owned(),
                    });
                }
                _ => package = Some(&bundle.package),
            }
        }
        package.ok_or(TemplateError::NoBundles)
    }

    /// The channels of bundles that are sorted by version.
    pub(super) fn channels(&self, lists: &[Vec<&Identity>; 3]) -> Channels {
        let mut made = Channels::default();
        let mut best: Option<(usize, &Version, bool, Kind)> = None;
        for (maturity, (list, bundles)) in LISTS.into_iter().zip(lists).enumerate() {
            for kind in [Kind::Major, Kind::Minor] {
                if !(if kind == Kind::Major { self.major } else { self.minor }) {
                    continue;
                }
                for major in bundles.chunk_by(|a, b| a.version.major == b.version.major) {
                    for (bundle, entry) in major.iter().zip(linked(major)) {
                        let Version { major, minor, .. } = bundle.version;
                        let name = match kind {
                            Kind::Major => format!("{list}-v{major}"),
                            Kind::Minor => format!("{list}-v{major}.{minor}"),
                        };
                        let channel = made.channels.entry(name.clone()).or_insert_with(|| {
                            // As upstream: channels are compared by their first version.
                            let rank = (maturity, &bundle.version, kind == self.preference, kind);
                            if best.is_none_or(|best| above(&rank, &best)) {
                                best = Some(rank);
                                made.default = name;
                            }
                            Vec::new()
                        });
                        channel.push(entry);
                    }
                }
            }
        }
        made
    }
}

#[derive(Debug, Default)]
pub(super) struct Channels {
    pub channels: BTreeMap<String, Vec<Entry>>,
    pub default: String,
}

/// A bundle's entry in a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub name: String,
    pub replaces: Option<String>,
    pub skips: Vec<String>,
}

impl Entry {
    fn document(&self) -> Value {
        let mut entry = json!({"name": self.name});
        if let Some(replaces) = &self.replaces {
            entry["replaces"] = replaces.as_str().into();
        }
        if !self.skips.is_empty() {
            entry["skips"] = json!(self.skips);
        }
        entry
    }
}

/// The entries of one major version, sorted by version. Only the last one of each minor version has edges: it
/// replaces the last one of the minor version before it and skips everything else below it.
fn linked(bundles: &[&Identity]) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut previous: Option<&str> = None;
    let mut below: BTreeSet<&str> = BTreeSet::new();
    for patches in bundles.chunk_by(|a, b| a.version.minor == b.version.minor) {
        for (index, bundle) in patches.iter().enumerate() {
            let last = index + 1 == patches.len();
            let replaces = previous.filter(|_| last).map(str::to_owned);
            let skipped = below.iter().filter(|name| last && Some(**name) != previous);
            let skips = skipped.map(|name| (*name).to_owned()).collect();
            entries.push(Entry { name: bundle.name.clone(), replaces, skips });
            below.insert(&bundle.name);
        }
        previous = patches.last().map(|bundle| bundle.name.as_str());
    }
    entries
}

/// Maturity decides, then the version, then the preferred kind, then the finer one.
fn above(left: &(usize, &Version, bool, Kind), right: &(usize, &Version, bool, Kind)) -> bool {
    let order = left.0.cmp(&right.0).then_with(|| precedence(left.1, right.1));
    order.then_with(|| (left.2, left.3).cmp(&(right.2, right.3))).is_gt()
}

fn by_version<'a>(
    list: &'static str,
    bundles: impl Iterator<Item = &'a Identity>,
) -> Result<Vec<&'a Identity>, TemplateError> {
    let mut sorted: Vec<&Identity> = Vec::new();
    for bundle in bundles {
        if sorted.iter().any(|other| other.name == bundle.name) {
            return Err(TemplateError::Duplicate { name: bundle.name.clone(), list });
        }
        sorted.push(bundle);
    }
    sorted.sort_by(|a, b| precedence(&a.version, &b.version));
    match sorted.windows(2).find(|pair| precedence(&pair[0].version, &pair[1].version).is_eq()) {
        Some(pair) => Err(TemplateError::Unordered(pair[0].name.clone(), pair[1].name.clone())),
        None => Ok(sorted),
    }
}

/// The images of `candidate`, `fast` or `stable`.
fn bundles(section: Option<&Value>, name: &'static str) -> Result<Vec<String>, TemplateError> {
    let Some(section) = section.filter(|section| !section.is_null()) else { return Ok(Vec::new()) };
    let shape = |field: &str, wanted| TemplateError::Shape { field: format!("{name}{field}"), wanted };
    let fields = section.as_object().ok_or_else(|| shape("", "a map with `bundles`"))?;
    if let Some(unknown) = fields.keys().find(|key| *key != "bundles") {
        return Err(TemplateError::UnknownField(format!("{name}.{unknown}")));
    }
    let mut images = Vec::new();
    for entry in list(section, "bundles")? {
        let fields = entry.as_object().ok_or_else(|| shape(".bundles[]", "a map with `image`"))?;
        if let Some(unknown) = fields.keys().find(|key| *key != "image") {
            return Err(TemplateError::UnknownField(format!("{name}.bundles[].{unknown}")));
        }
        match text(entry, "image") {
            "" => return Err(shape(".bundles[].image", "an image reference")),
            image => images.push(image.to_owned()),
        }
    }
    Ok(images)
}

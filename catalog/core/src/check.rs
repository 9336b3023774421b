//! Rules for a catalog beyond the shape of its documents.

use std::collections::{BTreeMap, BTreeSet};

use olm_bundle::{Gvk, PackageRequirement, image_reference};
use olm_constraint::{Constraint, Problem as ConstraintProblem};
use olm_version::{Prerelease, Range, Version, precedence};
use serde::Deserialize;

use crate::assembly::{Assembly, BUNDLE, CHANNEL, PACKAGE, Subject};
use crate::icon;
use crate::index::Disorder;
use crate::model::{BundleEntry, Channel, Package};
use crate::problem::{
    self,
    Severity::{self, Error, Warning},
};
use crate::shape::{MetadataShape, ObjectShape};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PackageProperty {
    package_name: String,
    version: String,
    /// The release, which distinguishes packagings of one version.
    #[serde(default)]
    release: Option<String>,
}

/// A defect of a bundle.
struct Defect {
    severity: Severity,
    code: &'static str,
    /// The field of the document, where it is known.
    field: Option<&'static str>,
    text: String,
    fix: &'static str,
}

impl Defect {
    fn error(code: &'static str, field: Option<&'static str>, text: String, fix: &'static str) -> Self {
        Self { severity: Error, code, field, text, fix }
    }

    fn warning(code: &'static str, field: &'static str, text: String, fix: &'static str) -> Self {
        Self { severity: Warning, code, field: Some(field), text, fix }
    }
}

/// The property with package, version and release of a bundle.
const PACKAGE_PROPERTY: &str = "properties[olm.package]";

/// Determines the version of a bundle, and checks the bundle alone.
pub(crate) fn check_bundle(assembly: &mut Assembly, bundle: &BundleEntry) -> Option<Version> {
    if !assembly.checks() {
        let property = bundle.property("olm.package")?.parse::<PackageProperty>().ok()?;
        return Version::parse(&property.version).ok();
    }
    let name = &problem::shown_name(&bundle.name).unwrap_or_default();
    let mut defects = Vec::new();
    let mut error = |code, field, text: String, fix| {
        // One beyond the limit: the assembly then reports that further problems are not listed.
        if defects.len() <= problem::LISTED {
            defects.push(Defect::error(code, field, text, fix));
        }
    };
    let mut release_defect = None;

    for property in &bundle.properties {
        let broken = match property.type_.as_str() {
            "olm.package" => property.parse::<PackageProperty>().err(),
            "olm.gvk" | "olm.gvk.required" => property.parse::<Gvk>().err(),
            "olm.package.required" => property.parse::<PackageRequirement>().err(),
            "olm.csv.metadata" => property.parse::<MetadataShape>().err(),
            "olm.bundle.object" => property.parse::<ObjectShape>().err(),
            _ => None,
        };
        if let Some(reason) = broken {
            let reason = reason.to_string();
            let reason = reason.split(" at line ").next().unwrap_or_default();
            let text = format!("failed to parse property {} of bundle {name}: {reason}", property.type_);
            error(
                "property-invalid",
                Some("properties"),
                text,
                "correct the value; until then it is ignored",
            );
        }
    }

    let mut version = None;
    let packages: Vec<_> = bundle.properties_of("olm.package").collect();
    if packages.len() != 1 {
        let text = format!("bundle {name} has {} olm.package properties, expected 1", packages.len());
        let fix = "set exactly one, with packageName and version";
        error("bundle-package-property", Some(PACKAGE_PROPERTY), text, fix);
    }
    if let Some(property) = packages.first().and_then(|property| property.parse::<PackageProperty>().ok()) {
        if property.package_name != bundle.package {
            let text = format!(
                "bundle {name} belongs to package {}, but its olm.package property names {:?}",
                bundle.package, property.package_name
            );
            let fix = "use the same package name in both";
            error("bundle-package-mismatch", Some(PACKAGE_PROPERTY), text, fix);
        }
        match Version::parse(&property.version) {
            Ok(parsed) => {
                release_defect = check_release(bundle, &parsed, &property);
                version = Some(parsed);
            }
            Err(reason) => {
                let text = format!(
                    "version {:?} of bundle {name} is not a semantic version: {reason}",
                    property.version
                );
                let fix = "use MAJOR.MINOR.PATCH without a leading \"v\"";
                error("bundle-version", Some(PACKAGE_PROPERTY), text, fix);
            }
        }
    }
    match &bundle.image {
        None if !bundle.is_inline() => {
            let text = format!("bundle {name} has neither an image nor inline manifests");
            let fix = "set image, or add olm.bundle.object properties";
            error("bundle-image-missing", Some("image"), text, fix);
        }
        Some(image) => {
            if let Err(why) = image_reference(image) {
                let text = format!("image {image:?} of bundle {name}: {why}");
                error("image-invalid", None, text, IMAGE_FIX);
            }
        }
        None => {}
    }
    for image in bundle.related_images.iter().map(|related| &related.image).filter(|image| !image.is_empty())
    {
        if let Err(why) = image_reference(image) {
            let text = format!("related image {image:?} of bundle {name}: {why}");
            error("image-invalid", None, text, IMAGE_FIX);
        }
    }
    defects.extend(release_defect);
    defects.extend(warnings(bundle));

    for Defect { severity, code, field, text, fix } in defects {
        let subject = Subject { field, ..Subject::new(BUNDLE, &bundle.name) };
        assembly.report(&subject, severity, code, text, fix);
    }
    version
}

const IMAGE_FIX: &str = "use HOST/NAME:TAG or HOST/NAME@sha256:DIGEST, without a scheme";

/// Defects that `opm validate` accepts, although mirroring fails on them or the bundle is not installable.
fn warnings(bundle: &BundleEntry) -> Vec<Defect> {
    let name = &bundle.name;
    let mut warnings = Vec::new();
    if bundle.related_images.iter().any(|related| related.image.is_empty()) {
        let text = format!("bundle {name} has a related image without a reference");
        let fix = "remove it; mirroring fails on it";
        warnings.push(Defect::warning("related-image-empty", "relatedImages", text, fix));
    }
    for requirement in bundle.required_packages() {
        if let Err(error) = Range::parse(&requirement.version_range) {
            let text = format!(
                "bundle {name} requires {} in {:?}: {error}",
                requirement.package_name, requirement.version_range
            );
            let fix = "correct the range; until then the requirement is unsatisfiable";
            let field = "properties[olm.package.required]";
            warnings.push(Defect::warning("requirement-range", field, text, fix));
        }
    }
    for property in bundle.properties_of("olm.constraint") {
        let Err(error) = Constraint::parse(&property.value()) else { continue };
        let text = format!("invalid olm.constraint of bundle {name}: {error}");
        let code = match error.problem {
            ConstraintProblem::UnknownField { .. } => "constraint-key",
            _ => "constraint-invalid",
        };
        let fix = "correct it; until then the bundle is not installable";
        warnings.push(Defect::warning(code, "properties[olm.constraint]", text, fix));
    }
    warnings
}

/// The rules for a bundle with a release: it is part of the bundle's name, so that each release is a separate
/// bundle.
fn check_release(bundle: &BundleEntry, version: &Version, property: &PackageProperty) -> Option<Defect> {
    let release = property.release.as_deref().filter(|release| !release.is_empty())?;
    let name = &bundle.name;
    let defect = |code, text, fix| Some(Defect::error(code, Some(PACKAGE_PROPERTY), text, fix));
    if let Err(reason) = Prerelease::new(release) {
        let text =
            format!("invalid release {release:?} of bundle {name}, expected a list of identifiers: {reason}");
        let fix = "use numbers without leading zeros and words, separated by dots";
        return defect("bundle-release", text, fix);
    }
    if !version.build.is_empty() {
        let text = format!("bundle {name} has a release and a version with build metadata ({version})");
        return defect("bundle-release-build-metadata", text, "remove one of them");
    }
    let expected = format!("{}-v{version}-{release}", bundle.package);
    if *name == expected {
        return None;
    }
    let text = format!("bundle {name} with release {release} is not named {expected}");
    defect("bundle-release-name", text, "name it PACKAGE-vVERSION-RELEASE")
}

/// Checks the consistency of a package, and drops it when nothing in it can be installed.
pub(crate) fn check_package(assembly: &mut Assembly) {
    let Some(mut package) = assembly.package.take() else { return };
    if assembly.checks() {
        membership(assembly, &package);
        versions(assembly, &package);
        for channel in package.channels.values() {
            channel_graph(assembly, channel);
            skip_ranges(assembly, &package, channel);
        }
    }
    if default_channel(assembly, &mut package) {
        if package.icon.is_none() {
            package.icon = inline_icon(&package);
        }
        assembly.package = Some(package);
    }
}

/// Selects a default channel where the package has none; false without any channel.
fn default_channel(assembly: &mut Assembly, package: &mut Package) -> bool {
    let name = package.name.clone();
    let subject = Subject { field: Some("defaultChannel"), ..Subject::new(PACKAGE, &name) };
    let Some(first) = package.channels.keys().next().cloned() else {
        let text = format!("package {} has no channel and is omitted", package.name);
        assembly.report(&subject, Error, "package-no-channels", text, "add an olm.channel document");
        return false;
    };
    let (code, text) = match package.default_channel.as_str() {
        "" => (
            "default-channel-missing",
            format!("package {} has no default channel; using {first}", package.name),
        ),
        name if !package.channels.contains_key(name) => {
            let nearest = olm_version::suggest(name, package.channels.keys(), 1);
            let hint = nearest.first().map(|near| format!(" (did you mean {near}?)")).unwrap_or_default();
            let text = format!(
                "default channel {name} of package {} does not exist{hint}; using {first}",
                package.name
            );
            ("default-channel-unknown", text)
        }
        _ => return true,
    };
    assembly.report(&subject, Error, code, text, "set defaultChannel to a channel of the package");
    package.default_channel = first;
    true
}

/// Every entry of a channel has a bundle, and every bundle is an entry of at least one channel.
fn membership(assembly: &mut Assembly, package: &Package) {
    let mut listed = BTreeSet::new();
    for channel in package.channels.values() {
        listed.extend(channel.entries.iter().map(|entry| entry.name.as_str()));
        let missing: Vec<&str> = channel
            .entries
            .iter()
            .map(|entry| entry.name.as_str())
            .filter(|name| !package.bundles.contains_key(*name))
            .collect();
        if !missing.is_empty() {
            let text =
                format!("channel {} has entries without a bundle: {}", channel.name, missing.join(", "));
            let subject = Subject { field: Some("entries"), ..Subject::new(CHANNEL, &channel.name) };
            let fix = "add the olm.bundle documents or remove the entries";
            assembly.report(&subject, Error, "channel-entry-no-bundle", text, fix);
        }
    }
    for bundle in package.bundles.keys().filter(|name| !listed.contains(name.as_str())) {
        let text = format!("bundle {bundle} is in no channel and not installable");
        let subject = Subject::new(BUNDLE, bundle);
        assembly.report(&subject, Error, "bundle-in-no-channel", text, "add it to the entries of a channel");
    }
}

/// Two bundles of one version are ambiguous. Here build metadata counts, as upstream.
fn versions(assembly: &mut Assembly, package: &Package) {
    let mut by_version: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for bundle in package.bundles.values() {
        if let Some(version) = &bundle.version {
            let release = bundle.property("olm.package").map(|property| property.value());
            let release = release.as_ref().and_then(|value| value.get("release")?.as_str());
            let key =
                release.map_or_else(|| version.to_string(), |release| format!("{version} release {release}"));
            by_version.entry(key).or_default().push(&bundle.name);
        }
    }
    for (version, bundles) in by_version.into_iter().filter(|(_, bundles)| bundles.len() > 1) {
        let text = format!("several bundles have version {version}: {}", bundles.join(", "));
        let subject =
            Subject { field: Some("properties[olm.package].version"), ..Subject::new(BUNDLE, bundles[1]) };
        assembly.report(&subject, Error, "version-duplicate", text, "set a unique version for each bundle");
    }
}

fn channel_graph(assembly: &mut Assembly, channel: &Channel) {
    let name = &channel.name;
    let subject = Subject { field: Some("entries"), ..Subject::new(CHANNEL, name) };
    let problem = channel.disorder().map(|disorder| match disorder {
        Disorder::Empty => {
            ("channel-empty", format!("channel {name} has no entries"), "add entries or remove the channel")
        }
        Disorder::NoHead => (
            "channel-no-head",
            format!("channel {name} has no head: every entry is replaced or skipped by another"),
            "remove the replaces or skips of the cycle",
        ),
        Disorder::SeveralHeads(heads) => (
            "channel-several-heads",
            format!("channel {name} has several heads: {}", heads.join(", ")),
            "replace or skip the others with one of them",
        ),
        Disorder::Cycle(cycle) => (
            "channel-cycle",
            format!("replaces of channel {name} form a cycle: {}", cycle.join(" -> ")),
            "remove one replaces of the cycle",
        ),
        Disorder::Stranded(stranded) => (
            "channel-stranded",
            format!(
                "entries of channel {name} are neither on the replaces chain of its head nor skipped: {}",
                stranded.join(", ")
            ),
            "replace or skip them with an entry of the chain",
        ),
    });
    if let Some((code, text, fix)) = problem {
        assembly.report(&subject, Error, code, text, fix);
    }
}

/// Ranges that do not parse, have an unintended meaning, or include newer entries.
fn skip_ranges(assembly: &mut Assembly, package: &Package, channel: &Channel) {
    let name = &channel.name;
    for entry in &channel.entries {
        let Some(source) = &entry.skip_range else { continue };
        let subject =
            Subject { entry: Some(&entry.name), field: Some("skipRange"), ..Subject::new(CHANNEL, name) };
        match Range::parse(source) {
            Err(error) => {
                let text = format!("skipRange {source:?} of {} in channel {name}: {error}", entry.name);
                let fix = "correct the range; until then it is ignored";
                assembly.report(&subject, Error, "skip-range-invalid", text, fix);
            }
            Ok(range) => {
                if let Some(warning) = range.warning() {
                    let text = format!("skipRange {source:?} of {} in channel {name}: {warning}", entry.name);
                    assembly.report(&subject, Warning, "skip-range-remark", text, "correct the range");
                }
                if let Some(covered) = covered(package, channel, &entry.name, &range) {
                    let text =
                        format!("skipRange {source:?} of {} in channel {name} covers {covered}", entry.name);
                    let fix = "end the range below the entry's own version";
                    assembly.report(&subject, Warning, "skip-range-too-wide", text, fix);
                }
            }
        }
    }
}

/// The entry itself or a newer one contained in its own range: an upgrade could lead back to it.
fn covered(package: &Package, channel: &Channel, name: &str, range: &Range) -> Option<String> {
    let version = |name: &str| package.bundles.get(name)?.version.as_ref();
    let own = version(name)?;
    let mut newer: Vec<(&Version, &str)> = channel
        .entries
        .iter()
        .filter_map(|entry| Some((version(&entry.name)?, entry.name.as_str())))
        .filter(|(version, _)| precedence(version, own).is_gt() && range.contains(version))
        .collect();
    newer.sort_by(|a, b| precedence(a.0, b.0));
    let newer = match newer.as_slice() {
        [] => None,
        [(_, only)] => Some(format!("the newer entry {only}")),
        [(_, first), .., (_, last)] => Some(format!("{} newer entries, {first} to {last}", newer.len())),
    };
    let itself = range.contains(own).then(|| "its own version".to_owned());
    let parts: Vec<String> = itself.into_iter().chain(newer).collect();
    (!parts.is_empty()).then(|| parts.join(" and "))
}

/// The icon of the default channel's head, for packages without an icon of their own.
fn inline_icon(package: &Package) -> Option<icon::Icon> {
    let csv = package.head()?.inline_csv()?;
    icon::decode(csv.pointer("/spec/icon/0")?).ok().map(|(icon, _)| icon)
}

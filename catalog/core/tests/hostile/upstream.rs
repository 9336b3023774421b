//! The cases of upstream's own unit tests of file-based catalogs, by their names.
//!
//! The names are upstream's; the catalogs are written here. Where `opm validate` accepts a catalog that
//! upstream's model tests reject, this loader warns.

use crate::text::{Deprecate, bundle, bundle_with, channel, deprecations, entry, package, package_with};

/// Expected result for a catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// No problem at all.
    Accepted,
    /// Accepted, with a warning of this code.
    Warned(&'static str),
    /// Rejected, with an error of this code.
    Refused(&'static str),
}

use Outcome::{Accepted, Refused, Warned};

pub struct Case {
    pub name: &'static str,
    pub text: String,
    pub outcome: Outcome,
}

/// A package `p` with the channel `c` of these entries, each with its bundle; the number is the version.
fn graph(entries: &[(&str, &str)]) -> String {
    let lines: Vec<String> = entries.iter().map(|(name, edges)| entry(name, edges)).collect();
    let mut text = package("p", "c") + &channel("p", "c", &lines);
    for (index, (name, _)) in entries.iter().enumerate() {
        text += &bundle("p", name, &format!("0.0.{}", index + 1));
    }
    text
}

/// A valid package `p` with one custom bundle.
fn around(bundle: &str) -> String {
    package("p", "c") + &channel("p", "c", &[entry("p.v1", "")]) + bundle
}

/// A valid package with deprecations.
fn deprecated(entries: &[Deprecate<'_>]) -> String {
    graph(&[("p.v1", "")]) + &deprecations("p", entries)
}

const PROPERTY: &str = "{type: olm.package, value: {packageName: p, version: 1.0.0}}";

fn release(name: &str, version: &str, release: &str) -> String {
    let property =
        format!("{{type: olm.package, value: {{packageName: p, version: {version}, release: {release:?}}}}}");
    package("p", "c")
        + &channel("p", "c", &[entry(name, "")])
        + &bundle_with("p", name, "image: reg.test/p:1", &[&property])
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut case = |name, outcome, text| cases.push(Case { name, text, outcome });
    channels(&mut case);
    packages(&mut case);
    bundles(&mut case);
    documents(&mut case);
    deprecations_of(&mut case);
    cases
}

type Add<'a> = &'a mut dyn FnMut(&'static str, Outcome, String);

fn channels(case: Add<'_>) {
    case("ChannelHead/Success/Valid", Accepted, graph(&[("a", ""), ("b", "replaces: a")]));
    case(
        "ChannelHead/Error/NoChannelHead",
        Refused("channel-no-head"),
        graph(&[("a", "replaces: b"), ("b", "replaces: a")]),
    );
    case(
        "ChannelHead/Error/MultipleChannelHeads",
        Refused("channel-several-heads"),
        graph(&[("a", ""), ("b", "replaces: a"), ("d", "replaces: a")]),
    );
    case(
        "Channel/Error/CycleNoHops",
        Refused("channel-cycle"),
        graph(&[("a", "replaces: a"), ("b", "replaces: a")]),
    );
    case(
        "Channel/Error/CycleMultipleHops",
        Refused("channel-cycle"),
        graph(&[("a", "replaces: d"), ("b", "replaces: a"), ("d", "replaces: b"), ("e", "replaces: d")]),
    );
    case(
        "Channel/Error/Stranded",
        Refused("channel-stranded"),
        graph(&[("a", ""), ("b", "replaces: a"), ("d", "skips: [b]")]),
    );
    case(
        "Channel/Error/SkippedReplacesStranded",
        Refused("channel-stranded"),
        graph(&[("a", ""), ("b", "replaces: a"), ("d", "replaces: b, skips: [b]")]),
    );
    case("Channel/Error/NoBundles", Refused("channel-empty"), package("p", "c") + &channel("p", "c", &[]));
    case(
        "Channel/Error/NoName",
        Refused("channel-name-missing"),
        graph(&[("a", "")]) + &channel("p", "", &[entry("a", "")]),
    );
    case(
        "Channel/Error/NoPackage",
        Refused("channel-package-unknown"),
        graph(&[("a", "")]) + &channel("", "d", &[entry("a", "")]),
    );
}

fn packages(case: Add<'_>) {
    let one = channel("p", "c", &[entry("a", "")]) + &bundle("p", "a", "1.0.0");
    let with = |fields: &str| package_with("p", &format!("defaultChannel: c, {fields}")) + &one;
    case("Package/Error/NoName", Refused("package-name-missing"), package("", "c"));
    case(
        "Package/Error/InvalidIcon/NoData",
        Warned("icon-empty"),
        with("icon: {base64data: '', mediatype: image/png}"),
    );
    case(
        "Package/Error/InvalidIcon/NoMediaType",
        Warned("icon-mediatype"),
        with("icon: {base64data: R0lGODlhAQ==}"),
    );
    case(
        "Package/Error/InvalidIcon/NotAnImage",
        Warned("icon-not-image"),
        with("icon: {base64data: aGVsbG8gd29ybGQ=, mediatype: image/png}"),
    );
    case(
        "Package/Error/InvalidIcon/MediaTypeMismatch",
        Warned("icon-mediatype"),
        with("icon: {base64data: R0lGODlhAQ==, mediatype: image/jpeg}"),
    );
    case("Package/Error/NoChannels", Refused("package-no-channels"), package("p", "c"));
    case("Package/Error/NoDefaultChannel", Refused("default-channel-missing"), package_with("p", "") + &one);
    case(
        "Package/Error/DefaultChannelNotInChannelMap",
        Refused("default-channel-unknown"),
        package("p", "d") + &one,
    );
    case(
        "Package/Error/DuplicateBundleVersions",
        Refused("version-duplicate"),
        package("p", "c")
            + &channel("p", "c", &[entry("a", ""), entry("b", "replaces: a")])
            + &bundle("p", "a", "1.0.0")
            + &bundle("p", "b", "1.0.0"),
    );
    let released = |release: &str, name: &str| {
        let property =
            format!("{{type: olm.package, value: {{packageName: p, version: 1.0.0, release: {release:?}}}}}");
        bundle_with("p", name, "image: reg.test/p:1", &[&property])
    };
    case(
        "Package/Success/BundleVersionsOfSeveralReleases",
        Accepted,
        package("p", "c")
            + &channel("p", "c", &[entry("p-v1.0.0-1", ""), entry("p-v1.0.0-2", "replaces: p-v1.0.0-1")])
            + &released("1", "p-v1.0.0-1")
            + &released("2", "p-v1.0.0-2"),
    );
    case(
        "Package/Error/DuplicateBundleVersionsReleases",
        Refused("version-duplicate"),
        package("p", "c")
            + &channel("p", "c", &[entry("p-v1.0.0-1", ""), entry("other", "replaces: p-v1.0.0-1")])
            + &released("1", "p-v1.0.0-1")
            + &released("1", "other"),
    );
    case(
        "Package/Error/BundleReleaseNormalizedName",
        Refused("bundle-release-name"),
        release("p.v1.0.0", "1.0.0", "1"),
    );
}

fn bundles(case: Add<'_>) {
    case("Bundle/Success/Valid", Accepted, around(&bundle("p", "p.v1", "1.0.0")));
    case("Bundle/Success/ReplacesNotInChannel", Accepted, graph(&[("a", "replaces: gone")]));
    case(
        "Bundle/Error/NoBundleImage",
        Refused("bundle-image-missing"),
        around(&bundle_with("p", "p.v1", "", &[PROPERTY])),
    );
    case(
        "Bundle/Success/NoBundleImage/HaveBundleData",
        Accepted,
        // {"apiVersion":"v1","kind":"ConfigMap"}
        around(&bundle_with(
            "p",
            "p.v1",
            "",
            &[
                PROPERTY,
                "{type: olm.bundle.object, value: {data: eyJhcGlWZXJzaW9uIjoidjEiLCJraW5kIjoiQ29uZmlnTWFwIn0=}}",
            ],
        )),
    );
    case(
        "Bundle/Error/WrongPackage",
        Refused("bundle-package-mismatch"),
        around(&bundle_with(
            "p",
            "p.v1",
            "image: reg.test/p:1",
            &["{type: olm.package, value: {packageName: q, version: 1.0.0}}"],
        )),
    );
    case(
        "Bundle/Error/InvalidProperty",
        Refused("property-invalid"),
        around(&bundle_with("p", "p.v1", "image: reg.test/p:1", &[PROPERTY, "{type: olm.gvk, value: text}"])),
    );
    case("Bundle/Error/EmptySkipsValue", Refused("skip-empty"), graph(&[("a", "skips: ['']")]));
    case(
        "Bundle/Error/InvalidSkipRange/LeadingV",
        Refused("skip-range-invalid"),
        graph(&[("a", "skipRange: '<v1.0.0'")]),
    );
    case(
        "Bundle/Error/InvalidSkipRange/LeadingZero",
        Refused("skip-range-invalid"),
        graph(&[("a", "skipRange: '<01.0.0'")]),
    );
    case(
        "Bundle/Error/MissingPackage",
        Refused("bundle-package-property"),
        around(&bundle_with("p", "p.v1", "image: reg.test/p:1", &[])),
    );
    case(
        "Bundle/Error/MultiplePackages",
        Refused("bundle-package-property"),
        around(&bundle_with("p", "p.v1", "image: reg.test/p:1", &[PROPERTY, PROPERTY])),
    );
}

fn documents(case: Add<'_>) {
    let valid = graph(&[("a", "")]);
    case("Error/PackageNoName", Refused("package-name-missing"), package("", "c") + &valid);
    case(
        "Error/BundleMissingPackageName",
        Refused("bundle-package-unknown"),
        bundle("", "x", "1.0.0") + &valid,
    );
    case(
        "Error/BundleUnknownPackage",
        Refused("bundle-package-unknown"),
        bundle("unknown", "x", "1.0.0") + &valid,
    );
    case(
        "Error/BundleMissingChannel",
        Refused("bundle-in-no-channel"),
        package("p", "c") + &bundle("p", "a", "1.0.0"),
    );
    let versioned = |version: &str| {
        around(&bundle_with(
            "p",
            "p.v1",
            "image: reg.test/p:1",
            &[&format!("{{type: olm.package, value: {{packageName: p, version: {version:?}}}}}")],
        ))
    };
    case("Error/BundleInvalidVersion", Refused("bundle-version"), versioned("v1"));
    case("Error/BundleInvalidVersion/LeadingZero", Refused("bundle-version"), versioned("1.01.0"));
    case("Error/BundleMissingVersion", Refused("bundle-version"), versioned(""));
    case(
        "Error/BundleInvalidProperties",
        Refused("property-invalid"),
        around(&bundle_with(
            "p",
            "p.v1",
            "image: reg.test/p:1",
            &[PROPERTY, "{type: olm.package.required, value: [1]}"],
        )),
    );
    case("Error/PackageMissingDefaultChannel", Refused("default-channel-missing"), {
        package_with("p", "") + &channel("p", "c", &[entry("a", "")]) + &bundle("p", "a", "1.0.0")
    });
    case("Error/PackageNonExistentDefaultChannel", Refused("default-channel-unknown"), {
        package("p", "gone") + &channel("p", "c", &[entry("a", "")]) + &bundle("p", "a", "1.0.0")
    });
    case("Error/ChannelEntryWithoutBundle", Refused("channel-entry-no-bundle"), {
        package("p", "c") + &channel("p", "c", &[entry("a", "")])
    });
    case(
        "Error/BundleWithoutChannelEntry",
        Refused("bundle-in-no-channel"),
        valid.clone() + &bundle("p", "x", "2.0.0"),
    );
    case("Error/ChannelMissingName", Refused("channel-name-missing"), valid.clone() + &channel("p", "", &[]));
    case(
        "Error/ChannelNonExistentPackage",
        Refused("channel-package-unknown"),
        valid.clone() + &channel("q", "c", &[]),
    );
    case("Error/ChannelDuplicateEntry", Refused("channel-entry-duplicate"), {
        package("p", "c") + &channel("p", "c", &[entry("a", ""), entry("a", "")]) + &bundle("p", "a", "1.0.0")
    });
    case("Error/DuplicatePackage", Refused("package-duplicate"), valid.clone() + &package("p", "c"));
    case("Error/PackageBreaksRFC1123", Refused("package-name-invalid"), {
        package("P_p!", "c") + &channel("P_p!", "c", &[entry("a", "")]) + &bundle("P_p!", "a", "1.0.0")
    });
    case(
        "Error/DuplicateChannel",
        Refused("channel-duplicate"),
        valid.clone() + &channel("p", "c", &[entry("a", "")]),
    );
    case("Error/DuplicateBundle", Refused("bundle-duplicate"), valid.clone() + &bundle("p", "a", "1.0.0"));
    case("Success/ValidPackage", Accepted, valid);
    case("Error/InvalidReleaseVersion", Refused("bundle-release"), release("p-v1.0.0-0001", "1.0.0", "0001"));
    case(
        "Error/InvalidReleaseVersion/NotOne",
        Refused("bundle-release"),
        release("p-v1.0.0-!!!", "1.0.0", "!!!"),
    );
    case(
        "Error/InvalidBundleNormalizedName",
        Refused("bundle-release-name"),
        release("p.v1.0.0-1", "1.0.0", "1"),
    );
    case(
        "Error/BundleReleaseWithBuildMetadata",
        Refused("bundle-release-build-metadata"),
        release("p-v1.0.0+build-1", "1.0.0+build", "1"),
    );
    case("Success/ValidBundleWithRelease", Accepted, release("p-v1.0.0-1", "1.0.0", "1"));
    for (name, reference) in [
        ("Error/BundleImageInvalidPullSpec", "reg.test/P:1"),
        ("Error/BundleImageInvalidPullSpecSHA256", "reg.test/p@sha256:0123"),
        ("Error/BundleImageInvalidPullSpecMD5", "reg.test/p@md5:900150983cd24fb0d6963f7d28e17f72"),
        ("Error/BundleImageInvalidPullSpec/Scheme", "oci://reg.test/p"),
        ("Error/BundleImageInvalidPullSpec/EndsInAt", "reg.test/p@"),
    ] {
        case(
            name,
            Refused("image-invalid"),
            around(&bundle_with("p", "p.v1", &format!("image: {reference:?}"), &[PROPERTY])),
        );
    }
}

fn deprecations_of(case: Add<'_>) {
    let about = |schema: &'static str, name: &'static str| Deprecate { schema, name, message: "use another" };
    case("Success/Deprecation/ValidDeprecation", Accepted, {
        deprecated(&[about("olm.package", ""), about("olm.channel", "c"), about("olm.bundle", "p.v1")])
    });
    case("Error/Deprecation/UnspecifiedPackage", Refused("deprecation-package-unknown"), {
        graph(&[("p.v1", "")]) + &deprecations("", &[about("olm.package", "")])
    });
    case(
        "Error/Deprecation/OutOfBoundsBundle",
        Refused("deprecation-invalid"),
        deprecated(&[about("olm.bundle", "gone")]),
    );
    case(
        "Error/Deprecation/OutOfBoundsChannel",
        Refused("deprecation-invalid"),
        deprecated(&[about("olm.channel", "gone")]),
    );
    case("Error/Deprecation/OutOfBoundsPackage", Refused("deprecation-package-unknown"), {
        graph(&[("p.v1", "")]) + &deprecations("q", &[about("olm.package", "")])
    });
    case(
        "Error/Deprecation/PackageWithName",
        Refused("deprecation-invalid"),
        deprecated(&[about("olm.package", "p")]),
    );
    case("Error/Deprecation/MultiplePerPackage", Refused("deprecations-duplicate"), {
        deprecated(&[about("olm.package", "")]) + &deprecations("p", &[about("olm.channel", "c")])
    });
    case(
        "Error/Deprecation/BadRefSchema",
        Refused("deprecation-invalid"),
        deprecated(&[about("olm.foo", "")]),
    );
    case("Error/Deprecation/NoRefSchema", Refused("deprecation-invalid"), deprecated(&[about("", "p.v1")]));
    case("Error/Deprecation/DuplicateRef", Refused("deprecation-invalid"), {
        deprecated(&[about("olm.bundle", "p.v1"), about("olm.bundle", "p.v1")])
    });
}

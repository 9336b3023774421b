//! `from_bundle_repository` on real bundles gives the result of upstream's tools for the same repository.
//!
//! `data/catalogs/community-dev.json` was built from the whole repository and then reduced to the packages
//! and bundles in `data/bundles`: edges through missing bundles were continued to the next existing one.
//! Differences that cannot be derived from the existing bundles are listed in [`EXPLAINED`], line by line,
//! with a reason, and each reason is verified. Any other difference fails.

#![allow(clippy::unwrap_used, clippy::panic)] // a helper of a test may fail it

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::OnceLock;

use common::data;
use olm_catalog::build::{self, Built, Options};
use olm_catalog::{Filter, Severity, diff, graph};
use serde_json::Value;

/// Why a difference is not a defect of the builder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// The lowest bundle replaces one that was not selected: its version, and with it the edge of a
    /// semver-mode channel, is only in the whole repository.
    Tail,
    /// The edge passes through unselected bundles to one that does not name the channel, and `bridge_gaps`
    /// bridges within a channel only; the bundles below it are missing too.
    Spliced,
    /// No selected bundle names the channel.
    ChannelOfOthers,
    /// The default channel is named by an unselected bundle.
    DefaultOfOthers,
    /// `opm registry add` keeps the last named default channel (SemverPackageManifest, also where bundles are
    /// added one by one). The recording's graphs were synthesized, as data/README.md describes under "Limits
    /// of the recordings", and take the first channel of the newest bundle.
    Recording,
}

use Why::{ChannelOfOthers, DefaultOfOthers, Recording, Spliced, Tail};

const EXPLAINED: &[(Why, &str)] = &[
    (
        Tail,
        "ack-rds-controller/alpha ack-rds-controller.v0.1.3: replaces ack-rds-controller.v0.1.1, ours none",
    ),
    (Tail, "ack-s3-controller/alpha ack-s3-controller.v1.1.2: replaces ack-s3-controller.v1.1.1, ours none"),
    (Tail, "bpfman-operator/alpha bpfman-operator.v0.4.2: replaces bpfman-operator.v0.4.1, ours none"),
    (Tail, "cert-manager/candidate cert-manager.v1.8.2: replaces cert-manager.v1.8.2-rc1, ours none"),
    (Tail, "cert-manager/stable cert-manager.v1.8.2: replaces cert-manager.v1.8.0, ours none"),
    (
        Tail,
        "cert-utils-operator/alpha cert-utils-operator.v1.3.7: replaces cert-utils-operator.v1.3.6, ours none",
    ),
    (Tail, "flux/stable flux.v0.27.3: replaces flux.v0.27.2, ours none"),
    (Tail, "kuadrant-operator/alpha kuadrant-operator.v0.2.1: replaces kuadrant-operator.v0.2.0, ours none"),
    (
        Tail,
        "kuadrant-operator/stable kuadrant-operator.v0.11.1: replaces kuadrant-operator.v0.11.0, ours none",
    ),
    (
        Tail,
        "limitador-operator/alpha limitador-operator.v0.4.0: replaces limitador-operator.v0.3.0, ours none",
    ),
    (
        Tail,
        "node-maintenance-operator/stable node-maintenance-operator.v0.16.0: replaces node-maintenance-operator.v0.15.0, ours none",
    ),
    (
        Tail,
        "percona-server-mongodb-operator/stable percona-server-mongodb-operator.v1.11.0: replaces percona-server-mongodb-operator.v1.10.0, ours none",
    ),
    (Tail, "tempo-operator/alpha tempo-operator.v0.20.0: replaces tempo-operator.v0.19.0, ours none"),
    (
        Tail,
        "trustify-operator/alpha trustify-operator.v0.1.0-alpha.4: replaces trustify-operator.v0.1.0-alpha.3, ours none",
    ),
    (
        Tail,
        "zookeeper-operator/alpha zookeeper-operator.v0.17.9: replaces zookeeper-operator.v0.17.7, ours none",
    ),
    (
        Tail,
        "zookeeper-operator/beta zookeeper-operator.v0.17.9: replaces zookeeper-operator.v0.17.7, ours none",
    ),
    (
        Tail,
        "zookeeper-operator/stable zookeeper-operator.v0.17.9: replaces zookeeper-operator.v0.17.7, ours none",
    ),
    (
        Spliced,
        "authorino-operator/stable authorino-operator.v0.13.0: replaces authorino-operator.v0.8.0, ours authorino-operator.v0.12.0",
    ),
    (Spliced, "authorino-operator/stable authorino-operator.v0.0.1: not in ours"),
    (Spliced, "authorino-operator/stable authorino-operator.v0.4.1: not in ours"),
    (Spliced, "authorino-operator/stable authorino-operator.v0.5.0: not in ours"),
    (Spliced, "authorino-operator/stable authorino-operator.v0.6.0: not in ours"),
    (Spliced, "authorino-operator/stable authorino-operator.v0.7.0: not in ours"),
    (Spliced, "authorino-operator/stable authorino-operator.v0.8.0: not in ours"),
    (
        Spliced,
        "camel-k/stable-1.9 camel-k-operator.v1.9.0: replaces camel-k-operator.v1.4.1, ours camel-k-operator.v1.8.2",
    ),
    (Spliced, "camel-k/stable-1.9 camel-k-operator.v1.0.0: not in ours"),
    (Spliced, "camel-k/stable-1.9 camel-k-operator.v1.0.1: not in ours"),
    (Spliced, "camel-k/stable-1.9 camel-k-operator.v1.4.0: not in ours"),
    (Spliced, "camel-k/stable-1.9 camel-k-operator.v1.4.1: not in ours"),
    (
        Spliced,
        "skupper-operator/stable-1.7 skupper-operator.v1.7.1: replaces skupper-operator.v1.6.0, ours skupper-operator.v1.7.0",
    ),
    (Spliced, "skupper-operator/stable-1.7 skupper-operator.v1.6.0: not in ours"),
    (
        Spliced,
        "skupper-operator/stable-1.9 skupper-operator.v1.9.0: replaces skupper-operator.v1.7.1, ours skupper-operator.v1.8.4",
    ),
    (Spliced, "skupper-operator/stable-1.9 skupper-operator.v1.6.0: not in ours"),
    (Spliced, "skupper-operator/stable-1.9 skupper-operator.v1.7.1: not in ours"),
    (ChannelOfOthers, "camel-k/candidate: not in ours"),
    (ChannelOfOthers, "camel-k/latest: not in ours"),
    (ChannelOfOthers, "camel-k/stable-1.10: not in ours"),
    (ChannelOfOthers, "camel-k/stable-1.11: not in ours"),
    (ChannelOfOthers, "camel-k/stable-1.12: not in ours"),
    (ChannelOfOthers, "camel-k/stable-1.5: not in ours"),
    (ChannelOfOthers, "camel-k/stable-1.6: not in ours"),
    (ChannelOfOthers, "camel-k/stable-1.7: not in ours"),
    (ChannelOfOthers, "camel-k/stable-1.8: not in ours"),
    (ChannelOfOthers, "camel-k/stable-2.0: not in ours"),
    (ChannelOfOthers, "camel-k/stable-v2: not in ours"),
    (ChannelOfOthers, "skupper-operator/stable-1.8: not in ours"),
    (ChannelOfOthers, "strimzi-kafka-operator/strimzi-0.36.x: not in ours"),
    (ChannelOfOthers, "strimzi-kafka-operator/strimzi-0.37.x: not in ours"),
    (ChannelOfOthers, "strimzi-kafka-operator/strimzi-0.38.x: not in ours"),
    (ChannelOfOthers, "strimzi-kafka-operator/strimzi-0.39.x: not in ours"),
    (ChannelOfOthers, "strimzi-kafka-operator/strimzi-0.40.x: not in ours"),
    (ChannelOfOthers, "strimzi-kafka-operator/strimzi-0.41.x: not in ours"),
    (ChannelOfOthers, "strimzi-kafka-operator/strimzi-0.42.x: not in ours"),
    (ChannelOfOthers, "strimzi-kafka-operator/strimzi-0.43.x: not in ours"),
    (ChannelOfOthers, "strimzi-kafka-operator/strimzi-0.44.x: not in ours"),
    (ChannelOfOthers, "strimzi-kafka-operator/strimzi-0.45.x: not in ours"),
    (ChannelOfOthers, "strimzi-kafka-operator/strimzi-0.46.x: not in ours"),
    (ChannelOfOthers, "strimzi-kafka-operator/strimzi-0.47.x: not in ours"),
    (ChannelOfOthers, "strimzi-kafka-operator/strimzi-0.48.x: not in ours"),
    (ChannelOfOthers, "strimzi-kafka-operator/strimzi-0.49.x: not in ours"),
    (ChannelOfOthers, "strimzi-kafka-operator/strimzi-0.50.x: not in ours"),
    (ChannelOfOthers, "strimzi-kafka-operator/strimzi-0.51.x: not in ours"),
    (DefaultOfOthers, "camel-k: default channel stable-v2, ours stable"),
    (Recording, "mercury-operator: default channel dev, ours 1.0.x"),
];

/// The packages whose bundle images the recording has from their own templates: by digest, which a directory
/// of manifests does not record.
const IMAGES_BY_DIGEST: [&str; 3] = ["hive-operator", "kube-green", "nfs-provisioner-operator"];

/// The packages whose head in the whole repository was not selected and has another icon.
const ICONS_OF_OTHERS: [&str; 1] = ["percona-server-mongodb-operator"];

/// Package, then channel, then bundle, with `replaces`, `skips` and `skipRange`.
type Entries = BTreeMap<String, (Option<String>, BTreeSet<String>, Option<String>)>;

#[derive(Default)]
struct Catalog {
    defaults: BTreeMap<String, String>,
    channels: BTreeMap<(String, String), Entries>,
    bundles: BTreeMap<(String, String), Value>,
    packages: BTreeMap<String, Value>,
}

impl Catalog {
    fn of<'a>(documents: impl Iterator<Item = &'a Value>) -> Self {
        let mut catalog = Self::default();
        for document in documents {
            let text = |key: &str| document[key].as_str().unwrap_or_default().to_owned();
            let key = (text("package"), text("name"));
            match text("schema").as_str() {
                "olm.package" => {
                    catalog.defaults.insert(text("name"), text("defaultChannel"));
                    catalog.packages.insert(text("name"), document.clone());
                }
                "olm.channel" => {
                    let entries = document["entries"].as_array().unwrap().iter().map(|entry| {
                        let text = |key: &str| entry[key].as_str().map(str::to_owned);
                        let skips = entry["skips"].as_array().into_iter().flatten();
                        let skips = skips.map(|name| name.as_str().unwrap().to_owned()).collect();
                        (text("name").unwrap(), (text("replaces"), skips, text("skipRange")))
                    });
                    assert!(
                        catalog.channels.insert(key.clone(), entries.collect()).is_none(),
                        "{key:?} twice"
                    );
                }
                "olm.bundle" => {
                    assert!(catalog.bundles.insert(key.clone(), document.clone()).is_none(), "{key:?} twice");
                }
                _ => {}
            }
        }
        catalog
    }
}

fn recorded(data: &Path) -> Catalog {
    let text = std::fs::read_to_string(data.join("catalogs/community-dev.json")).unwrap();
    let documents: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    Catalog::of(documents.iter())
}

/// Computed once for all tests.
fn built(data: &Path) -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| build_all(data))
}

fn build_all(data: &Path) -> Built {
    let options = Options {
        image_template: Some("quay.io/openshift-community-operators/{package}:v{version}".into()),
        bridge_gaps: true,
        ..Options::default()
    };
    build::from_bundle_repository(&data.join("bundles"), &options).unwrap()
}

/// Every difference of the graphs, one line each.
fn differences(theirs: &Catalog, ours: &Catalog) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    let packages: BTreeSet<_> = theirs.defaults.keys().chain(ours.defaults.keys()).collect();
    for package in packages {
        let of = |catalog: &Catalog| catalog.defaults.get(package).cloned().unwrap_or_else(|| "none".into());
        if of(theirs) != of(ours) {
            lines.insert(format!("{package}: default channel {}, ours {}", of(theirs), of(ours)));
        }
    }
    let channels: BTreeSet<_> = theirs.channels.keys().chain(ours.channels.keys()).collect();
    for key in channels {
        let place = format!("{}/{}", key.0, key.1);
        let (theirs, ours) = match (theirs.channels.get(key), ours.channels.get(key)) {
            (Some(theirs), Some(ours)) => (theirs, ours),
            (Some(_), None) => {
                lines.insert(format!("{place}: not in ours"));
                continue;
            }
            _ => {
                lines.insert(format!("{place}: only in ours"));
                continue;
            }
        };
        let names: BTreeSet<_> = theirs.keys().chain(ours.keys()).collect();
        for name in names {
            let (theirs, ours) = match (theirs.get(name), ours.get(name)) {
                (Some(theirs), Some(ours)) => (theirs, ours),
                (Some(_), None) => {
                    lines.insert(format!("{place} {name}: not in ours"));
                    continue;
                }
                _ => {
                    lines.insert(format!("{place} {name}: only in ours"));
                    continue;
                }
            };
            let text = |edge: &Option<String>| edge.clone().unwrap_or_else(|| "none".into());
            if theirs.0 != ours.0 {
                lines.insert(format!("{place} {name}: replaces {}, ours {}", text(&theirs.0), text(&ours.0)));
            }
            if theirs.1 != ours.1 {
                lines.insert(format!("{place} {name}: skips {:?}, ours {:?}", theirs.1, ours.1));
            }
            if theirs.2 != ours.2 {
                lines.insert(format!("{place} {name}: skipRange {:?}, ours {:?}", theirs.2, ours.2));
            }
        }
    }
    lines
}

#[test]
fn graphs_are_those_of_upstream() {
    let Some(data) = data("") else { return };
    // given
    let theirs = recorded(&data);
    // when
    let built = built(&data);
    let ours = Catalog::of(built.documents());
    // then
    assert_eq!(ours.defaults.len(), 43);
    let found = differences(&theirs, &ours);
    let explained: BTreeSet<String> = EXPLAINED.iter().map(|(_, line)| (*line).to_owned()).collect();
    let unexplained: Vec<_> = found.difference(&explained).collect();
    let gone: Vec<_> = explained.difference(&found).collect();
    assert!(unexplained.is_empty() && gone.is_empty(), "unexplained: {unexplained:#?}\nnot found: {gone:#?}");
    for (why, line) in EXPLAINED {
        assert!(holds(*why, line, &theirs, &ours, &data), "{why:?} is not the reason of: {line}");
    }
}

/// Verifies a reason.
fn holds(why: Why, line: &str, theirs: &Catalog, ours: &Catalog, data: &Path) -> bool {
    let (place, what) = line.split_once(": ").unwrap();
    let (channel, entry) = place.split_once(' ').unwrap_or((place, ""));
    let (package, channel) = channel.split_once('/').unwrap_or((channel, ""));
    let selected = |name: &str| theirs.bundles.contains_key(&(package.to_owned(), name.to_owned()));
    let named = |channel: &str| {
        let versions = std::fs::read_dir(data.join("bundles/operators").join(package)).unwrap();
        versions.flatten().any(|version| {
            let text = std::fs::read_to_string(version.path().join("metadata/annotations.yaml"));
            let text = text.unwrap_or_default();
            let mut lines = text.lines().filter(|line| line.contains("bundle.channels.v1"));
            lines.any(|line| line.split([',', ':', ' ', '"', '\'']).any(|word| word == channel))
        })
    };
    let edges = |what: &str| {
        let (theirs, ours) = what.strip_prefix("replaces ").unwrap().split_once(", ours ").unwrap();
        (theirs.to_owned(), ours.to_owned())
    };
    match why {
        Tail => {
            let (theirs, ours) = edges(what);
            !selected(&theirs) && ours == "none"
        }
        Spliced if what == "not in ours" => {
            let key = (package.to_owned(), channel.to_owned());
            // Below a splice, and it does not name the channel itself.
            selected(entry)
                && ours.channels[&key]
                    .values()
                    .any(|(replaces, ..)| replaces.as_deref().is_some_and(|replaced| !selected(replaced)))
        }
        Spliced => {
            let (theirs, ours) = edges(what);
            selected(&theirs) && !selected(&ours)
        }
        ChannelOfOthers => !named(channel),
        DefaultOfOthers => {
            let default = what.strip_prefix("default channel ").unwrap().split_once(',').unwrap().0;
            !named(default)
        }
        Recording => what.starts_with("default channel "),
    }
}

#[test]
fn bundles_have_the_properties_and_images_of_upstream() {
    let Some(data) = data("") else { return };
    let theirs = recorded(&data);
    let built = built(&data);
    let ours = Catalog::of(built.documents());
    assert_eq!(theirs.bundles.keys().collect::<Vec<_>>(), ours.bundles.keys().collect::<Vec<_>>());
    let mut different = Vec::new();
    for (key, theirs) in &theirs.bundles {
        let ours = &ours.bundles[key];
        if sorted(&theirs["properties"]) != sorted(&ours["properties"]) {
            different.push(format!("{} properties", key.1));
        }
        let by_digest = IMAGES_BY_DIGEST.contains(&key.0.as_str());
        assert_eq!(
            by_digest,
            theirs["image"] != ours["image"],
            "{key:?}: {} {}",
            theirs["image"],
            ours["image"]
        );
        if by_digest {
            assert!(theirs["image"].as_str().unwrap().contains("@sha256:"), "{key:?}");
        }
        if related(theirs) != related(ours) {
            different.push(format!("{} relatedImages {:?} {:?}", key.1, related(theirs), related(ours)));
        }
    }
    assert_eq!(different, Vec::<String>::new());
}

/// The related images except the bundle's own.
fn related(bundle: &Value) -> BTreeSet<(String, String)> {
    let images = bundle["relatedImages"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    images
        .filter(|related| related["image"] != bundle["image"])
        .map(|related| (text(&related["image"]), text(&related["name"])))
        .collect()
}

fn sorted(value: &Value) -> Vec<String> {
    let mut texts: Vec<String> = value
        .as_array()
        .unwrap()
        .iter()
        .map(|property| {
            let mut property = property.clone();
            property.sort_all_objects();
            property.to_string()
        })
        .collect();
    texts.sort();
    texts
}

#[test]
fn packages_have_the_icon_of_their_head() {
    let Some(data) = data("") else { return };
    let theirs = recorded(&data);
    let built = built(&data);
    let ours = Catalog::of(built.documents());
    let compact = |icon: &Value| {
        let text = icon["base64data"].as_str().unwrap_or_default();
        text.split_whitespace().collect::<String>()
    };
    let different: Vec<_> = theirs
        .packages
        .iter()
        .filter(|(name, theirs)| compact(&theirs["icon"]) != compact(&ours.packages[*name]["icon"]))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(different, ICONS_OF_OTHERS);
}

#[test]
fn a_checkout_is_a_catalog_without_any_image() {
    let Some(data) = data("") else { return };
    // when: the layout is detected
    let catalog = build::load(&data.join("bundles")).unwrap();
    // then
    assert_eq!(catalog.summaries().count(), 43);
    let etcd = catalog.package("etcd").unwrap().unwrap();
    assert_eq!(etcd.default_channel, "singlenamespace-alpha");
    let head = etcd.head().unwrap();
    assert_eq!((head.name.as_str(), head.image.as_deref()), ("etcdoperator.v0.9.4", None));
    assert_eq!(head.bundle().unwrap().crds().count(), 3);
    for summary in catalog.summaries() {
        let package = catalog.package(&summary.name).unwrap().unwrap();
        for bundle in package.bundles.values() {
            assert!(bundle.image.is_none() && bundle.is_inline(), "{}", bundle.name);
        }
    }
    // a file-based catalog in a directory stays unchanged
    let fbc = build::load(&data.join("bundles/catalogs")).unwrap();
    assert!(fbc.package("kube-green").unwrap().is_some());
    // one operator, and one bundle
    for dir in ["bundles/operators/etcd", "bundles/operators/etcd/0.9.4"] {
        let catalog = build::load(&data.join(dir)).unwrap();
        let names: Vec<&str> = catalog.summaries().map(|summary| summary.name.as_str()).collect();
        assert_eq!(names, ["etcd"], "{dir}");
    }
}

#[test]
fn what_is_written_loads_without_errors() {
    let Some(data) = data("") else { return };
    let out = tempfile::tempdir().unwrap();
    let options = Options {
        bridge_gaps: true,
        image_template: Some("r.example/{package}:v{version}".into()),
        ..Options::default()
    };
    let problems =
        build::write_bundle_repository(&data.join("bundles"), &options, out.path(), build::Format::Json)
            .unwrap();
    // Defects of the selection are reported: a gap in a channel, a missing default channel.
    assert!(problems.iter().any(|problem| problem.code == "replaces-missing"), "{problems:?}");
    let catalog = olm_catalog::Catalog::load_dir(out.path());
    let errors: Vec<_> =
        catalog.problems.iter().filter(|problem| problem.severity == Severity::Error).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let bundles = Filter { schema: Some("olm.bundle".into()), ..Filter::default() };
    assert_eq!(catalog.documents(&bundles).count(), 192);
}

#[test]
fn graphs_of_real_packages_fit_a_terminal() {
    let Some(data) = data("") else { return };
    let catalog = built(&data).catalog();
    for summary in catalog.summaries() {
        let package = catalog.package(&summary.name).unwrap().unwrap();
        let text = graph::graph(&package, None, graph::Format::Text).unwrap();
        let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{}: {wide:?}", summary.name);
        for format in [graph::Format::Mermaid, graph::Format::Dot, graph::Format::Json] {
            let rendered = graph::graph(&package, None, format).unwrap();
            let head = &package.head().unwrap().name;
            assert!(rendered.contains(head.as_str()), "{head} in {format:?}");
        }
    }
    // A catalog does not differ from itself.
    assert_eq!(diff::diff(&catalog, &built(&data).catalog()).unwrap(), []);
}

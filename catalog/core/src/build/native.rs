//! Operators with their own catalog template (`fbc` in `ci.yaml`, `catalog-templates/`).
//!
//! The template defines the channels; the bundles are those of the directory. A basic template references
//! them by image, mostly by digest, which a directory does not record: so they are matched by the names in
//! its channels instead. In the other templates only images exist; their tags must be the versions then.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use olm_bundle::{Bundle, yaml};
use olm_kube_schema::names::is_dns_label;
use serde_json::Value;

use super::ci::Ci;
use super::graph::{Entry, Graph, GraphFinding, Node, graph};
use super::source::Source;
use super::{BuiltPackage, Mode, Options, folder, package, problem};
use crate::problem::{Problem, Severity};
use crate::template::{self, BASIC, Resolved, SEMVER, SUBSTITUTES};

const TEMPLATES: &str = "catalog-templates";

/// An operator's own catalog template.
pub(super) struct Native {
    /// Path of the template, for problems.
    path: String,
    /// `olm.package`, `olm.channel`, `olm.deprecations` and unknown schemas.
    documents: Vec<Value>,
    /// Tag and reference of the images with a tag.
    images: BTreeMap<String, String>,
    /// The whole of a template that is not basic.
    template: Option<Vec<u8>>,
}

/// Fallback for an operator with an unusable template.
const INSTEAD: &str = "using the `replaces` of the bundles for the channels";

impl Native {
    /// The template for the requested catalog; `None` for an operator without one, or with an unreadable one,
    /// which is reported.
    pub fn read(dir: &Path, ci: &Ci, options: &Options, problems: &mut Vec<Problem>) -> Option<Self> {
        if !ci.native {
            return None;
        }
        let mut refused = |path: &Path, text: String, fix| {
            let text = format!("{text}; {INSTEAD}");
            let path = path.display().to_string();
            problems.push(problem(Severity::Error, &path, &folder::name(dir), "native-template", text, fix));
        };
        let Some(mapped) = ci.template(options.catalog.as_deref()) else {
            let wanted = options.catalog.as_deref().unwrap_or("any catalog");
            let text = format!("ci.yaml has no template for {wanted}");
            refused(&dir.join("ci.yaml"), text, "add one to fbc.catalog_mapping");
            return None;
        };
        let path = dir.join(TEMPLATES).join(&mapped.file);
        if Path::new(&mapped.file).components().count() != 1 || mapped.file.starts_with('.') {
            refused(&path, format!("template_name: invalid file name {:?}", mapped.file), "set a file name");
            return None;
        }
        let at = path.display().to_string();
        let read = folder::read(&path).map_err(|error| error.to_string()).and_then(|bytes| {
            let documents = yaml::documents(&at, &bytes).map_err(|error| error.to_string())?;
            let spelled = documents.into_iter().map(|document| template::spelled(document.value));
            Ok((spelled.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?, bytes))
        });
        let (documents, bytes) = match read {
            Ok(read) => read,
            Err(error) => {
                refused(&path, error, "correct the template");
                return None;
            }
        };
        if documents.iter().any(|document| [SEMVER, SUBSTITUTES].contains(&schema(document))) {
            return match template::references(&bytes) {
                Ok(images) => {
                    let images = tagged(images.iter().map(String::as_str));
                    Some(Self { path: at, documents: Vec::new(), images, template: Some(bytes) })
                }
                Err(error) => {
                    refused(&path, error.to_string(), "correct the template");
                    None
                }
            };
        }
        let documents: Vec<Value> = documents.into_iter().flat_map(entries).collect();
        if !documents.iter().any(|document| schema(document) == "olm.channel") {
            let text = "the template has no olm.channel".to_owned();
            refused(&path, text, "use a template with schema olm.template.basic or olm.semver");
            return None;
        }
        let (bundles, documents): (Vec<Value>, Vec<Value>) =
            documents.into_iter().partition(|document| schema(document) == "olm.bundle");
        let images = tagged(bundles.iter().filter_map(|bundle| bundle.get("image")?.as_str()));
        Some(Self { path: at, documents, images, template: None })
    }

    /// The image of a bundle, where the template names it by a tag that is its version.
    pub fn image_of(&self, bundle: &Bundle, dir: &Path) -> Option<&str> {
        let version = bundle.version_text().unwrap_or_default();
        let folder = folder::name(dir);
        let tags = [version.to_owned(), format!("v{version}"), folder.clone(), format!("v{folder}")];
        tags.iter().find_map(|tag| self.images.get(tag)).map(String::as_str)
    }

    /// The package: the template's channels with the existing bundles.
    pub fn assemble(
        &self,
        name: &str,
        path: &str,
        sources: Vec<Source>,
        problems: &mut Vec<Problem>,
    ) -> Option<BuiltPackage> {
        let nodes: Vec<Node> = sources.iter().map(|source| source.node.clone()).collect();
        if let Some(template) = &self.template {
            return match self.rendered(template, name, &sources) {
                Ok(package) => Some(package),
                Err(error) => {
                    let text = format!("{error}; {INSTEAD}");
                    let fix = "use tags equal to the versions of the bundles, or use olm.template.basic";
                    problems.push(problem(Severity::Error, &self.path, name, "native-template", text, fix));
                    package::assemble(name, path, sources, graph(Mode::Replaces, &nodes, false), problems)
                }
            };
        }
        let Some(made) = self.graph(name, &nodes, problems) else {
            let text = format!("the template has no channel with an existing bundle; {INSTEAD}");
            let fix = "correct the names in the template";
            problems.push(problem(Severity::Error, &self.path, name, "native-template", text, fix));
            return package::assemble(name, path, sources, graph(Mode::Replaces, &nodes, false), problems);
        };
        let channels: BTreeSet<String> = made.channels.keys().cloned().collect();
        let mut package = package::assemble(name, path, sources, made, problems)?;
        if let (Some(own), Some(head)) = (self.package(name), package.documents.first_mut()) {
            describe(head, own);
        }
        let bundles: BTreeSet<String> = nodes.into_iter().map(|node| node.name).collect();
        let others = self.documents.iter().filter(|document| {
            !["olm.package", "olm.channel"].contains(&schema(document)) && text(document, "package") == name
        });
        package.documents.extend(others.map(|document| applicable(document.clone(), &channels, &bundles)));
        Some(package)
    }

    fn package(&self, name: &str) -> Option<&Value> {
        let mut packages = self.documents.iter().filter(|document| schema(document) == "olm.package");
        packages.find(|document| text(document, "name") == name)
    }

    /// The template's channels; `None` when none of their bundles exists.
    fn graph(&self, name: &str, nodes: &[Node], problems: &mut Vec<Problem>) -> Option<Graph> {
        let there: BTreeSet<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        let mut report = |code, channel: Option<&str>, text: String, fix| {
            let base = problem(Severity::Warning, &self.path, name, code, text, fix);
            problems.push(Problem { channel: channel.map(str::to_owned), ..base });
        };
        let mut made = Graph::default();
        let channels = self.documents.iter().filter(|document| schema(document) == "olm.channel");
        for document in channels.filter(|document| text(document, "package") == name) {
            let (channel, mut entries) = (text(document, "name"), present(document, &there));
            if entries.is_empty() {
                let text = format!("channel {channel} is omitted: none of its bundles exists");
                let fix = "add the bundles, or remove the channel from the template";
                report("channel-empty", Some(channel), text, fix);
                continue;
            }
            entries.sort_by_cached_key(|entry| {
                nodes.iter().find(|node| node.name == entry.name).map(|node| node.version.clone())
            });
            made.channels.insert(channel.to_owned(), entries);
        }
        let first = made.channels.keys().next_back()?.clone();
        let wanted = self.package(name).map(|own| text(own, "defaultChannel")).unwrap_or_default();
        if made.channels.contains_key(wanted) {
            made.default_channel = Some(wanted.to_owned());
        } else {
            let text = format!("default channel {wanted:?} not found; using {first}");
            let fix = "set defaultChannel of the template to a channel with bundles";
            report("package-default-channel", None, text, fix);
            made.default_channel = Some(first);
        }
        // A template for one catalog need not list every bundle.
        let unlisted: Vec<&Node> = nodes.iter().filter(|node| !made.lists(&node.name)).collect();
        made.notes.extend(unlisted.into_iter().map(|Node { name, .. }| {
            let text = format!("{name} is omitted: no channel of the template lists it");
            let fix = "add it to a channel of the template to include it";
            GraphFinding::new(Severity::Warning, name, "bundle-stranded", text, fix)
        }));
        Some(made)
    }
}

impl Native {
    /// A template whose images are the directory's bundles by their tags.
    fn rendered(&self, template: &[u8], name: &str, sources: &[Source]) -> Result<BuiltPackage, String> {
        let resolver = |reference: &str| -> Result<Resolved, String> {
            let tag = tag(reference).ok_or("reference by digest, which matches no directory")?;
            let matches = |source: &&Source| {
                let folder = folder::name(Path::new(&source.path));
                let version = source.node.version.to_string();
                [folder, version].iter().any(|known| tag == known || tag.strip_prefix('v') == Some(known))
            };
            let source = sources.iter().find(matches).ok_or("no directory has this version")?;
            let Source { document, description, icon, .. } = source.clone();
            Ok(Resolved { document, description, icon })
        };
        let documents = template::render(template, &resolver).map_err(|error| error.to_string())?;
        let mut packages = documents.iter().filter(|document| schema(document) == "olm.package");
        match packages.next().and_then(|package| package.get("name")?.as_str()) {
            Some(named) if named == name && is_dns_label(name) => {
                Ok(BuiltPackage { name: name.to_owned(), documents })
            }
            named => Err(format!("the template defines package {named:?}, its directory package {name:?}")),
        }
    }
}

/// The images with a tag, by tag.
fn tagged<'a>(images: impl Iterator<Item = &'a str>) -> BTreeMap<String, String> {
    images.filter_map(|image| Some((tag(image)?.to_owned(), image.to_owned()))).collect()
}

/// The entries of a template, or the document itself where the file is a plain catalog.
fn entries(mut document: Value) -> Vec<Value> {
    if schema(&document) == BASIC
        && let Some(Value::Array(entries)) = document.get_mut("entries").map(Value::take)
    {
        return entries;
    }
    vec![document]
}

fn schema(document: &Value) -> &str {
    text(document, "schema")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The tag of an image reference that has one and no digest.
fn tag(image: &str) -> Option<&str> {
    if image.contains('@') {
        return None;
    }
    image.rsplit('/').next()?.split_once(':').map(|(_, tag)| tag)
}

/// The entries with existing bundles. An edge through missing bundles continues to the next existing one
/// along the author's own chain; without one the edge stays as written.
fn present(channel: &Value, there: &BTreeSet<&str>) -> Vec<Entry> {
    let text = |entry: &Value, key: &str| Some(text(entry, key).to_owned()).filter(|text| !text.is_empty());
    let listed = channel.get("entries").and_then(Value::as_array).into_iter().flatten();
    let listed: Vec<Entry> = listed
        .filter_map(|entry| {
            let skips = entry.get("skips").and_then(Value::as_array).into_iter().flatten();
            Some(Entry {
                name: text(entry, "name")?,
                replaces: text(entry, "replaces"),
                skips: skips.filter_map(Value::as_str).map(str::to_owned).collect(),
                skip_range: text(entry, "skipRange"),
            })
        })
        .collect();
    let edges: BTreeMap<&str, &str> =
        listed.iter().filter_map(|entry| Some((entry.name.as_str(), entry.replaces.as_deref()?))).collect();
    let onward = |replaced: &str| {
        let mut at = replaced;
        // Terminates for a cycle: no chain is longer than the channel.
        for _ in 0..=edges.len() {
            if there.contains(at) {
                return at.to_owned();
            }
            let Some(next) = edges.get(at) else { break };
            at = next;
        }
        replaced.to_owned()
    };
    let kept = listed.iter().filter(|entry| there.contains(entry.name.as_str()));
    kept.map(|entry| Entry { replaces: entry.replaces.as_deref().map(onward), ..entry.clone() }).collect()
}

/// The package as in the template, but with an existing default channel.
fn describe(head: &mut Value, own: &Value) {
    let default_channel = head["defaultChannel"].take();
    *head = own.clone();
    head["defaultChannel"] = default_channel;
}

/// Deprecations of missing objects are left out: a catalog with them is rejected.
fn applicable(mut document: Value, channels: &BTreeSet<String>, bundles: &BTreeSet<String>) -> Value {
    if schema(&document) != "olm.deprecations" {
        return document;
    }
    if let Some(Value::Array(entries)) = document.get_mut("entries") {
        entries.retain(|entry| {
            let text = |pointer| entry.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            match text("/reference/schema") {
                "olm.channel" => channels.contains(text("/reference/name")),
                "olm.bundle" => bundles.contains(text("/reference/name")),
                _ => true,
            }
        });
    }
    document
}

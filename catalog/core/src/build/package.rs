//! The documents of one package.

use std::collections::BTreeSet;

use olm_kube_schema::names::is_dns_label;
use serde_json::{Value, json};

use super::graph::{Graph, GraphFinding};
use super::source::Source;
use super::{BuiltPackage, problem};
use crate::problem::{Problem, Severity};

/// Assembles a package; `None` when none of its bundles can be installed. Its name is a DNS label, and
/// thereby safe as a directory name.
/// The order is fixed: the package, its channels by name, its bundles by version.
pub(super) fn assemble(
    package: &str,
    path: &str,
    mut sources: Vec<Source>,
    graph: Graph,
    problems: &mut Vec<Problem>,
) -> Option<BuiltPackage> {
    for note in &graph.notes {
        problems.push(problem_of(note, package, path, &sources));
    }
    if !is_dns_label(package) {
        let text = format!("package name {package:?} is not a DNS label; the package is omitted");
        let fix = "use at most 63 lower-case letters, digits and dashes";
        problems.push(problem(Severity::Error, path, package, "package-name", text, fix));
        return None;
    }
    let default_channel = graph.default_channel?;
    let listed: BTreeSet<&str> = graph.channels.values().flatten().map(|entry| entry.name.as_str()).collect();
    sources.retain(|source| listed.contains(source.node.name.as_str()));
    sources.sort_by(|a, b| a.node.version.cmp(&b.node.version).then_with(|| a.node.name.cmp(&b.node.name)));
    // Of two bundles of one name the graph contains the first by version.
    sources.dedup_by(|later, first| later.node.name == first.node.name);

    let mut head = json!({"schema": "olm.package", "name": package, "defaultChannel": default_channel});
    // The last entry is the highest version, and thereby the head.
    let entry = graph.channels.get(&default_channel).and_then(|entries| entries.last());
    if let Some(source) = entry.and_then(|entry| sources.iter().find(|source| source.node.name == entry.name))
    {
        if !source.description.is_empty() {
            head["description"] = source.description.as_str().into();
        }
        if let Some(icon) = &source.icon {
            head["icon"] = icon.clone();
        }
    }
    let channels = graph.channels.iter().map(|(name, entries)| {
        let entries: Vec<Value> = entries.iter().map(super::graph::Entry::document).collect();
        json!({"schema": "olm.channel", "package": package, "name": name, "entries": entries})
    });
    let mut documents: Vec<Value> = std::iter::once(head).chain(channels).collect();
    documents.extend(sources.into_iter().map(|source| source.document));
    Some(BuiltPackage { name: package.to_owned(), documents })
}

fn problem_of(note: &GraphFinding, package: &str, path: &str, sources: &[Source]) -> Problem {
    let source = sources.iter().find(|source| Some(&source.node.name) == note.bundle.as_ref());
    let path = source.map_or(path, |source| source.path.as_str());
    let problem = problem(note.severity, path, package, note.code, note.text.clone(), note.fix);
    Problem { entry: note.bundle.clone(), ..problem }
}

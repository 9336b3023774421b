//! Compares the schemas of versions: each with its successor, and with each other where objects of one are
//! read as another.

use std::cmp::Reverse;

use serde_json::Value;

use super::collect::Collector;
use super::structure::{self, Side};
use super::{Change, ChangeCode, Severity};
use crate::view::View;

/// Limit of the versions that are compared with each other: the number of pairs grows quadratically.
const MOST_VERSIONS: usize = 16;

pub(super) fn compare(live: &View<'_>, new: &View<'_>, out: &mut Collector) {
    for version in &live.versions {
        let Some(next) = new.version(version.name) else { continue };
        out.about(Some(version.name.to_owned()));
        match (version.schema, next.schema) {
            (Some(before), Some(after)) => {
                structure::compare(&side(before, live), &side(after, new), out);
            }
            (None, Some(_)) => {
                let text = "objects were not validated and are from now on";
                out.add(ChangeCode::FieldsValidated, Severity::Careful, "", text);
            }
            (_, None) => {}
        }
    }
    // With a webhook the author defines the conversion; without one only the apiVersion changes, so that the
    // schemas must be compatible.
    if new.webhook {
        return;
    }
    let versions = served(new);
    if versions.len() > MOST_VERSIONS {
        out.about(None);
        let text = format!("more than {MOST_VERSIONS} served versions are not compared with each other");
        return out.add(ChangeCode::NotCompared, Severity::Breaking, ".spec.versions", text);
    }
    for (index, from) in versions.iter().enumerate() {
        for to in &versions[index + 1..] {
            out.about(Some(format!("{from} -> {to}")));
            // An existing difference is not a change; behind a webhook it had no effect.
            let known = if live.webhook { Vec::new() } else { between(live, from, to) };
            for change in between(new, from, to).into_iter().filter(|change| !known.contains(change)) {
                out.add_with(
                    change.code,
                    change.severity,
                    &change.path,
                    change.text,
                    change.before,
                    change.after,
                );
            }
        }
    }
}

fn side<'a>(schema: &'a Value, of: &View<'_>) -> Side<'a> {
    Side { schema, preserves_all: of.preserves_all }
}

/// Differences between two versions of one definition; none unless it has both.
fn between(of: &View<'_>, from: &str, to: &str) -> Vec<Change> {
    let schema = |name| of.version(name).filter(|version| version.served).and_then(|version| version.schema);
    let mut found = Collector::default();
    if let (Some(from), Some(to)) = (schema(from), schema(to)) {
        structure::compare(&side(from, of), &side(to, of), &mut found);
    }
    found.finish()
}

/// The served versions from the least to the most mature, in Kubernetes' order.
fn served<'a>(of: &View<'a>) -> Vec<&'a str> {
    let mut names: Vec<&str> = of.versions.iter().filter(|v| v.served).map(|v| v.name).collect();
    names.sort_by_key(|name| maturity(name));
    names.dedup();
    names
}

/// `v1alpha1` before `v1beta1` before `v1` before `v2`; other names come first, in descending order.
fn maturity(name: &str) -> (u8, u64, u64, Reverse<&str>) {
    let other = (0, 0, 0, Reverse(name));
    let Some(rest) = name.strip_prefix('v') else { return other };
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let Ok(major) = rest[..digits].parse() else { return other };
    let (level, minor) = match &rest[digits..] {
        "" => return (3, major, 0, Reverse("")),
        rest => match (rest.strip_prefix("alpha"), rest.strip_prefix("beta")) {
            (Some(minor), _) => (1, minor),
            (_, Some(minor)) => (2, minor),
            _ => return other,
        },
    };
    minor.parse().map_or(other, |minor| (level, major, minor, Reverse("")))
}

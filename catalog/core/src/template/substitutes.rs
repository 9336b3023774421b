//! `olm.template.substitutes`: a rebuilt bundle replaces another one.

use std::cmp::Ordering;

use olm_version::{Version, precedence};
use serde_json::{Value, json};

use super::bundle::{BundleResolver, Identity, resolve};
use super::document::{list, schema, text};
use super::error::TemplateError;
use crate::catalog::Catalog;
use crate::problem::Severity;

struct Substitution {
    /// The substitute's image.
    name: String,
    /// The replaced bundle.
    base: String,
}

impl Substitution {
    fn failed(&self, reason: impl Into<String>) -> TemplateError {
        TemplateError::Substitution {
            name: self.name.clone(),
            base: self.base.clone(),
            reason: reason.into(),
        }
    }
}

fn substitutions(template: &Value) -> Result<Vec<Substitution>, TemplateError> {
    let mut all: Vec<Substitution> = Vec::new();
    for value in list(template, "substitutions")? {
        let one = Substitution { name: text(value, "name").to_owned(), base: text(value, "base").to_owned() };
        let reason = if one.name.is_empty() {
            Some("name is empty, expected the image of the substitute".to_owned())
        } else if one.base.is_empty() {
            Some("base is empty, expected the bundle to substitute".to_owned())
        } else if one.name == one.base {
            Some("name and base are equal".to_owned())
        } else if all.iter().any(|other| other.base == one.base) {
            Some("base already has a substitute".to_owned())
        } else {
            let other = all.iter().find(|other| other.name == one.name);
            other.map(|other| format!("already the substitute of {}", other.base))
        };
        if let Some(reason) = reason {
            return Err(one.failed(reason));
        }
        all.push(one);
    }
    Ok(all)
}

pub(super) fn references(template: &Value) -> Result<Vec<String>, TemplateError> {
    Ok(substitutions(template)?.into_iter().map(|substitution| substitution.name).collect())
}

pub(super) fn render(template: Value, resolver: &dyn BundleResolver) -> Result<Vec<Value>, TemplateError> {
    let mut documents = list(&template, "entries")?.to_vec();
    check("the entry list of the template", &documents)?;
    for substitution in substitutions(&template)? {
        let substitute = resolve(resolver, &substitution.name)?.document;
        apply(&mut documents, &substitution, substitute)?;
        let Substitution { name, base } = &substitution;
        check(&format!("the catalog with {name} as the substitute of {base}"), &documents)?;
    }
    Ok(documents)
}

fn apply(
    documents: &mut Vec<Value>,
    substitution: &Substitution,
    substitute: Value,
) -> Result<(), TemplateError> {
    let base = substitution.base.as_str();
    let mut bundles = documents.iter().filter(|document| schema(document) == "olm.bundle");
    let Some(bundle) = bundles.find(|document| text(document, "name") == base) else {
        return Err(substitution.failed("base is not a bundle of the template"));
    };
    let (old, new) = (Identity::of(bundle)?, Identity::of(&substitute)?);
    if compare(&old, &new).is_ge() {
        let (old, new) = (described(&old), described(&new));
        return Err(substitution.failed(format!("{new} is not newer than {old}")));
    }
    let channels = documents.iter_mut().filter(|document| schema(document) == "olm.channel");
    for entries in channels.filter_map(|channel| channel.get_mut("entries")?.as_array_mut()) {
        take_place(entries, base, &new.name);
    }
    documents.push(substitute);
    Ok(())
}

/// The substitute gets the edges of the base and skips it; edges from the base move to the substitute.
fn take_place(entries: &mut Vec<Value>, base: &str, substitute: &str) {
    let mut added = Vec::new();
    for entry in entries.iter_mut() {
        if text(entry, "name") == base {
            let mut taken = json!({"name": substitute});
            for key in ["replaces", "skips", "skipRange"] {
                if let Some(edge) = entry.as_object_mut().and_then(|entry| entry.shift_remove(key)) {
                    taken[key] = edge;
                }
            }
            skip(&mut taken, base);
            added.push(taken);
        } else if text(entry, "replaces") == base {
            entry["replaces"] = substitute.into();
            skip(entry, base);
        } else if let Some(skips) = entry.get_mut("skips").and_then(Value::as_array_mut)
            && skips.iter().any(|skipped| skipped == base)
        {
            skips.retain(|skipped| skipped != base);
            skips.push(substitute.into());
        }
    }
    entries.extend(added);
}

fn skip(entry: &mut Value, name: &str) {
    match entry.get_mut("skips").and_then(Value::as_array_mut) {
        Some(skips) => skips.push(name.into()),
        None => entry["skips"] = json!([name]),
    }
}

/// Versions, then releases: a release is above none, and releases are ordered like pre-releases.
pub(super) fn compare(left: &Identity, right: &Identity) -> Ordering {
    let release = |identity: &Identity| {
        // A pre-release is below none, a release is above none: the patch number inverts the order.
        let patch = u64::from(!identity.release.is_empty());
        let release =
            if identity.release.is_empty() { String::new() } else { format!("-{}", identity.release) };
        Version::parse(&format!("0.0.{patch}{release}")).unwrap_or_else(|_| Version::new(0, 0, patch))
    };
    precedence(&left.version, &right.version).then_with(|| precedence(&release(left), &release(right)))
}

fn described(identity: &Identity) -> String {
    let Identity { name, version, release, .. } = identity;
    if release.is_empty() { format!("{name} ({version})") } else { format!("{name} ({version}, {release})") }
}

/// As upstream, only a valid catalog is processed; an empty one is valid.
fn check(what: &str, documents: &[Value]) -> Result<(), TemplateError> {
    let text: String = documents.iter().map(|document| format!("{document}\n")).collect();
    let catalog = Catalog::from_bytes("template", text.as_bytes());
    let problems: Vec<_> =
        catalog.problems.into_iter().filter(|problem| problem.severity == Severity::Error).collect();
    if problems.is_empty() { Ok(()) } else { Err(TemplateError::Invalid { what: what.to_owned(), problems }) }
}

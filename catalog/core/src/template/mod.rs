//! Catalog templates: short files that name bundles by image and render to a file-based catalog.
//!
//! - `olm.template.basic`: a catalog whose bundles are images;
//! - `olm.semver`: lists of images; the channels are generated from their versions;
//! - `olm.template.substitutes`: a catalog and bundles that substitute others in it.
//!
//! [`render`] is a pure function of the template and of the results of its [`BundleResolver`] for the images;
//! [`references`] lists these images beforehand.

mod basic;
mod bundle;
mod document;
mod error;
mod semver;
mod substitutes;

use olm_bundle::fields::{self, Shape};
use olm_bundle::yaml;
use serde_json::Value;

pub use bundle::{BundleResolver, Resolved};
use document::schema;
pub use error::TemplateError;

use crate::spelling;

/// The schema of a catalog whose bundles are images.
pub const BASIC: &str = "olm.template.basic";
/// The schema of a template whose channels are generated from versions.
pub const SEMVER: &str = "olm.semver";
/// The schema of a template that substitutes bundles.
pub const SUBSTITUTES: &str = "olm.template.substitutes";

/// Renders a template to the documents of a catalog.
/// # Errors
/// [`TemplateError`]. A template is rendered completely or not at all.
pub fn render(input: &[u8], resolver: &dyn BundleResolver) -> Result<Vec<Value>, TemplateError> {
    let template = parse(input)?;
    match schema(&template) {
        BASIC => basic::render(template, resolver),
        SEMVER => semver::Template::parse(template)?.render(resolver),
        SUBSTITUTES => substitutes::render(template, resolver),
        other => Err(TemplateError::Schema(other.to_owned())),
    }
}

/// The images that a template needs, each once, in the order of the template.
/// # Errors
/// [`TemplateError`] when it is not a template.
pub fn references(input: &[u8]) -> Result<Vec<String>, TemplateError> {
    let template = parse(input)?;
    let all = match schema(&template) {
        BASIC => basic::references(&template),
        SEMVER => semver::Template::parse(template)?.references(),
        SUBSTITUTES => substitutes::references(&template)?,
        other => return Err(TemplateError::Schema(other.to_owned())),
    };
    let mut once = Vec::new();
    for reference in all {
        if !once.contains(&reference) {
            once.push(reference);
        }
    }
    Ok(once)
}

/// Upstream reads the first document of a file and ignores the others; here they are rejected.
fn parse(input: &[u8]) -> Result<Value, TemplateError> {
    let mut documents =
        yaml::documents("template", input).map_err(|error| TemplateError::Syntax(error.to_string()))?;
    match documents.len() {
        1 => spelled(documents.remove(0).value),
        count => Err(TemplateError::Documents(count)),
    }
}

static META: Shape = Shape(&[("schema", None)]);
static ENTRIES: Shape = Shape(&[("entries", None), ("substitutions", Some(&SUBSTITUTION))]);
static SUBSTITUTION: Shape = Shape(&[("name", None), ("base", None)]);

/// A template with corrected spelling of its fields: upstream's examples write `Schema` and
/// `GenerateMajorChannels`. Any other catalog document is corrected as in the loader.
pub(crate) fn spelled(mut document: Value) -> Result<Value, TemplateError> {
    fields::rename(&mut document, &META)?;
    match schema(&document) {
        SEMVER => fields::rename(&mut document, &semver::SHAPE)?,
        BASIC | SUBSTITUTES => {
            fields::rename(&mut document, &ENTRIES)?;
            let entries = document.get_mut("entries").and_then(Value::as_array_mut);
            entries.into_iter().flatten().try_for_each(spelling::normalize_case)?;
        }
        _ => spelling::normalize_case(&mut document)?,
    }
    Ok(document)
}

#[cfg(test)]
mod tests;

//! One bundle, reduced to its catalog content.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use olm_bundle::{Bundle, image_reference};
use olm_version::Version;
use serde_json::{Value, json};

use super::graph::Node;
use super::{Options, problem};
use crate::problem::{Problem, Severity};

/// A read bundle without its manifests, so that a repository of gigabytes needs the memory of one package.
#[derive(Debug, Clone)]
pub(super) struct Source {
    /// The package that the bundle names.
    pub package: String,
    pub node: Node,
    pub document: Value,
    /// `spec.description`: the package's description when this bundle is the head of the default channel.
    pub description: String,
    /// `{base64data, mediatype}`
    pub icon: Option<Value>,
    /// Its path, for problems.
    pub path: String,
}

impl Source {
    /// `image`: the known image of the bundle, otherwise by [`Options::image`]. Parts not allowed in a
    /// catalog are left out and reported.
    pub fn of(
        bundle: &Bundle,
        path: &Path,
        image: Option<&str>,
        options: &Options,
        problems: &mut Vec<Problem>,
    ) -> Option<Self> {
        let path = path.display().to_string();
        let name = bundle.name().to_owned();
        let package = bundle.package().unwrap_or_default();
        let mut reported = |severity, code, text, fix| {
            let problem = problem(severity, &path, package, code, text, fix);
            problems.push(Problem { entry: Some(name.clone()), ..problem });
        };
        if package.is_empty() {
            let text = format!("{name} is omitted: it has no package");
            let fix =
                "set it in metadata/annotations.yaml (operators.operatorframework.io.bundle.package.v1)";
            reported(Severity::Error, "bundle-no-package", text, fix);
            return None;
        }
        let text = bundle.version_text().unwrap_or_default();
        let Ok(version) = Version::parse(text) else {
            let fix = "use a semantic version such as 1.2.3";
            reported(
                Severity::Error,
                "bundle-version",
                format!("{name} is omitted: invalid spec.version {text:?}"),
                fix,
            );
            return None;
        };
        if bundle.csv_annotation("olm.substitutesFor").is_some() {
            let text = format!("{name} is omitted: olm.substitutesFor is not supported");
            let fix = "use a template with schema olm.template.substitutes";
            reported(Severity::Error, "bundle-substitutes", text, fix);
            return None;
        }
        let icon = icon(bundle);
        if let Err(reason) = &icon {
            let text = format!("{name}: spec.icon is omitted: {reason}");
            reported(Severity::Warning, "icon-invalid", text, "encode the image file in base64");
        }
        if options.strict {
            for finding in bundle.validate() {
                let severity = match finding.severity {
                    olm_bundle::Severity::Error => Severity::Error,
                    olm_bundle::Severity::Warning => Severity::Warning,
                };
                let text = format!("{name}: {}: {}", finding.field, finding.text);
                reported(severity, finding.code, text, "");
            }
        }

        let owned = |name: &str| name.to_owned();
        let node = Node {
            name: name.clone(),
            version,
            replaces: bundle.replaces().map(owned),
            skips: bundle.skips().into_iter().filter(|name| !name.is_empty()).map(owned).collect(),
            skip_range: bundle.skip_range().map(owned),
            channels: bundle.channels().into_iter().map(owned).collect(),
            default_channel: bundle.default_channel().map(owned),
            deprecated: bundle.properties.iter().any(|property| property.type_ == "olm.deprecated"),
        };
        // Without a template the manifests are inline, even if the image is known.
        let image = match (&options.image_template, image) {
            (None, _) => String::new(),
            (Some(_), Some(image)) => image.to_owned(),
            (Some(_), None) => options.image(bundle, package),
        };
        let mut document = options.document(bundle, &image);
        for image in drop_wrong_images(&mut document) {
            let text = format!("{name}: related image {image:?} is omitted: not an image reference");
            let fix = "use HOST/NAME:TAG or HOST/NAME@sha256:DIGEST, without a scheme";
            problems.push(Problem {
                entry: Some(name.clone()),
                ..problem(Severity::Warning, &path, package, "related-image-invalid", text, fix)
            });
        }
        let description = bundle.csv_raw.pointer("/spec/description").and_then(Value::as_str);
        let (description, icon) = (description.unwrap_or_default().to_owned(), icon.ok().flatten());
        Some(Self { package: package.to_owned(), node, document, description, icon, path })
    }
}

/// Removes related images for which upstream's validators reject a whole catalog. Real ones are written as a
/// URL with a scheme, or lack the digest after the `@`.
fn drop_wrong_images(document: &mut Value) -> Vec<String> {
    let Some(Value::Array(images)) = document.get_mut("relatedImages") else { return Vec::new() };
    let text = |image: &Value| image.get("image").and_then(Value::as_str).unwrap_or_default().to_owned();
    // An empty one is kept: upstream accepts it, and the catalog's check warns about it.
    let wrong =
        |image: &Value| Some(text(image)).is_some_and(|i| !i.is_empty() && image_reference(&i).is_err());
    let (dropped, kept): (Vec<Value>, Vec<Value>) = std::mem::take(images).into_iter().partition(wrong);
    *images = kept;
    dropped.iter().map(text).collect()
}

/// The first icon. Blanks in the base64 are removed, as upstream does.
pub(crate) fn icon(bundle: &Bundle) -> Result<Option<Value>, String> {
    let Some(icon) = bundle.csv_raw.pointer("/spec/icon/0") else { return Ok(None) };
    let text = |key: &str| icon.get(key).and_then(Value::as_str).unwrap_or_default();
    let data: String = text("base64data").split_whitespace().collect();
    if data.is_empty() {
        return Ok(None);
    }
    STANDARD.decode(&data).map_err(|error| format!("not base64: {error}"))?;
    Ok(Some(json!({"base64data": data, "mediatype": text("mediatype")})))
}

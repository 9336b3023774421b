//! Field names of catalog documents in another case: upstream's decoder accepts `Schema` for `schema` (see
//! [`olm_bundle::fields`]).

use olm_bundle::fields::{self, Ambiguous, Shape};
use serde_json::Value;

/// The fields of every document.
static META: Shape = Shape(&[("schema", None), ("package", None), ("name", None)]);

static PACKAGE: Shape = Shape(&[
    ("schema", None),
    ("package", None),
    ("name", None),
    ("defaultChannel", None),
    ("description", None),
    ("icon", Some(&ICON)),
    ("properties", Some(&PROPERTY)),
]);
static ICON: Shape = Shape(&[("base64data", None), ("mediatype", None)]);
static PROPERTY: Shape = Shape(&[("type", None), ("value", None)]);

static CHANNEL: Shape = Shape(&[
    ("schema", None),
    ("package", None),
    ("name", None),
    ("entries", Some(&ENTRY)),
    ("properties", Some(&PROPERTY)),
]);
static ENTRY: Shape = Shape(&[("name", None), ("replaces", None), ("skips", None), ("skipRange", None)]);

static BUNDLE: Shape = Shape(&[
    ("schema", None),
    ("package", None),
    ("name", None),
    ("image", None),
    ("properties", Some(&PROPERTY)),
    ("relatedImages", Some(&RELATED_IMAGE)),
]);
static RELATED_IMAGE: Shape = Shape(&[("name", None), ("image", None)]);

static DEPRECATIONS: Shape =
    Shape(&[("schema", None), ("package", None), ("name", None), ("entries", Some(&DEPRECATION))]);
static DEPRECATION: Shape = Shape(&[("reference", Some(&META)), ("message", None)]);

/// Shapes of the values of properties, by the type of the property.
static VALUES: [(&str, Shape); 7] = [
    ("olm.package", Shape(&[("packageName", None), ("version", None), ("release", None)])),
    ("olm.package.required", Shape(&[("packageName", None), ("versionRange", None)])),
    ("olm.gvk", GVK),
    ("olm.gvk.required", GVK),
    ("olm.label.required", Shape(&[("label", None)])),
    ("olm.bundle.object", Shape(&[("ref", None), ("data", None)])),
    (
        "olm.csv.metadata",
        Shape(&[
            ("annotations", None),
            ("apiServiceDefinitions", None),
            ("crdDescriptions", None),
            ("description", None),
            ("displayName", None),
            ("installModes", None),
            ("keywords", None),
            ("labels", None),
            ("links", None),
            ("maintainers", None),
            ("maturity", None),
            ("minKubeVersion", None),
            ("nativeAPIs", None),
            ("provider", None),
        ]),
    ),
];
const GVK: Shape = Shape(&[("group", None), ("version", None), ("kind", None)]);

/// `package.yaml` of the package-manifest format.
pub(crate) static PACKAGE_MANIFEST: Shape =
    Shape(&[("packageName", None), ("defaultChannel", None), ("channels", Some(&MANIFEST_CHANNEL))]);
static MANIFEST_CHANNEL: Shape = Shape(&[("name", None), ("currentCSV", None)]);

/// Renames the fields of a catalog document that differ from the known ones only in case.
/// # Errors
/// [`Ambiguous`] when a field occurs in two spellings.
pub(crate) fn normalize_case(document: &mut Value) -> Result<(), Ambiguous> {
    fields::rename(document, &META)?;
    let shape = match document.get("schema").and_then(Value::as_str) {
        Some("olm.package") => &PACKAGE,
        Some("olm.channel") => &CHANNEL,
        Some("olm.bundle") => &BUNDLE,
        Some("olm.deprecations") => &DEPRECATIONS,
        _ => return Ok(()),
    };
    fields::rename(document, shape)?;
    let properties = document.get_mut("properties").and_then(Value::as_array_mut);
    for property in properties.into_iter().flatten() {
        let type_ = property.get("type").and_then(Value::as_str).unwrap_or_default();
        let shape = VALUES.iter().find(|(known, _)| *known == type_);
        if let (Some((_, shape)), Some(value)) = (shape, property.get_mut("value")) {
            fields::rename(value, shape)?;
        }
    }
    Ok(())
}

/// Whether a key is one of the fields above in another case, at any place in a document. A key of user data,
/// such as a label, may be one, too: [`normalize_case`] renames only fields at their places.
pub(crate) fn is_miscased(key: &str) -> bool {
    let fields: &[&str] = match key.len() {
        3 => &["ref"],
        4 => &["name", "icon", "type", "data", "kind"],
        5 => &["image", "value", "skips", "label", "group", "links"],
        6 => &["schema", "labels"],
        7 => &["package", "entries", "message", "version", "release"],
        8 => &["replaces", "keywords", "provider", "maturity"],
        9 => &["mediatype", "skipRange", "reference"],
        10 => &["base64data", "properties", "nativeAPIs"],
        11 => &["description", "annotations", "displayName", "maintainers", "packageName"],
        12 => &["versionRange", "installModes"],
        13 => &["relatedImages"],
        14 => &["defaultChannel", "minKubeVersion"],
        15 => &["crdDescriptions"],
        21 => &["apiServiceDefinitions"],
        _ => return false,
    };
    fields.iter().any(|field| field.eq_ignore_ascii_case(key) && *field != key)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Every field of the shapes, to verify that the table of [`is_miscased`] is complete.
    fn all<'a>(shape: &'a Shape, found: &mut Vec<&'a str>) {
        for (name, inner) in shape.0 {
            found.push(name);
            if let Some(inner) = inner {
                all(inner, found);
            }
        }
    }

    #[test]
    fn every_field_in_another_case_is_noticed() {
        let mut fields = Vec::new();
        [&PACKAGE, &CHANNEL, &BUNDLE, &DEPRECATIONS].iter().for_each(|shape| all(shape, &mut fields));
        VALUES.iter().for_each(|(_, shape)| all(shape, &mut fields));
        for field in fields {
            assert!(is_miscased(&field.to_ascii_uppercase()), "{field}");
            assert!(!is_miscased(field), "{field}");
        }
    }

    #[test]
    fn fields_are_renamed_at_their_places_alone() {
        let mut bundle = json!({
            "Schema": "olm.bundle",
            "Name": "a.v1.0.0",
            "Properties": [
                {"Type": "olm.package", "Value": {"PackageName": "a", "Version": "1.0.0"}},
                {"type": "custom", "value": {"Name": "stays"}},
            ],
            "RelatedImages": [{"Image": "i"}],
            "Labels": {"Name": "stays"},
        });
        normalize_case(&mut bundle).unwrap();
        assert_eq!(
            bundle,
            json!({
                "schema": "olm.bundle",
                "name": "a.v1.0.0",
                "properties": [
                    {"type": "olm.package", "value": {"packageName": "a", "version": "1.0.0"}},
                    {"type": "custom", "value": {"Name": "stays"}},
                ],
                "relatedImages": [{"image": "i"}],
                "Labels": {"Name": "stays"},
            })
        );
    }
}

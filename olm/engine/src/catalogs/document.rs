//! A bundle with its manifests inside, as one document of a catalog: the format in which bundles of images
//! are cached and served.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use olm_bundle::{Bundle, Manifests, render_fbc_with};
use serde_json::Value;

/// The property that names the package of a bundle.
const PACKAGE: &str = "operators.operatorframework.io.bundle.package.v1";

/// The `olm.bundle` document of a bundle as its catalog names it.
///
/// # Errors
/// When the image contains another bundle than the catalog names.
pub fn of(bundle: &Bundle, name: &str, package: &str, image: &str) -> Result<Vec<u8>, String> {
    if bundle.name() != name {
        return Err(format!("unexpected bundle {}, expected {name}", bundle.name()));
    }
    let mut document = render_fbc_with(bundle, image, Manifests::Objects);
    document["package"] = package.into();
    serde_json::to_vec(&document).map_err(|error| error.to_string())
}

/// The bundle of a document.
///
/// # Errors
/// What is wrong with the document.
pub fn bundle(document: &[u8]) -> Result<Bundle, String> {
    let document: Value = serde_json::from_slice(document).map_err(|error| error.to_string())?;
    let properties = document["properties"].as_array().map(Vec::as_slice).unwrap_or_default();
    let objects = properties.iter().filter(|property| property["type"] == "olm.bundle.object");
    let object = |property: &Value| {
        let data = property["value"]["data"].as_str().ok_or("olm.bundle.object: data is missing")?;
        let bytes = BASE64_STANDARD.decode(data).map_err(|error| error.to_string())?;
        serde_json::from_slice(&bytes).map_err(|error| error.to_string())
    };
    let objects = objects.map(object).collect::<Result<Vec<Value>, String>>()?;
    let mut bundle = Bundle::from_objects(objects).map_err(|error| error.to_string())?;
    let package = document["package"].as_str().unwrap_or_default();
    bundle.annotations.insert(PACKAGE.to_owned(), package.to_owned());
    Ok(bundle)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn etcd() -> Bundle {
        let catalog = olm_catalog::shipped();
        let package = catalog.package("etcd").unwrap().unwrap();
        package.head().unwrap().bundle().unwrap()
    }

    #[test]
    fn a_bundle_survives_the_way_through_a_document() {
        let bundle = etcd();
        let document = of(&bundle, bundle.name(), "etcd", "example.com/etcd@sha256:1").unwrap();
        let back = self::bundle(&document).unwrap();
        assert_eq!(back.csv_raw, bundle.csv_raw);
        assert_eq!(back.objects.len(), bundle.objects.len());
        assert_eq!(back.package(), Some("etcd"));
    }

    #[test]
    fn an_image_with_another_bundle_is_refused() {
        let error = of(&etcd(), "other.v1", "etcd", "x").unwrap_err();
        assert!(error.contains("other.v1") && error.contains("etcdoperator"), "{error}");
    }

    #[test]
    fn what_is_no_document_is_refused() {
        assert!(bundle(b"{").is_err());
        assert!(bundle(br#"{"properties":[{"type":"olm.bundle.object","value":{"data":"!"}}]}"#).is_err());
        assert!(bundle(b"{}").is_err());
    }
}

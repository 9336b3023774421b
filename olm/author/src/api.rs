//! An API of a project.

use crate::names::{self, InvalidName};

/// The words of `olm create api`.
#[derive(Debug, Clone, Copy, Default)]
pub struct ApiRequest<'a> {
    pub group: Option<&'a str>,
    pub version: &'a str,
    pub kind: &'a str,
    pub plural: Option<&'a str>,
    /// Image of the example object.
    pub image: Option<&'a str>,
}

/// An API with valid names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Api {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub plural: String,
    /// The module with the code of the kind: the kind in lower case.
    pub module: String,
    pub image: String,
    /// Why the group is not the one of operator-sdk.
    pub note: Option<String>,
}

impl Api {
    /// # Errors
    /// A name is not valid.
    pub fn new(request: &ApiRequest<'_>, domain: &str) -> Result<Self, InvalidName> {
        let kind = names::kind(request.kind)?;
        let version = names::version(request.version)?;
        let (group, note) = group(request.group, domain)?;
        let plural = request.plural.map_or_else(|| Ok(names::default_plural(&kind)), names::plural)?;
        // A default may exceed the limit that its kind just meets.
        let plural = names::plural(&plural)?;
        let module = kind.to_lowercase();
        let image = request.image.map_or_else(|| Ok(format!("{module}:latest")), names::image)?;
        Ok(Self { group, version, kind, plural, module, image, note })
    }

    /// `shops.example.com/v1alpha1, kind Shop`.
    #[must_use]
    pub fn describe(&self) -> String {
        format!("{}.{}/{}, kind {}", self.plural, self.group, self.version, self.kind)
    }
}

/// The API group: the domain, a full name, or a label of the domain. A label that repeats the domain's first
/// label is the domain, unlike in operator-sdk; then there is a note.
fn group(requested: Option<&str>, domain: &str) -> Result<(String, Option<String>), InvalidName> {
    let Some(requested) = requested else { return Ok((names::group(domain)?, None)) };
    if requested.contains('.') {
        return Ok((names::group(requested)?, None));
    }
    let label = names::group_label(requested, domain)?;
    if domain.split('.').next() != Some(label.as_str()) {
        return Ok((names::group(&format!("{label}.{domain}"))?, None));
    }
    let note = format!(
        "group {label} repeats the domain: the API group is {domain}, not {label}.{domain} (for that: --group {label}.{domain})"
    );
    Ok((names::group(domain)?, Some(note)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(group: Option<&str>) -> ApiRequest<'_> {
        ApiRequest { group, version: "v1alpha1", kind: "MyApp", ..ApiRequest::default() }
    }

    #[test]
    fn a_group_is_the_domain_a_full_name_or_a_label_of_the_domain() {
        for (requested, domain, expected, has_note) in [
            (None, "example.com", "example.com", false),
            (Some("example.org.foo"), "example.com", "example.org.foo", false),
            (Some("shop"), "example.com", "shop.example.com", false),
            (Some("example"), "example.com", "example.com", true),
            (Some("example.example.com"), "example.com", "example.example.com", false),
        ] {
            let api = Api::new(&request(requested), domain).unwrap();
            assert_eq!((api.group.as_str(), api.note.is_some()), (expected, has_note), "{requested:?}");
        }
        assert!(Api::new(&request(Some("")), "example.com").is_err());
        assert!(Api::new(&request(None), "apps.k8s.io").is_err());
    }

    #[test]
    fn names_that_are_absent_follow_from_the_kind() {
        let api = Api::new(&request(None), "example.com").unwrap();
        assert_eq!(
            (api.plural.as_str(), api.module.as_str(), api.image.as_str()),
            ("myapps", "myapp", "myapp:latest")
        );
        assert_eq!(api.describe(), "myapps.example.com/v1alpha1, kind MyApp");
        let plural = "s".repeat(64);
        assert!(Api::new(&ApiRequest { plural: Some(&plural), ..request(None) }, "example.com").is_err());
    }
}

//! Options of a catalog build.

use olm_bundle::{Bundle, Manifests, render_fbc_with};
use serde_json::Value;

/// How a catalog is built from bundles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Image reference of each bundle, such as `registry.example/{package}:v{version}`; `{package}`,
    /// `{version}` and `{name}` are replaced. Without it every manifest is inline, so that the catalog needs
    /// no image.
    pub image_template: Option<String>,
    /// Handling of a bundle that replaces a missing one. `false` keeps its edge as written, which upstream
    /// rejects; older bundles are then out of the channel. `true` lets it replace the highest older bundle
    /// that names the same channel.
    pub bridge_gaps: bool,
    /// Fail on any problem: for authors; users load the valid rest.
    pub strict: bool,
    /// The target catalog where an operator has one template for each (`catalog_names` in `ci.yaml`), such as
    /// `v4.20`; the newest by default.
    pub catalog: Option<String>,
}

impl Options {
    /// The image of a bundle; `""` where the manifests are inline.
    pub(super) fn image(&self, bundle: &Bundle, package: &str) -> String {
        let Some(template) = &self.image_template else { return String::new() };
        // A tag cannot contain the `+` of build metadata; other tools write `_` for it.
        let version = bundle.version_text().unwrap_or_default().replace('+', "_");
        template.replace("{package}", package).replace("{version}", &version).replace("{name}", bundle.name())
    }

    /// The `olm.bundle` document of a bundle.
    pub(super) fn document(&self, bundle: &Bundle, image: &str) -> Value {
        let manifests = if image.is_empty() { Manifests::Objects } else { Manifests::Metadata };
        render_fbc_with(bundle, image, manifests)
    }
}

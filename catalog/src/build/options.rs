//! What is made of bundles.

use olm_bundle::{Bundle, Manifests, render_fbc_with};
use serde_json::Value;

/// How a catalog is made of bundles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Where the image of each bundle is, such as `registry.example/{package}:v{version}`; `{package}`,
    /// `{version}` and `{name}` are replaced. Without it every manifest is inline, so that the catalog needs
    /// no image.
    pub image_template: Option<String>,
    /// What happens where a bundle replaces one that is not there. `false` keeps its edge as it is written,
    /// which upstream refuses; what is older is then out of the channel. `true` lets it replace the highest
    /// older bundle that names the same channel.
    pub bridge_gaps: bool,
    /// Authors want every problem to fail; users want what is right to load.
    pub strict: bool,
    /// Which catalog is meant where an operator keeps one template for each (`catalog_names` in `ci.yaml`),
    /// such as `v4.20`; the newest by default.
    pub catalog: Option<String>,
}

impl Options {
    /// The image of a bundle; `""` where the manifests are inline.
    pub(super) fn image(&self, bundle: &Bundle, package: &str) -> String {
        let Some(template) = &self.image_template else { return String::new() };
        // A tag cannot hold the `+` of build metadata; `_` is what other tools write for it.
        let version = bundle.version_text().unwrap_or_default().replace('+', "_");
        template.replace("{package}", package).replace("{version}", &version).replace("{name}", bundle.name())
    }

    /// The `olm.bundle` document of a bundle.
    pub(super) fn document(&self, bundle: &Bundle, image: &str) -> Value {
        let manifests = if image.is_empty() { Manifests::Objects } else { Manifests::Metadata };
        render_fbc_with(bundle, image, manifests)
    }
}

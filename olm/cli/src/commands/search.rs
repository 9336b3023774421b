//! `olm search`.

use olm_catalog::Summary;
use serde::Serialize;

use super::catalogs;
use crate::{
    args::{Global, SearchArgs},
    exit::Failure,
    output::Listing,
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    package: String,
    display_name: String,
    version: String,
    channel: String,
    catalog: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    provider: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    capability: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    categories: Vec<String>,
    why: String,
    #[serde(skip)]
    score: u32,
}

pub async fn run(global: &Global, args: SearchArgs) -> Result<(), Failure> {
    let catalogs = catalogs::read(global, &args.source).await?;
    let text = args.text.join(" ");
    let mut found: Vec<Found> = Vec::new();
    for loaded in &catalogs {
        for hit in loaded.catalog.search(&text) {
            let Some(package) = loaded.catalog.summary(&hit.package) else { continue };
            if !fits(package, &args) {
                continue;
            }
            found.push(Found {
                display_name: package.display_name.clone(),
                version: package.head.as_ref().map(|head| head.version.clone()).unwrap_or_default(),
                channel: package.default_channel.clone(),
                catalog: loaded.reference.name.clone(),
                provider: package.provider.clone(),
                capability: package.capability.clone(),
                categories: package.categories.clone(),
                package: hit.package,
                why: hit.why,
                score: hit.score,
            });
        }
    }
    // Best match first across catalogs; ties are ordered by name, so that the order is deterministic.
    found.sort_by(|a, b| b.score.cmp(&a.score).then_with(|| a.package.cmp(&b.package)));
    Listing {
        items: &found,
        columns: &[
            ("PACKAGE", |f| f.package.clone()),
            ("DISPLAY", |f| f.display_name.clone()),
            ("VERSION", |f| f.version.clone()),
            ("CHANNEL", |f| f.channel.clone()),
            ("CATALOG", |f| f.catalog.clone()),
            ("WHY", |f| f.why.clone()),
        ],
        wide: &[
            ("PROVIDER", |f| f.provider.clone()),
            ("CAPABILITY", |f| f.capability.clone()),
            ("CATEGORIES", |f| f.categories.join(", ")),
        ],
        name: |f| f.package.clone(),
        empty: "No packages found.",
    }
    .print(&args.out)
}

/// Whether a package has the requested kind, category and capability level; case does not matter.
fn fits(package: &Summary, args: &SearchArgs) -> bool {
    let equal = |wanted: &Option<String>, value: &str| {
        wanted.as_ref().is_none_or(|wanted| wanted.trim().eq_ignore_ascii_case(value))
    };
    let kinds = package.head.iter().flat_map(|head| &head.kinds);
    let mut kinds = kinds.chain(package.provides.iter().map(|gvk| &gvk.kind));
    (args.kind.is_none() || kinds.any(|kind| equal(&args.kind, kind)))
        && (args.category.is_none() || package.categories.iter().any(|name| equal(&args.category, name)))
        && equal(&args.capability, &package.capability)
}

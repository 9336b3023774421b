//! `olm versions`.

use olm_catalog::PackageVersion;

use super::catalogs;
use crate::{
    args::{Global, PackageArgs},
    context,
    exit::Failure,
    names,
    output::Listing,
};

pub async fn run(global: &Global, args: PackageArgs) -> Result<(), Failure> {
    let catalogs = catalogs::read(global, &args.source).await?;
    let (_, package) = catalogs::find(&catalogs, &args.package).await?;
    if let Some(channel) = args.channel.as_deref().filter(|channel| !package.channels.contains_key(*channel))
    {
        return Err(Failure::from(&package.nearest_channel(channel)));
    }
    let installed = match args.source.catalog_dir {
        Some(_) => None,
        None => {
            names::keep_versions(global, &package);
            installed(global, &args.package).await
        }
    };
    let installed: Vec<&str> = installed.as_deref().into_iter().collect();
    let items = package.versions(args.channel.as_deref(), &installed);
    Listing {
        items: &items,
        columns: &[
            ("VERSION", |v| v.version.clone()),
            ("CHANNELS", |v| v.channels.join(", ")),
            ("BUNDLE", |v| v.name.clone()),
            ("STATUS", PackageVersion::status),
        ],
        wide: &[
            ("UPGRADES FROM", |v| v.upgrades_from.join(", ")),
            ("IMAGE", |v| v.image.clone().unwrap_or_default()),
        ],
        name: |v| v.name.clone(),
        empty: "No versions found.",
    }
    .print(&args.out)
}

/// The installed bundle, as far as the caller may read it: the versions are shown without it too.
async fn installed(global: &Global, package: &str) -> Option<String> {
    let client = context::connect(global).await.ok()?;
    olm_ops::find_installed(&client, global.namespace.as_deref(), package).await.ok()?.csv
}

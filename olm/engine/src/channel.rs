//! The channel that a Subscription followed before. Pure.

use std::borrow::Borrow;

use kube::ResourceExt;
use olm_api::Subscription;
use olm_catalog::Package;
use olm_resolver::Resolved;

/// The channel that was followed before the chosen one, if it was another. It comes from the Subscription on
/// the cluster when the given one is not applied yet; otherwise from the installed bundle, when that is not
/// in the current channel.
pub(super) fn before(
    subscription: &Subscription,
    on_cluster: &[impl Borrow<Subscription>],
    package: &Package,
    resolved: &Resolved,
) -> Option<String> {
    let chosen = resolved.chosen.channel.as_str();
    let installed = resolved.from.as_ref()?;
    let same =
        |s: &&Subscription| s.name_any() == subscription.name_any() && s.spec.name == subscription.spec.name;
    if let Some(live) = on_cluster.iter().map(Borrow::borrow).find(same) {
        let followed = live.spec.channel.as_deref().unwrap_or(&package.default_channel);
        if followed != chosen {
            return Some(followed.to_owned());
        }
    }
    let has = |name: &str| {
        package.channels.get(name).is_some_and(|channel| channel.entry(&installed.name).is_some())
    };
    if has(chosen) {
        return None;
    }
    if has(&package.default_channel) {
        return Some(package.default_channel.clone());
    }
    package.channels.keys().find(|name| has(name)).cloned()
}

#[cfg(test)]
mod tests {
    use olm_api::SubscriptionSpec;
    use olm_resolver::{Action, CatalogRef, ChosenBundle, InstalledRef};

    use super::*;

    const CATALOG: &str = "---\n{schema: olm.package, name: p, defaultChannel: stable}\n---\n\
        {schema: olm.channel, package: p, name: stable, entries: [{name: p.v1}]}\n---\n\
        {schema: olm.channel, package: p, name: fast, entries: [{name: p.v2, replaces: p.v1}]}\n---\n\
        {schema: olm.channel, package: p, name: old, entries: [{name: p.v0}]}\n---\n\
        {schema: olm.bundle, package: p, name: p.v0, image: 'localhost/p:0', properties: [{type: olm.package, value: {packageName: p, version: 0.0.1}}]}\n---\n\
        {schema: olm.bundle, package: p, name: p.v1, image: 'localhost/p:1', properties: [{type: olm.package, value: {packageName: p, version: 1.0.0}}]}\n---\n\
        {schema: olm.bundle, package: p, name: p.v2, image: 'localhost/p:2', properties: [{type: olm.package, value: {packageName: p, version: 2.0.0}}]}\n";

    fn following(channel: Option<&str>) -> Subscription {
        let channel = channel.map(str::to_owned);
        Subscription::new("p", SubscriptionSpec { name: "p".into(), channel, ..SubscriptionSpec::default() })
    }

    fn found(
        subscription: Option<&str>,
        live: &[Subscription],
        installed: Option<&str>,
        chosen: &str,
    ) -> Option<String> {
        let catalog = olm_catalog::Catalog::from_bytes("test", CATALOG.as_bytes());
        let package = catalog.package("p").unwrap().unwrap_or_else(|| panic!("{:?}", catalog.problems));
        let resolved = Resolved {
            subscription: "ns/p".into(),
            action: Action::None,
            chosen: ChosenBundle {
                catalog: CatalogRef::new("olm", "c"),
                package: "p".into(),
                channel: chosen.into(),
                name: "p.v2".into(),
                version: None,
            },
            from: installed.map(|name| InstalledRef { name: name.into(), version: None }),
            path: vec![],
            why: String::new(),
            rejected: vec![],
            dependencies: vec![],
            deprecations: vec![],
        };
        before(&following(subscription), live, &package, &resolved)
    }

    #[test]
    fn a_wish_is_compared_with_what_is_on_the_cluster() {
        let live = [following(Some("stable"))];
        assert_eq!(found(Some("fast"), &live, Some("p.v1"), "fast").as_deref(), Some("stable"));
        assert_eq!(found(Some("stable"), &live, Some("p.v1"), "stable"), None);
        // without a channel it is the default one
        assert_eq!(found(Some("fast"), &[following(None)], Some("p.v1"), "fast").as_deref(), Some("stable"));
        // nothing was installed: no change of channel
        assert_eq!(found(Some("fast"), &live, None, "fast"), None);
    }

    #[test]
    fn the_installed_bundle_determines_its_channel() {
        // the Subscription was changed already
        let live = [following(Some("fast"))];
        assert_eq!(found(Some("fast"), &live, Some("p.v1"), "fast").as_deref(), Some("stable"));
        assert_eq!(found(Some("fast"), &live, Some("p.v0"), "fast").as_deref(), Some("old"));
        assert_eq!(found(Some("fast"), &live, Some("p.v2"), "fast"), None);
        // the catalog may have dropped it
        assert_eq!(found(Some("fast"), &live, Some("gone"), "fast"), None);
    }
}

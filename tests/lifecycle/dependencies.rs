//! Dependencies of an operator: chosen, installed with Subscriptions of their own, upgraded.

use anyhow::ensure;
use olm_tests::inprocess::{Catalog, OLM, Operator, condition, crd, text};
use serde_json::Value;

use crate::{a_crd, op, scenario};

/// SUB-16
#[test]
fn an_api_without_a_provider_is_reported_until_one_exists() {
    scenario(async |world, _manager| {
        let b = Operator::new("b", "1.0.0").needs("as", "a.example.com", "A", "v1");
        world.publish("catalog", &Catalog::chain(&[&b])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "b").await?;
        let failed = world.condition("Subscription", "ns", "b", "ResolutionFailed", "").await?;
        ensure!(text(&failed, "/message").contains("a.example.com"), "{failed}");
        ensure!(world.list("ClusterServiceVersion", "ns").await?.is_empty(), "half installed");
        // when the catalog has a provider
        let a = op("1.0.0").owns(a_crd(&["v1"]));
        world.publish("catalog", &Catalog::chain(&[&b]).and_chain(&[&a])).await?;
        // then
        world.installed("ns", "b", "b.v1.0.0").await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await?;
        let subscription = world.get("Subscription", "ns", "b").await?;
        ensure!(
            condition(&subscription, "ResolutionFailed").is_none_or(|c| c["status"] == "False"),
            "{subscription}"
        );
        Ok(())
    });
}

/// SUB-12, IP-6: dependencies come from any catalog, each with its own Subscription.
#[test]
fn dependencies_are_installed_with_subscriptions_of_their_own() {
    scenario(async |world, _manager| {
        let a = op("1.0.0").owns(a_crd(&["v1"]));
        let b =
            Operator::new("b", "1.0.0").needs("as", "a.example.com", "A", "v1").needs_package("c", ">=1.0.0");
        let c = Operator::new("c", "1.2.0");
        world.publish("catalog", &Catalog::chain(&[&b])).await?;
        world.publish("others", &Catalog::chain(&[&a]).and_chain(&[&c])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "b").await?;
        world.installed("ns", "b", "b.v1.0.0").await?;
        for name in ["a.v1.0.0", "c.v1.2.0"] {
            world.csv("ns", name, "Succeeded").await?;
        }
        for package in ["a", "c"] {
            let name = format!("{package}-stable-others-{OLM}");
            let subscription = world
                .until("Subscription", "ns", &name, |s| text(s, "/status/state") == "AtLatestKnown")
                .await?;
            ensure!(text(&subscription, "/spec/name") == package, "{}", subscription["spec"]);
        }
        Ok(())
    });
}

/// SUB-1
#[test]
fn the_newest_provider_of_an_api_is_chosen_though_one_between_lacks_it() {
    scenario(async |world, _manager| {
        let (one, two, three) =
            (op("1.0.0").owns(a_crd(&["v1"])), op("2.0.0"), op("3.0.0").owns(a_crd(&["v1"])));
        let b = Operator::new("b", "1.0.0").needs("as", "a.example.com", "A", "v1");
        world.publish("catalog", &Catalog::chain(&[&one, &two, &three]).and_chain(&[&b])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "b").await?;
        world.installed("ns", "b", "b.v1.0.0").await?;
        world.csv("ns", "a.v3.0.0", "Succeeded").await.map(drop)
    });
}

/// SUB-13: the dependency of the new version is installed before the new version.
#[test]
fn an_upgrade_brings_its_new_dependency() {
    scenario(async |world, _manager| {
        let b1 = Operator::new("b", "1.0.0");
        let b2 = Operator::new("b", "2.0.0").needs("as", "a.example.com", "A", "v1");
        let a = op("1.0.0").owns(a_crd(&["v1"]));
        world.publish("catalog", &Catalog::chain(&[&b1]).and_chain(&[&a])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "b").await?;
        world.installed("ns", "b", "b.v1.0.0").await?;
        world.publish("catalog", &Catalog::chain(&[&b1, &b2]).and_chain(&[&a])).await?;
        world.installed("ns", "b", "b.v2.0.0").await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await.map(drop)
    });
}

/// SUB-14: dependencies come from the parent's catalog first, then by priority, then from the own namespace,
/// then by name.
#[test]
fn dependencies_come_from_the_right_catalog() {
    let named = |name: &str| Operator::named("a", "1.0.0", name).owns(a_crd(&["v1"]));
    let x = Operator::new("x", "1.0.0").needs("as", "a.example.com", "A", "v1");
    let own = Catalog::chain(&[&x]).and_chain(&[&named("a.own")]);
    let others = Catalog::chain(&[&x]);
    // (the parent's catalog, whether there is one of a higher priority, one of the namespace itself, the
    // choice)
    for (parents, high, near, chosen) in [
        (own, true, true, "a.own"),
        (others.clone(), true, true, "a.high"),
        (others.clone(), false, true, "a.near"),
        (others, false, false, "a.beta"),
    ] {
        scenario(async move |world, _manager| {
            world.home("ns").await?;
            world.publish("zeta", &Catalog::chain(&[&named("a.zeta")])).await?;
            if near {
                world.publish_in("ns", "zulu", &[&named("a.near")]).await?;
            }
            world.publish("beta", &Catalog::chain(&[&named("a.beta")])).await?;
            if high {
                world
                    .publish_with("high", &Catalog::chain(&[&named("a.high")]), |s| {
                        s["spec"]["priority"] = 100.into()
                    })
                    .await?;
            }
            for source in world.names("CatalogSource", OLM).await? {
                let ready = |s: &Value| text(s, "/status/connectionState/lastObservedState") == "READY";
                world.until("CatalogSource", OLM, &source, ready).await?;
            }
            world.publish("catalog", &parents).await?;
            world.subscribe("ns", "x").await?;
            world.installed("ns", "x", "x.v1.0.0").await?;
            world.csv("ns", chosen, "Succeeded").await.map(drop)
        });
    }
}

/// SUB-15: an API moves between two operators that are upgraded together.
#[test]
fn an_api_moves_from_one_operator_to_another() {
    scenario(async |world, _manager| {
        let second = || crd("bs", "b.example.com", "B", &["v1"]);
        let a1 = op("1.0.0").owns(a_crd(&["v1"]));
        let b1 = Operator::new("b", "1.0.0").owns(second()).needs("as", "a.example.com", "A", "v1");
        world.publish("catalog", &Catalog::chain(&[&a1]).and_chain(&[&b1])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.subscribe("ns", "b").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        world.installed("ns", "b", "b.v1.0.0").await?;
        // when the next versions have it swapped
        let a2 = op("1.0.1").needs("as", "a.example.com", "A", "v1");
        let b2 = Operator::new("b", "1.0.1").owns(second()).owns(a_crd(&["v1"]));
        world.publish("catalog", &Catalog::chain(&[&a1, &a2]).and_chain(&[&b1, &b2])).await?;
        world.installed("ns", "a", "a.v1.0.1").await?;
        world.installed("ns", "b", "b.v1.0.1").await
    });
}

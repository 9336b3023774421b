//! T22: InstallPolicies that require signatures of the images that a plan uses.

use anyhow::{Result, ensure};
use olm_manager::Options;
use olm_tests::inprocess::{Catalog, Manager, OLM, Operator, Registry, World, entry, text};
use rcgen::KeyPair;
use serde_json::{Value, json};

use crate::{op, run};

/// A registry, a manager that reaches it, and the trusted key.
struct Signed {
    world: World,
    registry: Registry,
    _manager: Manager,
    key: KeyPair,
}

impl Signed {
    async fn start() -> Result<Self> {
        let world = World::bare().await?;
        let registry = Registry::start().await?;
        let options =
            Options { registries: registry.settings(world.folder())?, ..world.options("manager-0") };
        let manager = world.manager_with(options)?;
        let signed = Self { world, registry, _manager: manager, key: KeyPair::generate()? };
        signed.require("signed", &signed.registry.reference("")).await?;
        Ok(signed)
    }

    /// A policy that requires the key of some images.
    async fn require(&self, name: &str, images: &str) -> Result<()> {
        let rule = json!({ "images": [images], "anyOf": [{ "key": self.key.public_key_pem() }] });
        let policy = json!({ "apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPolicy",
            "metadata": { "name": name }, "spec": { "signatures": [rule] } });
        self.world.apply(&policy).await.map(drop)
    }

    fn pinned(&self, repository: &str, digest: &str) -> String {
        self.registry.reference(&format!("{repository}@{digest}"))
    }

    fn operator_image(&self, repository: &str, key: Option<&KeyPair>) -> Result<String> {
        let digest = self.registry.push_image(repository, "1")?;
        if let Some(key) = key {
            self.registry.sign(repository, &digest, key)?;
        }
        Ok(self.pinned(repository, &digest))
    }

    /// A package whose bundle is an image, signed with a key.
    fn by_image(&self, catalog: Catalog, operator: &Operator, key: Option<&KeyPair>) -> Result<Catalog> {
        let repository = format!("bundles/{}", operator.package);
        let digest = self.registry.push_bundle(&repository, "1", operator)?;
        if let Some(key) = key {
            self.registry.sign(&repository, &digest, key)?;
        }
        let mut document = operator.document();
        let properties = document["properties"].as_array().cloned().unwrap_or_default();
        document["properties"] =
            properties.into_iter().filter(|property| property["type"] != "olm.bundle.object").collect();
        document["image"] = self.pinned(&repository, &digest).into();
        let package = &operator.package;
        Ok(catalog
            .package(package, "stable")
            .channel(package, "stable", vec![entry(&operator.name)])
            .document(document))
    }

    /// A CatalogSource whose image is signed with a key.
    async fn serve(&self, name: &str, catalog: &Catalog, key: Option<&KeyPair>) -> Result<()> {
        let repository = format!("catalogs/{name}");
        let digest = self.registry.push_catalog(&repository, "1", catalog.documents())?;
        if let Some(key) = key {
            self.registry.sign(&repository, &digest, key)?;
        }
        let source = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": { "name": name, "namespace": OLM },
            "spec": { "sourceType": "grpc", "image": self.registry.reference(&format!("{repository}:1")) },
        });
        self.world.apply(&source).await?;
        let ready = |source: &Value| text(source, "/status/connectionState/lastObservedState") == "READY";
        self.world.until("CatalogSource", OLM, name, ready).await.map(drop)
    }

    /// Why a package is not installed.
    async fn refused(&self, package: &str, code: &str) -> Result<String> {
        let why = self.world.condition("Subscription", package, package, "ResolutionFailed", code).await?;
        ensure!(self.world.list("ClusterServiceVersion", package).await?.is_empty(), "it was installed");
        Ok(text(&why, "/message").to_owned())
    }
}

#[test]
fn t22_a_policy_requires_signatures_of_every_image_that_a_plan_uses() {
    run(async {
        // given a signed catalog, with one fully signed operator and others that each lack one signature
        let at = Signed::start().await?;
        let (world, key, other) = (&at.world, Some(&at.key), KeyPair::generate()?);
        let good = Operator::new("good", "1.0.0").image(&at.operator_image("good", key)?);
        let tag = Operator::new("tag", "1.0.0").image(&at.registry.reference("good:1"));
        let wrong = Operator::new("wrong", "1.0.0").image(&at.operator_image("wrong", Some(&other))?);
        let bundle = Operator::new("bundle", "1.0.0").image(&at.operator_image("good", key)?);
        let mut catalog = Catalog::new();
        for (operator, key) in [(&good, key), (&tag, key), (&wrong, key), (&bundle, None)] {
            catalog = at.by_image(catalog, operator, key)?;
        }
        at.serve("catalog", &catalog, key).await?;

        // when all are requested
        for package in ["good", "tag", "wrong", "bundle"] {
            world.home(package).await?;
            world.subscribe(package, package).await?;
        }

        // then the first is installed, and the others are refused with the image and the reason
        world.installed("good", "good", "good.v1.0.0").await?;
        let why = at.refused("tag", "ImageNotSigned").await?;
        ensure!(
            why.contains("operator image") && why.contains("NoDigest") && why.contains("good:1"),
            "{why}"
        );
        let why = at.refused("wrong", "ImageNotSigned").await?;
        ensure!(why.contains("InstallPolicy signed") && why.contains("WrongKey"), "{why}");
        let why = at.refused("bundle", "ImageNotSigned").await?;
        ensure!(why.contains("bundle image") && why.contains("NotSigned"), "{why}");
        Ok(())
    });
}

#[test]
fn t22_the_image_of_the_catalog_counts_as_well() {
    run(async {
        // given manifests inside of a catalog whose image is not signed
        let at = Signed::start().await?;
        let a = op("1.0.0").image(&at.operator_image("a", Some(&at.key))?);
        at.serve("catalog", &Catalog::chain(&[&a]), None).await?;
        at.world.home("a").await?;
        at.world.subscribe("a", "a").await?;
        let why = at.refused("a", "ImageNotSigned").await?;
        ensure!(why.contains("catalog image") && why.contains("catalogs/catalog"), "{why}");
        // when the rule is only for other images, then it is installed
        at.require("signed", &at.registry.reference("a")).await?;
        at.world.installed("a", "a", "a.v1.0.0").await
    });
}

#[test]
fn t22_a_registry_that_is_away_is_not_taken_for_one_without_signatures() {
    run(async {
        // given a policy for images of a registry that does not answer
        let at = Signed::start().await?;
        at.require("away", "127.0.0.1:1/a").await?;
        let image = format!("127.0.0.1:1/a@sha256:{}", "0".repeat(64));
        at.world.publish("catalog", &Catalog::chain(&[&op("1.0.0").image(&image)])).await?;
        at.world.home("a").await?;
        at.world.subscribe("a", "a").await?;
        // then the plan waits, and reports for what
        let why = at.refused("a", "SignatureUnknown").await?;
        ensure!(why.contains("failed to read its signatures") && why.contains("127.0.0.1:1"), "{why}");
        Ok(())
    });
}

#[test]
fn t22_what_is_installed_is_left_alone_and_a_version_by_hand_is_refused() {
    run(async {
        // given an operator installed before there was a policy
        let at = Signed::start().await?;
        at.world.delete("InstallPolicy", "", "signed").await?;
        let a = op("1.0.0").image(&at.operator_image("a", None)?);
        at.world.publish("catalog", &Catalog::chain(&[&a])).await?;
        at.world.home("a").await?;
        at.world.subscribe("a", "a").await?;
        at.world.installed("a", "a", "a.v1.0.0").await?;
        // when a policy is added, then it keeps running
        at.require("signed", "*").await?;
        at.world.quiet().await?;
        at.world.get("Deployment", "a", "a").await?;
        // and a manual version is refused
        at.world.home("by-hand").await?;
        let own = Operator::new("b", "1.0.0").image(&at.operator_image("b", Some(&at.key))?);
        at.world.apply(&own.csv(crate::csvs::no_rights).manifest("by-hand")).await?;
        let failed = at.world.csv("by-hand", "b.v1.0.0", "Failed").await?;
        let why = text(&failed, "/status/message");
        ensure!(why.contains("InstallPolicy signed") && why.contains("spec.signatures"), "{why}");
        ensure!(at.world.find("Deployment", "by-hand", "b").await?.is_none(), "it runs");
        Ok(())
    });
}

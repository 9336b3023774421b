//! `olm catalog add`, `sources` and `remove`, with a built `olm`, a registry and a manager.

use std::net::SocketAddr;

use anyhow::{Result, ensure};
use olm_devcluster::api::Identity;
use olm_manager::Options;
use olm_tests::inprocess::{Catalog, Manager, OLM, Registry, Served, World, text};

use crate::{manager_for_admin, op, run_with_olm};

/// A cluster whose manager reaches a registry and serves the administrator's programs.
pub(crate) struct Setup {
    pub(crate) world: World,
    registry: Registry,
    pub(crate) admin: Served,
    pub(crate) manager: SocketAddr,
    _manager: Manager,
}

impl Setup {
    async fn open() -> Result<Self> {
        let world = World::bare().await?;
        let registry = Registry::start().await?;
        let registries = registry.settings(world.folder())?;
        let options = Options { registries, ..world.options("manager-0") };
        let (_manager, manager, admin) = manager_for_admin(&world, options)?;
        Ok(Self { world, registry, admin, manager, _manager })
    }

    /// Pushes a catalog with package `a`; returns its image.
    pub(crate) fn push(&self, name: &str) -> Result<String> {
        let repository = format!("catalogs/{name}");
        self.registry.push_catalog(&repository, "1", Catalog::chain(&[&op("1.0.0")]).documents())?;
        Ok(self.registry.reference(&format!("{repository}:1")))
    }
}

/// Runs a scenario if `olm` is built.
pub(crate) fn with_setup<F>(name: &str, body: F)
where
    F: AsyncFnOnce(Setup) -> Result<()>,
{
    run_with_olm(name, async move { body(Setup::open().await?).await });
}

#[test]
fn a_catalog_is_added_installed_from_and_removed() {
    with_setup("a_catalog_is_added_installed_from_and_removed", async |setup| {
        let (world, admin) = (&setup.world, &setup.admin);
        // when a catalog is added, then it is served when the command ends
        let image = setup.push("acme")?;
        let (out, error) = admin.olm(&["catalog", "add", &image, "--wait", "--timeout", "60s"]).await?;
        ensure!(out.starts_with("catalog olm/acme is ready: 1 package\n"), "{out}{error}");
        ensure!(error.contains("created CatalogSource olm/acme\n"), "{error}");
        let source = world.get("CatalogSource", OLM, "acme").await?;
        ensure!(text(&source, "/spec/updateStrategy/registryPoll/interval") == "60m", "{source}");
        // and listed
        let (out, error) = admin.olm(&["catalog", "sources"]).await?;
        let row = out.lines().find(|line| line.starts_with("acme ")).unwrap_or_default();
        let cells: Vec<&str> = row.split_whitespace().collect();
        ensure!(cells.starts_with(&["acme", OLM, &image, "1", "READY"]), "{out}{error}");
        // when it is added again, then nothing changes
        let (out, error) = admin.olm(&["catalog", "add", &image]).await?;
        ensure!(out.starts_with("CatalogSource olm/acme already exists with this source\n"), "{out}{error}");
        let again = world.get("CatalogSource", OLM, "acme").await?;
        ensure!(again["metadata"]["generation"] == source["metadata"]["generation"], "{again}");
        // and another source of that name is refused
        let (out, error) = admin.olm(&["catalog", "add", "operatorhub", "--name", "acme"]).await?;
        let difference = format!("spec.image is {image}, requested quay.io/operatorhubio/catalog:latest");
        ensure!(out.is_empty() && error.contains(&difference) && error.contains("--name"), "{out}{error}");
        // when it is refreshed, then the manager reads it again
        let (out, error) = admin.olm(&["catalog", "refresh", "acme", "--wait", "--timeout", "60s"]).await?;
        ensure!(
            out.contains("READY") && error.contains("refresh of CatalogSource olm/acme\n"),
            "{out}{error}"
        );
        let (out, error) = admin.olm(&["catalog", "list", "-o", "name"]).await?;
        ensure!(out.lines().any(|line| line == "olm/acme"), "{out}{error}");
        // when a package of it is installed
        world.home("ns").await?;
        let (out, error) = admin.olm(&["install", "a", "-n", "ns", "--catalog", "acme"]).await?;
        ensure!(!error.contains("error: "), "{out}{error}");
        world.installed("ns", "a", "a.v1.0.0").await?;
        // then the catalog is removed only with --yes
        let (out, error) = admin.olm(&["catalog", "remove", "acme"]).await?;
        ensure!(out.is_empty() && error.contains("\n  ns/a\n") && error.contains("--yes"), "{out}{error}");
        let (out, error) = admin.olm(&["catalog", "remove", "acme", "--yes"]).await?;
        ensure!(out == "removed CatalogSource olm/acme\n", "{out}{error}");
        world.gone("CatalogSource", OLM, "acme").await?;
        // and the operator is retained
        world.quiet().await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        let (out, error) = admin.olm(&["catalog", "remove", "acme"]).await?;
        ensure!(out.is_empty() && error.contains("CatalogSource olm/acme not found"), "{out}{error}");
        Ok(())
    });
}

#[test]
fn a_catalog_that_is_not_readable_is_reported_and_removed() {
    with_setup("a_catalog_that_is_not_readable_is_reported_and_removed", async |setup| {
        let admin = &setup.admin;
        // given an image that does not exist
        let image = setup.registry.reference("catalogs/none:1");
        // when it is added, then the wait ends with the cause
        let (out, error) = admin.olm(&["catalog", "add", &image, "--wait", "--timeout", "60s"]).await?;
        ensure!(out.is_empty() && error.contains("error: failed to read catalog olm/none: "), "{out}{error}");
        ensure!(error.contains("olm catalog remove olm/none"), "{error}");
        let (out, error) = admin.olm(&["catalog", "sources", "-n", OLM]).await?;
        ensure!(out.contains("TRANSIENT_FAILURE"), "{out}{error}");
        // and without Subscriptions it is removed without confirmation
        let (out, error) = admin.olm(&["catalog", "remove", "olm/none"]).await?;
        ensure!(out == "removed CatalogSource olm/none\n", "{out}{error}");
        setup.world.gone("CatalogSource", OLM, "none").await
    });
}

#[test]
fn adding_a_catalog_requires_rights_of_the_user() {
    with_setup("adding_a_catalog_requires_rights_of_the_user", async |setup| {
        let image = setup.push("acme")?;
        let visitor = setup.world.serve_to(Identity::user("visitor", []), setup.manager)?;
        let (out, error) = visitor.olm(&["catalog", "add", &image]).await?;
        ensure!(out.is_empty() && error.contains("visitor") && error.contains("create"), "{out}{error}");
        ensure!(setup.world.find("CatalogSource", OLM, "acme").await?.is_none(), "it was created");
        Ok(())
    });
}

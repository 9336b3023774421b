//! Workflows of operator authors, with the built program: a repository of bundles becomes a catalog that is
//! validated, compared, searched, mirrored; and shell completion on a cluster.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use olm_tests::{
    cluster::{olm, run},
    documents::{Shell, block},
    eventually, root,
};

use crate::{
    operator::{LIMIT, delete_namespace},
    scenario,
};

fn bundles() -> Option<PathBuf> {
    let root = std::env::var_os("OLM_SHARED_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"), PathBuf::from);
    Some(root.join("bundles/operators")).filter(|path| path.exists())
}

/// Runs `olm` without a cluster; returns its output if it ends as expected.
fn offline(args: &[&str], code: i32) -> Result<String> {
    let mut command = olm();
    command.args(args).env("HOME", "/nonexistent").env("NO_COLOR", "1");
    let out = run(command, None)?;
    let (text, errors) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    ensure!(out.status.code() == Some(code), "olm {}: {}: {text}{errors}", args.join(" "), out.status);
    Ok(text.into_owned())
}

#[test]
fn a_repository_of_bundles_becomes_a_catalog_that_everything_reads() {
    let Some(bundles) = bundles() else {
        olm_tests::skipped("a_repository_of_bundles_becomes_a_catalog", "the shared data is not there");
        return;
    };
    let story = || -> Result<()> {
        let dir = tempfile::tempdir()?;
        let at = |name: &str| dir.path().join(name).display().to_string();
        let (repository, catalog) = (bundles.join("etcd").display().to_string(), at("catalog"));
        let template = "--image-template=registry.example/{package}:v{version}";
        // given a catalog of a repository
        offline(&["catalog", "build", &repository, "-o", &catalog, template], 0)?;
        // then it is valid, and reproducible
        offline(&["catalog", "validate", &catalog, "-o", "json"], 0)?;
        offline(&["catalog", "build", &repository, "-o", &catalog, template, "--check"], 0)?;
        // and one stream of it is the same catalog, on disk and in an image
        std::fs::write(at("stream.json"), offline(&["catalog", "render", &catalog], 0)?)?;
        offline(&["catalog", "diff", &catalog, &at("stream.json")], 0)?;
        let to = format!("oci:{}", at("mirror"));
        let images = offline(&["catalog", "mirror", &catalog, "--to", &to, "--images", "list"], 0)?;
        ensure!(images.contains("registry.example/etcd:v0.9.4\n"), "{images}");
        offline(&["catalog", "diff", &catalog, &format!("{to}:localhost/catalog:latest")], 0)?;
        // and users find the operator in each
        for source in [&catalog, &at("stream.json"), &to, &repository] {
            let found = offline(&["search", "EtcdCluster", "--catalog-dir", source, "-o", "name"], 0)?;
            ensure!(found == "etcd\n", "{source}: {found}");
            let shown = offline(&["show", "etcd", "--catalog-dir", source], 0)?;
            ensure!(shown.contains("etcdoperator.v0.9.4"), "{source}: {shown}");
        }
        // and a change is detected
        let file = Path::new(&catalog).join("etcd/catalog.yaml");
        let changed = std::fs::read_to_string(&file)?.replace("etcdoperator.v0.9.2", "etcdoperator.v0.9.3");
        std::fs::write(&file, changed)?;
        let changes = offline(&["catalog", "diff", &at("stream.json"), &catalog], 1)?;
        ensure!(changes.contains("etcdoperator.v0.9.3"), "{changes}");
        offline(&["catalog", "build", &repository, "-o", &catalog, template, "--check"], 1)?;
        Ok(())
    };
    story().expect("the story holds");
}

fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// An image with only the program has no certificate authorities; a catalog without TLS needs none.
#[test]
fn a_catalog_without_tls_is_read_where_there_are_no_authorities() {
    let story = || -> Result<()> {
        let (http, grpc) = (free_port()?, free_port()?);
        let catalog = Path::new(env!("CARGO_MANIFEST_DIR")).join("../catalog/data");
        let mut server = olm()
            .args([
                "catalog",
                "serve",
                &catalog.display().to_string(),
                "--address",
                &format!("127.0.0.1:{http}"),
            ])
            .args(["--grpc", &format!("127.0.0.1:{grpc}")])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()?;
        let ask = |url: &str| {
            let mut command = olm();
            command.args(["catalog", "list", "packages", url]).env("HOME", "/nonexistent");
            command.env("SSL_CERT_FILE", "/nonexistent").env("SSL_CERT_DIR", "/nonexistent");
            run(command, None)
        };
        let plain = format!("http://127.0.0.1:{http}/catalogs/catalog/api/v1/all");
        let answer = tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(
            eventually("the catalog to be read", LIMIT, async || {
                let out = ask(&plain)?;
                ensure!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
                Ok(Some(String::from_utf8(out.stdout)?))
            }),
        );
        // and with TLS no server is trusted
        let secret = ask(&format!("https://127.0.0.1:{http}/catalogs/catalog/api/v1/all"));
        server.kill()?;
        server.wait()?;
        let answer = answer?;
        ensure!(answer.contains("etcd"), "{answer}");
        ensure!(!secret?.status.success(), "a server without TLS was taken for one with");
        Ok(())
    };
    story().expect("the story holds");
}

#[test]
fn a_shell_completes_the_names_of_the_cluster() {
    scenario("a_shell_completes_the_names_of_the_cluster", async |cluster| {
        let cache = tempfile::tempdir()?;
        let command = || {
            let mut command = olm();
            command.env("KUBECONFIG", &cluster.kubeconfig).env("XDG_CACHE_HOME", cache.path());
            command
        };
        // given a cached search
        let mut search = command();
        search.args(["search", "-o", "name"]);
        let found = run(search, None)?;
        ensure!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
        let kept = std::fs::read_dir(cache.path().join("olm/names"))?.next().context("nothing is kept")??;
        let kept = std::fs::read_to_string(kept.path().join("packages.json"))?;
        ensure!(kept.contains("etcd"), "etcd is not kept");
        let mut show = command();
        show.args(["show", "etcd", "-o", "name"]);
        ensure!(run(show, None)?.status.success(), "etcd is not shown");
        let completes = |words: &[&str], expected: &str| -> Result<bool> {
            let mut complete = command();
            complete.env("OLM_COMPLETE", "bash").env("_CLAP_IFS", "\n");
            complete.env("_CLAP_COMPLETE_INDEX", words.len().to_string());
            complete.args(["--", "olm"]).args(words);
            let out = run(complete, None)?;
            let text = String::from_utf8_lossy(&out.stdout).into_owned();
            ensure!(
                out.status.success() && out.stderr.is_empty(),
                "{}",
                String::from_utf8_lossy(&out.stderr)
            );
            Ok(text.lines().any(|line| line.trim() == expected))
        };
        // when the shell completes a prefix, then it gets the cached names of the cluster
        for (words, expected) in [
            (&["install", "et"] as &[&str], "etcd"),
            (&["install", "etcd", "--channel", "singlenamespace"], "singlenamespace-alpha"),
            (&["install", "etcd", "--version", "0.11"], "0.11.0"),
        ] {
            ensure!(completes(words, expected)?, "{words:?}: {expected} is missing");
        }
        // and names that are not cached yet with one of the next completions
        eventually("kube-system is completed", LIMIT, async || {
            Ok(completes(&["list", "--namespace", "kube-s"], "kube-system")?.then_some(()))
        })
        .await
    });
}

#[test]
fn a_bundle_that_is_in_no_catalog_runs_upgrades_and_goes() {
    scenario("a_bundle_that_is_in_no_catalog_runs_upgrades_and_goes", async |cluster| {
        // given the bundles of docs/catalogs.md: one that runs, and a newer one that replaces it
        let ns = "demo";
        block("docs/catalogs.md", "olm bundle run")?.check(&mut Shell::on(&cluster)?)?;
        // when the newer one is run again, then nothing changes
        let bundle = root().join("bundles/etcd/0.10.1").display().to_string();
        let output = cluster.olm_ok(&["bundle", "run", &bundle, "-n", ns, "--timeout", "2m"])?;
        ensure!(output.contains("already installed"), "{output}");
        let csvs = cluster.kubectl(&["get", "csv", "-n", ns, "-o", "name"])?;
        ensure!(csvs.trim().ends_with("/etcdoperator.v0.10.1"), "{csvs}");
        // when the package is installed elsewhere, then this catalog is not used
        let plan =
            cluster.olm_ok(&["install", "etcd", "-n", "bundle-run-other", "--dry-run", "-o", "json"])?;
        ensure!(plan.contains("etcdoperator.v"), "{plan}");
        // when it is removed, then its catalog goes with it
        cluster.olm_ok(&["uninstall", "etcd", "-n", ns, "--yes"])?;
        eventually("the catalog is gone", LIMIT, async || {
            let left = cluster.kubectl(&["get", "catalogsource,configmap", "-n", ns, "-o", "name"])?;
            Ok((!left.contains("bundle-run-etcd")).then_some(()))
        })
        .await?;
        delete_namespace(&cluster, ns)
    });
}

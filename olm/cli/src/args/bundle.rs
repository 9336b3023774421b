//! Bundles: what operator authors do with them.

use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand};

use super::RegistryArgs;
use crate::output::{Documents, Judgement};

/// `olm bundle`.
#[derive(Debug, ClapArgs)]
#[command(after_help = BUNDLES)]
pub struct BundleCommandArgs {
    #[command(subcommand)]
    pub command: BundleCommand,
}

const BUNDLES: &str = "\
A BUNDLE is a folder or an image with one version of an operator:
  manifests/*.yaml            one ClusterServiceVersion, its CustomResourceDefinitions, and what else it needs
  metadata/annotations.yaml   package, channels and default channel
It may also be an archive, or an image in an OCI layout (oci:DIR[:NAME]).";

/// What to do with bundles.
#[derive(Debug, Subcommand)]
pub enum BundleCommand {
    /// Print the olm.bundle documents of bundles, as a catalog holds them.
    #[command(after_help = RENDER)]
    Render(BundleRenderArgs),
    /// Install a bundle that is in no catalog yet, or upgrade to it; for developers.
    #[command(after_help = RUN)]
    Run(BundleRunArgs),
    /// Say what is wrong with a bundle.
    #[command(after_help = VALIDATE)]
    Validate(BundleValidateArgs),
}

const RUN: &str = "\
Examples:
  olm bundle run ./bundle -n demo
  olm bundle run quay.io/example/bundle:v1.0.0 --install-mode OwnNamespace

The bundle becomes a catalog of its own in a ConfigMap, so it may hold a ClusterServiceVersion and the
CustomResourceDefinitions that it owns, and nothing else; other bundles are refused.
Run it again with a newer bundle to upgrade, and remove it with `olm uninstall PACKAGE`.";

const RENDER: &str = "\
Examples:
  olm bundle render ./bundle
  olm bundle render quay.io/example/bundle:v1.0.0 -o yaml
  olm bundle render ./1.0.0 ./1.1.0 --image-template 'registry.example/{package}:v{version}'";

const VALIDATE: &str = "\
Examples:
  olm bundle validate ./bundle
  olm bundle validate ./bundle --select-optional suite=operatorframework --optional-values k8s-version=1.25
  olm bundle validate --list-optional

Exit codes: 0 valid, 1 not valid, 3 there is no such bundle, 10 it could not be checked.";

/// `olm bundle render`.
#[derive(Debug, ClapArgs)]
pub struct BundleRenderArgs {
    /// Bundles; see `olm bundle --help` for what they can be.
    #[arg(required = true, value_name = "BUNDLE", value_hint = clap::ValueHint::AnyPath)]
    pub bundles: Vec<String>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Documents,
    /// Put the manifests into the document, so that it needs no image.
    #[arg(long, conflicts_with = "image_template")]
    pub inline: bool,
    /// Where the images of folders will be; {package}, {version} and {name} are replaced.
    #[arg(long, value_name = "TEMPLATE")]
    pub image_template: Option<String>,
    #[command(flatten)]
    pub registry: RegistryArgs,
}

/// `olm bundle run`.
#[derive(Debug, ClapArgs)]
pub struct BundleRunArgs {
    /// Bundle; see `olm bundle --help` for what it can be.
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    pub bundle: String,
    /// AllNamespaces, OwnNamespace, SingleNamespace=NS or MultiNamespace=NS,NS; what the bundle supports when absent.
    #[arg(long, value_name = "MODE", value_parser = mode)]
    pub install_mode: Option<Mode>,
    /// How long to wait at the most, such as 90s or 5m.
    #[arg(long, default_value = "5m", value_parser = super::duration)]
    pub timeout: Duration,
    #[command(flatten)]
    pub registry: RegistryArgs,
}

/// Which namespaces the operator watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// All.
    All,
    /// Its own.
    Own,
    /// These.
    Others(Vec<String>),
}

fn mode(text: &str) -> Result<Mode, String> {
    let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
    let namespaces: Vec<String> =
        value.unwrap_or_default().split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    match (name, value, namespaces.len()) {
        ("AllNamespaces", None, _) => Ok(Mode::All),
        ("OwnNamespace", None, _) => Ok(Mode::Own),
        ("SingleNamespace", Some(_), 1) | ("MultiNamespace", Some(_), 1..) => Ok(Mode::Others(namespaces)),
        _ => {
            Err("expected AllNamespaces, OwnNamespace, SingleNamespace=NS or MultiNamespace=NS,NS".to_owned())
        }
    }
}

/// `olm bundle validate`.
#[derive(Debug, ClapArgs)]
pub struct BundleValidateArgs {
    /// Bundle; see `olm bundle --help` for what it can be.
    #[arg(required_unless_present = "list_optional", value_hint = clap::ValueHint::AnyPath)]
    pub bundle: Option<String>,
    /// Also run these validators: name=NAME or suite=operatorframework, separated by commas; may be repeated.
    #[arg(long, value_name = "SELECTOR")]
    pub select_optional: Vec<String>,
    /// Values for the optional validators, such as k8s-version=1.25; separated by commas or repeated.
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',')]
    pub optional_values: Vec<String>,
    /// List the optional validators.
    #[arg(long)]
    pub list_optional: bool,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Judgement,
    #[command(flatten)]
    pub registry: RegistryArgs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn install_modes_are_read() {
        assert_eq!(mode("AllNamespaces"), Ok(Mode::All));
        assert_eq!(mode("SingleNamespace=a"), Ok(Mode::Others(vec!["a".into()])));
        assert_eq!(mode("MultiNamespace=a,b"), Ok(Mode::Others(vec!["a".into(), "b".into()])));
        for bad in ["", "SingleNamespace", "SingleNamespace=a,b", "OwnNamespace=a", "Some"] {
            assert!(mode(bad).is_err(), "{bad}");
        }
    }
}

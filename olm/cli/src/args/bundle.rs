//! Arguments of the bundle commands for operator authors.

use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand};

use super::RegistryArgs;
use crate::output::{Documents, VerdictFormat};

/// `olm bundle`.
#[derive(Debug, ClapArgs)]
#[command(after_help = BUNDLES)]
pub struct BundleCommandArgs {
    #[command(subcommand)]
    pub command: BundleCommand,
}

const BUNDLES: &str = "\
Examples:
  olm bundle validate ./bundle
  olm bundle run ./bundle -n demo

A BUNDLE is a folder or an image with one version of an operator:
  manifests/*.yaml           one ClusterServiceVersion, its CRDs and other manifests
  metadata/annotations.yaml  package, channels and default channel
A BUNDLE is also an archive, or an image in an OCI layout (oci:DIR[:NAME]).";

/// Subcommands of `olm bundle`.
#[derive(Debug, Subcommand)]
pub enum BundleCommand {
    /// Render bundles as olm.bundle documents of a catalog.
    #[command(after_help = RENDER)]
    Render(BundleRenderArgs),
    /// Install a bundle without a catalog, or upgrade to it (for development).
    #[command(after_help = RUN)]
    Run(BundleRunArgs),
    /// Validate a bundle.
    #[command(after_help = VALIDATE)]
    Validate(BundleValidateArgs),
}

const RUN: &str = "\
Examples:
  olm bundle run ./bundle -n demo
  olm bundle run quay.io/example/bundle:v1.0.0 --install-mode OwnNamespace

The bundle is served from a ConfigMap, which holds one ClusterServiceVersion and its owned
CustomResourceDefinitions; bundles with other manifests are refused.
Run the command with a newer bundle to upgrade; `olm uninstall PACKAGE` removes it.";

const RENDER: &str = "\
Examples:
  olm bundle render ./bundle
  olm bundle render quay.io/example/bundle:v1.0.0 -o yaml
  olm bundle render ./1.0.0 ./1.1.0 --image-template 'registry.example/{package}:v{version}'";

const VALIDATE: &str = "\
Examples:
  olm bundle validate ./bundle
  olm bundle validate ./bundle --select-optional suite=operatorframework \\
    --optional-values k8s-version=1.25
  olm bundle validate --list-optional

Exit codes: 0 valid, 1 not valid, 3 bundle not found, 10 bundle not checked.";

/// `olm bundle render`.
#[derive(Debug, ClapArgs)]
pub struct BundleRenderArgs {
    /// Bundles; `olm bundle --help` lists the accepted forms.
    #[arg(required = true, value_name = "BUNDLE", value_hint = clap::ValueHint::AnyPath)]
    pub bundles: Vec<String>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Documents,
    /// Inline the manifests, so that the document does not refer to an image.
    #[arg(long, conflicts_with = "image_template")]
    pub inline: bool,
    /// Image reference of a folder; {package}, {version} and {name} are substituted.
    #[arg(long, value_name = "TEMPLATE")]
    pub image_template: Option<String>,
    #[command(flatten)]
    pub registry: RegistryArgs,
}

/// `olm bundle run`.
#[derive(Debug, ClapArgs)]
pub struct BundleRunArgs {
    /// Bundle; `olm bundle --help` lists the accepted forms.
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    pub bundle: String,
    /// AllNamespaces, OwnNamespace, SingleNamespace=NS or MultiNamespace=NS,NS; by default a mode that the bundle supports.
    #[arg(long, value_name = "MODE", value_parser = mode)]
    pub install_mode: Option<Mode>,
    /// Maximum time to wait, such as 90s or 5m.
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
    /// Bundle; `olm bundle --help` lists the accepted forms.
    #[arg(required_unless_present = "list_optional", value_hint = clap::ValueHint::AnyPath)]
    pub bundle: Option<String>,
    /// Also run these validators: name=NAME or suite=operatorframework; comma-separated or repeated.
    #[arg(long, value_name = "SELECTOR")]
    pub select_optional: Vec<String>,
    /// Values for the optional validators, such as k8s-version=1.25; comma-separated or repeated.
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',')]
    pub optional_values: Vec<String>,
    /// List the optional validators.
    #[arg(long)]
    pub list_optional: bool,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: VerdictFormat,
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

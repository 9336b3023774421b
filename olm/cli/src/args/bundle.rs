//! Bundles: what operator authors do with them.

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
    /// Say what is wrong with a bundle.
    #[command(after_help = VALIDATE)]
    Validate(BundleValidateArgs),
}

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

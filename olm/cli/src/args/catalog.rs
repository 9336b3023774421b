//! Arguments of the commands that validate, build, read and serve catalogs.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use super::{
    CatalogAddArgs, CatalogIntervalArgs, CatalogRefreshArgs, CatalogRemoveArgs, CatalogSourcesArgs,
    OutputArgs,
};
use crate::output::{Documents, Report};

/// `olm catalog`.
#[derive(Debug, ClapArgs)]
#[command(after_help = SOURCES)]
pub struct CatalogCommandArgs {
    #[command(subcommand)]
    pub command: CatalogCommand,
}

/// Formats of a SOURCE, for the help of commands that take one.
const SOURCES: &str = "\
Examples:
  olm catalog list
  olm catalog add operatorhub
  olm catalog validate ./catalog

A SOURCE is one of
  DIR                  a file-based catalog, a repository of bundles, a bundle, an OCI layout
  FILE                 a catalog as YAML or JSON, or a tar archive; plain, gzip or zstd
  -                    a catalog on standard input
  oci:DIR[:NAME]       an image in an OCI layout
  HOST/PATH:TAG        a catalog image in a registry (docker://NAME for a name without a host)
  https://...          a catalog on a web server, such as catalogd's .../api/v1/all
  grpc://HOST:PORT     a catalog server, such as `opm serve`";

/// Subcommands of `olm catalog`.
#[derive(Debug, Subcommand)]
pub enum CatalogCommand {
    /// Add a catalog to a cluster.
    #[command(after_help = ADD)]
    Add(CatalogAddArgs),
    /// List the catalogs of a cluster.
    #[command(after_help = LIST_SOURCES)]
    Sources(CatalogSourcesArgs),
    /// Re-read catalogs of a cluster immediately.
    #[command(after_help = REFRESH)]
    Refresh(CatalogRefreshArgs),
    /// Change how often the manager reads a catalog.
    #[command(after_help = SET_INTERVAL)]
    SetInterval(CatalogIntervalArgs),
    /// Remove a catalog from a cluster.
    #[command(after_help = REMOVE)]
    Remove(CatalogRemoveArgs),
    /// Validate a catalog.
    #[command(after_help = VALIDATE)]
    Validate(ValidateArgs),
    /// Build a catalog from a repository of bundles or a template.
    #[command(after_help = BUILD)]
    Build(BuildArgs),
    /// Render catalogs and bundles as one stream of documents.
    #[command(after_help = RENDER)]
    Render(RenderArgs),
    /// List the catalogs of a cluster, or the packages, channels or bundles of a catalog.
    #[command(name = "list", after_help = LIST)]
    List(CatalogListArgs),
    /// Show the upgrade graph of a package.
    #[command(after_help = GRAPH)]
    Graph(GraphArgs),
    /// Show the differences between two catalogs.
    #[command(after_help = DIFF)]
    Diff(DiffArgs),
    /// Serve a catalog over HTTP and gRPC.
    #[command(after_help = SERVE)]
    Serve(ServeArgs),
    /// Mirror a catalog and its images for an air-gapped cluster.
    #[command(after_help = MIRROR)]
    Mirror(MirrorArgs),
    /// Verify the signature of an image.
    #[command(after_help = VERIFY)]
    Verify(VerifyArgs),
}

const ADD: &str = "\
The CatalogSource is created in the namespace of the manager, where it is visible from every
namespace. With --namespace it is visible only from that namespace.

Known names: operatorhub; and with a pull secret for registry.redhat.io redhat-operators,
certified-operators and community-operators.

Examples:
  olm catalog add operatorhub --wait
  olm catalog add quay.io/acme/catalog:latest --name acme
  olm catalog add https://catalogs.example.com/catalogs/acme/api/v1/all --name acme -n team-a
  olm catalog add operatorhub --dry-run > catalog-source.yaml";

const LIST_SOURCES: &str = "\
All namespaces are listed, or that of --namespace.

Examples:
  olm catalog sources
  olm catalog sources -n team-a -o json";

const REFRESH: &str = "\
Without a refresh, the manager reads a catalog at the interval of its CatalogSource.

Examples:
  olm catalog refresh operatorhub --wait
  olm catalog refresh --all";

const SET_INTERVAL: &str = "\
By default an image is read once, a server every 15 minutes, a ConfigMap or directory every
15 seconds.

Examples:
  olm catalog set-interval operatorhub 30m
  olm catalog set-interval team-a/acme default";

const REMOVE: &str = "\
Installed operators are retained; without the catalog they get no upgrades.

Examples:
  olm catalog remove operatorhub
  olm catalog remove team-a/acme --yes";

const VALIDATE: &str = "\
Examples:
  olm catalog validate ./catalog
  olm catalog validate ./community-operators -o json
  olm catalog validate quay.io/operatorhubio/catalog:latest --strict

Exit codes: 0 valid, 1 not valid, 3 source not found, 10 source not checked.";

const BUILD: &str = "\
Examples:
  olm catalog build ./community-operators -o ./catalog \\
    --image-template 'registry.example/{package}:v{version}'
  olm catalog build ./bundles --inline -o ./catalog --check
  olm catalog build --template semver.yaml > catalog.yaml

Exit codes: 0 done, 1 the folder differs (--check), 4 bundles are not valid.";

const RENDER: &str = "\
Examples:
  olm catalog render quay.io/operatorhubio/catalog:latest > catalog.json
  olm catalog render ./catalog ./bundle -o yaml";

const LIST: &str = "\
Examples:
  olm catalog list
  olm catalog list packages ./catalog
  olm catalog list bundles ./catalog etcd -o json";

const GRAPH: &str = "\
Examples:
  olm catalog graph ./catalog etcd
  olm catalog graph ./catalog etcd --channel stable -o mermaid
  olm catalog graph ./catalog etcd -o svg > etcd.svg";

const DIFF: &str = "\
Examples:
  olm catalog diff ./old ./new
  olm catalog diff quay.io/operatorhubio/catalog:latest ./catalog -o json

Exit codes, as of diff(1): 0 no differences, 1 differences, greater than 1 an error.";

const SERVE: &str = "\
Examples:
  olm catalog serve ./catalog
  olm catalog serve ./catalog --watch --address 0.0.0.0:8080 --grpc 0.0.0.0:50051

SIGHUP reloads the source.";

const MIRROR: &str = "\
Examples:
  olm catalog mirror quay.io/operatorhubio/catalog:latest --to oci:./mirror --packages etcd
  olm catalog mirror ./catalog --to oci:./mirror --images list > images.txt";

const VERIFY: &str = "\
Examples:
  olm catalog verify quay.io/acme/catalog:latest --key cosign.pub
  olm catalog verify quay.io/acme/catalog:latest \\
    --certificate-identity https://github.com/acme/catalog/.github/workflows/ci.yml@refs/tags/v1 \\
    --certificate-oidc-issuer https://token.actions.githubusercontent.com
  olm catalog verify oci:./mirror:quay.io/acme/operator:v1 --key cosign.pub -o json

Exit codes: 0 verified, 1 not signed as required, 3 image not found, 10 signatures not checked.";

/// How to reach registries and web servers.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(next_help_heading = "Registry options")]
pub struct RegistryArgs {
    /// Registry credentials file of `docker login` or `podman login`; their default file when absent.
    #[arg(long, value_name = "FILE")]
    pub authfile: Option<PathBuf>,
    /// Additional certificate authorities (PEM file); may be repeated.
    #[arg(long, value_name = "FILE")]
    pub ca_file: Vec<PathBuf>,
    /// Use plain HTTP for this registry (HOST or HOST:PORT); may be repeated.
    #[arg(long, value_name = "HOST")]
    pub plain_http: Vec<String>,
    /// Skip TLS verification for this registry (HOST or HOST:PORT); may be repeated.
    #[arg(long, value_name = "HOST")]
    pub skip_tls_verify: Vec<String>,
}

/// `olm catalog validate`.
#[derive(Debug, ClapArgs)]
pub struct ValidateArgs {
    /// Catalog; `olm catalog --help` lists the accepted forms.
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    pub source: String,
    /// Treat warnings as errors.
    #[arg(long)]
    pub strict: bool,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Report,
    #[command(flatten)]
    pub registry: RegistryArgs,
}

/// `olm catalog build`.
#[derive(Debug, ClapArgs)]
pub struct BuildArgs {
    /// Repository of bundles: operators/NAME/VERSION/{manifests,metadata}.
    #[arg(value_name = "REPO", required_unless_present = "template", value_hint = clap::ValueHint::DirPath)]
    pub repository: Option<PathBuf>,
    /// Build from this template (basic, semver or substitutes) instead.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["repository", "image_template", "inline", "keep_going", "bridge_gaps", "warnings"])]
    pub template: Option<PathBuf>,
    /// Folder to write PACKAGE/catalog.yaml to; standard output when absent.
    #[arg(short, long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub output: Option<PathBuf>,
    /// Format of the files.
    #[arg(long, value_enum, default_value = "yaml")]
    pub format: Documents,
    /// Image reference of each bundle; {package}, {version} and {name} are substituted.
    #[arg(long, value_name = "TEMPLATE")]
    pub image_template: Option<String>,
    /// Inline the manifests, so that the catalog does not refer to images; the default without --image-template.
    #[arg(long, conflicts_with = "image_template")]
    pub inline: bool,
    /// Make a bundle whose `replaces` is missing replace the next older bundle of its channel.
    #[arg(long)]
    pub bridge_gaps: bool,
    /// Skip invalid bundles instead of failing.
    #[arg(long)]
    pub keep_going: bool,
    /// Also show warnings.
    #[arg(long)]
    pub warnings: bool,
    /// Compare with the folder instead of writing; exit code 1 when they differ.
    #[arg(long, requires = "output")]
    pub check: bool,
    #[command(flatten)]
    pub registry: RegistryArgs,
}

/// `olm catalog render`.
#[derive(Debug, ClapArgs)]
pub struct RenderArgs {
    /// Catalogs and bundles; `olm catalog --help` lists the accepted forms.
    #[arg(required = true, value_name = "SOURCE", value_hint = clap::ValueHint::AnyPath)]
    pub sources: Vec<String>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Documents,
    #[command(flatten)]
    pub registry: RegistryArgs,
}

/// Resource to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Listed {
    /// Packages.
    Packages,
    /// Channels of packages.
    Channels,
    /// Bundles of channels.
    Bundles,
}

/// `olm catalog list`.
#[derive(Debug, ClapArgs)]
pub struct CatalogListArgs {
    /// Resource to list; the catalogs of the cluster when absent, as `olm catalog sources`.
    #[arg(value_enum, requires = "source")]
    pub what: Option<Listed>,
    /// Catalog; `olm catalog --help` lists the accepted forms.
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    pub source: Option<String>,
    /// Only this package.
    pub package: Option<String>,
    #[command(flatten)]
    pub out: OutputArgs,
    #[command(flatten)]
    pub registry: RegistryArgs,
}

/// Output format of a graph.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum GraphFormat {
    /// Plain text.
    #[default]
    Text,
    /// Mermaid, for Markdown.
    Mermaid,
    /// DOT, for Graphviz.
    Dot,
    /// JSON.
    Json,
    /// SVG, for browsers.
    Svg,
}

/// `olm catalog graph`.
#[derive(Debug, ClapArgs)]
pub struct GraphArgs {
    /// Catalog; `olm catalog --help` lists the accepted forms.
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    pub source: String,
    /// Package.
    pub package: String,
    /// Only this channel.
    #[arg(short, long)]
    pub channel: Option<String>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: GraphFormat,
    #[command(flatten)]
    pub registry: RegistryArgs,
}

/// `olm catalog diff`.
#[derive(Debug, ClapArgs)]
pub struct DiffArgs {
    /// Old catalog; `olm catalog --help` lists the accepted forms.
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    pub old: String,
    /// New catalog.
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    pub new: String,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Report,
    #[command(flatten)]
    pub registry: RegistryArgs,
}

/// `olm catalog serve`.
#[derive(Debug, ClapArgs)]
pub struct ServeArgs {
    /// Catalog; `olm catalog --help` lists the accepted forms.
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    pub source: String,
    /// Catalog name in the paths of the HTTP API.
    #[arg(long, default_value = "catalog")]
    pub name: String,
    /// Address of the HTTP API.
    #[arg(long, default_value = "127.0.0.1:8080")]
    pub address: SocketAddr,
    /// Address of the gRPC API.
    #[arg(long, default_value = "127.0.0.1:50051")]
    pub grpc: SocketAddr,
    /// Reload the source when it changes.
    #[arg(long)]
    pub watch: bool,
    /// Interval at which --watch polls a registry or a server.
    #[arg(long, default_value = "1m", value_parser = interval, requires = "watch")]
    pub interval: Duration,
    #[command(flatten)]
    pub registry: RegistryArgs,
}

fn interval(text: &str) -> Result<Duration, String> {
    match super::duration(text)? {
        Duration::ZERO => Err("expected at least 1s".to_owned()),
        interval => Ok(interval),
    }
}

/// Which images are copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Images {
    /// Copy every image; a failed copy is an error.
    #[default]
    Copy,
    /// Write the catalog only and list the images.
    List,
}

/// `olm catalog mirror`.
#[derive(Debug, ClapArgs)]
pub struct MirrorArgs {
    /// Catalog; `olm catalog --help` lists the accepted forms.
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    pub source: String,
    /// OCI layout to write, as oci:DIR; existing blobs are not copied again.
    #[arg(long, value_name = "oci:DIR", value_parser = layout)]
    pub to: PathBuf,
    /// Only these packages, comma-separated.
    #[arg(long, value_delimiter = ',')]
    pub packages: Vec<String>,
    /// Only these channels of the packages, comma-separated; default channels are always included.
    #[arg(long, value_delimiter = ',')]
    pub channels: Vec<String>,
    /// Images to copy; signatures are included.
    #[arg(long, value_enum, default_value_t)]
    pub images: Images,
    /// Also write DIR/mirror-sets.yaml, the mirror configuration of a cluster for this registry.
    #[arg(long, value_name = "HOST/PATH")]
    pub mapping: Option<String>,
    /// Output format; text is one image per line.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Report,
    #[command(flatten)]
    pub registry: RegistryArgs,
}

/// `olm catalog verify`.
#[derive(Debug, ClapArgs)]
#[group(id = "signer", required = true, multiple = true, args = ["key", "certificate_identity", "certificate_identity_regexp"])]
pub struct VerifyArgs {
    /// Image of a catalog, a bundle or any other, in a registry or an OCI layout.
    pub image: String,
    /// Public key of the signer (PEM file of `cosign generate-key-pair`).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["certificate_identity", "certificate_identity_regexp", "certificate_oidc_issuer", "certificate_oidc_issuer_regexp"])]
    pub key: Option<PathBuf>,
    /// Email address or URI of the signer.
    #[arg(long, value_name = "SUBJECT", conflicts_with = "certificate_identity_regexp")]
    pub certificate_identity: Option<String>,
    /// Regular expression for the whole email address or URI of the signer.
    #[arg(long, value_name = "PATTERN")]
    pub certificate_identity_regexp: Option<String>,
    /// OpenID Connect issuer of the signer's identity.
    #[arg(long, value_name = "URL", conflicts_with = "certificate_oidc_issuer_regexp")]
    pub certificate_oidc_issuer: Option<String>,
    /// Regular expression for the whole issuer.
    #[arg(long, value_name = "PATTERN")]
    pub certificate_oidc_issuer_regexp: Option<String>,
    /// Sigstore trusted root (trusted_root.json); for an identity, the root of the public Sigstore instance when absent.
    #[arg(long, value_name = "FILE")]
    pub trusted_root: Option<PathBuf>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Report,
    #[command(flatten)]
    pub registry: RegistryArgs,
}

fn layout(text: &str) -> Result<PathBuf, String> {
    match text.strip_prefix("oci:") {
        Some(dir) if !dir.is_empty() => Ok(dir.into()),
        _ => Err("expected oci:DIR".to_owned()),
    }
}

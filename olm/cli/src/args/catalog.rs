//! Catalogs: checking, making, reading and serving them.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use super::OutputArgs;
use crate::output::{Documents, Report};

/// `olm catalog`.
#[derive(Debug, ClapArgs)]
#[command(after_help = SOURCES)]
pub struct CatalogCommandArgs {
    #[command(subcommand)]
    pub command: CatalogCommand,
}

/// What a SOURCE can be; shown where one is taken.
const SOURCES: &str = "\
A SOURCE is one of
  DIR                  a file-based catalog, a repository of bundles, a bundle, an OCI layout
  FILE                 a catalog as YAML or JSON, or a tar archive; plain, gzip or zstd
  -                    a catalog on standard input
  oci:DIR[:NAME]       an image in an OCI layout
  HOST/PATH:TAG        a catalog image in a registry (docker://NAME where the name has no host)
  https://...          a catalog on a web server, such as catalogd's .../api/v1/all
  grpc://HOST:PORT     a catalog server, such as `opm serve`";

/// What to do with catalogs.
#[derive(Debug, Subcommand)]
pub enum CatalogCommand {
    /// Say what is wrong with a catalog.
    #[command(after_help = VALIDATE)]
    Validate(ValidateArgs),
    /// Make a catalog of a repository of bundles, or of a template.
    #[command(after_help = BUILD)]
    Build(BuildArgs),
    /// Print catalogs and bundles as one stream of documents.
    #[command(after_help = RENDER)]
    Render(RenderArgs),
    /// List the packages, channels or bundles of a catalog.
    #[command(name = "list", after_help = LIST)]
    List(CatalogListArgs),
    /// Draw the upgrades of a package.
    #[command(after_help = GRAPH)]
    Graph(GraphArgs),
    /// Say what changed from one catalog to another.
    #[command(after_help = DIFF)]
    Diff(DiffArgs),
    /// Serve a catalog over HTTP and gRPC.
    #[command(after_help = SERVE)]
    Serve(ServeArgs),
    /// Copy a catalog and its images for a cluster without a way out.
    #[command(after_help = MIRROR)]
    Mirror(MirrorArgs),
    /// Verify the signature of an image.
    #[command(after_help = VERIFY)]
    Verify(VerifyArgs),
}

const VALIDATE: &str = "\
Examples:
  olm catalog validate ./catalog
  olm catalog validate ./community-operators -o json
  olm catalog validate quay.io/operatorhubio/catalog:latest --strict

Exit codes: 0 valid, 1 not valid, 3 there is no such source, 10 it could not be checked.";

const BUILD: &str = "\
Examples:
  olm catalog build ./community-operators -o ./catalog --image-template 'registry.example/{package}:v{version}'
  olm catalog build ./bundles --inline -o ./catalog --check
  olm catalog build --template semver.yaml > catalog.yaml

Exit codes: 0 done, 1 --check: the folder differs, 4 something is wrong with the bundles.";

const RENDER: &str = "\
Examples:
  olm catalog render quay.io/operatorhubio/catalog:latest > catalog.json
  olm catalog render ./catalog ./bundle -o yaml";

const LIST: &str = "\
Examples:
  olm catalog list packages ./catalog
  olm catalog list bundles ./catalog etcd -o json";

const GRAPH: &str = "\
Examples:
  olm catalog graph ./catalog etcd
  olm catalog graph ./catalog etcd --channel stable -o mermaid
  olm catalog graph ./catalog etcd -o dot | dot -Tsvg > etcd.svg";

const DIFF: &str = "\
Examples:
  olm catalog diff ./old ./new
  olm catalog diff quay.io/operatorhubio/catalog:latest ./catalog -o json

Exit codes, as diff(1) has them: 0 the same, 1 different, more when it could not be found out.";

const SERVE: &str = "\
Examples:
  olm catalog serve ./catalog
  olm catalog serve ./catalog --watch --address 0.0.0.0:8080 --grpc 0.0.0.0:50051

SIGHUP reads the source again.";

const MIRROR: &str = "\
Examples:
  olm catalog mirror quay.io/operatorhubio/catalog:latest --to oci:./mirror --packages etcd
  olm catalog mirror ./catalog --to oci:./mirror --images list > images.txt";

const VERIFY: &str = "\
Examples:
  olm catalog verify quay.io/acme/catalog:latest --key cosign.pub
  olm catalog verify quay.io/acme/catalog:latest \\
    --certificate-identity https://github.com/acme/catalog/.github/workflows/release.yml@refs/heads/main \\
    --certificate-oidc-issuer https://token.actions.githubusercontent.com
  olm catalog verify oci:./mirror:quay.io/acme/operator:v1 --key cosign.pub -o json

Exit codes: 0 verified, 1 not signed as required, 3 there is no such image, 10 it could not be found out.";

/// How to reach registries and web servers.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(next_help_heading = "Registry options")]
pub struct RegistryArgs {
    /// File with log-ins, as `docker login` and `podman login` write it; theirs when absent.
    #[arg(long, value_name = "FILE")]
    pub authfile: Option<PathBuf>,
    /// Also trust the certificate authorities in this PEM file; may be repeated.
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
    /// Catalog; see `olm catalog --help` for what it can be.
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    pub source: String,
    /// Warnings fail as well.
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
    /// Make it of this template instead: basic, semver or substitutes.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["repository", "image_template", "inline", "keep_going", "bridge_gaps", "warnings"])]
    pub template: Option<PathBuf>,
    /// Write PACKAGE/catalog.yaml below this folder; everything goes to standard output when absent.
    #[arg(short, long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub output: Option<PathBuf>,
    /// Format of the files.
    #[arg(long, value_enum, default_value = "yaml")]
    pub format: Documents,
    /// Where the image of each bundle is; {package}, {version} and {name} are replaced.
    #[arg(long, value_name = "TEMPLATE")]
    pub image_template: Option<String>,
    /// Put the manifests into the catalog, so that it needs no images; so also without --image-template.
    #[arg(long, conflicts_with = "image_template")]
    pub inline: bool,
    /// Let a bundle whose `replaces` is missing replace the next older one of its channel.
    #[arg(long)]
    pub bridge_gaps: bool,
    /// Leave out what is wrong, instead of making nothing.
    #[arg(long)]
    pub keep_going: bool,
    /// Also tell what is no error.
    #[arg(long)]
    pub warnings: bool,
    /// Change nothing: end with 1 when the folder does not hold this very catalog.
    #[arg(long, requires = "output")]
    pub check: bool,
    #[command(flatten)]
    pub registry: RegistryArgs,
}

/// `olm catalog render`.
#[derive(Debug, ClapArgs)]
pub struct RenderArgs {
    /// Catalogs and bundles; see `olm catalog --help` for what they can be.
    #[arg(required = true, value_name = "SOURCE", value_hint = clap::ValueHint::AnyPath)]
    pub sources: Vec<String>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Documents,
    #[command(flatten)]
    pub registry: RegistryArgs,
}

/// What to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Listed {
    /// The packages.
    Packages,
    /// Their channels.
    Channels,
    /// The bundles in their channels.
    Bundles,
}

/// `olm catalog list`.
#[derive(Debug, ClapArgs)]
pub struct CatalogListArgs {
    /// What to list.
    #[arg(value_enum)]
    pub what: Listed,
    /// Catalog; see `olm catalog --help` for what it can be.
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    pub source: String,
    /// Of this package alone.
    pub package: Option<String>,
    #[command(flatten)]
    pub out: OutputArgs,
    #[command(flatten)]
    pub registry: RegistryArgs,
}

/// How a graph is drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Drawing {
    /// Lines for people.
    #[default]
    Text,
    /// For Markdown.
    Mermaid,
    /// For Graphviz.
    Dot,
    /// For programs.
    Json,
}

/// `olm catalog graph`.
#[derive(Debug, ClapArgs)]
pub struct GraphArgs {
    /// Catalog; see `olm catalog --help` for what it can be.
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    pub source: String,
    /// Package.
    pub package: String,
    /// Only this channel.
    #[arg(short, long)]
    pub channel: Option<String>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Drawing,
    #[command(flatten)]
    pub registry: RegistryArgs,
}

/// `olm catalog diff`.
#[derive(Debug, ClapArgs)]
pub struct DiffArgs {
    /// Catalog as it was; see `olm catalog --help` for what it can be.
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    pub old: String,
    /// Catalog as it is.
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
    /// Catalog; see `olm catalog --help` for what it can be.
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    pub source: String,
    /// Name of the catalog in the HTTP API's paths.
    #[arg(long, default_value = "catalog")]
    pub name: String,
    /// Address of the HTTP API.
    #[arg(long, default_value = "127.0.0.1:8080")]
    pub address: SocketAddr,
    /// Address of the gRPC API.
    #[arg(long, default_value = "127.0.0.1:50051")]
    pub grpc: SocketAddr,
    /// Read the source again when it changes.
    #[arg(long)]
    pub watch: bool,
    /// How often --watch asks a registry or a server whether the source has changed.
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
    /// Every image is copied; one that cannot be is an error.
    #[default]
    Copy,
    /// Only the catalog is written; the images are listed.
    List,
}

/// `olm catalog mirror`.
#[derive(Debug, ClapArgs)]
pub struct MirrorArgs {
    /// Catalog; see `olm catalog --help` for what it can be.
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    pub source: String,
    /// OCI layout to write, as oci:DIR; what is there already is not copied again.
    #[arg(long, value_name = "oci:DIR", value_parser = layout)]
    pub to: PathBuf,
    /// Only these packages, separated by commas.
    #[arg(long, value_delimiter = ',')]
    pub packages: Vec<String>,
    /// Only these channels of the packages, separated by commas; a package's default channel always stays.
    #[arg(long, value_delimiter = ',')]
    pub channels: Vec<String>,
    /// Which images to copy; signatures come along.
    #[arg(long, value_enum, default_value_t)]
    pub images: Images,
    /// Also write DIR/mirror-sets.yaml, which tells a cluster that the images are below this registry.
    #[arg(long, value_name = "HOST/PATH")]
    pub mapping: Option<String>,
    /// Output format: an image a line, or data.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Report,
    #[command(flatten)]
    pub registry: RegistryArgs,
}

/// `olm catalog verify`.
#[derive(Debug, ClapArgs)]
#[group(id = "signer", required = true, multiple = true, args = ["key", "certificate_identity", "certificate_identity_regexp"])]
pub struct VerifyArgs {
    /// Image in a registry or an OCI layout; a catalog's, a bundle's or any other.
    pub image: String,
    /// Public key of the signer in PEM, as `cosign generate-key-pair` writes it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["certificate_identity", "certificate_identity_regexp", "certificate_oidc_issuer", "certificate_oidc_issuer_regexp"])]
    pub key: Option<PathBuf>,
    /// Email address or URI of the signer.
    #[arg(long, value_name = "SUBJECT", conflicts_with = "certificate_identity_regexp")]
    pub certificate_identity: Option<String>,
    /// Regular expression that the whole email address or URI of the signer matches.
    #[arg(long, value_name = "PATTERN")]
    pub certificate_identity_regexp: Option<String>,
    /// OpenID Connect issuer that authenticated the signer.
    #[arg(long, value_name = "URL", conflicts_with = "certificate_oidc_issuer_regexp")]
    pub certificate_oidc_issuer: Option<String>,
    /// Regular expression that the whole issuer matches.
    #[arg(long, value_name = "PATTERN")]
    pub certificate_oidc_issuer_regexp: Option<String>,
    /// Sigstore trusted root (trusted_root.json); for an identity, that of the public Sigstore instance when absent.
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
